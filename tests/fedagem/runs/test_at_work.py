"""How far clients are in a round, while it is under way and also if nobody looks at a terminal."""

import io
import os

import pytest
import torch
from rich.console import Console

from fedagem.runs.at_work import reported, who_is_at_work
from fedagem.runs.live.lines import Lines
from fedagem.runs.live.run_watch import RunWatch


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only if a test says so."""
    now = [100.0]
    monkeypatch.setattr("fedagem.runs.at_work.time.monotonic", lambda: now[0])
    return now


def batches(count):
    return [{"x": torch.zeros(8, 1)} for _ in range(count)]


def test_a_long_turn_says_how_far_it_is_and_leaves_nothing(tmp_path, clock):
    seen = []
    for _ in reported("client_0", batches(5), tmp_path):
        clock[0] += 2
        seen.append(who_is_at_work(tmp_path))
    assert seen[0] is None, "nothing is done yet"
    assert str(seen[1]) == "1 client at work, 1 batches, 4 samples/s"
    assert seen[4] is not None
    assert (seen[4].batches, seen[4].samples_per_second) == (4, 4.0)
    assert list((tmp_path / "logs" / "at_work").iterdir()) == []


def test_short_turns_write_nothing(tmp_path, clock):
    assert len(list(reported("client_0", batches(3), tmp_path))) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_turn_that_fails_leaves_nothing(tmp_path, clock):
    turn = reported("client_0", batches(3), tmp_path)
    for _ in range(2):
        next(turn)
        clock[0] += 2
    next(turn)
    assert who_is_at_work(tmp_path) is not None
    turn.close()
    assert who_is_at_work(tmp_path) is None


def test_clients_are_added_up_and_the_dead_are_not_counted(tmp_path):
    folder = tmp_path / "logs" / "at_work"
    folder.mkdir(parents=True)
    (folder / "a").write_text("10 320 2.0")
    (folder / "b").write_text("20 640 4.0")
    (folder / "killed").write_text("900 9000 1.0")
    os.utime(folder / "killed", (0, 0))
    assert str(who_is_at_work(tmp_path)) == "2 clients at work, 30 batches, 320 samples/s"
    assert "30 batches" in RunWatch(tmp_path).summary()


def test_without_a_terminal_a_line_is_printed_now_and_then(monkeypatch):
    now, output = [0.0], io.StringIO()
    monkeypatch.setattr("fedagem.runs.live.lines.time.monotonic", lambda: now[0])
    said = Lines(Console(file=output))
    for second in range(12):
        now[0] = float(second)
        said.say("run", f"{second} batches")
    assert output.getvalue().splitlines() == ["run: 0 batches", "run: 5 batches", "run: 10 batches"]


def test_on_a_terminal_no_lines_are_printed():
    output = io.StringIO()
    Lines(Console(file=output, force_terminal=True)).say("run", "1 batch")
    assert output.getvalue() == ""
