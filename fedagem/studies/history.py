"""Which studies were run here, when, and how they ended: a record beside each study's tables."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from fedagem.files import write_file
from fedagem.runs.results import rounds_in_results
from fedagem.studies.runs import StudyRun

_NAME = "study.json"

Ending = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class Record:
    """The last start of a study at a scale."""

    command: str
    seeds: int
    rounds: dict[str, int]
    """How many rounds each of its runs has, by the name of the run's folder."""
    began: str
    """Date and time, as in ISO 8601; so is `ended`."""
    ended: str | None = None
    """None while it runs, and if it was killed."""
    ending: Ending | None = None
    reason: str | None = None
    """Why it failed."""

    def finished_runs(self, out: Path) -> int:
        """How many of its runs are finished in the folder of all studies."""
        return sum(rounds_in_results(out / "runs" / name) >= rounds for name, rounds in self.rounds.items())


def begin_record(folder: Path, command: str, runs: Sequence[StudyRun]) -> Record:
    """Write down that a study begins; `folder` is the one of its tables."""
    rounds = {run.directory.name: run.plan.aggregator.rounds_to_train for run in runs}
    return _write(folder, Record(command, len({run.seed for run in runs}), rounds, _now()))


def end_record(folder: Path, record: Record, ending: Ending, reason: str | None = None) -> Record:
    """Write down how a study has ended."""
    return _write(folder, replace(record, ended=_now(), ending=ending, reason=reason))


def read_record(folder: Path) -> Record | None:
    """The record of a study; None if it was not run here, or if the record is damaged."""
    try:
        return Record(**json.loads((folder / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: Path, record: Record) -> Record:
    write_file(folder / _NAME, json.dumps(asdict(record), indent=2) + "\n")
    return record


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
