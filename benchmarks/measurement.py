"""How a benchmark says what it measured: a line for people and a line of JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measurement:
    """A number, what it is, and the bound it should keep."""

    name: str
    value: float
    unit: str
    bound: float
    at_least: bool = False
    runs: int = 1
    """Of how many runs the number is the median."""
    least: float | None = None
    most: float | None = None

    @classmethod
    def median(
        cls, name: str, values: Sequence[float], unit: str, bound: float, at_least: bool = False
    ) -> "Measurement":
        """The median of several runs, with their range beside it."""
        middle = statistics.median(values)
        return cls(name, middle, unit, bound, at_least, len(values), min(values), max(values))

    def kept(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def show(self) -> None:
        """Print it."""
        sign = ">=" if self.at_least else "<="
        verdict = "ok" if self.kept() else "MISSED"
        spread = f", {self.least:.3f} to {self.most:.3f} in {self.runs} runs" if self.runs > 1 else ""
        print(f"{self.name}: {self.value:.3f} {self.unit}{spread} (should be {sign} {self.bound:g}: {verdict})")
        print(json.dumps({**asdict(self), "kept": self.kept()}), flush=True)
