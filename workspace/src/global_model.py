"""The global model on disk: the checkpoint that a killed aggregator goes on from, and the model files of the run."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from openfl.pipelines.pipeline import TransformationPipeline
from openfl.protocols import utils

from fedagem.errors import CorruptStateError
from fedagem.files import check_origin, read_state, write_file, write_state
from fedagem.learning.model_file import SUFFIX, ModelDescription, write_model
from fedagem.plans.plan import Plan
from src.task_results import Array

Model = Mapping[str, Array]


def describe_model(plan: Plan) -> ModelDescription:
    """What a run's model files say of the model besides its weights, from the plan that the user asked for."""
    described = ModelDescription(
        network=plan.training.model, objective=plan.training.objective, plan=plan.name, plan_digest=plan.digest
    )
    return described.completed()


class Checkpoint:
    """One file, replaced atomically after every round."""

    def __init__(self, path: Path, initial: Model, origin: str) -> None:
        """`origin` names the plan that the checkpoint belongs to."""
        self.path = path
        self._origin = origin
        self._beginning = fingerprint(initial)
        """Which initial model the federation began with: a checkpoint of another beginning is not continued."""

    def save(
        self,
        round_number: int,
        best_score: float | None,
        model: Model,
        server: Mapping[str, Any],
        spent: Mapping[str, int] | None = None,
    ) -> None:
        """Remember that `round_number` begins with this model, and with this state of the method's server side.

        `spent` is how many private releases each client had a part in.
        """
        record = {
            "round": round_number,
            "best_score": best_score,
            "model": _as_tensors(dict(model)),
            "server": _as_tensors(dict(server)),
            "spent": dict(spent or {}),
            "beginning": self._beginning,
            "origin": self._origin,
        }
        write_state(self.path, record)

    def load(self) -> tuple[int, float | None, dict[str, Array], dict[str, Any], dict[str, int]] | None:
        """The round to go on with, its best score, its model, the server's state and what was spent.

        None if no round was finished.
        """
        if not self.path.exists():
            return None
        state = read_state(self.path)
        check_origin(self.path, state, self._origin)
        if state["beginning"] != self._beginning:
            raise CorruptStateError(
                f"{self.path} is of a federation that began with another initial model: remove it to start from the "
                "beginning, or put the initial model it began with back."
            )
        model, server = _as_arrays(state["model"]), _as_arrays(state["server"])
        return state["round"], state["best_score"], model, server, state.get("spent", {})


@dataclass
class GlobalModel:
    """Keeps the last model, the best one and those after chosen rounds.

    Models are written as model files; the last and the best one also as OpenFL's own `.pbuf` files, with the shapes of
    what is exchanged, because `fx model save` reads those.
    """

    last: Path
    best: Path
    checkpoint: Checkpoint
    description: ModelDescription
    shapes: Model
    pipeline: TransformationPipeline
    snapshots: Collection[int] = ()
    """After how many rounds a copy of the model is kept."""
    best_score: float | None = None
    spent: Mapping[str, int] = field(default_factory=dict)
    """How many private releases each client had a part in, as the checkpoint knows."""

    def resume(self) -> tuple[int, dict[str, Array], dict[str, Any]] | None:
        """The round to go on with, its model and the server's state; None if no round was finished yet."""
        if (saved := self.checkpoint.load()) is None:
            return None
        round_number, self.best_score, model, server, self.spent = saved
        return round_number, model, server

    def keep_if_best(self, score: float, rounds: int, model: Model) -> None:
        """Keep a model that was trained for so many rounds if no earlier one has scored as high."""
        if self.best_score is None or score > self.best_score:
            self.best_score = score
            self._write(self.best, rounds, model)

    def finish_round(self, rounds: int, model: Model, server: Mapping[str, Any], is_last: bool) -> None:
        """Put what the next round begins with on disk; a crash before the end of this repeats the round."""
        if rounds in self.snapshots:
            self._write_model_file(self.last.with_name(f"after_round_{rounds}{SUFFIX}"), rounds, model)
        if is_last:
            self._write(self.last, rounds, model)
        self.checkpoint.save(rounds, self.best_score, model, server, self.spent)

    def _write(self, path: Path, rounds: int, model: Model) -> None:
        """Unlike the file that OpenFL would write, it holds the model that the round ended with."""
        proto = utils.construct_model_proto({**model, **self.shapes}, rounds, self.pipeline)
        write_file(path, proto.SerializeToString())
        self._write_model_file(path.with_suffix(SUFFIX), rounds, model)

    def _write_model_file(self, path: Path, rounds: int, model: Model) -> None:
        write_model(path, model, self.description.model_copy(update={"rounds": rounds}))


def _as_tensors(value: Any) -> Any:
    """Plain values with arrays, at any depth, as torch saves them without pickling classes."""
    if isinstance(value, Mapping):
        return {key: _as_tensors(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_tensors(item) for item in value]
    return torch.from_numpy(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _as_arrays(value: Any) -> Any:
    """What `_as_tensors` made tensors of, as arrays again."""
    if isinstance(value, dict):
        return {key: _as_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_arrays(item) for item in value]
    return value.numpy() if isinstance(value, torch.Tensor) else value


def fingerprint(model: Model) -> str:
    """A name for tensors: the same names, types, shapes and values, the same fingerprint."""
    digest = hashlib.sha256()
    for name, array in sorted(model.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
