"""What GPM costs on top of FedAvg after its second task: a client's round of ResNet-18 on 1,000 images of CIFAR-10.

Both start from the network that has learned two tasks, and take turns batch by batch, so that a busy machine slows both
alike; the median of seven groups of batches counts. What the end of a task takes, once in many rounds, is printed
besides, and how much arithmetic the projection needs. CIFAR-10 is read from the folder `cifar10`
in the data folder (FEDAGEM_DATA), or from the folder that is given.
"""

import argparse
import copy
import time
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpm_permuted_mnist import TaskData
from benchmarks.measurement import Measurement
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.gpm import GPM
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from fedagem.seeding import derive_generator, seeded_torch
from fedagem.tasks.sources import Labelled, load_source
from models.resnet_cifar import resnet18_cifar

_SAMPLES, _BATCH, _LR = 1_000, 32, 0.1
_GROUPS = 7


def main() -> None:
    """Learn two tasks, then measure a round of the third."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("root", nargs="?", help="the folder that has CIFAR-10")
    source = load_source("cifar10", options.parse_args().root).train
    torch.set_num_threads(1)
    with seeded_torch(0, "model"):
        module = resnet18_cifar()
    protected = _learner(module)
    gpm, fedavg = GPM(threshold=0.965, first_threshold=0.965, samples=100), FedAvg()
    for task in range(2):
        samples = _begin_task(protected, source, task)
        seconds = sum(_step(protected, gpm, batch) for batch in _batches(samples))
        began = time.process_time()
        gpm.end_task(protected)
        ended = time.process_time() - began
        ranks = {name: tuple(basis.shape) for name, basis in protected.kept["bases"].items()}
        print(f"task {task}: {seconds:.0f} CPU s of training, {ended:.0f} of its end; inputs and rank of each layer:")
        print("  " + ", ".join(f"{name.removesuffix('.weight')} {d}/{r}" for name, (d, r) in ranks.items()), flush=True)
    plain = _learner(copy.deepcopy(module).requires_grad_(True))  # FedAvg goes on training BatchNorm
    batches = _batches(_begin_task(protected, source, 2))
    more = _arithmetic(protected, gpm, batches[0]) / _arithmetic(plain, fedavg, batches[0])
    pairs = [(_step(plain, fedavg, batch), _step(protected, gpm, batch)) for batch in batches]
    ratios = []
    for group in (pairs[start::_GROUPS] for start in range(_GROUPS)):
        base, own = (sum(seconds) for seconds in zip(*group, strict=True))
        ratios.append(own / base)
    base, own = (sum(seconds) for seconds in zip(*pairs, strict=True))
    print(f"a round: {base:.1f} CPU s of FedAvg, {own:.1f} of GPM; GPM needs {more:.2f} times the arithmetic")
    print(f"{_GROUPS} groups of alternating batches: {min(ratios):.3f} to {max(ratios):.3f}")
    Measurement("GPM after its second task / FedAvg, a client's round of ResNet-18", median(ratios), "x", 1.15).show()


def _arithmetic(learner: Learner, method: Method, batch: Batch) -> int:
    """Operations of a batch, as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        _step(learner, method, batch)
    return int(counter.get_total_flops())


def _learner(module: torch.nn.Module) -> Learner:
    return Learner(FlatModel(module), Classification(), ReplayBuffer(0), derive_generator(0, "client"))


def _begin_task(learner: Learner, source: Labelled, task: int) -> Batch:
    """Two classes for each task, as in sequential CIFAR-10."""
    members = torch.nonzero(source.y // 2 == task)[:, 0]
    chosen = source[members[torch.randperm(len(members), generator=learner.generator)[:_SAMPLES]]]
    samples = {"x": chosen.x, "y": chosen.y}
    learner.task = CurrentTask(task, range(2 * task, 2 * task + 2), tuple(range(2 * task)), sequential=True)
    learner.data = TaskData(samples)
    return samples


def _batches(samples: Batch) -> list[Batch]:
    parts = {name: values.split(_BATCH) for name, values in samples.items()}
    return [dict(zip(parts, some, strict=True)) for some in zip(*parts.values(), strict=True)]


def _step(learner: Learner, method: Method, batch: Batch) -> float:
    optimizer = torch.optim.SGD([learner.model.weights], lr=_LR)
    began = time.process_time()
    client_update(learner, [batch], method, optimizer)
    return time.process_time() - began


if __name__ == "__main__":
    main()
