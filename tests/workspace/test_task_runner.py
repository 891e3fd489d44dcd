"""The task runner: what a client computes, sends and keeps, also when something goes wrong."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedagem.errors import PlanError
from fedagem.files import read_state
from fedagem.plans.plan import Plan
from src.data_loader import TaskStreamLoader
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT
from src.task_runner import FedAGemTaskRunner

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture(scope="module")
def plan(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml").changed(
        {
            "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
            "data_loader.settings.samples_per_client": 96,
        }
    )


@pytest.fixture(scope="module")
def loader(plan):
    return TaskStreamLoader("0", **plan.data.model_dump())


@pytest.fixture
def make_runner(plan, loader):
    def make(**changes):
        return FedAGemTaskRunner(loader, **{**plan.training.model_dump(), **changes})

    return make


def by_kind(result):
    """The tensors as they would be sent; until then they are views of the model."""
    kinds: dict[Any, Any] = {}
    for key, array in result[0].items():
        kinds.setdefault(key.tags, {})[key.tensor_name] = np.array(array)
    return kinds


def model_of(runner):
    return {name: array.copy() for name, array in runner.get_tensor_dict().items() if "/" not in name}


def train(runner, round_number, model, g_ref=None):
    inputs = {name: array.copy() for name, array in model.items()}
    if g_ref is not None:
        inputs["g_ref"] = g_ref
    return by_kind(runner.train("client_1", round_number, inputs, ["model", "method"], ["method"]))


def buffer_gradient(runner, round_number, model):
    return by_kind(runner.buffer_gradient("client_1", round_number, dict(model), ["method"]))


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_a_repeated_round_gives_the_same_to_the_bit(make_runner):
    runner = make_runner()
    initial = model_of(runner)
    first = train(runner, 0, initial)
    gradient = buffer_gradient(runner, 1, initial)[EXCHANGE]["g_ref"].copy()
    second = train(runner, 1, initial, gradient)
    # The aggregator was set back to round 1; this client's process may or may not have been restarted too.
    for again in (runner, make_runner()):
        assert_equal(buffer_gradient(again, 1, initial)[EXCHANGE], {"g_ref": gradient})
        assert_equal(train(again, 1, initial, gradient)[TRAINED], second[TRAINED])
    assert not np.array_equal(first[TRAINED]["head.1.weight"], second[TRAINED]["head.1.weight"])


def test_a_result_says_what_happened(make_runner):
    runner = make_runner()
    result = train(runner, 0, model_of(runner))
    metrics = result[METRIC]
    assert result[TRAINED].keys() == model_of(runner).keys()
    assert float(result[WEIGHT]["weight"]) == float(metrics["samples"]) == float(metrics["buffer"]) == 96
    assert metrics["loss"] == pytest.approx(metrics["loss/classification"] + metrics["loss/replay"])
    assert metrics["refined_share"] == 0


def test_what_the_buffer_gradient_costs_is_told(make_runner):
    runner = make_runner()
    initial = model_of(runner)
    train(runner, 0, initial)
    began = time.monotonic()
    seconds = buffer_gradient(runner, 1, initial)[METRIC]["buffer_gradient_seconds"]
    assert 0 < seconds <= time.monotonic() - began


@pytest.mark.parametrize(
    ("weighting", "weight"), [(None, 32), ("uniform", 32), ("buffer", 50), ("sqrt_buffer", 50), ("seen", 96)]
)
def test_a_buffer_gradient_says_what_the_plan_weighs_it_by(make_runner, plan, weighting, weight):
    chosen = plan if weighting is None else plan.changed({"aggregator.settings.buffer_weighting": weighting})
    Path("plan/plan.yaml").write_text(chosen.to_yaml())
    runner = make_runner(buffer={"capacity": 200, "by_client": {"client_1": 50, "client_2": 60}})
    initial = model_of(runner)
    assert train(runner, 0, initial)[METRIC]["buffer"] == 50
    assert buffer_gradient(runner, 1, initial)[WEIGHT]["weight"] == weight


def test_an_empty_buffer_counts_for_nothing(make_runner):
    runner = make_runner()
    result = buffer_gradient(runner, 0, model_of(runner))
    assert result[WEIGHT]["weight"] == 0
    assert not result[EXCHANGE]["g_ref"].any()


def test_the_state_is_on_disk_before_the_result_is_sent(make_runner, tmp_path):
    runner = make_runner()
    train(runner, 0, model_of(runner))
    state = read_state(tmp_path / "local_state" / "client_1" / "after_round_000000.state")
    assert state["buffer"]["seen"] == 96
    assert state["buffer"]["slots"]["x"].dtype == torch.uint8


def test_training_that_explodes_sends_no_model_and_keeps_the_last_good_state(make_runner, tmp_path, caplog):
    good = make_runner()
    initial = model_of(good)
    train(good, 0, initial)
    before = buffer_gradient(good, 1, initial)
    exploding = make_runner(optimizer={"lr": 1e30})
    assert train(exploding, 1, initial, np.zeros(21840, np.float32)) == {}
    assert "keeps its last good state and sits this round out" in caplog.text
    assert [path.name for path in (tmp_path / "local_state" / "client_1").iterdir()] == ["after_round_000000.state"]
    assert_equal(buffer_gradient(exploding, 1, initial)[EXCHANGE], before[EXCHANGE])


def test_a_buffer_gradient_that_is_not_finite_counts_for_nothing(make_runner, caplog):
    runner = make_runner()
    initial = model_of(runner)
    train(runner, 0, initial)
    broken = {name: np.full_like(array, np.inf) for name, array in initial.items()}
    result = buffer_gradient(runner, 1, broken)
    assert result[WEIGHT]["weight"] == 0
    assert not result[EXCHANGE]["g_ref"].any()
    assert "contributes no buffer gradient" in caplog.text


def test_evaluation_counts_this_clients_part(make_runner, loader):
    runner = make_runner()
    result = by_kind(runner.evaluate("client_1", 0, model_of(runner), after_rounds=0))
    counts = result[RATIO]["domain_il"]
    assert counts.shape == (5, 2)
    assert counts[:, 1].tolist() == [72] * 5
    assert (counts[:, 0] <= counts[:, 1]).all()


def test_clients_of_one_process_share_the_model_and_nothing_else(make_runner, loader):
    first = make_runner()
    second = first.for_loader(loader.for_client("1"))
    assert second.trainer is first.trainer
    initial = model_of(first)
    train(first, 0, initial)
    assert buffer_gradient(first, 1, initial)[WEIGHT]["weight"] > 0
    alone = by_kind(second.buffer_gradient("client_2", 1, dict(initial), ["method"]))
    assert alone[WEIGHT]["weight"] == 0


def test_a_model_of_another_shape_is_never_loaded(make_runner):
    runner = make_runner()
    wrong = {**model_of(runner), "head.1.bias": np.zeros(51, np.float32)}
    with pytest.raises(ValueError, match="broadcast"):
        train(runner, 0, wrong)


def test_native_files_bring_the_weights_back(make_runner, tmp_path):
    runner = make_runner()
    train(runner, 0, model_of(runner))
    runner.save_native("model.pt")
    other = make_runner()
    other.load_native("model.pt")
    assert_equal(model_of(other), model_of(runner))


@pytest.mark.parametrize("path", ["data/mnist", "-1", ""])
def test_a_data_path_that_is_no_rank_is_refused(plan, path):
    with pytest.raises(PlanError, match="takes a client's rank"):
        TaskStreamLoader(path, **plan.data.model_dump())
