"""`carla-bridge import`: makes snippets of annotated images in the formats of others."""

from pathlib import Path

import click

from carla_bridge.cli.options import report_errors
from carla_bridge.cli.progress import progress


@click.command(name="import")
@click.argument("place", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "kind",
    type=click.Choice(["coco", "yolo", "kitti", "bdd100k"]),
    required=True,
    help="The format of DIR.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory for the snippets.")
@click.option("--split", help="Which part to import, such as train; needed if DIR has several.")
@click.option(
    "--images", type=click.Path(path_type=Path), help="Where the images of coco or bdd100k are, if elsewhere."
)
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="RULE",
    help="A domain by its images' attributes: 'city: scene=city street|residential, timeofday=daytime'. Repeat it for "
    "more domains; the first that fits counts, images that fit none are left out.",
)
@click.option(
    "--domain-by",
    "by",
    multiple=True,
    metavar="ATTRIBUTE",
    help="Make each value of this attribute a domain; repeat it to combine some. Without rules, bdd100k takes scene "
    "and timeofday, the others make the split one domain.",
)
@click.option("--vehicles", type=click.IntRange(1), default=1, help="Divide every domain among so many vehicles.")
@click.option("--skip-faults", is_flag=True, help="Leave out broken images and boxes instead of ending with an error.")
@report_errors
def import_(
    place: Path,
    kind: str,
    out: Path,
    split: str | None,
    images: Path | None,
    domains: tuple[str, ...],
    by: tuple[str, ...],
    vehicles: int,
    skip_faults: bool,
) -> None:
    """Make snippets of the annotated images in DIR, which plans can replay like recorded drives.

    DIR may also be the file with the labels: data.yaml, or a JSON file of coco or bdd100k. Images become hard links, or
    copies if OUT is on another disk. Classes keep their names.
    """
    from rich.console import Console

    from carla_bridge.datasets.bdd100k import DOMAIN_BY
    from carla_bridge.datasets.domains import DomainRule
    from carla_bridge.datasets.importing import import_dataset, open_dataset
    from carla_bridge.datasets.new_folder import require_free
    from carla_bridge.snippets.layout import Faults

    if domains and by:
        raise click.UsageError("--domain and --domain-by exclude each other.")
    if kind == "bdd100k" and not domains and not by:
        by = DOMAIN_BY
    rules = [DomainRule.parse(text) for text in domains]
    require_free(out)
    faults = Faults("skip" if skip_faults else "refuse")
    dataset = open_dataset(kind, place, split, images, faults)
    with progress("reading", dataset.count, "images", Console(stderr=True)) as show:
        done = import_dataset(dataset, out, rules=rules, by=by, vehicles=vehicles, show=show)
    for vehicle, counts in done.frames.items():
        click.echo(f"{vehicle}: " + ", ".join(f"{count} in {domain}" for domain, count in counts.items()))
    found = ", ".join(f"{count} {name}" for name, count in done.boxes.items() if count)
    click.echo(f"boxes: {found or 'none'}; summary in {out / 'import.json'}")
    if done.left_out:
        click.echo("left out: " + ", ".join(f"{count} {what}" for what, count in done.left_out.items()))
    if faults.skipped:
        click.echo(f"skipped: {len(faults.skipped)} faults, named above")
