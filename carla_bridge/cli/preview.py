"""`carla-bridge preview`: draws frames with their boxes."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from carla_bridge.cli.options import fleet_config, report_errors
from carla_bridge.errors import BridgeError

if TYPE_CHECKING:
    from carla_bridge.frames import Frame


@click.command()
@click.argument("source", metavar="SNIPPET_OR_HOST")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of the contact sheet, a .png.")
@click.option("--plan", type=click.Path(path_type=Path), help="Plan for a live server.")
@click.option("--frames", type=click.IntRange(1, 1000), default=24, show_default=True, help="Frames on the sheet.")
@click.option("--columns", type=click.IntRange(1, 50), default=4, show_default=True, help="Frames in a row.")
@click.option(
    "--seconds", type=float, default=60.0, show_default=True, help="Simulation seconds to drive on a live server."
)
@report_errors
def preview(source: str, out: Path, plan: Path | None, frames: int, columns: int, seconds: float) -> None:
    """Draw a contact sheet (.png) and a film (.mp4) of frames with their boxes.

    SNIPPET_OR_HOST is the directory of a snippet or of a recording, or a live server: HOST, HOST:PORT or 'embedded'.
    The film is written next to the contact sheet.
    """
    if out.suffix != ".png":
        raise BridgeError(f"--out is {out}, but the contact sheet is a .png; give it that suffix")
    from carla_bridge.snippets.drawing import contact_sheet, draw_boxes, write_film, write_png

    shown, classes, rate = _from_disk(source) if Path(source).is_dir() else _live(source, plan, seconds)
    drawn = [draw_boxes(frame, classes) for frame in shown]
    step = max(1, len(drawn) // frames)
    write_png(out, contact_sheet(drawn[::step][:frames], columns))
    film = out.with_suffix(".mp4")
    write_film(film, drawn, rate)
    click.echo(f"{out} and {film}: {len(drawn)} frames, {sum(len(frame.boxes) for frame in shown)} boxes")


def _from_disk(source: str) -> "tuple[list[Frame], tuple[str, ...], float]":
    from carla_bridge.snippets import SnippetSource, find_snippets

    snippets = SnippetSource(find_snippets(source), on_error="skip")
    return list(snippets.frames()), snippets.classes, 4.0


def _live(source: str, plan: Path | None, seconds: float) -> "tuple[list[Frame], tuple[str, ...], float]":
    from carla_bridge.fleet_process.process import FleetProcess
    from carla_bridge.packets import decode_frame, unpack

    host, colon, port = source.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BridgeError(f"{source} is neither a folder nor HOST:PORT")
    embedded = source == "embedded"
    config = fleet_config(
        plan, None if embedded else host, int(port) if port else None, "embedded" if embedded else None
    )
    with FleetProcess(config, on_event=lambda text: click.echo(text, err=True)) as fleet:
        frames = [decode_frame(unpack(packet.packed)) for packet in fleet.packets(seconds)]
    frames.sort(key=lambda frame: (frame.vehicle, frame.timestamp))
    return frames, config.class_names, max(4.0, 1 / config.frame_seconds)
