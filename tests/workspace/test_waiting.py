"""How long clients wait for tasks, and stages for clients."""

import threading
import time
from functools import partial

import pytest
from openfl.component.aggregator.straggler_handling import CutoffTimePolicy, PercentagePolicy

from src.link import ResultRefusedError, StaleTaskError
from tests.support.in_process_federation import STAGES, make_aggregator, make_clients, model_of, to_stage
from tests.support.waiting import wait_for

ABC = ["a", "b", "c"]
pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_a_waiting_client_is_woken_by_the_event():
    aggregator = make_aggregator(["a", "b"], poll_seconds=120)
    a, b = make_clients(aggregator)
    a.step()
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(a.poll()))
    began = time.monotonic()
    waiter.start()
    wait_for(lambda: aggregator._waiters)
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
    wait_for(lambda: len(answers) >= 3)
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


def test_a_stage_does_not_wait_for_stragglers_beyond_the_cut_off():
    policy = partial(CutoffTimePolicy, straggler_cutoff_time=0.3, minimum_reporting=2)
    aggregator = make_aggregator(ABC, policy=policy, poll_seconds=60, rounds=1)
    a, b, c = make_clients(aggregator)
    assert c.poll() == (["evaluate_untrained"], 0, False)
    a.step()
    b.step()
    assert a.poll() == (["buffer_gradient"], 0, False), "waits for the cut-off, and no longer"
    c.send("evaluate_untrained", 0)
    assert "c" not in aggregator.progress.done(), "too late"
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


def test_the_minimum_does_not_wait_for_clients_that_were_refused():
    policy = partial(CutoffTimePolicy, straggler_cutoff_time=0.01, minimum_reporting=2)
    aggregator = make_aggregator(["a", "b"], policy=policy)
    a, b = clients = make_clients(aggregator)
    to_stage(clients, "train")
    assert a.poll()[0] == ["train"]
    time.sleep(0.1)
    with pytest.raises(ResultRefusedError):
        b.send("train", 0, {})
    a.step()
    assert a.poll() == (["buffer_gradient"], 1, False)


def test_a_share_of_the_clients_can_be_enough():
    aggregator = make_aggregator(ABC, policy=partial(PercentagePolicy, percent_collaborators_needed=0.6), rounds=1)
    a, b, c = make_clients(aggregator)
    for client in (a, b) * 3:
        client.step()
    assert model_of(aggregator, 1).tolist() == [2.5, 3.5, 4.5]
    assert c.poll()[2]
