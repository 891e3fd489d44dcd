"""results.json, the table and the plots, derived from a small metrics.jsonl written by hand."""

import io
import json

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from fedagem.cli.main import main
from fedagem.errors import FedAGemError
from fedagem.reports.figures import draw_tasks
from fedagem.reports.tables import results_table
from fedagem.runs.folder import create_run, plan_of_run, resume_run
from fedagem.runs.metrics_log import read_metrics
from fedagem.runs.results import (
    accuracy_matrix,
    collect_results,
    method_label,
    rounds_in_results,
    write_final_results,
    write_results,
)

MATRIX = [[0.1, 0.2], [0.9, 0.3], [0.6, 0.8]]
"""Before training, after task 1 (rounds 0 and 1) and after task 2 (rounds 2 and 3)."""


def row(round_number, stage, client, metric, value):
    return {"round": round_number, "stage": stage, "client": client, "metric": metric, "value": value}


def rows_of_a_run():
    rows = [row(0, "baseline", "federation", "accuracy/domain_il", MATRIX[0])]
    for r in range(4):
        for client, up in (("client_1", 100), ("client_2", 300)):
            rows.append(row(r, "buffer_gradient", client, "bytes_up", up))
            rows.append(row(r, "train", client, "bytes_up", up))
            rows.append(row(r, "train", client, "bytes_down", 50))
            rows.append(row(r, "train", client, "train_seconds", 1.5))
            rows.append(row(r, "buffer_gradient", client, "buffer_gradient_seconds", 0.25))
        rows.append(row(r, "train", "federation", "seconds", 2.0))
        rows.append(row(r, "evaluate", "federation", "seconds", 0.25))
        # Evaluated in every round; only the task ends count.
        value = MATRIX[(r + 1) // 2] if r % 2 else [0.0, 0.0]
        rows.append(row(r, "evaluate", "federation", "accuracy/domain_il", value))
    return rows


def make_run(directory, rows, seed=0, fedagem=True, method="der", name="rotated_digits"):
    (directory / "plan").mkdir(parents=True)
    plan = {
        "data_loader": {"settings": {"seed": seed, "rounds_per_task": 2, "tasks": {"count": 2}}},
        "task_runner": {
            "settings": {"method": method, "fedagem": fedagem, "model": {"template": "models.mnist_cnn.SmallCNN"}}
        },
    }
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan))
    (directory / "plan" / "name").write_text(f"{name}\n")
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    return directory


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", rows_of_a_run())


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


def test_results_are_written_beside_the_metrics(run):
    written = write_results(run)
    assert json.loads((run / "results.json").read_text()) == written.to_json()
    assert [path.name for path in run.glob(".*")] == [], "nothing partial is left"


def test_a_run_that_ended_without_all_of_its_rounds_is_not_passed_off_as_finished(run):
    frozen = run / "plan" / "plan.yaml"
    plan = yaml.safe_load(frozen.read_text()) | {"aggregator": {"settings": {"rounds_to_train": 4}}}
    frozen.write_text(yaml.safe_dump(plan))
    assert write_final_results(run).rounds == rounds_in_results(run) == 4
    plan["aggregator"]["settings"]["rounds_to_train"] = 20
    frozen.write_text(yaml.safe_dump(plan))
    with pytest.raises(FedAGemError, match=r"metrics.jsonl holds 4 of 20 rounds although the run has ended"):
        write_final_results(run)


def test_damaged_results_count_as_none(run):
    (run / "results.json").write_text("{bro")
    assert rounds_in_results(run) == 0


def test_class_and_task_incremental_runs_have_both(tmp_path):
    rows = [row(0, "baseline", "federation", f"accuracy/{kind}", [0.5, 0.5]) for kind in ("class_il", "task_il")]
    rows += [row(1, "evaluate", "federation", "accuracy/class_il", [0.4, 0.0])]
    rows += [row(1, "evaluate", "federation", "accuracy/task_il", [0.9, 0.5])]
    results = collect_results(make_run(tmp_path / "run", rows))
    assert results.accuracy == {"class_il": 0.4, "task_il": 0.9}
    assert results.forgetting == {"class_il": None, "task_il": None}


def test_an_unfinished_run_has_what_it_has(tmp_path):
    results = collect_results(make_run(tmp_path / "run", rows_of_a_run()[:1]))
    assert results.accuracy_matrix == {"domain_il": MATRIX[:1]}
    assert "accuracy" not in results.to_json()


def test_task_ends_make_the_matrix(run):
    rows = read_metrics(run)
    assert accuracy_matrix(rows, "domain_il", 2) == MATRIX
    assert accuracy_matrix(rows, "class_il", 2) == []


def test_a_row_that_is_still_being_written_is_left_out(run):
    complete = read_metrics(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "stage": "tr')
    assert read_metrics(run) == complete


def test_a_folder_without_a_run_is_refused(tmp_path, run):
    with pytest.raises(FedAGemError, match="is not a run: it has no plan"):
        collect_results(tmp_path)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(FedAGemError, match=r"has no metrics\.jsonl"):
        collect_results(run)


def text_of(table):
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_the_table_has_mean_and_spread_over_seeds(tmp_path):
    better = [
        {**r, "value": [0.8, 0.9]} if r["round"] == 3 and "accuracy" in r["metric"] else r for r in rows_of_a_run()
    ]
    runs = [
        make_run(tmp_path / "a", rows_of_a_run(), seed=0),
        make_run(tmp_path / "b", better, seed=3),
        make_run(tmp_path / "c", rows_of_a_run(), seed=0, fedagem=False, method="fedavg"),
    ]
    lines = text_of(results_table([collect_results(path) for path in runs])).splitlines()
    [with_fedagem] = [line for line in lines if "der + Fed-A-GEM" in line]
    [without] = [line for line in lines if "fedavg" in line]
    assert "0, 3" in with_fedagem
    assert "77.5 ± 10.6" in with_fedagem
    assert "Fed-A-GEM" not in without
    assert "70.0" in without
    assert "±" not in without


def test_plots_are_pictures(run, tmp_path):
    [picture] = draw_tasks([run], tmp_path / "plots")
    assert picture.name == "domain_il.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plans_are_not_averaged_in_one_picture(run, tmp_path):
    other = make_run(tmp_path / "other", rows_of_a_run(), name="rotated_mnist")
    pictures = draw_tasks([run, other, run], tmp_path / "plots")
    assert [path.name for path in pictures] == ["rotated_digits-domain_il.png", "rotated_mnist-domain_il.png"]


def test_a_folder_of_runs_is_reported_as_its_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "studies" / "runs" / "a", rows_of_a_run(), method="agem")
    make_run(tmp_path / "studies" / "runs" / "b", rows_of_a_run(), method="agem", seed=1)
    make_run(tmp_path / "studies" / "runs" / ".c.partial", rows_of_a_run(), method="agem", seed=2)
    (tmp_path / "studies" / "first-smoke").mkdir()
    result = CliRunner().invoke(main, ["report", "run", "studies", "studies/runs/a"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.output.splitlines() if "agem + Fed-A-GEM" in line]
    assert "│ 0, 1  │" in line
    assert len(json.loads((tmp_path / "report" / "results.json").read_text())) == 3


def test_a_mean_over_more_than_seeds_is_said_to_be_one(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = "rotated_digits, der + Fed-A-GEM: several runs have the same seed"
    make_run(tmp_path / "seed1", rows_of_a_run(), seed=1)
    assert sentence not in CliRunner().invoke(main, ["report", "run", "seed1"], env={"COLUMNS": "200"}).output
    make_run(tmp_path / "other", rows_of_a_run())
    assert sentence in CliRunner().invoke(main, ["report", "run", "other"], env={"COLUMNS": "200"}).output


def test_labels():
    assert method_label("agem", fedagem=False) == "agem"
    assert method_label("agem", fedagem=True) == "agem + Fed-A-GEM"


PLAN = {
    "data_loader": {"settings": {"clients": 2, "seed": 0}},
    "task_runner": {"settings": {}},
    "network": {"settings": {"agg_addr": "auto", "agg_port": "auto", "use_tls": True}},
}


def test_a_new_run_is_a_complete_workspace(tmp_path):
    create_run(tmp_path / "r", PLAN, "my_plan")
    assert (tmp_path / "r" / "src" / "aggregator.py").exists()
    assert (tmp_path / "r" / ".workspace").exists()
    assert yaml.safe_load((tmp_path / "r" / "plan" / "cols.yaml").read_text()) == {
        "collaborators": ["client_1", "client_2"]
    }
    assert (tmp_path / "r" / "plan" / "data.yaml").read_text() == "client_1,0\nclient_2,1\n"
    assert plan_of_run(tmp_path / "r") == (PLAN, "my_plan")


def test_a_run_is_not_overwritten(tmp_path):
    create_run(tmp_path / "r", PLAN, "my_plan")
    with pytest.raises(FedAGemError, match=r"exists: go on with it \(--resume\) or choose another folder \(--out\)"):
        create_run(tmp_path / "r", PLAN, "my_plan")


def test_a_run_goes_on_only_with_its_own_plan(tmp_path):
    with pytest.raises(FedAGemError, match="holds no run to resume"):
        resume_run(tmp_path / "r", PLAN)
    create_run(tmp_path / "r", PLAN, "my_plan")
    elsewhere = {**PLAN, "network": {"settings": {"agg_addr": "localhost", "agg_port": 5, "use_tls": True}}}
    resume_run(tmp_path / "r", elsewhere)
    for other in (
        {**PLAN, "data_loader": {"settings": {"clients": 2, "seed": 1}}},
        {**PLAN, "network": {"settings": {"agg_addr": "auto", "agg_port": "auto", "use_tls": False}}},
    ):
        with pytest.raises(FedAGemError, match="is not the plan you gave"):
            resume_run(tmp_path / "r", other)
