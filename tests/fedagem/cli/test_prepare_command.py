"""`fedagem prepare`: what it refuses before anything is recorded, and the workspace that it makes.

That a prepared plan is the one of `fedagem run`, and that `fx` follows it, is in tests/e2e/test_driving_by_hand.py.
"""

import pytest
import yaml
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.plans.driving import DrivingSettings, StreamAddress
from fedagem.plans.plan import Plan
from fedagem.runs import preparation
from fedagem.runs.by_hand import write_workspace
from fedagem.runs.folder import create_run, plan_of_run
from fedagem.runs.preparation import as_prepared, prepare, warm_up
from fedagem.runs.processes import lock_run


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "carla_demo.yaml")


@pytest.fixture
def unrecorded(monkeypatch, tmp_path):
    """A folder to work in, where recordings and the warm-up's training take no time: they are only asked for."""
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(preparation, "record_drives", lambda drives: asked.extend(drive.title for drive in drives))
    monkeypatch.setattr(preparation, "run_jobs", lambda jobs, parallel: asked.extend(job.title for job in jobs))
    return asked


def prepared(*words):
    result = CliRunner().invoke(main, ["prepare", *(str(word) for word in words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def assert_refused(asked, sentence, *words):
    code, said = prepared(*words)
    assert code == 2
    assert said.startswith("Error: ")
    assert sentence in said
    assert asked == [], "nothing is recorded for a workspace that cannot be had"


def test_a_plan_without_drives_has_nothing_to_prepare(unrecorded, tmp_path):
    sentence = "rotated_digits is no driving plan and has nothing to prepare: write it with `fedagem plan write"
    assert_refused(unrecorded, sentence, "rotated_digits", "--workspace", tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_a_folder_that_cannot_become_a_workspace_is_refused(unrecorded, plan, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "photos").mkdir()
    create_run(tmp_path / "run", plan)
    write_workspace(tmp_path / "other", as_prepared(plan.changed(seed=4)))
    for folder, sentence in (
        ("file", "file is a file: choose another folder for the workspace"),
        ("photos", "photos is not an OpenFL workspace, because it has no .workspace"),
        ("run", "run holds a run that fedagem has started: resume that one"),
        ("other", "other holds another plan: remove "),
    ):
        assert_refused(unrecorded, sentence, "carla_demo", "--workspace", tmp_path / folder)
    assert plan_of_run(tmp_path / "other").seed == 4


def test_a_workspace_where_a_federation_is_at_work_keeps_its_plan(unrecorded, plan, tmp_path):
    write_workspace(tmp_path / "w", as_prepared(plan))
    before = (tmp_path / "w" / "plan" / "plan.yaml").read_bytes()
    with lock_run(tmp_path / "w"):
        code, said = prepared("carla_demo", "--workspace", tmp_path / "w", "--set", "network.settings.agg_addr=here")
    assert code == 2
    assert "is being run by another process" in said
    assert (tmp_path / "w" / "plan" / "plan.yaml").read_bytes() == before


def test_what_the_command_is_told_is_in_the_plan_and_a_second_time_changes_the_address(unrecorded, tmp_path):
    words = ("carla_demo", "--workspace", tmp_path / "w", "--seed", 7, "--rounds", 6)
    for host in ("first", "second"):
        code, said = prepared(*words, "--set", f"data_loader.settings.stream.host={host}")
        assert code == 0, said
        followed = plan_of_run(tmp_path / "w")
        assert (followed.seed, followed.aggregator.rounds_to_train) == (7, 6)
        assert isinstance(followed.data, DrivingSettings)
        assert followed.data.stream == StreamAddress(host=host, port=4400)
    assert unrecorded == ["carla_demo-evaluation", "carla_demo-warm-up", "warm-up, seed 7"] * 2
    assert yaml.safe_load((tmp_path / "w" / "plan" / "cols.yaml").read_text())["collaborators"] == [
        "vehicle_1",
        "vehicle_2",
    ]


def test_the_plan_is_known_before_it_is_prepared(unrecorded, plan):
    assert as_prepared(plan) == warm_up(prepare(plan, live=True)) != plan
    assert as_prepared(plan).pending_warm_up is None
