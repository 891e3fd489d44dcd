"""How a number measured with several seeds is written in tables."""

from collections.abc import Iterable
from statistics import mean, stdev


def spread(values: Iterable[float], digits: int) -> str:
    """Mean and sample deviation; the mean alone for one value, a dash for none."""
    known = list(values)
    if not known:
        return "-"
    return f"{mean(known):.{digits}f}" + (f" ± {stdev(known):.{digits}f}" if len(known) > 1 else "")
