"""What Fed-A-GEM costs on top of FedAvg: one client update of ResNet-18 at batch 32, with and without.

The two variants take turns batch by batch, so that a busy machine slows both alike. The buffer gradient of the round
is included, spread over the batches of a round of the paper's CIFAR setting (10 clients, 5 epochs).
"""

import statistics
import time

import torch

from benchmarks.measurement import Measurement
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import Refinement, buffer_gradient
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.objective import Classification
from models.resnet_cifar import resnet18_cifar

_TURNS = 20
_BATCHES_PER_ROUND = 5 * (50_000 // 10 // 10) // 32
"""E epochs over one client's share of one of ten tasks."""


def main() -> None:
    """Measure and print the ratio."""
    generator = torch.Generator().manual_seed(0)
    model = FlatModel(resnet18_cifar())
    learner = Learner(model, Classification(), ReplayBuffer(200), generator)
    optimizer = torch.optim.SGD([model.weights], lr=1e-4)
    g_ref = -torch.randn(model.size, generator=generator)
    seconds: dict[str, list[float]] = {"plain": [], "refined": [], "buffer_gradient": []}
    _timed_update(learner, optimizer, None, g_ref)
    for _ in range(_TURNS):
        seconds["plain"].append(_timed_update(learner, optimizer, None, g_ref))
        seconds["refined"].append(_timed_update(learner, optimizer, Refinement(when="always"), g_ref))
        began = time.perf_counter()
        buffer_gradient(learner, 32)
        seconds["buffer_gradient"].append(time.perf_counter() - began)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    with_fedagem = median["refined"] + median["buffer_gradient"] / _BATCHES_PER_ROUND
    Measurement("Fed-A-GEM / FedAvg, ResNet-18 client update", with_fedagem / median["plain"], "x", 1.03).show()
    projection = median["refined"] / median["plain"]
    Measurement("projection alone / FedAvg, every batch projected", projection, "x", 1.03).show()


def _timed_update(
    learner: Learner, optimizer: torch.optim.Optimizer, refinement: Refinement | None, g_ref: torch.Tensor
) -> float:
    batch: Batch = {
        "x": torch.randint(256, (32, 3, 32, 32), dtype=torch.uint8, generator=learner.generator),
        "y": torch.randint(10, (32,), generator=learner.generator),
    }
    began = time.perf_counter()
    client_update(learner, [batch], FedAvg(), optimizer, refinement, g_ref)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
