"""A federation in memory whose clients have quadratic losses, so that what a method does can be worked out by hand.

Client k has the loss 1/2 sum a_k (w - b)², averaged over its samples b; what clients send is added up as by an
aggregator.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedagem.aggregation.ring import Accumulator, Encoding
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner, Place
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Objective
from fedagem.seeding import derive_generator


class Point(nn.Module):
    """A model that is its weights: a point in the plane, the same for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.w.expand(len(x), -1)


class Quadratic(Objective):
    """The squared distance to each sample, weighted by curvature."""

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        at: Tensor = model(batch["x"])
        return at

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"quadratic": (batch["a"] * (logits - batch["x"]).square()).sum(dim=1).mean() / 2}


@dataclass(frozen=True)
class QuadraticData:
    """Two samples on either side of the client's optimum, as far as a likelihood of this curvature has them."""

    curvature: Tensor
    optimum: Tensor

    def samples(self) -> Batch:
        spread = self.curvature.rsqrt()
        return {"x": torch.stack([self.optimum - spread, self.optimum + spread]), "a": self.curvature.expand(2, -1)}

    def surrogate(self) -> Batch | None:
        return None


@dataclass
class QuadraticFederation:
    """All clients take part in every round, with all of their samples in every step."""

    method: Method
    clients: list[QuadraticData]
    steps: int = 60
    lr: float = 0.4
    weights: Tensor = field(default_factory=lambda: torch.zeros(2))
    round: int = 0
    locals: list[Tensor] = field(default_factory=list)
    """The clients' models after the last round."""

    def __post_init__(self) -> None:
        self.model = FlatModel(Point())
        self.exchanges = self.method.exchanges(self.model)
        self.server = self.method.server_side(self.exchanges)
        self.kept: list[dict[str, Any]] = [{} for _ in self.clients]

    def run(self, rounds: int) -> "QuadraticFederation":
        for _ in range(rounds):
            self.step()
        return self

    def step(self, taking_part: list[int] | None = None) -> None:
        """One round of everybody, or of some of the clients."""
        sums = {
            one.name: Accumulator(one.shape, np.float32, Encoding.of(np.float32, one.bound, len(self.clients)))
            for one in self.exchanges
        }
        self.locals = []
        for rank in range(len(self.clients)) if taking_part is None else taking_part:
            published = self.client_round(rank)
            self.locals.append(self.model.weights.detach().clone())
            for name, tensor in published.items():
                sums[name].add(tensor.numpy())
        self.weights = torch.stack(self.locals).mean(dim=0)
        self.server.take("train", {name: total.decode() for name, total in sums.items()})
        self.round += 1

    def client_round(self, rank: int) -> dict[str, Tensor]:
        """What one client does in a round; its model is then in `model`."""
        learner = self.learner(rank)
        batches = ({**learner.data.samples()} for _ in range(self.steps)) if learner.data else iter(())
        optimizer = torch.optim.SGD([self.model.weights], lr=self.lr)
        return client_update(learner, batches, self.method, optimizer).published

    def learner(self, rank: int) -> Learner:
        with torch.no_grad():
            self.model.weights.copy_(self.weights)
        return Learner(
            self.model,
            Quadratic(),
            ReplayBuffer(0),
            derive_generator(0, rank, self.round),
            kept=self.kept[rank],
            received={name: torch.from_numpy(array) for name, array in self.server.offers().items()},
            data=self.clients[rank],
            place=Place(rank, len(self.clients), self.round),
        )

    def excess(self) -> float:
        """How far the loss of all clients together is above its minimum."""
        a = torch.stack([client.curvature for client in self.clients])
        b = torch.stack([client.optimum for client in self.clients])
        best = (a * b).sum(dim=0) / a.sum(dim=0)
        return float((a.sum(dim=0) * (self.weights - best).square()).sum() / 2)


def two_clients() -> list[QuadraticData]:
    """Each is sure of one coordinate, in which the other one hardly cares."""
    return [
        QuadraticData(torch.tensor([2.0, 0.25]), torch.tensor([0.5, -0.5])),
        QuadraticData(torch.tensor([0.25, 2.0]), torch.tensor([-0.5, 0.5])),
    ]
