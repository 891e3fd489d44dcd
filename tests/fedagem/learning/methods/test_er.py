"""ER: one step on the union of the batch and a sample of the buffer, and what that saves of the first of two tasks."""

import copy

import torch
from torch.nn import functional

from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.er import ER
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN
from tests.support.two_tasks import accuracy_after_two_tasks


def images(count, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8, generator=rng)
    return {"x": x, "y": torch.randint(0, 10, (count,), generator=rng)}


def make_learner(stored=20):
    torch.manual_seed(0)
    learner = Learner(
        FlatModel(SmallCNN().eval()), Classification(), ReplayBuffer(50), torch.Generator().manual_seed(1)
    )
    learner.buffer.add(images(stored, 5), torch.Generator())
    return learner


def gradient(network, batch):
    loss = functional.cross_entropy(network(batch["x"].float() / 255), batch["y"])
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()))]), loss.item()


def test_the_gradient_is_that_of_the_union():
    learner, batch = make_learner(), images(8, 6)
    network, twin = copy.deepcopy(learner.model.module), torch.Generator()
    twin.set_state(learner.generator.get_state())
    replay = learner.buffer.sample(12, twin)
    step = ER(replay_batch=12).observe(learner, batch)
    expected, loss = gradient(network, {name: torch.cat([batch[name], replay[name]]) for name in batch})
    torch.testing.assert_close(learner.gradient, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(step.losses["classification"].item(), loss)
    assert step.remember is batch


def test_with_an_empty_buffer_it_is_fedavg_to_the_bit():
    ours, theirs = make_learner(stored=0), make_learner(stored=0)
    ER().observe(ours, images(8, 6))
    FedAvg().observe(theirs, images(8, 6))
    assert torch.equal(ours.gradient, theirs.gradient)


def test_a_batch_that_says_which_samples_are_new_is_joined_without_it():
    learner = make_learner()
    batch = {**images(8, 6), "first": torch.ones(8, dtype=torch.bool)}
    step = ER().observe(learner, batch)
    assert step.remember is batch


def test_after_two_tasks_it_knows_far_more_of_both_than_fedavg():
    """By more than 40 points of accuracy over all digits."""
    assert accuracy_after_two_tasks(ER()) > accuracy_after_two_tasks(FedAvg()) + 0.4
