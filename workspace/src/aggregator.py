"""An OpenFL aggregator whose rounds have stages, each aggregated as soon as its last result is in."""

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Container, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from openfl.component.aggregator.aggregator import Aggregator
from openfl.protocols import utils
from openfl.protocols.base_pb2 import NamedTensor
from openfl.utilities import TensorKey

from fedagem.aggregation.releases import Releases
from fedagem.aggregation.ring import OutOfRangeError
from fedagem.aggregation.settings import Means
from fedagem.errors import FederationError, PlanError
from fedagem.files import Lock
from fedagem.learning.exchange import Exchange
from fedagem.learning.trainer import server_side_of
from fedagem.plans.federation import AbsenceSettings, AggregatorSettings, parse_protection
from fedagem.plans.rounds import Stage
from fedagem.runs.folder import checked_plan
from fedagem.runs.metrics_log import (
    ABSENT,
    ACCURACY,
    BYTES_DOWN,
    BYTES_UP,
    COSINE,
    EPSILON,
    FEDERATION,
    LOG_NAME,
    NOISE_LENGTH,
    SECONDS,
)
from fedagem.runs.processes import lock_run
from fedagem.runs.standing import Standing
from fedagem.secagg.settings import SecureAggregation
from fedagem.settings import parse_settings
from src.attendance import Attendance
from src.averaging import StageSums, TaskSum, Weighting, score_of, shares
from src.global_model import Checkpoint, GlobalModel, describe_model
from src.link import STOPPED, AnswerError, ResultRefusedError, StaleTaskError, log_answers_in_a_line
from src.private_sum import PrivateSum
from src.protected_stages import ProtectsStages
from src.received import Received
from src.refined_share import RefinedShareWatch
from src.robust_sum import RobustSum
from src.round_log import RoundLog, Row, make_row
from src.round_progress import RoundProgress
from src.secure_steps import Step
from src.secure_sums import OpenedSum, UnmaskedSums
from src.task_results import (
    EXCHANGE,
    METRIC,
    MODEL,
    PREVIOUS,
    SECAGG,
    Array,
    Expected,
    Result,
    find_fault,
    split_by_kind,
    without_tensors,
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
_LATE_SECONDS = 5.0
"""A process that wakes up so much later than it wanted to was stopped meanwhile."""
_NAMED = 20
"""How many of those who are awaited are named to who looks."""


_DEFAULTS = AggregatorSettings.model_fields


class StagedAggregator(ProtectsStages, KeepsTensorStore, Aggregator):  # type: ignore[misc]
    """Hands out the tasks of the current stage only, checks results before they count, and survives kill -9.

    The stage is a position in the current round and changes only under one lock, together with the round. A result is
    added to the stage's sums when it arrives, and its tensors are not kept. After every round the global model and the
    state of the method's server side are written atomically; a restarted aggregator begins the unfinished round again,
    and the clients, who can go back to the state before it, repeat it with the same numbers.
    """

    round_number: int

    def __init__(
        self,
        weighting: Weighting = _DEFAULTS["weighting"].default,
        poll_seconds: float = _DEFAULTS["poll_seconds"].default,
        snapshots: tuple[int, ...] = _DEFAULTS["snapshots"].default,
        buffer_weighting: Any = None,
        robust: Any = None,
        privacy: Any = None,
        secure_aggregation: Any = None,
        masked: bool = True,
        keep_received: bool = False,
        absence: Mapping[str, Any] | None = None,
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
        means = {"weighting": weighting, "buffer_weighting": buffer_weighting, "robust": robust, "privacy": privacy}
        self._means = parse_settings(Means, means, "aggregator.settings")
        self._releases: Releases | None = None
        self._received = Received() if keep_received else None
        self.poll_seconds = poll_seconds
        self._turn = threading.Condition()
        self._waiters = 0
        self._bytes: dict[str, dict[str, int]] = defaultdict(lambda: {BYTES_DOWN: 0, BYTES_UP: 0})
        self._failure: str | None = None
        self._sums: StageSums | UnmaskedSums | None = None
        self._refined = RefinedShareWatch()
        self.absence = parse_settings(AbsenceSettings, absence or {}, "aggregator.settings.absence")
        self.attendance = Attendance(self.absence)
        self._serving = False
        """Whether collaborators come over the network; those of a simulation cannot stay away."""
        super().__init__(**{"callbacks": [], **settings, "use_delta_updates": False, "persist_checkpoint": False})
        self._take_initial_state(snapshots, parse_protection(secure_aggregation), masked)
        self._was_over = self._time_to_quit()

    def _take_initial_state(
        self, snapshots: tuple[int, ...], protection: SecureAggregation | None, masked: bool
    ) -> None:
        initial = {
            key.tensor_name: array
            for key, array in self.tensor_db.get_tensors_by_round_and_tags(self.round_number, MODEL).items()
        }
        shapes = {name: initial.pop(name) for name in list(initial) if name.startswith("exchange/")}
        self.expected = Expected(model=initial, exchanges=tuple(self._announced(shapes)))
        plan = checked_plan(Path())
        self.server = server_side_of(plan.training, list(self.expected.exchanges))
        self.global_model = GlobalModel(
            last=Path(self.last_state_path),
            best=Path(self.best_state_path),
            checkpoint=Checkpoint(Path(self.last_state_path).with_name("checkpoint.state"), initial, plan.origin),
            description=describe_model(plan),
            shapes=shapes,
            pipeline=self.compression_pipeline,
            snapshots=snapshots,
        )
        self._evaluating_only = self.assigner.is_task_group_evaluation()
        if not self._evaluating_only:
            self._check_published()
            self._means.check_exchanges(exchange.name for exchange in self.expected.exchanges)
            if saved := self.global_model.resume():
                self.round_number, model, server = saved
                self._cache(model, self.round_number, MODEL)
                self.server.load_state_dict(server)
                logger.info("Continuing with round %s from %s", self.round_number, self.global_model.checkpoint.path)
            if self._means.privacy is not None:
                folder = Path(self.last_state_path).parent
                self._releases = Releases(folder, self._means.privacy, self.global_model.spent)
        log = "evaluation.jsonl" if self._evaluating_only else LOG_NAME
        self._log = RoundLog(Path(log), self.round_number)
        self._prepare_protection(protection, masked, plan)
        schedule = self._secure or self.assigner
        self.progress = RoundProgress[Result](schedule, self._has_work, self.round_number, self.attendance.absent)
        self._offer()
        self._skip_finished_rounds()

    def _announced(self, shapes: dict[str, Array]) -> list[Exchange]:
        try:
            return [Exchange.announced(name, tuple(shape.tolist())) for name, shape in shapes.items()]
        except ValueError as problem:
            raise FederationError(
                f"{self.init_state_path} was made by another version of fedagem ({', '.join(shapes)}): run "
                "`fx plan initialize` again."
            ) from problem

    def _check_published(self) -> None:
        """Refuse a plan that lets nobody send what the method needs."""
        tasks = [self.assigner.task(name) for stage in self.assigner.stages for name in stage.tasks]
        published = [exchange for task in tasks for exchange in self.expected.asked_of(task).exchanges]
        for exchange in self.expected.exchanges:
            if exchange not in published:
                raise PlanError(
                    f"the method exchanges {exchange.name!r} in {exchange.stage}, but no stage of "
                    f"assigner.settings.stages has a task with the function {exchange.stage} that publishes method: "
                    "add one, see plan/base.yaml."
                )

    def _has_work(self, stage: Stage) -> bool:
        """A stage that is there for what a method exchanges is left out if it exchanges nothing there."""
        if isinstance(stage, Step):
            return True
        tasks = [self.assigner.task(name) for name in stage.tasks]
        asked = [self.expected.asked_of(task) for task in tasks]
        return not any(task.kwargs.publishes for task in tasks) or any(part.model or part.exchanges for part in asked)

    def _skip_finished_rounds(self) -> None:
        """Finish the round if none of its stages is left, and whatever follows if nobody is there to work in it."""
        while not self._time_to_quit() and (self.progress.finished or self.progress.deserted):
            if self.progress.deserted:
                self._aggregate()
                self.progress.next_stage()
                continue
            self._finish_round()
            self.progress.begin_round(self.round_number)
            self._offer()
        self.straggler_handling_policy.reset_policy_for_round()

    # What collaborators call

    def get_tasks(self, collaborator_name: str) -> tuple[list[str] | None, int, int, bool]:
        """The collaborator's tasks of the current stage; waits for them up to `poll_seconds` on the event itself."""
        give_up = time.monotonic() + self.poll_seconds
        with self._turn:
            self._note(collaborator_name)
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
                    self._tell()
                    self.straggler_handling_policy.start_policy(callback=self._straggler_cutoff_time_elapsed)
                    return tasks, self.round_number, 0, False
                if self._waiters >= _MAX_WAITERS:
                    return None, self.round_number, 1, False
                if (patience := give_up - time.monotonic()) <= 0:
                    return None, self.round_number, 0, False
                self._waiters += 1
                self._turn.wait(patience)
                self._waiters -= 1

    def wait_for_work(self, names: Container[str]) -> str | None:
        """Wait until one of `names` has something to do; None when the federation is over."""
        with self._turn:
            while True:
                if self._failure:
                    raise self._stopped()
                if self._time_to_quit():
                    return None
                if name := self.progress.next_of(names):
                    return name
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
        """A tensor that `lookup` finds, encoded for the wire."""
        kind = next((kind for kind in (EXCHANGE, PREVIOUS, SECAGG) if kind[0] in tags), MODEL)
        array = self.lookup(tensor_name, round_number, kind, requested_by)
        key = TensorKey(tensor_name, self.uuid, round_number, report, (*kind, "compressed"))
        data, metadata = self.compression_pipeline.forward(array)
        return utils.construct_named_tensor(key, data, metadata, lossless=True)

    def lookup(self, name: str, round_number: int, kind: tuple[str, ...], requested_by: str) -> Array:
        """A tensor that some stage has aggregated, or that the server side offers; or one of the previous model."""
        if kind == SECAGG:
            array = self._passed_on(name, requested_by)
        elif kind == PREVIOUS:
            array = (self.server.previous_model() or {}).get(name)
        else:
            array = self.tensor_db.get_tensor_from_cache(TensorKey(name, self.uuid, round_number, False, kind))
        if array is None:
            raise StaleTaskError(f"there is no {kind[0]} tensor {name!r} of round {round_number}")
        self._bytes[requested_by][BYTES_DOWN] += array.nbytes
        self.attendance.note(requested_by)
        return array

    def send_local_task_results(
        self, collaborator_name: str, round_number: int, task_name: str, data_size: int, named_tensors: Any
    ) -> None:
        """Decode a result from the wire and take it; one that cannot be decoded is refused like any other bad one."""
        tensors = {}
        for tensor in named_tensors:
            metadata = [{"int_list": proto.int_list} for proto in tensor.transformer_metadata]
            kind = tuple(tag for tag in tensor.tags if tag != "compressed")
            key = TensorKey(tensor.name, self.uuid, round_number, tensor.report, kind)
            try:
                tensors[key] = self.compression_pipeline.backward(tensor.data_bytes, metadata)
            except (ValueError, IndexError, TypeError) as problem:
                with self._turn:
                    if self._is_awaited(collaborator_name, round_number, task_name):
                        fault = f"tensor {tensor.name!r} cannot be decoded ({problem})"
                        self._refuse(collaborator_name, round_number, task_name, fault)
                return
        try:
            self.receive(collaborator_name, round_number, task_name, tensors)
        except AnswerError:
            raise
        except Exception as problem:
            if self._failure is None:
                raise
            raise self._stopped() from problem

    def receive(self, collaborator: str, round_number: int, task: str, tensors: dict[TensorKey, Array]) -> None:
        """Add a result to the current stage's sums; a bad one is refused, leaves nothing behind and holds up nobody."""
        kinds = split_by_kind(tensors)
        with self._turn:
            self._note(collaborator)
            if not self._is_awaited(collaborator, round_number, task):
                return
            if isinstance(step := self.progress.stage, Step):
                self._take_message(step, collaborator, task, kinds)
                return
            if fault := find_fault(kinds, self.expected.asked_of(self.assigner.task(task))):
                self._refuse(collaborator, round_number, task, fault)
            try:
                self._stage_sums().add(collaborator, task, kinds)
            except OutOfRangeError as problem:
                self._refuse(collaborator, round_number, task, str(problem))
            if self._received is not None:
                self._received.keep(self.round_number, self._model(self.round_number), collaborator, kinds[EXCHANGE])
            self._bytes[collaborator][BYTES_UP] += sum(array.nbytes for array in tensors.values())
            self.progress.take(task, collaborator, without_tensors(kinds))
            self._close_stage_if_complete()
            self._tell()

    def _is_awaited(self, collaborator: str, round_number: int, task: str) -> bool:
        awaited = [] if self._time_to_quit() else self.progress.outstanding(collaborator)
        if round_number == self.round_number and task in awaited:
            return True
        logger.warning("Ignored %s of %s for round %s: it is not awaited", task, collaborator, round_number)
        return False

    def _refuse(self, collaborator: str, round_number: int, task: str, fault: str) -> NoReturn:
        """Go on without a client until the stage is over, and tell it why."""
        reason = f"refused {task} of {collaborator} in round {round_number}: {fault}"
        logger.error("The federation %s; the round goes on without it", reason)
        self.progress.refuse(collaborator)
        if not isinstance(self.progress.stage, Step):
            self._stage_sums().forget(collaborator)
        self._close_stage_if_complete()
        raise ResultRefusedError(reason)

    def _stage_sums(self) -> StageSums | UnmaskedSums:
        """The sums of the current stage; made with its first result, when it is known how many may follow."""
        if self._sums is None and self._is_protected(self.progress.stage):
            self._sums = self._unmasked_sums()
        elif self._sums is None:
            model = self._model(self.round_number)
            self._sums = StageSums({name: self._fresh_sum(name, model) for name in self.progress.stage.tasks})
        return self._sums

    def _fresh_sum(self, task: str, model: dict[str, Array]) -> TaskSum:
        asked = self.expected.asked_of(self.assigner.task(task))
        began_with = Expected(model if asked.model else {}, asked.exchanges)
        members, folder = self.progress.members, Path(self.last_state_path).parent
        weighting: Weighting = self.weighting
        if self.assigner.task(task).function == "buffer_gradient":
            weighting = self._means.buffer_weighting or weighting
        if self._means.robust is not None and (asked.model or asked.exchanges):
            return RobustSum(began_with, members, self._means.robust, folder, weighting)
        if self._releases is not None and self._means.privacy is not None and (asked.model or asked.exchanges):
            names = self.assigner.members(self.progress.stage, self.round_number)
            key_of = partial(self._releases.key_of, task, self.round_number, clients=names)
            first_buffers = self.round_number == 0 and not asked.model
            return PrivateSum(began_with, members, self._means.privacy, key_of, nobody_can=first_buffers)
        return TaskSum(began_with, members, weighting)

    def _straggler_cutoff_time_elapsed(self) -> None:
        with self._turn:
            if not self._time_to_quit() and not self._failure:
                stage = self.progress.stage.name
                logger.warning("Round %s: the cut-off time of stage %s is over", self.round_number, stage)
                self._close_stage_if_complete()

    # Aggregation

    def _close_stage_if_complete(self) -> None:
        if isinstance(step := self.progress.stage, Step):
            self._go_on_securely(step)
            return
        stage, awaited, done = self.progress.stage.name, self.progress.awaited(), self.progress.completed()
        if not awaited and not self.progress.deserted:
            self._fail(f"every result of stage {stage} in round {self.round_number} was refused")
            return
        overdue = self._overdue is self.progress.stage
        if done < awaited and not overdue and not self.straggler_handling_policy.straggler_cutoff_check(done, awaited):
            self._wait_for_the_others(done)
            return
        try:
            self._aggregate()
            self.progress.next_stage()
            self._skip_finished_rounds()
        except Exception as problem:
            self._fail(
                f"stage {stage} in round {self.round_number} could not be completed ({str(problem).rstrip('.')})"
            )
            raise
        self._turn.notify_all()

    def _aggregate(self) -> None:
        """Close the stage: what its results add up to goes to the method's server side, and to who asks for it."""
        rows, stage, sums = [], self.progress.stage, self._stage_sums()
        self._sums = None
        collaborators = self.progress.done()
        for task in stage.tasks:
            total, results = sums[task], self.progress.results(task, collaborators)
            self._combine(task, total)
            if isinstance(total, OpenedSum):
                rows += self._measured_together(total, results)
                continue
            rows += [self._row(name, COSINE, value) for name, value in total.agreement().items()]
            rows += self._private_rows(total)
            total.close()
            if results:
                self._refined.look(self.round_number, results)
                rows += self._evaluated(results)
        self._write_down(rows, collaborators, self.progress.seconds)

    def _write_down(self, rows: list[Row], collaborators: list[str], seconds: float) -> None:
        """Log a stage that is over."""
        rows += [self._row(name, ABSENT, 1) for name in sorted(self.attendance.absent)]
        rows.append(self._row(FEDERATION, SECONDS, seconds))
        for name in collaborators:
            rows += [self._row(name, metric, value) for metric, value in self._bytes[name].items()]
        self._bytes.clear()
        self._log.write(rows)
        logger.info("Round %s: stage %s done in %.2f s", self.round_number, self._stage_name, seconds)

    def _combine(self, task: str, total: TaskSum | OpenedSum) -> None:
        chosen = self.assigner.task(task)
        asked = self.expected.asked_of(chosen)
        if asked.model:
            self._cache(self._next_model(total), self.round_number + 1, MODEL)
        if asked.exchanges:
            combined = total.combined()
            if self._received is not None:
                self._received.keep_mean(self.round_number, self._model(self.round_number), combined)
            self._cache(combined, self.round_number, EXCHANGE)
            if not total.empty:
                self.server.take(asked.exchanges[0].stage, combined)
            if chosen.function == "end_task":
                self.server.end_task(self._model(self.round_number + 1) or self._model(self.round_number))
            self._offer()

    def _next_model(self, total: TaskSum | OpenedSum) -> Mapping[str, Array]:
        model = self._model(self.round_number)
        if total.empty:
            logger.warning("Round %s: nobody had data to learn from; the model stays", self.round_number)
            return model
        return self.server.step(model, total.model())

    def _offer(self) -> None:
        """Let the clients of this round ask for what the method's server side has for them."""
        self._cache(self.server.offers(), self.round_number, EXCHANGE)

    def _evaluated(self, results: dict[str, Result]) -> list[Row]:
        """The rows of what a task measured; the model that it evaluated is kept if it is the best."""
        rows = []
        for name, result in results.items():
            rows += [self._row(name, metric, value.tolist()) for metric, value in result[METRIC].items()]
        accuracies = shares(results)
        rows += [self._row(FEDERATION, f"{ACCURACY}{name}", values) for name, values in accuracies.items()]
        score = score_of(results, accuracies)
        if score is not None and not self._evaluating_only:
            rounds = self.round_number + bool(self._model(self.round_number + 1))
            self.global_model.keep_if_best(score, rounds, self._model(rounds))
        return rows

    def _private_rows(self, total: TaskSum) -> list[Row]:
        """What the stage has spent of the clients' privacy."""
        if self._releases is None or not isinstance(total, PrivateSum) or total.empty:
            return []
        values = {EPSILON: self._releases.epsilon(), NOISE_LENGTH: total.noise_length()}
        return [self._row(FEDERATION, metric, value) for metric, value in values.items()]

    def _row(self, client: str, metric: str, value: Any) -> Row:
        return make_row(self.round_number, self._stage_name, client, metric, value)

    @property
    def _stage_name(self) -> str:
        """The plan's name of the current stage: a step of secure aggregation is not a stage of its own in the log."""
        stage = self.progress.stage
        return stage.of if isinstance(stage, Step) else stage.name

    def _finish_round(self) -> None:
        """Put the new global model on disk, then go on: a crash before this point repeats the round."""
        finished, self.round_number = self.round_number, self.round_number + 1
        if self._evaluating_only:
            return
        model = self._model(self.round_number)
        if not model:
            raise PlanError("no stage of assigner.settings.stages has a task that publishes the model.")
        self._log.sync()
        state = self.server.state_dict()
        self.global_model.spent = {} if self._releases is None else self._releases.spent()
        self.global_model.finish_round(self.round_number, model, state, is_last=self._time_to_quit())
        self.callbacks.on_round_end(finished, {})
        self.tensor_db.drop_before(self.round_number)
        if self._time_to_quit():
            self.callbacks.on_experiment_end()
        else:
            self.callbacks.on_round_begin(self.round_number)

    def _model(self, round_number: int) -> dict[str, Array]:
        stored = self.tensor_db.get_tensors_by_round_and_tags(round_number, MODEL)
        return {key.tensor_name: array for key, array in stored.items() if key.tensor_name in self.expected.model}

    def _cache(self, tensors: Mapping[str, Array], round_number: int, kind: tuple[str, ...]) -> None:
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
        self._tell()
        self._turn.notify_all()

    def all_quit_jobs_sent(self) -> bool:
        """Wait until everybody knows that it is over, looking after those who stay away.

        OpenFL's server asks this as soon as it serves, and would ask again every five seconds.
        """
        log_answers_in_a_line()
        with self._turn:
            self._serving = True
            self._tell()
            deadline = time.monotonic() + _LATECOMER_SECONDS if self._was_over else None
            while not self._failure and self._ignorant():
                if deadline is not None and time.monotonic() >= deadline:
                    break
                self._wait_for_news(deadline)
                self._look_for_the_absent()
            if self._failure:
                self._turn.wait_for(lambda: not self._ignorant(), timeout=_LAST_WORDS_SECONDS)
        time.sleep(_LAST_REPLY_SECONDS)
        if self._failure:
            raise self._stopped()
        return True

    def _ignorant(self) -> list[str]:
        """Who does not know yet that the federation is over, and may still ask."""
        told = set(self.quit_job_sent_to)
        return [name for name in self.authorized_cols if name not in told and name not in self.attendance.absent]

    # Who is there

    def _note(self, collaborator: str) -> None:
        """A collaborator was heard of; one that had stayed away is awaited again from the next stage on."""
        self.attendance.note(collaborator)
        if collaborator in self.attendance.absent:
            self.attendance.absent.discard(collaborator)
            logger.warning("Round %s: %s is back", self.round_number, collaborator)
            self._tell()

    def _due(self) -> list[str]:
        """Who has to be heard of: those who work in the stage, and at the end those who were not told of it."""
        return self._ignorant() if self._time_to_quit() else list(self.progress.pending())

    def _wait_for_news(self, deadline: float | None) -> None:
        """Wait for an event, until the next collaborator has been silent for too long, or until the deadline."""
        began = time.monotonic()
        bounds = [self.attendance.until_next(self._due(), self.progress.began)]
        bounds.append(None if deadline is None else max(deadline - began, 0))
        patience = min((seconds for seconds in bounds if seconds is not None), default=None)
        self._turn.wait(patience)
        if patience is not None and time.monotonic() - began > patience + _LATE_SECONDS:
            self.attendance.excuse()

    def _look_for_the_absent(self) -> None:
        """Do what the plan says about those who have been silent for too long."""
        missing = [] if self._failure else self.attendance.missing(self._due(), self.progress.began)
        if not missing:
            return
        names = ", ".join(missing)
        seconds = f"{self.absence.after_seconds:g} s"
        if self._time_to_quit():
            logger.warning("The federation ends without telling %s: silent for %s", names, seconds)
            self.attendance.absent.update(missing)
            return
        where = f"stage {self.progress.stage.name} of round {self.round_number}"
        self.attendance.absent.update(missing)
        if self.absence.policy == "stop" or self.attendance.absent >= set(self.authorized_cols):
            self._fail(f"nothing was heard of {names} for {seconds} in {where}")
            return
        logger.warning("Round %s goes on without %s: silent for %s in %s", self.round_number, names, seconds, where)
        for name in missing:
            self.progress.leave_out(name)
            self._stage_sums().forget(name)
        with contextlib.suppress(Exception):  # it is the reason of a failure then, which is raised in a moment
            self._close_stage_if_complete()
        self._tell()

    def _tell(self) -> None:
        """Say where the federation stands, to whoever looks into its folder."""
        if not self._serving:
            return
        over = self._time_to_quit()
        ago = time.time() - time.monotonic()
        pending = [] if over else self.progress.pending()
        heard = self.attendance.heard
        Standing(
            round=self.round_number,
            stage="" if over or self.progress.finished else self.progress.stage.name,
            since=ago + self.progress.began,
            awaited={name: ago + heard[name] if name in heard else None for name in islice(pending, _NAMED)},
            awaited_in_all=len(pending),
            absent=tuple(sorted(self.attendance.absent)),
            ended=self._failure or ("" if over else None),
        ).write(Path())

    def _stopped(self) -> FederationError:
        return FederationError(
            f"{STOPPED}{self._failure}; what was learned before is in {self.global_model.checkpoint.path}."
        )


def _lock_workspace() -> Lock | None:
    """Be the only aggregator of the workspace in the current directory; None if it is not a workspace."""
    return lock_run(Path()) if Path(".workspace").exists() else None
