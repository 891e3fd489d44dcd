"""Task streams: what each client sees in each round, and the test data that all of them share."""

import pytest
import torch
from torchvision.io import encode_png

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


def test_the_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    bunch, source = load_digits(), load_source("digits")
    held_out = torch.arange(len(bunch.target)) % 5 == 4
    assert torch.equal(source.test.y, torch.from_numpy(bunch.target)[held_out])
    small = torch.from_numpy(bunch.images).float().unsqueeze(1) / 16
    large = torch.nn.functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    assert torch.equal(source.train.x, (large * 255).round().to(torch.uint8)[~held_out])


def firsts(client, round_number, **missed):
    """How many samples of each epoch the client is given for the first time."""
    flags = torch.cat([batch["first"] for batch in client.train_batches(round_number, **missed)])
    assert flags.dtype == torch.bool
    return [int(epoch.sum()) for epoch in flags.chunk(2)]


@pytest.mark.parametrize("asynchronous", [None, 20])
def test_a_sample_is_new_in_the_first_epoch_of_the_first_round_of_its_task(asynchronous):
    client = stream(epochs=2, asynchronous_samples=asynchronous, partition={"kind": "dirichlet"}).client(0)
    size = asynchronous or 40
    assert [firsts(client, number) for number in range(4)] == [[size, 0], [0, 0], [size, 0], [0, 0]]


def test_to_a_client_that_has_missed_rounds_a_sample_is_new_in_its_first_round_of_the_task():
    client = stream(epochs=2, rounds_per_task=4).client(0)
    assert firsts(client, 6, missed=2) == [40, 0], "it last trained in round 3"
    assert firsts(client, 6, missed=1) == [0, 0], "it trained in round 4"
    assert firsts(client, 2, missed=2) == [40, 0], "it has never trained"


def test_the_samples_of_a_task_are_those_of_its_rounds():
    whole = stream(tasks={"kind": "permuted", "count": 3})
    assert [whole.task_of(number) for number in range(6)] == [0, 0, 1, 1, 2, 2]
    for task in range(3):
        samples = whole.client(2).task_samples(task)
        batches = list(whole.client(2).train_batches(2 * task + 1))
        x, y = (torch.cat([batch[name] for batch in batches]) for name in ("x", "y"))
        assert set(samples) == {"x", "y"}
        assert rows(samples["x"], samples["y"]) == rows(x, y)


def test_only_groups_of_classes_are_sequential():
    kinds = ("rotated", "permuted", "sequential")
    assert [stream(tasks={"kind": kind, "count": 2}).tasks.sequential for kind in kinds] == [False, False, True]


def test_surrogate_images_are_dealt_to_all_clients_without_labels(tmp_path):
    write_images(tmp_path, size=8)
    wanted = {"dataset": "image_folder", "root": str(tmp_path)}
    train, test = (
        Labelled(part.x.expand(-1, 3, -1, -1), part.y) for part in (small_source().train, small_source().test)
    )
    own = Source(train, test, classes=10)

    def shares_of(**changes):
        whole = TaskStream(settings(surrogate=wanted, **changes), own)
        shares = [whole.client(rank).surrogate() or {} for rank in range(5)]
        assert all(set(share) == {"x"} for share in shares)
        return [share["x"] for share in shares]

    shares = shares_of()
    assert [len(share) for share in shares] == [3, 3, 2, 2, 2]
    shades = [int(image[0, 0, 0]) for share in shares for image in share]
    assert sorted(shades) == list(range(12)), "all of them, each once"
    assert shades != sorted(shades), "shuffled"
    assert all(torch.equal(one, other) for one, other in zip(shares, shares_of(), strict=True))
    assert not torch.equal(torch.cat(shares_of(seed=1)), torch.cat(shares))


def test_without_surrogate_images_there_are_none():
    assert stream().client(0).surrogate() is None


def test_surrogate_images_of_another_shape_are_refused(tmp_path):
    write_images(tmp_path, size=9)
    whole = stream(surrogate={"dataset": "image_folder", "root": str(tmp_path)})
    with pytest.raises(DataError, match=r"surrogate \(image_folder\) has samples of shape \(3, 9, 9\), but digits has"):
        whole.client(0).surrogate()


def write_images(root, size):
    """Twelve training images, each of one shade, and one for testing."""
    for split, count in (("train", 12), ("test", 1)):
        (root / split / "shades").mkdir(parents=True)
        for shade in range(count):
            image = torch.full((3, size, size), shade, dtype=torch.uint8)
            (root / split / "shades" / f"{shade:02}.png").write_bytes(encode_png(image).numpy().tobytes())


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
        (
            {"partition": {"kind": "dirichlet_over_clients"}, "clients": 30},
            r"30 clients at least 10 of 200 samples each",
        ),
        ({"surrogate": {"root": "cifar10"}}, r"data_loader\.settings\.surrogate\.dataset is missing"),
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
