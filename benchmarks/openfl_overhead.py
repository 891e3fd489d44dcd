"""OpenFL's own cost per round: 10 clients in one process, ResNet-18, tasks that compute nothing.

Stock is OpenFL's aggregator with its pandas TensorDB and persistence and one aggregation per round; ours makes two
aggregations (g_ref and the model). Stock gets our lossless pipeline, because its own fails on numpy 2.4.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from openfl.component.aggregator.aggregator import Aggregator
from openfl.component.assigner.static_grouped_assigner import StaticGroupedAssigner
from openfl.component.collaborator.collaborator import Collaborator
from openfl.interface.aggregation_functions import WeightedAverage
from openfl.utilities import TensorKey

from benchmarks.measurement import Measurement
from models.resnet_cifar import resnet18_cifar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workspace"))

from src.aggregator import StagedAggregator
from src.assigner import StagedAssigner
from src.collaborator import StagedCollaborator
from src.link import LocalLink
from src.pipeline import ExactPipeline
from src.task_results import EXCHANGE, MODEL, TRAINED

_PLAN = Path(__file__).resolve().parent.parent / "plan" / "sequential_cifar10.yaml"
_CLIENTS = [f"client_{i}" for i in range(10)]
_ROUNDS = 3


class _IdleRunner:
    """Stands for a task runner whose training takes no time."""

    def __init__(self, model: dict[str, Any]) -> None:
        self.model = model
        self.gradient = np.zeros(sum(array.size for array in model.values() if array.dtype.kind == "f"), np.float32)

    def get_required_tensorkeys_for_function(self, function: str, **kwargs: Any) -> list[TensorKey]:
        keys = [TensorKey(name, "GLOBAL", 0, False, MODEL) for name in self.model]
        return keys + ([TensorKey("g_ref", "GLOBAL", 0, False, EXCHANGE)] if kwargs.get("wants") else [])

    def train(self, col_name: str, round_num: int, **_: Any) -> tuple[dict[TensorKey, Any], dict[TensorKey, Any]]:
        return {TensorKey(n, col_name, round_num, False, TRAINED): array for n, array in self.model.items()}, {}

    def buffer_gradient(
        self, col_name: str, round_num: int, **_: Any
    ) -> tuple[dict[TensorKey, Any], dict[TensorKey, Any]]:
        return {TensorKey("g_ref", col_name, round_num, False, EXCHANGE): self.gradient}, {}

    def validate(self, col_name: str, round_num: int, **_: Any) -> tuple[dict[TensorKey, Any], dict[TensorKey, Any]]:
        return {TensorKey("acc", col_name, round_num, True, ("metric", "validate_agg")): np.float32(0.5)}, {}

    def get_train_data_size(self) -> int:
        return 1

    get_valid_data_size = get_train_data_size

    def set_optimizer_treatment(self, treatment: str) -> None:
        pass


class _StockClient:
    """Direct calls into a stock aggregator."""

    def __init__(self, aggregator: Aggregator, name: str) -> None:
        self._aggregator, self._name = aggregator, name

    def get_aggregated_tensor(self, name: str, round_number: int, report: bool, tags: Any, lossless: bool) -> Any:
        return self._aggregator.get_aggregated_tensor(name, round_number, report, tags, lossless, self._name)

    def send_local_task_results(self, round_number: int, task: str, size: int, tensors: Any) -> None:
        self._aggregator.send_local_task_results(self._name, round_number, task, size, tensors)


def main() -> None:
    """Measure both in this process and print the ratio."""
    model = {name: tensor.numpy() for name, tensor in resnet18_cifar().state_dict().items()}
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("save").mkdir()
        Path("plan").mkdir()
        shutil.copy(_PLAN, "plan/plan.yaml")
        stock, ours = _stock_seconds(model), _our_seconds(model)
        os.chdir("/")
    print(f"stock {stock:.2f} s per round, ours {ours:.2f} s per round of two aggregations")
    Measurement("stock OpenFL / ours, seconds per round", stock / ours, "x", 4.0, at_least=True).show()


def _stock_seconds(model: dict[str, Any]) -> float:
    tasks = {
        "validate": {"function": "validate", "kwargs": {}, "aggregation_type": WeightedAverage()},
        "train": {"function": "train", "kwargs": {}, "aggregation_type": WeightedAverage()},
    }
    group = {"name": "all", "percentage": 1.0, "collaborators": _CLIENTS, "tasks": ["validate", "train"]}
    assigner = StaticGroupedAssigner(
        task_groups=[group], tasks=tasks, authorized_cols=_CLIENTS, rounds_to_train=_ROUNDS
    )
    aggregator = Aggregator(
        **_common(model, assigner), use_delta_updates=False, db_store_rounds=2, persistent_db_path="tensor.db"
    )
    collaborators = [
        Collaborator(
            collaborator_name=name,
            client=_StockClient(aggregator, name),
            task_runner=_IdleRunner(model),
            task_config=tasks,
            db_store_rounds=2,
            **_identity(),
        )
        for name in _CLIENTS
    ]

    def play_round(number: int) -> None:
        for collaborator in collaborators:
            for task in ("validate", "train"):
                collaborator.do_task(SimpleNamespace(name=task), number)
            collaborator.tensor_db.clean_up(2)

    return _seconds_per_round(play_round)


def _our_seconds(model: dict[str, Any]) -> float:
    tasks = {
        "buffer_gradient": {"function": "buffer_gradient", "kwargs": {"publishes": ["g_ref"]}},
        "train": {"function": "train", "kwargs": {"publishes": ["model"], "wants": ["g_ref"]}},
    }
    stages = [{"name": name, "tasks": [name]} for name in tasks]
    assigner = StagedAssigner(stages, tasks=tasks, authorized_cols=_CLIENTS, rounds_to_train=_ROUNDS)
    runner = _IdleRunner(model)
    shapes = {"exchange/g_ref": np.array(runner.gradient.shape)}
    aggregator = StagedAggregator(**_common({**model, **shapes}, assigner), poll_seconds=0)
    collaborators = [
        StagedCollaborator(
            collaborator_name=name,
            client=LocalLink(aggregator, name),
            task_runner=runner,
            task_config=tasks,
            **_identity(),
        )
        for name in _CLIENTS
    ]

    def play_round(number: int) -> None:
        while aggregator.round_number == number:
            for collaborator in collaborators:
                collaborator.step()

    return _seconds_per_round(play_round)


def _common(model: dict[str, Any], assigner: Any) -> dict[str, Any]:
    return {
        "aggregator_uuid": "aggregator",
        "federation_uuid": "federation",
        "authorized_cols": _CLIENTS,
        "init_state_path": "save/init.pbuf",
        "best_state_path": "save/best.pbuf",
        "last_state_path": "save/last.pbuf",
        "assigner": assigner,
        "rounds_to_train": _ROUNDS,
        "compression_pipeline": ExactPipeline(),
        "initial_tensor_dict": model,
        "callbacks": [],
    }


def _identity() -> dict[str, Any]:
    return {
        "aggregator_uuid": "aggregator",
        "federation_uuid": "federation",
        "compression_pipeline": ExactPipeline(),
        "callbacks": [],
    }


def _seconds_per_round(play_round: Any) -> float:
    """The mean after a first round that warms up."""
    play_round(0)
    began = time.perf_counter()
    for number in range(1, _ROUNDS):
        play_round(number)
    return (time.perf_counter() - began) / (_ROUNDS - 1)


if __name__ == "__main__":
    main()
