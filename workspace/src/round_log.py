"""metrics.jsonl: one row per round, client and metric, written as the federation goes along."""

import json
import os
from pathlib import Path
from typing import Any

from fedagem.files import write_file

Row = dict[str, Any]


def make_row(round_number: int, stage: str, client: str, metric: str, value: Any) -> Row:
    """A row as it is written."""
    return {"round": round_number, "stage": stage, "client": client, "metric": metric, "value": value}


class RoundLog:
    """Appends rows; after a crash, rows of rounds that will be repeated are taken back."""

    def __init__(self, path: Path, first_round: int) -> None:
        self._path = path
        if path.exists():
            self._keep_rows_before(first_round)
        self._file = path.open("a", encoding="utf-8")

    def write(self, rows: list[Row]) -> None:
        """Append rows and hand them to the operating system."""
        self._file.write("".join(f"{json.dumps(row)}\n" for row in rows))
        self._file.flush()

    def sync(self) -> None:
        """Make sure that everything written so far is on disk."""
        os.fsync(self._file.fileno())

    def _keep_rows_before(self, first_round: int) -> None:
        lines = self._path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _round_of(line) < first_round]
        write_file(self._path, "".join(f"{line}\n" for line in kept))


def _round_of(line: str) -> float:
    """The round of a row; a row cut off by a crash belongs to the round that is repeated."""
    try:
        return int(json.loads(line)["round"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
