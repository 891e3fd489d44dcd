"""Plane curves made of straight lines and circular arcs: what roads, lanes and turns are built from.

Lines and arcs stay lines and arcs when shifted sideways, so one description gives exact lane centres, exact
OpenDRIVE geometry and exact markings.
"""

from dataclasses import dataclass
from math import atan, cos, hypot, pi, sin

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Segment:
    """A piece of constant curvature; positive bends to the right (CARLA's clockwise yaw)."""

    length: float
    curvature: float = 0.0


@dataclass(frozen=True)
class Path:
    """A curve that starts at (x, y) with heading `yaw` (radians) and follows its segments."""

    x: float
    y: float
    yaw: float
    segments: tuple[Segment, ...]

    @property
    def length(self) -> float:
        return sum(segment.length for segment in self.segments)

    def starts(self) -> list[tuple[float, float, float, float]]:
        """(s, x, y, yaw) at the beginning of each segment and at the end of the path."""
        s, x, y, yaw = 0.0, self.x, self.y, self.yaw
        poses = [(s, x, y, yaw)]
        for segment in self.segments:
            x, y, yaw = _advance(x, y, yaw, segment.curvature, segment.length)
            s += segment.length
            poses.append((s, x, y, yaw))
        return poses

    @property
    def end(self) -> tuple[float, float, float]:
        _, x, y, yaw = self.starts()[-1]
        return x, y, yaw

    def sample(self, s: Floats) -> Floats:
        """(n, 4) rows of x, y, yaw, curvature at arc lengths `s`, extended straight on beyond both ends."""
        starts = self.starts()
        bounds = np.array([start[0] for start in starts[1:-1]])
        which = np.searchsorted(bounds, s, side="right")
        base = np.array(starts[:-1])[which]
        curvature = np.array([segment.curvature for segment in self.segments])[which]
        along = s - base[:, 0]
        turn = along * curvature
        # sinc keeps the straight line as the limit of the arc, without a division by zero
        chord = along * np.sinc(turn / (2 * pi))
        middle = base[:, 3] + turn / 2
        return np.column_stack(
            (
                base[:, 1] + chord * np.cos(middle),
                base[:, 2] + chord * np.sin(middle),
                base[:, 3] + turn,
                curvature,
            )
        )

    def every(self, spacing: float) -> Floats:
        """Samples from start to end, at most `spacing` apart."""
        count = max(2, int(np.ceil(self.length / spacing)) + 1)
        return self.sample(np.linspace(0.0, self.length, count))

    def offset(self, right: float) -> "Path":
        """The parallel curve `right` metres to the right (left when negative)."""
        return Path(
            self.x - right * sin(self.yaw),
            self.y + right * cos(self.yaw),
            self.yaw,
            tuple(
                Segment(
                    piece.length * (1 - piece.curvature * right),
                    piece.curvature / (1 - piece.curvature * right),
                )
                for piece in self.segments
            ),
        )

    def reversed(self) -> "Path":
        """The same curve driven the other way."""
        x, y, yaw = self.end
        return Path(x, y, yaw + pi, tuple(Segment(p.length, -p.curvature) for p in reversed(self.segments)))


def _advance(x: float, y: float, yaw: float, curvature: float, length: float) -> tuple[float, float, float]:
    turn = curvature * length
    chord = length if abs(turn) < 1e-9 else 2 * sin(turn / 2) / curvature
    return x + chord * cos(yaw + turn / 2), y + chord * sin(yaw + turn / 2), yaw + turn


def connect(start: tuple[float, float, float], end: tuple[float, float, float]) -> Path:
    """A drivable curve between two poses whose headings differ by a multiple of 90 degrees."""
    x, y, yaw = start
    dx, dy = end[0] - x, end[1] - y
    ahead = dx * cos(yaw) + dy * sin(yaw)
    right = -dx * sin(yaw) + dy * cos(yaw)
    quarter_turns = round((end[2] - yaw) / (pi / 2)) % 4
    side = 1.0 if right >= 0 else -1.0
    if quarter_turns == 0:
        pieces = _swerve(ahead, right)
    elif quarter_turns == 2:
        pieces = [Segment(max(ahead, 0.0)), Segment(pi * abs(right) / 2, 2 * side / abs(right))]
        pieces.append(Segment(max(-ahead, 0.0)))
    else:
        radius = min(ahead, abs(right))
        pieces = [Segment(ahead - radius), Segment(radius * pi / 2, side / radius)]
        pieces.append(Segment(abs(right) - radius))
    return Path(x, y, yaw, tuple(piece for piece in pieces if piece.length > 1e-6))


def _swerve(ahead: float, right: float) -> list[Segment]:
    if abs(right) < 1e-6:
        return [Segment(ahead)]
    angle = 2 * atan(right / ahead)
    curvature = 2 * sin(angle / 2) / (hypot(ahead, right) / 2)
    arc = abs(angle / curvature)
    return [Segment(arc, curvature), Segment(arc, -curvature)]
