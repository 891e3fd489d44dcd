"""The staged aggregator, driven in process: order, averages, bad results, waiting, and the end."""

import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openfl.component.aggregator.straggler_handling import CutoffTimePolicy, PercentagePolicy
from openfl.protocols import utils

from fedagem.errors import FederationError, PlanError
from src.aggregator import ResultRefusedError, StaleTaskError
from src.results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT
from src.results import MODEL as MODEL_KIND
from tests.workspace.federation import MODEL, STAGES, make_aggregator, make_clients, model_of, run_all

ABC = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("src.aggregator._LAST_WORDS_SECONDS", 0.1)


def rows():
    return [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]


def to_stage(clients, stage, round_number=0):
    """Work until a stage begins."""
    aggregator = clients[0].aggregator
    for _ in range(50):
        if (aggregator.round_number, aggregator._stage().name) == (round_number, stage):
            return
        for client in clients:
            if (aggregator.round_number, aggregator._stage().name) != (round_number, stage):
                client.step()
    raise AssertionError(f"stage {stage} of round {round_number} never came")


# Stages and averages


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


def saved_model(name):
    proto = utils.load_proto(f"save/{name}.pbuf")
    tensors, round_number = utils.deconstruct_model_proto(proto, make_aggregator(["z"]).compression_pipeline)
    return tensors["w"].tolist(), round_number


def test_the_final_model_is_saved_and_the_best_one():
    run_all(make_clients(make_aggregator(ABC)))
    assert saved_model("last") == ([7, 8, 9], 2)
    assert saved_model("best") == ([7, 8, 9], 2)


# Results that must not count


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


def test_a_bad_result_that_comes_last_ends_the_stage():
    aggregator = make_aggregator(ABC)
    a, b, c = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    c.step()
    with pytest.raises(ResultRefusedError):
        b.send("train", 0, BAD["nan"])
    assert a.poll() == (["buffer_gradient"], 1, False)


def test_when_all_are_refused_the_federation_stops_with_a_sentence():
    aggregator = make_aggregator(["a", "b"])
    clients = make_clients(aggregator)
    to_stage(clients, "train")
    for client in clients:
        with pytest.raises(ResultRefusedError):
            client.send("train", 0, BAD["nan"])
    sentence = "The federation stopped: every result of stage train in round 0 was refused"
    with pytest.raises(FederationError, match=sentence):
        aggregator.all_quit_jobs_sent()
    with pytest.raises(FederationError, match=sentence):
        clients[0].poll()


def test_a_failed_aggregator_waits_for_everybody_to_hear_of_it(monkeypatch):
    monkeypatch.setattr("src.aggregator._LAST_WORDS_SECONDS", 60)
    aggregator = make_aggregator(["a", "b"])
    a, b = clients = make_clients(aggregator)
    to_stage(clients, "train")
    with aggregator._turn:
        aggregator._fail("the disk is full")
    heard = []

    def serve():
        try:
            aggregator.all_quit_jobs_sent()
        except FederationError as stopped:
            heard.append(stopped.message)

    server = threading.Thread(target=serve)
    server.start()
    with pytest.raises(FederationError):
        a.poll()
    server.join(0.3)
    assert server.is_alive(), "b does not know yet"
    with pytest.raises(FederationError):
        b.poll()
    server.join(30)
    assert "the disk is full" in heard[0]


def test_a_waiting_client_is_told_that_the_federation_stopped():
    aggregator = make_aggregator(["a", "b"], poll_seconds=60)
    a, b = clients = make_clients(aggregator)
    to_stage(clients, "train")
    with pytest.raises(ResultRefusedError):
        a.send("train", 0, BAD["nan"])
    told = []

    def wait():
        try:
            a.poll()
        except FederationError as stopped:
            told.append(stopped.message)

    thread = threading.Thread(target=wait)
    thread.start()
    with pytest.raises(ResultRefusedError):
        b.send("train", 0, BAD["nan"])
    thread.join(30)
    assert "every result of stage train" in told[0]


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
    assert not aggregator._results


def test_a_tensor_that_is_gone_or_not_there_yet_is_said_to_be():
    aggregator = make_aggregator(["a"])
    for name, round_number in (("g_ref", 0), ("w", 1), ("nonsense", 0)):
        with pytest.raises(StaleTaskError, match=f"there is no .* tensor '{name}' of round {round_number}"):
            aggregator.lookup(name, round_number, EXCHANGE if name == "g_ref" else MODEL_KIND, "a")


# Waiting


def test_a_waiting_client_is_woken_by_the_event():
    aggregator = make_aggregator(["a", "b"], poll_seconds=120)
    a, b = make_clients(aggregator)
    a.step()
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(a.poll()))
    began = time.monotonic()
    waiter.start()
    while aggregator._waiters == 0:
        assert time.monotonic() - began < 60
        time.sleep(0.01)
    assert not answers
    b.step()
    waiter.join(60)
    assert answers == [(["buffer_gradient"], 0, False)]
    assert time.monotonic() - began < 60


def test_waiters_are_bounded():
    """gRPC has eight threads, and uploads need some of them."""
    names = [f"client_{i}" for i in range(8)]
    aggregator = make_aggregator(names, poll_seconds=120)
    *early, last = make_clients(aggregator)
    for client in early:
        client.step()
    answers = {}
    threads = [
        threading.Thread(target=lambda c=client: answers.update({c.name: aggregator.get_tasks(c.name)}))
        for client in early
    ]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while len(answers) < 3:
        assert time.monotonic() - began < 60
        time.sleep(0.01)
    assert list(answers.values()) == [(None, 0, 1, False)] * 3, "these are to ask again in a second"
    last.step()
    for thread in threads:
        thread.join(60)
    woken = [answer for answer in answers.values() if answer[0] == ["buffer_gradient"]]
    assert len(woken) == 4


def test_a_wait_ends_without_an_event_too():
    aggregator = make_aggregator(["a", "b"], poll_seconds=0.05)
    a, _ = make_clients(aggregator)
    a.step()
    assert aggregator.get_tasks("a") == (None, 0, 0, False)


def test_polls_from_many_threads_never_see_a_stage_that_is_not_the_current_one():
    """The round and the stage change together: no poll finds tasks of a stage that has not begun or is over."""
    aggregator = make_aggregator(ABC, rounds=30, stages=STAGES[1:3])
    clients = make_clients(aggregator)
    for client in clients:
        client.aggregator.poll_seconds = 10
    problems = []

    def work(client):
        try:
            while client.step():
                pass
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not problems
    for client in clients:
        assert client.done == [(r, task) for r in range(30) for task in ("buffer_gradient", "train")]


# Stragglers


def test_a_stage_does_not_wait_for_stragglers_beyond_the_cut_off():
    policy = partial(CutoffTimePolicy, straggler_cutoff_time=0.3, minimum_reporting=2)
    aggregator = make_aggregator(ABC, policy=policy, poll_seconds=60, rounds=1)
    a, b, c = make_clients(aggregator)
    assert c.poll() == (["evaluate_untrained"], 0, False)
    a.step()
    b.step()
    assert a.poll() == (["buffer_gradient"], 0, False), "waits for the cut-off, and no longer"
    c.send("evaluate_untrained", 0)
    assert ("evaluate_untrained", "c") not in aggregator._results, "too late"
    assert c.poll() == (["buffer_gradient"], 0, False), "but in time for the next stage"
    for client in (a, b, c):
        client.send("buffer_gradient", 0)
    assert c.poll() == (["train"], 0, False)
    a.step()
    b.step()
    for client in (a, b):
        assert client.poll()[2], "the federation is over without c"
    assert model_of(aggregator, 1).tolist() == [2.5, 3.5, 4.5]
    with pytest.raises(StaleTaskError):
        c.send("train", 0)


def test_the_cut_off_waits_for_the_minimum():
    policy = partial(CutoffTimePolicy, straggler_cutoff_time=0.05, minimum_reporting=2)
    aggregator = make_aggregator(ABC, policy=policy)
    a, b, _ = make_clients(aggregator)
    a.step()
    time.sleep(0.5)
    assert a.poll()[0] == []
    b.step()
    assert a.poll()[0] == ["buffer_gradient"]


def test_a_share_of_the_clients_can_be_enough():
    aggregator = make_aggregator(ABC, policy=partial(PercentagePolicy, percent_collaborators_needed=0.6), rounds=1)
    a, b, c = make_clients(aggregator)
    for client in (a, b) * 3:
        client.step()
    assert model_of(aggregator, 1).tolist() == [2.5, 3.5, 4.5]
    assert c.poll()[2]


# What cannot work


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"use_delta_updates": True}, r"aggregator\.settings\.use_delta_updates must be false"),
        ({"weighting": "size"}, r"aggregator\.settings\.weighting is 'size'; known are uniform, samples"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(PlanError, match=sentence):
        make_aggregator(["a"], **settings)


def test_a_plan_that_never_makes_a_model_stops_the_federation():
    aggregator = make_aggregator(["a"], stages=STAGES[:2])
    with pytest.raises((PlanError, FederationError), match="publishes the model"):
        run_all(make_clients(aggregator))
    with pytest.raises(FederationError, match="publishes the model"):
        aggregator.all_quit_jobs_sent()


def test_a_disk_that_fails_stops_the_federation(monkeypatch):
    aggregator = make_aggregator(["a"])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(aggregator._checkpoint, "save", full)
    with pytest.raises((OSError, FederationError), match="No space left"):
        run_all(make_clients(aggregator))
    with pytest.raises(FederationError, match="No space left on device"):
        aggregator.all_quit_jobs_sent()


def test_everybody_is_told_to_quit_before_the_aggregator_ends():
    aggregator = make_aggregator(["a", "b"], rounds=1)
    a, b = clients = make_clients(aggregator)
    to_stage(clients, "train")
    a.step()
    b.step()
    ended = threading.Thread(target=aggregator.all_quit_jobs_sent)
    ended.start()
    assert a.poll()[2]
    ended.join(0.2)
    assert ended.is_alive()
    assert b.poll()[2]
    ended.join(30)
    assert not ended.is_alive()


# Evaluation alone


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
