"""Task streams: what each client sees in each round, and the test data that all of them share."""

import pytest
import torch

from fedagem.errors import DataError, PlanError
from fedagem.settings import parse_settings
from fedagem.tasks.settings import StreamSettings
from fedagem.tasks.sources import Labelled, Source, load_source
from fedagem.tasks.stream import TaskStream
from fedagem.tasks.tasks import PermutedTasks, RotatedTasks

IMAGES = torch.randint(0, 256, (9, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
GOLDEN_ANGLES = [144.5561, 149.7936, 170.7747]


def small_source(train=200, test=53):
    rng = torch.Generator().manual_seed(1)
    x = torch.randint(0, 256, (train + test, 1, 8, 8), dtype=torch.uint8, generator=rng)
    y = torch.arange(train + test) % 10
    return Source(Labelled(x[:train], y[:train]), Labelled(x[train:], y[train:]), classes=10)


def settings(**changes):
    values = {
        "seed": 0,
        "dataset": "digits",
        "tasks": {"kind": "rotated", "count": 3},
        "clients": 5,
        "rounds_per_task": 2,
        "batch_size": 7,
    }
    return parse_settings(StreamSettings, {**values, **changes}, "data_loader.settings")


def stream(**changes):
    return TaskStream(settings(**changes), small_source())


def rows(x, y):
    return sorted(zip(x.flatten(1).tolist(), y.tolist(), strict=True))


@pytest.mark.parametrize("tasks", [RotatedTasks(3, 10, seed=5), PermutedTasks(3, 10, seed=5)], ids=type)
def test_a_whole_batch_is_changed_like_each_image(tasks):
    for task in range(3):
        whole = tasks.inputs(IMAGES, task)
        assert whole.dtype == torch.uint8
        assert whole.shape == IMAGES.shape
        each = torch.cat([tasks.inputs(image.unsqueeze(0), task) for image in IMAGES])
        assert torch.equal(whole, each)


@pytest.mark.parametrize("kind", [RotatedTasks, PermutedTasks])
def test_tasks_differ_and_follow_from_the_seed(kind):
    tasks = kind(4, 10, seed=1)
    pictures = [tasks.inputs(IMAGES, task) for task in range(4)]
    assert all(not torch.equal(pictures[i], pictures[j]) for i in range(4) for j in range(i))
    assert torch.equal(kind(4, 10, seed=1).inputs(IMAGES, 2), pictures[2])
    assert not torch.equal(kind(4, 10, seed=2).inputs(IMAGES, 2), pictures[2])


def test_angles_are_within_range_and_stay_as_published():
    assert all(0 <= angle <= 90 for angle in RotatedTasks(200, 10, 3, max_angle=90).angles)
    assert RotatedTasks(3, 10, seed=0).angles == pytest.approx(GOLDEN_ANGLES, abs=1e-3)


def test_a_rotation_turns_the_picture():
    tasks = RotatedTasks(1, 10, seed=0)
    tasks.angles = [90.0]
    assert torch.equal(tasks.inputs(IMAGES, 0), IMAGES.rot90(1, (2, 3)))


def test_a_permutation_moves_every_pixel_once():
    moved = PermutedTasks(1, 10, seed=0).inputs(torch.arange(64).view(1, 1, 8, 8), 0)
    assert sorted(moved.flatten().tolist()) == list(range(64))


def test_an_empty_share_is_no_trouble():
    for tasks in (RotatedTasks(2, 10, 0), PermutedTasks(2, 10, 0)):
        assert len(tasks.inputs(IMAGES[:0], 1)) == 0


@pytest.mark.parametrize("kind", ["rotated", "permuted"])
def test_an_epoch_shows_every_sample_of_every_client_once(kind):
    whole = stream(tasks={"kind": kind, "count": 3})
    source = small_source()
    for round_number, task in ((0, 0), (1, 0), (4, 2)):
        seen = [batch for rank in range(5) for batch in whole.client(rank).train_batches(round_number)]
        assert all(len(batch["x"]) <= 7 for batch in seen)
        x, y = torch.cat([batch["x"] for batch in seen]), torch.cat([batch["y"] for batch in seen])
        assert rows(x, y) == rows(whole.tasks.inputs(source.train.x, task), source.train.y)


def test_every_client_has_two_classes():
    whole = stream()
    for rank in range(5):
        labels = torch.cat([batch["y"] for batch in whole.client(rank).train_batches(0)])
        assert len(labels.unique()) == 2


def test_the_test_data_of_all_clients_make_the_whole():
    whole, source = stream(clients=4, partition={"classes_per_client": 3}), small_source()
    parts = [list(whole.client(rank).test_sets()) for rank in range(4)]
    for task in range(3):
        x = torch.cat([part[task].x for part in parts])
        y = torch.cat([part[task].y for part in parts])
        assert rows(x, y) == rows(whole.tasks.inputs(source.test.x, task), source.test.y)


def test_more_clients_than_test_samples():
    whole = stream(clients=60)
    assert sum(len(next(whole.client(rank).test_sets())) for rank in range(60)) == 53


def order(client, round_number):
    return torch.cat([batch["x"] for batch in client.train_batches(round_number)])


def test_a_round_repeats_exactly_and_rounds_are_shuffled_differently():
    client = stream().client(1)
    first = order(client, 0)
    second = order(client, 1)
    later_task = order(client, 2)
    assert torch.equal(order(client, 0), first), "also after another task was looked at"
    assert torch.equal(order(stream().client(1), 0), first)
    assert not torch.equal(second, first)
    assert sorted(second.flatten(1).tolist()) == sorted(first.flatten(1).tolist())
    assert not torch.equal(later_task, first)


def test_epochs_are_shuffled_differently():
    client = stream(epochs=2).client(0)
    labels = torch.cat([batch["x"].flatten(1).sum(1) for batch in client.train_batches(0)])
    half = len(labels) // 2
    assert labels[:half].tolist() != labels[half:].tolist()
    assert sorted(labels[:half].tolist()) == sorted(labels[half:].tolist())


def test_digits_are_real_pictures_that_need_no_download():
    source = load_source("digits")
    assert source.train.x.dtype == torch.uint8
    assert source.train.x.shape == (1438, 1, 28, 28)
    assert (len(source.test), source.classes) == (359, 10)
    assert source.train.x.max() == 255
    assert torch.bincount(source.test.y).min() > 20


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clients": 0}, r"data_loader\.settings\.clients must be at least 1, not 0"),
        ({"rounds_per_task": 0}, r"rounds_per_task must be at least 1"),
        ({"batch_size": -1}, r"batch_size must be at least 1, not -1"),
        ({"epochs": 0}, r"epochs must be at least 1"),
        ({"tasks": {"kind": "rotated", "count": 0}}, r"tasks\.count must be at least 1"),
        ({"partition": {"kind": "dirichlet", "alpha": 0}}, r"alpha must be positive"),
        ({"clients": 2}, r"2 clients with 2 classes each cannot share 10 classes"),
        ({"partition": {"classes_per_client": 11}}, r"5 clients with 11 classes each cannot share"),
        ({"partition": {"classes_per_client": 0}}, r"5 clients with 0 classes each cannot share"),
        ({"partition": {"classes_per_client": -2}}, r"5 clients with -2 classes each cannot share"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, sentence):
    with pytest.raises(PlanError, match=sentence):
        stream(**change)


@pytest.mark.parametrize("rank", [-1, 5])
def test_a_rank_that_is_no_client_is_refused(rank):
    with pytest.raises(PlanError, match=rf"client rank {rank} is not in 0\.\.4"):
        stream().client(rank)


def test_an_unknown_data_set_is_refused_with_the_nearest_name():
    with pytest.raises(DataError, match=r"there is no data set 'digit'; did you mean digits"):
        load_source("digit")
