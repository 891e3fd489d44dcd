"""Images from a gradient: what went into the first linear layer, and then which image gives that.

If the layers cannot be taken apart, images and labels are searched whose gradient points the same way, as in Deep
Leakage from Gradients (Zhu et al. 2019), with the cosine and the total variation of Geiping et al. (2020).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedagem.audit.decomposition import inputs_of
from fedagem.learning.flat_model import FlatModel

_STEPS = 400
_MATCHING_STEPS = 200
_VARIATION = 1e-3


def images_from(
    model: FlatModel, gradient: Tensor, samples: int, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor:
    """Images in [0, 1] that somebody who knows the model finds in a gradient of at most so many samples.

    Any vector of the right length is taken; of one that is no gradient, what comes out is noise.
    """
    with _still(model.module):
        features = _linear_inputs(model, gradient, samples, generator)
        if len(features):
            return _images_with(model.module, features.float(), shape)
        return _matching_images(model, gradient.float(), samples, shape, generator)


@contextmanager
def _still(module: nn.Module) -> Iterator[None]:
    """Without dropout and batch statistics; nobody else's gradients are touched."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def _first_linear(module: nn.Module) -> tuple[str, nn.Linear] | None:
    return next(((name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)), None)


def _linear_inputs(model: FlatModel, gradient: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """What went into the first linear layer, if it has a bias and a ReLU behind it; nothing otherwise."""
    found = _first_linear(model.module)
    if found is None or found[1].bias is None:
        return gradient.new_zeros(0, 1)
    name, layer = found
    weight, bias = (gradient[model.windows[f"{name}.{part}"]] for part in ("weight", "bias"))
    inputs = inputs_of(weight.view_as(layer.weight), bias, samples, generator)
    return inputs[torch.isfinite(inputs).all(dim=1)]


def _features(module: nn.Module, images: Tensor) -> Tensor:
    """What goes into the first linear layer."""
    found = _first_linear(module)
    assert found is not None
    seen: list[Tensor] = []
    hook = found[1].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        module(images)
    finally:
        hook.remove()
    return seen[0]


def _images_with(module: nn.Module, wanted: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Images whose features are the wanted ones."""
    raw = torch.zeros(len(wanted), *shape, requires_grad=True)
    sizes = wanted.square().sum(dim=1).clamp_min(1e-12)
    optimizer = torch.optim.Adam([raw], lr=0.1)
    for step in range(_STEPS):
        if step == _STEPS // 2:
            optimizer.param_groups[0]["lr"] = 0.03
        images = torch.sigmoid(raw)
        errors = (_features(module, images) - wanted).square().sum(dim=1) / sizes
        (raw.grad,) = torch.autograd.grad(errors.sum() + _VARIATION * _variation(images), [raw])
        optimizer.step()
    return torch.sigmoid(raw).detach()


def _variation(images: Tensor) -> Tensor:
    across, down = images.diff(dim=-1).abs().mean(dim=(1, 2, 3)), images.diff(dim=-2).abs().mean(dim=(1, 2, 3))
    return (across + down).sum()


def _matching_images(
    model: FlatModel, gradient: Tensor, samples: int, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor:
    """Images and labels whose gradient points the same way as the given one."""
    parameters = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    raw = (0.1 * torch.randn(samples, *shape, generator=generator)).requires_grad_()
    with torch.no_grad():
        classes = model.module(torch.sigmoid(raw)).shape[1]
    labels = torch.zeros(samples, classes, requires_grad=True)
    optimizer = torch.optim.Adam([raw, labels], lr=0.1)
    for _ in range(_MATCHING_STEPS):
        images = torch.sigmoid(raw)
        loss = functional.cross_entropy(model.module(images), labels.softmax(dim=1))
        own = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, parameters, create_graph=True)])
        distance = 1 - functional.cosine_similarity(own, gradient, dim=0) + _VARIATION * _variation(images) / samples
        raw.grad, labels.grad = torch.autograd.grad(distance, [raw, labels])
        optimizer.step()
    return torch.sigmoid(raw).detach()
