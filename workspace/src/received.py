"""Keeps what the aggregator received of the newest round's buffer gradients, for `fedagem audit`."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedagem.audit.received import FOLDER, MEAN, MODEL_NAME, round_folder
from fedagem.learning.methods.fedagem import G_REF
from src.task_results import Array


class Received:
    """One round at a time: clients keep no states of earlier ones that it could be compared with."""

    def keep(self, round_number: int, model: Mapping[str, Array], client: str, exchanged: Mapping[str, Array]) -> None:
        """Write down what a client has sent, with the model that everybody has; nothing without g_ref."""
        if G_REF not in exchanged:
            return
        folder = self._folder(round_number, model)
        np.save(folder / f"{client}.npy", exchanged[G_REF])

    def keep_mean(self, round_number: int, model: Mapping[str, Array], combined: Mapping[str, Array]) -> None:
        """Write down what all of them add up to."""
        if G_REF in combined:
            np.save(self._folder(round_number, model) / MEAN, combined[G_REF])

    @staticmethod
    def _folder(round_number: int, model: Mapping[str, Array]) -> Path:
        folder = round_folder(Path(), round_number)
        if not folder.exists():
            shutil.rmtree(FOLDER, ignore_errors=True)
            folder.mkdir(parents=True)
            np.savez(folder / MODEL_NAME, **dict(model))  # type: ignore[arg-type]
        return folder
