"""Drives a fleet and records it as snippets; a recording that was killed can be resumed."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import BridgeError
from carla_bridge.fleet_process.process import FleetProcess
from carla_bridge.frames import Frame
from carla_bridge.packets import decode_frame, unpack
from carla_bridge.snippets.recording import Recording, RecordingWriter, last_timestamps, note_gap, noted_gaps


def record(
    config: CarlaSettings,
    directory: Path | str,
    seconds: float,
    *,
    jpeg_quality: int | None = None,
    resume: bool = False,
    on_frame: Callable[[Frame], None] = lambda frame: None,
    on_event: Callable[[str], None] = lambda text: None,
    on_repeat: Callable[[float], object] = lambda second: None,
) -> Recording:
    """Drive for `seconds` of simulation time and write every vehicle's frames.

    `resume` continues what a crash left in the directory; without it the directory must be empty. The embedded
    simulator drives again what is recorded, with `on_repeat` called on the way, and goes on as if it had never stopped;
    on another server the fleet goes on from other places, and the recording has a gap.
    """
    place = Path(directory)
    last = _recorded_before(place, config, resume)
    recording = Recording(seconds=seconds, classes=config.class_names)
    began = time.monotonic()

    def note(text: str) -> None:
        recording.events.append(text)
        on_event(text)

    all_began = len(last) == len(config.vehicles)
    start = min(last.values()) + config.frame_seconds if all_began else 0.0
    with ExitStack() as stack:
        writer = stack.enter_context(RecordingWriter(place, config.class_names, jpeg_quality))
        process = FleetProcess(config, start=start, on_event=note, on_repeat=on_repeat)
        process.on_gap(lambda gap: note_gap(place, gap))
        fleet = stack.enter_context(process)
        recording.map_name = fleet.map_name
        for packet in fleet.packets(seconds):
            if packet.timestamp > last.get(packet.vehicle, -1.0):
                frame = decode_frame(unpack(packet.packed))
                writer.write(frame)
                on_frame(frame)
    recording.gaps = noted_gaps(place)
    recording.count(place)
    recording.wall_seconds = round(time.monotonic() - began, 3)
    recording.write(place)
    return recording


def _recorded_before(place: Path, config: CarlaSettings, resume: bool) -> dict[str, float]:
    """When the last frame of each vehicle was recorded, for a directory that may be continued."""
    place.mkdir(parents=True, exist_ok=True)
    if not any(place.iterdir()):
        return {}
    if not resume:
        raise BridgeError(f"{place} is not empty; record elsewhere, or continue what is there with --resume")
    return last_timestamps(place, [vehicle.name for vehicle in config.vehicles])
