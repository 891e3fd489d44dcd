"""Reads a mapping from a plan strictly: every key is known, every value has its type, every complaint its place."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from carla_bridge.errors import ConfigError

T = TypeVar("T")


class Settings:
    """One mapping of a plan, consumed key by key; what is left over at `close` is a mistake."""

    def __init__(self, value: Any, place: str) -> None:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place} is {value!r}, not a mapping of settings")
        self._left = {str(key): entry for key, entry in value.items()}
        self._known: list[str] = []
        self.place = place

    def take(self, key: str, default: Any = None) -> Any:
        self._known.append(key)
        value = self._left.pop(key, None)
        return default if value is None else value

    def text(self, key: str, default: str | None = None) -> str:
        value = self.take(key, default)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a text")
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.take(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a text")
        return value

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a whole number from {low} to {high}")
        return value

    def number(self, key: str, default: float, low: float, high: float) -> float:
        value = self.optional_number(key, low, high)
        return default if value is None else value

    def optional_number(self, key: str, low: float, high: float) -> float | None:
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a number from {low:g} to {high:g}")
        return float(value)

    def wholes(self, key: str) -> tuple[int, ...] | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(entry) is int and entry >= 0 for entry in value):
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a list of whole numbers")
        return tuple(value)

    def choice(self, key: str, default: T, among: Iterable[T]) -> T:
        value = self.take(key, default)
        options = list(among)
        if value not in options:
            named = ", ".join(repr(option) for option in options)
            raise ConfigError(f"{self.place}.{key} is {value!r}; choose among {named}")
        chosen: T = value
        return chosen

    def section(self, key: str) -> "Settings":
        return Settings(self.take(key), f"{self.place}.{key}")

    def sections(self, key: str) -> list["Settings"]:
        value = self.take(key, [])
        if not isinstance(value, list):
            raise ConfigError(f"{self.place}.{key} is {value!r}, not a list")
        return [Settings(entry, f"{self.place}.{key}[{number}]") for number, entry in enumerate(value)]

    def named_sections(self, key: str) -> dict[str, "Settings"]:
        whole = self.section(key)
        return {name: Settings(entry, f"{whole.place}.{name}") for name, entry in whole._left.items()}

    def close(self) -> None:
        if self._left:
            unknown, known = ", ".join(sorted(self._left)), ", ".join(self._known)
            raise ConfigError(f"{self.place} has the unknown setting {unknown}; it knows {known}")
