"""Who gets which samples: nothing lost, nothing twice, as mixed as the paper says."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedagem.errors import PlanError
from fedagem.tasks.partition import by_classes, by_dirichlet, by_dirichlet_over_clients


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def assert_covers(shares, labels):
    assert torch.equal(torch.cat(shares).sort().values, torch.arange(len(labels)))


GOLDEN_CLASSES = [[2, 3, 6, 7, 10, 11, 14, 15, 18, 19], [0, 1, 4, 5, 8, 9, 12, 13, 16, 17]]
GOLDEN_DIRICHLET = [[1, 5, 9, 13, 14, 15, 17], [0, 3, 4, 8, 11, 12, 19], [2, 6, 7, 10, 16, 18]]

label_lists = st.lists(st.integers(0, 5), min_size=30, max_size=120).map(torch.tensor)


@settings(max_examples=60, deadline=None)
@given(labels=label_lists, clients=st.integers(1, 8), per_client=st.integers(1, 6), seed=st.integers(0, 99))
def test_classes_are_dealt_without_loss(labels, clients, per_client, seed):
    classes = len(labels.unique())
    if per_client > classes or clients * per_client < classes:
        with pytest.raises(PlanError, match="cannot share"):
            by_classes(labels, clients, per_client, generator(seed))
        return
    shares = by_classes(labels, clients, per_client, generator(seed))
    assert len(shares) == clients
    assert_covers(shares, labels)
    for share in shares:
        assert len(labels[share].unique()) <= per_client


@pytest.mark.parametrize(("clients", "per_client"), [(5, 2), (10, 2), (20, 2), (2, 5)])
def test_every_client_gets_exactly_its_classes_in_even_parts(clients, per_client):
    labels = torch.arange(10).repeat(100)
    shares = by_classes(labels, clients, per_client, generator(3))
    assert [len(labels[share].unique()) for share in shares] == [per_client] * clients
    assert {len(share) for share in shares} == {1000 // clients}


@settings(max_examples=60, deadline=None)
@given(labels=label_lists, clients=st.integers(1, 9), alpha=st.floats(0.01, 100), seed=st.integers(0, 99))
def test_a_dirichlet_partition_loses_nothing_and_is_even(labels, clients, alpha, seed):
    shares = by_dirichlet(labels, clients, alpha, generator(seed))
    assert_covers(shares, labels)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=60, deadline=None)
@given(labels=label_lists, clients=st.integers(1, 12), alpha=st.floats(0.05, 100), seed=st.integers(0, 99))
def test_classes_spread_over_clients_lose_nothing_and_leave_nobody_with_less_than_ten(labels, clients, alpha, seed):
    if len(labels) < 10 * clients:
        with pytest.raises(PlanError, match=f"cannot give {clients} clients at least 10 of {len(labels)} samples each"):
            by_dirichlet_over_clients(labels, clients, alpha, generator(seed))
        return
    try:
        shares = by_dirichlet_over_clients(labels, clients, alpha, generator(seed))
    except PlanError:  # a thousand draws do not always find one
        assume(False)
    assert_covers(shares, labels)
    assert len(shares) == clients
    assert min(len(share) for share in shares) >= 10


def test_classes_spread_over_clients_are_skewed_as_the_shares_of_a_dirichlet_distribution():
    """The first class is dealt as Dir(alpha, ..., alpha) says: mean 1/K, variance (1/K)(1 - 1/K) / (alpha K + 1)."""
    labels = torch.zeros(20_000, dtype=torch.int64)
    shares = [
        len(share) / len(labels)
        for seed in range(40)
        for share in by_dirichlet_over_clients(labels, 5, 1.0, generator(seed))
    ]
    assert sum(shares) / len(shares) == pytest.approx(1 / 5)
    variance = sum((share - 1 / 5) ** 2 for share in shares) / len(shares)
    assert variance == pytest.approx((1 / 5) * (4 / 5) / 6, rel=0.25)


def test_a_client_with_its_equal_part_gets_nothing_of_later_classes():
    labels = torch.arange(2).repeat_interleave(1000)
    for seed in range(20):
        for share in by_dirichlet_over_clients(labels, 4, 0.3, generator(seed)):
            of_first, of_second = torch.bincount(labels[share], minlength=2).tolist()
            assert of_first < 500 or of_second == 0


def heterogeneity(labels, shares, classes):
    """Mean total variation between a client's class mixture and that of the whole."""
    whole = torch.bincount(labels, minlength=classes) / len(labels)
    mixtures = [torch.bincount(labels[share], minlength=classes) / len(share) for share in shares]
    return float(torch.stack([(mixture - whole).abs().sum() / 2 for mixture in mixtures]).mean())


def test_a_smaller_alpha_is_more_heterogeneous():
    labels = torch.arange(10).repeat(300)
    spread = [
        sum(heterogeneity(labels, by_dirichlet(labels, 10, alpha, generator(seed)), 10) for seed in range(5)) / 5
        for alpha in (0.03, 0.3, 3.0, 300.0)
    ]
    assert spread == sorted(spread, reverse=True)
    assert spread[0] > 0.6
    assert 0.3 < spread[1] < 0.75
    assert spread[3] < 0.15


@pytest.mark.parametrize(
    "deal",
    [
        lambda y, g: by_classes(y, 4, 3, g),
        lambda y, g: by_dirichlet(y, 4, 0.3, g),
        lambda y, g: by_dirichlet_over_clients(y, 4, 0.3, g),
    ],
)
def test_the_seed_decides(deal):
    labels = torch.arange(6).repeat(20)
    first, again, other = (deal(labels, generator(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_partitions_stay_as_published():
    """Golden values: runs of the same plan and seed stay comparable from version to version."""
    labels = torch.arange(4).repeat(5)
    assert [share.tolist() for share in by_classes(labels, 2, 2, generator(7))] == GOLDEN_CLASSES
    assert [share.tolist() for share in by_dirichlet(labels, 3, 0.3, generator(7))] == GOLDEN_DIRICHLET
