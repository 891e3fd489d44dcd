"""FedCurv against its formula, against FedAvg, and on clients that are sure of different things."""

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import Batch, ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner, Place
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fedcurv import FedCurv, without_own
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN
from tests.support.quadratic_clients import QuadraticFederation, two_clients

ROOM: dict[str, Any] = {"lr": 0.1, "steps": 200}
"""Small steps for curvatures that add up, and enough of them to arrive."""


@dataclass
class Data:
    batch: Batch

    def samples(self):
        return self.batch

    def surrogate(self):
        return None


def images(count, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8, generator=rng)
    return {"x": x, "y": torch.randint(0, 10, (count,), generator=rng)}


@pytest.fixture
def learner():
    torch.manual_seed(0)
    model = FlatModel(SmallCNN().eval())
    return Learner(model, Classification(), ReplayBuffer(0), torch.Generator().manual_seed(1), data=Data(images(30, 9)))


def others(learner, count=3):
    """Models and Fisher diagonals of other clients, and what they add up to."""
    rng = torch.Generator().manual_seed(5)
    models = torch.randn(count, learner.model.size, generator=rng) * 0.1
    fishers = torch.rand(count, learner.model.size, generator=rng)
    return models, fishers, {"fisher": fishers.sum(dim=0), "fisher_weights": (fishers * models).sum(dim=0)}


def test_the_two_sums_are_all_of_the_penalty_but_a_constant(learner):
    models, fishers, sums = others(learner)
    u, v = sums["fisher"].double(), sums["fisher_weights"].double()
    constant = (fishers * models.square()).double().sum()
    for w in (learner.model.weights.detach().double(), torch.zeros(learner.model.size)):
        explicit = (fishers * (w - models).square()).double().sum()
        torch.testing.assert_close((u * w.square() - 2 * v * w).sum() + constant, explicit, rtol=1e-5, atol=0)


def test_the_gradient_is_that_of_the_penalised_loss(learner):
    models, fishers, learner.received = others(learner)
    batch, plain = images(8, 1), copy.deepcopy(learner.model.module)
    method = FedCurv(coefficient=0.3)
    method.begin_round(learner)
    step = method.observe(learner, batch)
    data = functional.cross_entropy(plain(batch["x"].float() / 255), batch["y"])
    w = torch.cat([p.reshape(-1) for p in plain.parameters()])
    penalty = 0.3 * (fishers * (w - models).square()).sum()
    gradients = torch.autograd.grad(data + penalty, list(plain.parameters()))
    expected = torch.cat([g.reshape(-1) for g in gradients])
    torch.testing.assert_close(learner.gradient, expected, rtol=1e-4, atol=1e-5)
    assert step.losses == {"classification": pytest.approx(data.item(), rel=1e-5)}


def test_fedagem_projects_the_gradient_of_loss_and_penalty(learner):
    _, _, learner.received = others(learner)
    FedCurv().begin_round(learner)
    FedCurv().observe(learner, images(8, 1))
    g = learner.gradient.clone()
    learner.received["g_ref"] = g_ref = -g + torch.randn(g.shape, generator=learner.generator) * g.norm() / 100
    method = FedAGEM(FedCurv())
    method.begin_round(learner)
    method.observe(learner, images(8, 1))
    torch.testing.assert_close(learner.gradient, g - g.dot(g_ref) / g_ref.dot(g_ref) * g_ref, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kept_round", "subtracted"), [(3, True), (2, False), (None, False)])
def test_only_a_part_of_the_round_before_is_taken_out_of_the_sums(learner, kept_round, subtracted):
    """A client that sat a round out has no part in the sums."""
    _, fishers, learner.received = others(learner)
    own = {"fisher": fishers[0], "fisher_weights": fishers[0] / 2}
    learner.kept |= own if kept_round is None else {**own, "fisher_round": kept_round}
    learner.place = Place(rank=1, clients=3, round_number=4)
    FedCurv().begin_round(learner)
    for name, part in own.items():
        expected = learner.received[name] - part if subtracted else learner.received[name]
        torch.testing.assert_close(learner.notes[name], expected)


def test_a_part_that_came_too_late_is_not_taken_out_of_the_sums():
    """Otherwise its curvature would be negative, and the client would run away from its own model."""
    u, v, own_u, own_v = (torch.tensor(values) for values in ([1.0, 2.0], [0.5, 0.5], [0.5, 3.0], [1.0, 1.0]))
    assert all(map(torch.equal, without_own(u, v, own_u, own_v), (u, v)))
    rest = without_own(u + own_u, v + own_v, own_u, own_v)
    torch.testing.assert_close(rest, (u, v))


def test_what_is_left_of_rounding_is_nothing():
    own_u, own_v = torch.tensor([1e-12, 1.0, 100.0]), torch.tensor([1e-12, -1.0, 1.0])
    others_u, others_v = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 2.0])
    rounded = (own_u + others_u) * (1 - 1e-7), (own_v + others_v) * (1 + 1e-7)
    u, v = without_own(*rounded, own_u, own_v)
    assert u[:2].tolist() == v[:2].tolist() == [0, 0]
    torch.testing.assert_close((u[2], v[2]), (torch.tensor(1.0), torch.tensor(2.0)), rtol=1e-4, atol=0)


def test_a_client_publishes_and_keeps_its_fisher_information_at_its_new_model(learner):
    learner.place = Place(round_number=6)
    method = FedCurv(fisher_samples=10)
    twin = torch.Generator()
    twin.set_state(learner.generator.get_state())
    chosen = torch.randperm(30, generator=twin)[:10]
    published = method.end_round(learner)
    expected = torch.zeros(learner.model.size)
    plain = copy.deepcopy(learner.model.module)
    for index in chosen.tolist():
        x, y = learner.data.samples()["x"][index], learner.data.samples()["y"][index]
        loss = functional.cross_entropy(plain(x[None].float() / 255), y[None])
        gradients = torch.autograd.grad(loss, list(plain.parameters()))
        expected += torch.cat([g.reshape(-1) for g in gradients]).square() / 10
    torch.testing.assert_close(published["fisher"], expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(published["fisher_weights"], published["fisher"] * learner.model.weights.detach())
    assert learner.kept.keys() == {"fisher_round", *published}
    assert learner.kept["fisher_round"] == 6
    assert all(torch.equal(learner.kept[name], tensor) for name, tensor in published.items())


def test_a_client_without_data_holds_nobody(learner):
    learner.data = Data({name: values[:0] for name, values in images(1, 0).items()})
    published = FedCurv().end_round(learner)
    assert not any(tensor.any() for tensor in published.values())


def test_without_a_coefficient_it_is_fedavg_to_the_bit():
    ours, theirs = (
        QuadraticFederation(method, two_clients(), steps=5).run(4) for method in (FedCurv(coefficient=0), FedAvg())
    )
    assert torch.equal(ours.weights, theirs.weights)


def test_a_client_alone_is_fedavg_to_the_bit():
    """Also after the aggregator has rounded what it sent."""
    ours, theirs = (QuadraticFederation(method, two_clients()[:1], steps=3).run(4) for method in (FedCurv(), FedAvg()))
    assert ours.server.offers()["fisher"].any()
    assert torch.equal(ours.weights, theirs.weights)


def test_two_clients_reach_the_closed_form_in_every_round():
    federation = QuadraticFederation(FedCurv(coefficient=0.5), two_clients(), **ROOM)
    u = v = [torch.zeros(2)] * 2
    for _ in range(4):
        federation.step()
        expected = [
            (client.curvature * client.optimum + 2 * 0.5 * v[1 - k]) / (client.curvature + 2 * 0.5 * u[1 - k])
            for k, client in enumerate(federation.clients)
        ]
        torch.testing.assert_close(torch.stack(federation.locals), torch.stack(expected), rtol=0, atol=5e-3)
        at = federation.locals
        u = [
            client.curvature.square() * ((w - client.optimum).square() + 1 / client.curvature)
            for client, w in zip(federation.clients, at, strict=True)
        ]
        v = [fisher * w for fisher, w in zip(u, at, strict=True)]


def test_a_client_that_missed_a_round_counts_for_nothing_in_the_next():
    federation = QuadraticFederation(FedCurv(coefficient=0.5), two_clients(), **ROOM)
    federation.step()
    federation.step(taking_part=[0])
    learner = federation.learner(1)
    federation.method.begin_round(learner)
    torch.testing.assert_close(learner.notes["fisher"], federation.kept[0]["fisher"])
    alone = federation.learner(0)
    federation.method.begin_round(alone)
    assert not alone.notes["fisher"].any()


def test_clients_sure_of_different_things_agree_on_a_twentieth_of_fedavgs_excess_loss():
    fedavg = QuadraticFederation(FedAvg(), two_clients(), **ROOM).run(4)
    fedcurv = QuadraticFederation(FedCurv(), two_clients(), **ROOM).run(4)
    assert fedcurv.excess() < 0.05 * fedavg.excess()


@pytest.mark.parametrize("settings", [{"coefficient": -1}, {"fisher_samples": 0}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(PlanError, match=f"method_settings.{next(iter(settings))} must be at least"):
        FedCurv(**settings)
