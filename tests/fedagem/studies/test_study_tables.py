"""The tables and pictures of a study say what was measured, beside what the paper says."""

import csv
import dataclasses
import io
import json
import re

import pytest
from rich.console import Console

from fedagem.plans.workspace import plan_folder
from fedagem.studies.comparison import Line, compare
from fedagem.studies.curves import csv_curves, curves_of, draw_curves, markdown_curves
from fedagem.studies.runs import runs_of
from fedagem.studies.study import Figure, Part, Row, Study, load_study
from fedagem.studies.tables import csv_table, latex_tables, markdown_tables, terminal_tables

PLANS = plan_folder()


def line(paper=(60.0, 70.0), ours=((50.0, 2.0), (55.0, 1.0))):
    paper_without, paper_with = (Figure(value) for value in paper)
    ours_without, ours_with = (Figure(*value) for value in ours)
    return Line(
        "plan",
        "accuracy.task_il",
        "A & B_1",
        paper_without,
        ours_without,
        paper_with,
        ours_with,
        paper_without,
        ours_without,
    )


@pytest.mark.parametrize(
    ("subject", "verdict"),
    [
        (line(), "yes"),
        (line(ours=((50.0, 2.0), (45.0, 1.0))), "no"),
        (line(ours=((50.0, 2.0), (51.0, 1.0))), "yes (within spread)"),
        (line(ours=((50.0, 2.0), (49.0, 1.0))), "no (within spread)"),
        (line(paper=(70.0, 60.0), ours=((50.0, 2.0), (40.0, 1.0))), "yes"),
        (line(ours=((50.0, 2.0), (50.0, 1.0))), "no difference"),
        (line(paper=(70.0, 60.0), ours=((50.0, 0.0), (50.0, 0.0))), "no difference"),
        (line(ours=((50.0, 0.0), (50.1, 0.0))), "yes"),
    ],
)
def test_the_direction_is_judged_and_small_differences_are_marked(subject, verdict):
    assert subject.verdict == verdict


def finished_study(tmp_path):
    study = Study(
        name="mine",
        title="Mine",
        paper="Table 0",
        parts=[
            Part(
                plan="rotated_mnist",
                metrics=["accuracy.domain_il", "train_seconds"],
                rows=[
                    Row(label="FL", without=["60±1", None], with_=["70±1.95", None]),
                    Row(label="Other", set={"task_runner.settings.buffer.policy": "sliding_window"}, with_=[]),
                ],
                baseline="FL",
            )
        ],
        plots=["progress", "first_task", "current_task"],
    )
    runs = runs_of(study, "smoke", 2, PLANS, tmp_path)
    for run in runs:
        accuracy = {"without": 0.5, "with": 0.6}[run.side] + 0.02 * run.seed
        matrix = [[0.1, 0.1], [accuracy, 0.1], [accuracy - 0.1, accuracy]]
        results = {
            "rounds": run.plan.aggregator.rounds_to_train,
            "accuracy": {"domain_il": accuracy},
            "train_seconds": 10 + run.seed,
            "seconds": 11,
        }
        run.directory.mkdir(parents=True)
        (run.directory / "results.json").write_text(json.dumps({**results, "accuracy_matrix": {"domain_il": matrix}}))
    return study, runs


def test_tables_show_the_paper_beside_ours(tmp_path):
    study, runs = finished_study(tmp_path)
    lines = compare(study, runs)
    rows = list(csv.DictReader(io.StringIO(csv_table(lines))))
    first = rows[0]
    assert (first["plan"], first["metric"], first["row"]) == ("rotated_mnist", "accuracy.domain_il", "FL")
    assert (first["paper_without"], first["paper_without_spread"], first["paper_difference"]) == ("60.0", "1.0", "10.0")
    assert float(first["ours_without"]) == pytest.approx(51)
    assert float(first["ours_with_spread"]) == pytest.approx(1.41, abs=0.01)
    assert float(first["our_difference"]) == pytest.approx(10)
    assert first["direction_agrees"] == "yes"
    assert rows[1]["row"] == "Other"
    assert float(rows[1]["our_difference"]) == pytest.approx(10), "compared with the baseline"
    assert rows[1]["direction_agrees"] == "-", "the paper has no number"
    assert float(rows[2]["ours_with"]) == pytest.approx(10.5), "seconds are no share"
    assert "| FL | 60.00 ± 1 | 51.00 ± 1.4 | 70.00 ± 1.95 | 61.00 ± 1.4 | +10.00 | +10.00 | yes |" in markdown_tables(
        lines
    )
    assert r"60.00$\pm$1 &" in latex_tables(lines)


def test_latex_has_no_bare_specials():
    assert r"A \& B\_1 &" in latex_tables([line()])


def test_unfinished_runs_leave_gaps_and_no_errors(tmp_path):
    study, runs = finished_study(tmp_path)
    for run in runs:
        if run.side == "with":
            (run.directory / "results.json").unlink()
    [first, *_] = compare(study, runs)
    assert first.ours_with is None
    assert first.ours_without is not None
    assert first.ours_without.mean == pytest.approx(51)
    assert first.verdict == "-"


def test_a_run_counts_only_with_the_results_of_all_its_rounds(tmp_path):
    study, runs = finished_study(tmp_path)
    for run in runs:
        if run.side == "with":
            path = run.directory / "results.json"
            results = json.loads(path.read_text())
            path.write_text(json.dumps({**results, "rounds": results["rounds"] - 1}))
    [first, *_] = compare(study, runs)
    assert first.ours_with is None
    assert first.ours_without is not None


def test_costs_compare_by_their_ratio(tmp_path):
    runs = runs_of(load_study(PLANS, "computation"), "smoke", 1, PLANS, tmp_path)
    for run in runs:
        costs = {"without": (100.0, 4e7), "with": (110.0, 8e7)}[run.side]
        results = {
            "rounds": run.plan.aggregator.rounds_to_train,
            "client_seconds": costs[0],
            "refined_share": 0.5,
            "bytes": {"up": costs[1], "down": costs[1]},
        }
        run.directory.mkdir(parents=True)
        (run.directory / "results.json").write_text(json.dumps(results))
    lines = {line.metric: line for line in compare(load_study(PLANS, "computation"), runs)}
    assert lines["client_seconds"].our_ratio == pytest.approx(1.1)
    assert lines["client_seconds"].paper_ratio == pytest.approx(1.072, abs=0.001)
    assert lines["bytes.down"].our_ratio == pytest.approx(2)
    assert lines["refined_share"].our_ratio is None
    shown = markdown_tables(list(lines.values()))
    assert "| FL | 4068.97 | 100.00 | 4362.23 | 110.00 | ×1.072 | ×1.100 | yes |" in shown
    assert "| 40,000,000 | - | 80,000,000 | - | ×2.000 |" in shown


@pytest.mark.parametrize("name", ["refinement", "communication", "computation"])
def test_tables_are_whole_in_a_narrow_terminal(name):
    study = load_study(PLANS, name)
    lines = [
        dataclasses.replace(
            line, ours_without=Figure(61.25, 12.5), ours_with=Figure(71.5, 2.5), ours_reference=Figure(61.25, 12.5)
        )
        for line in compare(study, [])
    ]
    console = Console(width=80, file=io.StringIO(), record=True)
    for table in terminal_tables(lines):
        console.print(table)
    shown = console.export_text()
    assert "…" not in shown
    assert all(len(text.rstrip()) <= 80 for text in shown.splitlines())
    assert re.search(r"ours +61\.25±12\.5 +71\.50±2\.5 ", shown), "numbers stay in one piece"
    words = shown.split()
    assert all(word in words for part in study.parts for row in part.rows for word in row.label.split())


def test_pictures_of_every_kind(tmp_path):
    study, runs = finished_study(tmp_path)
    pictures = draw_curves(curves_of(study, runs), tmp_path / "plots")
    assert [path.stem.rpartition("-")[2] for path in pictures] == ["progress", "first_task", "current_task"]
    assert all(path.stat().st_size > 5000 for path in pictures)


def test_the_numbers_behind_the_pictures_are_kept(tmp_path):
    study, runs = finished_study(tmp_path)
    curves = curves_of(study, runs)
    rows = list(csv.DictReader(io.StringIO(csv_curves(curves))))
    chosen = [row for row in rows if (row["row"], row["side"], row["plot"]) == ("FL", "with", "first_task")]
    assert [row["task"] for row in chosen] == ["1", "2"]
    assert [float(row["mean"]) for row in chosen] == pytest.approx([61, 51])
    assert float(chosen[0]["spread"]) == pytest.approx(1.41, abs=0.01)
    assert {(row["plan"], row["scenario"]) for row in rows} == {("rotated_mnist", "domain_il")}
    forgotten = [row for row in rows if row["quantity"].startswith("Fgt") and row["side"] == "without"]
    assert [row["task"] for row in forgotten] == ["2"]
    assert float(forgotten[0]["mean"]) == pytest.approx(10)
    table = markdown_curves(curves)
    assert "### rotated_mnist: accuracy on task 1 after each task, domain-IL" in table
    assert "| FL + Fed-A-GEM | 61.00 | 51.00 |" in table
    assert "| Other | 61.00 | 51.00 |" in table, "a way of refining is not called Fed-A-GEM"
    assert "Acc" not in table, "the tables of results have it"
