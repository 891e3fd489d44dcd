"""The settings of a driving plan: which frames each vehicle learns from, what is evaluated, and what is recorded."""

from dataclasses import dataclass, field
from typing import Any

from fedagem.errors import PlanError
from fedagem.settings import parse_settings


def has_vehicles(plan: dict[str, Any]) -> bool:
    """Whether it is a driving plan: vehicles learn from frames, driven live or replayed."""
    return "vehicles" in plan["data_loader"]["settings"]


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

    def __post_init__(self) -> None:
        if self.block < 1 or self.every < 2:
            raise PlanError(
                f"data_loader.settings.holdout needs block of at least 1 and every of at least 2, not {self}."
            )

    def keeps_out(self, index: int) -> bool:
        """Whether a recorded frame is for the evaluation only."""
        return (index // self.block) % self.every == self.every - 1


@dataclass(frozen=True)
class EvaluationFrames:
    """Recorded frames that the first vehicle scores the global model on."""

    paths: dict[str, list[str]] = field(default_factory=dict)
    """For each domain the folders of its snippets."""
    held_out_only: bool = False
    """Score only frames that `holdout` keeps out of training."""
    batch_size: int = 16

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise PlanError(f"data_loader.settings.evaluation.batch_size must be at least 1, not {self.batch_size}.")


@dataclass(frozen=True)
class DrivingSettings:
    """What every vehicle learns from."""

    seed: int
    classes: list[str]
    input_size: list[int]
    seconds_per_round: float
    vehicles: list[str]
    stream: StreamAddress | None = None
    snippets: dict[str, list[Leg]] = field(default_factory=dict)
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
        for vehicle, legs in self.snippets.items():
            starts = [leg.from_round for leg in legs]
            if starts[:1] != [0] or starts != sorted(set(starts)):
                path = f"data_loader.settings.snippets.{vehicle}"
                raise PlanError(f"{path} must have legs with rising from_round, the first at 0, not {starts}.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in ("batch_size", "epochs", "max_boxes"):
            if getattr(self, name) < 1:
                raise PlanError(f"data_loader.settings.{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("seconds_per_round", "frame_period"):
            if not getattr(self, name) > 0:
                raise PlanError(f"data_loader.settings.{name} must be positive, not {getattr(self, name)}.")
        if len(self.input_size) != 2:
            raise PlanError(f"data_loader.settings.input_size must be a width and a height, not {self.input_size}.")
        if not self.vehicles or len(set(self.vehicles)) != len(self.vehicles):
            raise PlanError(f"data_loader.settings.vehicles must be different names, not {self.vehicles}.")


@dataclass(frozen=True)
class WarmUp:
    """The `warm_up` section of a driving plan: FedAvg over the same frames of the first region, round after round."""

    seconds: float
    """How much a vehicle has seen of it; each round is a pass over all of it."""
    rounds: int
    lr: float | None = None
    """The learning rate to begin with; it falls by the same factor every round and ends with the plan's own."""

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.rounds > 0):
            raise PlanError(f"warm_up needs positive seconds and rounds, not {self.seconds} and {self.rounds}.")


def warm_up_of(plan: dict[str, Any]) -> WarmUp | None:
    """How the plan's model is warmed up; None where it is not, or where the plan names the model to begin with."""
    if "warm_up" not in plan or plan["task_runner"]["settings"].get("initial_model") is not None:
        return None
    return parse_settings(WarmUp, plan["warm_up"], "warm_up")


@dataclass(frozen=True)
class DriveSettings:
    """The `driving` section of a plan."""

    evaluation_seconds: float
    """How long the evaluation drive is, in each region."""
    evaluation_regions: list[str] = field(default_factory=lambda: ["city", "highway"])
    evaluation_vehicles: int = 1
    """How many vehicles drive at once in each region: many places in a short drive."""
    jpeg_quality: int | None = None
    """Recorded frames are JPEG of this quality, or PNG."""
    snippets: str = "snippets"
    """Where recordings are kept, to be used again by every run of the same drive."""

    def __post_init__(self) -> None:
        if not self.evaluation_seconds > 0:
            raise PlanError(f"driving.evaluation_seconds must be positive, not {self.evaluation_seconds}.")
        if self.evaluation_vehicles < 1:
            raise PlanError(f"driving.evaluation_vehicles must be at least 1, not {self.evaluation_vehicles}.")
