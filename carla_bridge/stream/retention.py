"""The frames that the stream keeps: of every vehicle the window its collaborator works on, and at most the next one.

The world drives as far as the collaborators ask, but never further than one window beyond the slowest of them, so that
memory is bounded; a collaborator that is ahead waits.
"""

import math
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from carla_bridge.errors import StreamClosedError, StreamError
from carla_bridge.packets import Gap, Packet

HEARTBEAT_SECONDS = 5.0


@dataclass
class _VehicleFrames:
    """The frames of one vehicle, and the window that was requested last."""

    times: list[float] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    start: float = 0.0
    end: float | None = None

    def drop_before(self, start: float) -> None:
        keep = bisect_left(self.times, start)
        del self.times[:keep], self.packed[:keep]
        self.start = start


class Retention:
    """The kept frames; the producer adds to them and the connections read them."""

    def __init__(self, vehicles: Sequence[str], window_seconds: float) -> None:
        self._window = window_seconds
        self._vehicles = {name: _VehicleFrames() for name in vehicles}
        self._changed = threading.Condition()
        self._begin: float | None = None
        self._produced = 0.0
        self._gaps: list[Gap] = []
        self._failure: str | None = None
        self._closed = False

    def ask(self, vehicle: str, start: float, end: float) -> None:
        """Note that a collaborator asks for a window, and drop its frames from before that window."""
        if not (math.isfinite(start) and math.isfinite(end) and 0 <= start < end):
            raise StreamError(f"the window [{start}, {end}) is not a span of simulation seconds")
        if end - start > self._window * (1 + 1e-9):
            raise StreamError(
                f"the window [{start:g}, {end:g}) is longer than the {self._window:g} s this stream keeps; "
                "ask for less or raise carla.stream.window_seconds"
            )
        with self._changed:
            kept = self._vehicles[vehicle]
            if start < kept.start:
                raise StreamError(
                    f"the frames of {vehicle} before second {kept.start:g} are gone, "
                    f"so the window [{start:g}, {end:g}) cannot be sent again"
                )
            kept.drop_before(start)
            kept.end = end
            self._changed.notify_all()

    def frames(self, vehicle: str, after: float, end: float) -> Iterator[bytes | str]:
        """Packed frames with after < timestamp < end as they come; now and then a string says what it waits for."""
        while True:
            with self._changed:
                found, done = self._fresh(vehicle, after, end)
                if not found and not done:
                    self._changed.wait(HEARTBEAT_SECONDS)
                    found, done = self._fresh(vehicle, after, end)
                waiting = self._waiting()
            for timestamp, packed in found:
                after = timestamp
                yield packed
            if done and not found:
                return
            if not found:
                yield waiting

    def gaps(self, start: float, end: float) -> list[Gap]:
        with self._changed:
            return [gap for gap in self._gaps if start <= gap.at < end]

    def wait_for_begin(self, patience: float) -> float | None:
        """The second at which the timeline begins; None if that is not decided yet.

        It is 0 as soon as a collaborator asks for second 0. Collaborators that resume a run may be one window apart,
        so it is the earliest of all their requests then.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._first_asked() is not None, patience)
            self._begin = self._first_asked()
            self._produced = self._begin or 0.0
            return self._begin

    def wait_for_goal(self, patience: float) -> float | None:
        """How far the world should drive now; None if no collaborator needs frames."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._goal() > self._produced, patience)
            goal = self._goal()
            return goal if goal > self._produced else None

    def put(self, packet: Packet) -> None:
        with self._changed:
            kept = self._vehicles[packet.vehicle]
            if packet.timestamp >= kept.start:
                kept.times.append(packet.timestamp)
                kept.packed.append(packet.packed)
                self._changed.notify_all()

    def reached(self, time: float) -> None:
        """Note that all frames before `time` have been put."""
        with self._changed:
            self._produced = time
            self._changed.notify_all()

    def add_gap(self, gap: Gap) -> None:
        with self._changed:
            self._gaps.append(gap)

    def fail(self, message: str) -> None:
        """End all waiting for frames with this error, because there will be no more."""
        with self._changed:
            self._failure = message
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End all waiting; the connections are closed, so that clients look for a restarted server."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def count(self) -> int:
        """The number of frames that are kept now."""
        with self._changed:
            return sum(len(kept.times) for kept in self._vehicles.values())

    def _first_asked(self) -> float | None:
        asked = [kept.start for kept in self._vehicles.values() if kept.end is not None]
        clear = asked and (min(asked) == 0 or len(asked) == len(self._vehicles))
        return min(asked) if clear else None

    def _goal(self) -> float:
        wanted = max((kept.end for kept in self._vehicles.values() if kept.end is not None), default=0.0)
        slowest = min(self._begin or 0.0 if kept.end is None else kept.end for kept in self._vehicles.values())
        return min(wanted, slowest + self._window)

    def _waiting(self) -> str:
        if self._begin is None:
            missing = [name for name, kept in self._vehicles.items() if kept.end is None]
            return f"waiting for the collaborators of {', '.join(missing)} to say at which second to begin"
        if self._goal() <= self._produced:
            slowest = min(self._vehicles, key=lambda name: self._vehicles[name].end or 0.0)
            return f"waiting for the collaborator of {slowest}, which is a window behind"
        return f"driving, at second {self._produced:g}"

    def _fresh(self, vehicle: str, after: float, end: float) -> tuple[list[tuple[float, bytes]], bool]:
        kept = self._vehicles[vehicle]
        low, high = bisect_right(kept.times, after), bisect_left(kept.times, end)
        found = list(zip(kept.times[low:high], kept.packed[low:high], strict=True))
        if not found and self._closed and self._produced < end:
            raise StreamClosedError("the stream ends") if self._failure is None else StreamError(self._failure)
        return found, self._produced >= end
