"""The processes of a run: watched together, ended together, and mourned in a sentence."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fedagem.cli.finish import interrupted
from fedagem.cli.options import RunRequest
from fedagem.errors import FedAGemError
from fedagem.runs.processes import ProcessGroup
from tests.support.waiting import wait_for


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path


def python(code):
    return [sys.executable, "-c", code]


FOREVER = python("import time; print('here', flush=True); time.sleep(600)")


def test_all_end_well(directory):
    with ProcessGroup(directory) as group:
        group.start("one", python("print('first')"))
        group.start("two", python("import os; print(os.getcwd())"))
        group.wait(lambda: None)
    assert (directory / "logs" / "one.log").read_text() == "first\n"
    assert (directory / "logs" / "two.log").read_text().strip() == str(directory)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import os; print('last words', flush=True); os.kill(os.getpid(), 9)",
            ["was killed by SIGKILL", "last words"],
        ),
        ("import sys; print('Error: no such thing.'); sys.exit(2)", ["exit code 2: no such thing.", "bad.log"]),
        ("print('a'); print('b'); exit(3)", ["ended with exit code 3; the end of", "\n  | a\n  | b"]),
    ],
)
def test_who_fails_is_named_and_the_others_are_ended(directory, code, words):
    with ProcessGroup(directory) as group:
        other = group.start("other", FOREVER)
        group.start("bad", python(code))
        with pytest.raises(FedAGemError) as mourned:
            group.wait(lambda: None)
    assert mourned.value.message.startswith("bad ")
    for word in words:
        assert word in mourned.value.message
    assert other.process.poll() is not None


def test_a_log_that_was_removed_is_no_second_failure(directory):
    with ProcessGroup(directory) as group:
        group.start("bad", python("import shutil; shutil.rmtree('logs'); exit(3)"))
        with pytest.raises(FedAGemError, match=r"bad ended with exit code 3, and its log .*bad\.log is gone"):
            group.wait(lambda: None)


def test_only_the_last_words_of_this_attempt_count(directory):
    (directory / "logs" / "again.log").write_text("Error: an old story.\n")
    with ProcessGroup(directory) as group:
        group.start("again", python("print('new'); exit(4)"))
        with pytest.raises(FedAGemError) as mourned:
            group.wait(lambda: None)
    assert "old story" not in mourned.value.message
    assert "| new" in mourned.value.message


def test_how_to_resume_can_be_pasted_into_a_shell(capsys, tmp_path):
    request = RunRequest(
        plan_path=Path("my plans/a.yaml"),
        rounds=10,
        seed=3,
        assignments=("data_loader.settings.tasks={kind: rotated, count: 5}",),
        out=None,
        resume=False,
    )
    with pytest.raises(SystemExit) as left:
        interrupted("simulate", request, tmp_path / "the run")
    assert left.value.code == 130
    command = capsys.readouterr().err.partition("Resume with: ")[2]
    assert shlex.split(command) == [
        *("fedagem", "simulate", "my plans/a.yaml", "--resume", "--out", str(tmp_path / "the run")),
        *("--rounds", "10", "--seed", "3", "--set", "data_loader.settings.tasks={kind: rotated, count: 5}"),
    ]


def test_a_service_is_ended_when_the_others_are_done(directory):
    with ProcessGroup(directory) as group:
        service = group.start("service", FOREVER, service=True)
        group.wait_for_service(lambda: "here" in (directory / "logs" / "service.log").read_text())
        group.start("work", python("pass"))
        group.wait(lambda: None)
        assert service.process.poll() is None
    assert service.process.poll() is not None


def test_waiting_for_a_slow_one_costs_no_arithmetic(directory):
    """Also when the youngest has ended already."""
    looks = []
    with ProcessGroup(directory) as group:
        group.start("slow", python("import time; time.sleep(2)"))
        group.start("quick", python("pass"))
        group.wait(lambda: looks.append(1))
    assert len(looks) < 60


def test_who_ignores_a_polite_request_is_killed(directory, monkeypatch):
    monkeypatch.setattr("fedagem.runs.processes._GRACE_SECONDS", 0.5)
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with ProcessGroup(directory) as group:
        member = group.start("stubborn", python(f"{ignoring}; {FOREVER[-1]}"))
        wait_for(lambda: "here" in member.log.read_text())
    assert member.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nobody_is_left_behind_when_the_command_itself_is_stopped(directory, number):
    code = f"""
from pathlib import Path
from fedagem.runs.processes import ProcessGroup, stop_on_sigterm
stop_on_sigterm()
try:
    with ProcessGroup(Path({str(directory)!r})) as group:
        group.start("child", {FOREVER!r})
        group.wait(lambda: None)
except KeyboardInterrupt:
    raise SystemExit(130)
"""
    command = subprocess.Popen(python(code))
    log = directory / "logs" / "child.log"
    wait_for(lambda: log.exists() and "here" in log.read_text())
    [child] = psutil.Process(command.pid).children()
    os.kill(command.pid, number)
    assert command.wait(60) == 130
    assert not child.is_running()


def test_a_group_that_is_killed_takes_its_processes_along(directory):
    program = f"""
from pathlib import Path
from fedagem.runs.processes import ProcessGroup
with ProcessGroup(Path({str(directory)!r})) as group:
    print(group.start("child", {FOREVER!r}).process.pid, flush=True)
    group.wait(lambda: None)
"""
    parent = subprocess.Popen(python(program), stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    log = directory / "logs" / "child.log"
    wait_for(log.read_text)
    parent.kill()
    parent.wait()
    child.wait(timeout=30)


def test_only_one_group_works_on_a_run(directory):
    with ProcessGroup(directory) as first, ProcessGroup(directory) as second:
        first.claim()
        with pytest.raises(FedAGemError, match=r"is being run by another process: wait until it has ended"):
            second.claim()
    with ProcessGroup(directory) as third:
        third.claim()


def test_the_processes_of_a_group_share_its_lock_and_nobody_else(directory):
    take = python("from pathlib import Path; from fedagem.runs.processes import lock_run; lock_run(Path())")
    with ProcessGroup(directory) as group:
        group.claim()
        group.start("member", take)
        group.wait(lambda: None)
        stranger = subprocess.run(take, cwd=directory, capture_output=True, text=True, check=False)
    assert "is being run by another process" in stranger.stderr
    assert subprocess.run(take, cwd=directory, check=False).returncode == 0


def test_a_run_is_taken_until_its_last_process_has_ended(directory):
    """Even if the command is killed: what it started may still be writing."""
    with ProcessGroup(directory) as group, ProcessGroup(directory) as other:
        group.claim()
        member = group.start("member", FOREVER)
        assert group._lock is not None
        group._lock.close()
        with pytest.raises(FedAGemError, match="is being run by another process"):
            other.claim()
        member.process.kill()
        member.process.wait()
        other.claim()
