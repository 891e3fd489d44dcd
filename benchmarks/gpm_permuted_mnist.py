"""GPM alone on permuted MNIST, as in its paper: one client, an MLP without biases, ten permutations.

Its authors report an accuracy of 93.9 % and a backward transfer of -0.03. MNIST is read from the folder `mnist` in the
data folder (FEDAGEM_DATA), or from the folder that is given; `--tasks 2` is a quick look.
"""

import argparse
import json
import time
from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.measurement import Measurement
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner
from fedagem.learning.methods import METHODS
from fedagem.learning.objective import Classification
from fedagem.seeding import derive_generator, seeded_torch
from fedagem.tasks.sources import Labelled, load_source
from fedagem.tasks.tasks import PermutedTasks

_EPOCHS, _BATCH, _LR = 5, 10, 0.01
_HELD_OUT = 6_000
"""The authors keep a tenth of the training samples for validation."""
_MEAN, _DEVIATION = 0.1307, 0.3081
"""Of all pixels, by which the authors normalise."""


class TaskData:
    """The samples of the current task."""

    def __init__(self, samples: Batch) -> None:
        self._samples = samples

    def samples(self) -> Batch:
        return self._samples

    def surrogate(self) -> Batch | None:
        return None


def main() -> None:
    """Learn the tasks one after the other, and print the accuracies on all of them after each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("root", nargs="?", help="the folder that has MNIST")
    options.add_argument("--tasks", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--method", choices=["gpm", "fedavg"], default="gpm")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    source = load_source("mnist", chosen.root)
    kept = torch.randperm(len(source.train), generator=derive_generator(chosen.seed, "held out"))[_HELD_OUT:]
    tasks = PermutedTasks(chosen.tasks, source.classes, chosen.seed)
    learner = _learner(chosen.seed)
    settings = {"first_threshold": 0.95, "threshold": 0.99, "samples": 300} if chosen.method == "gpm" else {}
    method = METHODS[chosen.method](**settings)
    accuracies: list[list[float]] = []
    for task in range(chosen.tasks):
        began = time.process_time()
        train = _inputs(source.train[kept], tasks, task)
        learner.task = CurrentTask(task, range(source.classes), (), sequential=False)
        learner.data = TaskData(train)
        optimizer = torch.optim.SGD([learner.model.weights], lr=_LR)
        client_update(learner, _batches(train, learner.generator), method, optimizer)
        method.end_task(learner)
        accuracies.append([_accuracy(learner, _inputs(source.test, tasks, seen)) for seen in range(task + 1)])
        ranks = [basis.shape[1] for basis in learner.kept.get("bases", {}).values()]
        shown = " ".join(f"{accuracy:.2f}" for accuracy in accuracies[-1])
        print(f"task {task}, {time.process_time() - began:.0f} CPU s, ranks {ranks}: {shown}", flush=True)
    print(json.dumps({"method": chosen.method, "seed": chosen.seed, "accuracies": accuracies}))
    last = accuracies[-1]
    transfer = [last[task] - accuracies[task][task] for task in range(chosen.tasks - 1)]
    name = f"{chosen.method} on {chosen.tasks} permutations of MNIST"
    Measurement(f"{name}: accuracy", sum(last) / len(last), "%", 92.9, at_least=True).show()
    Measurement(
        f"{name}: backward transfer", sum(transfer) / 100 / max(len(transfer), 1), "", -0.04, at_least=True
    ).show()


def _learner(seed: int) -> Learner:
    with seeded_torch(seed, "model"):
        network = nn.Sequential(
            nn.Flatten(),
            nn.Linear(784, 100, bias=False),
            nn.ReLU(),
            nn.Linear(100, 100, bias=False),
            nn.ReLU(),
            nn.Linear(100, 10, bias=False),
        )
    return Learner(FlatModel(network), Classification(), ReplayBuffer(0), derive_generator(seed, "client"))


def _inputs(data: Labelled, tasks: PermutedTasks, task: int) -> Batch:
    return {"x": (tasks.inputs(data.x, task).float() / 255 - _MEAN) / _DEVIATION, "y": data.y}


def _batches(samples: Batch, generator: torch.Generator) -> Iterator[Batch]:
    for _ in range(_EPOCHS):
        for part in torch.randperm(len(samples["x"]), generator=generator).split(_BATCH):
            yield {name: values[part] for name, values in samples.items()}


@torch.no_grad()
def _accuracy(learner: Learner, samples: Batch) -> float:
    learner.model.module.eval()
    right = learner.logits(samples).argmax(dim=1) == samples["y"]
    return 100 * float(right.float().mean())


if __name__ == "__main__":
    main()
