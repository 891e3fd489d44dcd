"""A flat model is the ordinary model: same outputs, same gradients, same steps, in one tensor."""

import copy

import pytest
import torch
from torch import nn

from fedagem.learning.flat_model import FlatModel
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar


def flat(parameters):
    return torch.cat([p.reshape(-1) for p in parameters])


def loss_of(module, x, y):
    return nn.functional.cross_entropy(module(x), y)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    plain = SmallCNN().eval()
    return plain, FlatModel(copy.deepcopy(plain))


def test_backward_fills_the_flat_gradient(pair):
    plain, wrapped = pair
    x, y = torch.rand(6, 1, 28, 28), torch.arange(6)
    loss_of(wrapped.module, x, y).backward()
    expected = torch.autograd.grad(loss_of(plain, x, y), list(plain.parameters()))
    assert torch.equal(wrapped.gradient, flat(expected))
    assert wrapped.gradient.abs().sum() > 0


def test_parameters_and_gradients_are_views(pair):
    _, wrapped = pair
    with torch.no_grad():
        wrapped.weights.fill_(0.5)
    wrapped.gradient.fill_(2)
    for parameter in wrapped.module.parameters():
        assert (parameter == 0.5).all()
        assert (parameter.grad == 2).all()
    assert wrapped.weights.grad is wrapped.gradient
    assert wrapped.size == sum(p.numel() for p in wrapped.module.parameters()) == 21_840


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 5e-4}])
def test_sgd_on_the_flat_weights_is_sgd_on_the_model(pair, options):
    plain, wrapped = pair
    ordinary = torch.optim.SGD(plain.parameters(), lr=0.1, **options)
    on_flat = torch.optim.SGD([wrapped.weights], lr=0.1, **options)
    for step in range(4):
        x = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(step))
        y = torch.arange(5)
        ordinary.zero_grad()
        loss_of(plain, x, y).backward()
        ordinary.step()
        wrapped.gradient.zero_()
        loss_of(wrapped.module, x, y).backward()
        on_flat.step()
    torch.testing.assert_close(wrapped.weights.detach(), flat(plain.parameters()).detach(), rtol=0, atol=1e-7)


def test_a_loaded_state_lands_in_the_flat_weights(pair):
    _, wrapped = pair
    other = SmallCNN()
    wrapped.load_state_dict(other.state_dict())
    assert torch.equal(wrapped.weights.detach(), flat(other.parameters()).detach())
    with pytest.raises(RuntimeError, match="size mismatch"):
        wrapped.load_state_dict(SmallCNN(classes=3).state_dict())


def test_batch_norm_statistics_belong_to_the_state_but_not_to_the_weights():
    wrapped = FlatModel(resnet18_cifar())
    names = {name for name, _ in wrapped.module.named_buffers()}
    assert names <= wrapped.state_dict().keys()
    assert wrapped.size == sum(p.numel() for p in wrapped.module.parameters())


def test_frozen_parameters_stay_out():
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    assert FlatModel(module).size == 10


@pytest.mark.parametrize("module", [nn.ReLU(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())])
def test_refuses_models_without_one_kind_of_parameter(module):
    with pytest.raises(ValueError, match="all of one dtype"):
        FlatModel(module)
