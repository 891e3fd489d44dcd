"""The Linear and Conv2d layers of a network, each as one matrix [W b] that multiplies its inputs [x; 1]."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner

_BATCH = 32
"""How many samples are looked at together; a part of the arithmetic, as sums depend on it in their last bit."""


@dataclass(frozen=True)
class Layer:
    """A layer and its place in the flat vectors of the model."""

    name: str
    """That of its weight among the model's parameters."""
    module: nn.Linear | nn.Conv2d
    weight: slice
    bias: slice | None

    @property
    def inner(self) -> int:
        """How many numbers the layer multiplies: the rows of its inputs."""
        return self.module.weight[0].numel() + (self.bias is not None)

    def parts(self, flat: Tensor) -> tuple[Tensor, Tensor | None]:
        """W and b of a flat vector, weights or gradient, as views."""
        weight = flat[self.weight].view(len(self.module.weight), -1)
        return weight, None if self.bias is None else flat[self.bias]

    def columns(self, x: Tensor) -> Tensor:
        """The inputs of a batch, one column for each time that the layer's matrix is applied."""
        if isinstance(self.module, nn.Conv2d):
            conv = self.module
            patches = functional.unfold(x, conv.kernel_size, conv.dilation, conv.padding, conv.stride)  # type: ignore[arg-type]
            columns = patches.transpose(0, 1).flatten(1)
        else:
            columns = x.reshape(-1, x.shape[-1]).T
        return columns if self.bias is None else torch.cat([columns, columns.new_ones(1, columns.shape[1])])


def layers_of(model: FlatModel) -> list[Layer]:
    """The layers in the order of the network; refuses what cannot be protected by its inputs' subspace."""
    found, known = [], set()
    for path, module in model.module.named_modules():
        weight, bias = (f"{path}.{part}" if path else part for part in ("weight", "bias"))
        if isinstance(module, _BatchNorm):
            known |= {weight, bias}
        elif isinstance(module, nn.Linear | nn.Conv2d) and weight in model.windows:
            _check_plain(path, module)
            found.append(Layer(weight, module, model.windows[weight], model.windows.get(bias)))
            known |= {weight, bias}
    if other := sorted(model.windows.keys() - known):
        raise PlanError(
            f"the network trains {other[0]}, but the method can only protect Linear and Conv2d layers and freeze "
            "BatchNorm: choose another task_runner.settings.model or method."
        )
    return found


def protected_layers(learner: Learner, head: bool | None = None) -> list[Layer]:
    """All layers, or all but the last; if nobody says, the last one unless tasks bring classes of their own."""
    assert learner.task is not None
    layers = layers_of(learner.model)
    return layers if (not learner.task.sequential if head is None else head) else layers[:-1]


def visit_inputs(learner: Learner, layers: list[Layer], samples: Batch, visit: Callable[[Layer, Tensor], None]) -> None:
    """Show `visit` what each layer gets to see of the samples, batch by batch; the network is in evaluation mode."""
    learner.model.module.eval()
    hooks = [
        layer.module.register_forward_pre_hook(lambda _, given, layer=layer: visit(layer, layer.columns(given[0])))
        for layer in layers
    ]
    try:
        # A compiled network would not notice the hooks.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            for start in range(0, len(samples["x"]), _BATCH):
                part = {name: values[start : start + _BATCH] for name, values in samples.items()}
                learner.logits(learner.to_device(part))
    finally:
        for hook in hooks:
            hook.remove()


def has_batch_norm(model: FlatModel) -> bool:
    """Whether the network normalises by statistics of the batch."""
    return any(isinstance(module, _BatchNorm) for module in model.module.modules())


def freeze_batch_norm(learner: Learner) -> None:
    """From the second task on, let BatchNorm neither learn scale and shift nor follow the batches' statistics."""
    assert learner.task is not None
    model, frozen = learner.model, learner.task.index > 0
    for path, module in model.module.named_modules():
        if isinstance(module, _BatchNorm):
            module.train(not frozen)
            for name, parameter in module.named_parameters(path, recurse=False):
                parameter.requires_grad_(not frozen and name in model.windows)


def _check_plain(path: str, module: nn.Linear | nn.Conv2d) -> None:
    if not isinstance(module, nn.Conv2d):
        return
    if module.groups > 1 or module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise PlanError(
            f"the layer {path} is {module}, but the method needs a Conv2d with one group that is padded by a number "
            "of zeros: choose another task_runner.settings.model or method."
        )
