"""`carla-bridge stats`: summarises snippets."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from carla_bridge.cli.options import report_errors


@click.command()
@click.argument("snippets", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Directory for stats.json and stats.png.")
@click.option("--skip-faults", is_flag=True, help="Skip broken images and boxes instead of ending with an error.")
@report_errors
def stats(snippets: tuple[Path, ...], out: Path | None, skip_faults: bool) -> None:
    """Summarise snippets: boxes per class and domain, their sizes, empty frames.

    Prints a table; with --out it also writes JSON and a plot.
    """
    from rich.console import Console
    from rich.table import Table

    from carla_bridge.snippets import SnippetSource, find_snippets
    from carla_bridge.snippets.statistics import plot, summarise

    source = SnippetSource(find_snippets(*snippets), on_error="skip" if skip_faults else "refuse")
    domains = summarise(source)
    for name, domain in domains.items():
        table = Table(title=f"{name}: {domain.frames} frames, {domain.empty_frames} empty")
        table.add_column("class", no_wrap=True)
        for column in ("boxes", "per frame", "median size", "small", "medium", "large", "cut off"):
            table.add_column(column, justify="right")
        for label, entry in domain.classes.items():
            shares = (f"{share:.0%}" for share in (entry.small, entry.medium, entry.large, entry.truncated))
            size = f"{entry.median_width:.0f} x {entry.median_height:.0f}"
            table.add_row(label, str(entry.boxes), f"{entry.per_frame:.2f}", size, *shares)
        Console().print(table)
    for fault in source.skipped:
        click.echo(f"skipped: {fault}", err=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        findings = {name: asdict(domain) for name, domain in domains.items()}
        (out / "stats.json").write_text(json.dumps(findings, indent=1) + "\n")
        plot(source, domains, out / "stats.png")
        click.echo(f"{out / 'stats.json'} and {out / 'stats.png'}")
