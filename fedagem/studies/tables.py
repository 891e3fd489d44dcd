"""A study's tables: in the terminal, as Markdown, CSV and LaTeX, all of the same lines."""

import csv
import io
from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedagem.runs.metrics_log import shown_name
from fedagem.studies.comparison import Line
from fedagem.studies.study import Figure

_HEADINGS = (
    "",
    "paper w/o",
    "ours w/o",
    "paper w/",
    "ours w/",
    "paper change",
    "our change",
    "direction agrees",
)
_NAMES = {
    "accuracy": "Acc",
    "forgetting": "Fgt (lower is better)",
    "bwt": "BWT",
    "fwt": "FWT",
    "seconds": "seconds",
    "client_seconds": "seconds of all clients, buffer gradient and training",
    "train_seconds": "seconds of all clients, training alone",
    "refined_share": "share of batches refined",
    "bytes": "bytes per client and round",
}


def terminal_tables(lines: Sequence[Line]) -> list[Table]:
    """One table per plan and metric; the paper stands above ours, so that 80 columns are enough and nothing is cut."""
    tables = []
    for caption, group in _grouped(lines).items():
        table = Table(title=caption, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("", overflow="fold")
        table.add_column("")
        for heading in ("without", "with", "change"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("direction agrees", overflow="fold")
        for line in group:
            label, *numbers, verdict = _cells(line, _narrow_figure)
            pairs = zip(numbers[::2], numbers[1::2], strict=True)
            table.add_row(label, "paper\nours", *("\n".join(pair) for pair in pairs), verdict)
        tables.append(table)
    return tables


def markdown_tables(lines: Sequence[Line]) -> str:
    """All tables as Markdown."""
    return "\n".join(f"### {caption}\n\n{_markdown(group)}" for caption, group in _grouped(lines).items())


def csv_table(lines: Sequence[Line]) -> str:
    """One row per line with full precision."""
    out = io.StringIO()
    writer = csv.writer(out)
    figures = ("paper_without", "ours_without", "paper_with", "ours_with")
    writer.writerow(
        ["plan", "metric", "row"]
        + [f"{name}{end}" for name in figures for end in ("", "_spread")]
        + ["paper_difference", "our_difference", "paper_ratio", "our_ratio", "direction_agrees"]
    )
    for line in lines:
        values = [getattr(line, name) for name in figures]
        cells = [cell for value in values for cell in ((value.mean, value.spread) if value else ("", ""))]
        compared = (line.paper_difference, line.our_difference, line.paper_ratio, line.our_ratio)
        writer.writerow([line.plan, line.metric, line.label, *cells, *compared, line.verdict])
    return out.getvalue()


def latex_tables(lines: Sequence[Line]) -> str:
    """All tables as LaTeX, for `booktabs`."""
    tables = []
    for caption, group in _grouped(lines).items():
        rows = [" & ".join(_latex_text(cell) for cell in _cells(line, _latex_figure)) for line in group]
        tables.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{_latex_text(caption)}}}",
                    r"\begin{tabular}{lrrrrrrl}",
                    r"\toprule",
                    " & ".join(_HEADINGS) + r" \\",
                    r"\midrule",
                    *(rf"{row} \\" for row in rows),
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(tables) + "\n"


def _markdown(lines: Sequence[Line]) -> str:
    rows = [_HEADINGS, ("---", *["---:"] * 6, "---"), *(_cells(line) for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _grouped(lines: Sequence[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(f"{line.plan}: {_metric_name(line.metric)}", []).append(line)
    return groups


def _metric_name(metric: str) -> str:
    name, _, detail = metric.partition(".")
    return f"{_NAMES.get(name, name)}{', ' + shown_name(detail) if detail else ''}"


def _text(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    mean = f"{figure.mean:.2f}" if abs(figure.mean) < 100_000 else f"{figure.mean:,.0f}"
    return mean if figure.spread is None else f"{mean} ± {figure.written or f'{figure.spread:.1f}'}"


def _cells(line: Line, text: Callable[[Figure | None], str] = _text) -> tuple[str, ...]:
    figures = (line.paper_without, line.ours_without, line.paper_with, line.ours_with)
    return (
        line.label,
        *(text(figure) for figure in figures),
        *_changes(line),
        line.verdict,
    )


def _changes(line: Line) -> tuple[str, ...]:
    """What Fed-A-GEM changed, in the paper and here: the difference, or the ratio of a cost."""
    if line.is_cost:
        return tuple("-" if ratio is None else f"×{ratio:.3f}" for ratio in (line.paper_ratio, line.our_ratio))
    differences = (line.paper_difference, line.our_difference)
    return tuple("-" if difference is None else f"{difference:+.2f}" for difference in differences)


def _narrow_figure(figure: Figure | None) -> str:
    return _text(figure).replace(" ± ", "±")


def _latex_figure(figure: Figure | None) -> str:
    return _text(figure).replace(" ± ", r"$\pm$")


def _latex_text(text: str) -> str:
    return text.replace("%", r"\%").replace("_", r"\_").replace("&", r"\&").replace("×", r"$\times$")
