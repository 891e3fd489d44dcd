"""`carla-bridge record`: records driving snippets."""

from pathlib import Path

import click

from carla_bridge.cli.options import fleet_config, report_errors, server_options
from carla_bridge.cli.progress import progress


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
    with progress("recording", seconds, "s", console) as show:
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
