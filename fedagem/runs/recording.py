"""Recording drives: in parallel if each has its own simulator, on a shared server one after the other."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml

from fedagem.errors import FedAGemError
from fedagem.files import Lock
from fedagem.runs.bridge_commands import check_bridge, record_command
from fedagem.runs.drives import Drive
from fedagem.runs.live.recording import RecordingView, RecordingWatch
from fedagem.runs.parallel import Check, run_in_parallel
from fedagem.runs.processes import ProcessGroup

_LOOK_SECONDS = 0.25


def record_drives(drives: Sequence[Drive]) -> None:
    """Record what has not been recorded before with the same settings; an unfinished recording is finished.

    The first that fails, or an interrupt, ends the others in good order; what they have recorded is kept.
    """
    check_recordable(drives)
    missing = sorted((drive for drive in drives if not drive.recorded), key=lambda drive: drive.seconds, reverse=True)
    if not missing:
        return
    alone = not all(drive.has_its_own_server for drive in missing)
    with RecordingView(missing) as view:
        run_in_parallel([partial(_record, drive, view) for drive in missing], 1 if alone else os.cpu_count() or 1)


def check_recordable(drives: Sequence[Drive]) -> None:
    """Refuse drives that are not recorded yet if the packages are missing that driving needs."""
    check_bridge(drive.carla for drive in drives if not drive.recorded)


def _record(drive: Drive, view: RecordingView, check: Check) -> None:
    drive.place.parent.mkdir(parents=True, exist_ok=True)
    with Lock(_beside(drive, "lock")) as lock:
        _wait_for(lock, drive, view, check)
        if not drive.recorded:
            view.begin(drive)
            _let_the_bridge_record(drive, lock, view, check)


def _wait_for(lock: Lock, drive: Drive, view: RecordingView, check: Check) -> None:
    """Wait while another process records the drive, which is then found complete."""
    while not lock.take():
        view.say(drive, "another process records it")
        check()
        time.sleep(_LOOK_SECONDS)


def _let_the_bridge_record(drive: Drive, lock: Lock, view: RecordingView, check: Check) -> None:
    """If this process is killed, the bridge keeps the lock until it has ended, too."""
    plan_file = _beside(drive, "yaml")
    section = drive.carla.model_dump(mode="json", exclude_unset=True)
    plan_file.write_text(yaml.safe_dump({"carla": section}, sort_keys=False), encoding="utf-8")
    command = record_command(plan_file, drive.seconds, drive.place, drive.jpeg_quality)
    with ProcessGroup(drive.place.parent) as group:
        member = group.start(drive.place.name, command, keep_open=[lock.fileno()])
        watch = RecordingWatch(member.log, member.log_begin)

        def refresh() -> None:
            check()
            watch.look()
            view.show(drive, watch)

        try:
            group.wait(refresh)
        except FedAGemError as problem:
            raise FedAGemError(
                f"the drive {drive.title} could not be recorded; what was recorded so far is kept: {problem.message}"
            ) from problem
        view.end(drive)


def _beside(drive: Drive, suffix: str) -> Path:
    """A file next to a recording that is not part of it."""
    return drive.place.with_name(f"{drive.place.name}.{suffix}")
