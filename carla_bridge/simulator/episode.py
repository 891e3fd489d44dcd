"""What clients choose for an episode: its settings and its weather."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from carla_bridge.simulator.scene import Weather

DEFAULT_STEP = 0.05
"""Seconds per tick if the client sets none."""
LONGEST_STEP = 1.0
UNDIVIDED_STEP, LONGEST_PIECE = 0.2, 0.1
"""Seconds for which a driver's decision holds; a longer step is divided into pieces, with room to spare."""


@dataclass(frozen=True)
class EpisodeSettings:
    """CARLA's WorldSettings; fields that have no effect here are kept and returned."""

    synchronous: bool = False
    no_rendering: bool = False
    fixed_delta: float | None = None
    rest: tuple[Any, ...] = (True, 0.01, 10, 0.0, False, 3000.0, 2000.0, True)

    @property
    def step(self) -> float:
        return self.fixed_delta or DEFAULT_STEP

    @property
    def pieces(self) -> int:
        """Into how many equal parts a step is divided."""
        return 1 if self.step <= UNDIVIDED_STEP else ceil(self.step / LONGEST_PIECE - 1e-9)

    def wire(self) -> list[object]:
        delta: list[object] = [False] if self.fixed_delta is None else [True, self.fixed_delta]
        return [self.synchronous, self.no_rendering, delta, *self.rest]


@dataclass(frozen=True)
class WeatherParameters:
    """CARLA's fourteen numbers."""

    values: tuple[float, ...] = (5.0, 0.0, 0.0, 10.0, -1.0, 45.0, 2.0, 0.75, 0.1, 0.0, 1.0, 0.03, 0.0331, 0.0)

    @property
    def seen(self) -> Weather:
        """The part that is drawn."""
        cloud, rain, deposits, _, azimuth, altitude, fog, distance, _, wet, *_ = self.values
        return Weather(
            _percent(cloud),
            _percent(rain),
            _percent(deposits),
            _percent(wet),
            azimuth % 360.0,
            max(-90.0, min(90.0, altitude)),
            _percent(fog),
            max(0.0, distance),
        )


def _percent(value: float) -> float:
    return max(0.0, min(100.0, value))
