"""How far a recording is: a bar for who watches a terminal, lines for a file and for programs that read it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINES = 100
"""At most so many of a whole recording."""


@contextmanager
def record_progress(seconds: float, console: Console) -> Iterator[Callable[[float], None]]:
    """What is yielded is told the second of the drive that is on disk."""
    if not console.is_terminal:
        yield _lines(seconds, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:g} of {task.total:g} s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("recording", total=seconds)
        yield lambda second: progress.update(task, completed=second)


def _lines(seconds: float, console: Console) -> Callable[[float], None]:
    """`12 of 600 s`, from time to time."""
    due = 0.0

    def show(second: float) -> None:
        nonlocal due
        if second >= min(due, seconds):
            console.print(f"{second:g} of {seconds:g} s", highlight=False)
            due = second + seconds / _LINES

    return show
