"""A protected stage on the aggregator: its steps, who works in each, and what follows from one.

A round whose members have no keys yet begins with `setup:keys` and `setup:shares`. A protected stage S has the steps S,
in which masked vectors arrive, `S:agree`, which is left out if nobody is missing, and `S:open`.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedagem.errors import PlanError
from fedagem.files import write_file
from fedagem.plans.plan import Plan
from fedagem.plans.rounds import Stage
from fedagem.secagg.combiner import MaskedSum, Setup
from fedagem.secagg.errors import ProtocolError
from fedagem.secagg.identity import CertificateVerifier, Verifier, read_pins
from fedagem.secagg.layout import Layout, Total
from fedagem.secagg.masks import Vector
from fedagem.secagg.messages import Refusal
from fedagem.secagg.settings import FEWEST, SecureAggregation
from src.round_progress import Schedule
from src.secure_sums import SumShape
from src.task_results import MASKED, SECAGG, Array, Result

logger = logging.getLogger(__name__)

Phase = Literal["keys", "shares", "vectors", "agree", "open"]

SETUP = "setup"
MESSAGE, REFUSAL = "message", "refusal"
"""The names under which a message travels, and the one with which a member says that it cannot go on."""
BULLETIN, MAIL = "bulletin", "mail"
"""The names under which a setup's keys and shares are passed on."""
_KEPT_ROUNDS = 2


class Step(Stage):
    """A part of a protected stage, with a barrier of its own."""

    phase: Phase
    of: str
    """The plan's stage; `setup` for the steps in which keys are made."""

    @classmethod
    def named(cls, of: str, phase: Phase) -> "Step":
        """A step with a task of the same name."""
        name = f"{of}:{phase}"
        return cls(name=name, tasks=[name], phase=phase, of=of)


@dataclass(frozen=True)
class Next:
    """The step is over; the stage goes on with the next one, or with the one after it."""

    skip_agreement: bool = False


@dataclass(frozen=True)
class Over:
    """The stage is over: with what was opened, or with nothing if too few contribute or help."""

    total: Total | None
    withheld: int = 0
    """How many had something to contribute that was not summed."""


class SecureSteps:
    """Walks through setups and sums; whoever shares it between threads guards it with a lock."""

    def __init__(
        self,
        settings: SecureAggregation,
        schedule: Schedule,
        has_work: Callable[[Stage], bool],
        rounds: int,
        federation: str,
        verifier: Verifier,
        record: Path,
    ) -> None:
        """`record` keeps who was summed, for a restarted aggregator: another list would never be opened."""
        self.settings = settings
        self._schedule = schedule
        self._has_work = has_work
        self._rounds = rounds
        self._federation = federation
        self._verifier = verifier
        self._record = _Record(record)
        self._setup: Setup | None = None
        self._spoiled = False
        """Whether the setup shall not be used for another round: somebody is missing in it, or could not go on."""
        self._complete: set[str] = set()
        """Which of the setup's messages are complete: nothing will be added to them."""
        self._begun: Step | None = None
        """The step whose vectors are summed, or were summed last."""
        self._sum: MaskedSum | None = None
        self._layout: Layout | None = None
        self._all_there = False
        """Whether it is settled whose vectors are summed."""

    # The schedule

    def stages_of(self, round_number: int) -> list[Stage]:
        """The steps of a round: computed once, at its beginning. Makes a new setup if there is none for the round."""
        stages = [stage for stage in self._schedule.stages_of(round_number) if self._has_work(stage)]
        protected = [stage for stage in stages if stage.name in self.settings.stages]
        steps: list[Stage] = []
        if protected and not self._is_covered(round_number, protected):
            self._call(round_number, protected)
            steps += [Step.named(SETUP, "keys"), Step.named(SETUP, "shares")]
        for stage in stages:
            if stage in protected:
                whole = Step(name=stage.name, tasks=stage.tasks, phase="vectors", of=stage.name)
                steps += [whole, Step.named(stage.name, "agree"), Step.named(stage.name, "open")]
            else:
                steps.append(stage)
        return steps

    def members(self, stage: Stage, round_number: int) -> list[str]:
        """Who works in a step: everybody in a setup, then those who came as far, and nobody else."""
        if not isinstance(stage, Step):
            return self._schedule.members(stage, round_number)
        assert self._setup is not None
        if stage.phase == "keys":
            return list(self._setup.call.members)
        if stage.phase == "shares":
            return list(self._setup.bulletin.keys)
        if stage.phase == "vectors":
            summed = self._record.survivors(round_number, stage.of)
            return [name for name in self._setup.peers if summed is None or name in summed]
        return list(self._sum.survivors) if self._sum is not None else []

    def _is_covered(self, round_number: int, protected: Sequence[Stage]) -> bool:
        if self._setup is None or self._spoiled:
            return False
        members = tuple(self._common_members(round_number, protected))
        wanted = {(round_number, stage.name) for stage in protected}
        return members == self._setup.call.members and wanted <= set(self._setup.call.sums)

    def _call(self, round_number: int, protected: Sequence[Stage]) -> None:
        members = self._common_members(round_number, protected)
        sums: list[tuple[int, str]] = []
        for number in range(round_number, min(round_number + self.settings.rekey_every, self._rounds)):
            due = [stage for stage in self._schedule.stages_of(number) if self._has_work(stage)]
            due = [stage for stage in due if stage.name in self.settings.stages]
            if due and self._common_members(number, due) != members:
                break
            sums += [(number, stage.name) for stage in due]
        self._setup = Setup(self._federation, members, sums, self.settings, self._verifier)
        self._spoiled = False
        self._complete = set()

    def _common_members(self, round_number: int, protected: Sequence[Stage]) -> list[str]:
        lists = [self._schedule.members(stage, round_number) for stage in protected]
        if any(members != lists[0] for members in lists):
            names = ", ".join(stage.name for stage in protected)
            raise PlanError(f"secure_aggregation.stages names stages with different members: {names}.")
        if len(lists[0]) < FEWEST:
            raise PlanError(
                f"secure aggregation needs at least {FEWEST} clients, and round {round_number} has {len(lists[0])}: "
                "with fewer, each would know the others' results from the sum."
            )
        return lists[0]

    # What is passed on to members

    def passed_on(self, name: str, requested_by: str) -> bytes:
        """A message for a member; raises LookupError if there is none now.

        A member that was at work when the aggregator was killed asks the next one for messages that are still being
        collected.
        """
        setup, sum_ = self._setup, self._sum
        if setup is None:
            raise LookupError
        if name == "call":
            return setup.call.encode()
        if name == BULLETIN and name in self._complete:
            return setup.bulletin.encoded
        if name == MAIL and name in self._complete and requested_by in setup.peers:
            return setup.mail(requested_by)
        if name == "headers" and sum_ is not None and self._all_there:
            return sum_.passed_on()
        if name == "agreements" and sum_ is not None and self._all_there:
            return sum_.agreed()
        raise LookupError

    # What members send

    @property
    def members_called(self) -> int:
        """How many members the setup has, whether they take part or not."""
        assert self._setup is not None
        return len(self._setup.call.members)

    def begin_sum(self, step: Step, round_number: int, shape_of: Callable[[], SumShape]) -> None:
        """Get ready for the vectors of a stage, with the first of them."""
        assert self._setup is not None
        if self._begun is not step:
            self._begun, self._all_there = step, False
            self._layout = shape_of().layout()
            self._sum = MaskedSum(self._setup, round_number, step.of, self._layout.sizes)

    def take(self, step: Step, name: str, kinds: Result) -> None:
        """A member's message for a step; raises ProtocolError if it does not fit."""
        assert self._setup is not None
        messages = kinds.get(SECAGG, {})
        if REFUSAL in messages:
            raise ProtocolError(Refusal.decode(_bytes_of(messages[REFUSAL])).reason)
        if MESSAGE not in messages:
            raise ProtocolError("it has no message of secure aggregation: this client does not protect its results")
        message = _bytes_of(messages[MESSAGE])
        if step.phase == "keys":
            self._setup.take_keys(name, message)
        elif step.phase == "shares":
            self._setup.take_shares(name, message)
        else:
            assert self._sum is not None
            if step.phase == "vectors":
                self._sum.add(name, message, _vectors_in(kinds))
            elif step.phase == "agree":
                self._sum.take_agreement(name, message)
            else:
                self._sum.take_opening(name, message)

    def read_as_plain(self, kinds: Result, name: str) -> Array | None:
        """What the aggregator sees of a tensor in a member's masked vectors; None if they have no such tensor."""
        return None if self._layout is None else self._layout.read_as_plain(_vectors_in(kinds), name)

    def spoil(self) -> None:
        """Make new keys with the next round."""
        self._spoiled = True

    # What follows

    @property
    def quorum(self) -> int:
        """How many have to answer in a step before it can go on without the others."""
        assert self._setup is not None
        return max(self._setup.call.helpers, FEWEST)

    def next_of(self, step: Step, round_number: int, awaited: int, done: int, overdue: bool) -> Next | Over | None:
        """What follows if so many of those that are awaited have answered; None if the step is not over.

        Raises ProtocolError if what was opened does not fit together.
        """
        assert self._setup is not None
        if step.phase == "open":
            return self._opened(step, awaited, done, overdue)
        enough = done >= self.quorum and (done >= awaited or overdue or step.phase == "agree")
        if step.phase in {"keys", "shares"}:
            if awaited < self.quorum:
                raise ProtocolError(f"only {awaited} of {self.members_called} members can go on with {step.name}")
            if enough and done < self.members_called:
                self.spoil()
            if enough:
                self._complete.add(BULLETIN if step.phase == "keys" else MAIL)
            return Next() if enough else None
        wanted = self._record.survivors(round_number, step.of) if step.phase == "vectors" else None
        if wanted is not None:
            enough = done == len(wanted)
        if not enough:
            hopeless = awaited < (self.quorum if wanted is None else len(wanted))
            return self._give_up() if hopeless or overdue else None
        return self._all_in(step, round_number) if step.phase == "vectors" else Next()

    def _all_in(self, step: Step, round_number: int) -> Next | Over:
        """From here on nobody else is summed, whatever happens: this is on disk before the headers are shown."""
        assert self._sum is not None
        if self._sum.contributors < self.settings.min_contributors:
            return self._give_up()
        self._record.write(round_number, step.of, self._sum.survivors)
        self._all_there = True
        return Next(skip_agreement=not self._sum.missing)

    def _opened(self, step: Step, awaited: int, done: int, overdue: bool) -> Over | None:
        assert self._sum is not None
        assert self._layout is not None
        vectors = self._sum.unmask()
        if self._sum.liars:
            logger.error("Stage %s: %s sent shares that do not fit", step.of, ", ".join(sorted(self._sum.liars)))
        if vectors is not None:
            total = self._layout.decode(vectors, len(self._sum.survivors))
            if total.contributors != self._sum.contributors:
                raise ProtocolError(f"the sum of stage {step.of} counts other contributors than their headers say")
            return Over(total)
        if done >= awaited and done >= self.quorum:
            raise ProtocolError(f"the shares of {done} members do not open the sum of stage {step.of}")
        return self._give_up() if awaited < self.quorum or overdue else None

    def _give_up(self) -> Over:
        return Over(None, withheld=0 if self._sum is None else self._sum.contributors)

    @property
    def summed(self) -> tuple[str, ...]:
        """Whose vectors have arrived."""
        return () if self._sum is None else self._sum.survivors


class _Record:
    """Who was summed in the last rounds, by round and stage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lists: dict[str, list[str]] = {}
        if path.exists():
            self._lists = json.loads(path.read_text(encoding="utf-8"))

    def survivors(self, round_number: int, stage: str) -> list[str] | None:
        return self._lists.get(f"{round_number}/{stage}")

    def write(self, round_number: int, stage: str, survivors: Sequence[str]) -> None:
        kept = {
            place: names
            for place, names in self._lists.items()
            if int(place.partition("/")[0]) > round_number - _KEPT_ROUNDS
        }
        self._lists = {**kept, f"{round_number}/{stage}": list(survivors)}
        write_file(self._path, json.dumps(self._lists))


def federation_verifier(plan: Plan, settings: SecureAggregation) -> Verifier:
    """Checks the certificates of this federation, with the pins of the workspace in the current directory."""
    pins = read_pins() if settings.trust == "pinned" else {}
    return CertificateVerifier(Path(plan.network.cert_folder) / "cert_chain.crt", pins)


def _bytes_of(array: Array) -> bytes:
    return array.tobytes()


def _vectors_in(kinds: Result) -> dict[int, Vector]:
    names = {"ring32": 32, "ring64": 64}
    vectors = {}
    for name, array in kinds.get(MASKED, {}).items():
        if name not in names:
            raise ProtocolError(f"the masked vector {name!r} was not asked for")
        vectors[names[name]] = array
    return vectors
