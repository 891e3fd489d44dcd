"""One seed, and a generator for each named use of it."""

import torch

from fedagem.seeding import derive_generator, derive_seed, seeded_torch


def test_a_use_has_the_same_seed_in_every_process_and_version():
    assert derive_seed(7, "client_1", 3, "train") == 4646065955918209103


def test_uses_are_told_apart():
    uses: list[tuple[str | int, ...]] = [("a",), ("b",), ("a", 1), ("a", "1"), ("a1",), ("a", 1, 2), ("a", 12)]
    seeds = {derive_seed(seed, *use) for use in uses for seed in (0, 1)}
    assert len(seeds) == 2 * len(uses)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_generators_of_one_use_draw_the_same_numbers():
    first, second = derive_generator(3, "x"), derive_generator(3, "x")
    assert torch.equal(torch.rand(5, generator=first), torch.rand(5, generator=second))
    assert not torch.equal(torch.rand(5, generator=first), torch.rand(5, generator=derive_generator(3, "y")))


def test_a_seeded_block_repeats_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    with seeded_torch(0, "dropout"):
        inside = torch.rand(4)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(10)
    with seeded_torch(0, "dropout"):
        assert torch.equal(torch.rand(4), inside)
