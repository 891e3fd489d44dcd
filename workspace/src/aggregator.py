"""An OpenFL aggregator whose rounds have stages, each aggregated as soon as its last result is in."""

import logging
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from openfl.component.aggregator.aggregator import Aggregator
from openfl.protocols import utils
from openfl.protocols.base_pb2 import NamedTensor
from openfl.utilities import TensorKey

from fedagem.errors import FederationError, PlanError
from fedagem.plans.rounds import Stage
from src.averaging import Weighting, mean_tensors, shares, weights_of
from src.checkpoint import Checkpoint
from src.round_log import RoundLog
from src.task_results import (
    EXCHANGE,
    METRIC,
    MODEL,
    TRAINED,
    Array,
    Expected,
    Result,
    find_fault,
    split_by_kind,
)
from src.tensor_store import KeepsTensorStore

logger = logging.getLogger(__name__)

_MAX_WAITERS = 4
"""Long polls held at once: gRPC has 8 threads, and uploads need some of them."""
_LAST_WORDS_SECONDS = 10.0
"""How long an aggregator that cannot go on waits for collaborators to ask, so that it can tell them."""
_LATECOMER_SECONDS = 30.0
"""How long one that was started again after the end waits for those who were not told yet; the others are gone."""
_LAST_REPLY_SECONDS = 0.2
"""OpenFL's server is stopped without grace once everybody was told to quit; the last reply still has to leave."""


class ResultRefusedError(Exception):
    """A result that must not reach the model; the collaborator is told why."""


class StaleTaskError(Exception):
    """A task asks for a tensor of a stage that is over, or that a restarted aggregator has yet to repeat."""


class StagedAggregator(KeepsTensorStore, Aggregator):  # type: ignore[misc]
    """Hands out the tasks of the current stage only, checks results before they count, and survives kill -9.

    The stage is a position in the current round and changes only under one lock, together with the round. After every
    round the global model is written atomically; a restarted aggregator begins the unfinished round again, and the
    clients, who can go back to the state before it, repeat it with the same numbers.
    """

    round_number: int

    def __init__(
        self,
        weighting: Weighting = "uniform",
        poll_seconds: float = 20.0,
        snapshots: tuple[int, ...] = (),
        **settings: Any,
    ) -> None:
        if settings.get("use_delta_updates"):
            raise PlanError(
                "aggregator.settings.use_delta_updates must be false: deltas cannot be recovered after a crash."
            )
        if weighting not in {"uniform", "samples"}:
            raise PlanError(f"aggregator.settings.weighting is {weighting!r}; known are uniform, samples.")
        init_state = Path(settings["init_state_path"])
        if settings.get("initial_tensor_dict") is None and not init_state.exists():
            raise FederationError(f"{init_state} does not exist: run `fx plan initialize` first.")
        self.weighting = weighting
        self.poll_seconds = poll_seconds
        self.snapshots = set(snapshots)
        """After how many rounds the global model is kept as `save/after_round_N.pbuf`."""
        self._turn = threading.Condition()
        self._waiters = 0
        self._stage_index = 0
        self._results: dict[tuple[str, str], Result] = {}
        self._refused: set[str] = set()
        self._bytes: dict[str, dict[str, int]] = defaultdict(lambda: {"bytes_down": 0, "bytes_up": 0})
        self._failure: str | None = None
        super().__init__(**{"callbacks": [], **settings, "use_delta_updates": False, "persist_checkpoint": False})
        self._take_initial_state()
        self._was_over = self._time_to_quit()
        self._stage_began = time.monotonic()

    def _take_initial_state(self) -> None:
        initial = {
            key.tensor_name: array
            for key, array in self.tensor_db.get_tensors_by_round_and_tags(self.round_number, MODEL).items()
        }
        exchange = {name: initial.pop(name) for name in list(initial) if name.startswith("exchange/")}
        self.expected = Expected(
            model=initial,
            exchange={name.removeprefix("exchange/"): tuple(shape.tolist()) for name, shape in exchange.items()},
        )
        self._shapes = exchange
        self._checkpoint = Checkpoint(Path(self.last_state_path).with_name("checkpoint.state"), initial)
        self._evaluating_only = self.assigner.is_task_group_evaluation()
        if not self._evaluating_only and (saved := self._checkpoint.load()):
            self.round_number, self.best_model_score, model = saved
            self._cache(model, self.round_number, MODEL)
            logger.info("Continuing with round %s from %s", self.round_number, self._checkpoint.path)
        log = "evaluation.jsonl" if self._evaluating_only else "metrics.jsonl"
        self._log = RoundLog(Path(log), self.round_number)
        self._skip_to_next_stage(from_index=0)

    # Stages

    def _stages(self) -> list[Stage]:
        return [stage for stage in self.assigner.stages_of(self.round_number) if self._has_work(stage)]

    def _has_work(self, stage: Stage) -> bool:
        """A stage that only publishes tensors nobody exchanges under this plan is left out."""
        published = [name for task in stage.tasks for name in self.assigner.publishes(task)]
        return not published or any(name == "model" or name in self.expected.exchange for name in published)

    def _skip_to_next_stage(self, from_index: int) -> None:
        """Go to the given stage, or to the first stage of the next round that has any."""
        self._stage_index = from_index
        while not self._time_to_quit() and self._stage_index >= len(self._stages()):
            self._finish_round()
            self._stage_index = 0
        self._results, self._refused = {}, set()
        self._stage_began = time.monotonic()
        self.straggler_handling_policy.reset_policy_for_round()

    def _stage(self) -> Stage:
        return self._stages()[self._stage_index]

    def _outstanding(self, collaborator: str) -> list[str]:
        stage = self._stage()
        if collaborator in self._refused or collaborator not in self.assigner.members(stage, self.round_number):
            return []
        return [task for task in stage.tasks if (task, collaborator) not in self._results]

    # What collaborators call

    def get_tasks(self, collaborator_name: str) -> tuple[list[str] | None, int, int, bool]:
        """The collaborator's tasks of the current stage; waits for them up to `poll_seconds` on the event itself."""
        give_up = time.monotonic() + self.poll_seconds
        with self._turn:
            while True:
                if self._failure:
                    self.quit_job_sent_to.append(collaborator_name)
                    self._turn.notify_all()
                    raise self._stopped()
                if self._time_to_quit():
                    self.quit_job_sent_to.append(collaborator_name)
                    self._turn.notify_all()
                    return None, self.round_number, 0, True
                if tasks := self._outstanding(collaborator_name):
                    self.straggler_handling_policy.start_policy(callback=self._straggler_cutoff_time_elapsed)
                    return tasks, self.round_number, 0, False
                if self._waiters >= _MAX_WAITERS:
                    return None, self.round_number, 1, False
                if (patience := give_up - time.monotonic()) <= 0:
                    return None, self.round_number, 0, False
                self._waiters += 1
                self._turn.wait(patience)
                self._waiters -= 1

    def wait_for_work(self, names: list[str]) -> str:
        """Wait until one of `names` has something to do, or is to be told that the federation is over."""
        with self._turn:
            while True:
                if self._failure:
                    raise self._stopped()
                ready = names if self._time_to_quit() else [name for name in names if self._outstanding(name)]
                if ready:
                    return ready[0]
                self._turn.wait()

    def get_aggregated_tensor(
        self,
        tensor_name: str,
        round_number: int,
        report: bool,
        tags: tuple[str, ...],
        require_lossless: bool,
        requested_by: str,
    ) -> NamedTensor:
        """A model tensor or an exchanged tensor, encoded for the wire."""
        kind = EXCHANGE if EXCHANGE[0] in tags else MODEL
        array = self.lookup(tensor_name, round_number, kind, requested_by)
        key = TensorKey(tensor_name, self.uuid, round_number, report, (*kind, "compressed"))
        data, metadata = self.compression_pipeline.forward(array)
        return utils.construct_named_tensor(key, data, metadata, lossless=True)

    def lookup(self, name: str, round_number: int, kind: tuple[str, ...], requested_by: str) -> Array:
        """A tensor that some stage has aggregated."""
        array = self.tensor_db.get_tensor_from_cache(TensorKey(name, self.uuid, round_number, False, kind))
        if array is None:
            raise StaleTaskError(f"there is no {kind[0]} tensor {name!r} of round {round_number}")
        self._bytes[requested_by]["bytes_down"] += array.nbytes
        return array

    def send_local_task_results(
        self, collaborator_name: str, round_number: int, task_name: str, data_size: int, named_tensors: Any
    ) -> None:
        """Decode a result from the wire and take it."""
        tensors = {}
        for tensor in named_tensors:
            metadata = [{"int_list": proto.int_list} for proto in tensor.transformer_metadata]
            kind = tuple(tag for tag in tensor.tags if tag != "compressed")
            key = TensorKey(tensor.name, self.uuid, round_number, tensor.report, kind)
            tensors[key] = self.compression_pipeline.backward(tensor.data_bytes, metadata)
        self.receive(collaborator_name, round_number, task_name, tensors)

    def receive(self, collaborator: str, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        """Take a result into the current stage; a bad one is refused before anything is stored, and holds up nobody."""
        kinds = split_by_kind(tensors)
        with self._turn:
            if round_number != self.round_number or self._time_to_quit() or task not in self._outstanding(collaborator):
                logger.warning("Ignored %s of %s for round %s: it is not awaited", task, collaborator, round_number)
                return
            fault = find_fault(kinds, self.assigner.publishes(task), self.expected)
            if fault:
                reason = f"refused {task} of {collaborator} in round {round_number}: {fault}"
                logger.error("The federation %s; the round goes on without it", reason)
                self._refused.add(collaborator)
                self._close_stage_if_complete()
                raise ResultRefusedError(reason)
            self._bytes[collaborator]["bytes_up"] += sum(array.nbytes for array in tensors.values())
            self._results[task, collaborator] = kinds
            self._close_stage_if_complete()

    def _straggler_cutoff_time_elapsed(self) -> None:
        with self._turn:
            if not self._time_to_quit():
                logger.warning("Round %s: the cut-off time of stage %s is over", self.round_number, self._stage().name)
                self._close_stage_if_complete()

    # Aggregation

    def _close_stage_if_complete(self) -> None:
        stage = self._stage()
        members = self.assigner.members(stage, self.round_number)
        expected = [name for name in members if name not in self._refused]
        done = [name for name in expected if all((task, name) in self._results for task in stage.tasks)]
        if not expected:
            self._fail(f"every result of stage {stage.name} in round {self.round_number} was refused")
            return
        all_in = len(done) == len(expected)
        if not all_in and not self.straggler_handling_policy.straggler_cutoff_check(len(done), len(expected)):
            return
        try:
            self._aggregate(stage, done)
            self._skip_to_next_stage(self._stage_index + 1)
        except Exception as problem:
            self._fail(f"stage {stage.name} in round {self.round_number} could not be completed ({problem})")
            raise
        self._turn.notify_all()

    def _aggregate(self, stage: Stage, collaborators: list[str]) -> None:
        rows = []
        for task in stage.tasks:
            results = {name: self._results[task, name] for name in collaborators}
            weights = weights_of(results, self.weighting)
            self._cache(mean_tensors(results, EXCHANGE, weights), self.round_number, EXCHANGE)
            trained = mean_tensors(results, TRAINED, weights)
            if trained and sum(weights) == 0:
                logger.warning("Round %s: nobody had data to learn from; the model stays", self.round_number)
                trained = self._model(self.round_number)
            self._cache(trained, self.round_number + 1, MODEL)
            rows += self._metric_rows(stage, results)
        seconds = time.monotonic() - self._stage_began
        rows.append(self._row(stage, "federation", "seconds", seconds))
        for name in collaborators:
            rows += [self._row(stage, name, metric, value) for metric, value in self._bytes[name].items()]
        self._bytes.clear()
        self._log.write(rows)
        logger.info("Round %s: stage %s done in %.2f s", self.round_number, stage.name, seconds)

    def _metric_rows(self, stage: Stage, results: dict[str, Result]) -> list[dict[str, Any]]:
        rows = []
        for name, result in results.items():
            rows += [self._row(stage, name, metric, float(value)) for metric, value in result[METRIC].items()]
            if "map_50/all" in result[METRIC]:
                self._keep_best(float(result[METRIC]["map_50/all"]))
        counted = shares(results)
        rows += [self._row(stage, "federation", f"accuracy/{name}", values) for name, values in counted.items()]
        if counted:
            self._keep_best(float(np.mean(next(iter(counted.values())))))
        return rows

    def _row(self, stage: Stage, client: str, metric: str, value: Any) -> dict[str, Any]:
        return {"round": self.round_number, "stage": stage.name, "client": client, "metric": metric, "value": value}

    # The end of a round

    def _keep_best(self, score: float) -> None:
        if self._evaluating_only or (self.best_model_score is not None and score <= self.best_model_score):
            return
        self.best_model_score = score
        evaluated = self.round_number + bool(self._model(self.round_number + 1))
        self._dump_model(evaluated, Path(self.best_state_path))

    def _finish_round(self) -> None:
        """Put the new global model on disk, then go on: a crash before this point repeats the round."""
        finished, self.round_number = self.round_number, self.round_number + 1
        if self._evaluating_only:
            return
        model = self._model(self.round_number)
        if not model:
            raise PlanError("no stage of assigner.settings.stages has a task that publishes the model.")
        self._log.sync()
        last_state = Path(self.last_state_path)
        if self.round_number in self.snapshots:
            self._dump_model(self.round_number, last_state.with_name(f"after_round_{self.round_number}.pbuf"))
        if self._time_to_quit():
            self._dump_model(self.round_number, last_state)
        self._checkpoint.save(self.round_number, self.best_model_score, model)
        self.callbacks.on_round_end(finished, {})
        self.tensor_db.drop_before(self.round_number)
        if self._time_to_quit():
            self.callbacks.on_experiment_end()
        else:
            self.callbacks.on_round_begin(self.round_number)

    def _model(self, round_number: int) -> dict[str, Array]:
        stored = self.tensor_db.get_tensors_by_round_and_tags(round_number, MODEL)
        return {key.tensor_name: array for key, array in stored.items() if key.tensor_name in self.expected.model}

    def _cache(self, tensors: dict[str, Array], round_number: int, kind: tuple[str, ...]) -> None:
        self.tensor_db.cache_tensor(
            {TensorKey(name, self.uuid, round_number, False, kind): array for name, array in tensors.items()}
        )

    def _dump_model(self, round_number: int, path: Path) -> None:
        """OpenFL's model file, replaced atomically; unlike OpenFL's own it holds the model the round ended with."""
        proto = utils.construct_model_proto(
            {**self._model(round_number), **self._shapes}, round_number, self.compression_pipeline
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        utils.dump_proto(proto, str(partial))
        partial.replace(path)

    # The end of the federation

    def stop(self, reason: str) -> None:
        """End the federation because of something that happened outside of it."""
        with self._turn:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._turn.notify_all()

    def all_quit_jobs_sent(self) -> bool:
        """Wait until everybody has been told to quit, instead of being asked every five seconds."""

        def everybody_knows() -> bool:
            return set(self.quit_job_sent_to) >= set(self.authorized_cols)

        with self._turn:
            patience = _LATECOMER_SECONDS if self._was_over else None
            self._turn.wait_for(lambda: self._failure or everybody_knows(), patience)
            if self._failure:
                self._turn.wait_for(everybody_knows, timeout=_LAST_WORDS_SECONDS)
        time.sleep(_LAST_REPLY_SECONDS)
        if self._failure:
            raise self._stopped()
        return True

    def _stopped(self) -> FederationError:
        return FederationError(
            f"The federation stopped: {self._failure}; what was learned before is in {self._checkpoint.path}."
        )
