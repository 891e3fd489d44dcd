"""A wall clock that jumps, for processes by hand: libfaketime (Debian's package `faketime`) tells them another time.

Only the time of day jumps, as when somebody sets a clock or it is set over the network: what waits for so many seconds
looks at a monotonic clock, which no jump changes.
"""

from pathlib import Path

_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class Clock:
    """The time of day of all processes that are started with its environment."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        self.jump(0)

    @staticmethod
    def available() -> bool:
        """Whether the library is installed."""
        return bool(_LIBRARIES)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with."""
        return {
            "LD_PRELOAD": str(_LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, seconds: float) -> None:
        """From now on the clock is so far ahead of the real one, or behind it."""
        partial = self._offset.with_suffix(".new")
        partial.write_text(f"{seconds:+.0f}\n", encoding="utf-8")
        partial.replace(self._offset)  # nobody must read half of it
