"""iCaRL: its loss against autograd, exemplars in batches, federated class means, and what survives a kill."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client_state import ClientState, ClientStateStore, Moment
from fedagem.learning.exchange import Exchange
from fedagem.learning.exemplars import features
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.icarl import ICaRL
from models.resnet_cifar import resnet18_cifar
from tests.support.second_task import (
    CLASSES,
    OLD,
    first_task_client,
    flat_gradient,
    g_ref,
    generator,
    images,
    next_replay,
    second_task_client,
)
from tests.support.small_federation import SmallFederation, TaskData

SEEN = [0, 1, 2, 3]


def expected_loss(learner, module, samples, reduction):
    """Written out sample by sample and class by class."""
    z = module(samples["x"].float() / 255)
    old = learner.teacher(samples["x"].float() / 255).sigmoid()
    total = torch.zeros(())
    for i, label in enumerate(samples["y"].tolist()):
        terms = []
        for column in SEEN:
            target = old[i, column] if column in OLD else torch.tensor(float(column == label))
            p = z[i, column].sigmoid()
            terms.append(-(target * p.log() + (1 - target) * (1 - p).log()))
        each = torch.stack(terms)
        total = total + (each.mean() if reduction == "mean" else each.sum())
    return total / len(samples["y"])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_is_that_of_the_combined_targets_on_batch_and_exemplars(reduction):
    learner = second_task_client(exemplars=10)
    plain = copy.deepcopy(learner.model.module)
    batch = images(8, 3)
    replay = next_replay(learner, 2)  # 8 * 10 / 40
    samples = {name: torch.cat([batch[name], replay[name]]) for name in batch}
    step = ICaRL(reduction=reduction).observe(learner, batch)
    loss = expected_loss(learner, plain, samples, reduction)
    torch.testing.assert_close(learner.gradient, flat_gradient(plain, loss), rtol=1e-4, atol=1e-6)
    assert step.losses == {"classification": pytest.approx(loss.item(), rel=1e-5)}
    assert step.remember is None


def test_the_first_task_is_one_hot_cross_entropy_of_its_own_classes():
    learner = first_task_client()
    plain = copy.deepcopy(learner.model.module)
    batch = images(8, 3, OLD)
    ICaRL().observe(learner, batch)
    z = plain(batch["x"].float() / 255)[:, :2]
    loss = functional.binary_cross_entropy_with_logits(z, functional.one_hot(batch["y"], 2).float())
    torch.testing.assert_close(learner.gradient, flat_gradient(plain, loss), rtol=1e-4, atol=1e-7)
    head = learner.gradient[learner.model.windows["3.weight"]].view(CLASSES, -1)
    assert (head[:2] != 0).any()
    assert torch.equal(head[2:], torch.zeros_like(head[2:])), "classes to come are not trained"


def test_only_the_old_classes_listen_to_the_teacher():
    def gradient_with(column):
        learner = second_task_client()
        assert learner.teacher is not None
        with torch.no_grad():
            learner.teacher.state_dict()["3.bias"][column] += 1
        ICaRL().observe(learner, images(8, 3))
        return learner.gradient.clone()

    learner = second_task_client()
    ICaRL().observe(learner, images(8, 3))
    for column in range(CLASSES):
        assert torch.equal(gradient_with(column), learner.gradient) == (column not in OLD), column


def test_the_teacher_stays_as_it_is():
    """In training mode it would learn the batch's statistics."""
    learner = second_task_client()
    learner.model = type(learner.model)(resnet18_cifar(CLASSES, 4).train())
    learner.teacher = copy.deepcopy(learner.model.module).requires_grad_(False).eval()
    before = {name: tensor.clone() for name, tensor in learner.teacher.state_dict().items()}
    batch = images(8, 3, side=16)
    batch["x"] = batch["x"].expand(-1, 3, -1, -1)
    learner.buffer = ReplayBuffer(10)
    ICaRL().observe(learner, batch)
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.teacher.state_dict().items())
    assert learner.model.state_dict()["1.num_batches_tracked"] == 1


@pytest.mark.parametrize(
    ("exemplars", "data", "batch", "expected"),
    [(10, 40, 8, 2), (10, 40, 2, 1), (1, 1000, 32, 1), (20, 10, 8, 16), (20, 4, 8, 20), (0, 40, 8, 0)],
)
def test_a_batch_gets_exemplars_in_proportion_and_at_least_one(exemplars, data, batch, expected):
    learner = second_task_client(exemplars)
    learner.data = TaskData(images(data, 12), None)
    sizes = []
    learner.model.module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    ICaRL().observe(learner, images(batch, 3))
    assert sizes == [batch + expected]


def test_g_ref_is_the_gradient_of_the_one_hot_loss_on_exemplars():
    learner = second_task_client(exemplars=10)
    learner.teacher = None  # there is none in that stage
    plain = copy.deepcopy(learner.model.module)
    exemplars = next_replay(learner, 6)
    found = g_ref(ICaRL(), learner)
    truth = functional.one_hot(exemplars["y"], 4).float()
    loss = functional.binary_cross_entropy_with_logits(plain(exemplars["x"].float() / 255)[:, SEEN], truth)
    torch.testing.assert_close(found, flat_gradient(plain, loss), rtol=1e-4, atol=1e-7)


def test_in_the_first_task_there_is_nothing_to_refine_with():
    assert FedAGEM(ICaRL()).buffer_gradient(first_task_client()) is None


def received(published):
    """What the server makes of what clients sent."""
    return {name: torch.stack([one[name] for one in published]).sum(dim=0) for name in published[0]}


def test_the_means_of_the_federation_are_those_of_all_exemplars_together():
    method, published, everything = ICaRL(), [], []
    for seed, labels in enumerate([(0, 1), (1, 2, 3), (3,)]):
        learner = second_task_client(exemplars=0)
        learner.data = TaskData(images(25, seed, labels), None)
        published.append(method.end_task(learner))
        everything.append(learner.buffer.contents())
    union = {name: torch.cat([one[name] for one in everything]) for name in ("x", "y")}
    total, f = received(published), features(learner, union)
    assert total["class_counts"].tolist() == torch.bincount(union["y"], minlength=CLASSES).tolist()
    for label in range(4):
        mean = total["class_sums"][label] / total["class_counts"][label]
        torch.testing.assert_close(mean, f[union["y"] == label].mean(dim=0), rtol=0, atol=1e-6)


def test_the_nearest_mean_wins():
    learner = second_task_client()
    batch = images(50, 5)
    f = features(learner, batch)
    sums, counts = 3.0 * torch.rand(CLASSES, f.shape[1], generator=generator(2)), torch.full((CLASSES,), 3.0)
    learner.received = {"class_sums": sums, "class_counts": counts}
    means = functional.normalize(sums / 3, dim=1)
    expected = [min(range(CLASSES), key=lambda label: float((row - means[label]).norm())) for row in f]
    assert ICaRL().scores(learner, batch).argmax(dim=1).tolist() == expected
    assert len(set(expected)) > 1


def test_a_class_that_nobody_has_exemplars_of_is_never_an_answer():
    learner = second_task_client()
    batch = images(50, 5)
    f = features(learner, batch)
    counts = torch.tensor([2.0, 0, 5, 1, 0, 0])
    learner.received = {"class_sums": f.mean(dim=0).expand(CLASSES, -1) * counts[:, None], "class_counts": counts}
    scores = ICaRL().scores(learner, batch)
    assert torch.isneginf(scores[:, [1, 4, 5]]).all()
    assert torch.isfinite(scores[:, [0, 2, 3]]).all()


@pytest.mark.parametrize("classifier", ["nearest_mean", "head"])
def test_before_the_first_task_ends_the_outputs_of_seen_classes_answer(classifier):
    learner = first_task_client()
    learner.received = {"class_sums": torch.zeros(CLASSES, 50), "class_counts": torch.zeros(CLASSES)}
    batch = images(6, 4)
    scores = ICaRL(classifier=classifier).scores(learner, batch)
    assert torch.equal(scores[:, :2], learner.logits(batch)[:, :2])
    assert torch.isneginf(scores[:, 2:]).all()


def test_the_head_asks_for_no_means():
    assert ICaRL().wants("evaluate") == ["class_sums", "class_counts"]
    assert ICaRL().wants("train") == []
    assert ICaRL(classifier="head").wants("evaluate") == []


def test_what_is_announced_is_what_is_sent():
    learner = second_task_client()
    method = ICaRL()
    announced = method.exchanges(learner.model)
    assert {one.name: one.shape for one in announced} == {
        name: tuple(tensor.shape) for name, tensor in method.end_task(learner).items()
    }
    assert [Exchange.announced(one.announcement, one.shape) for one in announced] == announced
    assert all(one.keep and one.combine == "sum" for one in announced)


def test_a_client_that_has_seen_nothing_sends_zeros():
    learner = second_task_client(exemplars=0)
    learner.data = TaskData({name: values[:0] for name, values in images(1, 0).items()}, None)
    assert {name: float(tensor.abs().sum()) for name, tensor in ICaRL().end_task(learner).items()} == {
        "class_sums": 0,
        "class_counts": 0,
    }


@pytest.mark.parametrize("killed", ["before the state was saved", "after the state was saved"])
def test_the_end_of_a_task_can_be_repeated(tmp_path, killed):
    def client(state):
        learner = second_task_client()
        learner.buffer = state.buffer
        return learner

    def store():
        return ClientStateStore(tmp_path, lambda: ReplayBuffer(20), "plan")

    began = ClientState(second_task_client(exemplars=10).buffer)
    store().save(began, Moment(3))
    first, end = store(), Moment(3, ends_task=True)
    learner = client(first.before(end))
    sent = ICaRL().end_task(learner)
    assert set(learner.buffer.contents()["y"].tolist()) == {0, 1, 2, 3}
    if killed == "after the state was saved":
        first.save(ClientState(learner.buffer, learner.kept), end)
    repeated = client(store().before(end))
    assert set(repeated.buffer.contents()["y"].tolist()) == {0, 1}, "as training left it"
    again = ICaRL().end_task(repeated)
    assert all(torch.equal(sent[name], tensor) for name, tensor in again.items())
    for name, values in learner.buffer.contents().items():
        assert torch.equal(values, repeated.buffer.contents()[name])


def test_it_beats_fedavg_by_half_on_digits_that_come_two_by_two():
    ours, theirs = (SmallFederation(method).run().accuracy() for method in (ICaRL(reduction="sum"), FedAvg()))
    assert ours > theirs + 0.5


def test_the_buffer_changes_at_the_end_of_a_task_and_not_before():
    federation = SmallFederation(ICaRL(), rounds_per_task=2)
    federation.step()
    assert [len(buffer) for buffer, _ in federation.states] == [0] * 4
    federation.step()
    sizes = [len(buffer) for buffer, _ in federation.states]
    assert all(0 < size <= 100 for size in sizes)
    federation.step()
    assert [len(buffer) for buffer, _ in federation.states] == sizes


def test_the_teacher_is_the_model_of_the_last_tasks_end_all_task_long():
    federation = SmallFederation(ICaRL(), rounds_per_task=2)
    ends = []
    for _ in range(3):
        federation.run(1)
        ends.append(federation.weights)
    assert federation.previous[:2] == [None, None]
    for round_number, teacher in enumerate(federation.previous[2:], 2):
        expected = ends[round_number // 2 - 1]
        assert all(np.array_equal((teacher or {})[name], array) for name, array in expected.items())


def test_fedagem_refines_from_the_second_task_on():
    federation = SmallFederation(FedAGEM(ICaRL(reduction="sum")), rounds_per_task=2)
    federation.run(1)
    assert sum(report.refined for report in federation.reports) == 0
    federation.run(1)
    assert sum(report.refined for report in federation.reports) > 0


@pytest.mark.parametrize(("settings", "name"), [({"reduction": "max"}, "reduction"), ({"classifier": 3}, "classifier")])
def test_settings_without_meaning_are_refused(settings, name):
    with pytest.raises(PlanError, match=rf"task_runner\.settings\.method_settings\.{name} "):
        ICaRL(**settings)
