"""How a federation ends: with everybody told, or with a sentence that says why it cannot go on."""

import logging
import threading
from typing import Any

import pytest
from openfl.protocols import utils
from openfl.utilities import TensorKey

from fedagem.errors import FedAGemError, FederationError, PlanError
from src.link import ResultRefusedError, log_answers_in_a_line
from tests.support.in_process_federation import STAGES, labelled, make_aggregator, make_clients, run_all, to_stage

NOTHING: dict[tuple[str, ...], dict[str, Any]] = {}
"""A result that is refused."""


pytestmark = pytest.mark.usefixtures("in_a_folder")


def in_a_thread(call):
    """Lets the call wait by itself; returns its thread, and a list for what it is told when the federation stops."""
    told: list[str] = []

    def wait():
        try:
            call()
        except FederationError as stopped:
            told.append(stopped.message)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, told


def test_when_all_are_refused_the_federation_stops_with_a_sentence():
    aggregator = make_aggregator(["a", "b"])
    clients = make_clients(aggregator)
    to_stage(clients, "train")
    for client in clients:
        with pytest.raises(ResultRefusedError):
            client.send("train", 0, NOTHING)
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
    server, heard = in_a_thread(aggregator.all_quit_jobs_sent)
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
        a.send("train", 0, NOTHING)
    thread, told = in_a_thread(a.poll)
    with pytest.raises(ResultRefusedError):
        b.send("train", 0, NOTHING)
    thread.join(30)
    assert "every result of stage train" in told[0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"use_delta_updates": True}, r"aggregator\.settings\.use_delta_updates must be false"),
        ({"weighting": "size"}, r"aggregator\.settings\.weighting is 'size'; valid values: uniform, samples"),
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

    monkeypatch.setattr(aggregator.global_model.checkpoint, "save", full)
    with pytest.raises((OSError, FederationError), match="No space left"):
        run_all(make_clients(aggregator))
    with pytest.raises(FederationError, match="No space left on device"):
        aggregator.all_quit_jobs_sent()


def test_who_sends_the_last_result_to_a_full_disk_is_told_that_the_federation_stopped(monkeypatch):
    """Over the network, where it can do nothing about the disk."""
    aggregator = make_aggregator(["a"], stages=STAGES[2:3], fedagem=False)
    [a] = make_clients(aggregator)
    assert a.poll()[0] == ["train"]
    sent = [
        utils.construct_named_tensor(
            TensorKey(key.tensor_name, key.origin, 0, key.report, (*key.tags, "compressed")),
            *aggregator.compression_pipeline.forward(array),
            lossless=True,
        )
        for key, array in labelled(0, a.result("train", 0)).items()
    ]

    def full(*_):
        raise FedAGemError("save/checkpoint.state cannot be written: No space left on device.")

    monkeypatch.setattr(aggregator.global_model.checkpoint, "save", full)
    with pytest.raises(
        FederationError, match=r"The federation stopped: .* \(save/.* No space left on device\); what was"
    ):
        aggregator.send_local_task_results("a", 0, "train", 0, sent)


@pytest.mark.parametrize(
    ("problem", "cause", "shown"),
    [
        (ResultRefusedError("bad"), None, False),
        (FederationError("stopped"), FedAGemError("full"), False),
        (FederationError("stopped"), ZeroDivisionError(), True),
        (ZeroDivisionError(), None, True),
    ],
)
def test_tracebacks_are_for_mistakes_in_the_code(problem, cause, shown, caplog):
    log_answers_in_a_line()
    try:
        raise problem from cause
    except Exception:
        logging.getLogger("grpc._server").exception("Exception calling application")
    assert ("Traceback" in caplog.text) == shown


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


def test_an_aggregator_that_was_killed_after_the_end_does_not_wait_for_those_who_know(monkeypatch):
    monkeypatch.setattr("src.aggregator._LATECOMER_SECONDS", 0.5)
    run_all(make_clients(make_aggregator(["a", "b"])))
    again = make_aggregator(["a", "b"])
    ended = threading.Thread(target=again.all_quit_jobs_sent)
    ended.start()
    a, _ = make_clients(again)
    assert a.poll()[2], "who was not told before is told now"
    ended.join(30)
    assert not ended.is_alive(), "b was told before and will not come again"
