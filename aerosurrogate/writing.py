"""Files that appear whole or not at all."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aerosurrogate.errors import InputError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; renamed to `path` when the block ends well.

    An exception or a kill leaves `path` as it was. The temporary name keeps the extension, because many
    writers choose their format by it. A full disk or a folder without permission is the user's to mend, and said so.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EACCES,
            errno.EROFS,
            errno.ENOTDIR,
            errno.EEXIST,
            errno.EISDIR,
        ):
            raise InputError(
                f"cannot write ({os.strerror(error.errno)})",
                seen=path,
                remedy="free some space or choose another place to write to",
            ) from error
        raise
    finally:
        with contextlib.suppress(NotADirectoryError):  # where the folder is a file, as said above
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
