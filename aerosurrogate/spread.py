"""Many designs at once: over the threads of a process, and over the processes of a torchrun launch."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from aerosurrogate import console
from aerosurrogate.errors import InputError

SHAPES = (".stl", ".obj", ".ply", ".off", ".vtp", ".vtu", ".vtk", ".dat")
Answer = TypeVar("Answer")


def expanded(files: Sequence[str]) -> list[str]:
    """The files once each, a folder of them replaced by what it holds; OpenFOAM cases stay as they are."""
    found: list[str] = []
    for file in files:
        folder = Path(file)
        if folder.is_dir() and not (folder / "system").is_dir():
            inside = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SHAPES)
            if not inside:
                raise InputError("no shapes in this folder", seen=file, remedy=f"put {', '.join(SHAPES)} files there")
            found += inside
        else:
            found.append(file)
    return list(dict.fromkeys(found))


def workers(files: Sequence[str], jobs: int | None) -> int:
    """How many files a process works on at a time."""
    return max(1, min(jobs or os.cpu_count() or 1, len(files)))


def own_device(device: str) -> str:
    """Of the GPUs of a machine, the one that belongs to this process of a launch."""
    import torch

    if device in ("auto", "cuda") and "LOCAL_RANK" in os.environ and torch.cuda.is_available():
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return device


def each(
    files: Sequence[str], work: Callable[[str], Answer], title: str, jobs: int | None = None
) -> tuple[dict[str, Answer], dict[str, str]]:
    """Do `work` for each file, on all cores; the answers in the files' order, and why some have none.

    Launched by torchrun, each process takes its share of the files; the first one gets all answers and goes on, the
    others have done their part and end.
    """
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if rank > 0:
        console.be_quiet(True)
    done, failed = _in_threads(files[rank::count], work, title, jobs)
    if count > 1:
        done, failed = _gathered(done, failed, rank, count)
    return {file: done[file] for file in files if file in done}, {f: failed[f] for f in files if f in failed}


def _in_threads(
    files: Sequence[str], work: Callable[[str], Answer], title: str, jobs: int | None
) -> tuple[dict[str, Answer], dict[str, str]]:
    done: dict[str, Answer] = {}
    failed: dict[str, str] = {}
    # libigl would start a thread a core in each of our threads; it looks here when it is first called.
    os.environ.setdefault("IGL_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers(files, jobs))))
    with ThreadPoolExecutor(workers(files, jobs)) as pool, console.progress(title, len(files), unit=title) as advance:
        running = {pool.submit(work, file): file for file in files}
        try:
            for future in as_completed(running):
                file = running[future]
                try:
                    done[file] = future.result()
                except InputError as error:
                    failed[file] = str(error)
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done, failed


def _gathered(
    done: dict[str, Answer], failed: dict[str, str], rank: int, count: int
) -> tuple[dict[str, Answer], dict[str, str]]:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    shares: list[tuple[dict[str, Answer], dict[str, str]]] | None = [({}, {})] * count if rank == 0 else None
    dist.gather_object((done, failed), shares)
    dist.destroy_process_group()
    if shares is None:
        raise SystemExit(0)
    every, reasons = zip(*shares, strict=True)
    return {k: v for part in every for k, v in part.items()}, {k: v for part in reasons for k, v in part.items()}
