"""An OpenFL aggregator whose rounds have stages, each aggregated as soon as its last result is in."""

import logging
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from openfl.component.aggregator.aggregator import Aggregator
from openfl.protocols import utils
from openfl.protocols.base_pb2 import NamedTensor
from openfl.utilities import TensorKey

from fedagem.errors import FederationError, PlanError
from fedagem.files import Lock
from fedagem.plans.federation import AggregatorSettings
from fedagem.runs.folder import requested_plan
from fedagem.runs.metrics_log import ACCURACY, BYTES_DOWN, BYTES_UP, FEDERATION, LOG_NAME, SECONDS
from fedagem.runs.processes import lock_run
from src.averaging import Weighting, mean_tensors, score_of, shares, weights_of
from src.global_model import Checkpoint, GlobalModel, describe_model
from src.link import ResultRefusedError, StaleTaskError
from src.round_log import RoundLog, Row, make_row
from src.round_progress import RoundProgress
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
"""How long an aggregator that cannot go on waits for collaborators to ask, so that they learn the reason."""
_LATECOMER_SECONDS = 30.0
"""How long one that was started again after the end waits for those that do not know yet; the others are gone."""
_LAST_REPLY_SECONDS = 0.2
"""OpenFL's server is stopped without grace once everybody knows that it is over; the last reply still has to leave."""


_DEFAULTS = AggregatorSettings.model_fields


class StagedAggregator(KeepsTensorStore, Aggregator):  # type: ignore[misc]
    """Hands out the tasks of the current stage only, checks results before they count, and survives kill -9.

    The stage is a position in the current round and changes only under one lock, together with the round. After every
    round the global model is written atomically; a restarted aggregator begins the unfinished round again, and the
    clients, who can go back to the state before it, repeat it with the same numbers.
    """

    round_number: int

    def __init__(
        self,
        weighting: Weighting = _DEFAULTS["weighting"].default,
        poll_seconds: float = _DEFAULTS["poll_seconds"].default,
        snapshots: tuple[int, ...] = _DEFAULTS["snapshots"].default,
        **settings: Any,
    ) -> None:
        if settings.get("use_delta_updates"):
            raise PlanError(
                "aggregator.settings.use_delta_updates must be false: deltas cannot be recovered after a crash."
            )
        if weighting not in {"uniform", "samples"}:
            raise PlanError(f"aggregator.settings.weighting is {weighting!r}; valid values: uniform, samples.")
        init_state = Path(settings["init_state_path"])
        if settings.get("initial_tensor_dict") is None and not init_state.exists():
            raise FederationError(f"{init_state} does not exist: run `fx plan initialize` first.")
        self._lock = _lock_workspace()
        self.weighting = weighting
        self.poll_seconds = poll_seconds
        self._turn = threading.Condition()
        self._waiters = 0
        self._bytes: dict[str, dict[str, int]] = defaultdict(lambda: {BYTES_DOWN: 0, BYTES_UP: 0})
        self._failure: str | None = None
        super().__init__(**{"callbacks": [], **settings, "use_delta_updates": False, "persist_checkpoint": False})
        self._take_initial_state(snapshots)
        self._was_over = self._time_to_quit()

    def _take_initial_state(self, snapshots: tuple[int, ...]) -> None:
        initial = {
            key.tensor_name: array
            for key, array in self.tensor_db.get_tensors_by_round_and_tags(self.round_number, MODEL).items()
        }
        exchange = {name: initial.pop(name) for name in list(initial) if name.startswith("exchange/")}
        self.expected = Expected(
            model=initial,
            exchange={name.removeprefix("exchange/"): tuple(shape.tolist()) for name, shape in exchange.items()},
        )
        plan = requested_plan(Path())
        self.global_model = GlobalModel(
            last=Path(self.last_state_path),
            best=Path(self.best_state_path),
            checkpoint=Checkpoint(Path(self.last_state_path).with_name("checkpoint.state"), initial, plan.origin),
            description=describe_model(plan),
            shapes=exchange,
            pipeline=self.compression_pipeline,
            snapshots=snapshots,
        )
        self._evaluating_only = self.assigner.is_task_group_evaluation()
        if not self._evaluating_only and (saved := self.global_model.resume()):
            self.round_number, model = saved
            self._cache(model, self.round_number, MODEL)
            logger.info("Continuing with round %s from %s", self.round_number, self.global_model.checkpoint.path)
        log = "evaluation.jsonl" if self._evaluating_only else LOG_NAME
        self._log = RoundLog(Path(log), self.round_number)
        published = {"model", *self.expected.exchange}
        self.progress = RoundProgress[Result](self.assigner, published, self.round_number)
        self._skip_finished_rounds()

    def _skip_finished_rounds(self) -> None:
        """Finish the round if none of its stages is left, and the next ones if they have none."""
        while not self._time_to_quit() and self.progress.finished:
            self._finish_round()
            self.progress.begin_round(self.round_number)
        self.straggler_handling_policy.reset_policy_for_round()

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
                if tasks := self.progress.outstanding(collaborator_name):
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
        """Wait until one of `names` has something to do, or has to learn that the federation is over."""
        with self._turn:
            while True:
                if self._failure:
                    raise self._stopped()
                ready = names if self._time_to_quit() else [name for name in names if self.progress.outstanding(name)]
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
        self._bytes[requested_by][BYTES_DOWN] += array.nbytes
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
            awaited = [] if self._time_to_quit() else self.progress.outstanding(collaborator)
            if round_number != self.round_number or task not in awaited:
                logger.warning("Ignored %s of %s for round %s: it is not awaited", task, collaborator, round_number)
                return
            fault = find_fault(kinds, self.assigner.publishes(task), self.expected)
            if fault:
                reason = f"refused {task} of {collaborator} in round {round_number}: {fault}"
                logger.error("The federation %s; the round goes on without it", reason)
                self.progress.refuse(collaborator)
                self._close_stage_if_complete()
                raise ResultRefusedError(reason)
            self._bytes[collaborator][BYTES_UP] += sum(array.nbytes for array in tensors.values())
            self.progress.take(task, collaborator, kinds)
            self._close_stage_if_complete()

    def _straggler_cutoff_time_elapsed(self) -> None:
        with self._turn:
            if not self._time_to_quit() and not self._failure:
                stage = self.progress.stage.name
                logger.warning("Round %s: the cut-off time of stage %s is over", self.round_number, stage)
                self._close_stage_if_complete()

    # Aggregation

    def _close_stage_if_complete(self) -> None:
        stage, awaited, done = self.progress.stage.name, self.progress.awaited(), self.progress.done()
        if not awaited:
            self._fail(f"every result of stage {stage} in round {self.round_number} was refused")
            return
        all_in = len(done) == len(awaited)
        if not all_in and not self.straggler_handling_policy.straggler_cutoff_check(len(done), len(awaited)):
            return
        try:
            self._aggregate(done)
            self.progress.next_stage()
            self._skip_finished_rounds()
        except Exception as problem:
            self._fail(f"stage {stage} in round {self.round_number} could not be completed ({problem})")
            raise
        self._turn.notify_all()

    def _aggregate(self, collaborators: list[str]) -> None:
        rows, stage = [], self.progress.stage
        for task in stage.tasks:
            results = self.progress.results(task, collaborators)
            weights = weights_of(results, self.weighting)
            self._cache(mean_tensors(results, EXCHANGE, weights), self.round_number, EXCHANGE)
            trained = mean_tensors(results, TRAINED, weights)
            if trained and sum(weights) == 0:
                logger.warning("Round %s: nobody had data to learn from; the model stays", self.round_number)
                trained = self._model(self.round_number)
            self._cache(trained, self.round_number + 1, MODEL)
            rows += self._evaluated(results)
        seconds = self.progress.seconds
        rows.append(self._row(FEDERATION, SECONDS, seconds))
        for name in collaborators:
            rows += [self._row(name, metric, value) for metric, value in self._bytes[name].items()]
        self._bytes.clear()
        self._log.write(rows)
        logger.info("Round %s: stage %s done in %.2f s", self.round_number, stage.name, seconds)

    def _evaluated(self, results: dict[str, Result]) -> list[Row]:
        """The rows of what a task measured; the model that it evaluated is kept if it is the best."""
        rows = []
        for name, result in results.items():
            rows += [self._row(name, metric, float(value)) for metric, value in result[METRIC].items()]
        accuracies = shares(results)
        rows += [self._row(FEDERATION, f"{ACCURACY}{name}", values) for name, values in accuracies.items()]
        score = score_of(results, accuracies)
        if score is not None and not self._evaluating_only:
            rounds = self.round_number + bool(self._model(self.round_number + 1))
            self.global_model.keep_if_best(score, rounds, self._model(rounds))
        return rows

    def _row(self, client: str, metric: str, value: Any) -> Row:
        return make_row(self.round_number, self.progress.stage.name, client, metric, value)

    def _finish_round(self) -> None:
        """Put the new global model on disk, then go on: a crash before this point repeats the round."""
        finished, self.round_number = self.round_number, self.round_number + 1
        if self._evaluating_only:
            return
        model = self._model(self.round_number)
        if not model:
            raise PlanError("no stage of assigner.settings.stages has a task that publishes the model.")
        self._log.sync()
        self.global_model.finish_round(self.round_number, model, is_last=self._time_to_quit())
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

    # The end of the federation

    def stop(self, reason: str) -> None:
        """End the federation because of something that happened outside of it."""
        with self._turn:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._turn.notify_all()

    def all_quit_jobs_sent(self) -> bool:
        """Wait until everybody knows that it is over, instead of being asked every five seconds."""

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
            f"The federation stopped: {self._failure}; what was learned before is in "
            f"{self.global_model.checkpoint.path}."
        )


def _lock_workspace() -> Lock | None:
    """Be the only aggregator of the workspace in the current directory; None if it is not a workspace."""
    return lock_run(Path()) if Path(".workspace").exists() else None
