"""The tasks of a round as OpenFL calls them: buffer_gradient, train and evaluate."""

import logging
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from openfl.federated.task.runner import TaskRunner
from openfl.utilities import TensorKey

from fedagem.errors import NonFiniteLossError
from fedagem.learning.client import client_update
from fedagem.learning.client_state import ClientStateStore
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import buffer_gradient
from fedagem.learning.model_file import fill_from_file
from fedagem.learning.trainer import Trainer, TrainingSettings
from fedagem.runs.folder import requested_plan
from fedagem.runs.metrics_log import (
    BUFFER,
    BUFFER_GRADIENT_SECONDS,
    LOSS,
    LOSS_TERM,
    REFINED_SHARE,
    SAMPLES,
    TRAIN_SECONDS,
)
from fedagem.seeding import derive_generator, seeded_torch
from fedagem.settings import parse_settings
from src.task_results import EXCHANGE, METRIC, MODEL, RATIO, TRAINED, WEIGHT, Array

logger = logging.getLogger(__name__)

Results = tuple[dict[TensorKey, Array], dict[TensorKey, Array]]


class FedAGemTaskRunner(TaskRunner):  # type: ignore[misc]
    """Thin: loads the global model, lets `fedagem` do the work for the named client, and labels what comes out."""

    def __init__(self, data_loader: Any, **settings: Any) -> None:
        super().__init__(data_loader=data_loader)
        self.settings = parse_settings(TrainingSettings, settings, "task_runner.settings")
        self.trainer = Trainer.build(self.settings, data_loader.seed)
        self.seed = data_loader.seed
        self._clients: dict[str, ClientStateStore] = {}
        self._untouched = True
        """Whether the model is still that of the plan: no global model was loaded yet."""

    def for_loader(self, data_loader: Any) -> "FedAGemTaskRunner":
        """A runner for another client of this process, sharing the trainer and its one model."""
        other = FedAGemTaskRunner.__new__(FedAGemTaskRunner)
        other.__dict__ = {**self.__dict__, "_origin": self._origin, "data_loader": data_loader, "_clients": {}}
        return other

    # Tasks

    def buffer_gradient(
        self, col_name: str, round_num: int, input_tensor_dict: dict[str, Array], publishes: list[str]
    ) -> Results:
        """Stage 1: g_ref^k at the global model; a client without one (an empty buffer) counts for nothing."""
        began = time.monotonic()
        self._load_model(input_tensor_dict)
        learner = self._learner(col_name, round_num, "buffer_gradient")
        gradient = None
        try:
            with seeded_torch(self.seed, col_name, round_num, "buffer_gradient"):
                gradient = buffer_gradient(learner, self.settings.buffer_gradient_samples)
        except NonFiniteLossError as problem:
            logger.error("Round %s: %s The client contributes no buffer gradient.", round_num, problem)
        weight = 0 if gradient is None else min(len(learner.buffer), self.settings.buffer_gradient_samples)
        g_ref = torch.zeros(self.trainer.model.size) if gradient is None else gradient
        return self._label(
            round_num,
            {
                EXCHANGE: {"g_ref": g_ref.numpy()},
                METRIC: {BUFFER_GRADIENT_SECONDS: np.float64(time.monotonic() - began)},
                WEIGHT: {"weight": np.float32(weight)},
            },
        )

    def train(
        self,
        col_name: str,
        round_num: int,
        input_tensor_dict: dict[str, Array],
        publishes: list[str],
        wants: list[str] | None = None,
    ) -> Results:
        """Stage 2: ClientUpdate with the fresh g_ref; the client's state is on disk before the result is sent."""
        began = time.monotonic()
        g_ref = input_tensor_dict.pop("g_ref", None)
        self._load_model(input_tensor_dict)
        store = self._store(col_name)
        learner = self._learner(col_name, round_num, "train")
        try:
            with seeded_torch(self.seed, col_name, round_num, "train"):
                report = client_update(
                    learner,
                    self.data_loader.train_batches(round_num),
                    self.trainer.method,
                    self.trainer.fresh_optimizer(round_num),
                    self.settings.refinement if self.settings.fedagem else None,
                    None if g_ref is None else torch.tensor(g_ref),
                )
        except NonFiniteLossError as problem:
            store.forget()
            logger.error(
                "Round %s: %s The client keeps its last good state and sits this round out.", round_num, problem
            )
            return self._label(round_num, {})
        state = store.before(round_num)
        store.save(state, round_num)
        metrics = {f"{LOSS_TERM}{name}": value for name, value in report.losses().items()}
        metrics |= {
            LOSS: sum(report.losses().values()),
            REFINED_SHARE: report.refined_share(),
            SAMPLES: report.samples,
            BUFFER: len(state.buffer),
            TRAIN_SECONDS: time.monotonic() - began,
        }
        metrics |= self.data_loader.describe_buffer(state.buffer.contents())
        trained = self.get_tensor_dict()
        return self._label(
            round_num,
            {
                TRAINED: {name: trained[name] for name in self._model_names()},
                METRIC: {name: np.float64(value) for name, value in metrics.items()},
                WEIGHT: {"weight": np.float32(report.samples)},
            },
        )

    def evaluate(
        self, col_name: str, round_num: int, input_tensor_dict: dict[str, Array], after_rounds: int
    ) -> Results:
        """This client's part of the evaluation of the global model."""
        self._load_model(input_tensor_dict)
        evaluation = self.data_loader.evaluate(self.trainer.model.module, self.trainer.objective)
        return self._label(
            round_num,
            {
                RATIO: {name: counts.numpy() for name, counts in evaluation.ratios.items()},
                METRIC: {name: np.float64(value) for name, value in evaluation.metrics.items()},
            },
        )

    # What OpenFL asks

    def get_required_tensorkeys_for_function(self, func_name: str, **kwargs: Any) -> list[TensorKey]:
        """The global model, this round's or (to evaluate what a round brought) the next one, and exchanged tensors."""
        offset = kwargs.get("after_rounds", 0)
        keys = [TensorKey(name, "GLOBAL", offset, False, MODEL) for name in self._model_names()]
        wanted = [name for name in kwargs.get("wants", []) if name in self._exchanged()]
        return keys + [TensorKey(name, "GLOBAL", 0, False, EXCHANGE) for name in wanted]

    def get_tensor_dict(self, with_opt_vars: bool = False) -> dict[str, Array]:
        """The model by name, and the shapes of what else is exchanged (see `exchange/`).

        Before any global model was loaded it is what the federation begins with.
        """
        if self._untouched and self.settings.initial_model is not None:
            fill_from_file(self.trainer.model, Path(self.settings.initial_model))
        model = {name: tensor.numpy() for name, tensor in self.trainer.model.state_dict().items()}
        shapes = {f"exchange/{name}": np.array(shape, np.int64) for name, shape in self._exchanged().items()}
        return {**model, **shapes}

    def set_tensor_dict(self, tensor_dict: dict[str, Array], with_opt_vars: bool = False) -> None:
        """Load a model file's tensors."""
        self._load_model({name: array for name, array in tensor_dict.items() if not name.startswith("exchange/")})

    def save_native(self, filepath: str, **kwargs: Any) -> None:
        """`fx model save`: the weights as a plain PyTorch file."""
        torch.save({"model": self.trainer.model.state_dict()}, filepath)

    def load_native(self, filepath: str, **kwargs: Any) -> None:
        """Start from the weights of a plain PyTorch file."""
        self._untouched = False
        self.trainer.model.load_state_dict(torch.load(filepath, weights_only=True)["model"])

    def initialize_tensorkeys_for_functions(self, with_opt_vars: bool = False) -> None:
        """Nothing to prepare: the keys follow from the plan's task arguments."""

    # Inside

    @cached_property
    def _origin(self) -> str:
        """The plan that the clients' states belong to; before a federation begins there may be none here."""
        return requested_plan(Path()).origin

    def _exchanged(self) -> dict[str, tuple[int, ...]]:
        return {"g_ref": (self.trainer.model.size,)} if self.settings.fedagem else {}

    def _model_names(self) -> list[str]:
        return list(self.trainer.model.state_dict())

    def _load_model(self, tensors: dict[str, Array]) -> None:
        """Copy the global model's arrays straight into the flat weights."""
        self._untouched = False
        for name, tensor in self.trainer.model.state_dict().items():
            np.copyto(tensor.numpy(), tensors[name], casting="no")

    def _store(self, client: str) -> ClientStateStore:
        if client not in self._clients:
            self._clients[client] = ClientStateStore(
                Path("local_state") / client, self.trainer.fresh_buffer, self._origin
            )
        return self._clients[client]

    def _learner(self, client: str, round_number: int, use: str) -> Learner:
        buffer = self._store(client).before(round_number).buffer
        generator = derive_generator(self.seed, client, round_number, f"{use} samples")
        return Learner(self.trainer.model, self.trainer.objective, buffer, generator)

    def _label(self, round_number: int, kinds: dict[tuple[str, ...], dict[str, Any]]) -> Results:
        labelled = {
            TensorKey(name, "LOCAL", round_number, kind == METRIC, kind): np.asarray(array)
            for kind, arrays in kinds.items()
            for name, array in arrays.items()
        }
        return labelled, {}
