"""Exemplars: the samples of each class whose mean feature is nearest to that of all, chosen by herding.

At the end of a task they become the client's buffer: as many of each class that the client has seen, in the order in
which herding chose them, so that the first ones are the best ones to keep when more classes come.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.learner import Learner

_CHUNK = 512
"""How many samples go through the network at once."""


def keep_exemplars(learner: Learner) -> None:
    """Make room for the classes of the finished task: shorten the lists of the others, and herd a list for each."""
    assert learner.data is not None
    kept, new = learner.buffer.contents(), learner.data.samples()
    old = _by_class(kept) if kept else []
    seen = len(old) + len(_by_class(new))
    if seen == 0:
        return
    length = learner.buffer.capacity // seen
    if length == 0:
        raise PlanError(
            f"task_runner.settings.buffer.capacity is {learner.buffer.capacity}, but a client has seen {seen} classes "
            f"and keeps equally many exemplars of each: use at least {seen}."
        )
    lists = [{name: values[members[:length]] for name, values in kept.items()} for members in old]
    lists.append(
        {name: values.to(learner.buffer.device) for name, values in exemplars_of(learner, new, length).items()}
    )
    learner.buffer.fill({name: torch.cat([one[name] for one in lists]) for name in ("x", "y")})


def exemplars_of(learner: Learner, samples: Batch, length: int) -> Batch:
    """At most `length` exemplars of each class, class by class."""
    f = features(learner, samples).cpu()
    chosen = [members[herd(f[members], length)] for members in _by_class(samples)]
    order = torch.cat(chosen) if chosen else torch.zeros(0, dtype=torch.int64)
    return {name: samples[name][order] for name in ("x", "y")}


def herd(f: Tensor, count: int) -> Tensor:
    """The positions of at most `count` samples, none twice: each brings the mean of the chosen nearest to that of all.

    The first m of a longer list are the list of length m.
    """
    mean, total = f.mean(dim=0), torch.zeros_like(f[0])
    taken = torch.zeros(len(f), dtype=torch.bool, device=f.device)
    chosen: list[Tensor] = []
    for k in range(1, min(count, len(f)) + 1):
        distances = (mean - (f + total) / k).norm(dim=1).masked_fill(taken, torch.inf)
        best = distances.argmin()
        taken[best] = True
        total = total + f[best]
        chosen.append(best)
    return torch.stack(chosen)


@torch.no_grad()
def features(learner: Learner, samples: Batch) -> Tensor:
    """The L2-normalised inputs of the network's head, one row per sample, in evaluation mode and without augmentation.

    They are caught at the last Linear layer. A compiled network would not notice that somebody listens there, so it
    computes as it was written.
    """
    module = learner.model.module
    caught: list[Tensor] = []
    handle = head_of(module).register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].flatten(1).float()))
    compiled = module._compiled_call_impl is not None
    try:
        with evaluating(module), torch.compiler.set_stance("force_eager") if compiled else nullcontext():
            for start in range(0, len(samples["x"]), _CHUNK):
                learner.logits(learner.to_device({"x": samples["x"][start : start + _CHUNK]}))
    finally:
        handle.remove()
    return functional.normalize(torch.cat(caught), dim=1) if caught else torch.empty(0, device=learner.device)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Run a block with a network in evaluation mode, and put it back into its own."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def head_of(module: nn.Module) -> nn.Linear:
    """The layer that makes one score per class of a sample's features: the last Linear one."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise PlanError(
            "task_runner.settings.method looks at the features before the last nn.Linear layer, but the network of "
            "task_runner.settings.model has none."
        )
    return layers[-1]


def _by_class(samples: Batch) -> list[Tensor]:
    """The positions of the samples of each class."""
    return [torch.nonzero(samples["y"] == label).squeeze(1) for label in samples["y"].unique()]
