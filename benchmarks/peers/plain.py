"""FedAvg of the small CNN in bare PyTorch: some clients in this process, a round for each line of input.

Imports nothing of this project but the network, so that other environments can use its loop, too.
"""

import ctypes
import sys
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.mnist_cnn import SmallCNN

BATCH, RATE = 32, 0.01
DONE = "round done"
"""What is printed after every round."""


class Samples(TypedDict):
    """A client's images as bytes, and their labels."""

    x: Tensor
    y: Tensor


def use_one_thread() -> None:
    """The settings of a worker of `fedagem simulate`: one thread, and freed memory is kept for the next batch."""
    torch.set_num_threads(1)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 0)
        mallopt(-1, -1)


def train(model: nn.Module, samples: Samples) -> None:
    """One epoch of SGD, eagerly."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for chosen in torch.randperm(len(samples["y"])).split(BATCH):
        x, y = samples["x"][chosen].float().div_(255), samples["y"][chosen]
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def serve(path: str, ranks: range) -> None:
    """Train the clients one after the other, each from the model of the round before; print the end of each round."""
    use_one_thread()
    clients: list[Samples] = [client for rank, client in enumerate(torch.load(path)) if rank in ranks]
    model = SmallCNN()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in sys.stdin:
        total = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        for client in clients:
            model.load_state_dict(start)
            train(model, client)
            for name, tensor in model.state_dict().items():
                total[name] += tensor
        start = {name: tensor / len(clients) for name, tensor in total.items()}
        print(DONE, flush=True)
