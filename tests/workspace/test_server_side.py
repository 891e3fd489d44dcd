"""What a method exchanges, what its server makes of it, and that both survive a restart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedagem.errors import FederationError, PlanError
from fedagem.learning.exchange import Exchange
from fedagem.learning.server_side import RemembersPreviousModel
from src.link import ResultRefusedError, StaleTaskError
from src.task_results import EXCHANGE, PREVIOUS, TRAINED, WEIGHT
from tests.support.in_process_federation import (
    STAGES,
    TASKS,
    Client,
    make_aggregator,
    model_of,
    run_all,
    saved_model,
    to_stage,
)

ABC = ["a", "b", "c"]
FISHER = Exchange("fisher", (2,), "train", "sum", keep=True)
MEANS = Exchange("means", (), "end_task", "sum", keep=True)
PASSING = Exchange("passing", (1,), "end_task")
WITH_END = [*STAGES[:3], {"name": "end_task", "tasks": ["end_task"], "every": 2}, STAGES[3]]

pytestmark = pytest.mark.usefixtures("in_a_folder")


class Server(RemembersPreviousModel):
    """Takes half of each step, and notes what it was told."""

    def __init__(self, exchanges):
        super().__init__(exchanges)
        self.told: list[Any] = []

    def step(self, old, averaged):
        return {name: array if array.dtype.kind != "f" else (old[name] + array) / 2 for name, array in averaged.items()}

    def take(self, stage, combined):
        super().take(stage, combined)
        self.told.append((stage, {name: array.tolist() for name, array in combined.items()}))

    def end_task(self, model):
        super().end_task(model)
        self.told.append(("end_task", model["w"].tolist()))

    def state_dict(self):
        return {**super().state_dict(), "told": len(self.told)}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.told = [None] * state["told"]


class MethodClient(Client):
    """Sends k as its fisher and its means, and notes what it finds on offer whenever it works."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.found: dict[tuple[int, str], Any] = {}

    def result(self, task, round_number):
        self.found[round_number, task] = [
            self.link.fetch(name, round_number, EXCHANGE).tolist() for name in ("fisher", "means")
        ]
        if task == "end_task":
            means, passing = np.float32(10 * self.k), np.array([self.k], np.float32)
            return {EXCHANGE: {"means": means, "passing": passing}, WEIGHT: {"weight": np.float32(1)}}
        kinds = super().result(task, round_number)
        if task == "train":
            kinds[EXCHANGE] = {"fisher": np.full(2, self.k + round_number, np.float32)}
        return kinds


@pytest.fixture(autouse=True)
def server(monkeypatch):
    monkeypatch.setattr("src.aggregator.server_side_of", lambda _training, exchanges: Server(exchanges))


def federation(clients=ABC, rounds=4, weights=(1, 1, 1), **settings):
    chosen = {"stages": WITH_END, "exchanges": (FISHER, MEANS, PASSING), "fedagem": False, **settings}
    aggregator = make_aggregator(clients, rounds, **chosen)
    members = zip(clients, weights, strict=True)
    return aggregator, [MethodClient(name, aggregator, k, weight) for k, (name, weight) in enumerate(members, 1)]


def test_the_server_makes_the_next_model_of_the_average():
    aggregator, clients = federation()
    to_stage(clients, "train", 1)
    assert model_of(aggregator, 1).tolist() == [2, 3, 4], "half of w + 2"
    assert aggregator.lookup("steps", 1, ("model",), "a") == 1
    run_all(clients)
    assert saved_model("last") == ([5, 6, 7], 4)


def test_the_server_is_told_of_every_stage_in_which_the_method_exchanges():
    aggregator, clients = federation(rounds=2)
    run_all(clients)
    assert aggregator.server.told == [
        ("train", {"fisher": [6, 6]}),
        ("train", {"fisher": [9, 9]}),
        ("end_task", {"means": 60, "passing": [2]}),
        ("end_task", [3, 4, 5]),
    ]


def test_what_is_kept_is_on_offer_from_its_stage_on_and_zeros_before():
    _, clients = federation()
    run_all(clients)
    for client in clients:
        assert client.found == {
            (0, "evaluate_untrained"): [[0, 0], 0],
            (0, "train"): [[0, 0], 0],
            (1, "train"): [[6, 6], 0],
            (1, "end_task"): [[9, 9], 0],
            (1, "evaluate"): [[9, 9], 60],
            (2, "train"): [[9, 9], 60],
            (3, "train"): [[12, 12], 60],
            (3, "end_task"): [[15, 15], 60],
            (3, "evaluate"): [[15, 15], 60],
        }


def test_what_is_not_kept_is_there_until_the_round_ends():
    aggregator, clients = federation()
    to_stage(clients, "evaluate", 1)
    assert aggregator.lookup("passing", 1, EXCHANGE, "a").tolist() == [2]
    to_stage(clients, "train", 2)
    with pytest.raises(StaleTaskError):
        aggregator.lookup("passing", 2, EXCHANGE, "a")


def test_clients_without_data_add_nothing_and_when_nobody_has_any_what_was_kept_stays():
    aggregator, clients = federation(weights=(1, 0, 1))
    to_stage(clients, "train", 1)
    assert aggregator.server.offers()["fisher"].tolist() == [4, 4], "1 + 3"
    for client in clients:
        client.weight = 0
    to_stage(clients, "end_task", 1)
    assert aggregator.lookup("fisher", 1, EXCHANGE, "a").tolist() == [4, 4]
    assert model_of(aggregator, 2).tolist() == model_of(aggregator, 1).tolist()


def test_the_previous_model_is_that_of_the_last_task():
    aggregator, clients = federation()
    to_stage(clients, "end_task", 1)
    with pytest.raises(StaleTaskError, match="there is no previous tensor 'w' of round 0"):
        aggregator.lookup("w", 0, PREVIOUS, "a")
    to_stage(clients, "train", 2)
    first = model_of(aggregator, 2).tolist()
    assert aggregator.lookup("w", 2, PREVIOUS, "a").tolist() == first
    to_stage(clients, "train", 3)
    assert aggregator.lookup("w", 2, PREVIOUS, "a").tolist() == first
    wire = aggregator.get_aggregated_tensor("w", 2, False, PREVIOUS, True, "a")
    decoded = aggregator.compression_pipeline.backward(
        wire.data_bytes, [{"int_list": proto.int_list} for proto in wire.transformer_metadata]
    )
    assert decoded.tolist() == first


@pytest.fixture
def undisturbed(tmp_path, monkeypatch):
    (tmp_path / "undisturbed").mkdir()
    monkeypatch.chdir(tmp_path / "undisturbed")
    aggregator, clients = federation()
    run_all(clients)
    monkeypatch.chdir(tmp_path)
    return saved_model_in(tmp_path / "undisturbed"), aggregator.server.state_dict()


def saved_model_in(folder):
    return (folder / "save" / "last.pbuf").read_bytes()


@pytest.mark.parametrize("steps", range(0, 27, 2))
def test_a_restarted_aggregator_goes_on_with_the_same_server(undisturbed, steps):
    _, clients = federation()
    for step in range(steps):
        clients[step % 3].step()
    again, clients = federation()
    assert (again.round_number == 0) == (again.server.told == [])
    run_all(clients)
    model, state = undisturbed
    assert saved_model_in(Path()) == model
    assert str(again.server.state_dict()) == str(state)


def test_a_restarted_aggregator_has_the_previous_model_and_what_was_kept():
    aggregator, clients = federation()
    to_stage(clients, "train", 3)
    expected = aggregator.lookup("w", 2, PREVIOUS, "a").tolist()
    again, _ = federation()
    assert again.round_number == 3
    assert again.lookup("w", 2, PREVIOUS, "a").tolist() == expected
    assert again.lookup("fisher", 3, EXCHANGE, "a").tolist() == [12, 12]
    assert again.lookup("means", 3, EXCHANGE, "a").tolist() == 60


def test_a_task_ends_for_clients_that_were_not_drawn_too():
    _, clients = federation(participation={"per_round": 1})
    run_all(clients)
    for client in clients:
        assert [done for done in client.done if done[1] == "end_task"] == [(1, "end_task"), (3, "end_task")]
    assert sum(task == "train" for client in clients for _, task in client.done) == 4


def test_a_stage_in_which_the_method_exchanges_nothing_is_left_out():
    aggregator, _ = federation(exchanges=())
    clients = [Client(name, aggregator, 1) for name in ABC]
    run_all(clients)
    assert {task for client in clients for _, task in client.done} == {"evaluate_untrained", "train", "evaluate"}
    assert aggregator.server.previous_model() is None


def test_a_plan_in_which_nobody_sends_what_the_method_needs_is_refused():
    with pytest.raises(PlanError, match=r"the method exchanges 'means' in end_task, but no stage of .* that publishes"):
        federation(stages=STAGES)
    silent = {**TASKS, "train": {"function": "train", "kwargs": {"publishes": ["model"]}}}
    with pytest.raises(PlanError, match="the method exchanges 'fisher' in train"):
        federation(tasks=silent)


def test_an_initial_model_of_an_earlier_version_is_refused(monkeypatch):
    monkeypatch.setattr(Exchange, "announcement", property(lambda exchange: f"exchange/{exchange.name}"))
    with pytest.raises(FederationError, match=r"save/init\.pbuf was made by another version of fedagem .* initialize"):
        federation()


def test_nothing_of_a_client_that_is_out_of_range_counts():
    aggregator, clients = federation(rounds=2)
    a, b, c = clients
    to_stage(clients, "train")
    a.step()
    kinds = b.result("train", 0)
    kinds[EXCHANGE] = {"fisher": np.array([1, 1e6], np.float32)}
    with pytest.raises(
        ResultRefusedError, match=r"refused train of b in round 0: tensor 'fisher' has the value 1e\+06"
    ):
        b.send("train", 0, kinds)
    c.step()
    assert aggregator.server.told == [("train", {"fisher": [4, 4]})]
    assert model_of(aggregator, 1).tolist() == [2, 3, 4], "half of the way to w + (1 + 3) / 2"


def test_what_a_client_does_with_its_arrays_afterwards_does_not_matter():
    aggregator, clients = federation()
    to_stage(clients, "train")
    kinds = clients[0].result("train", 0)
    kinds[TRAINED]["w"][:] = 7
    clients[0].send("train", 0, kinds)
    kinds[TRAINED]["w"][:] = 99
    clients[1].step()
    clients[2].step()
    assert model_of(aggregator, 1)[0] == np.float32((1 + (7 + 3 + 4) / 3) / 2)
