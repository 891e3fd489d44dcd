"""A federation in process with clients whose arithmetic can be followed by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from openfl.component.aggregator.straggler_handling import WaitForAllPolicy
from openfl.protocols import utils
from openfl.utilities import TensorKey

from fedagem.learning.exchange import Exchange
from fedagem.learning.model_file import read_model
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan
from src.aggregator import StagedAggregator
from src.assigner import StagedAssigner
from src.link import LocalLink
from src.pipeline import ExactPipeline
from src.task_results import EXCHANGE, METRIC, RATIO, TRAINED, WEIGHT, Array
from src.task_results import MODEL as MODEL_KIND

MODEL: dict[str, Array] = {"w": np.array([1.0, 2.0, 3.0], np.float32), "steps": np.array(0, np.int64)}

G_REF = Exchange("g_ref", (3,), "buffer_gradient")

STAGES: list[dict[str, Any]] = [
    {"name": "baseline", "tasks": ["evaluate_untrained"], "rounds": "first"},
    {"name": "buffer_gradient", "tasks": ["buffer_gradient"]},
    {"name": "train", "tasks": ["train"]},
    {"name": "evaluate", "tasks": ["evaluate"], "every": 2},
]
TASKS: dict[str, Any] = {
    "evaluate_untrained": {"function": "evaluate", "kwargs": {"after_rounds": 0}},
    "buffer_gradient": {"function": "buffer_gradient", "kwargs": {"publishes": ["method"]}},
    "train": {"function": "train", "kwargs": {"publishes": ["model", "method"], "wants": ["method"]}},
    "end_task": {"function": "end_task", "kwargs": {"publishes": ["method"], "after_rounds": 1}},
    "evaluate": {"function": "evaluate", "kwargs": {"after_rounds": 1}},
}


def make_aggregator(
    clients: list[str], rounds: int = 2, policy: Any = WaitForAllPolicy, group: str | None = None, **settings: Any
) -> StagedAggregator:
    """An aggregator whose files are in the current directory; it goes on from what it finds there."""
    write_plan()
    stages = settings.pop("stages", STAGES)
    tasks = settings.pop("tasks", TASKS)
    exchanges = [*settings.pop("exchanges", ()), *([G_REF] if settings.pop("fedagem", True) else [])]
    announced = {exchange.announcement: np.array(exchange.shape, np.int64) for exchange in exchanges}
    return StagedAggregator(
        aggregator_uuid="aggregator",
        federation_uuid="federation",
        authorized_cols=clients,
        init_state_path="save/init.pbuf",
        best_state_path="save/best.pbuf",
        last_state_path="save/last.pbuf",
        assigner=StagedAssigner(
            stages,
            tasks=tasks,
            authorized_cols=clients,
            rounds_to_train=rounds,
            selected_task_group=group,
            participation=settings.pop("participation", None),
        ),
        compression_pipeline=ExactPipeline(),
        straggler_handling_policy=policy,
        rounds_to_train=rounds,
        initial_tensor_dict={**{name: array.copy() for name, array in MODEL.items()}, **announced},
        **{"poll_seconds": 0.0, **settings},
    )


def write_plan() -> None:
    """The plan that the federation's model files, checkpoint and clients' states belong to."""
    Path("plan").mkdir(exist_ok=True)
    Path("plan/plan.yaml").write_text(_plan())
    Path("plan/name").write_text("test\n")


@cache
def _plan() -> str:
    network = {"task_runner.settings.model.template": "models.mnist_cnn.SmallCNN"}
    return Plan.load(find_plan("rotated_digits")).changed(network).to_yaml()


def labelled(round_number: int, kinds: dict[tuple[str, ...], dict[str, Any]]) -> dict[TensorKey, Array]:
    return {
        TensorKey(name, "LOCAL", round_number, False, kind): np.asarray(array)
        for kind, arrays in kinds.items()
        for name, array in arrays.items()
    }


@dataclass
class Client:
    """Its buffer gradient is `k * ones`, or nothing in round 0; training adds g_ref and k to the weights."""

    name: str
    aggregator: StagedAggregator
    k: int
    weight: float = 1.0
    done: list[tuple[int, str]] = field(default_factory=list)

    @property
    def link(self) -> LocalLink:
        return LocalLink(self.aggregator, self.name)

    def result(self, task: str, round_number: int) -> dict[tuple[str, ...], dict[str, Any]]:
        function = TASKS[task]["function"]
        if function == "evaluate":
            self.link.fetch("w", round_number + TASKS[task]["kwargs"]["after_rounds"], MODEL_KIND)
            return {RATIO: {"domain_il": np.array([[self.k, 10], [round_number, 10]])}}
        if function == "buffer_gradient":
            buffered = self.weight if round_number else 0.0
            gradient = np.full(3, self.k if buffered else 0, np.float32)
            return {EXCHANGE: {"g_ref": gradient}, WEIGHT: {"weight": np.float32(buffered)}}
        w = self.link.fetch("w", round_number, MODEL_KIND)
        steps = self.link.fetch("steps", round_number, MODEL_KIND)
        g_ref = self.link.fetch("g_ref", round_number, EXCHANGE) if G_REF in self.aggregator.expected.exchanges else 0
        return {
            TRAINED: {"w": (w + g_ref + self.k).astype(np.float32), "steps": steps + 1},
            METRIC: {"loss": np.float64(self.k)},
            WEIGHT: {"weight": np.float32(self.weight)},
        }

    def poll(self) -> tuple[list[str], int, bool]:
        tasks, round_number, _, quit_now = self.link.get_tasks()
        return tasks, round_number, quit_now

    def send(self, task: str, round_number: int, kinds: dict[tuple[str, ...], dict[str, Any]] | None = None) -> None:
        self.done.append((round_number, task))
        given = self.result(task, round_number) if kinds is None else kinds
        self.link.send(round_number, task, labelled(round_number, given))

    def step(self) -> bool:
        """Ask for tasks once and do them; False when the federation is over."""
        tasks, round_number, quit_now = self.poll()
        for task in tasks:
            self.send(task, round_number)
        return not quit_now


def make_clients(aggregator: StagedAggregator, weights: tuple[float, ...] = ()) -> list[Client]:
    names = aggregator.authorized_cols
    chosen = weights or (1.0,) * len(names)
    return [Client(name, aggregator, k, weight) for k, (name, weight) in enumerate(zip(names, chosen, strict=True), 1)]


def run_all(clients: Sequence[Client], limit: int = 200) -> None:
    active = list(clients)
    for _ in range(limit):
        active = [client for client in active if client.step()]
        if not active:
            return
    raise AssertionError(f"the federation did not end; {[client.name for client in active]} still wait")


def model_of(aggregator: StagedAggregator, round_number: int) -> Array:
    return aggregator.lookup("w", round_number, MODEL_KIND, "test")


def to_stage(clients: list[Client], stage: str, round_number: int = 0) -> None:
    """Work until a stage begins."""
    aggregator = clients[0].aggregator
    for _ in range(50):
        for client in clients:
            if (aggregator.round_number, aggregator.progress.stage.name) == (round_number, stage):
                return
            client.step()
    raise AssertionError(f"stage {stage} of round {round_number} never came")


def rows() -> list[dict[str, Any]]:
    """What the aggregator of the current directory has logged."""
    return [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]


def saved_model(name: str) -> tuple[list[float], int]:
    """The weights and the rounds of a model file, and of OpenFL's file of the same name, which must agree."""
    tensors, round_number = utils.deconstruct_model_proto(utils.load_proto(f"save/{name}.pbuf"), ExactPipeline())
    saved = read_model(Path(f"save/{name}.safetensors"))
    weights: list[float] = saved.weights["w"].tolist()
    assert (weights, saved.description.rounds) == (tensors["w"].tolist(), round_number)
    return weights, round_number
