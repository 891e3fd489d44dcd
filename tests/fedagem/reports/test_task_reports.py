"""Tables and plots of runs over tasks, and what `fedagem report` says of them."""

import csv
import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from fedagem.cli.main import main
from fedagem.reports.figures import draw_tasks
from fedagem.reports.tables import results_table
from fedagem.runs.results import collect_results
from tests.support.finished_runs import digits_rows, make_digits_run


@pytest.fixture
def run(tmp_path):
    return make_digits_run(tmp_path / "run", digits_rows())


def text_of(table):
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_the_table_has_mean_and_spread_over_seeds(tmp_path):
    better = [{**r, "value": [0.8, 0.9]} if r["round"] == 3 and "accuracy" in r["metric"] else r for r in digits_rows()]
    runs = [
        make_digits_run(tmp_path / "a", digits_rows(), seed=0),
        make_digits_run(tmp_path / "b", better, seed=3),
        make_digits_run(tmp_path / "c", digits_rows(), seed=0, fedagem=False, method="fedavg"),
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
    other = make_digits_run(tmp_path / "other", digits_rows(), name="rotated_mnist")
    pictures = draw_tasks([run, other, run], tmp_path / "plots")
    assert [path.name for path in pictures] == ["rotated_digits-domain_il.png", "rotated_mnist-domain_il.png"]


def test_a_folder_of_runs_is_reported_as_its_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_digits_run(tmp_path / "studies" / "runs" / "a", digits_rows(), method="agem")
    make_digits_run(tmp_path / "studies" / "runs" / "b", digits_rows(), method="agem", seed=1)
    make_digits_run(tmp_path / "studies" / "runs" / ".c.partial", digits_rows(), method="agem", seed=2)
    (tmp_path / "studies" / "first-smoke").mkdir()
    result = CliRunner().invoke(main, ["report", "run", "studies", "studies/runs/a"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    [line] = [line for line in result.output.splitlines() if "agem + Fed-A-GEM" in line]
    assert "│ 0, 1  │" in line
    assert len(json.loads((tmp_path / "report" / "results.json").read_text())) == 3
    rows = list(csv.DictReader((tmp_path / "report" / "results.csv").open()))
    assert {(r["method"], r["seed"]) for r in rows} == {("der", "0"), ("agem", "0"), ("agem", "1")}


def test_a_mean_over_more_than_seeds_is_said_to_be_one(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = "rotated_digits, der + Fed-A-GEM: several runs have the same seed"
    make_digits_run(tmp_path / "seed1", digits_rows(), seed=1)
    assert sentence not in CliRunner().invoke(main, ["report", "run", "seed1"], env={"COLUMNS": "200"}).output
    make_digits_run(tmp_path / "other", digits_rows())
    assert sentence in CliRunner().invoke(main, ["report", "run", "other"], env={"COLUMNS": "200"}).output
