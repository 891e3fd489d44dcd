"""The global model between two rounds, as the aggregator finds it again after a crash."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedagem.errors import CorruptStateError
from fedagem.files import read_state, write_state
from src.task_results import Array


class Checkpoint:
    """One file, replaced atomically after every round."""

    def __init__(self, path: Path, initial: Mapping[str, Array]) -> None:
        self.path = path
        self._origin = _fingerprint(initial)
        """Which initial model the federation began with: a checkpoint of another beginning is not continued."""

    def save(self, round_number: int, best_score: float | None, model: Mapping[str, Array]) -> None:
        """Remember that `round_number` begins with this model."""
        tensors = {name: torch.from_numpy(np.asarray(array)) for name, array in model.items()}
        record = {"round": round_number, "best_score": best_score, "model": tensors, "origin": self._origin}
        write_state(self.path, record)

    def load(self) -> tuple[int, float | None, dict[str, Array]] | None:
        """The round to go on with, its best score and its model; None where no round was finished yet."""
        if not self.path.exists():
            return None
        state = read_state(self.path)
        if state["origin"] != self._origin:
            raise CorruptStateError(
                f"{self.path} is of a federation that began with another initial model: remove it to start afresh, "
                "or put the initial model it began with back."
            )
        model = {name: tensor.numpy() for name, tensor in state["model"].items()}
        return state["round"], state["best_score"], model


def _fingerprint(model: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(model.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
