"""One attempt: a federation runs, is disturbed again and again, and is helped up as a person would do it."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

from chaos.clock import Clock
from chaos.ledger import IN_WRITE, SAME, Attempt, Kill
from chaos.link import Link
from chaos.outcome import differences
from chaos.phases import STATELESS, kind_of, phase_of, roles_of, standing_of
from chaos.processes import Process, is_alive
from chaos.subjects import Federation
from chaos.warm import WarmProcess
from chaos.writes import WriteTrap

_LOOK_SECONDS = 0.02
_HUNG_SECONDS = 600.0
"""An attempt in which nothing happens for so long is hung: the longest patience of a process is half of it."""
_MOST_STARTS = 10
"""How often a person starts a process again that was not killed, before giving up."""
_TRAP_SECONDS = 90.0
_COLD_SHARE = 0.1
"""How many of the processes by hand are started from nothing, the others from one that has imported the libraries."""

HAND_FAULTS = {
    "kill": 5,
    "kill in a write": 10,
    "stop": 1,
    "cut link": 1,
    "slow link": 1,
    "second aggregator": 1,
    "second collaborator": 1,
    "damaged state": 1,
    "full disk": 1,
    "clock jump": 1,
}
"""How often each is chosen, in relation to the others."""
RUN_FAULTS = {"kill": 4, "kill in a write": 5, "stop": 1, "second command": 1}


class Breaking:
    """Runs an attempt; `disk` is a small file system in which the run is laid out, `clock` that of its processes."""

    def __init__(
        self,
        subject: Federation,
        run: Path,
        seed: int,
        disk: Path | None = None,
        warm: bool = True,
        kinds: Collection[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """`kinds` are the only faults to cause, if some are named."""
        known = HAND_FAULTS if subject.by_hand else RUN_FAULTS
        self._weights = {name: weight for name, weight in known.items() if name in kinds} or known
        self.subject = subject
        self.run = run
        self._disk = disk
        self._clock = clock
        self._random = random.Random(seed)
        self.record = Attempt(subject.name, seed)
        self._link = Link()
        self._commands = subject.commands(run)
        self._warm = warm and subject.by_hand and clock is None
        self._running: dict[str, Process | WarmProcess] = {}
        self._finished: set[str] = set()
        self._doomed: set[str] = set()
        """Who was killed and will be found dead."""
        self._starts: Counter[str] = Counter()
        self._after: dict[str, Callable[[], None]] = {}
        """By role: what is to be done before it is started again."""
        self._later: list[tuple[float, Callable[[], None]]] = []
        """What is to be done at a time."""
        self._others: list[tuple[str, Process | WarmProcess, str]] = []
        """Second commands: what each is, and what it must say."""
        self._trap: tuple[WriteTrap, str, str, int, float] | None = None
        self._said: list[str] = []
        self._mark: tuple[object, float] = ((), 0.0)

    # The attempt

    def attempt(self, faults: int, evidence: Path) -> Attempt:
        """Disturb the federation so many times, wait for its end, and compare."""
        began = time.monotonic()
        self._mark = ((), began)
        try:
            for role in self._commands:
                self._start(role)
            left, calm, ready_at = faults, self._position(), began
            while self._running:
                time.sleep(_LOOK_SECONDS)
                self._do_what_is_due()
                self._look_after_the_dead()
                self._look_at_the_trap()
                self._look_at_others()
                if self.record.problems or self._is_hung():
                    break
                if self._position() == calm or self._trap or self._disturbed():
                    ready_at = time.monotonic() + self._random.uniform(0, 1.5)
                elif left > 0 and time.monotonic() >= ready_at and self._disturb():
                    left, calm = left - 1, self._position()
            self._judge()
        finally:
            if self.record.problems:
                self._keep_evidence(evidence)
            for process in (*self._running.values(), *(process for _, process, _ in self._others)):
                process.end()
            self._link.close()
            if self._trap:
                self._trap[0].close()
        self.record.seconds = round(time.monotonic() - began, 1)
        return self.record

    def _judge(self) -> None:
        if self.record.outcome or self.record.problems:
            self.record.outcome = self.record.outcome or "problem"
            return
        found = differences(self.run, self.subject.reference)
        self.record.problems += [f"{name} differs" for name in found]
        self.record.outcome = "differing bits" if found else SAME

    def _is_hung(self) -> bool:
        now = time.monotonic()
        progress = (self._position(), frozenset(self._finished), self._starts.total())
        if progress != self._mark[0]:
            self._mark = (progress, now)
        if now - self._mark[1] < _HUNG_SECONDS:
            return False
        self.record.outcome = "hung"
        self.record.problems.append(f"nothing has happened for {_HUNG_SECONDS:g} s")
        return True

    def _position(self) -> tuple[int, str]:
        """How far the federation has come."""
        standing = standing_of(self.run)
        path = self.run / "metrics.jsonl"
        size = path.stat().st_size if path.exists() else 0
        return size, "" if standing is None else f"{standing.round} {standing.stage}"

    def _keep_evidence(self, evidence: Path) -> None:
        shutil.copytree(self.run, evidence / "run", dirs_exist_ok=True, ignore=shutil.ignore_patterns("cert", "src"))
        living = [f"== {role}, still running\n{process.said()}" for role, process in self._running.items()]
        (evidence / "said.txt").write_text("\n".join([*self._said, *living]), encoding="utf-8")

    # Processes

    def _start(self, role: str) -> None:
        self._starts[role] += 1
        self.record.starts += 1
        through = self._link.environment if self.subject.by_hand and role != "aggregator" else {}
        self._running[role] = self._launch(role, through)

    def _launch(self, role: str, environment: dict[str, str]) -> Process | WarmProcess:
        kind = WarmProcess if self._warm and self._random.random() >= _COLD_SHARE else Process
        clock = {} if self._clock is None else self._clock.environment
        return kind(*self._commands[role], cwd=self.run, environment={**environment, **clock})

    def _look_after_the_dead(self) -> None:
        for role, process in list(self._running.items()):
            if process.poll() is None:
                continue
            self._look_at_the_trap()  # which may have killed it a moment ago
            said = process.said()
            self._said.append(f"== {role} ended with {process.returncode}\n{said}")
            process.end()
            del self._running[role]
            self._end_others(role)
            if process.returncode == 0:
                self._finished.add(role)
                continue
            if role in self._doomed and process.returncode == -signal.SIGKILL:
                self._doomed.discard(role)
                self._starts[role] -= 1
            elif not self._explained(role, said, process.returncode or 0):
                return
            if (repair := self._after.pop(role, None)) is not None:
                repair()
            if self._may_start_again(role, said):
                self._start(role)

    def _explained(self, role: str, said: str, code: int) -> bool:
        """Whether a process that could not go on has said why, in one sentence."""
        errors = [line for line in said.splitlines() if line.startswith("Error: ")]
        if "Traceback (most recent call last)" in said:
            self.record.problems.append(f"{role} ended with a traceback")
        elif not errors:
            self.record.problems.append(f"{role} ended with {code} and without a sentence")
        else:
            self.record.sentences.append(f"{role}: {errors[-1]}")
            return True
        return False

    def _may_start_again(self, role: str, said: str) -> bool:
        if "aggregator" in self._finished and "could not be reached" in said:
            self._finished.add(role)  # it is over, and the aggregator has not waited for who was killed at the end
            return False
        if self._starts[role] > _MOST_STARTS:
            self.record.problems.append(f"{role} has not come up in {_MOST_STARTS} starts")
            return False
        return True

    def _victims(self) -> dict[str, int]:
        if self.subject.by_hand:
            return {role: process.pid for role, process in self._running.items()}
        return roles_of(self._running["command"].pid) if "command" in self._running else {}

    # Faults

    def _disturbed(self) -> bool:
        """Whether an earlier fault is not over yet."""
        return bool(self._doomed or self._after or self._later or self._others)

    def _disturb(self) -> bool:
        """Cause a fault; False if the chosen one cannot be caused now."""
        chosen = self._random.choices(list(self._weights), list(self._weights.values()))[0]
        victims = self._victims()
        if not victims or (self.subject.by_hand and len(victims) < len(self._commands)):
            return False
        role = self._random.choice(sorted(victims))
        cause: dict[str, Callable[[], bool]] = {
            "kill": lambda: self._kill(role, victims[role]),
            "kill in a write": lambda: self._kill_in_write(victims),
            "stop": lambda: self._stop(victims[role]),
            "cut link": self._cut_link,
            "slow link": self._slow_link,
            "second aggregator": lambda: self._second("aggregator", "is being run by another process"),
            "second command": lambda: self._second("command", "is being run by another process"),
            "second collaborator": lambda: self._second(self.subject.collaborators[0], "is at work in another process"),
            "damaged state": lambda: self._damage(victims),
            "full disk": self._fill_disk,
            "clock jump": self._jump,
        }
        if not cause[chosen]():
            return False
        if chosen not in {"kill", "kill in a write"}:
            self.record.faults[chosen] = self.record.faults.get(chosen, 0) + 1
        return True

    def _kill(self, role: str, pid: int) -> bool:
        phase, at = phase_of(self.run, role, pid), self._round()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.record.kills.append(Kill(kind_of(role), phase, at))
            self._doom(role)
        return True

    def _doom(self, role: str) -> None:
        """Whose death follows: the process's own, or that of the command that started it, which says so."""
        if self.subject.by_hand or role == "command":
            self._doomed.add(role)
        else:
            self._starts["command"] -= 1  # which it cannot help

    def _round(self) -> int:
        standing = standing_of(self.run)
        return 0 if standing is None else standing.round

    def _kill_in_write(self, victims: dict[str, int]) -> bool:
        role = self._random.choice([name for name in sorted(victims) if name not in STATELESS] or [""])
        if not role:
            return False
        folder = self.run / "save" if role == "aggregator" else self.run / "local_state" / role
        phase = phase_of(self.run, role, victims[role])
        trap = WriteTrap(victims[role], [folder], self._random.randrange(3))
        self._trap = (trap, role, phase, victims[role], time.monotonic() + _TRAP_SECONDS)
        return True

    def _look_at_the_trap(self) -> None:
        if self._trap is None:
            return
        trap, role, _, pid, until = self._trap
        if trap.caught is None:
            if time.monotonic() > until or self._victims().get(role) != pid:
                trap.close()
                self._trap = None
            return
        trap.close()
        self._trap = None
        self._doom(role)
        while is_alive(pid):
            time.sleep(_LOOK_SECONDS)
        within = trap.caught.exists()
        phase = IN_WRITE if within else f"after a write of {'a checkpoint' if role == 'aggregator' else 'a state'}"
        self.record.kills.append(Kill(kind_of(role), phase, self._round(), trap.caught.name))

    def _stop(self, pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        self._in(self._random.uniform(3, 20), go_on)
        return True

    def _cut_link(self) -> bool:
        self._link.cut()
        self._in(self._random.uniform(1, 15), self._link.mend)
        return True

    def _slow_link(self) -> bool:
        self._link.bytes_per_second = 100_000
        self._in(self._random.uniform(5, 15), self._link.mend)
        return True

    def _second(self, role: str, sentence: str) -> bool:
        """Start what is running already."""
        self._others.append((role, self._launch(role, {}), sentence))
        return True

    def _end_others(self, role: str) -> None:
        """A second process may rightly take the place of one that has ended, and would be in the way of the next."""
        for other in [other for other in self._others if other[0] == role]:
            other[1].end()
            self._others.remove(other)

    def _look_at_others(self) -> None:
        for role, process, sentence in list(self._others):
            if process.poll() is None:
                continue
            self._others.remove((role, process, sentence))
            said = process.said()
            process.end()
            self._said.append(f"== second {role} ended with {process.returncode}\n{said}")
            if self._explained(f"second {role}", said, process.returncode or 0) and sentence not in said:
                self.record.problems.append(f"a second {role} was not told: {self.record.sentences[-1]}")

    def _damage(self, victims: dict[str, int]) -> bool:
        """Kill a process and damage the newest file that it would go on from; put it back when it was refused."""
        role = self._random.choice(sorted(victims))
        folder = self.run / "save" if role == "aggregator" else self.run / "local_state" / role
        states = sorted(folder.glob("*.state"))
        if not states:
            return False
        self._kill(role, victims[role])
        self._running[role].wait()
        newest = states[-1]
        if not newest.exists():
            return True
        whole = newest.read_bytes()
        place = self._random.randrange(len(whole))
        damaged = self._random.choice(
            [whole[:place], b"", whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :], bytes(len(whole))]
        )
        newest.write_bytes(damaged)

        def restore() -> None:
            if newest.exists() and newest.read_bytes() == damaged:
                newest.write_bytes(whole)

        self._doomed.discard(role)
        said = self._running[role].said()
        self._said.append(f"== {role} was killed\n{said}")
        self._start(role)
        self._after[role] = restore
        self._in(_TRAP_SECONDS, lambda: self._after.pop(role, restore)() if role in self._after else None)
        return True

    def _fill_disk(self) -> bool:
        if self._disk is None:
            return False
        ballast = self._disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(2**16))
        self._in(self._random.uniform(3, 15), lambda: ballast.unlink(missing_ok=True))
        return True

    def _jump(self) -> bool:
        """Set everybody's clock by up to a day and a half; at times that is before the certificates were made."""
        if self._clock is None:
            return False
        self._clock.jump(self._random.uniform(-(2**17), 2**17))
        self._in(self._random.uniform(3, 20), lambda: self._clock.jump(0) if self._clock else None)
        return True

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        due = [action for at, action in self._later if at <= now]
        self._later = [(at, action) for at, action in self._later if at > now]
        for action in due:
            action()
