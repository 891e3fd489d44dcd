"""What an aggregator kept of a round, and the samples behind it, which only a rehearsal on one machine knows."""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedagem.errors import FedAGemError
from fedagem.learning.buffer import Batch
from fedagem.learning.client_state import ClientStateStore, Moment
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import G_REF
from fedagem.learning.trainer import Trainer
from fedagem.plans.plan import Plan
from fedagem.runs.folder import requested_plan
from fedagem.seeding import derive_generator, seeded_torch

FOLDER = "received"
MEAN = "mean.npy"
MODEL_NAME = "model.npz"
_STAGE = "buffer_gradient"


def round_folder(run: Path, round_number: int) -> Path:
    """Where what was received in a round is kept."""
    return run / FOLDER / f"round_{round_number:06d}"


@dataclass(frozen=True)
class KeptRound:
    """The newest round of a run with `--keep-received`."""

    run: Path
    round_number: int
    plan: Plan

    @classmethod
    def of(cls, run: Path) -> "KeptRound":
        """Find it; refuses a run that has kept nothing, and one that is not about images."""
        plan = requested_plan(run)
        folders = sorted((run / FOLDER).glob("round_*"))
        if not folders:
            raise FedAGemError(
                f"{run} has kept nothing of what its aggregator received: run the plan with Fed-A-GEM and "
                "--keep-received, for two rounds at least."
            )
        kept = cls(run, int(folders[-1].name.removeprefix("round_")), plan)
        if kept._trainer.objective.__class__.__name__ != "Classification":
            raise FedAGemError(f"{run} trains a detector, but only classifiers of images can be audited.")
        return kept

    @cached_property
    def clients(self) -> list[str]:
        """Whose buffer gradients are here and are not empty."""
        names = sorted(path.stem for path in self._folder.glob("*.npy") if path.name != MEAN)
        return [name for name in names if np.any(self.received(name))]

    def received(self, client: str) -> np.ndarray:
        """What the aggregator got from a client: a gradient, or whatever hides it."""
        return self._vector(self._folder / f"{client}.npy")

    def mean(self) -> np.ndarray:
        """What all of them added up to."""
        return self._vector(self._folder / MEAN)

    def samples(self, client: str, count: int | None = None) -> Batch:
        """The samples that a client's gradient was computed from, or so many others of its buffer."""
        return self._learner(client).buffer.sample(count or self.batch, self._generator(client))

    def gradient(self, client: str, count: int) -> Tensor:
        """What the client would have sent, had the plan asked for the gradient of so many samples."""
        settings = self.plan.training.model_copy(update={"buffer_gradient_samples": count})
        with seeded_torch(self.plan.seed, client, self.round_number, _STAGE):
            published = settings.build_method().buffer_gradient(self._learner(client))
        assert published is not None
        return published[G_REF]

    @property
    def batch(self) -> int:
        """How many samples a gradient is computed from."""
        return self.plan.training.buffer_gradient_samples

    @cached_property
    def trainer(self) -> Trainer:
        """The model of the round, which the aggregator knows."""
        with np.load(self._folder / MODEL_NAME) as arrays:
            self._trainer.model.load_arrays({name: arrays[name] for name in arrays.files})
        return self._trainer

    @cached_property
    def _trainer(self) -> Trainer:
        settings = self.plan.training.model_copy(update={"device": "cpu", "compile": False})
        return Trainer.build(settings, self.plan.seed)

    @property
    def _folder(self) -> Path:
        return round_folder(self.run, self.round_number)

    def _generator(self, client: str) -> torch.Generator:
        return derive_generator(self.plan.seed, client, self.round_number, f"{_STAGE} samples")

    def _learner(self, client: str) -> Learner:
        folder = self.run / "local_state" / client
        if not folder.exists():
            raise FedAGemError(
                f"{folder} does not exist: an audit compares with what clients have in their buffers, so it is for "
                "runs on one machine."
            )
        fresh = partial(self.trainer.fresh_buffer, client)
        state = ClientStateStore(folder, fresh, self.plan.origin).before(Moment(self.round_number))
        return Learner(self.trainer.model, self.trainer.objective, state.buffer, self._generator(client))

    def _vector(self, path: Path) -> np.ndarray:
        vector: np.ndarray = np.load(path, allow_pickle=False).reshape(-1)
        if len(vector) != self._trainer.model.size:
            raise FedAGemError(f"{path} has {len(vector)} numbers, but the model has {self._trainer.model.size}.")
        return vector
