"""`carla-bridge export`: writes snippets in the format of others."""

from pathlib import Path

import click

from carla_bridge.cli.options import report_errors
from carla_bridge.cli.progress import progress


@click.command()
@click.argument("snippets", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--to", "kind", type=click.Choice(["yolo"]), required=True, help="The format to write.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory.")
@click.option(
    "--val",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of each snippet, from its end, for the validation.",
)
@click.option("--skip-faults", is_flag=True, help="Skip broken images and boxes instead of ending with an error.")
@report_errors
def export(snippets: tuple[Path, ...], kind: str, out: Path, val: float, skip_faults: bool) -> None:
    """Write snippets as a data set that other tools can train on: data.yaml, images and labels by split and domain."""
    from rich.console import Console

    from carla_bridge.datasets.exporting import export_yolo
    from carla_bridge.snippets import SnippetSource, find_snippets

    source = SnippetSource(find_snippets(*snippets), on_error="skip" if skip_faults else "refuse")
    with progress("exporting", len(source), "frames", Console(stderr=True)) as show:
        done = export_yolo(source, out, val=val, show=show)
    click.echo(f"{done.train} frames to train on, {done.val} to validate, {done.boxes} boxes: {out / 'data.yaml'}")
