"""Files are replaced whole or not at all, damaged states are refused by name, and locks hold among processes."""

import hashlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedagem.errors import CorruptStateError, FedAGemError
from fedagem.files import Lock, read_state, replacing, write_file, write_state

PIXELS = torch.arange(100, dtype=torch.uint8)
STATE = {"round": 3, "score": None, "name": "client_1", "x": PIXELS, "w": torch.ones(7)}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "deep" / "down" / "a.state"
    write_state(path, STATE)
    return path


def test_what_is_read_is_what_was_written(saved):
    state = read_state(saved)
    assert state.keys() == STATE.keys()
    assert (state["round"], state["score"], state["name"]) == (3, None, "client_1")
    assert torch.equal(state["x"], PIXELS)
    assert state["x"].dtype == torch.uint8
    assert [p.name for p in saved.parent.iterdir()] == ["a.state"], "nothing is left lying about"


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 39, 40, 41, 0.5, 0.99, -1])
def test_a_truncated_file_is_never_loaded(saved, keep):
    content = saved.read_bytes()
    end = int(keep * len(content)) if isinstance(keep, float) else keep
    saved.write_bytes(content[:end])
    with pytest.raises(CorruptStateError, match=r"a\.state is damaged .* was not loaded"):
        read_state(saved)


def test_a_flipped_bit_anywhere_is_found(saved):
    content = saved.read_bytes()
    rng = random.Random(0)
    for place in {0, 7, 8, 39, 40, len(content) - 1, *(rng.randrange(len(content)) for _ in range(40))}:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        saved.write_bytes(damaged)
        with pytest.raises(CorruptStateError, match=str(saved)):
            read_state(saved)


def test_something_after_the_end_is_found(saved):
    saved.write_bytes(saved.read_bytes() + b"x")
    with pytest.raises(CorruptStateError):
        read_state(saved)


def test_what_cannot_be_read_or_written_is_said_to_be(tmp_path):
    (tmp_path / "a.state").mkdir()
    with pytest.raises(FedAGemError, match=r"a\.state cannot be read: Is a directory\."):
        read_state(tmp_path / "a.state")
    with pytest.raises(FedAGemError, match=r"a\.state cannot be written: Is a directory\."):
        write_state(tmp_path / "a.state", STATE)


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_crash_before_the_rename_leaves_the_old_state(saved, monkeypatch, function):
    def crash(*_):
        raise Crash

    monkeypatch.setattr(*((os, "fsync") if function == "fsync" else (Path, "replace")), crash)
    with pytest.raises(Crash):
        write_state(saved, {"round": 4})
    monkeypatch.undo()
    assert read_state(saved)["round"] == 3
    write_state(saved, {"round": 5})
    assert read_state(saved) == {"round": 5}


def test_it_is_on_disk_before_it_takes_the_place_of_the_old(saved, monkeypatch):
    events = []

    def noting(event, function):
        def call(*arguments):
            events.append(event)
            return function(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", noting("sync", os.fsync))
    monkeypatch.setattr(Path, "replace", noting("rename", Path.replace))
    write_state(saved, {"round": 4})
    assert events == ["sync", "rename", "sync"], "the file, its name, and the folder that the name is in"


def test_a_full_disk_is_said_to_be_and_costs_nothing(saved):
    """Files of this process may not grow beyond a limit, which is what a full disk looks like."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(FedAGemError, match=r"a\.state cannot be written: File too large\."):
            write_state(saved, {"x": torch.zeros(10**6)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_state(saved)["round"] == 3
    assert [path.name for path in saved.parent.iterdir()] == ["a.state"], "what did not fit takes up no space"


def test_an_interrupt_while_it_is_written_is_still_one(saved, monkeypatch):
    class Interrupted:
        def update(self, data):
            raise KeyboardInterrupt

    monkeypatch.setattr(hashlib, "sha256", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_state(saved, {"round": 4})
    monkeypatch.undo()
    assert read_state(saved)["round"] == 3


def test_a_file_is_what_torch_saves_behind_its_checksum(saved):
    """Files of earlier versions stay readable, so the layout is not this version's own affair."""
    magic, digest, body = (saved.read_bytes()[a:b] for a, b in ((0, 8), (8, 40), (40, None)))
    assert magic == b"FEDAGEM1"
    assert digest == hashlib.sha256(body).digest()
    assert torch.equal(torch.load(io.BytesIO(body), weights_only=True)["x"], PIXELS)


def test_text_and_bytes_are_replaced(tmp_path):
    path = tmp_path / "new" / "file"
    write_file(path, "gr\u00fcn\n")
    assert path.read_bytes() == b"gr\xc3\xbcn\n"
    write_file(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [found.name for found in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("bad")])
def test_a_failure_while_writing_leaves_the_old_file_alone(tmp_path, problem):
    path = tmp_path / "file"
    write_file(path, "old")

    def fail():
        with replacing(path) as file:
            file.write(b"half of the n")
            raise problem

    with pytest.raises((FedAGemError, KeyboardInterrupt, ValueError)) as raised:
        fail()
    if isinstance(problem, OSError):
        assert "file cannot be written: No space left on device." in str(raised.value)
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_lock_has_one_holder(tmp_path):
    with Lock(tmp_path / "lock") as first, Lock(tmp_path / "lock") as second:
        assert first.take()
        assert not second.take()
        first.close()
        assert second.take(wait=True)


def test_a_lock_is_free_when_all_who_share_it_have_ended(tmp_path):
    lock = Lock(tmp_path / "lock")
    assert lock.take()
    sharing = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.fileno()])
    lock.close()
    with Lock(tmp_path / "lock") as other:
        assert not other.take()
        sharing.kill()
        sharing.wait()
        assert other.take()


def test_files_are_replaced_without_torch(repository):
    code = "import sys, fedagem.files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, check=False).returncode == 0
