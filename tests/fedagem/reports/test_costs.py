"""What a method costs beside FedAvg: from the log of its runs and the states they left, in every report."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fedagem.plans.workspace import plan_folder
from fedagem.reports.costs import MethodCosts, cost_rows
from fedagem.reports.page import write_page
from fedagem.reports.summary import summarise_runs
from fedagem.runs.results import collect_results
from fedagem.studies.comparison import compare
from fedagem.studies.report import write_report
from fedagem.studies.runs import runs_of
from fedagem.studies.study import Part, Row, Study, load_scale
from tests.support.finished_runs import digits_rows, make_digits_run, row

CLIENTS = ("client_1", "client_2")
MEGABYTE = 2**20


def costly_rows(times: float) -> list[dict[str, Any]]:
    """Of two clients in four rounds; the ends of both tasks take a second each."""
    rows = [line for line in digits_rows() if line["metric"].startswith("accuracy")]
    for number in range(4):
        for client in CLIENTS:
            rows.append(row(number, "buffer_gradient", client, "buffer_gradient_seconds", 0.5 * times))
            rows.append(row(number, "train", client, "train_seconds", 2.0 * times))
            rows.append(row(number, "train", client, "bytes_up", 3 * MEGABYTE * times))
            rows.append(row(number, "train", client, "bytes_down", 1 * MEGABYTE))
            if number % 2:
                rows.append(row(number, "end_task", client, "end_task_seconds", 1.0 * times))
    return rows


def costly_run(directory: Path, times: float = 1.0, kept: int = 0, **changes) -> Path:
    run = make_digits_run(directory, costly_rows(times), **changes)
    (run / "save").mkdir(exist_ok=True)
    (run / "save" / "checkpoint.state").write_bytes(bytes(2 * MEGABYTE))
    for client in CLIENTS if kept else ():
        folder = run / "local_state" / client
        folder.mkdir(parents=True)
        (folder / "after_round_000002.state").write_bytes(b"old")
        (folder / "after_round_000003.state").write_bytes(bytes(kept))
    return run


def test_a_round_of_a_client_and_what_is_kept_are_measured(tmp_path: Path) -> None:
    results = collect_results(costly_run(tmp_path / "run", kept=5 * MEGABYTE))
    costs = MethodCosts.of([results])
    assert costs.seconds == pytest.approx(2.0 + 0.5 + 1.0 / 2)
    assert (costs.bytes_up, costs.bytes_down) == (3 * MEGABYTE, 1 * MEGABYTE)
    assert (costs.client_bytes, costs.server_bytes) == (5 * MEGABYTE, 2 * MEGABYTE), "of two states the newer"


def test_seeds_are_averaged_and_the_baseline_is_the_measure(tmp_path: Path) -> None:
    plain = [costly_run(tmp_path / f"a{seed}", seed=seed, method="fedavg", fedagem=False) for seed in range(2)]
    other = [costly_run(tmp_path / f"b{times}", times, 1000, seed=times, method="fedcurv") for times in (1, 2)]
    summary = summarise_runs([*plain, *other])
    assert list(summary.costs) == ["fedavg", "fedcurv + Fed-A-GEM"]
    first, second = cost_rows(summary.costs, "fedavg")
    assert first == ["fedavg", "3 (1.00x)", "3 (1.00x)", "1 (1.00x)", "0", "2 (1.00x)"]
    assert second[:4] == ["fedcurv + Fed-A-GEM", "4.5 (1.50x)", "4.5 (1.50x)", "1 (1.00x)"]
    assert second[4] == "0.000954", "what the baseline has nothing of is no multiple of it"
    page = write_page([*plain, *other], tmp_path / "report.html").read_text()
    assert "<td>4.5 (1.50x)</td>" in page


def test_without_the_baseline_there_are_no_multiples(tmp_path: Path) -> None:
    summary = summarise_runs([costly_run(tmp_path / "run")])
    [cells] = cost_rows(summary.costs, "fedavg")
    assert cells == ["der + Fed-A-GEM", "3", "3", "1", "0", "2"]


def test_a_study_tells_the_costs_of_its_rows_and_sides(tmp_path: Path) -> None:
    rows = [Row(label="FL", without=["60±1"], with_=["70±1"]), Row(label="Late", method="agem", with_=["70±1"])]
    part = Part(plan="rotated_mnist", metrics=["accuracy.domain_il"], rows=rows, baseline="FL")
    study = Study(name="mine", title="Mine", paper="Table 0", parts=[part])
    runs = runs_of(study, "smoke", 1, plan_folder(), tmp_path)
    template = collect_results(costly_run(tmp_path / "run", kept=MEGABYTE)).to_json()
    for run in runs:
        told = {**template, "rounds": run.plan.aggregator.rounds_to_train, "method": run.plan.training.method}
        if run.label == "Late":  # as a run of an earlier version, which did not look at the states
            told = {name: value for name, value in told.items() if name not in {"kept_bytes", "end_task_seconds"}}
        run.directory.mkdir(parents=True)
        (run.directory / "results.json").write_text(json.dumps(told))
    scale = load_scale(plan_folder(), part, "smoke")
    write_report(study, [scale], "fedagem reproduce mine", runs, compare(study, runs), tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## What it cost" in report
    lines = [line for line in report.split("## What it cost")[1].splitlines() if line.startswith("| ")]
    names = [line.split(" | ")[0] for line in lines[2:5]]
    assert names == ["| FL", "| FL + Fed-A-GEM", "| Late"]
    assert lines[3].count("(1.00x)") == 5
    assert lines[4].endswith("| - | - |")
    table = list(csv.DictReader((tmp_path / "out" / "costs.csv").open()))
    assert [one["row"] for one in table] == ["FL", "FL + Fed-A-GEM", "Late"]
    assert float(table[0]["client_bytes"]) == MEGABYTE
    assert table[2]["client_bytes"] == ""
