"""What Fed-A-GEM costs on top of FedAvg, which keeps no buffer: CPU seconds of a client's round.

With the small CNN, whole rounds of 6,000 samples take turns. With ResNet-18 a round takes minutes, so they take turns
batch by batch, and what comes once in a round (the buffer gradient, and saving the client's state) is spread over the
batches of a round of the paper's CIFAR setting (10 clients, 5 epochs).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

from benchmarks.measurement import Measurement
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.client_state import ClientState, ClientStateStore, Moment
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import G_REF, FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from fedagem.system import keep_freed_pages
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar

_BATCH, _CAPACITY = 32, 200
_MNIST_BATCHES = -(-6000 // _BATCH)
_CIFAR_BATCHES = 5 * -(-(50_000 // 10 // 10) // _BATCH)
"""E epochs over one client's share of one of ten tasks."""


class Client:
    """One client with a method of its own, and its state on disk."""

    def __init__(self, method: Method, network: Callable[[], nn.Module], shape: tuple[int, ...], folder: Path) -> None:
        torch.manual_seed(0)
        self.method, self._shape = method, shape
        self._model = FlatModel(network())
        self._optimizer = torch.optim.SGD([self._model.weights], lr=1e-4)
        self._state = ClientState(ReplayBuffer(_CAPACITY if method.uses_buffer else 0))
        self._store = ClientStateStore(folder, lambda: self._state.buffer, "benchmark")
        self._g_ref = torch.randn(self._model.size)
        self._rounds = 0

    def train(self, batches: int) -> tuple[float, float]:
        """CPU seconds of a batch, and of what comes before the first and after the last of them."""
        rng = torch.Generator().manual_seed(0)
        made: list[Batch] = [
            {
                "x": torch.randint(256, (_BATCH, *self._shape), dtype=torch.uint8, generator=rng),
                "y": torch.randint(10, (_BATCH,), generator=rng),
            }
            for _ in range(batches)
        ]
        marks = [time.process_time()]

        def taken() -> Iterator[Batch]:
            for batch in made:
                marks.append(time.process_time())
                yield batch
            marks.append(time.process_time())

        client_update(self._learner(), taken(), self.method, self._optimizer)
        around = marks[1] - marks[0] + time.process_time() - marks[-1]
        return (marks[-1] - marks[1]) / batches, around

    def once_a_round(self) -> float:
        """CPU seconds of what a round has besides its batches."""
        self._rounds += 1
        began = time.process_time()
        self.method.buffer_gradient(self._learner())
        if self._state.buffer.capacity:
            self._store.save(self._state, Moment(self._rounds))
        return time.process_time() - began

    def _learner(self) -> Learner:
        generator = torch.Generator().manual_seed(0)
        return Learner(
            self._model, Classification(), self._state.buffer, generator, received={G_REF: self._g_ref.clone()}
        )


def main() -> None:
    """Measure and print the ratios."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=9)
    pairs = options.parse_args().pairs
    torch.set_num_threads(1)
    keep_freed_pages()
    _compare("small CNN", SmallCNN, (1, 28, 28), (_MNIST_BATCHES, _MNIST_BATCHES), pairs, bound=1.06)
    _compare("ResNet-18", resnet18_cifar, (3, 32, 32), (_CIFAR_BATCHES, 1), pairs, bound=1.02)


def _compare(
    name: str,
    network: Callable[[], nn.Module],
    shape: tuple[int, ...],
    batches: tuple[int, int],
    pairs: int,
    bound: float,
) -> None:
    """`batches` of a round, and how many of them each takes in its turn."""
    of_round, of_turn = batches
    with tempfile.TemporaryDirectory() as folder:
        plain = Client(FedAvg(), network, shape, Path(folder) / "plain")
        refined = Client(FedAGEM(FedAvg()), network, shape, Path(folder) / "refined")
        for client in (plain, refined):
            client.train(of_turn)
            client.once_a_round()
        ratios, began = [], time.monotonic()
        for pair in range(pairs):
            order = (plain, refined) if pair % 2 == 0 else (refined, plain)
            whole = {}
            for client in order:
                batch, around = client.train(of_turn)
                whole[client] = of_round * batch + around + client.once_a_round()
            ratios.append(whole[refined] / whole[plain])
            print(f"pair {pair + 1} of {pairs}: {whole[plain]:.2f} and {whole[refined]:.2f} CPU s", flush=True)
    print(f"{statistics.median(ratios):.3f}; {time.monotonic() - began:.0f} s of wall time")
    Measurement.median(f"Fed-A-GEM over FedAvg, a client's round of {name}", ratios, "x", bound).show()


if __name__ == "__main__":
    main()
