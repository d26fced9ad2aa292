"""Faults planted one by one into a copy of the package: the tests named beside each must notice.

    python tests/mutants.py [WORD ...]     # those whose description holds a word; all unless said

Ends with 1 where one survives. A fault whose line is no longer there is an error too: keep the list in step.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
ROOT = TESTS.parent


class Mutant(NamedTuple):
    what: str
    file: str  # below aerosurrogate/
    old: str
    new: str
    tests: str  # file of tests, and words that choose among them


def survives(mutant: Mutant, folder: Path) -> bool:
    """Whether the tests pass though the fault is there."""
    package = folder / "aerosurrogate"
    shutil.copytree(ROOT / "aerosurrogate", package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.what}: {mutant.file} holds its line {text.count(mutant.old)} times: mend the list")
    path.write_text(text.replace(mutant.old, mutant.new))
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    file, _, words = mutant.tests.partition(" ")
    line = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    line += [str(TESTS / file), *(["-k", words] if words else [])]
    # Not from the checkout: its own package would come before the copy.
    result = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    if result.returncode not in (0, 1):
        raise SystemExit(f"{mutant.what}: the tests do not run\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.returncode == 0


def main() -> None:
    words = sys.argv[1:]
    listed = [Mutant(**entry) for entry in tomllib.loads((TESTS / "mutants.toml").read_text())["mutant"]]
    chosen = [m for m in listed if not words or any(word in m.what for word in words)]
    surviving = []
    for mutant in chosen:
        with tempfile.TemporaryDirectory() as folder:
            lives = survives(mutant, Path(folder))
        surviving += [mutant.what] if lives else []
        print("SURVIVES" if lives else "noticed ", mutant.what, flush=True)
    print(f"{len(chosen) - len(surviving)} of {len(chosen)} noticed")
    sys.exit(bool(surviving))


if __name__ == "__main__":
    main()
