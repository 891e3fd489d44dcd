"""`fedagem compare`: which methods it takes, what it refuses to mix, and how it is interrupted."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli.compare import _present
from fedagem.cli.main import main
from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run, plan_of_run
from fedagem.runs.many_runs import Job, run_jobs
from fedagem.studies.sweep import Point
from tests.support.finished_runs import make_driving_run


@pytest.fixture
def plan_path(repository):
    return repository / "plan" / "rotated_digits.yaml"


@pytest.fixture
def jobs_of(monkeypatch, tmp_path, plan_path):
    """The titles of the jobs that a comparison would run."""
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def interrupt(jobs, _):
        asked.extend(job.title for job in jobs)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedagem.runs.many_runs.run_jobs", interrupt)

    def titles(*words):
        result = CliRunner().invoke(main, ["compare", str(plan_path), *words])
        assert result.exit_code == 130
        assert "Interrupted; progress is saved. Run the same command again to resume." in result.output
        return asked

    return titles


def test_a_benchmark_is_compared_under_the_methods_that_it_can_have(jobs_of):
    assert jobs_of() == ["fedavg, seed 0", "der, seed 0", "der+fedagem, seed 0"]


def test_methods_may_be_listed_with_spaces(jobs_of):
    assert jobs_of("--methods", "agem, der") == ["agem, seed 0", "der, seed 0"]


@pytest.mark.parametrize("methods", ["", "der,"])
def test_methods_that_name_none_are_refused(methods, plan_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["compare", str(plan_path), "--methods", methods])
    assert result.exit_code == 2
    assert "--methods has ''; valid values: agem, " in result.output
    assert list(tmp_path.iterdir()) == []


def test_results_of_other_settings_are_not_shown_again(tmp_path, plan_path):
    plan = Plan.load(plan_path)
    done = tmp_path / "fedavg-seed0"
    create_run(done, plan)
    (done / "results.json").write_text(json.dumps({"rounds": plan.aggregator.rounds_to_train}))
    run_jobs([Job("fedavg", plan, plan, done)], 1)
    changed = plan.changed({"task_runner.settings.optimizer.lr": 0.0001})
    with pytest.raises(FedAGemError, match=r"requested.yaml is not the plan you gave"):
        run_jobs([Job("fedavg", changed, changed, done)], 1)


@pytest.mark.parametrize(("swept", "together"), [("carla.seed", True), ("task_runner.settings.optimizer.lr", False)])
def test_a_mean_is_taken_over_drives_and_not_over_other_settings(tmp_path, capsys, swept, together):
    work = []
    for value in ("1", "2"):
        run = make_driving_run(tmp_path / f"{value}-fedavg", "fedavg", 0.3)
        (run / "report.html").touch()
        plan = plan_of_run(run)
        work.append((Point({swept: value}), Job("fedavg", plan, plan, run)))
    _present(work, tmp_path)
    said = " ".join(capsys.readouterr().out.split())
    assert ("2 drives, 2 runs of each method, ± is a standard error: fedavg loses 0.050 ± 0.000" in said) == together
