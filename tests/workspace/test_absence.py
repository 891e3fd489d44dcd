"""A collaborator that stays away: the federation waits, goes on without it, or stops, as the plan says."""

import threading
import time

import pytest

from fedagem.errors import FederationError, PlanError
from fedagem.plans.federation import AbsenceSettings
from fedagem.runs.standing import read_standing
from src.attendance import Attendance
from tests.support.in_process_federation import STAGES, make_aggregator, make_clients, model_of, rows, to_stage
from tests.support.waiting import wait_for

ABC = ["a", "b", "c"]
SOON = 0.3
pytestmark = pytest.mark.usefixtures("in_a_folder")


def where_it_stands(folder):
    standing = read_standing(folder)
    assert standing is not None
    return standing


class Serving:
    """OpenFL's server as far as it matters here: it asks whether everybody knows that the federation is over."""

    def __init__(self, aggregator):
        self.aggregator = aggregator
        self.told = []
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        try:
            self.aggregator.all_quit_jobs_sent()
        except FederationError as stopped:
            self.told.append(stopped.message)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.aggregator.stop("the test has failed")
        assert self.ended(60)

    def ended(self, seconds):
        self._thread.join(seconds)
        return not self._thread.is_alive()


def absence(policy, seconds=SOON):
    return {"absence": {"policy": policy, "after_seconds": seconds}}


def test_a_federation_goes_on_without_who_stays_away():
    aggregator = make_aggregator(ABC, rounds=2, poll_seconds=60, **absence("go_on"))
    a, b, _ = make_clients(aggregator)
    with Serving(aggregator) as server:
        while a.step():
            b.step()
        assert b.poll()[2]
    assert server.told == []
    assert (
        a.done
        == b.done
        == [
            (0, "evaluate_untrained"),
            (0, "buffer_gradient"),
            (0, "train"),
            (1, "buffer_gradient"),
            (1, "train"),
            (1, "evaluate"),
        ]
    )
    assert model_of(aggregator, 2).tolist() == [5.5, 6.5, 7.5], "models and buffer gradients are means of a's and b's"
    missed = [(row["round"], row["stage"]) for row in rows() if (row["client"], row["metric"]) == ("c", "absent")]
    assert missed == [
        (0, "baseline"),
        (0, "buffer_gradient"),
        (0, "train"),
        (1, "buffer_gradient"),
        (1, "train"),
        (1, "evaluate"),
    ]


def test_it_waits_once_and_not_in_every_stage():
    aggregator = make_aggregator(ABC, rounds=20, poll_seconds=60, **absence("go_on", 1.0))
    a, b, _ = make_clients(aggregator)
    began = time.monotonic()
    with Serving(aggregator):
        while a.step():
            b.step()
        b.poll()
    assert 1.0 <= time.monotonic() - began < 10, "there are more than forty stages"


def test_who_comes_back_takes_part_from_the_next_stage_on():
    aggregator = make_aggregator(ABC, rounds=2, poll_seconds=60, **absence("go_on"))
    a, b, c = clients = make_clients(aggregator)
    with Serving(aggregator):
        for client in (a, b):
            client.step()
        assert a.poll() == (["buffer_gradient"], 0, False), "c was not there at the beginning"
        aggregator.poll_seconds = 0
        assert c.poll() == ([], 0, False), "this stage goes on without it"
        for client in (a, b):
            client.step()
        to_stage(clients, "evaluate", 1)
        for client in clients:
            client.step()
        assert all(client.poll()[2] for client in clients)
    assert c.done == [(0, "train"), (1, "buffer_gradient"), (1, "train"), (1, "evaluate")]
    assert model_of(aggregator, 2).tolist() == [7.0, 8.0, 9.0], "its buffer counts again"


def test_half_of_what_a_stage_asks_for_does_not_count():
    stages = [{"name": "both", "tasks": ["buffer_gradient", "train"]}]
    aggregator = make_aggregator(["a", "b"], rounds=1, stages=stages, poll_seconds=60, **absence("go_on"))
    a, b = make_clients(aggregator)
    aggregator._cache({"g_ref": aggregator.expected.model["w"] * 0}, 0, ("exchange",))
    with Serving(aggregator):
        b.send("buffer_gradient", 0)
        a.step()
        assert a.poll()[2]
    assert model_of(aggregator, 1).tolist() == [2.0, 3.0, 4.0], "a's alone"


def test_a_round_in_which_all_who_were_drawn_are_absent_leaves_the_model():
    aggregator = make_aggregator(
        ABC,
        rounds=6,
        stages=STAGES[2:],
        fedagem=False,
        poll_seconds=60,
        participation={"per_round": 1},
        **absence("go_on"),
    )
    a, b, _ = make_clients(aggregator)
    with Serving(aggregator):
        while True:
            aggregator.poll_seconds = 0.05
            if not (a.step() and b.step()):
                break
        a.poll()
        b.poll()
    drawn = [aggregator.assigner.participants(number) for number in range(6)]
    assert ["c"] in drawn, "or the test shows nothing"
    assert len(a.done) + len(b.done) == sum(who != ["c"] for who in drawn) + 2 * 3


def test_a_federation_can_be_told_to_stop_instead():
    aggregator = make_aggregator(ABC, poll_seconds=60, **absence("stop"))
    a, b, _ = make_clients(aggregator)
    with Serving(aggregator) as server:
        a.step()
        b.step()
        for client in (a, b):
            with pytest.raises(FederationError, match=r"nothing was heard of c for 0\.3 s in stage baseline"):
                client.poll()
    assert "nothing was heard of c" in server.told[0]
    assert "save/checkpoint.state" in server.told[0]


def test_a_federation_that_everybody_has_left_stops():
    aggregator = make_aggregator(ABC, **absence("go_on"))
    with Serving(aggregator) as server:
        pass
    assert "nothing was heard of a, b, c for 0.3 s" in server.told[0]


def test_without_a_policy_it_waits():
    aggregator = make_aggregator(["a", "b"], rounds=1)
    a, b = clients = make_clients(aggregator)
    with Serving(aggregator) as server:
        a.step()
        assert not server.ended(3 * SOON)
        to_stage(clients, "train")
        a.step()
        b.step()
        assert a.poll()[2]
        assert b.poll()[2]


def test_who_was_never_told_of_the_end_does_not_keep_the_aggregator():
    aggregator = make_aggregator(["a", "b"], rounds=1, **absence("go_on", 1.0))
    a, b = clients = make_clients(aggregator)
    with Serving(aggregator) as server:
        to_stage(clients, "train")
        a.step()
        b.step()
        assert a.poll()[2]
        assert server.ended(30), "b has done its work and does not come back"
    assert server.told == []


def test_a_disk_that_fails_while_it_goes_on_stops_it_with_the_reason(monkeypatch):
    aggregator = make_aggregator(["a", "b"], rounds=1, stages=STAGES[2:3], fedagem=False, **absence("go_on"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(aggregator.global_model.checkpoint, "save", full)
    a, _ = make_clients(aggregator)
    with Serving(aggregator) as server:
        a.step()
    assert "No space left on device" in server.told[0]


def test_silence_counts_from_the_beginning_of_what_is_awaited():
    now = [100.0]
    attendance = Attendance(AbsenceSettings(policy="go_on", after_seconds=10.0), lambda: now[0])
    assert attendance.until_next(["a", "b"], since=0) == 10, "before it began nobody could be heard"
    now[0] = 108
    attendance.note("a")
    now[0] = 111
    assert attendance.missing(["a", "b"], since=90) == ["b"]
    assert attendance.missing(["a", "b"], since=105) == [], "nothing was asked of b before"
    assert attendance.until_next(["a"], since=105) == 7


def test_an_aggregator_that_was_stopped_for_a_while_blames_nobody():
    now = [100.0]
    attendance = Attendance(AbsenceSettings(policy="stop", after_seconds=10.0), lambda: now[0])
    now[0] = 500
    assert attendance.missing(["a"], since=100) == ["a"]
    attendance.excuse()
    assert attendance.missing(["a"], since=100) == []
    now[0] = 510
    assert attendance.missing(["a"], since=100) == ["a"]


@pytest.mark.parametrize("wrong", [{"policy": "go_on"}, {"policy": "stop"}, {"after_seconds": 5.0}])
def test_a_policy_comes_with_a_time(wrong):
    with pytest.raises(PlanError, match=r"aggregator\.settings\.absence takes after_seconds together with the policy"):
        make_aggregator(["a"], absence=wrong)


def test_who_looks_is_told_who_is_awaited_and_since_when(tmp_path):
    before = time.time()
    aggregator = make_aggregator(ABC, rounds=1, poll_seconds=60)
    a, b, c = clients = make_clients(aggregator)
    with Serving(aggregator):
        wait_for(lambda: read_standing(tmp_path))
        first = where_it_stands(tmp_path)
        assert (first.round, first.stage, first.ended) == (0, "baseline", None)
        assert first.awaited == dict.fromkeys(ABC)
        assert before - 1 <= first.since <= time.time() + 1
        a.step()
        assert b.poll()[0]
        standing = where_it_stands(tmp_path)
        assert list(standing.awaited) == ["b", "c"]
        assert (standing.awaited["b"] or 0) >= standing.since
        assert "awaits b, c (not heard of yet) since " in str(standing)
        assert not standing.abandoned
        b.send("evaluate_untrained", 0)
        c.step()
        to_stage(clients, "train")
        for client in clients:
            client.step()
        for client in clients:
            assert client.poll()[2]
    assert where_it_stands(tmp_path).ended == ""


def test_who_looks_learns_why_it_stopped(tmp_path):
    aggregator = make_aggregator(["a", "b"], **absence("stop"))
    with Serving(aggregator):
        pass
    assert where_it_stands(tmp_path).ended == "nothing was heard of a, b for 0.3 s in stage baseline of round 0"
