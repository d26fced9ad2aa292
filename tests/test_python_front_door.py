"""The snippets of the docs run as they stand; importing costs nothing; messages go to a logger, not to the screen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import aerosurrogate

ROOT = Path(__file__).parents[1]


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


@pytest.mark.parametrize("page", ["python.md"])
def test_snippets_run_in_order_and_print_only_what_they_print(page, tmp_path):
    (tmp_path / "sample_meshes").symlink_to(ROOT / "sample_meshes")
    program = "\n".join(snippets(page))
    assert program.count("aero.") >= 6
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "Cd 0." in result.stdout
    assert "no_such_car.stl" in result.stdout


def test_every_name_of_the_front_door_is_there_and_documented():
    text = (ROOT / "docs" / "python.md").read_text()
    for name in aerosurrogate.__all__:
        thing = getattr(aerosurrogate, name)
        assert name == "__version__" or thing.__doc__, name
        if name[0].islower() and not name.startswith("_"):
            assert f"aero.{name}(" in text, name
    with pytest.raises(AttributeError, match="no_such_name"):
        aerosurrogate.no_such_name  # noqa: B018


def test_the_import_loads_nothing_heavy():
    code = "import sys, aerosurrogate; print([m for m in ('torch', 'pyvista', 'scipy', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_notes_reach_the_logger_of_a_library_user_and_the_stderr_of_the_command_line(tmp_path):
    stl = ROOT / "sample_meshes" / "naca_2412.dat"
    code = """
import io, logging
heard = io.StringIO()
logging.getLogger("aerosurrogate").addHandler(logging.StreamHandler(heard))
logging.getLogger("aerosurrogate").setLevel(logging.INFO)
from aerosurrogate import console
console.note("said quietly"); console.warn("said louder")
assert heard.getvalue() == "said quietly\\nsaid louder\\n", heard.getvalue()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), result.stderr
    line = [sys.executable, "-m", "aerosurrogate", "coeffs", str(stl), "--json"]
    assert "assumed:" in subprocess.run(line, capture_output=True, text=True, cwd=tmp_path).stderr
