"""What `fedagem run` and `fedagem report` show of driving runs: mAP by domain and moment, over seeds."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli.finish import finish_run
from fedagem.cli.main import main
from fedagem.runs.results import collect_results, scalars
from tests.support.finished_runs import make_driving_run, make_task_run


def named(run, name):
    (run / "plan" / "name").write_text(f"{name}\n")
    return run


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Runs `fedagem report` on a wide screen and gives what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*folders):
        result = CliRunner().invoke(main, ["report", *map(str, folders)], env={"COLUMNS": "200"})
        assert result.exit_code == 0, result.output
        return result.output

    return run


def cells(output, curve, label):
    """The cells of a method in the part of the table that is about a curve."""
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines()]
    names = [row[0] for row in lines]
    return lines[names.index(label, names.index(curve))]


def test_results_hold_map_by_domain_and_moment(tmp_path):
    results = collect_results(make_driving_run(tmp_path / "run", "fedavg", 0.3))
    assert results.shift_round == 4
    assert results.map_50["city"] == {
        "before": pytest.approx(0.3),
        "after": pytest.approx(0.25),
        "end": pytest.approx(0.25),
        "lost": pytest.approx(0.05),
    }
    assert results.map_50["highway"]["lost"] == pytest.approx(0.1 - 0.225)
    assert results.map_50.keys() == {"city", "highway", "all"}
    assert not results.intervals


def test_results_have_intervals_if_frames_were_drawn(tmp_path):
    run = make_driving_run(tmp_path / "run", "fedavg", 0.3, spread=0.1)
    results = collect_results(run)
    low, high = results.intervals["map_50/city"]["before"]
    assert low == pytest.approx(0.3 - 0.095)
    assert high == pytest.approx(0.3 + 0.095)
    assert results.intervals["map_50/city"]["lost"] == pytest.approx((0.05, 0.05)), "all rounds have the same draws"
    assert results.objects == {"city/vehicle": 300, "city/bike": 3}
    rows = {(row.name, row.scope, row.moment): row.value for row in scalars(results)}
    assert rows["map_50_low", "city", "before"] == low
    assert rows["map_50_high", "city", "before"] == high
    assert rows["objects", "city/bike", ""] == 3
    assert ("map_50_low", "highway", "before") not in rows


def test_a_run_that_did_not_reach_its_shift_has_only_an_end(tmp_path):
    results = collect_results(make_driving_run(tmp_path / "run", "fedavg", 0.3, rounds=4))
    assert results.map_50["city"] == {"end": pytest.approx(0.3)}


def test_runs_over_tasks_have_no_map(tmp_path):
    content = collect_results(make_task_run(tmp_path / "run", "der", 0.5)).to_json()
    assert not {"map_50", "shift_round"} & content.keys()


def test_a_driving_run_ends_with_its_map(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run = named(make_driving_run(tmp_path / "run", "fedavg", 0.3), "demo")
    finish_run(run)
    output = capsys.readouterr().out
    assert "demo" in output
    assert "6 rounds in 0.2 minutes" in output
    assert cells(output, "mAP@0.5 city", "fedavg") == ["fedavg", "0.300", "0.250", "0.050", "0.250"]
    assert cells(output, "mAP@0.5 highway", "fedavg") == ["fedavg", "0.100", "0.225", "-0.125", "0.225"]
    assert json.loads((run / "results.json").read_text())["map_50"]["city"]["after"] == pytest.approx(0.25)
    assert (run / "plots" / "map.png").read_bytes().startswith(b"\x89PNG")


def test_driving_runs_are_reported_with_their_spread_over_seeds(tmp_path, report):
    runs = [named(make_driving_run(tmp_path / f"{seed}", "der", 0.1 * seed, seed=seed), "demo") for seed in range(2)]
    output = report(*runs)
    assert cells(output, "mAP@0.5 city", "der + Fed-A-GEM")[1:3] == ["0.300 ± 0.000", "0.500 ± 0.071"]
    assert "Acc" not in output
    assert (tmp_path / "report" / "map.svg").exists()


def test_driving_plans_and_benchmarks_have_tables_of_their_own(tmp_path, report):
    runs = [named(make_driving_run(tmp_path / name, "der", 0.1), name) for name in ("short", "long")]
    output = report(*runs, named(make_task_run(tmp_path / "tasks", "fedavg", 0.4), "digits"))
    for words in ("short ", "long ", "Acc", "digits", "short-map.png", "long-map.png", "domain_il.png"):
        assert words in output


def test_a_run_that_has_not_begun_is_left_out(tmp_path, report):
    ready = named(make_driving_run(tmp_path / "runs" / "ready", "der", 0.1), "demo")
    begun = make_driving_run(tmp_path / "runs" / "fresh", "fedavg", 0.1)
    (begun / "metrics.jsonl").unlink()
    output = report("runs")
    assert "left out runs/fresh: it has no metrics.jsonl" in output
    assert "fedavg" not in output
    (ready / "metrics.jsonl").unlink()
    result = CliRunner().invoke(main, ["report", "runs"])
    assert result.exit_code == 2
    assert "none of these runs has begun" in result.output


def test_a_run_made_by_hand_gets_its_page(tmp_path, report, monkeypatch):
    run = make_driving_run(tmp_path / "workspace", "der", 0.1)
    (run / "plan" / "name").unlink()
    monkeypatch.chdir(run)
    assert "wrote report/report.html" in report(".")
    page = (run / "report" / "report.html").read_text()
    assert "<title>workspace</title>" in page
    assert "<td>workspace</td><td>train 15 s</td>" in page


def test_every_plan_gets_a_page(tmp_path, report):
    for name in ("short", "long"):
        named(make_driving_run(tmp_path / "runs" / name, "der", 0.1), name)
    output = report("runs")
    for name in ("short", "long"):
        assert f"wrote report/{name}-report.html" in output
        assert f"<title>{name}</title>" in (tmp_path / "report" / f"{name}-report.html").read_text()
