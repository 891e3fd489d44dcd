"""The `data_loader.settings` of a driving plan: which frames each vehicle learns from, and what is evaluated."""

from dataclasses import dataclass, field
from typing import Any

from fedagem.errors import PlanError
from fedagem.settings import parse_settings


@dataclass(frozen=True)
class StreamAddress:
    """Where `carla-bridge serve` listens; a token, where one is needed, comes from CARLA_BRIDGE_TOKEN."""

    port: int
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Leg:
    """From a round on, a vehicle replays these snippets."""

    paths: list[str]
    from_round: int = 0
    repeat: bool = True
    domain: str = ""
    """What these snippets show, where they do not say it themselves."""


@dataclass(frozen=True)
class Holdout:
    """Of every `every` blocks of `block` consecutive recorded frames the last is kept for the evaluation."""

    block: int = 10
    every: int = 5

    def keeps_out(self, index: int) -> bool:
        """Whether a recorded frame is for the evaluation only."""
        return (index // self.block) % self.every == self.every - 1


@dataclass(frozen=True)
class EvaluationFrames:
    """Recorded frames that the first vehicle scores the global model on."""

    paths: dict[str, Any] = field(default_factory=dict)
    """For each domain the folders of its snippets."""
    held_out_only: bool = False
    """Score only frames that `holdout` keeps out of training."""
    batch_size: int = 16


@dataclass(frozen=True)
class DrivingSettings:
    """What every vehicle learns from."""

    seed: int
    classes: list[str]
    input_size: list[int]
    seconds_per_round: float
    vehicles: list[str]
    stream: StreamAddress | None = None
    snippets: dict[str, Any] = field(default_factory=dict)
    """For each vehicle a list of legs, where frames are replayed instead of streamed."""
    frame_period: float = 1.0
    """Seconds from frame to frame in snippets without time stamps."""
    holdout: Holdout | None = None
    evaluation: EvaluationFrames = field(default_factory=EvaluationFrames)
    domains: list[str] = field(default_factory=list)
    """The domains that frames may come from, to say what the buffers are made of."""
    batch_size: int = 8
    epochs: int = 1
    max_boxes: int = 50

    def __post_init__(self) -> None:
        if (self.stream is None) == (not self.snippets):
            raise PlanError("data_loader.settings needs frames from either stream or snippets: give exactly one.")
        if self.snippets and set(self.snippets) != set(self.vehicles):
            raise PlanError(
                f"data_loader.settings.snippets has legs for {sorted(self.snippets)}, "
                f"but data_loader.settings.vehicles are {sorted(self.vehicles)}."
            )
        for vehicle in self.snippets:
            self.legs(vehicle)

    def legs(self, vehicle: str) -> list[Leg]:
        """A vehicle's legs in order."""
        path = f"data_loader.settings.snippets.{vehicle}"
        parts = self.snippets[vehicle]
        if not isinstance(parts, list) or not parts:
            raise PlanError(f"{path} must be a list of legs, not {parts!r}.")
        legs = [parse_settings(Leg, part, f"{path}[{i}]") for i, part in enumerate(parts)]
        starts = [leg.from_round for leg in legs]
        if starts[0] != 0 or starts != sorted(set(starts)):
            raise PlanError(f"{path} must have legs with rising from_round, the first at 0, not {starts}.")
        return legs
