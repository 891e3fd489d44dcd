"""The diagonal of the Fisher information: how sharply each weight of a model is held by a client's data."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner
from fedagem.learning.sample_squares import can_square, squaring

_BATCH = 32
"""How many samples go through the network together if its layers square the gradients."""
_ROOM = 2**27
"""How many numbers the whole gradients of the samples that are worked on together may have: 512 MB."""


def diagonal_fisher(learner: Learner, samples: Batch, together: int | None = None) -> Tensor:
    """The mean over samples of the squared gradient of log p(y|x; w), each sample's own; leaves the model in eval.

    It is always computed in single precision. `together` is how many samples are worked on at a time.
    """
    learner.model.module.eval()
    fisher, count = torch.zeros_like(learner.gradient), len(samples["x"])
    by_layer = learner.device.type == "cpu" and can_square(learner.model)
    together = together or (_BATCH if by_layer else max(1, _ROOM // learner.model.size))
    for start in range(0, count, together):
        part = {name: values[start : start + together] for name, values in samples.items()}
        (_add_squares_by_layer if by_layer else _add_squares)(learner, part, fisher)
    return fisher.div_(max(count, 1))


def _add_squares_by_layer(learner: Learner, samples: Batch, fisher: Tensor) -> None:
    """On a processor, which is slow with one sample at a time: samples share the passes through the network."""
    with squaring(learner.model, fisher) as backward:
        backward(_loss(learner, learner.model.module, samples) * len(samples["x"]))


def _add_squares(learner: Learner, samples: Batch, fisher: Tensor) -> None:
    """For any network and device: whole gradients, one for each sample."""
    module, named = learner.model.module, dict(learner.model.module.named_parameters())
    weights = {name: named[name].detach() for name in learner.model.windows}

    def loss(weights: dict[str, Tensor], sample: Batch) -> Tensor:
        def network(x: Tensor) -> Tensor:
            return cast(Tensor, functional_call(module, weights, (x,)))

        return _loss(learner, cast(nn.Module, network), {name: value[None] for name, value in sample.items()})

    for name, gradients in vmap(grad(loss), in_dims=(None, 0))(weights, samples).items():
        squares = fisher[learner.model.windows[name]].view(gradients.shape[1:])
        for gradient in gradients:
            squares.addcmul_(gradient, gradient)


def _loss(learner: Learner, network: nn.Module, view: Batch) -> Tensor:
    terms = learner.losses(learner.objective.logits(network, view), view)
    return torch.stack(list(terms.values())).sum()
