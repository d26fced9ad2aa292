"""What several tests share: real data made by others, one thread a test process, the same examples in every run."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)  # others are tried by --hypothesis-profile default
settings.load_profile("repeatable")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs one process a core
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as where a shell runs the suite in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or no process that a test starts could be interrupted
os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels for graphics processors run without one


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real files made by others, where it is at hand."""
    folder = Path(__file__).parents[1] / ".." / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the folder ../shared/data, which is not part of the repository")
    return folder.resolve()


@pytest.fixture(autouse=True)
def _a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go where a fresh process would send them: a command that an earlier test ran in this one set them."""
    from aerosurrogate import console

    monkeypatch.setattr(console, "_on_command_line", False)
    monkeypatch.setattr(console, "_quiet", False)
