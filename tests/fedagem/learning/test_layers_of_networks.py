"""The layers of a network as matrices: their inputs, their place in the flat vector, and what cannot be protected."""

import pytest
import torch
from torch import nn

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.layers import freeze_batch_norm, layers_of, protected_layers, visit_inputs
from fedagem.learning.learner import CurrentTask, Learner
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar
from models.text_head import TextHead


def make_learner(module, task=0, sequential=False):
    learner = Learner(FlatModel(module), Classification(), ReplayBuffer(0), torch.Generator().manual_seed(0))
    learner.task = CurrentTask(task, range(10), (), sequential)
    return learner


def images(count, channels=3, size=16):
    generator = torch.Generator().manual_seed(count)
    x = torch.rand(count, channels, size, size, generator=generator)
    return {"x": x, "y": torch.randint(10, (count,), generator=generator)}


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (nn.Linear(7, 5), torch.rand(4, 7)),
        (nn.Linear(7, 5, bias=False), torch.rand(4, 3, 7)),
        (nn.Conv2d(3, 6, 3, padding=1), torch.rand(4, 3, 9, 9)),
        (nn.Conv2d(3, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(2, 1), bias=False), torch.rand(4, 3, 11, 9)),
        (nn.Conv2d(2, 6, 1, stride=2), torch.rand(4, 2, 8, 8)),
    ],
)
def test_a_layer_multiplies_its_inputs_by_its_matrix(module, x):
    [layer] = layers_of(FlatModel(module))
    weight, bias = layer.parts(FlatModel(module).weights.detach())
    matrix = weight if bias is None else torch.cat([weight, bias.unsqueeze(1)], dim=1)
    columns = layer.columns(x)
    assert columns.shape[0] == layer.inner == matrix.shape[1]
    y = module(x)
    expected = y.transpose(0, 1).flatten(1) if isinstance(module, nn.Conv2d) else y.reshape(-1, 5).T
    torch.testing.assert_close(matrix @ columns, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("network", [SmallCNN(), resnet18_cifar(width=4), TextHead(8)])
def test_the_windows_are_those_of_the_parameters(network):
    model = FlatModel(network)
    named = dict(network.named_parameters())
    layers = layers_of(model)
    assert [layer.module for layer in layers] == [
        module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)
    ]
    for layer in layers:
        weight, bias = layer.parts(model.weights.detach())
        weight.add_(1)
        assert torch.equal(named[layer.name].flatten(1), weight)
        own = layer.module.bias
        assert torch.equal(bias, own) if bias is not None and own is not None else bias is own


def test_frozen_layers_are_nobodys_concern():
    network = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2))
    assert [layer.name for layer in layers_of(FlatModel(network))] == ["1.weight"]


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            nn.Sequential(nn.Conv2d(4, 4, 3, groups=2)),
            r"the layer 0 is Conv2d\(.*groups=2.*needs a Conv2d with one group",
        ),
        (nn.Sequential(nn.Conv2d(4, 4, 3, padding="same")), "the layer 0 is .* padded by a number of zeros"),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), "the network trains 1.bias, but the method can only protect"),
    ],
)
def test_what_cannot_be_protected_is_refused(network, sentence):
    with pytest.raises(PlanError, match=sentence):
        layers_of(FlatModel(network))


@pytest.mark.parametrize(
    ("sequential", "head", "expected"),
    [(False, None, 4), (True, None, 3), (False, False, 3), (True, True, 4)],
)
def test_the_head_is_protected_unless_tasks_bring_classes(sequential, head, expected):
    assert len(protected_layers(make_learner(SmallCNN(), sequential=sequential), head)) == expected


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_every_layer_is_shown_all_samples(compiled):
    """Also of a network that was compiled before: it would go on without the hooks."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 10))
    learner = make_learner(network)
    samples = images(70)
    if compiled:
        network.compile(backend="eager")
        with torch.no_grad():
            learner.logits(samples)
    layers = layers_of(learner.model)
    seen: dict[str, list[torch.Tensor]] = {layer.name: [] for layer in layers}
    visit_inputs(learner, layers, samples, lambda layer, columns: seen[layer.name].append(columns))
    convolution, linear = (torch.cat(seen[layer.name], dim=1) for layer in layers)
    assert convolution.shape == (3 * 9 + 1, 70 * 14 * 14)
    expected = network[0](samples["x"]).relu().flatten(1).T
    torch.testing.assert_close(linear[:-1], expected)
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_batch_norm_learns_in_the_first_task_only():
    learner = make_learner(resnet18_cifar(width=4))
    norms = [module for module in learner.model.module.modules() if isinstance(module, nn.BatchNorm2d)]

    def step(task):
        learner.task = CurrentTask(task, range(10), (), False)
        learner.model.module.train()
        freeze_batch_norm(learner)
        before = [tensor.clone() for norm in norms for tensor in norm.state_dict().values()]
        view = images(8)
        learner.backward(learner.losses(learner.logits(view), view))
        torch.optim.SGD([learner.model.weights], lr=0.1).step()
        after = [tensor for norm in norms for tensor in norm.state_dict().values()]
        return [torch.equal(one, other) for one, other in zip(before, after, strict=True)]

    assert not any(step(0))
    assert all(step(1))
    assert learner.gradient.any(), "the other layers go on learning"
    assert not any(step(0)), "another client of the process may be in its first task"
