"""A headless Chromium that tests drive over its own pipe: no driver and no network."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --use-angle=swiftshader --enable-unsafe-swiftshader --no-first-run"
    " --disable-background-networking --remote-debugging-pipe"
)


class Browser:
    """One page; messages of the DevTools protocol go through two pipes, each ending with a zero byte."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 900) -> None:
        inward, self._write = os.pipe()
        self._read, outward = os.pipe()
        command = (
            f"exec {CHROMIUM} {_OPTIONS} --user-data-dir={folder / 'profile'} about:blank 3<&{inward} 4>&{outward}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(inward, outward), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(inward)
        os.close(outward)
        self._numbers, self._rest, self.errors = itertools.count(1), b"", []  # type: ignore[var-annotated]
        self._session = None
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "DOM"):
            self.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"])
            if answer.get("method") == "Runtime.consoleAPICalled" and answer["params"]["type"] == "error":
                self.errors.append(answer["params"]["args"])
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, address: str) -> None:
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 90.0) -> Any:
        """Wait until an expression is true, and return its value."""
        return until(lambda: self.run(script), script, seconds)

    def drop(self, selector: str, files: list[Path]) -> None:
        """Drop files on an element as a hand would."""
        box = f"document.querySelector({selector!r}).getBoundingClientRect()"
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box})")
        data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.send("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


def until(found: Callable[[], Any], words: str, seconds: float = 90.0) -> Any:
    """Ask again and again until there is an answer."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"never happened: {words}"
        time.sleep(0.1)
    return value
