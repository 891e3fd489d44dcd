"""What a federation leaves on disk belongs to its plan: another one does not continue from it."""

import gc
import shutil
from pathlib import Path
from typing import Any

import pytest
from openfl.federated import Plan as OpenFLPlan

from fedagem.errors import CorruptStateError
from fedagem.files import read_state, write_state
from fedagem.learning.model_file import read_model
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run, freeze_plan
from src.simulate import build_federation, run_rounds

ROUNDS = "aggregator.settings.rounds_to_train"


@pytest.fixture(scope="module")
def plan(repository):
    """FedAvg, for two of ten rounds."""
    return Plan.load(repository / "plan" / "rotated_digits.yaml").changed(
        {
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "task_runner.settings.method": "fedavg",
            "task_runner.settings.method_settings": {},
            "task_runner.settings.fedagem": True,  # without it FedAvg keeps no buffer, and so no state
            "task_runner.settings.buffer": {"capacity": 20},
            "data_loader.settings.clients": 2,
            "data_loader.settings.partition.classes_per_client": 5,
            "data_loader.settings.samples_per_client": 64,
            "data_loader.settings.test_samples": 50,
            "data_loader.settings.rounds_per_task": 2,
            ROUNDS: 2,
        }
    )


@pytest.fixture(scope="module")
def two_rounds(plan, tmp_path_factory):
    """A workspace as `fx` users have it, after two rounds."""
    folder = tmp_path_factory.mktemp("by_hand") / "w"
    create_run(folder, plan)
    (folder / "plan" / "requested.yaml").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        follow(plan)
    return folder


@pytest.fixture(autouse=True)
def by_hand(two_rounds, tmp_path, monkeypatch):
    """Every test works in its own copy."""
    shutil.copytree(two_rounds, tmp_path / "w")
    monkeypatch.chdir(tmp_path / "w")


def follow(plan):
    """Let the federation of the current folder follow a plan to its end; the rounds that its model has learned."""
    freeze_plan(Path(), plan)
    folder = Path("plan")
    gc.collect()
    aggregator, collaborators = build_federation(
        OpenFLPlan.parse(folder / "plan.yaml", folder / "cols.yaml", folder / "data.yaml")
    )
    run_rounds(aggregator, collaborators)
    return read_model(Path("save/last.safetensors")).description.rounds


def outcome():
    clients = {path: read_state(path) for path in sorted(Path("local_state").rglob("*.state"))}
    return Path("save/last.pbuf").read_bytes(), {
        path: (state["buffer"]["seen"], *map(bytes_of, state["buffer"]["slots"].values()))
        for path, state in clients.items()
    }


def bytes_of(tensor):
    return tensor.numpy().tobytes()


OTHERS: dict[str, dict[str, Any]] = {
    "agem": {
        "task_runner.settings.method": "agem",
        "task_runner.settings.fedagem": True,
        "task_runner.settings.buffer": {"capacity": 50, "policy": "sliding_window"},
    },
    "der": {"task_runner.settings.method": "der"},
    "buffer": {"task_runner.settings.buffer": {"capacity": 50}},
    "data": {"data_loader.settings.samples_per_client": 32},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_the_checkpoint_of_another_plan_is_refused(plan, changes):
    with pytest.raises(CorruptStateError) as refused:
        follow(plan.changed({**changes, ROUNDS: 4}))
    assert refused.value.message == (
        "save/checkpoint.state is of another plan, or of another version of fedagem: work in another folder, or "
        "remove save/checkpoint.state and local_state/ to start from the beginning."
    )


@pytest.mark.parametrize("name", ["agem", "der"])
def test_the_client_state_of_another_plan_is_refused(plan, name):
    Path("save/checkpoint.state").unlink()
    with pytest.raises(CorruptStateError) as refused:
        follow(plan.changed({**OTHERS[name], ROUNDS: 4}))
    assert refused.value.message == (
        "local_state/client_1/after_round_000000.state is of another plan, or of another version of fedagem: work in "
        "another folder, or remove save/checkpoint.state and local_state/ to start from the beginning."
    )


def test_a_client_that_is_drawn_late_does_not_find_an_earlier_federations_buffer(plan):
    """Its state is older than the round that it joins in, so that nothing else tells them apart."""
    Path("save/checkpoint.state").unlink()
    participation = {"assigner.settings.participation": {"per_round": 1}}
    other = plan.changed({**participation, "task_runner.settings.buffer.capacity": 7, ROUNDS: 10})
    first = other.rounds.participation.draw(list(other.workload.collaborators), 0, other.rounds.seed)
    for name in first:
        shutil.rmtree(Path("local_state") / name)
    with pytest.raises(CorruptStateError, match=r"client_\d/after_round_00000[01]\.state is of another plan"):
        follow(other)


def test_what_the_refusal_advises_lets_another_plan_begin(plan):
    Path("save/checkpoint.state").unlink()
    shutil.rmtree("local_state")
    assert follow(plan.changed({**OTHERS["agem"], ROUNDS: 3})) == 3


def test_more_rounds_give_what_they_would_have_given_at_once(plan, tmp_path, monkeypatch):
    longer = plan.changed({ROUNDS: 4})
    assert follow(longer) == 4
    continued = outcome()
    create_run(tmp_path / "at_once", longer)
    monkeypatch.chdir(tmp_path / "at_once")
    assert follow(longer) == 4
    assert outcome() == continued


def test_another_address_goes_on(plan):
    elsewhere = {"network.settings.agg_addr": "there", "network.settings.agg_port": 50051, ROUNDS: 3}
    assert follow(plan.changed(elsewhere)) == 3


def test_what_a_start_finds_does_not_matter(plan, tmp_path, monkeypatch):
    create_run(tmp_path / "run", plan.changed({ROUNDS: 3}))
    monkeypatch.chdir(tmp_path / "run")
    assert follow(plan) == 2
    assert follow(plan.changed({"data_loader.settings.root": str(tmp_path), ROUNDS: 3})) == 3


def test_a_checkpoint_that_does_not_say_its_plan_is_refused(plan):
    path = Path("save/checkpoint.state")
    write_state(path, {key: value for key, value in read_state(path).items() if key != "origin"})
    with pytest.raises(CorruptStateError, match="is of another plan, or of another version of fedagem"):
        follow(plan.changed({ROUNDS: 3}))
