"""The global model between two rounds, as the aggregator finds it again after a crash."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedagem.errors import CorruptStateError
from fedagem.state_file import read_state, write_state
from src.results import Array


class Checkpoint:
    """One file, replaced atomically after every round."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, round_number: int, best_score: float | None, model: Mapping[str, Array]) -> None:
        """Remember that `round_number` begins with this model."""
        tensors = {name: torch.from_numpy(np.asarray(array)) for name, array in model.items()}
        write_state(self.path, {"round": round_number, "best_score": best_score, "model": tensors})

    def load(self, expected: Mapping[str, Array]) -> tuple[int, float | None, dict[str, Array]] | None:
        """The round to go on with, its best score and its model; None where no round was finished yet."""
        if not self.path.exists():
            return None
        state = read_state(self.path)
        model = {name: tensor.numpy() for name, tensor in state["model"].items()}
        if {n: a.shape for n, a in model.items()} != {n: a.shape for n, a in expected.items()}:
            raise CorruptStateError(
                f"{self.path} holds another model than the plan's initial state: remove it to start afresh."
            )
        return state["round"], state["best_score"], model
