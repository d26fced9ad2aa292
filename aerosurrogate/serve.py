"""A page on the loopback address where shapes are dropped, ranked, turned around and compared.

Nothing leaves the machine: the server listens to the machine itself, and the page may ask nobody else. Other pages in
the same browser cannot reach it, because its address holds a random word, and because requests that name another host
or come from another origin are refused. Files are taken up to a size, under plain names, into a folder that goes again.
"""

import json
import re
import secrets
import tempfile
import threading
import traceback
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aerosurrogate import console, report
from aerosurrogate.coeffs import CoeffsOptions, Ranking, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.files import SHAPES

HOST = "127.0.0.1"
MOST_BYTES = 300_000_000  # of one file
MOST_FILES = 300
_NUMBERS = ("speed", "reynolds", "alpha", "density", "viscosity")
_WORDS = ("flow", "up", "ground", "units")
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


class RefusedError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class Workshop:
    """The uploaded files, and the ranking of them."""

    def __init__(self, folder: Path, settings: CoeffsOptions) -> None:
        self.folder, self.settings = folder, settings
        self.ranking: Ranking | None = None
        self._one_at_a_time = threading.Lock()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))

    def place(self, name: str) -> Path:
        """Where a file of this name goes: always into the folder, under a plain name."""
        plain = re.sub(r"[^\w .()+-]+", "_", Path(name.replace("\\", "/")).name).strip(" .")
        if Path(plain).suffix.lower() not in SHAPES:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"not one of {', '.join(SHAPES)}")
        return self.folder / plain[-120:]

    def rank(self, stream: StreamOptions) -> dict[str, Any]:
        """Rank all files; the document of the command line's `--json`."""
        if not (names := self.files()):
            raise InputError("no shapes yet", remedy="drop some files first")
        with self._one_at_a_time:
            ranking = coeffs([str(self.folder / name) for name in names], replace(self.settings, stream=stream))
            ranking.failed = {Path(file).name: self.on_page(reason) for file, reason in ranking.failed.items()}
            self.ranking = ranking
        return ranking.document()

    def on_page(self, reason: str) -> str:
        """A reason in the page's words: files have no folder there, and options are fields of a form."""
        return re.sub(r"--([a-z]+)", r"\1", reason.replace(f"{self.folder}/", ""))


def stream_options(said: dict[str, str]) -> StreamOptions:
    """The stream as filled in on the page; empty fields are left open."""
    unknown = set(said) - {*_NUMBERS, *_WORDS}
    if unknown:
        raise InputError("no such condition", seen=", ".join(sorted(unknown)))
    given: dict[str, Any] = {key: value.strip() for key, value in said.items() if value.strip()}
    try:
        given |= {key: float(given[key]) for key in _NUMBERS if key in given}
    except ValueError as error:
        raise InputError(f"not a number ({error})", remedy="write 30 or 2.5e6") from None
    return StreamOptions(**given)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, workshop: Workshop) -> None:
        self.workshop, self.word = workshop, secrets.token_urlsafe(16)
        super().__init__((HOST, port), _Handler)

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 120  # seconds without a byte

    def do_GET(self) -> None:
        self._answer({"": self._page, "report": self._report})

    def do_POST(self) -> None:
        self._answer({"rank": self._rank})

    def do_PUT(self) -> None:
        self._answer({"files": self._take})

    def do_DELETE(self) -> None:
        self._answer({"files": self._drop})

    def _answer(self, routes: dict[str, Any]) -> None:
        try:
            self._check_sender()
            _, word, what, *rest = (*self.path.split("?")[0].split("/"), "", "")
            if not secrets.compare_digest(word.encode(), self.server.word.encode()) or what not in routes:
                raise RefusedError(HTTPStatus.NOT_FOUND, "nothing here: use the whole address that was printed")
            routes[what](unquote(rest[0]))
        except RefusedError as refusal:
            self._send_json({"error": str(refusal)}, refusal.status)
        except InputError as error:
            self._send_json({"error": self.server.workshop.on_page(str(error))}, HTTPStatus.UNPROCESSABLE_ENTITY)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:
            traceback.print_exc()
            self._send_json({"error": f"a bug: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _check_sender(self) -> None:
        """Only this server's own page: a name that leads here from elsewhere, or another page, is refused."""
        if f"http://{self.headers.get('Host', '')}" != self.server.origin:
            raise RefusedError(HTTPStatus.FORBIDDEN, "another host's name")
        if self.headers.get("Origin", self.server.origin) != self.server.origin:
            raise RefusedError(HTTPStatus.FORBIDDEN, "another page's request")

    def _page(self, _: str) -> None:
        self._send(report.text("serve.html"), "text/html; charset=utf-8")

    def _report(self, _: str) -> None:
        from aerosurrogate.report.page import page

        if self.server.workshop.ranking is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "nothing ranked yet")
        self._send(page(self.server.workshop.ranking), "text/html; charset=utf-8")

    def _rank(self, _: str) -> None:
        try:
            said = json.loads(self._body(10_000) or b"{}")
            assert isinstance(said, dict)
            assert all(isinstance(value, str) for value in said.values())
        except (ValueError, AssertionError):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "conditions are a JSON object of texts") from None
        self._send_json(self.server.workshop.rank(stream_options(said)))

    def _take(self, name: str) -> None:
        workshop = self.server.workshop
        place = workshop.place(name)
        if len(workshop.files()) >= MOST_FILES:
            raise RefusedError(HTTPStatus.CONFLICT, f"{MOST_FILES} files are the most: remove some")
        place.write_bytes(self._body(MOST_BYTES))
        self._send_json({"name": place.name, "files": workshop.files()})

    def _drop(self, name: str) -> None:
        self.server.workshop.place(name).unlink(missing_ok=True)
        self._send_json({"files": self.server.workshop.files()})

    def _body(self, most: int) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the length is missing")
        if int(length) > most:
            self.close_connection = True  # the rest is not read
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"larger than {most / 1e6:g} MB")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the sender stopped half-way")
        return body

    def _send_json(self, document: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        if status != HTTPStatus.OK:
            self.close_connection = True  # a body that was not read would be taken for the next request
        self._send(json.dumps(document), "application/json", status)

    def _send(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", _POLICY),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        """Silence: the page says what happens."""


def serve(settings: CoeffsOptions, port: int = 0, *, open_page: bool = True) -> None:
    """Serve the page until Ctrl-C."""
    if settings.model is not None:
        from aerosurrogate.surrogate import find_model

        find_model(settings.model)
    with tempfile.TemporaryDirectory(prefix="aerosurrogate-") as folder:
        try:
            server = _Server(port, Workshop(Path(folder), settings))
        except OSError as error:
            remedy = "give another --port, or none"
            raise InputError(f"cannot listen ({error.strerror})", seen=f"--port {port}", remedy=remedy) from None
        address = f"{server.origin}/{server.word}/"
        console.result(address)
        console.note("files stay on this machine and go when this ends; Ctrl-C ends it")
        if open_page:
            import webbrowser

            webbrowser.open(address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            console.note("ended; the files are removed")
        finally:
            server.server_close()
