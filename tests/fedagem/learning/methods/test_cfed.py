"""CFeD: who reviews, what a review is, and that without old tasks it is FedAvg."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.client import client_update
from fedagem.learning.learner import Place
from fedagem.learning.methods.cfed import CFeD
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from models.resnet_cifar import resnet18_cifar
from tests.support.second_task import CLASSES, flat_gradient, images, second_task_client, surrogate
from tests.support.small_federation import SmallFederation, TaskData


def roles(clients, round_number, seed=0, share=0.4):
    """Which ranks review, each asked by itself as its own process would."""
    reviewers = []
    for rank in range(clients):
        learner = second_task_client()
        learner.place = Place(rank, clients, round_number, seed)
        CFeD(review_share=share).begin_round(learner)
        if learner.notes["reviews"]:
            reviewers.append(rank)
    return reviewers


@pytest.mark.parametrize(("clients", "share", "expected"), [(10, 0.4, 4), (5, 0.4, 2), (20, 0.25, 5), (7, 0, 0)])
def test_a_fixed_share_of_the_clients_reviews(clients, share, expected):
    for round_number in range(3):
        assert len(roles(clients, round_number, share=share)) == expected


def test_roles_change_from_round_to_round_and_follow_from_the_seed():
    assert len({tuple(roles(10, round_number)) for round_number in range(6)}) > 3
    assert roles(10, 2) == roles(10, 2)
    assert roles(10, 2, seed=1) != roles(10, 2)


def test_nobody_reviews_in_the_first_task():
    learner = second_task_client()
    learner.teacher = None
    for rank in range(5):
        learner.place = Place(rank, 5, 0, 0)
        CFeD().begin_round(learner)
        assert not learner.notes["reviews"]


def reviewer(**settings):
    learner, method = second_task_client(), CFeD(**settings)
    learner.place = Place(roles(5, 3)[0], 5, 3, 0)
    method.begin_round(learner)
    assert learner.notes["reviews"]
    return learner, method


def distance(learner, module, x, temperature=2.0):
    """0.1 of the cross-entropy between softened answers, written out."""
    p = (learner.teacher(x.float() / 255) / temperature).softmax(dim=1)
    q = (module(x.float() / 255) / temperature).log_softmax(dim=1)
    return 0.1 * -(p * q).sum(dim=1).mean()


def test_a_reviewers_gradient_is_that_of_the_distance_to_the_teachers_answers():
    learner, method = reviewer()
    plain = copy.deepcopy(learner.model.module)
    batch = {"x": images(8, 3)["x"]}
    step = method.observe(learner, batch)
    loss = distance(learner, plain, batch["x"])
    torch.testing.assert_close(learner.gradient, flat_gradient(plain, loss), rtol=1e-4, atol=1e-7)
    assert step.losses == {"review": pytest.approx(loss.item(), rel=1e-5)}
    assert step.remember is None, "nothing of the tasks was seen"


def test_a_reviewer_reads_its_share_of_the_surrogate_set_for_as_many_steps_as_its_data_takes():
    learner, method = reviewer()
    stream = [images(8, 1), images(8, 2), images(3, 3)]
    batches = list(method.batches(learner, iter(stream)))
    assert [len(batch["x"]) for batch in batches] == [8, 8, 3]
    share = {row.numpy().tobytes() for row in surrogate(learner)}
    for batch in batches:
        assert batch.keys() == {"x"}, "no labels"
        rows = {row.numpy().tobytes() for row in batch["x"]}
        assert len(rows) == len(batch["x"])
        assert rows <= share


def test_a_learner_does_what_fedavg_does():
    learner, other = second_task_client(), second_task_client()
    learner.place = Place(next(rank for rank in range(5) if rank not in roles(5, 3)), 5, 3, 0)
    stream = [images(8, seed) for seed in range(3)]
    trained = [
        client_update(one, iter(stream), method, torch.optim.SGD([one.model.weights], lr=0.1))
        for one, method in ((learner, CFeD()), (other, FedAvg()))
    ]
    assert torch.equal(learner.model.weights, other.model.weights)
    assert trained[0].losses() == trained[1].losses()
    assert learner.buffer.seen == other.buffer.seen == 34, "it remembers its batches, besides the ten that were there"


def test_with_no_division_everybody_adds_the_distance_to_every_batch():
    learner, method = second_task_client(), CFeD(review_share=0)
    plain = copy.deepcopy(learner.model.module)
    twin = torch.Generator()
    twin.set_state(learner.generator.get_state())
    x = surrogate(learner)[torch.randperm(30, generator=twin)[:8]]
    method.begin_round(learner)
    batch = images(8, 3)
    assert list(method.batches(learner, [batch])) == [batch]
    step = method.observe(learner, batch)
    loss = functional.cross_entropy(plain(batch["x"].float() / 255), batch["y"]) + distance(learner, plain, x)
    torch.testing.assert_close(learner.gradient, flat_gradient(plain, loss), rtol=1e-4, atol=1e-7)
    assert step.losses.keys() == {"classification", "review"}
    assert step.remember is batch


def weights_of(method, rounds):
    federation = SmallFederation(method, rounds_per_task=2)
    for _ in range(rounds):
        federation.step()
    return federation.weights


def test_the_first_task_is_fedavg_bit_for_bit():
    ours, theirs = weights_of(CFeD(), 2), weights_of(FedAvg(), 2)
    assert all(np.array_equal(ours[name], array) for name, array in theirs.items())
    ours, theirs = weights_of(CFeD(), 3), weights_of(FedAvg(), 3)
    assert not any(np.array_equal(ours[name], array) for name, array in theirs.items()), "from the second on it is not"


@pytest.mark.parametrize("wrap", [lambda method: method, FedAGEM], ids=["plain", "fedagem"])
def test_without_reviewers_and_coefficient_it_is_fedavg_bit_for_bit(wrap):
    off, plain = (weights_of(wrap(method), 5) for method in (CFeD(review_share=0, coefficient=0), FedAvg()))
    assert all(np.array_equal(off[name], array) for name, array in plain.items())


def test_a_coefficient_of_zero_moves_no_statistics():
    """The pass over the surrogate set is left out."""
    learners = []
    for method in (CFeD(review_share=0, coefficient=0), FedAvg()):
        learner = second_task_client()
        torch.manual_seed(0)
        learner.model = type(learner.model)(resnet18_cifar(CLASSES, 4).train())
        learner.teacher = copy.deepcopy(learner.model.module).eval()
        batch = images(8, 3, side=16)
        batch["x"] = batch["x"].expand(-1, 3, -1, -1)
        method.begin_round(learner)
        method.observe(learner, batch)
        learners.append(learner)
    ours, theirs = (learner.model.state_dict() for learner in learners)
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


@pytest.mark.parametrize("share", [None, {"x": torch.zeros(0, 1, 4, 4, dtype=torch.uint8)}], ids=["none", "empty"])
def test_a_client_without_a_share_says_so(share):
    learner, method = reviewer()
    learner.data = TaskData(images(10, 1), share)
    with pytest.raises(PlanError, match=r"this client has no share of a surrogate data set: name one in data_loader"):
        list(method.batches(learner, [images(8, 1)]))


def test_a_reviewer_is_refined_by_g_ref_like_anybody():
    federation = SmallFederation(FedAGEM(CFeD(coefficient=4.0)), rounds_per_task=2)
    federation.run(2)
    reviewed = [report for report in federation.reports if report.losses().keys() == {"review"}]
    assert len(reviewed) == 2
    assert sum(report.refined for report in reviewed) > 0


@pytest.mark.parametrize("settings", [{"coefficient": 4.0}, {"review_share": 0.0, "coefficient": 1.0}])
def test_it_beats_fedavg_by_a_tenth_on_digits_that_come_two_by_two(settings):
    """The surrogate set has digits of all classes, without labels."""
    ours, theirs = (SmallFederation(method, seed=1).run().accuracy() for method in (CFeD(**settings), FedAvg()))
    assert ours > theirs + 0.1


@pytest.mark.parametrize("settings", [{"review_share": 1.0}, {"coefficient": -0.1}, {"temperature": 0.0}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(PlanError, match=rf"task_runner\.settings\.method_settings\.{next(iter(settings))} must be"):
        CFeD(**settings)
