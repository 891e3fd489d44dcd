"""What can be wrong with a snippet, and what the caller wants done about it."""

import logging
from typing import Literal

OnError = Literal["refuse", "skip"]

logger = logging.getLogger(__name__)


class SnippetError(ValueError):
    """A snippet that cannot be used as it is; the message is one sentence that names what and where."""


class EndOfSnippetsError(SnippetError):
    """A window that starts after the last recorded frame."""


class Faults:
    """Decides what a fault in a snippet leads to: an exception, or a warning and a smaller snippet."""

    def __init__(self, on_error: OnError = "refuse") -> None:
        if on_error not in ("refuse", "skip"):
            raise ValueError(f"on_error is {on_error!r}; use 'refuse' or 'skip'")
        self.on_error = on_error
        self.skipped: list[str] = []

    def report(self, fault: SnippetError) -> None:
        """Raise the fault, or note it and return where faults are to be skipped."""
        if self.on_error == "refuse":
            raise fault
        self.skipped.append(str(fault))
        logger.warning("skipped: %s", fault)
