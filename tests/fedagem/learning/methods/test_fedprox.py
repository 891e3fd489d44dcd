"""FedProx against autograd, against FedAvg, and on clients that FedAvg lets drift apart."""

import copy

import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fedprox import FedProx
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN
from models.resnet_cifar import resnet18_cifar
from tests.support.quadratic_clients import QuadraticFederation, two_clients


def images(count, seed, channels=1, side=28):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=rng)
    return {"x": x, "y": torch.randint(0, 10, (count,), generator=rng)}


def make_learner(network=SmallCNN):
    torch.manual_seed(0)
    model = FlatModel(network())
    return Learner(model, Classification(), ReplayBuffer(0), torch.Generator().manual_seed(1))


def trained(method, steps=4, network=SmallCNN, **where):
    learner = make_learner(network)
    before = learner.model.weights.detach().clone()
    torch.manual_seed(2)  # dropout
    batches = [images(8, seed, **where) for seed in range(steps)]
    client_update(learner, batches, method, torch.optim.SGD([learner.model.weights], lr=0.1))
    return learner.model, learner.model.weights.detach() - before


def test_the_gradient_is_that_of_the_penalised_loss():
    learner = make_learner()
    learner.model.module.eval()  # the same network for both: no dropout
    method, batch = FedProx(mu=0.3), images(8, 1)
    method.begin_round(learner)
    start = [p.detach().clone() for p in learner.model.module.parameters()]
    with torch.no_grad():
        learner.model.weights.add_(0.1 * torch.randn(learner.model.size, generator=learner.generator))
    plain = copy.deepcopy(learner.model.module)
    step = method.observe(learner, batch)
    data = functional.cross_entropy(plain(batch["x"].float() / 255), batch["y"])
    penalty = (
        0.3 / 2 * torch.stack([(p - s).square().sum() for p, s in zip(plain.parameters(), start, strict=True)]).sum()
    )
    gradients = torch.autograd.grad(data + penalty, list(plain.parameters()))
    expected = torch.cat([g.reshape(-1) for g in gradients])
    torch.testing.assert_close(learner.gradient, expected, rtol=1e-5, atol=1e-6)
    assert step.losses == {
        "classification": pytest.approx(data.item(), rel=1e-5),
        "proximal": pytest.approx(penalty.item(), rel=1e-5),
    }


def test_without_a_pull_it_is_fedavg_to_the_bit():
    ours, theirs = trained(FedProx(mu=0))[0], trained(FedAvg())[0]
    assert torch.equal(ours.weights, theirs.weights)


@pytest.mark.parametrize("mu", [0.01, 1.0, 1000.0])
def test_the_first_step_of_a_round_is_fedavgs_to_the_bit(mu):
    """The weights are still those of the global model."""
    ours, theirs = trained(FedProx(mu=mu), steps=1)[0], trained(FedAvg(), steps=1)[0]
    assert torch.equal(ours.weights, theirs.weights)


def test_a_stronger_pull_makes_a_shorter_update():
    lengths = [float(trained(FedProx(mu=mu), steps=8)[1].norm()) for mu in (0, 0.1, 1, 5)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 0.8 * lengths[0]


def test_every_round_pulls_to_its_own_global_model():
    federation = QuadraticFederation(FedProx(mu=1e3), two_clients(), steps=20, lr=1e-3)
    for _ in range(3):
        before = federation.weights
        federation.step()
        assert all((local - before).norm() < 2e-3 for local in federation.locals)
    assert federation.weights.norm() > 0


def test_statistics_are_not_pulled():
    """BatchNorm's statistics follow the data while the weights are held."""
    where = {"network": lambda: resnet18_cifar(width=4), "channels": 3, "side": 8}
    before = make_learner(where["network"]).model.state_dict()
    ours, update = trained(FedProx(mu=9.9), steps=10, **where)
    _, free = trained(FedAvg(), steps=10, **where)
    assert update.norm() < 0.5 * free.norm()
    statistics = {name: tensor for name, tensor in ours.state_dict().items() if "running" in name}
    assert statistics
    assert all((tensor - before[name]).norm() > 0.1 for name, tensor in statistics.items())


def test_the_minimum_of_a_round_is_the_closed_form():
    federation = QuadraticFederation(FedProx(mu=0.5), two_clients(), weights=torch.tensor([0.3, 0.4]))
    start = federation.weights
    federation.step()
    for client, local in zip(federation.clients, federation.locals, strict=True):
        expected = (client.curvature * client.optimum + 0.5 * start) / (client.curvature + 0.5)
        torch.testing.assert_close(local, expected, rtol=0, atol=1e-4)


def test_clients_that_go_far_in_a_round_agree_on_a_tenth_of_fedavgs_excess_loss():
    """FedAvg ends halfway between the clients' optima, whatever their curvature."""
    fedavg = QuadraticFederation(FedAvg(), two_clients()).run(8)
    fedprox = QuadraticFederation(FedProx(mu=2.0), two_clients()).run(8)
    torch.testing.assert_close(fedavg.weights, torch.zeros(2), rtol=0, atol=1e-2)
    assert fedprox.excess() < 0.1 * fedavg.excess()


def test_a_pull_without_meaning_is_refused():
    with pytest.raises(PlanError, match=r"method_settings.mu must be at least 0, not -1"):
        FedProx(mu=-1)
