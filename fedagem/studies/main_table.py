"""The paper's main table: a row for each method, a column for each benchmark, without and with Fed-A-GEM."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedagem.runs.metrics_log import shown_name
from fedagem.studies.comparison import Line
from fedagem.studies.study import Figure

Column = tuple[str, str]
"""A plan and a metric."""


def terminal_main_table(lines: Sequence[Line]) -> Table:
    """Ours above the paper's, each without and with Fed-A-GEM; a column takes ten characters."""
    columns, rows = _laid_out(lines)
    table = Table(
        title="ours, and the paper's below: without, with", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("")
    for column in columns:
        table.add_column(_heading(column, "\n"), justify="right", no_wrap=True)
    for label, cells in rows.items():
        table.add_row(label, *(_narrow(cells.get(column)) for column in columns))
    return table


def markdown_main_table(lines: Sequence[Line]) -> str:
    """One line for ours and one for the paper's."""
    columns, rows = _laid_out(lines)
    text = [
        f"|  |  | {' | '.join(_heading(column, ', ') for column in columns)} |",
        f"|---|---|{'---:|' * len(columns)}",
    ]
    for label, cells in rows.items():
        ours = [_pair(line.ours_without, line.ours_with) if (line := cells.get(column)) else "-" for column in columns]
        paper = [
            _pair(line.paper_without, line.paper_with) if (line := cells.get(column)) else "-" for column in columns
        ]
        text += [f"| {label} | ours | {' | '.join(ours)} |", f"|  | paper | {' | '.join(paper)} |"]
    return "\n".join(text) + "\n"


def agreement(lines: Sequence[Line]) -> str:
    """How many cells have the paper's direction, in a sentence."""
    verdicts = [line.verdict for line in lines if line.verdict != "-"]
    within = sum("within spread" in verdict or verdict == "no difference" for verdict in verdicts)
    agree = sum(verdict == "yes" for verdict in verdicts)
    disagree = sum(verdict == "no" for verdict in verdicts)
    return (
        f"Of {len(verdicts)} cells with a number of the paper, {agree} change in its direction, {disagree} in the "
        f"other one, and {within} by less than the spread of the seeds."
    )


def _laid_out(lines: Sequence[Line]) -> tuple[list[Column], dict[str, dict[Column, Line]]]:
    columns = list(dict.fromkeys((line.plan, line.metric) for line in lines))
    rows: dict[str, dict[Column, Line]] = {}
    for line in lines:
        rows.setdefault(line.label, {})[line.plan, line.metric] = line
    return columns, rows


def _heading(column: Column, between: str) -> str:
    plan, metric = column
    return f"{plan.replace('sequential_', 's-').replace('_', ' ')}{between}{shown_name(metric.partition('.')[2])}"


def _number(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.mean:.1f}"


def _narrow(line: Line | None) -> str:
    if line is None:
        return "-"
    pairs = ((line.ours_without, line.ours_with), (line.paper_without, line.paper_with))
    return "\n".join(" ".join(_number(figure) for figure in pair) for pair in pairs)


def _pair(without: Figure | None, with_: Figure | None) -> str:
    return " → ".join(_with_spread(figure) for figure in (without, with_))


def _with_spread(figure: Figure | None) -> str:
    return _number(figure) if figure is None or figure.spread is None else f"{figure.mean:.1f} ± {figure.spread:.1f}"
