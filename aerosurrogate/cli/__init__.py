"""The command line: parse, call the same-named function, print. Nothing heavy is imported before a command runs.

Commands live by whom they serve: designs.py, data.py, training.py.
"""

import os
import sys
from importlib import import_module

from aerosurrogate import console
from aerosurrogate.cli.app import app, debugging
from aerosurrogate.errors import InputError

__all__ = ["app", "main"]

for part in ("designs", "data", "training"):  # commands register themselves; --help lists them in this order
    import_module(f"{__name__}.{part}")


def main() -> None:
    """Entry point: exit 0 done, 1 a bug, 2 the user's input, 130 interrupted."""
    # Designs share the cores among them; numpy's own threads, one a core in each, would wait for one another. It looks
    # here when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app()
    except InputError as error:
        if debugging():
            raise
        console.error(str(error))
        sys.exit(2)
    except SystemExit as end:  # Typer's for an interrupt has this code
        if end.code != 130:
            raise
        # At once: a thread that is making a batch would abort the interpreter's own way out.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
