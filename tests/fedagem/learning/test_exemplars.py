"""Herding, the features that it looks at, and the lists of exemplars that a client keeps."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.exemplars import features, head_of, herd, keep_exemplars
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar
from models.text_head import TextHead
from tests.support.small_federation import TaskData


def generator(seed):
    return torch.Generator().manual_seed(seed)


def points(count, seed, size=5):
    return functional.normalize(torch.randn(count, size, generator=generator(seed)), dim=1)


def make_learner(samples=None, capacity=20, module=None):
    torch.manual_seed(0)
    model = FlatModel(module or nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 8)))
    data = TaskData(samples or {"x": torch.zeros(0, 6), "y": torch.zeros(0, dtype=torch.int64)}, None)
    return Learner(model, Classification(), ReplayBuffer(capacity), generator(1), data=data)


def of_classes(*labels, each=10, seed=0):
    y = torch.tensor(labels).repeat_interleave(each)
    order = torch.randperm(len(y), generator=generator(seed))
    return {"x": torch.rand(len(y), 6, generator=generator(seed + 1)), "y": y[order]}


def test_the_first_exemplar_is_nearest_to_the_mean_of_the_class():
    for seed in range(20):
        f = points(30, seed)
        assert herd(f, 3)[0] == (f - f.mean(dim=0)).norm(dim=1).argmin()


def test_each_exemplar_brings_the_mean_nearest():
    f = points(12, 3).double()
    chosen: list[int] = []
    for _ in range(7):
        free = [i for i in range(len(f)) if i not in chosen]
        chosen.append(min(free, key=lambda i: float((f.mean(dim=0) - f[[*chosen, i]].mean(dim=0)).norm())))
    assert herd(f, 7).tolist() == chosen


@given(st.integers(1, 30), st.integers(1, 35), st.integers(0, 1000))
def test_no_sample_is_chosen_twice_and_a_short_list_is_the_beginning_of_a_long_one(available, wanted, seed):
    f = points(available, seed)
    f[available // 2 :] = f[0]  # equal samples are different samples, too
    chosen = herd(f, wanted).tolist()
    assert len(chosen) == len(set(chosen)) == min(available, wanted)
    assert herd(f, (wanted + 1) // 2).tolist() == chosen[: (wanted + 1) // 2]


def test_herding_represents_a_class_better_than_a_random_choice():
    f = points(200, 7, size=20)
    error = (f[herd(f, 10)].mean(dim=0) - f.mean(dim=0)).norm()
    random = torch.stack([(f[torch.randperm(200)[:10]].mean(dim=0) - f.mean(dim=0)).norm() for _ in range(50)])
    assert error < 0.5 * random.min()


def images(count, channels, side):
    return {"x": torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=generator(4))}


@pytest.mark.parametrize(
    ("module", "batch"),
    [(resnet18_cifar(10, 4), images(7, 3, 16)), (SmallCNN(), images(7, 1, 28))],
    ids=["resnet", "dropout"],
)
def test_features_are_the_normalised_inputs_of_the_last_layer_in_evaluation_mode(module, batch):
    learner = make_learner(module=copy.deepcopy(module).train())
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    found = features(learner, batch)
    head = head_of(learner.model.module)
    plain = copy.deepcopy(learner.model.module).eval()
    torch.testing.assert_close(found.norm(dim=1), torch.ones(7))
    answers = plain(batch["x"].float() / 255)
    lengths = _lengths(plain, batch)
    torch.testing.assert_close(functional.linear(found * lengths, head.weight, head.bias), answers)
    assert learner.model.module.training, "the mode of the network is what it was"
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.model.state_dict().items())


def _lengths(plain, batch):
    """How long the features are before they are normalised."""
    caught = []
    head_of(plain).register_forward_hook(lambda _, inputs, __: caught.append(inputs[0]))
    plain(batch["x"].float() / 255)
    return caught[0].norm(dim=1, keepdim=True)


def test_of_a_single_layer_the_features_are_the_inputs():
    learner = make_learner(module=TextHead(6, 3))
    x = torch.rand(4, 6)
    torch.testing.assert_close(features(learner, {"x": x}), functional.normalize(x, dim=1))


def test_features_do_not_depend_on_how_many_are_asked_for_at_once():
    learner = make_learner()
    x = torch.rand(1100, 6)
    torch.testing.assert_close(features(learner, {"x": x})[700:], features(learner, {"x": x[700:]}))


def test_a_compiled_network_shows_its_features_too():
    learner, batch = make_learner(module=SmallCNN().eval()), images(5, 1, 28)
    expected = features(learner, batch)
    learner.model.module.compile(backend="eager")
    with torch.no_grad():
        learner.logits(batch)  # compiled for evaluation, while nobody listens
    torch.testing.assert_close(features(learner, batch), expected)


def test_a_network_without_a_linear_layer_is_refused():
    with pytest.raises(PlanError, match=r"the last nn\.Linear layer, but the network of task_runner\.settings\.model"):
        head_of(nn.Sequential(nn.Conv2d(1, 10, 3), nn.AdaptiveAvgPool2d(1)))


def counts(learner):
    labels, number = learner.buffer.contents()["y"].unique(return_counts=True)
    return dict(zip(labels.tolist(), number.tolist(), strict=True))


def test_each_class_that_the_client_has_seen_gets_an_equal_part_of_the_buffer():
    learner = make_learner(of_classes(0, 1), capacity=13)
    keep_exemplars(learner)
    assert counts(learner) == {0: 6, 1: 6}
    first = learner.buffer.contents()
    learner.data = TaskData(of_classes(5, seed=9), None)
    keep_exemplars(learner)
    assert counts(learner) == {0: 4, 1: 4, 5: 4}
    for label in (0, 1):
        long, short = (content["x"][content["y"] == label] for content in (first, learner.buffer.contents()))
        assert torch.equal(short, long[:4]), "a list is cut to its beginning, in its order"


def test_new_exemplars_are_herded_within_their_class():
    samples = of_classes(2, 3)
    learner = make_learner(samples, capacity=6)
    keep_exemplars(learner)
    kept = learner.buffer.contents()
    for label in (2, 3):
        members = samples["x"][samples["y"] == label]
        expected = members[herd(features(learner, {"x": members}), 3)]
        assert torch.equal(kept["x"][kept["y"] == label], expected)


def test_a_class_with_few_samples_keeps_all_of_them():
    few = {"x": torch.rand(3, 6), "y": torch.tensor([4, 4, 7])}
    learner = make_learner(few, capacity=20)
    keep_exemplars(learner)
    assert counts(learner) == {4: 2, 7: 1}


def test_a_client_without_data_of_the_task_keeps_what_it_has():
    learner = make_learner(of_classes(0, 1), capacity=8)
    keep_exemplars(learner)
    before = {name: values.clone() for name, values in learner.buffer.contents().items()}
    learner.data = TaskData({"x": torch.zeros(0, 6), "y": torch.zeros(0, dtype=torch.int64)}, None)
    keep_exemplars(learner)
    assert all(torch.equal(before[name], values) for name, values in learner.buffer.contents().items())


def test_a_client_that_never_had_data_keeps_nothing():
    learner = make_learner()
    keep_exemplars(learner)
    assert len(learner.buffer) == 0
    assert learner.buffer.contents() == {}


def test_a_buffer_without_room_for_every_class_is_refused():
    with pytest.raises(PlanError, match=r"buffer\.capacity is 2, but a client has seen 3 classes .* use at least 3\."):
        keep_exemplars(make_learner(of_classes(0, 1, 2), capacity=2))
