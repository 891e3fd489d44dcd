"""Each method's gradient against a plain re-computation with torch.autograd, and what it wants remembered."""

import copy

import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import CurrentTask, Learner
from fedagem.learning.methods import METHODS
from fedagem.learning.methods.agem import AGEM
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.objective import Classification
from models.mnist_cnn import SmallCNN


def generator(seed):
    return torch.Generator().manual_seed(seed)


def images(count, seed):
    rng = generator(seed)
    x = torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8, generator=rng)
    return {"x": x, "y": torch.randint(0, 10, (count,), generator=rng)}


@pytest.fixture
def learner():
    """Without dropout, so that a re-computation sees the same network."""
    torch.manual_seed(0)
    task = CurrentTask(0, range(10), (), sequential=False)
    return Learner(FlatModel(SmallCNN().eval()), Classification(), ReplayBuffer(50), generator(1), task=task)


@pytest.fixture
def plain(learner):
    return copy.deepcopy(learner.model.module)


def with_logits(batch, seed):
    return {**batch, "logits": torch.randn(len(batch["x"]), 10, generator=generator(seed))}


def gradient(model, loss):
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])


def cross_entropy(model, batch):
    return functional.cross_entropy(model(batch["x"].float() / 255), batch["y"])


def next_replay(learner, count):
    """What the learner will draw from its buffer next, without drawing it."""
    twin = torch.Generator()
    twin.set_state(learner.generator.get_state())
    return learner.buffer.sample(count, twin)


def test_fedavg_is_the_gradient_of_the_batch(learner, plain):
    learner.buffer.add(images(20, 5), generator(2))
    batch = images(8, 6)
    step = FedAvg().observe(learner, batch)
    loss = cross_entropy(plain, batch)
    torch.testing.assert_close(learner.gradient, gradient(plain, loss), rtol=1e-5, atol=1e-7)
    assert step.losses == {"classification": pytest.approx(loss.item(), rel=1e-5)}
    assert step.remember is batch


def test_agem_projects_the_gradient_by_that_of_its_own_buffer(learner, plain):
    conflicts = 0
    for seed in range(4):
        memory = images(16, 100 + seed)
        batch = images(16, 200 + seed)
        batch["x"] = memory["x"].clone()  # the same pictures with other labels pull against each other
        batch["y"] = (memory["y"] + 1) % 10
        learner.buffer = ReplayBuffer(16)
        learner.buffer.add(memory, generator(seed))
        replay = next_replay(learner, 8)
        step = AGEM(replay_batch=8).observe(learner, batch)
        g_b, g_c = gradient(plain, cross_entropy(plain, replay)), gradient(plain, cross_entropy(plain, batch))
        dot = float(g_c.dot(g_b))
        conflicts += dot < 0
        expected = g_c - dot / g_b.dot(g_b) * g_b if dot <= 0 else g_c
        torch.testing.assert_close(learner.gradient, expected, rtol=1e-4, atol=1e-6)
        assert set(step.losses) == {"classification"}
        assert step.remember is batch
    assert conflicts > 0, "the case that A-GEM is about did not occur"


def test_agem_without_a_buffer_is_fedavg(learner, plain):
    batch = images(8, 6)
    AGEM().observe(learner, batch)
    torch.testing.assert_close(learner.gradient, gradient(plain, cross_entropy(plain, batch)), rtol=1e-5, atol=1e-7)


def test_der_adds_the_distance_to_the_stored_logits(learner, plain):
    learner.buffer.add(with_logits(images(20, 5), 7), generator(2))
    batch = images(8, 6)
    replay = next_replay(learner, 12)
    step = DER(replay_batch=12, coefficient=0.3).observe(learner, batch)
    regularisation = 0.3 * ((replay["logits"] - plain(replay["x"].float() / 255)) ** 2).mean()
    loss = cross_entropy(plain, batch)
    torch.testing.assert_close(learner.gradient, gradient(plain, loss + regularisation), rtol=1e-4, atol=1e-6)
    assert step.losses == {
        "classification": pytest.approx(loss.item(), rel=1e-5),
        "replay": pytest.approx(regularisation.item(), rel=1e-5),
    }


def test_der_begins_with_an_empty_buffer(learner, plain):
    batch = images(8, 6)
    step = DER().observe(learner, batch)
    torch.testing.assert_close(learner.gradient, gradient(plain, cross_entropy(plain, batch)), rtol=1e-5, atol=1e-7)
    assert set(step.losses) == {"classification"}


def test_der_remembers_the_logits_of_the_model_that_saw_the_batch(learner, plain):
    batch = images(8, 6)
    remembered = DER().observe(learner, batch).remember or {}
    assert remembered.keys() == {"x", "y", "logits"}
    assert remembered["x"] is batch["x"]
    assert not remembered["logits"].requires_grad
    torch.testing.assert_close(remembered["logits"], plain(batch["x"].float() / 255).detach())


@pytest.mark.parametrize("name", [n for n, method in METHODS.items() if not method.needs_boundaries and n != "l2p"])
def test_a_method_leaves_the_batch_and_the_weights_as_they_are(name, learner):
    learner.buffer = ReplayBuffer(100)
    method, first, batch = METHODS[name](), images(20, 5), images(8, 6)
    learner.received = {one.name: torch.zeros(one.shape) for one in method.exchanges(learner.model)}
    method.begin_round(learner)
    learner.buffer.add(method.observe(learner, first).remember, generator(2))
    weights, x = learner.model.weights.detach().clone(), batch["x"].clone()
    method.observe(learner, batch)
    assert torch.equal(learner.model.weights.detach(), weights)
    assert torch.equal(batch["x"], x)
    assert len(learner.buffer) == 20


@pytest.mark.parametrize("settings", [{"replay_batch": 0}, {"replay_batch": -3}, {"coefficient": -1.0}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(PlanError, match=f"method_settings.{next(iter(settings))} must"):
        DER(**settings)
