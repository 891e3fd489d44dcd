"""The replay buffer against the paper's Algorithm ReservoirSampling, one sample at a time."""

import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedagem.learning.buffer import POLICIES, ReplayBuffer


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(start, count):
    """Samples that can be told apart."""
    return {"x": torch.arange(start, start + count)}


def fill(buffer, batch_sizes, rng):
    start = 0
    for size in batch_sizes:
        buffer.add(numbered(start, size), rng)
        start += size
    return buffer


def sequential_reservoir(stream_length, capacity, rng):
    """The algorithm as it is printed, with 1-based n and j."""
    memory = {}
    for n in range(1, stream_length + 1):
        if n <= capacity:
            memory[n] = n - 1
        else:
            j = int(torch.randint(1, n + 1, (), generator=rng))
            if j <= capacity:
                memory[j] = n - 1
    return list(memory.values())


def inclusion_counts(contents_of, trials, stream_length):
    counts = torch.zeros(stream_length)
    for trial in range(trials):
        counts[torch.as_tensor(contents_of(trial))] += 1
    return counts


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


class TestReservoir:
    STREAM, CAPACITY, TRIALS = 40, 8, 1500

    def whole_batches(self, sizes):
        return inclusion_counts(
            lambda trial: fill(ReplayBuffer(self.CAPACITY), sizes, generator(trial)).contents()["x"],
            self.TRIALS,
            self.STREAM,
        )

    @pytest.mark.parametrize("sizes", [[40], [7, 13, 1, 19], [8, 32]])
    def test_every_sample_is_kept_with_the_same_probability(self, sizes):
        counts = self.whole_batches(sizes)
        assert counts.sum() == self.CAPACITY * self.TRIALS
        # 39 degrees of freedom: 99.99 % of uniform reservoirs stay below 78.
        assert chi_square(counts, self.CAPACITY * self.TRIALS / self.STREAM) < 78

    def test_whole_batches_agree_in_distribution_with_the_printed_algorithm(self):
        batched = self.whole_batches([15, 25])
        printed = inclusion_counts(
            lambda trial: sequential_reservoir(self.STREAM, self.CAPACITY, generator(10_000 + trial)),
            self.TRIALS,
            self.STREAM,
        )
        two_sample = float(((batched - printed) ** 2 / (batched + printed)).sum())
        assert two_sample < 78

    def test_slots_are_uniform_too(self):
        """A late sample lands in every slot equally often: no slot is favoured by the whole-batch arithmetic."""
        hits = torch.zeros(self.CAPACITY)
        for trial in range(4000):
            slot = POLICIES["reservoir"](30, 10, self.CAPACITY, generator(trial))
            hits += torch.bincount(slot[slot >= 0], minlength=self.CAPACITY)
        assert chi_square(hits, float(hits.sum()) / self.CAPACITY) < 30

    def test_fills_up_before_it_replaces_anything(self):
        buffer = fill(ReplayBuffer(10), [4, 3, 3], generator())
        assert buffer.contents()["x"].tolist() == list(range(10))

    def test_never_keeps_more_than_its_capacity(self):
        buffer = fill(ReplayBuffer(10), [64, 64], generator())
        assert len(buffer) == 10
        assert buffer.seen == 128
        assert len(set(buffer.contents()["x"].tolist())) == 10


def test_a_sliding_window_holds_the_newest():
    buffer = fill(ReplayBuffer(10, "sliding_window"), [4, 7, 12, 3], generator())
    assert sorted(buffer.contents()["x"].tolist()) == list(range(16, 26))


def test_random_replacement_always_takes_the_newest_and_replaces_uniformly():
    survivors = torch.zeros(10)
    for trial in range(2000):
        buffer = fill(ReplayBuffer(10, "random_replacement"), [10, 1], generator(trial))
        kept = buffer.contents()["x"]
        assert 10 in kept
        survivors[kept[kept < 10]] += 1
    replaced = 2000 - survivors
    assert chi_square(replaced, 200.0) < 34  # 9 degrees of freedom, 99.99 %


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_of_a_batch_wins_a_slot(policy):
    """Against replaying the policy's decisions one after the other."""
    rng = generator(3)
    buffer = fill(ReplayBuffer(5, policy), [5], rng)
    expected = buffer.contents()["x"].clone()
    probe = torch.Generator()
    probe.set_state(rng.get_state())
    for position, slot in enumerate(POLICIES[policy](5, 50, 5, probe).tolist()):
        if slot >= 0:
            expected[slot] = 5 + position
    buffer.add(numbered(5, 50), rng)
    assert torch.equal(buffer.contents()["x"], expected)


@settings(max_examples=40, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    capacity=st.integers(1, 12),
    before=st.lists(st.integers(0, 20), max_size=4),
    after=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_a_restored_buffer_behaves_as_the_original_for_ever(policy, capacity, before, after, seed):
    rng = generator(seed)
    original = fill(ReplayBuffer(capacity, policy), before, rng)
    stored = io.BytesIO()
    torch.save(original.state_dict(), stored)
    stored.seek(0)
    restored = ReplayBuffer.from_state_dict(torch.load(stored, weights_only=True))
    twin = torch.Generator()
    twin.set_state(rng.get_state())
    for size in after:
        original.add(numbered(original.seen, size), rng)
        restored.add(numbered(restored.seen, size), twin)
    assert (restored.seen, len(restored)) == (original.seen, len(original))
    assert torch.equal(restored.contents()["x"], original.contents()["x"])
    assert torch.equal(restored.sample(3, twin)["x"], original.sample(3, rng)["x"])


def test_a_state_is_no_copy_and_holds_used_slots_only():
    buffer = ReplayBuffer(1000)
    buffer.add({"x": torch.ones(10, 100), "y": torch.arange(10)}, generator())
    slots = buffer.state_dict()["slots"]
    assert all(slots[name].data_ptr() == values.data_ptr() for name, values in buffer.contents().items())
    assert {name: values.untyped_storage().nbytes() for name, values in slots.items()} == {"x": 4000, "y": 80}
    assert torch.equal(slots["y"], torch.arange(10))


def test_any_named_tensors_keep_their_dtype_and_stay_together():
    count = 30
    number = torch.arange(count)
    batch = {
        "x": number.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 4, 4),
        "y": number,
        "logits": number.float().view(-1, 1).expand(-1, 10),
        "boxes": number.double().view(-1, 1, 1).expand(-1, 6, 5),
    }
    buffer = ReplayBuffer(7)
    buffer.add(batch, generator())
    kept = buffer.sample(7, generator(1))
    assert {name: values.dtype for name, values in kept.items()} == {
        "x": torch.uint8,
        "y": torch.int64,
        "logits": torch.float32,
        "boxes": torch.float64,
    }
    assert kept["x"].shape == (7, 3, 4, 4)
    for values in kept.values():
        assert (values.flatten(1) if values.dim() > 1 else values.view(-1, 1)).long().eq(kept["y"].view(-1, 1)).all()


def test_a_sample_has_no_duplicates_and_is_uniform():
    buffer = fill(ReplayBuffer(10), [10], generator())
    counts = torch.zeros(10)
    rng = generator()
    for _ in range(2000):
        drawn = buffer.sample(3, rng)["x"]
        assert len(set(drawn.tolist())) == 3
        counts[drawn] += 1
    assert chi_square(counts, 600.0) < 34
    assert len(buffer.sample(32, rng)["x"]) == 10


def test_a_sample_is_a_copy():
    buffer = fill(ReplayBuffer(4), [4], generator())
    buffer.sample(4, generator())["x"].zero_()
    assert buffer.contents()["x"].tolist() == [0, 1, 2, 3]


def test_what_is_kept_does_not_hold_on_to_the_graph_or_the_batch():
    logits = torch.ones(4, 2, requires_grad=True) * 2
    batch = {"x": torch.zeros(4), "logits": logits}
    buffer = ReplayBuffer(4)
    buffer.add(batch, generator())
    batch["x"].fill_(9)
    assert not buffer.contents()["logits"].requires_grad
    assert buffer.contents()["x"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "stranger",
    [
        {"x": torch.zeros(2, 3)},
        {"x": torch.zeros(2, dtype=torch.uint8)},
        {"x": torch.zeros(2), "y": torch.zeros(2)},
        {"y": torch.zeros(2)},
    ],
    ids=["shape", "dtype", "extra name", "other name"],
)
def test_refuses_samples_that_do_not_fit(stranger):
    buffer = ReplayBuffer(4)
    buffer.add({"x": torch.ones(2)}, generator())
    with pytest.raises(ValueError, match="the buffer keeps samples like"):
        buffer.add(stranger, generator())
    assert buffer.seen == 2
    assert buffer.contents()["x"].tolist() == [1, 1]


def test_refuses_a_batch_whose_tensors_differ_in_length():
    with pytest.raises(ValueError, match="length"):
        ReplayBuffer(4).add({"x": torch.zeros(3), "y": torch.zeros(2)}, generator())


@pytest.mark.parametrize("policy", POLICIES)
def test_no_room_and_no_samples_are_fine(policy):
    nothing = ReplayBuffer(0, policy)
    nothing.add(numbered(0, 5), generator())
    assert (len(nothing), nothing.seen) == (0, 5)
    buffer = ReplayBuffer(3, policy)
    buffer.add(numbered(0, 0), generator())
    assert (len(buffer), buffer.seen, buffer.contents()) == (0, 0, {})
