"""A client in its second task, for tests of what a method does with one batch there."""

import torch
from torch import nn

from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner, Place
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification
from tests.support.small_federation import TaskData, small_network

SIDE, CLASSES = 4, 6
OLD, NEW = (0, 1), range(2, 4)
"""The classes of the first task and of the second; two more are to come."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int, seed: int, labels: tuple[int, ...] = (2, 3), side: int = SIDE) -> Batch:
    rng = generator(seed)
    x = torch.randint(0, 256, (count, 1, side, side), dtype=torch.uint8, generator=rng)
    return {"x": x, "y": torch.tensor(labels)[torch.randint(0, len(labels), (count,), generator=rng)]}


def first_task_client(capacity: int = 20) -> Learner:
    """Before any task has ended: no teacher, nothing kept."""
    torch.manual_seed(0)
    return Learner(
        FlatModel(small_network(CLASSES, SIDE)),
        Classification(),
        ReplayBuffer(capacity),
        generator(1),
        task=CurrentTask(0, range(2), (), sequential=True),
        data=TaskData(images(40, 11, OLD), {"x": images(30, 13)["x"]}),
    )


def second_task_client(exemplars: int = 10, capacity: int = 20) -> Learner:
    """With a teacher that is another network, and exemplars of the first task's classes."""
    learner = first_task_client(capacity)
    if exemplars:
        learner.buffer.fill(images(exemplars, 7, OLD))
    learner.task = CurrentTask(1, NEW, OLD, sequential=True)
    learner.data = TaskData(images(40, 12), {"x": images(30, 13)["x"]})
    learner.place = Place(rank=0, clients=5, round_number=3, seed=1)
    torch.manual_seed(99)
    learner.teacher = small_network(CLASSES, SIDE).requires_grad_(False).eval()
    return learner


def next_replay(learner: Learner, count: int) -> Batch:
    """What the learner will draw from its buffer next, without drawing it."""
    twin = torch.Generator()
    twin.set_state(learner.generator.get_state())
    return learner.buffer.sample(count, twin)


def surrogate(learner: Learner) -> torch.Tensor:
    """The images of the client's share of the surrogate set."""
    assert learner.data is not None
    share = learner.data.surrogate()
    assert share is not None
    return share["x"]


def g_ref(method: Method, learner: Learner) -> torch.Tensor:
    """What the client publishes for Fed-A-GEM, of six samples of its buffer."""
    published = FedAGEM(method, samples=6).buffer_gradient(learner)
    assert published is not None
    return published["g_ref"]


def flat_gradient(module: nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(module.parameters()))])
