"""Progress bars for work whose steps take minutes, with the time that is left."""

from rich.console import Console
from rich.progress import Progress, ProgressColumn

_MONTH = 30 * 24 * 3600.0


def slow_progress(*columns: ProgressColumn, console: Console) -> Progress:
    """Rich's progress with a long memory: its own ends after 30 s, and slower steps would never have a speed."""
    return Progress(*columns, console=console, speed_estimate_period=_MONTH)
