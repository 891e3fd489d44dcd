"""msgpack values of CARLA's RPC: how results are wrapped, and how arguments are checked."""

import reprlib
from collections.abc import Sequence
from math import isfinite
from typing import Any

from carla_bridge.simulator.actors.posing import in_range
from carla_bridge.simulator.episode import LONGEST_STEP, EpisodeSettings, WeatherParameters
from carla_bridge.simulator.errors import RefusedError
from carla_bridge.simulator.scene import Pose

LIMIT = 1e7
"""No coordinate, speed or angle is larger than this."""


def success(value: object) -> list[object]:
    """Response<T>, or Response<void> for None."""
    return [[False]] if value is None else [[1, value]]


def failure(message: str) -> list[object]:
    """An error: the client raises RuntimeError(message)."""
    return [[0, [message]]]


def number(value: Any, what: str) -> float:
    """A finite number of sane size."""
    if type(value) is float and -LIMIT <= value <= LIMIT:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise RefusedError(f"{what} must be a finite number, not {shown(value)}")
    if abs(value) > LIMIT:
        raise RefusedError(f"{what} is out of range: {shown(value)}")
    return float(value)


def whole(value: Any, what: str, low: int = 0, high: int = 2**32 - 1) -> int:
    """An integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RefusedError(f"{what} must be a whole number from {low} to {high}, not {shown(value)}")
    return value


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise RefusedError(f"{what} must be true or false, not {shown(value)}")
    return value


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RefusedError(f"{what} must be a string, not {shown(value)}")
    return value


def items(value: Any, what: str, length: int | None = None) -> Sequence[Any]:
    """A list, of at least the given length if there is one."""
    if not isinstance(value, (list, tuple)) or (length is not None and len(value) < length):
        expected = "a list" if length is None else f"a list of {length}"
        raise RefusedError(f"{what} must be {expected}, not {shown(value)}")
    return value


def vector(value: Any, what: str) -> tuple[float, float, float]:
    x, y, z = items(value, what, 3)[:3]
    return number(x, what), number(y, what), number(z, what)


def pose(value: Any, what: str = "transform") -> Pose:
    """A Transform."""
    place, turn = items(value, what, 2)[:2]
    x, y, z = vector(place, f"{what} location")
    pitch, yaw, roll = vector(turn, f"{what} rotation")
    return Pose(x, y, z, pitch, yaw, roll)


def transform(value: Pose) -> list[list[float]]:
    value = in_range(value)
    return [[value.x, value.y, value.z], [value.pitch, value.yaw, value.roll]]


def episode_settings(value: Any) -> EpisodeSettings:
    """WorldSettings."""
    fields = items(value, "settings", 3)
    optional = items(fields[2], "fixed_delta_seconds")
    delta = None
    if len(optional) == 2 and optional[0]:
        delta = number(optional[1], "fixed_delta_seconds")
        if not 0.0 <= delta <= LONGEST_STEP:
            raise RefusedError(f"fixed_delta_seconds must be between 0 and {LONGEST_STEP:g}, not {delta:g}")
    rest = list(EpisodeSettings.rest)
    for index, field in enumerate(fields[3:11]):
        check = flag if isinstance(rest[index], bool) else number
        rest[index] = type(rest[index])(check(field, "settings"))
    return EpisodeSettings(
        flag(fields[0], "synchronous_mode"), flag(fields[1], "no_rendering_mode"), delta or None, tuple(rest)
    )


def weather(value: Any) -> WeatherParameters:
    """WeatherParameters."""
    numbers = [number(item, "weather parameter") for item in items(value, "weather", 14)]
    return WeatherParameters(tuple(numbers[:14]))


class _ShortRepr(reprlib.Repr):
    """Reads no more of a value than it shows: clients may send millions of items instead of one."""

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value[: self.maxother])

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        return f"<map of {len(value)}>"

    def repr_ExtType(self, value: object, level: int) -> str:  # noqa: N802 - named after msgpack's type
        return "<extension>"


_short_repr = _ShortRepr()


def shown(value: object) -> str:
    """A value as it is shown in error messages."""
    text = _short_repr.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
