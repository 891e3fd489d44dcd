"""GPM: what its gradients and bases promise, and what it is worth on permuted digits."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.layers import layers_of
from fedagem.learning.learner import CurrentTask
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.gpm import GPM
from fedagem.learning.refinement import Refinement
from models.resnet_cifar import resnet18_cifar
from tests.support.permuted_federation import SmallFederation, learn_permuted_digits


def samples(seed, count=48, dimension=5):
    """Points of a subspace of their own, with four classes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, dimension, generator=generator) @ torch.randn(dimension, 20, generator=generator)
    return {"x": x, "y": torch.randint(4, (count,), generator=generator)}


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def task(index, sequential=False):
    return CurrentTask(index, range(4), (), sequential)


def after_tasks(method, seeds, network=None, **settings):
    """A client that has learned some tasks, and goes on with the last of them."""
    federation = SmallFederation(method, network or mlp(), **settings)
    for index, seed in enumerate(seeds):
        federation.begin_task(task(index), [samples(seed)])
        federation.round()
        federation.end_task()
    return federation


def bases(federation):
    return federation.kept[0]["bases"]


def matrix_of(layer, flat):
    weight, bias = layer.parts(flat)
    return weight if bias is None else torch.cat([weight, bias.unsqueeze(1)], dim=1)


def observe(federation, index, batch, received=None):
    federation.task = task(index)
    learner = federation.learner(0, "train", received)
    federation.method.prepare(learner)
    federation.method.begin_round(learner)
    federation.method.observe(learner, batch)
    return learner


def test_gradients_of_later_tasks_are_those_of_the_loss_without_the_subspace():
    federation = after_tasks(GPM(threshold=0.9, first_threshold=0.9), [1, 2])
    batch = samples(3)
    learner = observe(federation, 2, batch)
    parameters = list(federation.network.parameters())
    loss = functional.cross_entropy(federation.network(batch["x"]), batch["y"])
    plain = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, parameters)])
    for layer in layers_of(federation.model):
        basis, g = bases(federation)[layer.name], matrix_of(layer, learner.gradient)
        assert 0 < basis.shape[1] < layer.inner
        expected = matrix_of(layer, plain)
        torch.testing.assert_close(g, expected - expected @ basis @ basis.T, rtol=1e-4, atol=1e-6)
        assert (g @ basis).norm() <= 1e-5 * expected.norm()
        assert (basis.T @ basis - torch.eye(basis.shape[1])).abs().max() < 1e-6


def test_ranks_never_fall_and_grow_by_the_thresholds_of_the_plan():
    def ranks(method):
        federation = SmallFederation(method, mlp())
        history = []
        for index, seed in enumerate([1, 2, 3]):
            federation.begin_task(task(index), [samples(seed)])
            federation.round()
            federation.end_task()
            history.append([basis.shape[1] for basis in bases(federation).values()])
        return history

    usual = ranks(GPM())
    assert all(before <= after for one, other in pairwise(usual) for before, after in zip(one, other, strict=True))
    assert usual[0][0] < usual[1][0] < usual[2][0]
    generous, careful = (
        ranks(GPM(threshold=0.5, first_threshold=0.5)),
        ranks(GPM(threshold=0.5, first_threshold=0.5, threshold_growth=0.2)),
    )
    assert generous[0] == careful[0], "the first task has the plan's threshold"
    assert sum(generous[2]) < sum(careful[2])


def test_the_same_task_again_adds_nothing():
    federation = after_tasks(GPM(samples=1000), [1])
    before = bases(federation)
    federation.end_task()
    assert {name: basis.shape for name, basis in bases(federation).items()} == {
        name: basis.shape for name, basis in before.items()
    }
    assert all(torch.equal(basis, before[name]) for name, basis in bases(federation).items())


@pytest.mark.parametrize("network", [nn.Linear(20, 4), mlp()], ids=["one layer", "three layers"])
def test_a_threshold_of_one_keeps_what_the_network_says_of_old_samples(network):
    federation = after_tasks(GPM(threshold=1.0, first_threshold=1.0, samples=1000), [1], network)
    old, says = samples(1), {}

    def answer():
        with torch.no_grad():
            federation.model.load_arrays(federation.weights)
            return federation.network(old["x"])

    says["before"] = answer()
    new = samples(2)
    federation.begin_task(task(1), [new])
    says["new before"] = federation.network(new["x"]).detach()
    for _ in range(5):
        federation.round()
        torch.testing.assert_close(answer(), says["before"], atol=1e-4, rtol=1e-4)
    assert (federation.network(new["x"]) - says["new before"]).abs().max() > 0.01, "the new task is learned"


@pytest.mark.parametrize("wrap", [lambda method: method, FedAGEM], ids=["plain", "fedagem"])
def test_thresholds_of_zero_are_fedavg_to_the_bit(wrap):
    off, plain = (
        after_tasks(wrap(method), [1, 2, 3], capacity=20)
        for method in (GPM(threshold=0.0, first_threshold=0.0), FedAvg())
    )
    assert bases(off) == {}
    assert all((array == plain.weights[name]).all() for name, array in off.weights.items())


def test_nobody_protects_the_head_of_tasks_with_classes_of_their_own():
    federation = SmallFederation(GPM(), mlp())
    federation.begin_task(task(0, sequential=True), [samples(1)])
    federation.round()
    federation.end_task()
    assert list(bases(federation)) == ["0.weight", "2.weight"]


def test_a_client_without_samples_of_a_task_keeps_what_it_has():
    federation = after_tasks(GPM(), [1])
    before = bases(federation)
    federation.begin_task(task(1), [samples(2, count=0)])
    federation.end_task()
    assert all(torch.equal(basis, before[name]) for name, basis in bases(federation).items())


@pytest.mark.parametrize("choice", ["freeze", "train"])
def test_batch_norm_is_frozen_after_the_first_task_or_not(choice):
    federation = SmallFederation(GPM(batch_norm=choice, samples=8), resnet18_cifar(width=4))
    generator = torch.Generator().manual_seed(0)
    batch = {"x": torch.rand(16, 3, 16, 16, generator=generator), "y": torch.randint(4, (16,), generator=generator)}
    federation.begin_task(task(0, sequential=True), [batch])
    federation.round()
    federation.end_task()
    first, head = dict(federation.weights), list(federation.weights)[-1]
    federation.begin_task(task(1, sequential=True), [batch])
    federation.round()
    same = {name: (array == first[name]).all() for name, array in federation.weights.items()}
    of_batch_norm = [name for name, array in first.items() if array.ndim < 2 and name != head]
    assert len(of_batch_norm) == 20 * 5
    assert all(same[name] == (choice == "freeze") for name in of_batch_norm)
    assert not any(same[name] for name in same if name not in of_batch_norm)


def conflicting(federation, batch):
    """A g_ref that every gradient of the batch points against."""
    learner = observe(federation, 1, batch)
    generator = torch.Generator().manual_seed(5)
    return {
        "g_ref": (
            -learner.gradient + 0.1 * learner.gradient.norm() * torch.randn(learner.gradient.shape, generator=generator)
        ).numpy()
    }


@pytest.mark.parametrize("project_reference", [False, True])
def test_what_the_refinement_by_g_ref_leaves_of_the_promise(project_reference):
    """As it is, g_ref lets g leave the complement; projected first, both constraints hold."""
    method = FedAGEM(GPM(threshold=0.9, first_threshold=0.9, project_reference=project_reference), Refinement())
    federation = after_tasks(method, [1])
    batch = samples(2)
    received = conflicting(federation, batch)
    learner = observe(federation, 1, batch, received)
    g, g_ref = learner.gradient, torch.from_numpy(received["g_ref"])
    within = sum(
        float((matrix_of(layer, g) @ bases(federation)[layer.name]).square().sum())
        for layer in layers_of(federation.model)
    )
    assert (within**0.5 <= 1e-5 * g_ref.norm()) == project_reference
    assert abs(float(g.dot(g_ref))) <= 1e-5 * float(g_ref.dot(g_ref))


@pytest.mark.parametrize("settings", [{"threshold": 1.5}, {"samples": 0}, {"batch_norm": "melt"}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(PlanError, match=f"method_settings.{next(iter(settings))} (must|is)"):
        GPM(**settings)


def test_one_client_remembers_permuted_digits_that_fedavg_forgets():
    """20 points more on the first two of three permutations, for at most 5 less on the last."""
    plain, protected = (learn_permuted_digits(method, clients=1, rounds=6) for method in (FedAvg(), GPM()))
    assert protected[0] + protected[1] >= plain[0] + plain[1] + 2 * 0.2
    assert protected[2] >= plain[2] - 0.05
