"""The settings of a driving plan: which frames each vehicle learns from, what is evaluated, and what is recorded."""

from pydantic import Field, model_validator

from fedagem.errors import PlanError
from fedagem.settings import Settings


class StreamAddress(Settings):
    """Where `carla-bridge serve` listens; if it needs a token, that comes from CARLA_BRIDGE_TOKEN."""

    port: int = Field(ge=0, le=65535)
    """Its port."""
    host: str = "127.0.0.1"
    """Its host."""


class Leg(Settings):
    """From a round on, a vehicle replays these snippets."""

    paths: list[str]
    """The folders of the snippets, absolute or within the data folder."""
    from_round: int = 0
    """The first round in which they are replayed."""
    repeat: bool = True
    """Whether they begin again when they are over."""
    domain: str = ""
    """What these snippets show, if they do not say it themselves."""


class Holdout(Settings):
    """Of every `every` blocks of `block` consecutive recorded frames the last is kept for the evaluation."""

    block: int = Field(10, ge=1)
    """How many consecutive frames make a block."""
    every: int = Field(5, ge=2)
    """Of how many blocks one is kept."""

    def keeps_out(self, index: int) -> bool:
        """Whether a recorded frame is for the evaluation only."""
        return (index // self.block) % self.every == self.every - 1


class EvaluationFrames(Settings):
    """Recorded frames that the first vehicle scores the global model on."""

    paths: dict[str, list[str]] = Field(default_factory=dict)
    """For each domain the folders of its snippets."""
    held_out_only: bool = False
    """Score only frames that `holdout` keeps out of training."""
    batch_size: int = Field(16, ge=1)
    """Frames that are scored at once."""


class DrivingSettings(Settings):
    """What every vehicle learns from."""

    seed: int
    """The seed of the run."""
    classes: list[str]
    """The names of the classes, in the order of their labels."""
    input_size: list[int] = Field(min_length=2, max_length=2)
    """Width and height of the network's input in pixels."""
    seconds_per_round: float = Field(gt=0)
    """How much of its drive a vehicle learns from in a round."""
    vehicles: list[str] = Field(min_length=1)
    """The vehicles, which are the collaborators."""
    stream: StreamAddress | None = None
    """Where live frames come from."""
    snippets: dict[str, list[Leg]] = Field(default_factory=dict)
    """For each vehicle a list of legs, if frames are replayed instead of streamed."""
    frame_period: float = Field(1.0, gt=0)
    """Seconds from frame to frame in snippets without time stamps."""
    holdout: Holdout | None = None
    """Which recorded frames are kept out of training."""
    evaluation: EvaluationFrames = Field(default_factory=EvaluationFrames)
    """What the global model is scored on."""
    domains: list[str] = Field(default_factory=list)
    """The domains that frames may come from, to say what the buffers are made of."""
    batch_size: int = Field(8, ge=1)
    """Frames in a step."""
    epochs: int = Field(1, ge=1)
    """Passes over the frames of a round."""
    max_boxes: int = Field(50, ge=1)
    """The most boxes that a frame may have."""

    @model_validator(mode="after")
    def _consistent(self) -> "DrivingSettings":
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
        if len(set(self.vehicles)) != len(self.vehicles):
            raise PlanError(f"data_loader.settings.vehicles must be different names, not {self.vehicles}.")
        return self


class WarmUp(Settings):
    """The `warm_up` section of a driving plan: FedAvg over the same frames of the first region, round after round."""

    seconds: float = Field(gt=0)
    """How much a vehicle has seen of it; each round is a pass over all of it."""
    rounds: int = Field(ge=1)
    """How many passes are made."""
    lr: float | None = Field(None, gt=0)
    """The learning rate to begin with; it falls by the same factor every round and ends with the plan's own."""


class DriveSettings(Settings):
    """The `driving` section of a plan."""

    evaluation_seconds: float = Field(gt=0)
    """How long the evaluation drive is, in each region."""
    evaluation_regions: list[str] = Field(default_factory=lambda: ["city", "highway"])
    """The regions that are scored."""
    evaluation_vehicles: int = Field(1, ge=1)
    """How many vehicles drive at once in each region: many places in a short drive."""
    jpeg_quality: int | None = Field(None, ge=1, le=100)
    """Recorded frames are JPEG of this quality, or PNG."""
    snippets: str = "snippets"
    """Where recordings are kept, to be used again by every run of the same drive."""
