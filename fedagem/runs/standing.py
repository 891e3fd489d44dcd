"""Where a federation stands: its round and stage, who is awaited and since when.

The aggregator writes it to a small file whenever something of it changes, and the live views read it. It is for people
to look at: nothing is resumed from it, so it is replaced at once but not forced to disk.
"""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fedagem.errors import FedAGemError

_FILE = Path("logs") / "standing.json"
_SHOWN = 8
"""How many names fit into a line."""


@dataclass(frozen=True)
class Standing:
    """Times are seconds since 1970."""

    round: int
    stage: str
    """Empty after the last one."""
    since: float
    """When the stage began."""
    awaited: Mapping[str, float | None] = field(default_factory=dict)
    """Who still has to answer, and when each was heard of last; None if never."""
    awaited_in_all: int = 0
    """With very many clients, only some of them are named in `awaited`."""
    absent: tuple[str, ...] = ()
    """Whom the federation goes on without, until they come back."""
    ended: str | None = None
    """How the federation ended: an empty text if it is finished, otherwise the reason; None while it is under way."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    """The aggregator's process."""

    def write(self, directory: Path) -> None:
        """Replace the file in the folder of a run; a disk that is full does not hold up the federation."""
        path = directory / _FILE
        partial = path.with_name(f".{path.name}.{self.pid}")
        try:
            path.parent.mkdir(exist_ok=True)
            partial.write_text(json.dumps(asdict(self)), encoding="utf-8")
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)

    @property
    def abandoned(self) -> bool:
        """Whether the aggregator was killed: its process, if it was on this machine, is gone."""
        if self.ended is not None or self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def __str__(self) -> str:
        """Who is awaited since when, and who is given up, in one line."""
        if self.abandoned:
            return "the aggregator is not running: start it again, and it goes on with the unfinished round"
        parts = []
        if self.awaited:
            names = [_named(name, heard, self.since) for name, heard in list(self.awaited.items())[:_SHOWN]]
            more = self.awaited_in_all - len(names)
            parts.append(f"awaits {', '.join(names)}{f' and {more} more' if more > 0 else ''}")
            parts[-1] += f" since {_clock(self.since)}"
        if self.absent:
            more = len(self.absent) - _SHOWN
            parts.append(f"without {', '.join(self.absent[:_SHOWN])}{f' and {more} more' if more > 0 else ''}")
        return ", ".join(parts)


def forget_standing(directory: Path) -> None:
    """Before a start: what an earlier aggregator of the folder has left says nothing of this one."""
    (directory / _FILE).unlink(missing_ok=True)


def read_standing(directory: Path) -> Standing | None:
    """Where the federation in a folder stands; None if it has not begun, or does not say."""
    path = directory / _FILE
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Standing(**{**fields, "absent": tuple(fields["absent"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as problem:
        raise FedAGemError(
            f"{path} is not what an aggregator of this version writes ({problem}): remove it."
        ) from problem


def _named(name: str, heard: float | None, since: float) -> str:
    """A client, and what is known of it: whether it has its task, or has not asked for it."""
    if heard is None:
        return f"{name} (not heard of yet)"
    return name if heard >= since else f"{name} (last heard of at {_clock(heard)})"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
