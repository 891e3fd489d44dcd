"""msgpack values of CARLA's RPC: how results are wrapped, and how arguments are checked."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

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
        raise RefusedError(f"{what} must be a finite number, not {_shown(value)}")
    if abs(value) > LIMIT:
        raise RefusedError(f"{what} is out of range: {_shown(value)}")
    return float(value)


def whole(value: Any, what: str, low: int = 0, high: int = 2**32 - 1) -> int:
    """An integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RefusedError(f"{what} must be a whole number from {low} to {high}, not {_shown(value)}")
    return value


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise RefusedError(f"{what} must be true or false, not {_shown(value)}")
    return value


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RefusedError(f"{what} must be a string, not {_shown(value)}")
    return value


def items(value: Any, what: str, length: int | None = None) -> Sequence[Any]:
    """A list, of the given length where one is given."""
    if not isinstance(value, (list, tuple)) or (length is not None and len(value) < length):
        expected = "a list" if length is None else f"a list of {length}"
        raise RefusedError(f"{what} must be {expected}, not {_shown(value)}")
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
    return [[value.x, value.y, value.z], [value.pitch, value.yaw, value.roll]]


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
