"""Results that must not count, and hold up nobody."""

from typing import Any

import numpy as np
import pytest
from openfl.protocols import utils
from openfl.utilities import TensorKey

from src.link import ResultRefusedError, StaleTaskError
from src.pipeline import ExactPipeline
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT
from src.task_results import MODEL as MODEL_KIND
from tests.support.in_process_federation import (
    MODEL,
    STAGES,
    labelled,
    make_aggregator,
    make_clients,
    model_of,
    rows,
    run_all,
    saved_model,
    to_stage,
)

ABC = ["a", "b", "c"]
pytestmark = pytest.mark.usefixtures("in_a_folder")


GOOD_TRAIN: dict[tuple[str, ...], dict[str, Any]] = {
    TRAINED: {"w": MODEL["w"] + 1, "steps": np.array(1)},
    WEIGHT: {"weight": np.float32(1)},
}


def spoiled(**changes):
    return {**GOOD_TRAIN, TRAINED: {**GOOD_TRAIN[TRAINED], **changes}}


BAD = {
    "nan": spoiled(w=np.array([1, np.nan, 3], np.float32)),
    "inf": spoiled(w=np.array([1, np.inf, 3], np.float32)),
    "shape": spoiled(w=np.ones(4, np.float32)),
    "broadcast": spoiled(w=np.ones(1, np.float32)),
    "dtype": spoiled(w=np.ones(3, np.float64)),
    "extra": spoiled(other=np.ones(3, np.float32)),
    "missing": {**GOOD_TRAIN, TRAINED: {"w": MODEL["w"]}},
    "nothing": {},
    "unasked exchange": {**GOOD_TRAIN, EXCHANGE: {"g_ref": np.ones(3, np.float32)}},
    "unknown kind": {**GOOD_TRAIN, ("secret",): {"x": np.ones(1)}},
    "metric array": {**GOOD_TRAIN, METRIC: {"loss": np.ones(2)}},
    "metric nan": {**GOOD_TRAIN, METRIC: {"loss": np.float64("nan")}},
    "weight array": {**GOOD_TRAIN, WEIGHT: {"weight": np.ones(2, np.float32)}},
    "weight negative": {**GOOD_TRAIN, WEIGHT: {"weight": np.float32(-1)}},
    "weight nan": {**GOOD_TRAIN, WEIGHT: {"weight": np.float32("nan")}},
    "ratio shape": {**GOOD_TRAIN, RATIO: {"domain_il": np.ones(2, np.int64)}},
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_result_is_refused_told_to_its_sender_and_holds_up_nobody(fault, caplog):
    aggregator = make_aggregator(ABC)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    with pytest.raises(ResultRefusedError, match="refused train of b in round 0: "):
        b.send("train", 0, BAD[fault])
    assert "refused train of b in round 0" in caplog.text
    assert b.poll()[0] == [], "it is not asked again in this stage"
    c.step()
    assert model_of(aggregator, 1).tolist() == [3, 4, 5], "w + (1 + 3) / 2"
    assert b.poll() == (["buffer_gradient"], 1, False), "it takes part in the next stage"
    run_all(clients)


def on_the_wire(kinds):
    """A result as OpenFL's server hands it over."""
    named = []
    for key, array in labelled(0, kinds).items():
        data, metadata = ExactPipeline().forward(array)
        wire = TensorKey(key.tensor_name, key.origin, 0, False, (*key.tags, "compressed"))
        named.append(utils.construct_named_tensor(wire, data, metadata, lossless=True))
    return named


def shortened(tensor):
    tensor.data_bytes = tensor.data_bytes[:-1]


def of_an_unknown_type(tensor):
    tensor.transformer_metadata[0].int_list[0] = 77


def without_metadata(tensor):
    del tensor.transformer_metadata[:]


def without_a_type(tensor):
    del tensor.transformer_metadata[0].int_list[:]


@pytest.mark.parametrize("spoil", [shortened, of_an_unknown_type, without_metadata, without_a_type])
def test_a_result_that_cannot_be_decoded_is_refused_like_any_other(spoil, caplog):
    aggregator = make_aggregator(ABC)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    aggregator.send_local_task_results("a", 0, "train", 1, on_the_wire(a.result("train", 0)))
    tensors = on_the_wire(b.result("train", 0))
    spoil(tensors[0])
    with pytest.raises(ResultRefusedError, match="refused train of b in round 0: tensor 'w' cannot be decoded"):
        aggregator.send_local_task_results("b", 0, "train", 1, tensors)
    assert b.poll()[0] == []
    aggregator.send_local_task_results("b", 0, "train", 1, tensors)
    assert "Ignored train of b for round 0" in caplog.text
    c.step()
    assert model_of(aggregator, 1).tolist() == [3, 4, 5], "w + (1 + 3) / 2"
    run_all(clients)


def test_a_value_that_cannot_be_added_up_is_refused_with_its_name():
    aggregator = make_aggregator(ABC)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    with pytest.raises(ResultRefusedError, match=r"tensor 'w' has the value 1e.09, which was 2 before: more than ±"):
        b.send("train", 0, spoiled(w=np.array([2, 1e9, 3], np.float32)))
    c.step()
    assert model_of(aggregator, 1).tolist() == [3, 4, 5], "w + (1 + 3) / 2"


def test_a_client_refused_in_one_task_of_a_stage_counts_in_none():
    stages = [STAGES[1], {"name": "train", "tasks": ["train", "evaluate_untrained"]}]
    aggregator = make_aggregator(ABC, stages=stages, rounds=1)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    b.send("train", 0)
    with pytest.raises(ResultRefusedError):
        b.send("evaluate_untrained", 0, BAD["ratio shape"])
    a.step()
    c.step()
    assert model_of(aggregator, 1).tolist() == [3, 4, 5], "w + (1 + 3) / 2"


def test_a_bad_result_that_comes_last_ends_the_stage():
    aggregator = make_aggregator(ABC)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    c.step()
    with pytest.raises(ResultRefusedError):
        b.send("train", 0, BAD["nan"])
    assert a.poll() == (["buffer_gradient"], 1, False)


def test_clients_whose_ratios_differ_from_the_others_do_not_count(caplog):
    aggregator = make_aggregator(ABC)
    a, b, c = make_clients(aggregator)
    a.send("evaluate_untrained", 0, {RATIO: {"domain_il": np.array([[9, 9]])}})
    b.step()
    c.step()
    [accuracy] = [r["value"] for r in rows() if r["metric"] == "accuracy/domain_il"]
    assert accuracy == [5 / 20, 0.0]
    assert "a" in caplog.text


def test_late_and_repeated_results_are_ignored(caplog):
    aggregator = make_aggregator(["a", "b"])
    a, b = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    a.send("train", 0, spoiled(w=np.full(3, 99, np.float32)))
    a.send("buffer_gradient", 0)
    assert "it is not awaited" in caplog.text
    b.step()
    assert model_of(aggregator, 1).tolist() == [2.5, 3.5, 4.5]
    b.send("train", 0, spoiled(w=np.full(3, 99, np.float32)))
    assert model_of(aggregator, 1).tolist() == [2.5, 3.5, 4.5]
    run_all(clients)
    b.send("train", 1, spoiled())
    assert saved_model("last")[1] == 2


def test_a_stranger_gets_no_tasks_and_its_results_are_ignored():
    aggregator = make_aggregator(["a"])
    assert aggregator.get_tasks("stranger")[0] is None
    aggregator.receive("stranger", 0, "evaluate_untrained", {})
    assert aggregator.progress.done() == []


def test_a_tensor_that_is_gone_or_not_there_yet_is_said_to_be():
    aggregator = make_aggregator(["a"])
    for name, round_number in (("g_ref", 0), ("w", 1), ("nonsense", 0)):
        with pytest.raises(StaleTaskError, match=f"there is no .* tensor '{name}' of round {round_number}"):
            aggregator.lookup(name, round_number, EXCHANGE if name == "g_ref" else MODEL_KIND, "a")
