"""ClientUpdate and ComputeBufferGrad."""

import copy
from unittest import mock

import pytest
import torch
from torch.nn import functional

from fedagem.errors import NonFiniteLossError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.objective import Classification
from models.mnist_cnn import McMahanCNN
from models.resnet_cifar import resnet18_cifar


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batches(count, size=8, channels=1, side=28):
    for seed in range(count):
        rng = generator(seed)
        x = torch.randint(0, 256, (size, channels, side, side), dtype=torch.uint8, generator=rng)
        yield {"x": x, "y": torch.randint(0, 10, (size,), generator=rng)}


def make_learner(module=None, capacity=20):
    torch.manual_seed(0)
    return Learner(FlatModel(module or McMahanCNN()), Classification(), ReplayBuffer(capacity), generator(1))


def sgd(learner, lr=0.05):
    return torch.optim.SGD([learner.model.weights], lr=lr)


def buffer_gradient(learner, count):
    published = FedAGEM(FedAvg(), samples=count).buffer_gradient(learner)
    return None if published is None else published["g_ref"]


def flat(parameters):
    return torch.cat([p.detach().reshape(-1) for p in parameters])


def test_one_client_of_fedavg_is_plain_sgd():
    learner = make_learner()
    plain = copy.deepcopy(learner.model.module)
    report = client_update(learner, batches(5), FedAvg(), sgd(learner))
    optimizer, losses = torch.optim.SGD(plain.parameters(), lr=0.05), []
    for batch in batches(5):
        optimizer.zero_grad()
        loss = functional.cross_entropy(plain(batch["x"].float() / 255), batch["y"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.testing.assert_close(learner.model.weights.detach(), flat(plain.parameters()), rtol=0, atol=1e-7)
    assert (report.batches, report.samples, report.refined) == (5, 40, 0)
    assert report.losses() == {"classification": pytest.approx(sum(losses) / 5)}


def test_the_update_is_the_papers_algorithm_with_a_reference():
    """Against Algorithm ClientUpdate written out on an ordinary model."""
    learner = make_learner()
    plain = copy.deepcopy(learner.model.module)
    g_ref = torch.randn(learner.model.size, generator=generator(9))
    learner.received = {"g_ref": g_ref}
    report = client_update(learner, batches(6), FedAGEM(FedAvg()), sgd(learner))
    refined = 0
    for batch in batches(6):
        loss = functional.cross_entropy(plain(batch["x"].float() / 255), batch["y"])
        g = flat(torch.autograd.grad(loss, list(plain.parameters())))
        dot = g.dot(g_ref)
        if dot < 0:
            g = g - dot / g_ref.dot(g_ref) * g_ref
            refined += 1
        offset = 0
        with torch.no_grad():
            for p in plain.parameters():
                p.sub_(0.05 * g[offset : offset + p.numel()].view_as(p))
                offset += p.numel()
    torch.testing.assert_close(learner.model.weights.detach(), flat(plain.parameters()), rtol=1e-5, atol=1e-6)
    assert report.refined == refined
    assert 0 < refined < 6, "both cases should occur"


def test_the_buffer_sees_every_batch_after_the_step():
    learner = make_learner(capacity=12)
    client_update(learner, batches(3), DER(), sgd(learner))
    assert learner.buffer.seen == 24
    assert len(learner.buffer) == 12
    assert learner.buffer.contents()["x"].dtype == torch.uint8
    assert learner.buffer.contents()["logits"].shape == (12, 10)


def test_no_batches_change_nothing():
    learner = make_learner()
    before = learner.model.weights.detach().clone()
    learner.received = {"g_ref": torch.ones(learner.model.size)}
    report = client_update(learner, iter(()), FedAGEM(FedAvg()), sgd(learner))
    assert torch.equal(learner.model.weights.detach(), before)
    assert (report.samples, report.losses(), report.refined_share()) == (0, {}, 0.0)


def test_the_buffer_gradient_is_the_mean_gradient_of_its_samples():
    learner = make_learner()
    plain = copy.deepcopy(learner.model.module)
    for batch in batches(2):
        learner.buffer.add(batch, generator())
    twin = torch.Generator()
    twin.set_state(learner.generator.get_state())
    samples = learner.buffer.sample(10, twin)
    per_sample = [
        flat(
            torch.autograd.grad(
                functional.cross_entropy(plain(samples["x"][i : i + 1].float() / 255), samples["y"][i : i + 1]),
                list(plain.parameters()),
            )
        )
        for i in range(10)
    ]
    torch.testing.assert_close(buffer_gradient(learner, 10), torch.stack(per_sample).mean(0), rtol=1e-4, atol=1e-6)


def test_an_empty_buffer_has_no_gradient():
    assert buffer_gradient(make_learner(), 32) is None


@pytest.fixture(scope="module")
def trained_resnet():
    """With running statistics that are not those of a fresh network."""
    torch.manual_seed(0)
    module = resnet18_cifar().train()
    with torch.no_grad():
        module(torch.rand(4, 3, 16, 16))
    return module


def resnet_learner(module):
    learner = make_learner(copy.deepcopy(module))
    for batch in batches(2, size=4, channels=3, side=16):
        learner.buffer.add(batch, generator())
    return learner


def snapshot(learner):
    return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}


def assert_same(state, learner):
    for name, tensor in learner.model.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_the_buffer_gradient_leaves_model_and_statistics_untouched(trained_resnet):
    learner = resnet_learner(trained_resnet)
    before = snapshot(learner)
    assert any("running_mean" in name for name in before)
    gradient = buffer_gradient(learner, 8)
    assert gradient is not None
    assert gradient.abs().sum() > 0
    assert_same(before, learner)


def test_the_buffer_gradient_is_not_changed_by_what_comes_next():
    learner = make_learner()
    learner.buffer.add(next(batches(1)), generator())
    gradient = buffer_gradient(learner, 8)
    assert gradient is not None
    kept = gradient.clone()
    learner.gradient.fill_(7)
    assert torch.equal(gradient, kept)


def test_a_loss_that_is_not_finite_leaves_the_statistics_untouched_too(trained_resnet):
    learner = resnet_learner(trained_resnet)
    with torch.no_grad():
        learner.model.module[-1].bias.fill_(float("inf"))
    before = snapshot(learner)
    with pytest.raises(NonFiniteLossError):
        buffer_gradient(learner, 8)
    assert_same(before, learner)


def test_a_broken_sample_leaves_the_statistics_untouched_too(trained_resnet):
    learner = resnet_learner(trained_resnet)
    before = snapshot(learner)
    with (
        mock.patch.object(learner.objective, "losses", side_effect=RuntimeError("broken")),
        pytest.raises(RuntimeError, match="broken"),
    ):
        buffer_gradient(learner, 8)
    assert_same(before, learner)


def test_a_loss_that_is_not_finite_is_found_at_the_end_of_the_round():
    """And not before: nothing is read between two batches."""
    learner = make_learner()
    seen = []

    class Watching(FedAvg):
        def observe(self, learner, batch):
            seen.append(len(batch["x"]))
            return super().observe(learner, batch)

    with torch.no_grad():
        learner.model.weights.fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match=r"the loss is not finite \(\{'classification': nan\}\)"):
        client_update(learner, batches(3), Watching(), sgd(learner))
    assert len(seen) == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reference_that_is_not_finite_is_reported_and_left_out(value, caplog):
    learner, plain = make_learner(), make_learner()
    learner.received = {"g_ref": torch.full((learner.model.size,), value)}
    report = client_update(learner, batches(3), FedAGEM(FedAvg()), sgd(learner))
    client_update(plain, batches(3), FedAvg(), sgd(plain))
    assert report.refined == 0
    assert torch.equal(learner.model.weights, plain.model.weights)
    assert "g_ref is not finite" in caplog.text


def test_without_a_reference_there_is_nothing_to_refine_or_to_report(caplog):
    learner = make_learner()
    assert client_update(learner, batches(2), FedAGEM(FedAvg()), sgd(learner)).refined_share() == 0
    assert caplog.text == ""


@pytest.mark.parametrize("offer_once", [False, True])
def test_a_sample_is_offered_to_the_buffer_every_time_or_once(offer_once):
    def two_epochs():
        for epoch in range(2):
            for batch in batches(3):
                yield {**batch, "first": torch.full((8,), epoch == 0)}

    learner = make_learner()
    client_update(learner, two_epochs(), DER(), sgd(learner), offer_once=offer_once)
    assert learner.buffer.seen == (24 if offer_once else 48)
    assert learner.buffer.contents().keys() == {"x", "y", "logits"}


def test_bfloat16_is_for_the_forward_pass_alone():
    def trained(bf16):
        learner = make_learner()
        learner.bf16 = bf16
        said = learner.logits(next(batches(1)))
        report = client_update(learner, batches(4), FedAGEM(FedAvg()), sgd(learner))
        return said, learner.model, report.losses()["classification"]

    (exact, single, loss), (rough, half, other_loss) = trained(bf16=False), trained(bf16=True)
    assert rough.dtype == half.weights.dtype == half.gradient.dtype == torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.02)
    assert other_loss == pytest.approx(loss, rel=0.02)
    assert not torch.equal(half.weights, single.weights)
    torch.testing.assert_close(half.weights, single.weights, rtol=0, atol=5e-3)
