"""How long a study takes on this machine: its samples, times what one sample costs here."""

import time
from collections.abc import Sequence

import torch

from fedagem.errors import FedAGemError
from fedagem.learning.trainer import Trainer
from fedagem.plans.plan import Plan
from fedagem.studies.runs import StudyRun
from fedagem.tasks.settings import StreamSettings

_SIZES = {
    "digits": (1438, 359, (1, 28, 28)),
    "mnist": (60000, 10000, (1, 28, 28)),
    "cifar10": (50000, 10000, (3, 32, 32)),
    "cifar100": (50000, 10000, (3, 32, 32)),
    "tiny_imagenet": (100000, 10000, (3, 64, 64)),
    "yahooqa": (1400000, 60000, (768,)),
}
"""Training samples, test samples and shape of each data set."""
_METHOD_COST = {"fedavg": 1, "fedprox": 1, "fedcurv": 1.4, "gpm": 1.2, "fot": 1, "l2p": 1.4, "derpp": 3}
"""Batches that a method computes for each batch it is given; most replay or ask a teacher: as much again."""
_FORWARD_COST = 1 / 3
"""A forward pass within a training step."""


class Estimator:
    """Times each network once."""

    def __init__(self) -> None:
        self._costs: dict[str, float | None] = {}

    def seconds(self, runs: Sequence[StudyRun], jobs: int) -> float | None:
        """How long the runs take with so many at a time; None if a data set is not known here."""
        total = 0.0
        for plan in {run.directory: run.plan for run in runs}.values():
            cost = self._cost(plan)
            if cost is None:
                return None
            total += _samples(plan) * cost
        return total / jobs

    def _cost(self, plan: Plan) -> float | None:
        """Seconds that one sample costs in training."""
        dataset = _stream(plan).dataset
        if dataset not in _SIZES:
            return None
        key = repr((plan.training.model, dataset))
        if key not in self._costs:
            try:
                self._costs[key] = _time_a_step(plan)
            except FedAGemError:  # its weights are missing: the row is left out
                self._costs[key] = 0.0
        return self._costs[key]


def _stream(plan: Plan) -> StreamSettings:
    assert isinstance(plan.data, StreamSettings)
    return plan.data


def _samples(plan: Plan) -> float:
    """Samples that a run computes, in units of training steps."""
    stream = _stream(plan)
    train, test, _ = _SIZES[stream.dataset]
    share = stream.tasks.count if stream.tasks.kind == "sequential" else 1
    per_class = stream.dataset_settings.get("per_class")
    if per_class:
        train, test = min(train, 10 * per_class), min(test, 10 * per_class)
    per_round = plan.rounds.participation.per_round or stream.clients
    per_client = min(train / share / stream.clients, stream.samples_per_client or train)
    per_client = stream.asynchronous_samples or per_client
    learned: float = plan.aggregator.rounds_to_train * per_round * per_client * stream.epochs
    tested = (stream.tasks.count + 1) * stream.tasks.count * min(test / share, stream.test_samples or test)
    return learned * _METHOD_COST.get(plan.training.method, 2) + tested * _FORWARD_COST


def _time_a_step(plan: Plan, batch: int = 32, steps: int = 3) -> float:
    trainer = Trainer.build(plan.training, 0)
    shape = _SIZES[_stream(plan).dataset][2]
    x = torch.zeros(batch, *shape, dtype=torch.uint8 if len(shape) == 3 else torch.float32)
    y = torch.zeros(batch, dtype=torch.int64)
    optimizer = trainer.fresh_optimizer(0)
    began = 0.0
    for step in range(steps + 1):
        if step == 1:
            began = time.perf_counter()
        logits = trainer.objective.logits(trainer.model.module, {"x": x})
        trainer.model.gradient.zero_()
        torch.stack(list(trainer.objective.losses(logits, {"y": y}).values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return (time.perf_counter() - began) / (steps * batch)
