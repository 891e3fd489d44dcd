"""What a study leaves behind: Markdown, CSV, LaTeX and pictures, all from the finished runs."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedagem.reports.costs import COLUMNS, EXPLAINED, MethodCosts, cost_rows
from fedagem.reports.summary import BASELINE
from fedagem.runs.results import Results
from fedagem.studies.comparison import Line
from fedagem.studies.curves import csv_curves, curves_of, draw_curves, markdown_curves
from fedagem.studies.main_table import agreement, markdown_main_table
from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Scale, Study
from fedagem.studies.sweep import Point, csv_of_sweep, point_of
from fedagem.studies.tables import csv_table, latex_tables, markdown_tables
from fedagem.tasks.settings import StreamSettings


def write_report(
    study: Study, scales: Sequence[Scale], command: str, runs: Sequence[StudyRun], lines: Sequence[Line], out: Path
) -> list[Path]:
    """Write everything into `out` and say what was written."""
    out.mkdir(parents=True, exist_ok=True)
    curves = curves_of(study, runs)
    pictures = draw_curves(curves, out)
    files = {
        "report.md": _markdown(study, scales, command, runs, lines, markdown_curves(curves), pictures),
        "table.csv": csv_table(lines),
        "results.csv": _results(study, runs),
        "costs.csv": _csv_costs(study, runs),
        "table.tex": latex_tables(lines),
        "curves.csv": csv_curves(curves),
    }
    for name, content in files.items():
        (out / name).write_text(content, encoding="utf-8")
    return [*(out / name for name in files), *pictures]


def _markdown(
    study: Study,
    scales: Sequence[Scale],
    command: str,
    runs: Sequence[StudyRun],
    lines: Sequence[Line],
    curves: str,
    pictures: Sequence[Path],
) -> str:
    seeds = sorted({run.seed for run in runs})
    hours = sum(run.results()["seconds"] for run in runs if run.finished) / 3600
    text = [
        f"# {study.title}",
        f"The paper's {study.paper}. Ours: `{command}`, seeds {', '.join(map(str, seeds))}; {len(runs)} runs, "
        f"{hours:.1f} hours of simulation in all. Mean ± standard deviation over the seeds, with shares in per "
        "cent.",
        *([study.notes.strip()] if study.notes else []),
        "## What was run",
        "\n".join(_settings(*facts) for facts in _one_of_each_part(study, runs, scales)),
        "## Results",
        *([agreement(lines), markdown_main_table(lines)] if study.assembles else []),
        markdown_tables(lines),
        *_markdown_costs(study, runs),
        *([curves] if curves else []),
        *(f"![{picture.stem}]({picture.name})" for picture in pictures),
    ]
    return "\n\n".join(text) + "\n"


def _costs(study: Study, runs: Sequence[StudyRun]) -> Iterator[tuple[str, dict[str, MethodCosts], str | None]]:
    """Of each part: what it is called, the costs of its rows and sides, and which of them is plain FedAvg."""
    for number, part in enumerate(study.parts):
        finished: dict[str, list[Results]] = {}
        baseline = None
        for run in runs:
            if run.part == number and run.finished:
                finished.setdefault(run.name, []).append(Results(**run.results()))
                if run.plan.label == BASELINE and baseline is None:
                    baseline = run.name
        if finished:
            title = ", ".join(filter(None, (part.shown or part.plan, point_of(part).label)))
            yield title, {name: MethodCosts.of(some) for name, some in finished.items()}, baseline


def _markdown_costs(study: Study, runs: Sequence[StudyRun]) -> list[str]:
    found = list(_costs(study, runs))
    if not found:
        return []
    heading = [["", *COLUMNS], ["---", *["---:"] * len(COLUMNS)]]
    tables = [
        f"### {title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in [*heading, *cost_rows(methods, baseline)])
        for title, methods, baseline in found
    ]
    return ["## What it cost", f"{EXPLAINED[0].upper()}{EXPLAINED[1:]}.", *tables]


def _csv_costs(study: Study, runs: Sequence[StudyRun]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["plan", "row", *(column.name for column in dataclasses.fields(MethodCosts))])
    for title, methods, _ in _costs(study, runs):
        writer.writerows([title, name, *dataclasses.astuple(costs)] for name, costs in methods.items())
    return out.getvalue()


def _results(study: Study, runs: Sequence[StudyRun]) -> str:
    """Every number of every finished run."""
    points = [point_of(part) for part in study.parts]
    return csv_of_sweep([(points[run.part], Results(**run.results())) for run in runs if run.finished])


def _one_of_each_part(
    study: Study, runs: Sequence[StudyRun], scales: Sequence[Scale]
) -> list[tuple[StudyRun, Scale, Point]]:
    return [
        (next(run for run in runs if run.part == number), scale, point_of(part))
        for number, (part, scale) in enumerate(zip(study.parts, scales, strict=True))
    ]


def _settings(run: StudyRun, scale: Scale, point: Point) -> str:
    """The facts that make numbers comparable."""
    data, training = run.plan.data, run.plan.training
    assert isinstance(data, StreamSettings)
    network, options = training.model.template.rpartition(".")[2], training.model.settings
    changed = ", ".join(f"`{path}={value}`" for path, value in scale.set.items()) or "nothing else"
    where = f" at {point.label}" if point.values else ""
    return (
        f"- `{run.plan.name}`{where}: network {network}{f' {options}' if options else ''}, {data.clients} clients, "
        f"{data.tasks.count} tasks, {data.rounds_per_task} rounds for each, E = {data.epochs}, "
        f"learning rate {training.optimizer.lr:g}, batch {data.batch_size} (rows may differ in what they "
        f"vary). The scale changes {changed}."
    )
