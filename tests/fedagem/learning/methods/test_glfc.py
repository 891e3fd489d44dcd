"""GLFC: its weights and its loss against autograd, its prototypes, and which model is the teacher."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client_state import ClientState, ClientStateStore, Moment
from fedagem.learning.exemplars import features
from fedagem.learning.learner import CurrentTask
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.glfc import GLFC, compensation
from fedagem.learning.methods.icarl import ICaRL
from fedagem.learning.server_side import RemembersBestModel
from tests.support.second_task import (
    CLASSES,
    OLD,
    first_task_client,
    flat_gradient,
    g_ref,
    images,
    next_replay,
    second_task_client,
)
from tests.support.small_federation import SmallFederation, TaskData

SEEN = [0, 1, 2, 3]


@given(st.lists(st.tuples(st.floats(-6, 6), st.booleans()), min_size=1, max_size=20))
def test_the_weights_of_old_and_of_new_samples_average_one(samples):
    z = torch.zeros(len(samples), 3)
    z[:, 1] = torch.tensor([value for value, _ in samples])
    truth = torch.zeros(len(samples), 3)
    truth[:, 1] = 1
    old = torch.tensor([is_old for _, is_old in samples])
    weights = compensation(z, truth, old)
    distance = 1 - z[:, 1].sigmoid()
    for group in (old, ~old):
        if group.any():
            assert weights[group].mean() == pytest.approx(1, rel=1e-4)
            torch.testing.assert_close(weights[group], distance[group] / distance[group].mean(), rtol=1e-4, atol=1e-6)


def test_samples_that_are_known_for_certain_have_no_weight_and_no_division_by_zero():
    weights = compensation(torch.full((4, 1), 200.0), torch.ones(4, 1), torch.tensor([True, True, False, False]))
    assert weights.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("distillation", [0.5, 0.0, 1.0])
def test_the_gradient_is_that_of_compensation_and_relations(distillation):
    learner = second_task_client(exemplars=15)
    plain = copy.deepcopy(learner.model.module)
    batch = images(8, 3)
    replay = next_replay(learner, 3)  # 8 * 15 / 40
    x = torch.cat([batch["x"], replay["x"]]).float() / 255
    y = torch.cat([batch["y"], replay["y"]])
    step = GLFC(distillation=distillation).observe(learner, batch)
    z, truth = plain(x)[:, SEEN], functional.one_hot(y, 4).float()
    distance = (z.detach().sigmoid()[torch.arange(len(y)), y] - 1).abs()
    old = y < 2
    weights = torch.where(old, distance / distance[old].mean(), distance / distance[~old].mean())
    compensated = (weights[:, None] * functional.binary_cross_entropy_with_logits(z, truth, reduction="none")).mean()
    targets = truth.clone()
    assert learner.teacher is not None
    targets[:, list(OLD)] = learner.teacher(x).sigmoid()[:, list(OLD)]
    related = functional.binary_cross_entropy_with_logits(z, targets)
    loss = (1 - distillation) * compensated + distillation * related
    torch.testing.assert_close(learner.gradient, flat_gradient(plain, loss), rtol=1e-4, atol=1e-6)
    assert step.losses["distillation"] == pytest.approx((distillation * related).item(), rel=1e-5)
    assert step.remember is None


def test_a_batch_without_exemplars_is_weighted_too():
    learner = second_task_client(exemplars=0)
    GLFC().observe(learner, images(8, 3))
    assert torch.isfinite(learner.gradient).all()
    assert (learner.gradient != 0).any()


def test_the_first_task_is_plain_binary_cross_entropy():
    ours, theirs = first_task_client(), first_task_client()
    batch = images(8, 3, OLD)
    assert GLFC().observe(ours, batch).losses == ICaRL().observe(theirs, batch).losses
    assert torch.equal(ours.gradient, theirs.gradient)


def test_g_ref_is_the_gradient_of_the_one_hot_loss_on_exemplars():
    ours, theirs = (g_ref(method, second_task_client()) for method in (GLFC(), ICaRL()))
    assert torch.equal(ours, theirs)


def after_first_round(**settings):
    learner, method = second_task_client(), GLFC(**settings)
    method.begin_round(learner)
    return learner, method, method.end_round(learner)


def test_in_its_first_round_a_client_has_no_prototypes_and_makes_one_of_each_class():
    learner, _, published = after_first_round(perturbation_steps=0)
    assert published["score"].tolist() == [0, 0]
    prototypes = learner.kept["prototypes"]
    assert prototypes["task"] == 1
    assert prototypes["y"].tolist() == [2, 3]
    samples = learner.data.samples()
    for x, label in zip(prototypes["x"], (2, 3), strict=True):
        members = samples["x"][samples["y"] == label]
        f = features(learner, {"x": members})
        nearest = members[(f - f.mean(dim=0)).norm(dim=1).argmin()]
        assert torch.equal(x, nearest.float() / 255)


def test_a_perturbed_prototype_is_more_like_its_class():
    plain, one, fifty = (after_first_round(perturbation_steps=steps)[0] for steps in (0, 1, 50))
    before = plain.kept["prototypes"]
    x = before["x"].clone().requires_grad_()
    loss = functional.cross_entropy(plain.logits({"x": x}), before["y"], reduction="sum")
    expected = before["x"] - 0.2 * torch.autograd.grad(loss, x)[0]
    torch.testing.assert_close(one.kept["prototypes"]["x"], expected, rtol=1e-5, atol=1e-6)
    after = functional.cross_entropy(fifty.logits(fifty.kept["prototypes"]), before["y"], reduction="sum")
    assert after < 0.9 * loss
    assert torch.equal(fifty.gradient, torch.zeros_like(fifty.gradient)), "the gradient of the model is not touched"


def test_later_rounds_score_the_model_that_they_begin_with_on_the_same_prototypes():
    learner, method, _ = after_first_round()
    kept = copy.deepcopy(learner.kept)
    with torch.no_grad():
        learner.model.module[-1].bias[2] += 100
    learner.notes.clear()
    method.prepare(learner)
    method.begin_round(learner)
    assert learner.model.module.training
    with torch.no_grad():
        learner.model.module[-1].bias[2] -= 200  # what training does to it does not count
    assert method.end_round(learner)["score"].tolist() == [1, 2]
    assert torch.equal(learner.kept["prototypes"]["x"], kept["prototypes"]["x"])


def test_the_end_of_a_task_scores_the_last_model_and_forgets_the_prototypes():
    learner, method, _ = after_first_round()
    learner.notes.clear()
    with torch.no_grad():
        learner.model.module[-1].bias[5] += 100  # a class to come is never an answer
        learner.model.module[-1].bias[3] += 50
    assert method.end_task(learner)["score"].tolist() == [1, 2]
    assert learner.kept == {}
    assert set(learner.buffer.contents()["y"].tolist()) == {0, 1, 2, 3}


def test_prototypes_of_an_earlier_task_do_not_score_this_one():
    """A client that missed the end of a task still has them."""
    learner, method, _ = after_first_round()
    learner.task = CurrentTask(2, range(4, 6), (0, 1, 2, 3), sequential=True)
    learner.data = TaskData(images(20, 5, (4, 5)), None)
    learner.notes.clear()
    method.begin_round(learner)
    assert method.end_round(learner)["score"].tolist() == [0, 0]
    assert learner.kept["prototypes"]["task"] == 2
    assert learner.kept["prototypes"]["y"].tolist() == [4, 5]


def test_a_client_without_data_has_nothing_to_score():
    learner, method = second_task_client(), GLFC()
    learner.data = TaskData({name: values[:0] for name, values in images(1, 0).items()}, None)
    method.begin_round(learner)
    assert method.end_round(learner)["score"].tolist() == [0, 0]
    assert method.end_task(learner)["score"].tolist() == [0, 0]


def model(number):
    return {"w": np.array([number], np.float32)}


def play(server, begins, scores, last):
    """A task whose rounds begin with models `begins`, begins + 1, ...; returns the teacher after it."""
    for offset, score in enumerate(scores):
        server.step(model(begins + offset), model(begins + offset + 1))
        server.take("train", {"score": np.array(score, np.float32)})
    server.take("end_task", {"score": np.array(last, np.float32)})
    server.end_task(model(begins + len(scores)))
    return teacher_of(server)


def teacher_of(server):
    return float(server.previous_model()["w"][0])


@pytest.mark.parametrize(
    ("scores", "last", "expected"),
    [
        ([(0, 0), (3, 4), (2, 4)], (1, 4), 1),
        ([(0, 0), (3, 4), (6, 8)], (1, 4), 2),  # equally good: the later one
        ([(0, 0), (3, 4), (2, 4)], (9, 12), 3),
        ([(0, 0), (0, 4), (0, 4)], (0, 4), 3),
        ([(0, 0)], (0, 0), 1),  # nobody has prototypes: the last one
        ([(0, 0), (2, 4)], (0, 0), 1),
        ([(0, 0), (1, 2), (3, 8)], (0, 4), 1),  # what counts is the share
    ],
)
def test_the_best_model_of_a_task_is_the_next_ones_teacher(scores, last, expected):
    server = RemembersBestModel(GLFC().exchanges(second_task_client().model))
    assert server.previous_model() is None
    assert play(server, 0, scores, last) == expected


def test_each_task_begins_its_own_search():
    server = RemembersBestModel([])
    assert play(server, 0, [(0, 0), (4, 4)], (3, 4)) == 1
    assert play(server, 10, [(0, 0), (1, 4)], (1, 4)) == 12


def test_the_teacher_changes_at_the_end_of_a_task_only():
    server = RemembersBestModel([])
    play(server, 0, [(0, 0), (4, 4)], (3, 4))
    server.step(model(7), model(8))
    server.take("train", {"score": np.array([4, 4], np.float32)})
    assert teacher_of(server) == 1


@pytest.mark.parametrize("stop", range(4))
def test_a_restarted_server_chooses_the_same(stop):
    scores = [(0, 0), (3, 4), (3, 4), (1, 4)]
    straight = RemembersBestModel([])
    expected = play(straight, 0, scores, (2, 4))
    first, second = RemembersBestModel([]), RemembersBestModel([])
    for offset, score in enumerate(scores[:stop]):
        first.step(model(offset), model(offset + 1))
        first.take("train", {"score": np.array(score, np.float32)})
    second.load_state_dict(first.state_dict())
    assert play(second, stop, scores[stop:], (2, 4)) == expected == 2


@pytest.mark.parametrize("killed", ["before the state was saved", "after the state was saved"])
def test_the_end_of_a_task_can_be_repeated(tmp_path, killed):
    def client(state):
        learner = second_task_client()
        learner.buffer, learner.kept = state.buffer, state.kept
        return learner

    def store():
        return ClientStateStore(tmp_path, lambda: ReplayBuffer(20), "plan")

    learner, method, _ = after_first_round()
    store().save(ClientState(learner.buffer, learner.kept), Moment(3))
    first, end = store(), Moment(3, ends_task=True)
    learner = client(first.before(end))
    sent = method.end_task(learner)
    if killed == "after the state was saved":
        first.save(ClientState(learner.buffer, learner.kept), end)
    repeated = client(store().before(end))
    again = method.end_task(repeated)
    assert sent["score"][1] == 2
    assert torch.equal(sent["score"], again["score"])
    for name, values in learner.buffer.contents().items():
        assert torch.equal(values, repeated.buffer.contents()[name])


def test_it_beats_fedavg_by_half_on_digits_that_come_two_by_two():
    ours, theirs = (SmallFederation(method).run().accuracy() for method in (GLFC(reduction="sum"), FedAvg()))
    assert ours > theirs + 0.5


def test_the_teacher_is_one_of_the_models_of_the_task_before():
    federation = SmallFederation(GLFC(reduction="sum"), rounds_per_task=3)
    models = []
    for _ in range(6):
        federation.step()
        models.append(federation.weights)
    assert federation.previous[:3] == [None] * 3
    teachers = [(teacher or {})["1.bias"].tolist() for teacher in federation.previous[3:6]]
    assert teachers[0] == teachers[1] == teachers[2]
    assert teachers[0] in [model["1.bias"].tolist() for model in models[:3]]


@pytest.mark.parametrize("settings", [{"distillation": 1.5}, {"perturbation_steps": -1}, {"perturbation_lr": 0.0}])
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(PlanError, match=rf"task_runner\.settings\.method_settings\.{next(iter(settings))} must be"):
        GLFC(**settings)


def test_classes_to_come_are_never_an_answer():
    learner, batch = second_task_client(), images(9, 4)
    scores = GLFC().scores(learner, batch)
    assert scores.shape == (9, CLASSES)
    assert torch.isneginf(scores[:, 4:]).all()
    assert torch.equal(scores[:, :4], learner.logits(batch)[:, :4])
