"""What the clients of a run reported last, as a table for a screen of 80 columns."""

from rich.table import Table

from fedagem.runs.live.run_watch import RunWatch
from fedagem.runs.metrics_log import BUFFER, BUFFER_DOMAIN, LOSS_TERM, REFINED_SHARE, SAMPLES

_SHORT = {"classification": "class", "confidence": "conf."}


def clients_table(watch: RunWatch, clients_shown: int, title: str | None = None) -> Table:
    """Losses, what was learned from, refined gradients and the buffer of each client, and the scores under them."""
    clients = watch.clients
    names = {name for facts in clients.values() for name in facts}
    losses = sorted(name for name in names if name.startswith(LOSS_TERM))
    domains = sorted(name for name in names if name.startswith(BUFFER_DOMAIN))
    table = Table(
        box=None,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        caption=watch.scores() or None,
        caption_justify="left",
    )
    table.add_column("client", vertical="bottom")
    for heading in (*map(_heading, losses), watch.counts, "refined", "buffer", *map(_heading, domains)):
        table.add_column(heading, justify="right")
    for client, facts in sorted(clients.items())[:clients_shown]:
        cells = [f"{facts.get(name, 0):.3f}" for name in losses]
        cells += [f"{facts.get(SAMPLES, 0):.0f}", f"{facts.get(REFINED_SHARE, 0):.0%}"]
        cells += [f"{facts.get(name, 0):.0f}" for name in (BUFFER, *domains)]
        table.add_row(client, *cells)
    if len(clients) > clients_shown:
        table.add_row(f"and {len(clients) - clients_shown} more")
    return table


def _heading(metric: str) -> str:
    """`buffer/city` on two lines: the second alone would not say what is in the city."""
    what, _, part = metric.partition("/")
    return f"{what}\n{_SHORT.get(part, part)}"
