"""DER++: DER and the labels of a second sample of the buffer."""

import copy

import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.derpp import DERpp
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
    if stored:
        logits = torch.randn(stored, 10, generator=torch.Generator().manual_seed(7))
        learner.buffer.add({**images(stored, 5), "logits": logits}, torch.Generator())
    return learner


def test_the_gradient_has_the_distance_on_one_sample_and_the_labels_on_another():
    learner, batch = make_learner(), images(8, 6)
    network, twin = copy.deepcopy(learner.model.module), torch.Generator()
    twin.set_state(learner.generator.get_state())
    first, second = learner.buffer.sample(12, twin), learner.buffer.sample(12, twin)
    assert not torch.equal(first["y"], second["y"])
    step = DERpp(replay_batch=12, coefficient=0.3, beta=0.7).observe(learner, batch)

    def logits(samples):
        return network(samples["x"].float() / 255)

    terms = {
        "classification": functional.cross_entropy(logits(batch), batch["y"]),
        "replay": 0.3 * functional.mse_loss(logits(first), first["logits"]),
        "replayed_labels": 0.7 * functional.cross_entropy(logits(second), second["y"]),
    }
    gradients = torch.autograd.grad(torch.stack(list(terms.values())).sum(), list(network.parameters()))
    expected = torch.cat([g.reshape(-1) for g in gradients])
    torch.testing.assert_close(learner.gradient, expected, rtol=1e-4, atol=1e-6)
    assert step.losses == {name: pytest.approx(term.item(), rel=1e-4) for name, term in terms.items()}
    assert (step.remember or {}).keys() == {"x", "y", "logits"}


def test_with_an_empty_buffer_it_is_fedavg_to_the_bit():
    ours, theirs = make_learner(stored=0), make_learner(stored=0)
    DERpp().observe(ours, images(8, 6))
    FedAvg().observe(theirs, images(8, 6))
    assert torch.equal(ours.gradient, theirs.gradient)


def test_without_beta_a_step_is_ders():
    ours, theirs = make_learner(), make_learner()
    DERpp(beta=0).observe(ours, images(8, 6))
    DER().observe(theirs, images(8, 6))
    torch.testing.assert_close(ours.gradient, theirs.gradient, rtol=1e-6, atol=1e-9)


def test_after_two_tasks_it_knows_far_more_of_both_than_fedavg():
    """By more than 40 points of accuracy over all digits."""
    assert accuracy_after_two_tasks(DERpp()) > accuracy_after_two_tasks(FedAvg()) + 0.4


def test_a_weight_without_meaning_is_refused():
    with pytest.raises(PlanError, match=r"method_settings.beta must be at least 0, not -1"):
        DERpp(beta=-1)
