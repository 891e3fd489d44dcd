"""The tasks of a round as OpenFL calls them: buffer_gradient, train, end_task and evaluate."""

import logging
import time
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from openfl.federated.task.runner import TaskRunner
from openfl.utilities import TensorKey

from fedagem.aggregation.clipping import shortened
from fedagem.errors import NonFiniteLossError, PlanError
from fedagem.learning.client import UpdateReport, client_update
from fedagem.learning.client_state import ClientState, ClientStateStore, Moment
from fedagem.learning.exchange import Exchange, StageName
from fedagem.learning.learner import Learner
from fedagem.learning.model_file import fill_from_file
from fedagem.learning.trainer import Trainer, TrainingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.at_work import reported
from fedagem.runs.folder import is_run, requested_plan
from fedagem.runs.metrics_log import (
    BUFFER,
    BUFFER_GRADIENT_SECONDS,
    END_TASK_SECONDS,
    LOSS,
    LOSS_TERM,
    REFINED_SHARE,
    SAMPLES,
    TRAIN_SECONDS,
)
from fedagem.seeding import derive_generator, seeded_torch
from fedagem.settings import parse_settings
from src.task_results import EXCHANGE, METRIC, MODEL, PREVIOUS, RATIO, TRAINED, WEIGHT, Array, previous_model_in

logger = logging.getLogger(__name__)

Results = tuple[dict[TensorKey, Array], dict[TensorKey, Array]]
Work = StageName | Literal["evaluate"]

_ENDED = "ended"
"""How many clients have ended a task, for methods that publish nothing else there: without it nobody would wait."""

_WORK: dict[str, Work] = {
    "buffer_gradient": "buffer_gradient",
    "train": "train",
    "end_task": "end_task",
    "evaluate": "evaluate",
}


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
        shared = {**self.__dict__, "_plan": self._plan, "_origin": self._origin}
        other.__dict__ = {**shared, "data_loader": data_loader, "_clients": {}}
        return other

    # Tasks

    def buffer_gradient(
        self, col_name: str, round_num: int, input_tensor_dict: dict[str, Array], publishes: list[str]
    ) -> Results:
        """Stage 1: g_ref^k at the global model; a client without one (an empty buffer) counts for nothing."""
        began = time.monotonic()
        state = self._store(col_name).before(Moment(round_num))
        learner = self._learner(col_name, round_num, "buffer_gradient", input_tensor_dict, state)
        published = None
        try:
            with seeded_torch(self.seed, col_name, round_num, "buffer_gradient"):
                published = self.trainer.method.buffer_gradient(learner)
        except NonFiniteLossError as problem:
            logger.error("Round %s: %s The client contributes no buffer gradient.", round_num, problem)
        weight = 0 if published is None else self._buffer_weight(state)
        return self._label(
            round_num,
            {
                EXCHANGE: self._limited_gradient(self._published("buffer_gradient", published)),
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
        store = self._store(col_name)
        state = store.before(Moment(round_num))
        learner = self._learner(col_name, round_num, "train", input_tensor_dict, state)
        try:
            with seeded_torch(self.seed, col_name, round_num, "train"):
                report = client_update(
                    learner,
                    reported(col_name, self.data_loader.train_batches(round_num), Path()),
                    self.trainer.method,
                    self.trainer.fresh_optimizer(round_num),
                    offer_once=self.settings.buffer.offer == "once",
                )
        except NonFiniteLossError as problem:
            store.forget()
            logger.error(
                "Round %s: %s The client keeps its last good state and sits this round out.", round_num, problem
            )
            return self._label(round_num, {})
        self._save(store, state, Moment(round_num))
        return self._label(
            round_num,
            {
                TRAINED: self._limited_model(input_tensor_dict),
                EXCHANGE: self._published("train", report.published),
                METRIC: self._measured(report, state, time.monotonic() - began),
                WEIGHT: {"weight": np.float32(report.samples)},
            },
        )

    def end_task(
        self,
        col_name: str,
        round_num: int,
        input_tensor_dict: dict[str, Array],
        publishes: list[str],
        after_rounds: int,
    ) -> Results:
        """What the method does at the new global model once a task is over; every client counts alike."""
        began = time.monotonic()
        store, moment = self._store(col_name), Moment(round_num, ends_task=True)
        state = store.before(moment)
        learner = self._learner(col_name, round_num, "end_task", input_tensor_dict, state)
        with seeded_torch(self.seed, col_name, round_num, "end_task"):
            published = self.trainer.method.end_task(learner)
        self._save(store, state, moment)
        return self._label(
            round_num,
            {
                EXCHANGE: self._published("end_task", published),
                METRIC: {END_TASK_SECONDS: np.float64(time.monotonic() - began)},
                WEIGHT: {"weight": np.float32(1)},
            },
        )

    def evaluate(
        self,
        col_name: str,
        round_num: int,
        input_tensor_dict: dict[str, Array],
        after_rounds: int,
        wants: list[str] | None = None,
    ) -> Results:
        """This client's part of the evaluation of the global model."""
        state = ClientState(self.trainer.fresh_buffer(col_name))
        learner = self._learner(col_name, round_num, "evaluate", input_tensor_dict, state)
        evaluation = self.data_loader.evaluate(learner, self.trainer.method)
        return self._label(
            round_num,
            {
                RATIO: {name: counts.numpy() for name, counts in evaluation.ratios.items()},
                METRIC: {name: np.float64(value) for name, value in evaluation.metrics.items()},
            },
        )

    # What OpenFL asks

    def get_required_tensorkeys_for_function(
        self, func_name: str, round_number: int = 0, **kwargs: Any
    ) -> list[TensorKey]:
        """The global model, this round's or (to evaluate what a round brought) the next one, and what the method wants.

        Rounds are relative to the current one. The previous model is that of the round in which the task began.
        """
        offset = kwargs.get("after_rounds", 0)
        keys = [TensorKey(name, "GLOBAL", offset, False, MODEL) for name in self._model_names()]
        if "method" in kwargs.get("wants", []):
            wanted = self.trainer.method.wants(_WORK[func_name])
            keys += [TensorKey(name, "GLOBAL", 0, False, EXCHANGE) for name in wanted]
        if func_name == "train" and self.trainer.method.needs_previous_model:
            began = self.data_loader.beginning_of_task(round_number)
            if began > 0:
                since = began - round_number
                keys += [TensorKey(name, "GLOBAL", since, False, PREVIOUS) for name in self._model_names()]
        return keys

    def get_tensor_dict(self, with_opt_vars: bool = False) -> dict[str, Array]:
        """The model by name, and the shapes of what else is exchanged, under the names of `Exchange.announcement`.

        Before any global model was loaded it is what the federation begins with.
        """
        if self._untouched and self.settings.initial_model is not None:
            fill_from_file(self.trainer.model, Path(self.settings.initial_model))
        if is_run(Path()):
            self._refuse_statistics()
        shapes = {exchange.announcement: np.array(exchange.shape, np.int64) for exchange in self.exchanges}
        return {**self.trainer.model.arrays(), **shapes}

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
    def _plan(self) -> Plan:
        """The plan that the user asked for; before a federation begins there may be none here."""
        return requested_plan(Path())

    @cached_property
    def _origin(self) -> str:
        """The plan that the clients' states belong to."""
        return self._plan.origin

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """What the method announces; a method with boundaries and nothing to say at the end of a task counts itself."""
        method = self.trainer.method
        announced = method.exchanges(self.trainer.model)
        if method.needs_boundaries and not any(exchange.stage == "end_task" for exchange in announced):
            announced.append(Exchange(_ENDED, (1,), "end_task", "sum"))
        return announced

    def _model_names(self) -> list[str]:
        return list(self.trainer.model.state_dict())

    def _load_model(self, tensors: dict[str, Array]) -> None:
        """Copy the global model's arrays straight into the flat weights."""
        self._untouched = False
        self.trainer.model.load_arrays(tensors)

    def _store(self, client: str) -> ClientStateStore:
        if client not in self._clients:
            self._clients[client] = ClientStateStore(
                Path("local_state") / client, partial(self.trainer.fresh_buffer, client), self._origin
            )
        return self._clients[client]

    def _refuse_statistics(self) -> None:
        """Noise on what is not trained would ruin it, and without noise it would be a release of its own."""
        others = [name for name in self._model_names() if name not in self.trainer.model.windows]
        if self._plan.aggregator.privacy is not None and others:
            raise PlanError(
                f"aggregator.settings.privacy needs a model all of whose tensors are trained, but {others[0]!r} is "
                "not: use a network without BatchNorm (GroupNorm has no statistics) and without frozen layers."
            )

    def _limited_model(self, began_with: dict[str, Array]) -> dict[str, Array]:
        """The trained model; with differential privacy at most so far from the one that the round began with."""
        trained, privacy = self.trainer.model.arrays(), self._plan.aggregator.privacy
        return trained if privacy is None else shortened(trained, privacy.model_clip, began_with)

    def _limited_gradient(self, published: dict[str, Array]) -> dict[str, Array]:
        """What is exchanged; with differential privacy the buffer gradient alone, of limited length."""
        privacy = self._plan.aggregator.privacy
        return published if privacy is None else shortened(published, privacy.g_ref_clip)

    def _buffer_weight(self, state: ClientState) -> int:
        """What the client's buffer gradient counts by; by default the samples that it was computed from."""
        if not self._plan.aggregator.weighs_buffers:
            return min(len(state.buffer), self.settings.buffer_gradient_samples)
        return state.buffer.seen if str(self._plan.aggregator.buffer_weighting).endswith("seen") else len(state.buffer)

    def _learner(
        self, client: str, round_number: int, use: Work, tensors: dict[str, Array], state: ClientState
    ) -> Learner:
        """The client at the beginning of a task, with the model loaded and everything that its method may look at."""
        method, trainer = self.trainer.method, self.trainer
        self._load_model(tensors)
        previous = previous_model_in(tensors)
        received = {name: tensors[name] for name in method.wants(use) if name in tensors}
        return Learner(
            trainer.model,
            trainer.objective,
            state.buffer,
            derive_generator(self.seed, client, round_number, f"{use} samples"),
            kept=state.kept,
            received={name: torch.tensor(array, device=trainer.device) for name, array in received.items()},
            task=self.data_loader.task(round_number) if method.needs_boundaries else None,
            teacher=trainer.teacher(previous) if previous else None,
            data=self.data_loader.local_data(round_number),
            place=self.data_loader.place(round_number),
            bf16=self.settings.precision == "bf16",
        )

    def _save(self, store: ClientStateStore, state: ClientState, moment: Moment) -> None:
        """A client with nothing to remember leaves nothing on disk."""
        if state.buffer.capacity or state.kept:
            store.save(state, moment)

    def _measured(self, report: UpdateReport, state: ClientState, seconds: float) -> dict[str, np.float64]:
        metrics = {f"{LOSS_TERM}{name}": value for name, value in report.losses().items()}
        metrics |= {
            LOSS: sum(report.losses().values()),
            REFINED_SHARE: report.refined_share(),
            SAMPLES: report.samples,
            BUFFER: len(state.buffer),
            TRAIN_SECONDS: seconds,
        }
        metrics |= self.data_loader.describe_buffer(state.buffer.contents())
        return {name: np.float64(value) for name, value in metrics.items()}

    def _published(self, stage: StageName, given: dict[str, torch.Tensor] | None) -> dict[str, Array]:
        """What the method announced for a stage; zeros, which count for nothing, if this client has nothing to say."""
        announced = [exchange for exchange in self.exchanges if exchange.stage == stage]
        if given is None:
            return {exchange.name: np.zeros(exchange.shape, np.float32) for exchange in announced}
        ended = {_ENDED: torch.ones(1)}
        return {exchange.name: {**ended, **given}[exchange.name].cpu().numpy() for exchange in announced}

    def _label(self, round_number: int, kinds: dict[tuple[str, ...], dict[str, Any]]) -> Results:
        labelled = {
            TensorKey(name, "LOCAL", round_number, kind == METRIC, kind): np.asarray(array)
            for kind, arrays in kinds.items()
            for name, array in arrays.items()
        }
        return labelled, {}
