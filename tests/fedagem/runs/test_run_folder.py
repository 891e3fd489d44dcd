"""The folder of a run: laid out once, never overwritten, and resumed only with the plan that was asked for."""

from pathlib import Path

import pytest
import yaml

from fedagem.errors import FedAGemError, PlanError
from fedagem.plans.plan import Plan
from fedagem.runs.drives import with_evaluation_frames
from fedagem.runs.folder import create_run, freeze_plan, plan_of_run, requested_plan, resume_run


@pytest.fixture(scope="module")
def plan(repository: Path) -> Plan:
    return Plan.load(repository / "plan" / "rotated_digits.yaml").changed({"data_loader.settings.clients": 2})


@pytest.fixture(scope="module")
def drive(repository: Path) -> Plan:
    return Plan.load(repository / "plan" / "carla_demo.yaml")


def test_a_new_run_is_a_complete_workspace(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan.renamed("my_plan"))
    assert (tmp_path / "r" / "src" / "aggregator.py").exists()
    assert (tmp_path / "r" / ".workspace").exists()
    assert yaml.safe_load((tmp_path / "r" / "plan" / "cols.yaml").read_text()) == {
        "collaborators": ["client_1", "client_2"]
    }
    assert (tmp_path / "r" / "plan" / "data.yaml").read_text() == "client_1,0\nclient_2,1\n"
    assert plan_of_run(tmp_path / "r") == requested_plan(tmp_path / "r") == plan
    assert plan_of_run(tmp_path / "r").name == requested_plan(tmp_path / "r").name == "my_plan"


def test_a_run_is_not_overwritten(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan)
    with pytest.raises(FedAGemError, match=r"exists: resume it \(--resume\) or choose another folder \(--out\)"):
        create_run(tmp_path / "r", plan)


def test_what_a_start_found_does_not_matter(tmp_path: Path, drive: Plan) -> None:
    """Ports, recorded drives and a warmed-up model are in the plan that is followed, not in the one asked for."""
    create_run(tmp_path / "r", drive)
    found = with_evaluation_frames(drive).changed(
        {
            "network.settings.agg_addr": "localhost",
            "network.settings.agg_port": 5,
            "data_loader.settings.stream.port": 6,
            "task_runner.settings.initial_model": "/somewhere/save/last.safetensors",
        }
    )
    freeze_plan(tmp_path / "r", found)
    assert plan_of_run(tmp_path / "r") == found != drive
    assert requested_plan(tmp_path / "r") == drive
    resume_run(tmp_path / "r", drive)


def test_another_name_of_the_plan_does_not_matter(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan)
    resume_run(tmp_path / "r", plan.renamed("copied"))


def test_a_default_that_is_spelled_out_does_not_matter(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan)
    threads, policy = plan.training.threads, plan.training.buffer.policy
    rounds = plan.aggregator.rounds_to_train
    spelled_out = plan.changed(
        {
            "task_runner.settings.threads": threads,
            "task_runner.settings.buffer.policy": policy,
            "data_loader.settings.test_samples": None,
            "aggregator.settings.rounds_to_train": rounds,
        }
    )
    assert spelled_out.to_yaml() != plan.to_yaml()
    resume_run(tmp_path / "r", spelled_out)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data_loader.settings.seed", 1),
        ("data_loader.settings.evaluation", {"paths": {"city": ["mine"]}}),
        ("data_loader.settings.stream.port", 4401),
        ("network.settings.use_tls", False),
        ("network.settings.agg_port", 5),
        ("collaborator.settings.connect_seconds", 121),
        ("aggregator.settings.snapshots", []),
        ("task_runner.settings.initial_model", "mine.safetensors"),
        ("driving.snippets", "elsewhere"),
        ("warm_up", None),
        ("carla.seed", 12),
    ],
)
def test_any_other_request_is_another_plan(tmp_path: Path, drive: Plan, path: str, value: object) -> None:
    create_run(tmp_path / "r", drive)
    freeze_plan(tmp_path / "r", with_evaluation_frames(drive))
    with pytest.raises(FedAGemError, match=r"requested\.yaml is not the plan you gave: resume with the same plan"):
        resume_run(tmp_path / "r", drive.changed({path: value}))


def test_a_run_of_another_version_of_the_code_is_not_resumed(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run(tmp_path / "r", plan)
    monkeypatch.setattr("fedagem.runs.folder.LEARNING_VERSION", 1000)
    with pytest.raises(FedAGemError, match="was made by a version of fedagem that computes other numbers: start again"):
        resume_run(tmp_path / "r", plan)


def test_a_run_that_does_not_know_its_version_is_not_resumed(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan)
    (tmp_path / "r" / "plan" / "version").unlink()
    with pytest.raises(FedAGemError, match="was made by a version of fedagem that computes other numbers"):
        resume_run(tmp_path / "r", plan)


def test_a_folder_without_a_run_is_not_resumed(tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(FedAGemError, match="holds no run to resume: start it without --resume"):
        resume_run(tmp_path / "r", plan)


def test_a_folder_that_does_not_know_its_request_is_not_resumed(tmp_path: Path, plan: Plan) -> None:
    create_run(tmp_path / "r", plan)
    (tmp_path / "r" / "plan" / "requested.yaml").unlink()
    with pytest.raises(
        FedAGemError, match=r"has no plan/requested\.yaml: it was made by an older version .*; start again with --out"
    ):
        resume_run(tmp_path / "r", plan)
    assert requested_plan(tmp_path / "r") == plan, "a federation that was started by hand follows its only plan"


@pytest.mark.parametrize("name", ["plan", "requested"])
def test_a_plan_of_another_version_is_refused_by_its_file(tmp_path: Path, plan: Plan, name: str) -> None:
    create_run(tmp_path / "r", plan)
    path = tmp_path / "r" / "plan" / f"{name}.yaml"
    path.write_text(path.read_text().replace("rounds_per_task", "rounds_of_a_task"))
    with pytest.raises(PlanError, match=rf"{name}\.yaml is not the plan of a run of this version: data_loader"):
        requested_plan(tmp_path / "r")
