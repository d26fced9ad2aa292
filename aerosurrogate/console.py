"""What is said to a person: on the command line always on stderr, so that stdout holds results alone.

Used as a library, the same messages go to the logger `aerosurrogate`, and nothing is printed.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)  # 1:x:2 is no cross
_out = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160)  # a pipe folds nothing
_log = logging.getLogger("aerosurrogate")
_log.addHandler(logging.NullHandler())  # silent unless whoever imports us asks to hear
_on_command_line = False
_quiet = False
_SECONDS_BETWEEN_LINES = 10.0  # plain progress lines in a log: often enough to watch, rare enough to read


def on_command_line() -> None:
    """From now on messages are for the person at the terminal."""
    global _on_command_line
    _on_command_line = True


def be_quiet(quiet: bool) -> None:
    """Silence notes and progress for this process; warnings and errors still show."""
    global _quiet
    _quiet = quiet


def note(text: str) -> None:
    if not _on_command_line:
        _log.info(text)
    elif not _quiet:
        _err.print(text, markup=False)


def result(text: str) -> None:
    """A line of the command's result, on stdout at once."""
    print(text, flush=True)


@contextlib.contextmanager
def resumable(how: str) -> Iterator[None]:
    """Long work that can be stopped: whoever does so is told how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted; {how}")
        raise


def warn(text: str) -> None:
    if not _on_command_line:
        _log.warning(text)
        return
    _err.print(f"warning: {text}", markup=False, style="yellow")


def few(names: Iterable[str], most: int = 10) -> str:
    """A list for a sentence: the first names, and how many there are where they are more."""
    names = list(names)
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def left_out(reasons: Mapping[str, str], most: int = 10) -> None:
    """Warn of files that could not be used, each with its reason; beyond the first ones only how many."""
    for file in list(reasons)[:most]:
        warn(f"{file} left out: {reasons[file].removeprefix(f'{file}: ')}")
    if len(reasons) > most:
        warn(f"and {len(reasons) - most} more, {len(reasons)} in all; --json names them with their reasons")


def error(text: str) -> None:
    _err.print(f"error: {text}", markup=False, style="red")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, results: bool = False) -> None:
    """Show a table: on stdout if it is the command's result, else as a note on stderr."""
    if not results and (_quiet or not _on_command_line):
        return
    view = Table(title=title or None, title_justify="left", header_style="bold")
    lines = [[str(cell) for cell in row] for row in rows]
    for i, column in enumerate(columns):
        number = i > 0 and all(len(line[i]) <= 10 for line in lines)  # cut in two it could not be read
        view.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=number)
    for line in lines:
        view.add_row(*line)
    (_out if results else _err).print(view)


@contextlib.contextmanager
def progress(title: str, total: int, done: int = 0, unit: str = "") -> Iterator[Callable[..., None]]:
    """Show how far a job is, its rate and the time left; yields `advance(steps=1, **figures)`.

    On a terminal a bar, elsewhere a plain line now and then. `figures` (loss=..., rate=...) are shown beside it.
    """
    start, first = time.monotonic(), done
    count, last_line = done, start

    def figures_text(figures: dict[str, object]) -> str:
        rate = (count - first) / max(time.monotonic() - start, 1e-9)
        shown = {**figures, f"{unit or 'steps'}/s": f"{rate:.3g}"}
        return "  ".join(f"{name} {value}" for name, value in shown.items())

    if _quiet:
        yield lambda steps=1, **figures: None
    elif _on_command_line and sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=_err) as bar:
            task = bar.add_task(title, total=total, completed=done, figures="")

            def advance_bar(steps: int = 1, **figures: object) -> None:
                nonlocal count
                count += steps
                bar.update(task, completed=count, figures=figures_text(figures))

            yield advance_bar
    else:

        def advance_line(steps: int = 1, **figures: object) -> None:
            nonlocal count, last_line
            count += steps
            now = time.monotonic()
            if count >= total or now - last_line > _SECONDS_BETWEEN_LINES:
                last_line = now
                left = (now - start) / max(count - first, 1) * (total - count)
                note(f"{title} {count}/{total}  {figures_text(figures)}  {left:.0f} s left")

        yield advance_line
