"""Who takes part in a federation and was heard of when: what the plan's policy for the absent goes by."""

import time
from collections.abc import Callable, Iterable

from fedagem.plans.federation import AbsenceSettings


class Attendance:
    """Whoever shares it between threads guards it with a lock."""

    def __init__(self, settings: AbsenceSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._began = clock()
        self.heard: dict[str, float] = {}
        """When each client last asked for something or sent it."""
        self.absent: set[str] = set()
        """Those whom the federation goes on without, until they are heard of again."""

    def note(self, name: str) -> None:
        """A client was heard of."""
        self.heard[name] = self._clock()

    def missing(self, awaited: Iterable[str], since: float) -> list[str]:
        """Those of the clients that are awaited since some time from whom nothing was heard for too long."""
        patience = self._settings.after_seconds
        if patience is None:
            return []
        now = self._clock()
        return [name for name in awaited if self._silent_since(name, since) + patience <= now]

    def until_next(self, awaited: Iterable[str], since: float) -> float | None:
        """In how many seconds the next of them will be missing if nothing happens; None if nobody ever is."""
        patience = self._settings.after_seconds
        silences = [self._silent_since(name, since) for name in awaited]
        if patience is None or not silences:
            return None
        return max(min(silences) + patience - self._clock(), 0.0)

    def excuse(self) -> None:
        """Start counting again: this process was stopped for a while and could hear nobody."""
        self._began = self._clock()

    def _silent_since(self, name: str, since: float) -> float:
        """A client that was not asked for anything need not say anything."""
        return max(self.heard.get(name, self._began), since, self._began)
