"""What a client's round costs with each method, as CPU seconds over FedAvg's: ResNet-18, 1,000 samples, one epoch.

The methods take turns of a few batches, so that a busy machine slows all alike. A turn's batches stand for those of a
whole round, beside what comes before the first and after the last, with the client's state on disk; the median of the
turns' ratios counts.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import torch
from torch import Tensor

from benchmarks.measurement import Measurement
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.client_state import ClientState, ClientStateStore, Moment
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner, Place
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fedcurv import FedCurv
from fedagem.learning.methods.fedprox import FedProx
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from fedagem.system import keep_freed_pages
from models.resnet_cifar import resnet18_cifar

_SAMPLES, _BATCH = 1000, 32
_TURNS, _BATCHES_PER_TURN = 7, 4


@dataclass(frozen=True)
class LocalSamples:
    """Random pictures, as good as any others for a clock."""

    batch: Batch

    def samples(self) -> Batch:
        return self.batch

    def surrogate(self) -> Batch | None:
        return None


@dataclass
class Client:
    """One client with a method of its own, and how long its rounds take."""

    name: str
    method: Method
    bound: float = math.inf
    """How many times as long as FedAvg's its round may take."""
    begin: Callable[[Learner], None] = lambda learner: None
    """Brings the client to where the method has something to do, such as a second task."""
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of a whole round, as each turn tells."""

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.model = FlatModel(resnet18_cifar())
        rng = torch.Generator().manual_seed(0)
        x = torch.randint(256, (_SAMPLES, 3, 32, 32), dtype=torch.uint8, generator=rng)
        self.data = LocalSamples({"x": x, "y": torch.randint(10, (_SAMPLES,), generator=rng)})
        self.state = ClientState(ReplayBuffer(0))
        self.received: dict[str, Tensor] = {
            one.name: torch.zeros(one.shape) for one in self.method.exchanges(self.model)
        }
        self.begin(self._learner(0))

    def turn(self, number: int, folder: Path) -> None:
        """A short round, its parts timed, with the state saved as the task runner does."""
        store = ClientStateStore(folder / self.name, lambda: ReplayBuffer(0), "benchmark")
        optimizer = torch.optim.SGD([self.model.weights], lr=1e-4)
        marks = [time.process_time()]
        report = client_update(self._learner(number), self._batches(marks), self.method, optimizer)
        if self.state.kept:
            store.save(self.state, Moment(number))
        marks.append(time.process_time())
        self.received |= report.published
        before, *batches, after = (later - earlier for earlier, later in pairwise(marks))
        self.seconds.append(before + _SAMPLES / _BATCH * mean(batches) + after)

    def _batches(self, marks: list[float]) -> Iterator[Batch]:
        everything = self.data.samples()
        for start in range(0, _BATCHES_PER_TURN * _BATCH, _BATCH):
            marks.append(time.process_time())
            yield {name: values[start : start + _BATCH] for name, values in everything.items()}
        marks.append(time.process_time())

    def _learner(self, number: int) -> Learner:
        return Learner(
            self.model,
            Classification(),
            self.state.buffer,
            torch.Generator().manual_seed(number),
            kept=self.state.kept,
            received=self.received,
            data=self.data,
            place=Place(round_number=number),
        )


def main() -> None:
    """Measure and print the ratios."""
    torch.set_num_threads(1)
    keep_freed_pages()
    plain = Client("fedavg", FedAvg())
    others = [Client("fedprox", FedProx(), bound=1.05), Client("fedcurv", FedCurv(fisher_samples=200), bound=1.35)]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(_TURNS):
            for client in (plain, *others):
                client.turn(number, Path(folder))
            print(f"turn {number + 1} of {_TURNS}", flush=True)
    print(f"fedavg: {median(plain.seconds):.1f} CPU seconds a round")
    for client in others:
        ratios = sorted(own / base for own, base in zip(client.seconds, plain.seconds, strict=True))
        ratio = median(ratios)
        print(f"{client.name}: {_TURNS} turns, {ratios[0]:.3f} to {ratios[-1]:.3f}")
        Measurement(f"{client.name} / FedAvg, a client's round of ResNet-18", ratio, "x", client.bound).show()


if __name__ == "__main__":
    main()
