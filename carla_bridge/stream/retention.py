"""What the stream keeps: of every vehicle the window its collaborator works on, and at most one window ahead.

The collaborators' requests pull the world forward. It never runs further than one window beyond the slowest
collaborator, so memory is bounded whatever the others do; a collaborator that is ahead waits.
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
class _Shelf:
    """One vehicle's frames, and the window last asked for."""

    times: list[float] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    start: float = 0.0
    end: float | None = None

    def drop_before(self, start: float) -> None:
        keep = bisect_left(self.times, start)
        del self.times[:keep], self.packed[:keep]
        self.start = start


class Retention:
    """Shared by the producer, which fills it, and the connections, which read it."""

    def __init__(self, vehicles: Sequence[str], window_seconds: float) -> None:
        self._window = window_seconds
        self._shelves = {name: _Shelf() for name in vehicles}
        self._changed = threading.Condition()
        self._begin: float | None = None
        self._produced = 0.0
        self._gaps: list[Gap] = []
        self._failure: str | None = None
        self._closed = False

    def ask(self, vehicle: str, start: float, end: float) -> None:
        """A collaborator turns to a window: what lies before it may go."""
        if not (math.isfinite(start) and math.isfinite(end) and 0 <= start < end):
            raise StreamError(f"the window [{start}, {end}) is not a span of simulation seconds")
        if end - start > self._window * (1 + 1e-9):
            raise StreamError(
                f"the window [{start:g}, {end:g}) is longer than the {self._window:g} s this stream keeps; "
                "ask for less or raise carla.stream.window_seconds"
            )
        with self._changed:
            shelf = self._shelves[vehicle]
            if start < shelf.start:
                raise StreamError(
                    f"the frames of {vehicle} before second {shelf.start:g} are gone, "
                    f"so the window [{start:g}, {end:g}) cannot be had again"
                )
            shelf.drop_before(start)
            shelf.end = end
            self._changed.notify_all()

    def frames(self, vehicle: str, after: float, end: float) -> Iterator[bytes | str]:
        """Packed frames with after < timestamp < end as they come; a text, now and then, says what it waits for."""
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
        """The second at which the timeline begins, or None where that is not clear yet.

        It is 0 as soon as somebody asks for second 0. Collaborators that resume a run may be one window apart,
        so it then is the earliest of all their requests.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._first_asked() is not None, patience)
            self._begin = self._first_asked()
            self._produced = self._begin or 0.0
            return self._begin

    def wait_for_goal(self, patience: float) -> float | None:
        """How far the world should drive now, or None where nobody needs it to."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._goal() > self._produced, patience)
            goal = self._goal()
            return goal if goal > self._produced else None

    def put(self, packet: Packet) -> None:
        with self._changed:
            shelf = self._shelves[packet.vehicle]
            if packet.timestamp >= shelf.start:
                shelf.times.append(packet.timestamp)
                shelf.packed.append(packet.packed)
                self._changed.notify_all()

    def reached(self, time: float) -> None:
        """All frames before `time` have been put."""
        with self._changed:
            self._produced = time
            self._changed.notify_all()

    def add_gap(self, gap: Gap) -> None:
        with self._changed:
            self._gaps.append(gap)

    def fail(self, message: str) -> None:
        """No frame will come any more; everybody who waits is told why."""
        with self._changed:
            self._failure = message
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End all waiting; connections just end, so that clients look for a successor."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def count(self) -> int:
        """Frames held now."""
        with self._changed:
            return sum(len(shelf.times) for shelf in self._shelves.values())

    def _first_asked(self) -> float | None:
        asked = [shelf.start for shelf in self._shelves.values() if shelf.end is not None]
        clear = asked and (min(asked) == 0 or len(asked) == len(self._shelves))
        return min(asked) if clear else None

    def _goal(self) -> float:
        wanted = max((shelf.end for shelf in self._shelves.values() if shelf.end is not None), default=0.0)
        slowest = min(self._begin or 0.0 if shelf.end is None else shelf.end for shelf in self._shelves.values())
        return min(wanted, slowest + self._window)

    def _waiting(self) -> str:
        if self._begin is None:
            missing = [name for name, shelf in self._shelves.items() if shelf.end is None]
            return f"waiting for the collaborators of {', '.join(missing)} to say where to begin"
        if self._goal() <= self._produced:
            slowest = min(self._shelves, key=lambda name: self._shelves[name].end or 0.0)
            return f"waiting for the collaborator of {slowest}, which is a window behind"
        return f"driving, at second {self._produced:g}"

    def _fresh(self, vehicle: str, after: float, end: float) -> tuple[list[tuple[float, bytes]], bool]:
        shelf = self._shelves[vehicle]
        low, high = bisect_right(shelf.times, after), bisect_left(shelf.times, end)
        found = list(zip(shelf.times[low:high], shelf.packed[low:high], strict=True))
        if not found and self._closed and self._produced < end:
            raise StreamClosedError("the stream ends") if self._failure is None else StreamError(self._failure)
        return found, self._produced >= end
