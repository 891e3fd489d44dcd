"""report.html: one self-contained page that shows what a run, or a comparison of runs, has found."""

import html
import io
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import yaml
from matplotlib.figure import Figure

from fedagem.comparison import Overview, comparison_figure, overview, shift_note, summarise_comparison
from fedagem.errors import FedAGemError
from fedagem.metric_names import shown_name
from fedagem.report import label_of_plan
from fedagem.results import read_metrics
from fedagem.run_directory import plan_of_run
from fedagem.spread import spread

_NOTHING_FROM_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(directories: Sequence[Path], path: Path) -> Path:
    """Write the page for one run or several; it asks nothing of the network."""
    plan, name = plan_of_run(directories[-1])
    summary = summarise_comparison(directories)
    shown = overview(summary)
    of_last = f" of the last run, {_name(directories[-1])}" if len(directories) > 1 else ""
    sections = [
        f"<h1>{_question(plan, summary)}</h1>",
        f'<p class="lead">{html.escape(_answer(summary))}</p>',
        _section("Setting", _setting(directories, name, summary)),
        _section("Curves", f"<figure>{_svg(comparison_figure(directories))}</figure>{_paragraph(_reading(summary))}"),
        _section(shown.title, _overview(shown)),
        _section("What was forgotten", _forgetting(summary)),
        *(_pictures(directory) for directory in _one_per_method(directories)),
        _section("Where the time and the bytes went", _costs(directories, plan)),
        _section(f"The plan{of_last}", f"<pre>{html.escape(yaml.safe_dump(plan, sort_keys=False))}</pre>"),
    ]
    style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
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


def _question(plan: dict[str, Any], summary: dict[str, Any]) -> str:
    if summary["shift_round"] is not None:
        return "One car gets on the highway: does the federation forget the city?"
    if "vehicles" in plan["data_loader"]["settings"]:
        return "What has the federation learned to see?"
    return "Task after task: does the federation forget the first ones?"


def _answer(summary: dict[str, Any]) -> str:
    """One sentence per method: on its earlier tasks, or on the first domain."""
    if summary["tasks"]:
        return " ".join(
            _answer_of_tasks(label, kind, metrics)
            for label, kinds in summary["tasks"].items()
            for kind, metrics in kinds.items()
        )
    if summary["shift_round"] is not None and not summary["shift_reached"]:
        note = shift_note(summary)
        return f"{note[0].upper()}{note[1:]}. So there is nothing to say yet about what was forgotten."
    parts = []
    for label, curves in summary["methods"].items():
        name = next((n for n in curves if n != "map_50/all"), None)
        if name and (levels := {moment: mean(values) for moment, values in curves[name].items()}):
            before = f"{levels['before']:.3f} before the shift, " if "before" in levels else ""
            end = levels["after"] if "after" in levels else levels["end"]
            parts.append(f"{label}: {shown_name(name)} {before}{end:.3f} at the end")
    return "; ".join(parts) + "." if parts else "Nothing was evaluated."


def _answer_of_tasks(label: str, kind: str, metrics: dict[str, list[float]]) -> str:
    what = f"{label} ({shown_name(kind)})"
    if not metrics["accuracy"]:
        return f"{what}: no task was learned to its end."
    accuracy = f"{100 * mean(metrics['accuracy']):.1f} % over all tasks learned"
    if not metrics["forgetting"]:
        return f"{what}: {accuracy}; with a single task there is nothing to forget."
    lost = 100 * mean(metrics["forgetting"])
    deviation = 100 * stdev(metrics["forgetting"]) if len(metrics["forgetting"]) > 1 else 0.0
    answer = "no" if lost <= 0 else "yes" if lost > deviation else "not clearly"
    change = f"{abs(lost):.1f} points {'below' if lost > 0 else 'above'} their previous best"
    return f"{what}: {answer}, earlier tasks end {change}; {accuracy}."


def _setting(directories: Sequence[Path], name: str, summary: dict[str, Any]) -> str:
    plans = [plan_of_run(directory)[0] for directory in directories]
    plan = plans[-1]
    loader, training = plan["data_loader"]["settings"], plan["task_runner"]["settings"]
    shift = summary["shift_round"]
    facts = {
        "plan": name,
        "clients": ", ".join(loader.get("vehicles", [])) or loader.get("clients"),
        "rounds": plan.get("aggregator", {}).get("settings", {}).get("rounds_to_train"),
        "shift at round": f"{shift} (not reached)" if shift is not None and not summary["shift_reached"] else shift,
        "seconds per round": loader.get("seconds_per_round"),
        "begins with": _beginning(plan),
        "model": training["model"]["template"],
        "buffer": _buffers(plans),
        "optimiser": ", ".join(f"{k} {v}" for k, v in training.get("optimizer", {}).items()),
        "seeds": ", ".join(map(str, summary["seeds"])),
    }
    rows = (f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items() if v is not None)
    return f"<dl>{''.join(rows)}</dl>"


def _buffers(plans: Sequence[dict[str, Any]]) -> str:
    """How much a client keeps: one number, or one for each method."""
    capacities = {
        label_of_plan(plan): plan["task_runner"]["settings"].get("buffer", {}).get("capacity", 200) for plan in plans
    }
    if len(set(capacities.values())) == 1:
        return str(capacities.popitem()[1])
    return ", ".join(f"{capacity} ({label})" for label, capacity in capacities.items())


def _beginning(plan: dict[str, Any]) -> str | None:
    if chosen := plan.get("warm_up"):
        return f"a model warmed up by {chosen['rounds']} passes over {chosen['seconds']} s of the first region"
    given = plan["task_runner"]["settings"].get("initial_model")
    return f"the model {given}" if given else None


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
        [label, *(spread(_lost(curves.get(name, {})), digits=3) for name in names)] for label, curves in methods.items()
    ]
    meaning = "The level before the shift less the level at the end: positive is a loss, negative a gain."
    return _grid([("method", ""), *((shown_name(name), "") for name in names)], rows) + _paragraph(meaning)


def _lost(levels: dict[str, list[float]]) -> list[float]:
    return [before - after for before, after in zip(levels.get("before", []), levels.get("after", []), strict=False)]


def _pictures(directory: Path) -> str:
    plan, _ = plan_of_run(directory)
    if "vehicles" not in plan["data_loader"]["settings"]:
        return ""
    from fedagem.commands.before_and_after import before_and_after

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
    left_out = "Recording drives and warming up a model come before the rounds and are not in these times."
    driving = "vehicles" in plan["data_loader"]["settings"]
    return _grid([("run", ""), ("time by stage", ""), ("traffic", "")], rows) + _paragraph(left_out if driving else "")


def _svg(figure: Figure) -> str:
    """The figure as inline SVG without the XML prologue, as wide as its panels can use and never too small to read."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    _, _, drawing = text.getvalue().partition("<svg ")
    inches = figure.get_figwidth()
    return f'<svg style="max-width: {1.3 * inches:.1f}in; min-width: {0.45 * inches:.1f}in" {drawing}'
