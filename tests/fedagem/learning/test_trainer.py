"""The parts of a client that a plan describes."""

import pytest
import torch

from fedagem.errors import PlanError
from fedagem.learning.client import client_update
from fedagem.learning.learner import Learner
from fedagem.learning.objective import Classification
from fedagem.learning.trainer import Component, OptimizerSettings, Trainer, TrainingSettings
from fedagem.settings import parse_settings


def trainer(clip_norm: float | None) -> Trainer:
    linear = Component(template="torch.nn.Linear", settings={"in_features": 3, "out_features": 1, "bias": False})
    return Trainer.build(TrainingSettings(model=linear, optimizer=OptimizerSettings(lr=0.5, clip_norm=clip_norm)), 0)


@pytest.mark.parametrize(
    ("clip_norm", "expected"), [(None, [3.0, 0.0, 4.0]), (2.5, [1.5, 0.0, 2.0]), (6.0, [3.0, 0.0, 4.0])]
)
def test_only_gradients_longer_than_the_limit_are_shortened(clip_norm: float | None, expected: list[float]) -> None:
    client = trainer(clip_norm)
    before = client.model.weights.detach().clone()
    client.model.gradient.copy_(torch.tensor([3.0, 0.0, 4.0]))
    client.fresh_optimizer(0).step()
    torch.testing.assert_close(client.model.weights.detach(), before - 0.5 * torch.tensor(expected))


def test_the_learning_rate_decays_from_round_to_round() -> None:
    linear = Component(template="torch.nn.Linear", settings={"in_features": 3, "out_features": 1})
    client = Trainer.build(TrainingSettings(model=linear, optimizer=OptimizerSettings(lr=0.8, decay=0.5)), 0)
    rates = [client.fresh_optimizer(round_num).param_groups[0]["lr"] for round_num in range(3)]
    assert rates == [0.8, 0.4, 0.2]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"decay": 0.0}, "optimizer.decay must be positive, not 0.0."),
        ({"decay": 1.5}, "optimizer.decay must be at most 1, not 1.5."),
        ({"clip_norm": 0.0}, "optimizer.clip_norm must be positive, not 0.0."),
    ],
)
def test_an_optimizer_that_cannot_work_is_refused(setting: dict[str, float], sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        parse_settings(OptimizerSettings, {"lr": 0.1, **setting}, "optimizer")
    assert refused.value.message == sentence


def test_a_model_whose_file_is_missing_is_refused_in_one_sentence() -> None:
    component = Component(
        template="models.darknet_weights.pretrained_tiny_yolo",
        settings={"weights": "gone.weights", "classes": ["car"]},
    )
    with pytest.raises(PlanError, match=r"model \(models\.darknet.*cannot be built: .*No such file.*gone\.weights"):
        component.build("task_runner.settings.model")


def test_a_class_that_moved_is_still_found_by_its_older_path() -> None:
    older = Component(template="fedagem.classification.Classification").build("task_runner.settings.objective")
    assert isinstance(older, Classification)


def trained(compiled: bool) -> torch.Tensor:
    """The weights after three batches, of which the last one is shorter."""
    network = Component(template="models.mnist_cnn.McMahanCNN")
    client = Trainer.build(
        TrainingSettings(model=network, optimizer=OptimizerSettings(lr=0.05), fedagem=False, compile=compiled), 0
    )
    assert (client.model.module._compiled_call_impl is not None) == compiled
    rng = torch.Generator().manual_seed(0)
    learner = Learner(client.model, Classification(), client.fresh_buffer(), rng)
    batches = [
        {
            "x": torch.randint(256, (size, 1, 28, 28), dtype=torch.uint8, generator=rng),
            "y": torch.randint(10, (size,), generator=rng),
        }
        for size in (8, 8, 5)
    ]
    client_update(learner, batches, client.method, client.fresh_optimizer(0))
    return client.model.weights.detach()


@pytest.mark.nightly
def test_a_compiled_network_learns_the_same() -> None:
    """Really compiled, which takes a while the first time; its sums are rounded in another order."""
    plain, compiled = trained(False), trained(True)
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(trained(True), compiled)


def test_a_network_is_compiled_if_the_plan_says_so() -> None:
    network = Component(template="models.mnist_cnn.McMahanCNN")
    for wanted in (False, True):
        settings = TrainingSettings(model=network, optimizer=OptimizerSettings(lr=0.05), compile=wanted)
        assert (Trainer.build(settings, 0).model.module._compiled_call_impl is not None) == wanted
