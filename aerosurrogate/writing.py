"""Files that appear whole or not at all, in folders that one run at a time writes into."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aerosurrogate.errors import InputError

USERS = (  # what the user can mend
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
)


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
        raise _told(error, path) from error
    finally:
        with contextlib.suppress(NotADirectoryError):  # where the folder is a file, as said above
            temporary.unlink(missing_ok=True)


def _told(error: OSError, path: Path) -> Exception:
    """What kept `path` from being written, as an InputError where it is the user's to mend."""
    if error.errno not in USERS:
        return error
    remedy = "free some space or choose another place to write to"
    return InputError(f"cannot write ({os.strerror(error.errno)})", seen=path, remedy=remedy)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder for this process: two runs that write into one would undo each other's work.

    The lock is the system's, on the folder itself: it leaves no file behind and ends with the process, however that
    ends. Where the system or the file system knows no such locks, there is none. A folder that was made for this and is
    still empty in the end goes again; one that cannot be made is told before any work is done for it.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _told(error, folder) from error
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # no locks, or a folder that may be written into but not looked into
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            "another run is writing into this folder",
            seen=folder,
            remedy="wait until it has ended, or give another --out",
        ) from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()
        os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
