"""Sweeps: every combination once, in names, tables and files, and never over what the runs set themselves."""

import csv
import io
import json

import pytest

from fedagem.errors import PlanError
from fedagem.plans.workspace import plan_folder
from fedagem.runs.results import Results
from fedagem.studies.comparison import compare
from fedagem.studies.runs import runs_of
from fedagem.studies.study import load_study
from fedagem.studies.sweep import NOWHERE, check_sweep, csv_of_sweep, grid, swept
from fedagem.studies.tables import csv_table, markdown_tables

PLANS = plan_folder()
LR = "task_runner.settings.optimizer.lr"
CAPACITY = "task_runner.settings.buffer.capacity"


def test_all_combinations_in_order():
    points = grid([f"{LR}=0.01,0.1", f"{CAPACITY}=10,20"])
    assert [point.label for point in points] == [
        "lr=0.01, capacity=10",
        "lr=0.01, capacity=20",
        "lr=0.1, capacity=10",
        "lr=0.1, capacity=20",
    ]
    assert points[1].assignments == (f"{LR}=0.01", f"{CAPACITY}=20")
    assert points[1].file_name == "lr=0.01,capacity=20"
    assert grid([]) == [NOWHERE]


def test_commas_within_values_do_not_divide_and_names_of_files_stay_harmless():
    [first, second] = grid(["data_loader.settings.tasks={kind: rotated, count: 2},{kind: rotated, count: 3}"])
    assert first.assignments == ("data_loader.settings.tasks={kind: rotated, count: 2}",)
    assert second.file_name == "tasks=_kind__rotated,count__3_"
    [point] = grid(["data_loader.settings.root='a/b, c'"])
    assert "/" not in point.file_name


def test_settings_with_the_same_last_word_are_told_apart():
    [point] = grid(["task_runner.settings.optimizer.decay=0.5", "task_runner.settings.other.decay=1"])
    assert point.label == "optimizer.decay=0.5, other.decay=1"


@pytest.mark.parametrize(
    ("sweeps", "sentence"),
    [
        ([LR], r"--sweep takes path\.in\.plan=value,value, not 'task_runner\.settings\.optimizer\.lr'"),
        ([f"{LR}="], r"has no values"),
        ([f"{LR}=0.1,0.2,0.1"], r"has the value 0\.1 twice"),
        ([f"{LR}=[0.1"], r"is not valid YAML"),
        ([f"{LR}=0.1", f"{LR}=0.2"], r"change the same setting: give one of them"),
        (["task_runner.settings.optimizer={lr: 1}", f"{LR}=0.2"], r"change the same setting: give one of them"),
    ],
)
def test_sweeps_that_say_nothing_or_contradict_each_other_are_refused(sweeps, sentence):
    with pytest.raises(PlanError, match=sentence):
        grid(sweeps)


def test_what_is_set_for_all_runs_cannot_be_swept():
    with pytest.raises(PlanError, match=r"--set task_runner\.settings\.optimizer=\{lr: 1\} and --sweep .* the same"):
        check_sweep(grid([f"{LR}=0.1,0.2"]), ["task_runner.settings.optimizer={lr: 1}"])


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("task_runner.settings.method", r"--sweep task_runner\.settings\.method=a cannot be used here: the rows of"),
        (CAPACITY, r"cannot be used here: the rows of this study vary task_runner\.settings\.buffer\.capacity"),
        ("data_loader.settings.seed", r"cannot be used here: .* --seeds"),
    ],
)
def test_what_tells_the_rows_of_a_study_apart_cannot_be_swept(path, sentence):
    with pytest.raises(PlanError, match=sentence):
        swept(load_study(PLANS, "buffer-size"), grid([f"{path}=a,b"]))


def test_a_setting_that_the_plan_does_not_have_is_refused(tmp_path):
    study = swept(load_study(PLANS, "rotated-mnist"), grid(["task_runner.settings.optimizer.lrr=1,2"]))
    with pytest.raises(PlanError, match=r"the plan has no 'task_runner\.settings\.optimizer\.lrr'; did you mean"):
        runs_of(study, "smoke", 1, PLANS, tmp_path)


@pytest.mark.parametrize("path", [LR, "data_loader.settings.rounds_per_task", "data_loader.settings.epochs"])
def test_every_point_is_in_the_plans_and_in_the_names_of_its_runs(path, tmp_path):
    study = swept(load_study(PLANS, "rotated-mnist"), grid([f"{path}=2,4"]))
    runs = runs_of(study, "smoke", 2, PLANS, tmp_path)
    alone = runs_of(load_study(PLANS, "rotated-mnist"), "smoke", 2, PLANS, tmp_path)
    assert len(runs) == 2 * len(alone)
    assert len({run.directory for run in runs}) == len(runs)
    name = path.rpartition(".")[2]
    for value, half in ((2, runs[: len(alone)]), (4, runs[len(alone) :])):
        for run, without_sweep in zip(half, alone, strict=True):
            settings = run.plan.training.optimizer if path == LR else run.plan.data
            assert getattr(settings, name) == value
            assert f"-{name}={value}-" in run.directory.name
            assert run.name == f"{name}={value}: {without_sweep.name}"
            assert run.name in run.title


def test_the_tables_have_a_row_for_each_value_and_method(tmp_path):
    study = swept(load_study(PLANS, "refinement-mnist"), grid([f"{LR}=0.01,0.1"]))
    runs = runs_of(study, "smoke", 1, PLANS, tmp_path)
    for run in runs:
        accuracy = run.plan.training.optimizer.lr + {"without": 0.5, "with": 0.6}[run.side]
        run.directory.mkdir(parents=True, exist_ok=True)
        results = {"rounds": run.plan.aggregator.rounds_to_train, "accuracy": {"domain_il": accuracy}}
        (run.directory / "results.json").write_text(json.dumps(results))
    lines = compare(study, runs)
    rows = [row for row in csv.DictReader(io.StringIO(csv_table(lines))) if row["metric"] == "accuracy.domain_il"]
    labels = [row.label for row in load_study(PLANS, "refinement-mnist").parts[0].rows]
    assert [row["row"] for row in rows] == [f"lr={lr}: {label}" for lr in ("0.01", "0.1") for label in labels]
    assert len([row for row in rows if row["ours_with"]]) >= 4
    for row in (row for row in rows if row["ours_with"]):
        expected = 60 + 100 * float(row["row"].partition(":")[0].removeprefix("lr="))
        assert float(row["ours_with"]) == pytest.approx(expected)
        assert float(row["our_difference"]) == pytest.approx(10), "compared with the baseline at the same point"
    assert "| lr=0.1: " in markdown_tables(lines)


def test_results_csv_has_a_column_for_each_setting_that_is_swept():
    def results(seed):
        return Results(
            plan="p",
            method="der",
            fedagem=True,
            seed=seed,
            rounds=4,
            clients=2,
            model="m",
            seconds=1.0,
            train_seconds=1.0,
            client_seconds=1.0,
            refined_share=0.5,
            bytes={},
            accuracy={"domain_il": 0.25},
        )

    points = grid([f"{LR}=0.01,0.1"])
    text = csv_of_sweep([(point, results(seed)) for point in points for seed in range(2)])
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["name"] == "accuracy"]
    assert [(row[LR], row["seed"], row["value"]) for row in rows] == [
        ("0.01", "0", "0.25"),
        ("0.01", "1", "0.25"),
        ("0.1", "0", "0.25"),
        ("0.1", "1", "0.25"),
    ]
