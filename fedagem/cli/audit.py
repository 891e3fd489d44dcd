"""`fedagem audit`: what an aggregator could reconstruct from what it received."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="audit")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--clients", type=click.IntRange(min=1), default=1, show_default=True, help="How many clients to attack.")
@click.option(
    "--samples",
    default="1,4,8,32",
    show_default=True,
    metavar="N,...",
    help="Also attack gradients of so many samples of the same buffers; '' for none.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Where the report goes; by default RUN/audit.")
def command(run: Path, clients: int, samples: str, out: Path | None) -> None:
    """Attack the buffer gradients that the aggregator of RUN received, as an aggregator could that wants to see images.

    RUN is a run on this machine with --keep-received; its newest round is attacked, with the model of that round. An
    image counts as reconstructed if it is alike by 20 dB or more. The report has pictures.
    """
    try:
        counts = [int(count) for count in samples.split(",") if count.strip()]
    except ValueError:
        raise click.UsageError(f"--samples must be whole numbers, such as 1,4,8, not {samples!r}.") from None
    if any(count < 1 for count in counts):
        raise click.UsageError(f"--samples must be positive, not {samples!r}.")
    from fedagem.audit.attack import findings
    from fedagem.audit.received import KeptRound
    from fedagem.audit.report import summary_of, write_report

    kept = KeptRound.of(run)
    found = []
    for finding in findings(kept, clients, counts):
        click.echo(f"{finding.source} ({finding.samples} samples): {finding.verdict}, best {max(finding.psnr):.1f} dB")
        found.append(finding)
    paths = write_report(found, run.resolve().name, out or run / "audit")
    click.echo(summary_of(found))
    click.echo(f"page: {paths[0]}")
