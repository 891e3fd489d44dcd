"""A client's memory between rounds: kept under its name, gone back to when a round is repeated."""

import pytest
import torch

from fedagem.errors import CorruptStateError
from fedagem.files import read_state, write_state
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client_state import ClientStateStore
from fedagem.seeding import derive_generator


def store_in(directory, origin="this plan"):
    return ClientStateStore(directory, lambda: ReplayBuffer(5), origin)


def live_through(store, round_number):
    """A round: look at the state, learn from twelve samples, save."""
    state = store.before(round_number)
    samples = {"x": torch.arange(12) + 100 * round_number}
    state.buffer.add(samples, derive_generator(0, round_number))
    store.save(state, round_number)
    return state.buffer.contents()["x"].clone()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_fresh_client_has_an_empty_buffer(tmp_path):
    state = store_in(tmp_path).before(0)
    assert (len(state.buffer), state.after_round) == (0, None)


@pytest.mark.parametrize("new_process", [False, True])
@pytest.mark.parametrize("repeated", [0, 1, 4])
def test_a_repeated_round_gives_the_same(tmp_path, repeated, new_process):
    store = store_in(tmp_path)
    for round_number in range(repeated + 1):
        once = live_through(store, round_number)
    store = store_in(tmp_path) if new_process else store
    assert store.before(repeated).after_round == (repeated - 1 if repeated else None)
    assert torch.equal(live_through(store, repeated), once)


@pytest.mark.parametrize("new_process", [False, True])
def test_going_on_after_a_restart_is_going_on(tmp_path, new_process):
    steady, restarted = store_in(tmp_path / "a"), store_in(tmp_path / "b")
    for round_number in range(6):
        expected = live_through(steady, round_number)
        actual = live_through(restarted, round_number)
        restarted = store_in(tmp_path / "b") if new_process else restarted
        assert torch.equal(actual, expected)
    assert steady.before(6).buffer.seen == restarted.before(6).buffer.seen == 72


def test_an_update_that_was_never_saved_is_forgotten(tmp_path):
    store = store_in(tmp_path)
    kept = live_through(store, 0)
    store.before(1).buffer.add({"x": torch.full((50,), -1)}, derive_generator(0, "lost"))
    store.forget()
    assert torch.equal(store.before(1).buffer.contents()["x"], kept)


def test_the_two_newest_states_are_kept(tmp_path):
    store = store_in(tmp_path)
    for round_number in (0, 1, 2, 5):
        live_through(store, round_number)
    assert names(tmp_path) == ["after_round_000002.state", "after_round_000005.state"]


def test_a_client_that_sat_out_can_still_repeat(tmp_path):
    store = store_in(tmp_path)
    live_through(store, 0)
    once = live_through(store, 3)
    assert torch.equal(live_through(store_in(tmp_path), 3), once)


def test_a_round_that_is_too_far_back_is_refused(tmp_path):
    store = store_in(tmp_path)
    for round_number in range(4):
        live_through(store, round_number)
    with pytest.raises(CorruptStateError, match=r"states after rounds \[2, 3\], but round 1 needs an earlier one"):
        store_in(tmp_path).before(1)


def test_a_damaged_state_is_refused_by_name(tmp_path):
    live_through(store_in(tmp_path), 0)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptStateError, match=r"after_round_000000\.state is damaged"):
        store_in(tmp_path).before(1)


@pytest.mark.parametrize("round_number", [0, 1, 2, 5])
def test_a_state_of_another_plan_is_refused_by_name(tmp_path, round_number):
    """Also in the first round, and in one that the client joins late."""
    for number in range(2):
        live_through(store_in(tmp_path), number)
    found = r"after_round_00000[01]\.state is of another plan, or of another version of fedagem: work in another folder"
    with pytest.raises(CorruptStateError, match=found):
        store_in(tmp_path, "another plan").before(round_number)
    assert names(tmp_path) == ["after_round_000000.state", "after_round_000001.state"]


def test_a_state_that_does_not_say_its_plan_is_refused(tmp_path):
    live_through(store_in(tmp_path), 0)
    [path] = tmp_path.iterdir()
    write_state(path, {key: value for key, value in read_state(path).items() if key != "origin"})
    with pytest.raises(CorruptStateError, match="is of another plan"):
        store_in(tmp_path).before(1)


def test_strangers_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.state").write_text("mine")
    (tmp_path / ".after_round_000001.state.partial").write_bytes(b"half")
    store = store_in(tmp_path)
    for round_number in range(3):
        live_through(store, round_number)
    assert (tmp_path / "notes.state").read_text() == "mine"
    assert store_in(tmp_path).before(3).after_round == 2
