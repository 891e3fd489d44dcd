"""results.json and results.csv, derived from a small metrics.jsonl written by hand."""

import csv
import json

import pytest

from fedagem.errors import FedAGemError
from fedagem.learning.trainer import method_label
from fedagem.runs.metrics_log import read_metrics
from fedagem.runs.results import (
    accuracy_matrix,
    collect_results,
    rounds_in_results,
    write_final_results,
    write_results,
)
from tests.support.finished_runs import MATRIX, change_plan_of, digits_rows, make_digits_run, make_driving_run, row


@pytest.fixture
def run(tmp_path):
    return make_digits_run(tmp_path / "run", digits_rows())


def test_results_hold_what_the_run_has_shown(run):
    results = collect_results(run)
    assert {
        key: getattr(results, key) for key in ("plan", "method", "fedagem", "seed", "rounds", "clients", "model")
    } == {
        "plan": "rotated_digits",
        "method": "der",
        "fedagem": True,
        "seed": 0,
        "rounds": 4,
        "clients": 2,
        "model": "models.mnist_cnn.SmallCNN",
    }
    assert results.accuracy_matrix == {"domain_il": MATRIX}
    assert results.accuracy == {"domain_il": pytest.approx(0.7)}
    assert results.forgetting == {"domain_il": pytest.approx(0.3)}
    assert results.bwt == {"domain_il": pytest.approx(-0.3)}
    assert results.fwt == {"domain_il": pytest.approx(0.1)}
    assert results.seconds == pytest.approx(9.0)
    assert results.train_seconds == pytest.approx(12.0)
    assert results.client_seconds == pytest.approx(14.0), "the buffer gradient costs time as well"
    assert results.bytes == {"down": 50, "up": 400}


def test_results_are_written_next_to_the_metrics(run):
    written = write_results(run)
    assert json.loads((run / "results.json").read_text()) == written.to_json()
    assert [path.name for path in run.glob(".*")] == [], "nothing partial is left"


def test_every_number_has_a_row(run):
    write_results(run)
    rows = list(csv.DictReader((run / "results.csv").open()))
    assert {(r["plan"], r["method"], r["fedagem"], r["seed"]) for r in rows} == {("rotated_digits", "der", "True", "0")}
    values = {(r["name"], r["scope"], r["task"], r["moment"]): float(r["value"]) for r in rows}
    assert len(values) == len(rows), "nothing is there twice"
    assert values["seconds", "", "", ""] == 9.0
    assert values["bytes", "up", "", ""] == 400
    assert values["accuracy_matrix", "domain_il", "2", "after_task_0"] == MATRIX[0][1]
    assert values["accuracy_matrix", "domain_il", "1", "after_task_2"] == MATRIX[2][0]
    assert values["forgetting", "domain_il", "", "end"] == pytest.approx(0.3)
    assert len(rows) == 7 + 2 + 6 + 4


def test_domains_have_a_row_for_each_moment(tmp_path):
    run = make_driving_run(tmp_path / "run", "fedavg", 0.3)
    write_results(run)
    rows = list(csv.DictReader((run / "results.csv").open()))
    levels = {(r["scope"], r["moment"]): float(r["value"]) for r in rows if r["name"] == "map_50"}
    assert levels["city", "before"] == pytest.approx(0.3)
    assert levels["highway", "after"] == pytest.approx(0.225)
    assert ("shift_round", "4") in {(r["name"], r["value"]) for r in rows}


def test_what_is_not_defined_has_no_row(tmp_path):
    rows = [row(0, "baseline", "federation", "accuracy/class_il", [0.5, 0.5])]
    rows += [row(1, "evaluate", "federation", "accuracy/class_il", [0.4, 0.0])]
    run = make_digits_run(tmp_path / "run", rows)
    assert write_results(run).to_json()["forgetting"] == {"class_il": None}
    names = {r["name"] for r in csv.DictReader((run / "results.csv").open())}
    assert "accuracy" in names
    assert "forgetting" not in names


def test_a_run_that_ended_without_all_of_its_rounds_is_not_passed_off_as_finished(run):
    assert write_final_results(run).rounds == rounds_in_results(run) == 4
    change_plan_of(run, "aggregator", rounds_to_train=20)
    with pytest.raises(FedAGemError, match=r"metrics.jsonl holds 4 of 20 rounds although the run has ended"):
        write_final_results(run)


def test_damaged_results_count_as_none(run):
    (run / "results.json").write_text("{bro")
    assert rounds_in_results(run) == 0


def test_class_and_task_incremental_runs_have_both(tmp_path):
    rows = [row(0, "baseline", "federation", f"accuracy/{kind}", [0.5, 0.5]) for kind in ("class_il", "task_il")]
    rows += [row(1, "evaluate", "federation", "accuracy/class_il", [0.4, 0.0])]
    rows += [row(1, "evaluate", "federation", "accuracy/task_il", [0.9, 0.5])]
    results = collect_results(make_digits_run(tmp_path / "run", rows))
    assert results.accuracy == {"class_il": 0.4, "task_il": 0.9}
    assert results.forgetting == {"class_il": None, "task_il": None}


def test_an_unfinished_run_has_what_it_has(tmp_path):
    results = collect_results(make_digits_run(tmp_path / "run", digits_rows()[:1]))
    assert results.accuracy_matrix == {"domain_il": MATRIX[:1]}
    assert "accuracy" not in results.to_json()


def test_task_ends_make_the_matrix(run):
    rows = read_metrics(run)
    assert accuracy_matrix(rows, "domain_il", 2) == MATRIX
    assert accuracy_matrix(rows, "class_il", 2) == []


def test_a_folder_without_a_run_is_refused(tmp_path, run):
    with pytest.raises(FedAGemError, match="is not a run: it has no plan"):
        collect_results(tmp_path)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(FedAGemError, match=r"has no metrics\.jsonl"):
        collect_results(run)


def test_labels():
    assert method_label("agem", fedagem=False) == "agem"
    assert method_label("agem", fedagem=True) == "agem + Fed-A-GEM"
