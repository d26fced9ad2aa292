"""Many tasks at once.

`each` shares designs among the threads of a process and the processes of a torchrun launch: the model is loaded once.
`each_by_processes` and `over_processes` share ranking, reading, thinning and solving among processes of their own,
where none waits for Python's lock and one that dies takes only its own task with it. Pictures are drawn elsewhere, in
one process that stays and that OpenGL may take down (viz/render.py).
"""

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from multiprocessing import forkserver
from typing import NoReturn, TypeVar

from aerosurrogate import console
from aerosurrogate.errors import InputError

PATIENCE = timedelta(days=1)  # of a process for the slowest one; torchrun ends all if one dies
Task = TypeVar("Task")
Answer = TypeVar("Answer")

READING = tuple(f"aerosurrogate.data.{name}" for name in ("prepare", "thinning", "readers.vtk"))  # and all they import


def refuse_all(failed: Mapping[str, str]) -> NoReturn:
    """For a call of which no file could be used: the reason, or the reasons above a count."""
    if len(failed) == 1:
        raise InputError(next(iter(failed.values())))
    console.left_out(failed)
    raise InputError(f"none of {len(failed)} designs could be used", remedy="see the warnings above")


def cores() -> int:
    """That this process may use: fewer than the machine has where it was bound to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers(files: Sequence[str], jobs: int | None) -> int:
    """How many files a process works on at a time."""
    return max(1, min(jobs or cores(), len(files)))


def threads_each(at_once: int) -> int:
    """Threads for each of so many tasks: together one a core, and no more than OMP_NUM_THREADS says."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores() // at_once, int(said) if said.isdecimal() else cores()))


def each(
    files: Sequence[str], work: Callable[[str], Answer], title: str, jobs: int | None = None
) -> tuple[dict[str, Answer], dict[str, str]]:
    """Do `work` for each file, as `in_batches` does for several."""

    def alone(part: Sequence[str]) -> list[Answer | InputError]:
        try:
            return [work(part[0])]
        except InputError as error:
            return [error]

    return in_batches(files, alone, title, 1, jobs)


def in_batches(
    files: Sequence[str],
    work: Callable[[Sequence[str]], Sequence[Answer | InputError]],
    title: str,
    size: int,
    jobs: int | None = None,
) -> tuple[dict[str, Answer], dict[str, str]]:
    """Do `work` for `size` files at a time, on all cores; the answers in the files' order, and why some have none.

    Launched by torchrun, each process takes its share of the files; the first one gets all answers and goes on, the
    others have done their part and end.
    """
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if rank > 0:
        console.be_quiet(True)
    if count > 1:  # while all are there: one that has little to do may be done long before the others
        _meet()
    done, failed = _in_threads(files[rank::count], work, title, size, jobs)
    if count > 1:
        done, failed = _gathered(done, failed, rank, count)
    return _in_order(files, done, failed)


def each_by_processes(
    files: Sequence[str],
    work: Callable[[str], Answer | InputError],
    title: str,
    jobs: int | None = None,
    loaded: Sequence[str] = READING,
) -> tuple[dict[str, Answer], dict[str, str]]:
    """As `each`, by processes, which start with the modules `loaded`: for work that holds Python's lock.

    `work` is a function of a module. The processes import the program's main module: only for one that bears it, as
    the command line's does.
    """
    done: dict[str, Answer] = {}
    failed: dict[str, str] = {}
    with console.progress(title, len(files), unit=title) as advance:
        for file, answer in over_processes(work, list(files), jobs, loaded=loaded):
            if answer is None:
                failed[file] = str(InputError(f"{file}: ended the process that read it", remedy="export it again"))
            elif isinstance(answer, InputError):
                failed[file] = str(answer)
            else:
                done[file] = answer
            advance()
    return _in_order(files, done, failed)


def _in_order(
    files: Sequence[str], done: dict[str, Answer], failed: dict[str, str]
) -> tuple[dict[str, Answer], dict[str, str]]:
    return {file: done[file] for file in files if file in done}, {f: failed[f] for f in files if f in failed}


def _in_threads(
    files: Sequence[str],
    work: Callable[[Sequence[str]], Sequence[Answer | InputError]],
    title: str,
    size: int,
    jobs: int | None,
) -> tuple[dict[str, Answer], dict[str, str]]:
    done: dict[str, Answer] = {}
    failed: dict[str, str] = {}
    # libigl would start a thread a core in each of our threads; it looks here when it is first called.
    os.environ.setdefault("IGL_NUM_THREADS", str(threads_each(workers(files, jobs))))
    with ThreadPoolExecutor(workers(files, jobs)) as pool, console.progress(title, len(files), unit=title) as advance:
        parts = [files[start : start + size] for start in range(0, len(files), size)]
        running = {pool.submit(work, part): part for part in parts}
        try:
            for future in as_completed(running):
                for file, answer in zip(running[future], future.result(), strict=True):
                    if isinstance(answer, InputError):
                        failed[file] = str(answer)
                    else:
                        done[file] = answer
                    advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done, failed


def _meet() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=PATIENCE)


def _gathered(
    done: dict[str, Answer], failed: dict[str, str], rank: int, count: int
) -> tuple[dict[str, Answer], dict[str, str]]:
    import torch.distributed as dist

    shares: list[tuple[dict[str, Answer], dict[str, str]]] | None = [({}, {})] * count if rank == 0 else None
    dist.gather_object((done, failed), shares)
    dist.destroy_process_group()
    if shares is None:
        raise SystemExit(0)
    every, reasons = zip(*shares, strict=True)
    return {k: v for part in every for k, v in part.items()}, {k: v for part in reasons for k, v in part.items()}


def one_thread() -> None:
    """Processes share the cores; threads inside each would only be in each other's way."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "IGL_NUM_THREADS"), "1"))


def over_processes(
    work: Callable[[Task], Answer],
    tasks: list[Task],
    jobs: int | None = None,
    begin: Callable[[], None] = one_thread,
    loaded: Sequence[str] = READING,
) -> Iterator[tuple[Task, Answer | None]]:
    """(task, work(task)) for every task as they are done, on `jobs` processes (all cores unless said).

    The answer is None for a task that ended its process, as a crash inside a library does: the few tasks that were
    under way beside it are then done again, one by one. Whatever ends this early ends the processes too. `work`, and
    `begin`, which each process calls first, must be functions of a module. The first call of a program decides which
    modules its processes have `loaded` when they start.
    """
    jobs = min(jobs or cores(), max(len(tasks), 1))
    waiting = list(reversed(tasks))
    while waiting:
        suspects: list[Task] = []
        with _pool(jobs, begin, loaded) as pool:
            under_way: dict[Future[Answer], Task] = {}
            while (waiting and not suspects) or under_way:
                while waiting and not suspects and len(under_way) < 2 * jobs:
                    try:
                        under_way[pool.submit(work, waiting[-1])] = waiting[-1]
                    except BrokenProcessPool:  # since a moment ago: those under way will say so
                        if not under_way:
                            raise
                        break
                    waiting.pop()
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    task = under_way.pop(future)
                    try:
                        yield task, future.result()
                    except BrokenProcessPool:
                        suspects.append(task)
        for task in suspects:
            yield task, _alone(work, task, begin, loaded)


def _alone(
    work: Callable[[Task], Answer], task: Task, begin: Callable[[], None], loaded: Sequence[str]
) -> Answer | None:
    with _pool(1, begin, loaded) as pool:
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            return None


def get_ready(loaded: Sequence[str]) -> None:
    """Have the modules loaded that processes start with, while this one goes on."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.get_context("forkserver").set_forkserver_preload(list(loaded))
        forkserver.ensure_running()


@contextlib.contextmanager
def _pool(jobs: int, begin: Callable[[], None], loaded: Sequence[str]) -> Iterator[ProcessPoolExecutor]:
    """Processes forked from a small server that has the libraries loaded and no threads that a fork could cut."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    get_ready(loaded)
    with ProcessPoolExecutor(jobs, context, initializer=begin) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
