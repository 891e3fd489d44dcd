"""report.html: one self-contained page that shows what a run, or a comparison of runs, has found."""

import html
import io
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from fedagem.errors import FedAGemError
from fedagem.plans.driving import has_vehicles
from fedagem.reports.answer import answer, lost, question
from fedagem.reports.comparison import Overview, comparison_panels, overview, summarise_comparison
from fedagem.reports.setting import setting_of
from fedagem.reports.spread import spread
from fedagem.reports.tables import label_of_plan
from fedagem.runs.folder import plan_of_run
from fedagem.runs.metric_names import shown_name
from fedagem.runs.preparation_times import preparation_seconds
from fedagem.runs.results import read_metrics

_NOTHING_FROM_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(directories: Sequence[Path], path: Path) -> Path:
    """Write the page for one run or several; it asks nothing of the network."""
    plan, name = plan_of_run(directories[-1])
    summary = summarise_comparison(directories)
    shown = overview(summary)
    of_last = f" of the last run, {_name(directories[-1])}" if len(directories) > 1 else ""
    sections = [
        f"<h1>{html.escape(question(plan, summary))}</h1>",
        f'<p class="lead">{"<br>".join(map(html.escape, answer(plan, summary)))}</p>',
        _section("Setting", _setting(directories, name, summary)),
        _section("Curves", f"{_panels(directories)}{_paragraph(_reading(summary))}"),
        _section(shown.title, _overview(shown)),
        _section("What was forgotten", _forgetting(summary)),
        *(_pictures(directory) for directory in _one_per_method(directories)),
        _section("Where the time and the bytes went", _costs(directories, plan)),
        _section(f"The plan{of_last}", f"<pre>{html.escape(yaml.safe_dump(plan, sort_keys=False))}</pre>"),
    ]
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_FROM_OUTSIDE}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{html.escape(name)}</title><style>{style}</style></head><body>{''.join(sections)}</body></html>"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _name(directory: Path) -> str:
    """What a run is called, also where one stands in its folder."""
    return directory.resolve().name


def _one_per_method(directories: Sequence[Path]) -> list[Path]:
    """The first run of each method: the other seeds' pictures would tell the same."""
    first: dict[str, Path] = {}
    for directory in directories:
        first.setdefault(label_of_plan(plan_of_run(directory)[0]), directory)
    return list(first.values())


def _section(title: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2>{body}" if body else ""


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>" if text else ""


def _grid(headings: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns share a heading above their own where they have one of their own."""
    above, below = "", ""
    for what, own in itertools.groupby(headings, key=lambda heading: heading[0]):
        parts = [part for _, part in own]
        alone = parts == [""]
        above += f"<th {'rowspan=2' if alone else f'colspan={len(parts)}'}>{html.escape(what)}</th>"
        below += "" if alone else "".join(f"<th>{html.escape(part)}</th>" for part in parts)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = f"<thead><tr>{above}</tr><tr>{below}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    """A narrow column breaks before the spread and not within it."""
    return html.escape(text).replace("± ", "±&nbsp;")


def _setting(directories: Sequence[Path], name: str, summary: dict[str, Any]) -> str:
    facts = setting_of([plan_of_run(directory)[0] for directory in directories], name, summary)
    rows = (f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _reading(summary: dict[str, Any]) -> str:
    """How to read the curves."""
    sentences = []
    if summary["tasks"]:
        sentences.append("Accuracy is the mean over all tasks, those still to come among them.")
    if len(summary["seeds"]) > 1:
        sentences.append(
            "Lines are means over the seeds and bands reach from the lowest seed to the highest; "
            "± in the tables is a standard deviation."
        )
    return " ".join(sentences)


def _overview(shown: Overview) -> str:
    return _grid(shown.headings, shown.rows) + _paragraph(f"{shown.note[0].upper()}{shown.note[1:]}.")


def _forgetting(summary: dict[str, Any]) -> str:
    """How much of each domain's score was lost after the shift."""
    methods = summary["methods"]
    names = sorted({name for curves in methods.values() for name, levels in curves.items() if "before" in levels})
    if not names:
        return ""
    rows = [
        [label, *(spread(lost(curves.get(name, {})), digits=3) for name in names)] for label, curves in methods.items()
    ]
    meaning = "The level before the shift less the level at the end: positive is a loss, negative a gain."
    return _grid([("method", ""), *((shown_name(name), "") for name in names)], rows) + _paragraph(meaning)


def _pictures(directory: Path) -> str:
    plan, _ = plan_of_run(directory)
    if not has_vehicles(plan):
        return ""
    from fedagem.reports.before_and_after import before_and_after

    title, body = f"The same frames before and after: {_name(directory)}", ""
    try:
        rows = before_and_after(directory)
    except FedAGemError as problem:
        return _section(title, _paragraph(f"There are no pictures: {problem.message}"))
    for frame, pictures in rows:
        items = "".join(
            f'<figure><img src="{address}" alt="{html.escape(f"{frame}, {caption}")}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            for caption, address in pictures
        )
        body += f'<h3>{html.escape(frame)}</h3><div class="pictures">{items}</div>'
    return _section(title, body)


def _costs(directories: Sequence[Path], plan: dict[str, Any]) -> str:
    rows = []
    for directory in directories:
        seconds: dict[str, float] = defaultdict(float)
        megabytes: dict[str, float] = defaultdict(float)
        for row in read_metrics(directory):
            if row["metric"] == "seconds":
                seconds[row["stage"]] += row["value"]
            elif row["metric"] in {"bytes_up", "bytes_down"}:
                megabytes[row["metric"]] += row["value"] / 2**20
        stages = ", ".join(f"{stage} {value:.0f} s" for stage, value in seconds.items())
        traffic = f"{megabytes['bytes_up']:.0f} MB up, {megabytes['bytes_down']:.0f} MB down"
        rows.append([_name(directory), stages, traffic])
    before = _preparation(directories) if has_vehicles(plan) else ""
    return _grid([("run", ""), ("time by stage", ""), ("traffic", "")], rows) + _paragraph(before)


def _preparation(directories: Sequence[Path]) -> str:
    """What drives and warm-ups took before the rounds."""
    left_out = "Recording drives and warming up a model come before the rounds and are not in these times"
    parts = [f"{name} {seconds:.0f} s" for name, seconds in preparation_seconds(directories).items()]
    return f"{left_out}: {', '.join(parts)}." if parts else f"{left_out}."


def _panels(directories: Sequence[Path]) -> str:
    """A figure for each domain: side by side where there is room, below each other on a phone."""
    figures = "".join(f"<figure>{_svg(figure)}</figure>" for figure in comparison_panels(directories))
    return f'<div class="panels">{figures}</div>'


def _svg(figure: Figure) -> str:
    """The figure as inline SVG without the XML prologue."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return "<svg " + text.getvalue().partition("<svg ")[2]
