"""Records a fleet's drive as snippets: one directory per vehicle and stay in a domain, kept even after a crash."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from carla_bridge.config.section import FleetConfig
from carla_bridge.errors import BridgeError
from carla_bridge.fleet_process.process import FleetProcess, Gap
from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetError, SnippetSource, SnippetWriter, find_snippets
from carla_bridge.stream.wire import decode_frame, unpack

SUMMARY = "recording.json"


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
        """Count what lies on disk, also what was recorded before an interruption."""
        for snippet in SnippetSource(find_snippets(place), on_error="skip").snippets:
            domains = self.frames.setdefault(snippet.vehicle, {})
            domains[snippet.domain] = domains.get(snippet.domain, 0) + len(snippet.images)
            self.boxes += sum(len(image.annotations) for image in snippet.images)


def record(
    config: FleetConfig,
    directory: Path | str,
    seconds: float,
    *,
    jpeg_quality: int | None = None,
    resume: bool = False,
    on_frame: Callable[[Frame], None] = lambda frame: None,
    on_event: Callable[[str], None] = lambda text: None,
) -> Recording:
    """Drive for `seconds` of simulation time and write every vehicle's frames.

    `resume` continues what a crash left in the directory; without it the directory must be empty.
    """
    place = Path(directory)
    last = _last_times(place, config, resume)
    recording = Recording(seconds=seconds, classes=config.classes)
    began = time.monotonic()

    def note(text: str) -> None:
        recording.events.append(text)
        on_event(text)

    everybody = len(last) == len(config.vehicles)
    start = min(last.values()) + config.frame_seconds if everybody else 0.0
    with ExitStack() as stack:
        writers = stack.enter_context(_Writers(place, config, jpeg_quality))
        fleet = stack.enter_context(FleetProcess(config, start=start, on_event=note))
        recording.map_name = fleet.map_name
        for packet in fleet.packets(seconds):
            if packet.timestamp > last.get(packet.vehicle, -1.0):
                frame = decode_frame(unpack(packet.packed))
                writers.write(frame)
                on_frame(frame)
        recording.gaps = fleet.gaps
    recording.count(place)
    recording.wall_seconds = round(time.monotonic() - began, 3)
    (place / SUMMARY).write_text(json.dumps(asdict(recording), indent=1) + "\n")
    return recording


def _last_times(place: Path, config: FleetConfig, resume: bool) -> dict[str, float]:
    """When the last frame of each vehicle was recorded; vehicles without any frame are missing."""
    place.mkdir(parents=True, exist_ok=True)
    if not any(place.iterdir()):
        return {}
    if not resume:
        raise BridgeError(f"{place} is not empty; record elsewhere, or continue what is there with --resume")
    last: dict[str, float] = {}
    for vehicle in config.vehicles:
        with suppress(SnippetError):
            source = SnippetSource(find_snippets(place / vehicle.name), on_error="skip")
            last[vehicle.name] = source.last_timestamp
    return last


class _Writers:
    """One open snippet per vehicle; a change of domain closes it and opens the next."""

    def __init__(self, place: Path, config: FleetConfig, jpeg_quality: int | None) -> None:
        self._place = place
        self._config = config
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
                self._config.classes,
                vehicle=frame.vehicle,
                domain=frame.domain,
                jpeg_quality=self._jpeg_quality,
            )
            self._open[frame.vehicle] = (frame.domain, writer)
        writer.write(frame)

    def __enter__(self) -> "_Writers":
        return self

    def __exit__(self, *_: Any) -> None:
        for _domain, writer in self._open.values():
            writer.close()
