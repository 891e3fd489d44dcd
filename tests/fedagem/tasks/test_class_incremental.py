"""Class-incremental streams: disjoint groups of classes, dealt task by task, at one pace or each at its own."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedagem.errors import PlanError
from fedagem.learning.objective import Classification
from fedagem.plans.workspace import plan_folder
from fedagem.settings import parse_settings
from fedagem.studies.runs import runs_of
from fedagem.studies.study import load_study
from fedagem.tasks.accuracy import count_correct
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import Labelled, Source
from fedagem.tasks.stream import TaskStream
from fedagem.tasks.tasks import SequentialTasks

CLASSES, PER_CLASS = 6, 40
GOLDEN_SHARE = [88, 91, 101, 111, 112, 120, 122, 125, 127, 129, 131, 142]
GOLDEN_CURRICULA = [[5, 1, 0, 4, 3, 2], [5, 4, 2, 1, 0, 3]]


def numbered_source():
    """Every sample is its own position in the data set, so a stream can be followed sample by sample."""
    y = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
    train = Labelled(torch.arange(len(y)).float().unsqueeze(1), y)
    return Source(train, Labelled(train.x[::4] + 1000, y[::4]), CLASSES)


def stream(**changes):
    values = {
        "seed": 0,
        "dataset": "numbered",
        "tasks": {"kind": "sequential", "count": 3},
        "partition": {"kind": "dirichlet", "scope": "task"},
        "clients": 4,
        "rounds_per_task": 2,
    }
    return TaskStream(parse_settings(StreamSettings, {**values, **changes}, "data_loader.settings"), numbered_source())


def seen(client, round_number):
    return torch.cat([batch["x"] for batch in client.train_batches(round_number)]).squeeze(1).long().tolist()


def test_tasks_are_consecutive_disjoint_groups_that_cover_all_classes():
    tasks = SequentialTasks(5, 10)
    assert [list(tasks.classes_of(task)) for task in range(5)] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize(("count", "classes"), [(3, 10), (20, 10), (7, 100)])
def test_classes_that_cannot_be_split_evenly_are_refused(count, classes):
    with pytest.raises(PlanError, match=rf"tasks\.count is {count}, but {classes} classes cannot be split"):
        SequentialTasks(count, classes)


def test_a_curriculum_is_a_fixed_order_of_the_same_tasks_whatever_the_seed():
    orders = [SequentialTasks(6, 12, curriculum=number).order for number in (1, 2)]
    assert orders == GOLDEN_CURRICULA
    whole = [stream(seed=seed, tasks={"kind": "sequential", "count": 6, "curriculum": 1}) for seed in (0, 1)]
    assert [list(one.tasks.classes_of(0)) for one in whole] == [[5], [5]]
    assert {label for batch in whole[0].client(0).train_batches(0) for label in batch["y"].tolist()} == {5}


def test_each_task_is_dealt_to_equal_shares_without_loss():
    whole = stream()
    for task in range(3):
        shares = [seen(whole.client(rank), 2 * task) for rank in range(4)]
        assert [len(share) for share in shares] == [20] * 4
        assert sorted(position for share in shares for position in share) == list(range(80 * task, 80 * task + 80))


def test_the_shares_of_a_seed_stay_as_published():
    whole = stream(clients=6)
    assert whole.share(2, 1).tolist()[:12] == GOLDEN_SHARE


def test_a_data_set_dealt_once_gives_unequal_tasks():
    whole = stream(partition={"kind": "dirichlet", "scope": "dataset"})
    sizes = [[len(whole.share(rank, task)) for task in range(3)] for rank in range(4)]
    assert [sum(of_client) for of_client in sizes] == [60] * 4
    assert len({size for of_client in sizes for size in of_client}) > 3


def test_at_its_own_pace_a_client_sees_a_fixed_number_of_samples_in_every_period():
    whole = stream(partition={"kind": "dirichlet", "scope": "dataset"}, asynchronous_samples=20)
    mixed = 0
    for rank in range(4):
        client = whole.client(rank)
        periods = [seen(client, 2 * period) for period in range(3)]
        assert [len(period) for period in periods] == [20, 20, 20]
        assert sorted(seen(client, 1)) == sorted(periods[0]), "all rounds of a period learn from the same samples"
        tasks = [position // 80 for period in periods for position in sorted(period)]
        assert tasks == sorted(tasks), "tasks come in order"
        assert len({position for period in periods for position in period}) == 60, "nothing comes twice"
        mixed += any(len({position // 80 for position in period}) > 1 for period in periods)
    assert mixed, "boundaries fall within periods"


def test_a_limit_leaves_the_tasks_of_clients_with_their_own_pace_unequally_long():
    dealt = {"partition": {"kind": "dirichlet", "scope": "dataset"}, "asynchronous_samples": 10}
    whole, limited = stream(**dealt), stream(**dealt, samples_per_client=10)
    for rank in range(4):
        sizes = [(len(whole.share(rank, task)), len(limited.share(rank, task))) for task in range(3)]
        assert all(after == math.ceil(before / 2) for before, after in sizes), "half of 60 samples, in every task"
    assert len({len(limited.share(rank, 0)) for rank in range(4)}) > 1


@pytest.mark.parametrize("scale", ["smoke", "paper"])
@pytest.mark.parametrize("seed", [0, 1])
def test_clients_of_the_asynchronous_study_reach_boundaries_at_different_times(scale, seed, tmp_path):
    y = torch.arange(50_000) % 100
    cifar = Source(Labelled(torch.zeros(50_000, 1), y), Labelled(torch.zeros(100, 1), y[:100]), 100)
    run = runs_of(load_study(plan_folder(), "asynchronous"), scale, seed + 1, plan_folder(), tmp_path)[-1]
    assert isinstance(run.plan.data, StreamSettings)
    whole = TaskStream(run.plan.data, cifar)
    assert whole.settings.seed == seed
    periods = [(period, whole.client(rank).samples_of(period)) for rank in range(10) for period in range(10)]
    assert all(sum(len(part) for _, part in parts) == whole.settings.asynchronous_samples for _, parts in periods)
    assert sum([task for task, _ in parts] == [period] for period, parts in periods) < 35, "of 100"
    assert sum(parts[-1][0] == 9 for period, parts in periods if period == 9) > 5, "most clients get to the last task"


def test_a_client_whose_samples_are_used_up_has_nothing_to_learn():
    whole = stream(partition={"kind": "dirichlet", "scope": "dataset"}, asynchronous_samples=40)
    assert [len(seen(whole.client(0), 2 * period)) for period in (0, 1)] == [40, 20]
    assert list(whole.client(0).train_batches(4)) == []


def test_clients_who_arrive_later_share_the_tasks_from_then_on():
    whole = stream(clients=6, arrivals={"first": 2, "then": 2})
    sizes = [[len(whole.share(rank, task)) for rank in range(6)] for task in range(3)]
    assert sizes == [[40, 40, 0, 0, 0, 0], [20, 20, 20, 20, 0, 0], [14, 14, 13, 13, 13, 13]]
    assert list(whole.client(5).train_batches(0)) == []


def test_limits_keep_a_fixed_part_of_every_share():
    whole, limited = stream(), stream(samples_per_client=7, test_samples=9)
    for task in range(3):
        shares = [set(limited.share(rank, task).tolist()) for rank in range(4)]
        assert [len(share) for share in shares] == [7] * 4
        assert all(share <= set(whole.share(rank, task).tolist()) for rank, share in enumerate(shares))
    for task in range(3):
        assert sum(len(list(limited.client(rank).test_sets())[task]) for rank in range(4)) == 9


def test_a_limited_share_of_a_changing_domain_keeps_its_samples():
    y = torch.arange(10).repeat(20)
    images = Source(Labelled(torch.zeros(200, 1, 4, 4, dtype=torch.uint8), y), Labelled(torch.zeros(0, 1), y[:0]), 10)
    values = {"seed": 0, "dataset": "x", "tasks": {"kind": "rotated", "count": 2}, "clients": 5, "rounds_per_task": 1}
    whole = TaskStream(parse_settings(StreamSettings, {**values, "samples_per_client": 6}, "settings"), images)
    assert torch.equal(whole.share(3, 0), whole.share(3, 1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"asynchronous_samples": 5}, r"asynchronous_samples needs partition\.scope: dataset"),
        ({"arrivals": {"first": 2, "then": 1}, "partition": {}}, r"arrivals needs partition\.scope: task"),
        ({"arrivals": {"first": 0, "then": 1}}, r"arrivals\.first must be at least 1, not 0"),
        ({"asynchronous_samples": 0}, r"asynchronous_samples must be at least 1, not 0"),
        ({"samples_per_client": 0}, r"samples_per_client must be at least 1, not 0"),
        ({"test_samples": -1}, r"test_samples must be at least 1, not -1"),
        ({"tasks": {"kind": "sequential", "count": 4}}, r"6 classes cannot be split into 4 equal groups"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, sentence):
    with pytest.raises(PlanError, match=sentence):
        stream(**changes)


@settings(max_examples=25, deadline=None)
@given(weights=st.integers(0, 10_000), clients=st.integers(1, 5), count=st.sampled_from([1, 2, 3, 6]))
def test_knowing_the_task_never_hurts(weights, clients, count):
    whole = stream(clients=clients, tasks={"kind": "sequential", "count": count}, partition={"kind": "dirichlet"})
    torch.manual_seed(weights)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    parts = [
        count_correct(partial(Classification().logits, model), whole.client(r).test_sets(), whole.tasks)
        for r in range(clients)
    ]
    if count == 1:
        assert set(parts[0].ratios) == {"domain_il"}
        return
    class_il, task_il = (
        torch.stack([part.ratios[kind] for part in parts]).sum(dim=0) for kind in ("class_il", "task_il")
    )
    assert (task_il[:, 0] >= class_il[:, 0]).all()
    assert torch.equal(task_il[:, 1], class_il[:, 1])
    assert int(class_il[:, 1].sum()) == CLASSES * PER_CLASS // 4, "all test data is counted once"
