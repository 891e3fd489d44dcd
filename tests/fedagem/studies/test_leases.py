"""Leases in a shared folder: one winner, and a dead worker is found without comparing clocks."""

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from fedagem.errors import FedAGemError
from fedagem.studies.leases import LeaseLostError, Lookout, SignOfLife, create_once
from tests.support.waiting import wait_for


class Clock:
    """The clock of one machine, under the control of a test."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("fedagem.studies.leases.time.monotonic", lambda: self.now)


def create_many(folder, me, barrier, won):
    for number in range(50):
        barrier.wait()
        if create_once(folder / f"attempt-{number}", f"{me}"):
            won.put((number, me))


def test_of_many_processes_that_create_a_file_one_succeeds_and_it_is_never_half_written(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, won = context.Barrier(4), context.Queue()
    workers = [context.Process(target=create_many, args=(tmp_path, me, barrier, won)) for me in range(4)]
    for worker in workers:
        worker.start()
    winners = [won.get(timeout=60) for _ in range(50)]
    for worker in workers:
        worker.join()
    assert sorted(number for number, _ in winners) == list(range(50))
    for number, me in winners:
        assert (tmp_path / f"attempt-{number}").read_text() == str(me)
    assert len(list(tmp_path.iterdir())) == 50, "no drafts are left"


def test_a_server_that_repeats_a_request_does_not_rob_the_winner(tmp_path, monkeypatch):
    """On NFS, a request whose answer was lost is sent again, and the second answer is that the file exists."""

    def link(draft, path):
        real(draft, path)
        raise FileExistsError(17, "File exists", str(path))

    real = os.link
    monkeypatch.setattr(os, "link", link)
    assert create_once(tmp_path / "mine", "me")
    monkeypatch.setattr(os, "link", real)
    assert not create_once(tmp_path / "mine", "other")


def test_a_file_system_without_links_is_refused_in_one_sentence(tmp_path, monkeypatch):
    def link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(FedAGemError, match=r"has no hard links \(Operation not permitted\), which a queue needs"):
        create_once(tmp_path / "mine", "me")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_renews_its_file_is_alive_whatever_the_clocks_say(tmp_path):
    with SignOfLife(tmp_path, lease_seconds=3) as sign:
        lookout = Lookout(tmp_path, lease_seconds=3)
        assert lookout.look(sign.worker) == "unknown", "one look tells nothing"
        wait_for(lambda: lookout.look(sign.worker) == "alive", 10)
        os.utime(tmp_path / sign.worker, (0, 0))  # a server that lives in 1970
        wait_for(lambda: (tmp_path / sign.worker).read_text() > "2", 10)
        assert lookout.look(sign.worker) == "alive"
        sign.check()
    assert lookout.look(sign.worker) == "gone", "a worker that ends takes its file away"


def test_a_file_that_does_not_change_for_the_time_of_a_lease_is_removed(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    (tmp_path / "dead").write_text("7\n")
    lookout = Lookout(tmp_path, lease_seconds=60)
    assert lookout.look("dead") == "unknown"
    clock.now += 59
    assert lookout.look("dead") == "unknown"
    clock.now += 2
    assert lookout.look("dead") == "gone"
    assert not (tmp_path / "dead").exists()


def test_an_observer_that_was_away_for_long_removes_nobody(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    (tmp_path / "busy").write_text("7\n")
    lookout = Lookout(tmp_path, lease_seconds=60)
    lookout.look("busy")
    clock.now += 3600
    (tmp_path / "busy").write_text("8\n")
    assert lookout.look("busy") == "alive"
    clock.now += 59
    assert lookout.look("busy") == "alive"


def test_a_worker_whose_file_was_removed_may_not_go_on(tmp_path):
    with SignOfLife(tmp_path, lease_seconds=0.3) as sign:
        (tmp_path / sign.worker).unlink()
        assert "other workers have seen no sign of this one for 0.3 s" in wait_for(lambda: complaint(sign), 10)
        assert list(tmp_path.iterdir()) == [], "it does not come back to life"


def test_a_worker_that_cannot_renew_its_file_stops_before_others_may_take_over(tmp_path, monkeypatch):
    """The folder does not answer any more: opening hangs, as on a network file system whose server is gone."""
    answers = threading.Event()

    def hang(*_):
        answers.wait(60)
        raise OSError(5, "Input/output error")

    with SignOfLife(tmp_path, lease_seconds=2) as sign:
        monkeypatch.setattr(Path, "open", hang)
        assert complaint(sign) is None
        assert "could not be renewed for" in wait_for(lambda: complaint(sign), 10)
        answers.set()


def complaint(sign):
    """Why a worker may not go on, if it may not."""
    try:
        sign.check()
    except LeaseLostError as problem:
        return problem.message
    return None
