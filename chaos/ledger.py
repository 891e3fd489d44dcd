"""The ledger: what was broken and how it ended, as JSON lines that add up over runs of the harness, and its tables."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SAME = "same bits"
"""How an attempt must end."""
IN_WRITE = "write of state"
IDLE = "waiting"
"""A process that has nothing to do: its kills do not count."""


@dataclass
class Kill:
    """A process that was killed, and what it was doing."""

    process: str
    phase: str
    round: int
    target: str = ""
    """With a kill in a write: the file."""

    @property
    def counts(self) -> bool:
        """Whether the process was at work."""
        return self.phase != IDLE


@dataclass
class Attempt:
    """A federation that was disturbed, and how it ended."""

    subject: str
    seed: int
    kills: list[Kill] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    """What was done besides kills."""
    sentences: list[str] = field(default_factory=list)
    """What processes said that could not go on."""
    starts: int = 0
    seconds: float = 0.0
    outcome: str = ""
    problems: list[str] = field(default_factory=list)
    """What must not happen: a traceback, an end without a sentence, a file that differs."""

    def append_to(self, ledger: Path) -> None:
        """Write a line."""
        ledger.parent.mkdir(parents=True, exist_ok=True)
        with ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self)) + "\n")

    @classmethod
    def parse(cls, line: str) -> "Attempt":
        """A line of a ledger."""
        fields: dict[str, Any] = json.loads(line)
        kills = [Kill(**kill) for kill in fields.pop("kills")]
        return cls(**{**fields, "kills": kills})


def read_ledger(path: Path) -> list[Attempt]:
    """All attempts so far."""
    if not path.exists():
        return []
    return [Attempt.parse(line) for line in path.read_text(encoding="utf-8").splitlines()]


def kills_table(attempts: Iterable[Attempt]) -> str:
    """Kills of working processes, by process and by what they were doing, as Markdown."""
    kills = [kill for attempt in attempts for kill in attempt.kills]
    counted = Counter((kill.process, kill.phase) for kill in kills if kill.counts)
    processes = sorted({process for process, _ in counted})
    phases = sorted({phase for _, phase in counted}, key=lambda phase: (phase != IN_WRITE, phase))
    lines = [["killed", *phases, "all"]]
    for process in processes:
        cells = [counted[process, phase] for phase in phases]
        lines.append([process, *map(str, cells), str(sum(cells))])
    totals = [sum(counted[process, phase] for process in processes) for phase in phases]
    lines.append(["all", *map(str, totals), str(sum(totals))])
    return _markdown(lines)


def attempts_table(attempts: Iterable[Attempt]) -> str:
    """Attempts, what was done to them and how they ended, by subject, as Markdown."""
    rows: dict[str, Counter[str]] = {}
    for attempt in attempts:
        for subject in (attempt.subject, "all"):
            row = rows.setdefault(subject, Counter())
            row["attempts"] += 1
            row["kills"] += sum(kill.counts for kill in attempt.kills)
            row["other faults"] += sum(attempt.faults.values())
            row["sentences"] += len(attempt.sentences)
            row[SAME] += attempt.outcome == SAME and not attempt.problems
            for outcome in ("differing bits", "hung"):
                row[outcome] += attempt.outcome == outcome
            row["other problems"] += attempt.outcome not in {"differing bits", "hung"} and bool(attempt.problems)
    heads = ["attempts", "kills", "other faults", "sentences", SAME, "differing bits", "hung", "other problems"]
    names = sorted(rows, key=lambda name: (name == "all", name))
    return _markdown([["federation", *heads], *([name, *(str(rows[name][head]) for head in heads)] for name in names)])


def faults_line(attempts: Iterable[Attempt]) -> str:
    """How often each of the other faults was caused."""
    faults: Counter[str] = Counter()
    for attempt in attempts:
        faults.update(attempt.faults)
    return ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))


def _markdown(lines: list[list[str]]) -> str:
    head, *body = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *body))
