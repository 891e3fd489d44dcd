"""How a benchmark says what it measured: a line for people and a line of JSON."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measurement:
    """A number, what it is, and the bound it should keep."""

    name: str
    value: float
    unit: str
    bound: float
    at_least: bool = False

    def kept(self) -> bool:
        """Whether the bound is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def show(self) -> None:
        """Print it."""
        sign = ">=" if self.at_least else "<="
        verdict = "ok" if self.kept() else "MISSED"
        print(f"{self.name}: {self.value:.3f} {self.unit} (should be {sign} {self.bound:g}: {verdict})")
        print(json.dumps({**asdict(self), "kept": self.kept()}), flush=True)
