"""Work spread over processes, where one that dies takes only its own task with it."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_PRELOADED = [f"aerosurrogate.data.{name}" for name in ("prepare", "thinning", "readers.vtk")]  # and all they import


def spread(
    work: Callable[[Task], Answer], tasks: list[Task], jobs: int | None = None
) -> Iterator[tuple[Task, Answer | None]]:
    """(task, work(task)) for every task as they are done, on `jobs` processes (all cores unless said).

    The answer is None for a task that ended its process, as a crash inside a library does: the few tasks that were
    under way beside it are then done again, one by one. `work` must be a function of a module.
    """
    jobs = min(jobs or os.cpu_count() or 1, max(len(tasks), 1))
    waiting = list(reversed(tasks))
    while waiting:
        suspects: list[Task] = []
        with _pool(jobs) as pool:
            under_way: dict[Future[Answer], Task] = {}
            while (waiting and not suspects) or under_way:
                while waiting and not suspects and len(under_way) < 2 * jobs:
                    task = waiting.pop()
                    under_way[pool.submit(work, task)] = task
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    task = under_way.pop(future)
                    try:
                        yield task, future.result()
                    except BrokenProcessPool:
                        suspects.append(task)
        for task in suspects:
            yield task, _alone(work, task)


def _alone(work: Callable[[Task], Answer], task: Task) -> Answer | None:
    with _pool(1) as pool:
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            return None


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Processes forked from a small server that has the libraries loaded and no threads that a fork could cut."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(_PRELOADED)
    return ProcessPoolExecutor(jobs, context, initializer=_one_thread)


def _one_thread() -> None:
    """Processes share the cores; threads inside each would only be in each other's way."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "IGL_NUM_THREADS"), "1"))
