"""The report is one file that a browser opens without a network: it renders, sorts, and raises no errors."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import pyvista as pv
from small_models import save_small

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Errors are gathered before anything else runs; the result of the clicks is left in the title.
WATCH = "<script>window.seen=[];window.onerror=m=>{seen.push(m)};console.error=m=>{seen.push(String(m))};</script>"
CLICK = """<script>addEventListener("load", () => setTimeout(() => {
  const names = () => [...document.querySelectorAll("#ranking td.name")].map(c => c.textContent).join(",");
  const head = key => document.querySelector(`th[data-key=${key}]`);
  const orders = [names()];
  for (const key of ["name", "name", "cd"]) { head(key).click(); orders.push(names()); }
  const drawn = document.querySelectorAll(".plot-container").length;
  document.title = `ORDERS ${orders.join("|")} PLOTS ${drawn} ERRORS ${seen.join(";")} END`;
}, 1500));</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for name, height in (("beta", 1.2), ("alpha", 1.6), ("gamma", 1.4)):
        pv.Box((-2, 2, -0.8, 0.8, 0.2, height), level=3).triangulate().save(folder / f"{name}.stl")
    (folder / "truth.csv").write_text("name,cd\nalpha,0.30\nbeta,0.25\ngamma,0.28\n")
    (folder / "broken <b>.stl").write_text("solid nothing")
    files = [str(path) for path in sorted(folder.glob("*.stl"))]
    ranking = coeffs(files, CoeffsOptions(model=save_small(folder, 3)), truth=folder / "truth.csv")
    write_report(ranking, folder / "report.html")
    return folder / "report.html"


def test_page_holds_table_pictures_and_plots_and_asks_for_nothing(report):
    text = report.read_text()
    assert len(re.findall("<img src='data:image/png;base64,", text)) == 3
    assert text.count("Plotly.newPlot") >= 2
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=['\"]?https?:", text)
    assert "Spearman" in text
    assert "broken &lt;b&gt;.stl" in text  # names are text, not markup
    assert "area silhouette along the flow" in text
    assert not list(report.parent.glob(".*part*"))


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_browser_renders_it_without_errors_and_sorts_the_table(report, tmp_path):
    watched = report.read_text().replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{CLICK}</body>")
    page = tmp_path / "watched.html"
    page.write_text(watched)
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader", "--virtual-time-budget=6000", f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>ORDERS (.*?) PLOTS (\d+) ERRORS (.*?) END</title>", dom)
    assert found, dom[:500]
    first, by_name, by_name_falling, by_drag = found[1].split("|")
    assert by_name == "alpha,beta,gamma"
    assert by_name_falling == "gamma,beta,alpha"
    assert by_drag == first
    assert int(found[2]) == 2
    assert found[3] == ""
