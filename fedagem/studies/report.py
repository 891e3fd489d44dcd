"""What a study leaves behind: Markdown, CSV, LaTeX and pictures, all from the finished runs."""

from collections.abc import Sequence
from pathlib import Path

from fedagem.studies.comparison import Line
from fedagem.studies.curves import csv_curves, curves_of, draw_curves, markdown_curves
from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Scale, Study
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
        "\n".join(_settings(run, scale) for run, scale in _one_of_each_part(study, runs, scales)),
        "## Results",
        markdown_tables(lines),
        *([curves] if curves else []),
        *(f"![{picture.stem}]({picture.name})" for picture in pictures),
    ]
    return "\n\n".join(text) + "\n"


def _one_of_each_part(study: Study, runs: Sequence[StudyRun], scales: Sequence[Scale]) -> list[tuple[StudyRun, Scale]]:
    return [
        (next(run for run in runs if run.part == number), scale)
        for number, scale in zip(range(len(study.parts)), scales, strict=True)
    ]


def _settings(run: StudyRun, scale: Scale) -> str:
    """The facts that make numbers comparable."""
    data, training = run.plan.data, run.plan.training
    assert isinstance(data, StreamSettings)
    network, options = training.model.template.rpartition(".")[2], training.model.settings
    changed = ", ".join(f"`{path}={value}`" for path, value in scale.set.items()) or "nothing else"
    return (
        f"- `{run.plan.name}`: network {network}{f' {options}' if options else ''}, {data.clients} clients, "
        f"{data.tasks.count} tasks, {data.rounds_per_task} rounds for each, E = {data.epochs}, "
        f"learning rate {training.optimizer.lr:g}, batch {data.batch_size} (rows may differ in what they "
        f"vary). The scale changes {changed}."
    )
