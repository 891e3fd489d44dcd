"""Which clients are at work in a round and how far they are: small files that the live view reads.

Rows of metrics.jsonl come when a stage is over, which may take many minutes. A client whose turn takes longer than a
second says meanwhile how many batches it has learned from, in a file of its own that is gone when the turn is over.
"""

import os
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedagem.learning.buffer import Batch

_FOLDER = Path("logs") / "at_work"
_EVERY_SECONDS = 1.0
_STALE_SECONDS = 120.0
"""A file that is older was left by a process that was killed."""


def reported(client: str, batches: Iterable[Batch], directory: Path) -> Generator[Batch, None, None]:
    """The batches themselves; how many there were is written down in the run's folder about once a second."""
    path = directory / _FOLDER / client
    began = written = time.monotonic()
    count = samples = 0
    try:
        for batch in batches:
            yield batch
            count, samples, now = count + 1, samples + len(batch["x"]), time.monotonic()
            if now - written >= _EVERY_SECONDS:
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_name(f".{client}.{os.getpid()}")
                partial.write_text(f"{count} {samples} {now - began}", encoding="utf-8")
                partial.replace(path)
                written = now
    finally:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class AtWork:
    """What the clients at work have done of their turns."""

    clients: int
    batches: int
    samples_per_second: float

    def __str__(self) -> str:
        return (
            f"{self.clients} client{'s' if self.clients > 1 else ''} at work, {self.batches:,} batches, "
            f"{self.samples_per_second:,.0f} samples/s"
        )


def who_is_at_work(directory: Path) -> AtWork | None:
    """What is going on in a run's folder; None if nobody has been at work for a second."""
    turns = [turn for path in (directory / _FOLDER).glob("[!.]*") if (turn := _read(path)) is not None]
    if not turns:
        return None
    speed = sum(samples / seconds for _, samples, seconds in turns)
    return AtWork(len(turns), sum(batches for batches, _, _ in turns), speed)


def _read(path: Path) -> tuple[int, int, float] | None:
    """Batches, samples and seconds of a turn; None if it is over, or was never ended."""
    try:
        if time.time() - path.stat().st_mtime > _STALE_SECONDS:
            return None
        batches, samples, seconds = path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return None
    return int(batches), int(samples), float(seconds)
