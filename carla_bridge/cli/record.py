"""`carla-bridge record`: records driving snippets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from carla_bridge.cli.options import fleet_config, report_errors, server_options

if TYPE_CHECKING:
    from rich.console import Console

PROGRESS_LINES = 100
"""Longest log of a whole recording."""


@click.command()
@server_options
@click.option("--vehicles", type=click.IntRange(1, 32), help="Number of vehicles; replaces the vehicles of the plan.")
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), required=True, help="Simulation seconds to drive."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory for the snippets.")
@click.option("--frames-per-second", type=float, help="Frames per simulation second.")
@click.option("--seed", type=int, help="Seed of vehicles, traffic and places.")
@click.option(
    "--jpeg-quality",
    type=click.IntRange(1, 100),
    help="Write JPEG of this quality; the default is PNG, which loses nothing.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted recording in the same directory.")
@report_errors
def record(
    plan: Path | None,
    host: str | None,
    port: int | None,
    simulator: str | None,
    vehicles: int | None,
    seconds: float,
    out: Path,
    frames_per_second: float | None,
    seed: int | None,
    jpeg_quality: int | None,
    resume: bool,
) -> None:
    """Drive and record every vehicle's annotated frames as snippets, one per stay in a region."""
    from rich.console import Console

    from carla_bridge.fleet_process.recorder import record as record_drive

    named = [{"name": f"vehicle_{number}"} for number in range(1, vehicles + 1)] if vehicles else None
    config = fleet_config(plan, host, port, simulator, vehicles=named, frames_per_second=frames_per_second, seed=seed)
    console = Console(stderr=True)
    with _progress(seconds, console) as show:
        done = record_drive(
            config,
            out,
            seconds,
            jpeg_quality=jpeg_quality,
            resume=resume,
            on_frame=lambda frame: show(frame.timestamp),
            on_event=lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True),
            on_repeat=show,
        )
        show(seconds)
    for vehicle, domains in done.frames.items():
        parts = ", ".join(f"{count} in {domain}" for domain, count in domains.items())
        click.echo(f"{vehicle}: {parts}")
    click.echo(
        f"{done.boxes} boxes, {len(done.gaps)} gaps, {done.wall_seconds:g} s; summary in {out / 'recording.json'}"
    )


@contextmanager
def _progress(seconds: float, console: "Console") -> "Iterator[Callable[[float], None]]":
    """A bar on a terminal, lines for a file and for programs that read it.

    Call what it yields with the second of the drive up to which all is on disk.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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


def _lines(seconds: float, console: "Console") -> Callable[[float], None]:
    """Prints `12 of 600 s` from time to time."""
    due = 0.0

    def show(second: float) -> None:
        nonlocal due
        if second >= min(due, seconds):
            console.print(f"{second:g} of {seconds:g} s", highlight=False)
            due = second + seconds / PROGRESS_LINES

    return show
