"""`fedagem data`: every data set and file of weights that plans use, and what to do about those that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from fedagem.studies.data import Needed


@click.command(name="data")
@click.option("--verify", is_flag=True, help="Compare files with their published checksums; this reads all of them.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON list.")
def command(verify: bool, as_json: bool) -> None:
    """Every data set and file of weights that the plans and studies use: is it here, and where is it from?"""
    from fedagem.plans.workspace import plan_folder
    from fedagem.studies.data import everything_needed

    found = everything_needed(plan_folder())
    verdicts = [needed.need.verify() if verify else {} for needed in found]
    if as_json:
        click.echo(json.dumps([_facts(*both) for both in zip(found, verdicts, strict=True)], indent=2))
    else:
        _print(found, verdicts, verify)
    if any(right is False for verdict in verdicts for right in verdict.values()):
        raise SystemExit(1)


def _facts(needed: Needed, verdict: dict[Path, bool]) -> dict[str, Any]:
    need, published = needed.need, needed.need.published
    missing = need.missing()
    return {
        "name": need.name,
        "kind": need.kind,
        "present": not missing,
        "installed_with_a_package": need.installed,
        "place": None if need.installed else str(need.place),
        "missing": [str(path) for path in missing],
        "bytes": None if need.installed else need.bytes_on_disk(),
        "title": published.title if published else None,
        "from": published.home if published else None,
        "put": published.put if published else None,
        "published_megabytes": published.megabytes if published else None,
        "checksums": dict(published.checksums) if published else {},
        "verified": {str(path): right for path, right in verdict.items()},
        "plans": needed.plans,
        "studies": needed.studies,
    }


def _print(found: list[Needed], verdicts: list[dict[Path, bool]], verify: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_line("name", "here", "size", "plans", style="bold"))
    for needed, verdict in zip(found, verdicts, strict=True):
        facts = _facts(needed, verdict)
        here = "yes" if facts["present"] else "missing"
        console.print(_line(facts["name"], here, _size(facts), ", ".join(needed.plans)))
        for word, value in _details(facts, verify):
            console.print(f"  {word:<9}{value}", markup=False, soft_wrap=True)


def _details(facts: dict[str, Any], verify: bool) -> Iterator[tuple[str, str]]:
    """What else there is to say, each with the word that introduces it."""
    if facts["installed_with_a_package"]:
        yield "is", "part of an installed package"
        return
    if facts["title"]:
        yield "is", facts["title"]
        yield "from", facts["from"]
    yield "place", facts["place"]
    if not facts["present"]:
        yield "put", facts["put"] or ", ".join(facts["missing"])
    elif verify:
        wrong = [path for path, right in facts["verified"].items() if not right]
        if wrong:
            yield "checksum", f"WRONG: {', '.join(wrong)}; replace what differs from the published file"
        else:
            yield "checksum", "right" if facts["verified"] else "none is known for these files"


def _size(facts: dict[str, Any]) -> str:
    """What is there; otherwise what is to be downloaded."""
    if facts["installed_with_a_package"]:
        return "-"
    if facts["present"]:
        return f"{max(1, round(facts['bytes'] / 1e6)):,} MB"
    return f"{facts['published_megabytes']:,} MB" if facts["published_megabytes"] else "?"


def _line(name: str, here: str, size: str, plans: str, style: str = "") -> Table:
    """Cells of one line, aligned with those of the others; the last breaks between words."""
    from rich.table import Table

    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(width=31, overflow="fold", style="bold")
    row.add_column(width=7)
    row.add_column(width=7, justify="right")
    row.add_column(ratio=1, overflow="fold")
    row.add_row(name, here, size, plans, style=style)
    return row
