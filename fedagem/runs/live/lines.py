"""Progress for outputs that are no terminals, such as a file or the log of a job: a line now and then."""

import time

from rich.console import Console

_EVERY_SECONDS = 5.0


class Lines:
    """Prints what is new, at most every few seconds; on a terminal nothing, because there the view itself moves."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, str] = {}
        self._printed: dict[str, float] = {}

    def say(self, title: str, text: str) -> None:
        """Say of something with a title how far it is."""
        now = time.monotonic()
        if self._console.is_terminal or self._said.get(title) == text:
            return
        if now - self._printed.get(title, -_EVERY_SECONDS) >= _EVERY_SECONDS:
            self._said[title], self._printed[title] = text, now
            self._console.file.write(f"{title}: {text}\n")
            self._console.file.flush()
