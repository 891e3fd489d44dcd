"""`fedagem members`: the fingerprints of certificates, for plan/members.yaml."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="members")
@click.argument("certificates", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(certificates: tuple[Path, ...]) -> None:
    """Print the names and fingerprints of CERTIFICATES as lines of plan/members.yaml.

    With secure aggregation every member checks the certificates of the others by that file. Give the line of your own
    certificate to the other members in a way that the aggregator cannot change.
    """
    from fedagem.secagg.identity import pins_of

    for name, pin in pins_of(certificates).items():
        click.echo(f"{name}: '{pin}'")
