"""report.html: one self-contained page that shows what a run, or a comparison of runs, has found."""

import html
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from fedagem.comparison import SMOOTHING, comparison_figure, shift_cells, summarise_comparison
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
    sections = [
        f"<h1>{_question(plan, len(directories))}</h1>",
        f'<p class="lead">{_answer(summary)}</p>',
        _section("Setting", _setting(plan, name, summary)),
        _section("Curves", f"<figure>{_svg(comparison_figure(directories))}</figure>"),
        _section("Before and after the shift", _table(summary)),
        _section("What was forgotten", _forgetting(summary)),
        *(_pictures(directory) for directory in _one_per_method(directories)),
        _section("Where the time and the bytes went", _costs(directories)),
        _section("The plan", f"<pre>{html.escape(yaml.safe_dump(plan, sort_keys=False))}</pre>"),
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


def _one_per_method(directories: Sequence[Path]) -> list[Path]:
    """The first run of each method: the other seeds' pictures would tell the same."""
    first: dict[str, Path] = {}
    for directory in directories:
        first.setdefault(label_of_plan(plan_of_run(directory)[0]), directory)
    return list(first.values())


def _section(title: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2>{body}" if body else ""


def _question(plan: dict[str, Any], runs: int) -> str:
    if "vehicles" in plan["data_loader"]["settings"]:
        return "One car gets on the highway: does the federation forget the city?"
    return "Task after task: does the federation forget the first ones?" if runs else ""


def _answer(summary: dict[str, Any]) -> str:
    """One sentence per method on the first domain, where there was a shift."""
    parts = []
    for label, curves in summary["methods"].items():
        name = next((n for n in curves if n != "map_50/all" and curves[n].get("before")), None)
        if name:
            before, after = (sum(curves[name][m]) / len(curves[name][m]) for m in ("before", "after"))
            what = html.escape(f"{label}: {shown_name(name)}")
            parts.append(f"{what} {before:.3f} before the shift, {after:.3f} at the end")
    return "; ".join(parts) + "." if parts else ""


def _setting(plan: dict[str, Any], name: str, summary: dict[str, Any]) -> str:
    loader, training = plan["data_loader"]["settings"], plan["task_runner"]["settings"]
    facts = {
        "plan": name,
        "clients": ", ".join(loader.get("vehicles", [])) or loader.get("clients"),
        "rounds": plan["aggregator"]["settings"]["rounds_to_train"],
        "shift at round": summary["shift_round"],
        "seconds per round": loader.get("seconds_per_round"),
        "begins with": _beginning(plan),
        "model": training["model"]["template"],
        "buffer": training.get("buffer", {}).get("capacity", 200),
        "optimiser": ", ".join(f"{k} {v}" for k, v in training["optimizer"].items()),
        "seeds": ", ".join(map(str, summary["seeds"])),
    }
    rows = (f"<dt>{k}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items() if v is not None)
    return f"<dl>{''.join(rows)}</dl>"


def _beginning(plan: dict[str, Any]) -> str | None:
    if chosen := plan.get("warm_up"):
        return f"a model warmed up by {chosen['rounds']} passes over {chosen['seconds']} s of the first region"
    given = plan["task_runner"]["settings"].get("initial_model")
    return f"the model {given}" if given else None


def _table(summary: dict[str, Any]) -> str:
    names = sorted({name for curves in summary["methods"].values() for name in curves})
    head = "".join(f"<th>{html.escape(shown_name(n))}<br>before</th><th>at the end</th>" for n in names)
    body = ""
    for label, curves in summary["methods"].items():
        cells = shift_cells(curves, names)
        body += f"<tr><td>{html.escape(label)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    return (
        f'<div class="scroll"><table><thead><tr><th>method</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"<p>{SMOOTHING}.</p>"
    )


def _forgetting(summary: dict[str, Any]) -> str:
    """How much of each domain's score was lost after the shift; negative is a gain."""
    rows = ""
    for label, curves in summary["methods"].items():
        for name, values in curves.items():
            if values.get("before"):
                lost = [b - a for b, a in zip(values["before"], values["after"], strict=True)]
                cells = (html.escape(label), html.escape(shown_name(name)), spread(lost, digits=3))
                rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    head = "<tr><th>method</th><th>on</th><th>lost since the shift</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>' if rows else ""


def _pictures(directory: Path) -> str:
    plan, _ = plan_of_run(directory)
    if "vehicles" not in plan["data_loader"]["settings"]:
        return ""
    from fedagem.commands.before_and_after import before_and_after

    body = ""
    for title, pictures in before_and_after(directory):
        items = "".join(
            f'<figure><img src="{address}" alt="{html.escape(f"{title}, {caption}")}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            for caption, address in pictures
        )
        body += f'<h3>{html.escape(title)}</h3><div class="pictures">{items}</div>'
    return _section(f"The same frames before and after: {directory.name}", body)


def _costs(directories: Sequence[Path]) -> str:
    rows = ""
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
        rows += f"<tr><td>{html.escape(directory.name)}</td><td>{stages}</td><td>{traffic}</td></tr>"
    head = "<tr><th>run</th><th>time by stage</th><th>traffic</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _svg(figure: Figure) -> str:
    """The figure as inline SVG, without the XML prologue."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]
