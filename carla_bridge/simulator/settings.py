"""Episode settings and weather, as the client reads and writes them."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.protocol import wire
from carla_bridge.simulator.scene import Weather

DEFAULT_STEP = 0.05
"""Seconds per tick where the client fixes none."""
LONGEST_STEP = 1.0
UNDIVIDED_STEP, LONGEST_PIECE = 0.2, 0.1
"""Seconds for which drivers can keep to what they decided; a longer step is divided into pieces, with room to spare."""


@dataclass(frozen=True)
class EpisodeSettings:
    """CARLA's WorldSettings; what does not matter here is kept and handed back."""

    synchronous: bool = False
    no_rendering: bool = False
    fixed_delta: float | None = None
    rest: tuple[Any, ...] = (True, 0.01, 10, 0.0, False, 3000.0, 2000.0, True)

    @classmethod
    def read(cls, settings: Any) -> "EpisodeSettings":
        fields = wire.items(settings, "settings", 3)
        optional = wire.items(fields[2], "fixed_delta_seconds")
        delta = None
        if len(optional) == 2 and optional[0]:
            delta = wire.number(optional[1], "fixed_delta_seconds")
            if not 0.0 <= delta <= LONGEST_STEP:
                raise RefusedError(f"fixed_delta_seconds must be between 0 and {LONGEST_STEP:g}, not {delta:g}")
        rest = list(cls.rest)
        for number, value in enumerate(fields[3:11]):
            check = wire.flag if isinstance(rest[number], bool) else wire.number
            rest[number] = type(rest[number])(check(value, "settings"))
        return cls(
            wire.flag(fields[0], "synchronous_mode"),
            wire.flag(fields[1], "no_rendering_mode"),
            delta or None,
            tuple(rest),
        )

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

    @classmethod
    def read(cls, value: Any) -> "WeatherParameters":
        numbers = [wire.number(item, "weather parameter") for item in wire.items(value, "weather", 14)]
        return cls(tuple(numbers[:14]))

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
