"""An aggregator that dies at any stage and starts again ends with the same model, metrics and files."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest

from fedagem.errors import CorruptStateError, FedAGemError
from fedagem.learning.model_file import read_model
from fedagem.learning.trainer import Component
from fedagem.runs.folder import plan_of_run
from src.global_model import Checkpoint
from src.link import StaleTaskError
from tests.support.in_process_federation import MODEL, make_aggregator, make_clients, model_of, run_all

NAMES = ["a", "b"]
ROUNDS = 4
ALL_STEPS = 11
"""Results that each client sends in four rounds."""


pytestmark = pytest.mark.usefixtures("in_a_folder")


def outcome():
    rows = [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]
    facts = [row for row in rows if row["metric"] not in {"seconds", "bytes_down", "bytes_up"}]
    models = [f"save/{name}.{kind}" for name in ("last", "best") for kind in ("pbuf", "safetensors")]
    return facts, {name: Path(name).read_bytes() for name in models}


@pytest.fixture
def undisturbed(tmp_path, monkeypatch):
    elsewhere = tmp_path / "undisturbed"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    result = outcome()
    monkeypatch.chdir(tmp_path)
    return result


@pytest.mark.parametrize("steps", range(2 * ALL_STEPS + 1))
def test_a_crash_after_any_result_changes_nothing(undisturbed, steps):
    clients = make_clients(make_aggregator(NAMES, ROUNDS))
    for step in range(steps):
        clients[step % 2].step()
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    assert outcome() == undisturbed


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["before the checkpoint", "after the checkpoint"])
@pytest.mark.parametrize("round_number", [1, ROUNDS])
def test_a_crash_at_the_end_of_a_round_changes_nothing(undisturbed, monkeypatch, round_number, moment):
    save = Checkpoint.save

    def crash(self, number, *rest):
        if number != round_number:
            return save(self, number, *rest)
        if moment == "after the checkpoint":
            save(self, number, *rest)
        raise Crash

    monkeypatch.setattr(Checkpoint, "save", crash)
    with pytest.raises(Crash):
        run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    monkeypatch.setattr(Checkpoint, "save", save)
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    assert outcome() == undisturbed


def test_a_task_of_the_lost_stage_is_stale_and_the_round_begins_again():
    clients = make_clients(make_aggregator(NAMES, ROUNDS))
    for _ in range(5):
        for client in clients:
            client.step()
    assert clients[0].poll() == (["evaluate"], 1, False)
    restarted = make_aggregator(NAMES, ROUNDS)
    for client in clients:
        client.aggregator = restarted
    with pytest.raises(StaleTaskError, match="there is no model tensor 'w' of round 2"):
        clients[0].send("evaluate", 1)
    assert clients[0].poll() == (["buffer_gradient"], 1, False)


def test_a_finished_federation_that_is_started_again_just_ends():
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    before = outcome()
    clients = make_clients(make_aggregator(NAMES, ROUNDS))
    run_all(clients)
    assert [client.done for client in clients] == [[], []]
    assert outcome() == before


def test_a_damaged_checkpoint_is_refused_by_name():
    run_all(make_clients(make_aggregator(NAMES, 1)))
    path = Path("save/checkpoint.state")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptStateError, match=r"checkpoint\.state is damaged"):
        make_aggregator(NAMES, 2)


def test_a_checkpoint_of_another_beginning_is_refused():
    Checkpoint(Path("c.state"), MODEL, "this plan").save(3, 0.5, MODEL, {})
    other = {name: array + 1 for name, array in MODEL.items()}
    with pytest.raises(CorruptStateError, match="began with another initial model"):
        Checkpoint(Path("c.state"), other, "this plan").load()


def test_a_checkpoint_of_another_plan_is_refused():
    Checkpoint(Path("c.state"), MODEL, "another plan").save(3, 0.5, MODEL, {})
    with pytest.raises(CorruptStateError, match=r"c\.state is of another plan, or of another version of fedagem"):
        Checkpoint(Path("c.state"), MODEL, "this plan").load()


def test_a_checkpoint_keeps_values_shapes_and_dtypes():
    checkpoint = Checkpoint(Path("c.state"), MODEL, "this plan")
    assert checkpoint.load() is None
    server = {"kept": {"fisher": np.array([[1.5, 2]], np.float32)}, "previous": None, "rounds": [1, 2], "name": "x"}
    checkpoint.save(3, None, MODEL, server, {"client_1": 6})
    saved = checkpoint.load()
    assert saved is not None
    round_number, score, model, restored, spent = saved
    assert (round_number, score, spent) == (3, None, {"client_1": 6})
    for name, array in MODEL.items():
        np.testing.assert_array_equal(model[name], array)
        assert model[name].dtype == array.dtype
    kept = restored.pop("kept")["fisher"]
    assert (kept.tolist(), kept.dtype) == ([[1.5, 2]], np.float32)
    assert restored == {"previous": None, "rounds": [1, 2], "name": "x"}


def test_more_rounds_can_be_added_to_a_finished_federation():
    run_all(make_clients(make_aggregator(NAMES, 2)))
    longer = make_aggregator(NAMES, ROUNDS)
    run_all(make_clients(longer))
    assert model_of(longer, ROUNDS).tolist() == [11.5, 12.5, 13.5]


def test_two_aggregators_never_work_in_one_workspace():
    Path(".workspace").touch()
    first = make_aggregator(NAMES, ROUNDS)
    with pytest.raises(FedAGemError, match="is being run by another process: wait until it has ended, then resume it"):
        make_aggregator(NAMES, ROUNDS)
    run_all(make_clients(first))
    del first
    gc.collect()
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))


def test_the_models_after_chosen_rounds_are_kept():
    run_all(make_clients(make_aggregator(NAMES, ROUNDS, snapshots=(1, 3))))
    kept = {path.name: read_model(path) for path in Path("save").glob("after_round_*")}
    assert sorted(kept) == ["after_round_1.safetensors", "after_round_3.safetensors"]
    assert kept["after_round_3.safetensors"].description.rounds == 3
    assert kept["after_round_1.safetensors"].weights["w"].tolist() == [2.5, 3.5, 4.5]


def test_a_model_file_says_where_its_model_comes_from():
    run_all(make_clients(make_aggregator(NAMES, ROUNDS)))
    description = read_model(Path("save/last.safetensors")).description
    assert description.network == Component(template="models.mnist_cnn.SmallCNN", settings={"classes": 10}), (
        "with its defaults"
    )
    assert (description.plan, description.rounds) == ("test", ROUNDS)
    assert description.plan_digest == plan_of_run(Path()).digest
