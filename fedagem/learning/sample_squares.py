"""The squares of the gradients of single samples, layer by layer, with one pass through the network for all samples.

In evaluation mode samples do not meet in a network. The gradient of the sum of their losses at the output of a layer is
therefore each sample's own, and together with what the layer was given it makes the gradient of the layer's weights.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from fedagem.learning.flat_model import FlatModel

_IN_CACHE = 2**17
"""How many numbers of a gradient are squared at a time: they and their sums stay in a core's cache."""


def can_square(model: FlatModel) -> bool:
    """Whether all trained weights are those of layers that are known here."""
    known = {
        name
        for path, module in model.module.named_modules()
        if _is_known(module)
        for name, _ in module.named_parameters(path, recurse=False)
    }
    return model.windows.keys() <= known


@contextmanager
def squaring(model: FlatModel, squares: Tensor) -> Iterator[Callable[[Tensor], None]]:
    """Within it, run the network once in evaluation mode; the function that it gives takes the sum of the losses.

    It adds to `squares`, which is as long as the weights, the squares of every sample's gradient. The gradients of the
    model stay as they are.
    """
    entrance: list[Tensor] = []

    def enter(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        entrance[:] = [given[0].detach().requires_grad_()]  # the gradients go through all layers to get there
        return (entrance[0], *given[1:])

    def leave(path: str, layer: nn.Module, x: Tensor, out: Tensor) -> None:
        x = x.detach()

        def arrived(gradient: Tensor) -> None:
            for name, _ in layer.named_parameters(path, recurse=False):
                if name in model.windows:
                    _add(squares[model.windows[name]], layer, x, gradient, of_bias=name.endswith("bias"))

        out.register_hook(arrived)

    def backward(loss: Tensor) -> None:
        torch.autograd.grad(loss, entrance)

    hooks = [model.module.register_forward_pre_hook(enter)]
    hooks += [
        module.register_forward_hook(lambda layer, given, out, path=path: leave(path, layer, given[0], out))
        for path, module in model.module.named_modules()
        if _is_known(module)
    ]
    try:
        with torch.compiler.set_stance("force_eager"):  # a compiled network would not notice the hooks
            yield backward
    finally:
        for hook in hooks:
            hook.remove()


def _is_known(module: nn.Module) -> bool:
    if isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return isinstance(module, nn.Linear) or (isinstance(module, _BatchNorm) and module.running_mean is not None)


def _add(squares: Tensor, layer: nn.Module, x: Tensor, gradient: Tensor, of_bias: bool) -> None:
    """Add the squares of the gradients of a layer's weights or biases; the first dimension is that of the samples."""
    if isinstance(layer, nn.Linear):
        x, gradient = x.reshape(len(x), -1, x.shape[-1]), gradient.reshape(len(x), -1, gradient.shape[-1]).mT
    outputs = gradient.flatten(2)  # samples x outputs x places
    if of_bias:
        squares += outputs.sum(2).square().sum(0)
    elif isinstance(layer, _BatchNorm):
        squares += (outputs * _normal(layer, x.flatten(2))).sum(2).square().sum(0)
    elif isinstance(layer, nn.Conv2d):
        found = torch.zeros(len(layer.weight), *layer.kernel_size, layer.in_channels)
        _add_products(found.flatten(1), _patches(layer, x, gradient.shape[2:]), outputs)
        squares.view_as(layer.weight).add_(found.permute(0, 3, 1, 2))
    elif outputs.shape[2] == 1:
        squares.view_as(layer.weight).addmm_(outputs[..., 0].square().T, x[:, 0].square())  # type: ignore[arg-type]
    else:
        _add_products(squares.view_as(layer.weight), x, outputs)  # type: ignore[arg-type]


def _add_products(squares: Tensor, inputs: Tensor, outputs: Tensor) -> None:
    """Of a layer that is applied at many places: the gradient of a sample is a product of two matrices."""
    rows = max(1, _IN_CACHE // squares.shape[1])
    room = squares.new_empty(min(rows, len(squares)), squares.shape[1])
    for given, gradient in zip(inputs, outputs, strict=True):
        columns = given.reshape(gradient.shape[1], -1)
        for part, some in zip(squares.split(rows), gradient.split(rows), strict=True):
            product = torch.mm(some, columns, out=room[: len(part)])
            part.addcmul_(product, product)


def _patches(conv: nn.Conv2d, x: Tensor, places: torch.Size) -> Tensor:
    """What the kernel meets at each place: samples x places x kernel x channels, a view of a padded copy.

    With the channels last, a sample's part is copied ten times as fast as by `unfold`.
    """
    high, wide = (int(padding) for padding in conv.padding)
    padded = functional.pad(x, (wide, wide, high, high)).permute(0, 2, 3, 1).contiguous()
    sample, row, column, one = padded.stride()
    steps = (s * size for sizes in (conv.stride, conv.dilation) for s, size in zip(sizes, (row, column), strict=True))
    return padded.as_strided((len(x), *places, *conv.kernel_size, conv.in_channels), (sample, *steps, one))


def _normal(layer: _BatchNorm, x: Tensor) -> Tensor:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return (x - layer.running_mean[:, None]) / (layer.running_var + layer.eps).sqrt()[:, None]
