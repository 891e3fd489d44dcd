"""The stages of a round, driven in process: their order, what is averaged, and what is written down."""

import json
from pathlib import Path

import numpy as np
import pytest

from src.task_results import EXCHANGE
from src.task_results import MODEL as MODEL_KIND
from tests.support.in_process_federation import (
    MODEL,
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


def test_stages_follow_each_other_in_the_plans_order():
    aggregator = make_aggregator(ABC, rounds=4)
    clients = make_clients(aggregator)
    run_all(clients)
    expected = [(0, "evaluate_untrained"), (0, "buffer_gradient"), (0, "train"), (1, "buffer_gradient"), (1, "train")]
    expected += [(1, "evaluate"), (2, "buffer_gradient"), (2, "train"), (3, "buffer_gradient"), (3, "train")]
    for client in clients:
        assert client.done == [*expected, (3, "evaluate")]


def test_nobody_gets_the_next_stage_before_the_last_result_of_this_one():
    clients = make_clients(make_aggregator(ABC))
    for client in clients[:2]:
        assert client.poll() == (["evaluate_untrained"], 0, False)
        client.step()
        assert client.poll() == ([], 0, False)
    clients[2].step()
    assert clients[0].poll() == (["buffer_gradient"], 0, False)


def test_the_model_is_the_mean_of_the_updates_and_g_ref_that_of_the_gradients():
    aggregator = make_aggregator(ABC)
    clients = make_clients(aggregator)
    to_stage(clients, "train")
    assert aggregator.lookup("g_ref", 0, EXCHANGE, "a").tolist() == [0, 0, 0], "all buffers are empty"
    to_stage(clients, "buffer_gradient", 1)
    assert model_of(aggregator, 1).tolist() == [3, 4, 5], "w + (1 + 2 + 3) / 3"
    assert aggregator.lookup("steps", 1, MODEL_KIND, "a") == 1
    to_stage(clients, "train", 1)
    assert aggregator.lookup("g_ref", 1, EXCHANGE, "a").tolist() == [2, 2, 2]
    run_all(clients)
    assert model_of(aggregator, 2).tolist() == [7, 8, 9]
    assert model_of(aggregator, 2).dtype == np.float32


def test_g_ref_is_the_mean_over_clients_with_something_in_their_buffer():
    aggregator = make_aggregator(ABC)
    clients = make_clients(aggregator, weights=(1, 0, 5))
    to_stage(clients, "train", 1)
    assert aggregator.lookup("g_ref", 1, EXCHANGE, "a").tolist() == [2, 2, 2], "(1 + 3) / 2"


def test_weighting_by_samples():
    aggregator = make_aggregator(ABC, weighting="samples")
    clients = make_clients(aggregator, weights=(1, 0, 3))
    to_stage(clients, "buffer_gradient", 1)
    assert model_of(aggregator, 1).tolist() == [3.5, 4.5, 5.5], "w + (1 * 1 + 3 * 3) / 4"
    to_stage(clients, "train", 1)
    assert aggregator.lookup("g_ref", 1, EXCHANGE, "a").tolist() == [2.5, 2.5, 2.5]


def test_a_round_in_which_nobody_has_data_keeps_the_model(caplog):
    aggregator = make_aggregator(["a", "b"], rounds=1)
    clients = make_clients(aggregator, weights=(0, 0))
    run_all(clients)
    assert model_of(aggregator, 1).tolist() == MODEL["w"].tolist()
    assert "nobody had data to learn from" in caplog.text


def test_without_fedagem_the_buffer_gradient_stage_is_left_out():
    aggregator = make_aggregator(["a"], fedagem=False)
    [client] = make_clients(aggregator)
    run_all([client])
    assert [task for _, task in client.done] == ["evaluate_untrained", "train", "train", "evaluate"]


def test_accuracy_is_that_of_the_union():
    run_all(make_clients(make_aggregator(ABC)))
    accuracy = [(r["round"], r["stage"], r["value"]) for r in rows() if r["metric"] == "accuracy/domain_il"]
    assert accuracy == [(0, "baseline", [6 / 30, 0.0]), (1, "evaluate", [6 / 30, 3 / 30])]


def test_every_client_metric_and_byte_is_logged():
    run_all(make_clients(make_aggregator(ABC, rounds=1)))
    losses = {r["client"]: r["value"] for r in rows() if r["metric"] == "loss"}
    assert losses == {"a": 1.0, "b": 2.0, "c": 3.0}
    down = {r["stage"]: r["value"] for r in rows() if r["metric"] == "bytes_down" and r["client"] == "a"}
    assert down == {"baseline": 12, "buffer_gradient": 0, "train": 12 + 8 + 12}


def test_the_final_model_is_saved_and_the_best_one():
    run_all(make_clients(make_aggregator(ABC)))
    assert saved_model("last") == ([7, 8, 9], 2)
    assert saved_model("best") == ([7, 8, 9], 2)


def test_the_model_that_a_run_begins_with_may_be_the_best():
    clients = make_clients(make_aggregator(ABC))
    to_stage(clients, "buffer_gradient")
    assert saved_model("best") == ([1, 2, 3], 0)


def test_the_evaluation_group_measures_once_and_leaves_a_run_as_it_was():
    run_all(make_clients(make_aggregator(ABC)))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    clients = make_clients(make_aggregator(ABC, group="evaluation"))
    run_all(clients)
    assert [client.done for client in clients] == [[(0, "evaluate_untrained")]] * 3
    for path, content in before.items():
        assert path.read_bytes() == content, path
    measured = [json.loads(line) for line in Path("evaluation.jsonl").read_text().splitlines()]
    assert [r["value"] for r in measured if r["metric"] == "accuracy/domain_il"] == [[6 / 30, 0.0]]
