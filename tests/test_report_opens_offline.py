"""The report is one file that a browser opens without a network: it renders, sorts, and raises no errors."""

import re
import zipfile
from pathlib import Path

import pytest
import pyvista as pv
from browser import Browser, needs_chromium, until
from small_models import save_small

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.report.page import write_report


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
    assert len(re.findall("<img src='data:image/webp;base64,", text)) == 6  # front and rear of each
    assert text.count("class=figure data-file=") == 3
    assert report.stat().st_size < 8e6
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=['\"]?https?:", text)
    assert "Spearman" in text
    assert "broken &lt;b&gt;.stl" in text  # names are text, not markup
    for condition in (
        "30 m/s",
        "Reynolds number",
        "1.225 kg/m³",
        "1.5e-05 m²/s",
        "silhouette along the flow",
        "small3",
    ):
        assert condition in text.partition("<table")[0].rpartition("<h1>")[2], condition
    heads = re.findall(r"<th data-key=(\w+) tabindex=0 title='([^']+)'.*?<small>(.*?)</small>", text)
    assert {key: unit for key, _, unit in heads}["drag_n"] == "N"
    assert all(len(help) > 10 for _, help, _ in heads)
    assert not list(report.parent.glob(".*part*"))


NAMES = (
    """[...document.querySelectorAll("table.ranking tbody tr:not([hidden]) td.name")].map(c => c.textContent).join()"""
)


@needs_chromium
def test_a_browser_sorts_filters_turns_compares_and_saves(report, tmp_path):
    with Browser(tmp_path, width=700) as browser:
        browser.open(report.as_uri())
        drawn = browser.wait("document.querySelectorAll('.stage .plot-container').length")
        assert drawn == 1
        first = browser.run(NAMES)
        orders = []
        for key in ("name", "name", "cd"):
            browser.run(f"document.querySelector('th[data-key={key}]').click()")
            orders.append(browser.run(NAMES))
        assert orders == ["alpha,beta,gamma", "gamma,beta,alpha", first]
        assert browser.run("document.documentElement.scrollWidth") <= 700  # only the table itself scrolls
        browser.run("document.querySelector('input.trust').click()")
        assert browser.run(NAMES) == ""  # this model knows nothing of its training set: all are unknown
        browser.run("document.querySelector('input.trust').click()")
        # Another row on the first stage, one more beside it; turning one turns the other.
        pick = "[...document.querySelectorAll('tr[data-file]')].find(r => r.dataset.file.includes('{}'))"
        browser.run(f"{pick.format('gamma')}.querySelector('button[data-pane=\"0\"]').click()")
        browser.run(f"{pick.format('alpha')}.querySelector('button[data-pane=\"1\"]').click()")
        browser.wait("document.querySelectorAll('.stage .plot-container').length === 2")
        assert browser.run("document.querySelectorAll('tr.shown').length") == 2
        browser.wait("document.querySelectorAll('.stage')[1].dataset.bound === 'yes'")
        eye = "{'scene.camera.eye': {x: 1, y: 2, z: 0.5}}"
        browser.run(f"Plotly.relayout(document.querySelectorAll('.stage')[0], {eye}).then(() => 0)")
        browser.wait("document.querySelectorAll('.stage')[1].layout.scene.camera.eye.y === 2")
        for name in ("csv", "xlsx"):
            browser.run(f"document.querySelector('a[download$={name}]').click()")
            until(lambda name=name: next(tmp_path.glob(f"*.{name}"), None), f"the download of ranking.{name}")
        lines = (tmp_path / "ranking.csv").read_text().splitlines()
        assert lines[0].startswith("rank,name,cd,")
        assert len(lines) == 4
        with zipfile.ZipFile(tmp_path / "ranking.xlsx") as book:
            assert "gamma" in book.read("xl/sharedStrings.xml").decode()
        assert browser.errors == []
