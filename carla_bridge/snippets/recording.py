"""A recorded drive on disk: one snippet per vehicle and stay in a region, and a summary of the whole."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from carla_bridge.errors import SnippetError
from carla_bridge.frames import Frame
from carla_bridge.packets import Gap
from carla_bridge.snippets.journal import find_snippets
from carla_bridge.snippets.source import SnippetSource
from carla_bridge.snippets.writer import SnippetWriter

SUMMARY = "recording.json"
GAPS = "gaps.jsonl"
"""A journal of the gaps: a recording that is interrupted again still knows the earlier ones."""


@dataclass
class Recording:
    """What was recorded; written as `recording.json` when the recording is complete."""

    seconds: float
    map_name: str = ""
    classes: tuple[str, ...] = ()
    frames: dict[str, dict[str, int]] = field(default_factory=dict)
    """Frames by vehicle and domain."""
    boxes: int = 0
    gaps: list[Gap] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    wall_seconds: float = 0.0

    def count(self, place: Path) -> None:
        """Count what is on disk, including what was recorded before an interruption."""
        for snippet in SnippetSource(find_snippets(place), on_error="skip").snippets:
            domains = self.frames.setdefault(snippet.vehicle, {})
            domains[snippet.domain] = domains.get(snippet.domain, 0) + len(snippet.images)
            self.boxes += sum(len(image.annotations) for image in snippet.images)

    def write(self, place: Path) -> None:
        (place / SUMMARY).write_text(json.dumps(asdict(self), indent=1) + "\n")


def note_gap(place: Path, gap: Gap) -> None:
    """Add a gap to the journal of the recording."""
    with (place / GAPS).open("a") as file:
        file.write(json.dumps(asdict(gap)) + "\n")


def noted_gaps(place: Path) -> list[Gap]:
    """All gaps of a recording, including those of the commands before it was resumed."""
    journal = place / GAPS
    return [Gap(**json.loads(line)) for line in journal.read_text().splitlines()] if journal.exists() else []


def last_timestamps(place: Path, vehicles: Iterable[str]) -> dict[str, float]:
    """When the last frame of each vehicle was recorded; vehicles without a frame are left out."""
    last: dict[str, float] = {}
    for vehicle in vehicles:
        with suppress(SnippetError):
            last[vehicle] = SnippetSource(find_snippets(place / vehicle), on_error="skip").last_timestamp
    return last


class RecordingWriter:
    """Keeps one snippet per vehicle open; a change of domain closes it and opens the next."""

    def __init__(self, place: Path, classes: Sequence[str], jpeg_quality: int | None) -> None:
        self._place = place
        self._classes = classes
        self._jpeg_quality = jpeg_quality
        self._open: dict[str, tuple[str, SnippetWriter]] = {}

    def write(self, frame: Frame) -> None:
        domain, writer = self._open.get(frame.vehicle, ("", None))
        if writer is None or domain != frame.domain:
            if writer is not None:
                writer.close()
            home = self._place / frame.vehicle
            number = len(list(home.glob("*"))) if home.exists() else 0
            writer = SnippetWriter(
                home / f"{number:03d}_{frame.domain}",
                self._classes,
                vehicle=frame.vehicle,
                domain=frame.domain,
                jpeg_quality=self._jpeg_quality,
            )
            self._open[frame.vehicle] = (frame.domain, writer)
        writer.write(frame)

    def __enter__(self) -> "RecordingWriter":
        return self

    def __exit__(self, *_: Any) -> None:
        for _domain, writer in self._open.values():
            writer.close()
