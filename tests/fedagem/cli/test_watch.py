"""`fedagem watch` tells of a federation that runs elsewhere what its aggregator writes, and ends when it does."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from fedagem.runs.standing import Standing, read_standing
from tests.support.waiting import wait_for


@pytest.fixture
def run(tmp_path):
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "plan.yaml").write_text(Plan.load(find_plan("rotated_digits")).to_yaml())
    return tmp_path


def watch(run):
    return CliRunner().invoke(main, ["watch", str(run)])


def is_abandoned(run):
    standing = read_standing(run)
    assert standing is not None
    return standing.abandoned


def gone_process():
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_it_ends_with_the_federation(run):
    Standing(20, "", time.time(), ended="", absent=("client_4",)).write(run)
    result = watch(run)
    assert result.exit_code == 0
    assert "rounds are done, without client_4: `fedagem report" in " ".join(result.output.split())


def test_it_tells_why_a_federation_stopped(run):
    Standing(3, "train", time.time(), ended="the disk is full").write(run)
    result = watch(run)
    assert result.exit_code == 2
    assert "stopped: the disk is full." in " ".join(result.output.split())


def test_it_says_who_is_awaited_and_since_when_in_lines_if_nobody_reads_a_terminal(run):
    (run / "metrics.jsonl").write_text("")
    began = time.time() - 60
    Standing(3, "train", began, {"client_1": began + 1, "client_2": began - 9, "client_3": None}, 3).write(run)
    command = [Path(sys.executable).with_name("fedagem"), "watch", run]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
        reader.start()
        try:
            said = wait_for(lambda: [line for line in lines if "awaits" in line])[0]
            Standing(4, "", time.time(), ended="").write(run)
            assert process.wait(60) == 0
        finally:
            process.kill()
            reader.join()

    def clock(seconds):
        return time.strftime("%H:%M:%S", time.localtime(seconds))

    names = f"client_1, client_2 (last heard of at {clock(began - 9)}), client_3 (not heard of yet)"
    assert f"awaits {names} since {clock(began)}" in said


def test_a_folder_without_a_run_is_refused(tmp_path):
    result = watch(tmp_path)
    assert result.exit_code == 2
    assert "is not a run" in result.output


def test_a_damaged_standing_is_refused_in_a_sentence(run):
    (run / "logs").mkdir()
    (run / "logs" / "standing.json").write_text('{"round": 3')
    result = watch(run)
    assert result.exit_code == 2
    assert "standing.json is not what an aggregator of this version writes" in " ".join(result.output.split())


def test_an_aggregator_that_was_killed_is_told_from_one_at_work(run):
    Standing(3, "train", time.time(), pid=os.getpid()).write(run)
    assert not is_abandoned(run)
    Standing(3, "train", time.time(), pid=gone_process()).write(run)
    assert is_abandoned(run)
    assert "the aggregator is not running" in str(read_standing(run))
    Standing(3, "train", time.time(), pid=gone_process(), host="another").write(run)
    assert not is_abandoned(run), "nobody can tell from here"


def test_of_very_many_only_some_are_named():
    awaited = {f"client_{number}": 0.0 for number in range(20)}
    said = str(Standing(0, "train", time.time(), awaited, 500, absent=tuple(awaited)))
    assert " and 492 more since " in said
    assert said.endswith("client_7 and 12 more")


def test_a_disk_that_is_full_holds_up_nobody(run, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    Standing(3, "train", time.time()).write(run)
    assert read_standing(run) is None
