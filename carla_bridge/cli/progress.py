"""How far a long command is: a bar on a terminal, lines for a file and for programs that read it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PROGRESS_LINES = 100
"""Most lines of a whole command."""


@contextmanager
def progress(what: str, total: float, unit: str, console: "Console") -> "Iterator[Callable[[float], None]]":
    """Call what it yields with the amount that is done and on disk."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    if not console.is_terminal:
        yield _lines(total, unit, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:g}} of {{task.total:g}} {unit}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, completed=done)


def _lines(total: float, unit: str, console: "Console") -> Callable[[float], None]:
    """Prints `12 of 600 s` from time to time."""
    due = 0.0

    def show(done: float) -> None:
        nonlocal due
        if done >= min(due, total):
            console.print(f"{done:g} of {total:g} {unit}", highlight=False)
            due = done + total / PROGRESS_LINES

    return show
