"""The diagonal Fisher information against a loop over single samples."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.fisher import diagonal_fisher
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.objective import Classification
from fedagem.learning.sample_squares import can_square
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar


def residual():
    """With statistics that are not those of a fresh network."""
    network = resnet18_cifar(width=4).train()
    with torch.no_grad():
        network(torch.rand(8, 3, 16, 16))
    return network


def partly_frozen():
    network = SmallCNN()
    next(network.parameters()).requires_grad_(False)
    return network


class Unusual(nn.Module):
    """A convolution with steps, gaps and a border of its own, and a Linear layer at many places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, (3, 2), stride=(2, 3), padding=(1, 2), dilation=(2, 1))
        self.places = nn.Linear(11, 6)
        self.last = nn.Linear(4 * 13 * 6, 10)

    def forward(self, x):
        return self.last(torch.relu(self.places(torch.relu(self.conv(x)))).flatten(1))


class OfItsOwn(nn.Module):
    """A weight outside of all known layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(28 * 28))
        self.last = nn.Linear(28 * 28, 10)

    def forward(self, x):
        return self.last(x.flatten(1) * self.scale)


NETWORKS = {
    "dropout": (SmallCNN, (1, 28, 28)),
    "BatchNorm": (residual, (3, 16, 16)),
    "frozen": (partly_frozen, (1, 28, 28)),
    "unusual": (Unusual, (1, 28, 28)),
    "own weights": (OfItsOwn, (1, 28, 28)),
}


@pytest.fixture(params=NETWORKS)
def case(request):
    network, shape = NETWORKS[request.param]
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(3)
    learner = Learner(FlatModel(network()), Classification(), ReplayBuffer(0), rng)
    x = torch.randint(0, 256, (7, *shape), dtype=torch.uint8, generator=rng)
    return learner, {"x": x, "y": torch.randint(0, 10, (7,), generator=rng)}


def one_by_one(module: nn.Module, samples):
    """The definition, on a copy of the network."""
    module = copy.deepcopy(module).eval()
    trained = [p for p in module.parameters() if p.requires_grad]
    total = torch.zeros(sum(p.numel() for p in trained))
    for x, y in zip(samples["x"], samples["y"], strict=True):
        likelihood = functional.log_softmax(module(x[None].float() / 255), dim=1)[0, y]
        total += torch.cat([g.reshape(-1) for g in torch.autograd.grad(likelihood, trained)]).square()
    return total / len(samples["x"])


@pytest.mark.parametrize("together", [1, 2, 3, 7, 100, None])
def test_it_is_the_mean_square_of_single_samples_gradients_however_many_are_worked_on_together(case, together):
    learner, samples = case
    expected = one_by_one(learner.model.module, samples)
    assert expected.max() > 1e-3
    torch.testing.assert_close(diagonal_fisher(learner, samples, together), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("network", "by_layer"), [(residual, True), (Unusual, True), (OfItsOwn, False)])
def test_known_layers_square_their_own_gradients(network, by_layer):
    assert can_square(FlatModel(network())) == by_layer


def test_it_is_not_the_square_of_the_batch_gradient(case):
    """The mistake of several public versions, smaller by up to the number of samples."""
    learner, samples = case
    learner.model.module.eval()
    learner.backward(learner.losses(learner.logits(samples), samples))
    assert diagonal_fisher(learner, samples).sum() > 1.5 * learner.gradient.square().sum()


def test_the_model_stays_as_it_is(case):
    learner, samples = case
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    gradient = learner.gradient.clone()
    diagonal_fisher(learner, samples, 3)
    diagonal_fisher(learner, samples, 1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.model.state_dict().items())
    assert torch.equal(learner.gradient, gradient)


def test_no_samples_hold_no_weight(case):
    learner, samples = case
    nothing = diagonal_fisher(learner, {name: values[:0] for name, values in samples.items()})
    assert torch.equal(nothing, torch.zeros(learner.model.size))


def test_it_is_computed_in_single_precision_also_if_the_network_trains_in_bfloat16(case):
    learner, samples = case
    exact = diagonal_fisher(learner, samples)
    learner.bf16 = True
    assert torch.equal(diagonal_fisher(learner, samples), exact)
