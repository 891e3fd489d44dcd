"""What the aggregator does in stages that secure aggregation protects: the part of `StagedAggregator` for them."""

import logging
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from openfl.component.assigner.assigner import Assigner

from fedagem.errors import PlanError
from fedagem.learning.methods.fedagem import G_REF
from fedagem.plans.plan import Plan
from fedagem.plans.rounds import Stage
from fedagem.runs.metrics_log import BYTES_UP, FEDERATION, GIVEN_UP, SECAGG_SECONDS
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.settings import FEWEST, SecureAggregation
from src.averaging import TaskSum, Weighting
from src.received import Received
from src.round_log import Row
from src.round_progress import RoundProgress
from src.secure_steps import Over, SecureSteps, Step, federation_verifier
from src.secure_sums import OpenedSum, SumShape, UnmaskedSums, counted_in
from src.task_results import METRIC, Array, Expected, Result, find_fault, split_by_kind, without_tensors

logger = logging.getLogger(__name__)


class ProtectsStages:
    """Walks through the steps of protected stages; in a simulation their sums are the same, and nothing is masked."""

    assigner: Assigner
    expected: Expected
    progress: RoundProgress[Result]
    round_number: int
    rounds_to_train: int
    weighting: Weighting
    last_state_path: str
    _turn: threading.Condition
    _failure: str | None
    _bytes: dict[str, dict[str, int]]
    _received: Received | None

    def _prepare_protection(self, chosen: SecureAggregation | None, masked: bool, plan: Plan) -> None:
        self._protection = chosen
        self._counted = counted_in(plan) if chosen is not None else {}
        self._secure: SecureSteps | None = None
        self._spent, self._extra = 0.0, 0.0
        """Seconds of the current protected stage so far, and how much of it is not the plan's own task."""
        self._said: dict[str, Result] = {}
        """What clients say in the clear besides their masked vectors."""
        self._timed: Stage | None = None
        """The stage or step whose missing members are waited for with a limit."""
        self._overdue: Stage | None = None
        """The one whose limit is over."""
        if chosen is not None and not masked and self._received is not None:
            raise PlanError(
                "aggregator.settings.keep_received would keep gradients that nothing masks in a simulation, although "
                "the plan has secure_aggregation: use `fedagem run`, or leave secure_aggregation out."
            )
        if chosen is not None and not masked:
            logger.info("Sums are those of secure aggregation, but nothing is masked: all is in one process")
        elif chosen is not None:
            self._secure = SecureSteps(
                chosen,
                self.assigner,
                self._has_work,
                self.rounds_to_train,
                plan.origin,
                federation_verifier(plan, chosen),
                Path(self.last_state_path).with_name("survivors.json"),
            )

    def _is_protected(self, stage: Stage) -> bool:
        return self._protection is not None and stage.name in self._protection.stages

    def _unmasked_sums(self) -> UnmaskedSums:
        task = self.progress.stage.tasks[0]
        return UnmaskedSums(task, self._sum_shape(task, self.progress.members))

    def _sum_shape(self, task: str, members: int) -> SumShape:
        """What the vectors of a protected stage look like."""
        assert self._protection is not None
        chosen = self.assigner.task(task)
        asked = self.expected.asked_of(chosen)
        began_with = Expected(self._model(self.round_number) if asked.model else {}, asked.exchanges)
        return SumShape(chosen.function, began_with, members, self.weighting, self._protection, self._counted)

    def _passed_on(self, name: str, requested_by: str) -> Array | None:
        """A message of secure aggregation; None if there is none, or not any more."""
        with self._turn:
            try:
                message = self._secure.passed_on(name, requested_by) if self._secure is not None else None
            except LookupError:
                message = None
        return None if message is None else np.frombuffer(message, np.uint8)

    def _take_message(self, step: Step, collaborator: str, task: str, kinds: Result) -> None:
        """Take what a member sends in a step of secure aggregation; what does not fit is refused."""
        assert self._secure is not None
        in_the_clear = {**split_by_kind({}), METRIC: kinds[METRIC]}
        try:
            if fault := find_fault(in_the_clear, Expected({}, ())):
                raise ProtocolError(fault)
            if step.phase == "vectors":
                members = self._secure.members_called
                self._secure.begin_sum(step, self.round_number, lambda: self._sum_shape(task, members))
                self._said[collaborator] = without_tensors(in_the_clear)
            self._secure.take(step, collaborator, kinds)
        except ProtocolError as problem:
            self._secure.spoil()
            self._refuse(collaborator, self.round_number, task, str(problem))
        if self._received is not None and step.phase == "vectors":
            seen = self._secure.read_as_plain(kinds, f"exchange/{G_REF}")
            if seen is not None:
                self._received.keep(self.round_number, self._model(self.round_number), collaborator, {G_REF: seen})
        sent = sum(array.nbytes for arrays in kinds.values() for array in arrays.values())
        self._bytes[collaborator][BYTES_UP] += sent
        self.progress.take(task, collaborator, without_tensors(in_the_clear))
        self._go_on_securely(step)

    def _go_on_securely(self, step: Step) -> None:
        """Go to the next step if this one is over, or close the stage if its sum was opened or given up."""
        assert self._secure is not None
        awaited, done = self.progress.awaited(), self.progress.completed()
        try:
            following = self._secure.next_of(step, self.round_number, awaited, done, self._overdue is step)
            if following is None:
                self._wait_for_the_others(done)
                return
            self._spent += self.progress.seconds
            self._extra += self.progress.seconds if step.phase != "vectors" else 0.0
            if isinstance(following, Over):
                self._close_protected(step, following)
                while not self.progress.finished and self._step_of(step.of):
                    self.progress.next_stage()
                self._skip_finished_rounds()
            else:
                self.progress.next_stage()
                if following.skip_agreement:
                    self.progress.next_stage()
                self._wait_for_the_others(0)
        except Exception as problem:
            self._fail(f"stage {step.name} in round {self.round_number} could not be completed ({problem})")
            raise
        self._turn.notify_all()

    def _step_of(self, stage: str) -> Step | None:
        """The current step, if it belongs to a stage of this name."""
        current = self.progress.stage
        return current if isinstance(current, Step) and current.of == stage else None

    def _wait_for_the_others(self, done: int) -> None:
        """Set a limit, once, as soon as enough have answered; agreements and openings do not need everybody.

        The limit is for unprotected stages, too: OpenFL allows no other way to go on without somebody.
        """
        cutoff = None if self._protection is None or self._secure is None else self._protection.cutoff_seconds
        stage = self.progress.stage
        if cutoff is None or self._protection is None or self._timed is stage:
            return
        helping = isinstance(stage, Step) and stage.phase in {"agree", "open"}
        if helping or done >= max(FEWEST, self._protection.helpers(self.progress.members)):
            self._timed = stage
            timer = threading.Timer(cutoff, self._cut_off, [stage])
            timer.daemon = True
            timer.start()

    def _cut_off(self, stage: Stage) -> None:
        with self._turn:
            if self._failure or self.progress.finished or self.progress.stage is not stage:
                return
            logger.warning("Round %s: the cut-off time of %s is over", self.round_number, stage.name)
            self._overdue = stage
            self._close_stage_if_complete()

    def _close_protected(self, step: Step, over: Over) -> None:
        assert self._secure is not None
        task = next(stage.tasks[0] for stage in self.assigner.stages if stage.name == step.of)
        opened = OpenedSum(self._sum_shape(task, self._secure.members_called), over.total, over.withheld)
        self._combine(task, opened)
        rows = self._measured_together(opened, {name: self._said[name] for name in self._secure.summed})
        rows.append(self._row(FEDERATION, SECAGG_SECONDS, self._extra))
        self._write_down(rows, list(self._secure.summed), self._spent)
        self._spent, self._extra, self._said = 0.0, 0.0, {}

    def _measured_together(self, total: OpenedSum, results: dict[str, Result]) -> list[Row]:
        """The rows of a protected stage: what was opened, and what clients say of themselves if the plan lets them."""
        assert self._protection is not None
        rows: list[Row] = self._evaluated({FEDERATION: total.measured()})
        if total.withheld:
            logger.warning("Round %s: a sum of %s contributors is not opened", self.round_number, total.withheld)
            rows.append(self._row(FEDERATION, GIVEN_UP, total.withheld))
        if self._protection.metrics == "each":
            for name, result in results.items():
                rows += [self._row(name, metric, value.tolist()) for metric, value in result[METRIC].items()]
        return rows

    # What the aggregator does in all stages

    def _has_work(self, stage: Stage) -> bool:
        raise NotImplementedError

    def _model(self, round_number: int) -> dict[str, Array]:
        raise NotImplementedError

    def _combine(self, task: str, total: TaskSum | OpenedSum) -> None:
        raise NotImplementedError

    def _evaluated(self, results: dict[str, Result]) -> list[Row]:
        raise NotImplementedError

    def _row(self, client: str, metric: str, value: Any) -> Row:
        raise NotImplementedError

    def _write_down(self, rows: list[Row], collaborators: list[str], seconds: float) -> None:
        raise NotImplementedError

    def _refuse(self, collaborator: str, round_number: int, task: str, fault: str) -> NoReturn:
        raise NotImplementedError

    def _close_stage_if_complete(self) -> None:
        raise NotImplementedError

    def _skip_finished_rounds(self) -> None:
        raise NotImplementedError

    def _fail(self, reason: str) -> None:
        raise NotImplementedError
