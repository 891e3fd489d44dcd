"""A client's memory between rounds: kept under its name, gone back to when a round is repeated."""

import pytest
import torch

from fedagem.errors import CorruptStateError
from fedagem.files import read_state, write_state
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client_state import ClientStateStore, Moment
from fedagem.seeding import derive_generator


def store_in(directory, origin="this plan"):
    return ClientStateStore(directory, lambda: ReplayBuffer(5), origin)


def live_through(store, round_number):
    """A round: look at the state, learn from twelve samples, save."""
    state = store.before(Moment(round_number))
    samples = {"x": torch.arange(12) + 100 * round_number}
    state.buffer.add(samples, derive_generator(0, round_number))
    store.save(state, Moment(round_number))
    return state.buffer.contents()["x"].clone()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_fresh_client_has_an_empty_buffer(tmp_path):
    state = store_in(tmp_path).before(Moment(0))
    assert (len(state.buffer), state.kept, state.after) == (0, {}, None)


@pytest.mark.parametrize("new_process", [False, True])
@pytest.mark.parametrize("repeated", [0, 1, 4])
def test_a_repeated_round_gives_the_same(tmp_path, repeated, new_process):
    store = store_in(tmp_path)
    for round_number in range(repeated + 1):
        once = live_through(store, round_number)
    store = store_in(tmp_path) if new_process else store
    assert store.before(Moment(repeated)).after == (Moment(repeated - 1) if repeated else None)
    assert torch.equal(live_through(store, repeated), once)


@pytest.mark.parametrize("new_process", [False, True])
def test_going_on_after_a_restart_is_going_on(tmp_path, new_process):
    steady, restarted = store_in(tmp_path / "a"), store_in(tmp_path / "b")
    for round_number in range(6):
        expected = live_through(steady, round_number)
        actual = live_through(restarted, round_number)
        restarted = store_in(tmp_path / "b") if new_process else restarted
        assert torch.equal(actual, expected)
    assert steady.before(Moment(6)).buffer.seen == restarted.before(Moment(6)).buffer.seen == 72


def test_an_update_that_was_never_saved_is_forgotten(tmp_path):
    store = store_in(tmp_path)
    kept = live_through(store, 0)
    store.before(Moment(1)).buffer.add({"x": torch.full((50,), -1)}, derive_generator(0, "lost"))
    store.forget()
    assert torch.equal(store.before(Moment(1)).buffer.contents()["x"], kept)


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
        store_in(tmp_path).before(Moment(1))


def test_a_damaged_state_is_refused_by_name(tmp_path):
    live_through(store_in(tmp_path), 0)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptStateError, match=r"after_round_000000\.state is damaged"):
        store_in(tmp_path).before(Moment(1))


@pytest.mark.parametrize("round_number", [0, 1, 2, 5])
def test_a_state_of_another_plan_is_refused_by_name(tmp_path, round_number):
    """Also in the first round, and in one that the client joins late."""
    for number in range(2):
        live_through(store_in(tmp_path), number)
    found = r"after_round_00000[01]\.state is of another plan, or of another version of fedagem: work in another folder"
    with pytest.raises(CorruptStateError, match=found):
        store_in(tmp_path, "another plan").before(Moment(round_number))
    assert names(tmp_path) == ["after_round_000000.state", "after_round_000001.state"]


def test_a_state_that_does_not_say_its_plan_is_refused(tmp_path):
    live_through(store_in(tmp_path), 0)
    [path] = tmp_path.iterdir()
    write_state(path, {key: value for key, value in read_state(path).items() if key != "origin"})
    with pytest.raises(CorruptStateError, match="is of another plan"):
        store_in(tmp_path).before(Moment(1))


def test_strangers_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "notes.state").write_text("mine")
    (tmp_path / ".after_round_000001.state.partial").write_bytes(b"half")
    store = store_in(tmp_path)
    for round_number in range(3):
        live_through(store, round_number)
    assert (tmp_path / "notes.state").read_text() == "mine"
    assert store_in(tmp_path).before(Moment(3)).after == Moment(2)


def end_task(store, round_number):
    """The end of a task: count it, and replace the buffer by its own choice of samples."""
    state = store.before(Moment(round_number, ends_task=True))
    state.kept["tasks"] = state.kept.get("tasks", 0) + 1
    state.kept["sum"] = state.kept.get("sum", torch.zeros(())) + state.buffer.contents()["x"].sum()
    store.save(state, Moment(round_number, ends_task=True))
    return dict(state.kept)


def live_through_task(store, last_round):
    """Two rounds and the end of the task; what is learned and kept."""
    live_through(store, last_round - 1)
    contents = live_through(store, last_round)
    return contents, end_task(store, last_round)


def test_a_task_ends_after_its_last_round(tmp_path):
    assert Moment(3) < Moment(3, ends_task=True) < Moment(4)


@pytest.mark.parametrize("new_process", [False, True])
def test_the_end_of_a_task_can_be_repeated_by_itself(tmp_path, new_process):
    """A client that died after it saved the end of a task, and before it sent the result, counts the task once."""
    store = store_in(tmp_path)
    live_through_task(store, 1)
    _, once = live_through_task(store, 3)
    assert once["tasks"] == 2
    store = store_in(tmp_path) if new_process else store
    assert end_task(store, 3) == once


@pytest.mark.parametrize("new_process", [False, True])
@pytest.mark.parametrize("died", ["between", "after"])
def test_a_round_with_the_end_of_a_task_can_be_repeated_as_a_whole(tmp_path, new_process, died):
    """An aggregator that died between training and the end of the task, or after both, begins the round again."""
    store = store_in(tmp_path)
    live_through_task(store, 1)
    live_through(store, 2)
    contents = live_through(store, 3)
    once = end_task(store, 3) if died == "after" else None
    store = store_in(tmp_path) if new_process else store
    assert store.before(Moment(3)).after == Moment(2)
    assert torch.equal(live_through(store, 3), contents)
    repeated = end_task(store, 3)
    assert repeated["tasks"] == 2
    assert once is None or repeated == once


def test_the_next_round_goes_on_from_the_end_of_the_task(tmp_path):
    live_through_task(store_in(tmp_path), 1)
    assert store_in(tmp_path).before(Moment(2)).after == Moment(1, ends_task=True)
    live_through(store_in(tmp_path), 2)
    assert names(tmp_path) == ["after_round_000002.state", "after_task_000001.state"]


def test_a_client_that_did_not_train_in_the_last_round_ends_the_task_too(tmp_path):
    store = store_in(tmp_path)
    live_through(store, 0)
    assert end_task(store, 3)["tasks"] == 1
    assert end_task(store_in(tmp_path), 3)["tasks"] == 1
    assert store_in(tmp_path).before(Moment(4)).after == Moment(3, ends_task=True)
