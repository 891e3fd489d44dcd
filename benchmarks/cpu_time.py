"""CPU seconds of whole families of processes: what a busy machine changes least.

The processes of a contender are found by a variable of their environment, which children inherit, so that none is
missed that a library has detached from its parent. Wall time and the share of the processor that other machines took
(steal) are reported beside them.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

_VARIABLE = "FEDAGEM_BENCHMARK"


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    cpu: float
    wall: float
    steal: float
    """The share of all processor time that the machine did not get."""


class Family:
    """All processes that were started with the same mark in their environment, and their children."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex

    def environment(self, **more: str) -> dict[str, str]:
        """What the first process of the family must be started with; arithmetic has one thread."""
        return {**os.environ, _VARIABLE: self._mark, "OMP_NUM_THREADS": "1", **more}

    def seconds(self) -> float:
        """CPU seconds of the family so far, those of members that have ended included if somebody waited for them."""
        total = 0.0
        for process in self.members():
            with contextlib.suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
        return total

    def members(self) -> list[psutil.Process]:
        """The living processes; children also if they have overwritten their environment, as some do with a title."""
        everybody = {process.pid: process for process in psutil.process_iter(["ppid"])}
        found: dict[int, psutil.Process] = {}
        for pid, process in everybody.items():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_VARIABLE) == self._mark:
                    found[pid] = process
        more = found
        while more:
            more = {pid: p for pid, p in everybody.items() if pid not in found and p.info["ppid"] in found}
            found |= more
        return list(found.values())

    def end(self) -> None:
        """End every process of the family."""
        for process in self.members():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def cost_of(self, work: Callable[[], None]) -> Cost:
        """What the family takes while the work is being done."""
        steal, cpu, began = _ticks(), self.seconds(), time.monotonic()
        work()
        seconds, now = time.monotonic() - began, _ticks()
        stolen = (now[0] - steal[0]) / max(now[1] - steal[1], 1)
        return Cost(self.seconds() - cpu, seconds, stolen)


class Contender(Protocol):
    """Something that does the same work again and again, in a family of processes of its own."""

    name: str
    family: Family

    def work(self) -> None:
        """Do it once."""


@dataclass
class Race:
    """What the contenders took, in turns."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)

    @classmethod
    def run(cls, contenders: Sequence[Contender], turns: int) -> "Race":
        """Let them take turns, in reverse order every other time; each has worked once before, which does not count."""
        race = cls({contender.name: [] for contender in contenders})
        for contender in contenders:
            contender.work()
        for turn in range(turns):
            for contender in contenders if turn % 2 == 0 else reversed(contenders):
                race.costs[contender.name].append(contender.family.cost_of(contender.work))
            latest = {name: round(costs[-1].cpu, 2) for name, costs in race.costs.items()}
            print(f"turn {turn + 1} of {turns}: CPU seconds {latest}", flush=True)
        race.show()
        return race

    def ratios(self, ours: str, theirs: str) -> list[float]:
        """CPU seconds of one contender over those of another, turn by turn."""
        pairs = zip(self.costs[ours], self.costs[theirs], strict=True)
        return [mine.cpu / other.cpu for mine, other in pairs]

    def show(self) -> None:
        """Print the range of each contender."""
        for name, costs in self.costs.items():
            print(f"{name}: {_range([c.cpu for c in costs], 'CPU s')}, {_range([c.wall for c in costs], 's')}")
        steal = [100 * cost.steal for costs in self.costs.values() for cost in costs]
        print(f"steal: {_range(steal, '%')}", flush=True)


def _range(values: Sequence[float], unit: str) -> str:
    return f"{min(values):.2f} to {max(values):.2f} {unit}"


def _ticks() -> tuple[int, int]:
    """The machine's stolen and all processor time so far."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)
