"""The local page: files are dropped, ranked, viewed and saved in a browser; nobody else is let in."""

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pyvista as pv
from browser import Browser, needs_chromium, until
from small_models import save_small

BOX = (-2, 2, -0.8, 0.8, 0.2)


class Served:
    """A server in a process of its own, as a user starts it."""

    def __init__(self, model: str) -> None:
        command = [sys.executable, "-m", "aerosurrogate", "serve", "--no-open", "--model", model, "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{20,})/", self.address)
        assert found, self.process.stderr.read()
        self.port, self.word = int(found[1]), found[2]

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict]:
        """Status and JSON of a request; the path is sent as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in ({"Content_Length": str(len(body or b""))} | headers).items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else {"": text}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("serve")
    for name, height in (("low", 1.2), ("high", 1.6)):
        pv.Box((*BOX, height), level=2).triangulate().save(place / f"{name}.stl")
    return place


@pytest.fixture(scope="module")
def served(folder) -> Iterator[Served]:
    server = Served(save_small(folder, 3))
    yield server
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=60) == 0
    assert "Traceback" not in server.process.stderr.read()


def test_only_its_own_page_is_answered(served, folder):
    page, body = f"/{served.word}/", (folder / "low.stl").read_bytes()
    assert served.ask("GET", page)[0] == 200
    for path in ("/", "/guess/", f"/{served.word[:-1]}x/", f"{page}nothing"):
        assert served.ask("GET", path)[0] == 404, path
    assert served.ask("GET", page, Host=f"evil.example:{served.port}")[0] == 403  # a name that leads here by DNS
    assert served.ask("PUT", f"{page}files/low.stl", body, Origin="http://evil.example")[0] == 403
    assert served.ask("POST", f"{page}rank", b"{}", Origin="null")[0] == 403
    sockets = Path(f"/proc/{served.process.pid}/net/tcp")
    if sockets.exists():  # 0100007F is 127.0.0.1
        lines = [line.split()[1] for line in sockets.read_text().splitlines()[1:]]
        assert f"0100007F:{served.port:04X}" in lines
        assert f"00000000:{served.port:04X}" not in lines


def test_files_keep_to_their_folder_and_to_their_size(served, folder):
    page, body = f"/{served.word}/", (folder / "low.stl").read_bytes()
    for name, kept in (
        ("..%2F..%2Fescape.stl", "escape.stl"),
        ("%2Fetc%2Fhidden.stl", "hidden.stl"),
        ("..%5Cback.stl", "back.stl"),
        ("a%00b%0A%3Cb%3E.stl", "a_b_b_.stl"),
    ):
        status, answer = served.ask("PUT", f"{page}files/{name}", body)
        assert (status, answer["name"]) == (200, kept)
        assert served.ask("DELETE", f"{page}files/{answer['name']}")[1]["files"] == []
    for name in ("passwd", "page.html", ".stl", "%2E%2E", ""):
        assert served.ask("PUT", f"{page}files/{name}", body)[0] == 415, name
    assert served.ask("PUT", f"{page}files/huge.stl", None, Content_Length="900000000")[0] == 413
    assert served.ask("PUT", f"{page}files/open.stl", None, Content_Length="many")[0] == 411
    assert served.ask("POST", f"{page}rank", b"{}")[0] == 422  # nothing to rank
    served.ask("PUT", f"{page}files/broken.stl", b"solid nothing")
    status, answer = served.ask("POST", f"{page}rank", b'{"speed": "fast"}')
    assert (status, "not a number" in answer["error"]) == (422, True)
    status, answer = served.ask("POST", f"{page}rank", b"{}")
    assert status == 422
    assert answer["error"].startswith("broken.stl: ")  # the folder is nobody's business
    huge = pv.Box((-2000, 2000, -800, 800, 200, 1500)).triangulate()
    huge.save(folder / "mm.stl")
    served.ask("PUT", f"{page}files/low.stl", body)
    served.ask("PUT", f"{page}files/mm.stl", (folder / "mm.stl").read_bytes())
    failed = served.ask("POST", f"{page}rank", b"{}")[1]["failed"]
    assert sorted(failed) == ["broken.stl", "mm.stl"]
    assert "pass units mm" in failed["mm.stl"]  # a field of the page, not an option
    for name in ("broken", "low", "mm"):
        served.ask("DELETE", f"{page}files/{name}.stl")


@needs_chromium
def test_a_browser_drops_ranks_views_compares_and_saves(served, folder, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(served.address)
        browser.drop("#drop", [folder / "low.stl", folder / "high.stl"])
        inside = "document.querySelector('iframe').contentDocument"
        rows = f"[...({inside}?.querySelectorAll('table.ranking td.name') ?? [])].map(c => c.textContent).sort().join()"
        browser.wait(f"{rows} === 'high,low'")
        browser.wait(f"{inside}.querySelectorAll('.stage .plot-container').length === 1")
        browser.run(f"{inside}.querySelectorAll('button[data-pane=\"1\"]')[1].click()")
        browser.wait(f"{inside}.querySelectorAll('.stage .plot-container').length === 2")
        browser.run(f"{inside}.querySelector('a[download]').click()")
        saved = until(lambda: next(tmp_path.glob("*.csv"), None), "the download of the table")
        assert len(saved.read_text().splitlines()) == 3
        # At another speed, and with one file gone, the ranking is made anew.
        browser.run("document.querySelector('#files button[title=\"Remove high.stl\"]').click()")
        browser.run(
            "document.querySelector('[name=speed]').value = '25'; document.querySelector('form').requestSubmit()"
        )
        browser.wait(f"{rows} === 'low' && {inside}.body.textContent.includes('25 m/s')")
        asked = "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))"
        assert browser.run(asked)
        assert browser.errors == []
    served.ask("DELETE", f"/{served.word}/files/low.stl")


def test_a_taken_port_is_said_in_one_message(served):
    command = [sys.executable, "-m", "aerosurrogate", "serve", "--no-open", "--port", str(served.port)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "cannot listen" in result.stderr
