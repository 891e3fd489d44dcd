"""The settings of a driving plan: which frames each vehicle learns from, what is evaluated, and what is recorded."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from carla_bridge.config.image_rule import EXAMPLE, ImageRule
from carla_bridge.errors import ConfigError
from fedagem.errors import PlanError
from fedagem.settings import Name, Settings, suggestion

Span = Annotated[list[float], Field(min_length=2, max_length=2)]
"""Two numbers of seconds: from the first on, until the second."""


def _image_rule(text: str) -> str:
    """A rule as it is written, once it is known that it can be read."""
    try:
        ImageRule.parse(text)
    except ConfigError as problem:
        raise ValueError(f"is {text!r}, not a rule like '{EXAMPLE}': {problem}.") from problem
    return text


class StreamAddress(Settings):
    """Where `carla-bridge serve` listens."""

    port: int = Field(ge=0, le=65535)
    """Its port."""
    host: str = "127.0.0.1"
    """Its host; any other than this machine needs the federation's certificates."""


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
    seconds: list[Span] = Field(default_factory=list)
    """Spans [from, to) of the snippets' own time stamps; left out, all of them."""
    close_gaps: bool = False
    """Replay the frames one after the other, one in every `frame_period`, whatever their time stamps are."""


class Holdout(Settings):
    """Of every `every` blocks of `block` consecutive recorded frames the last is kept for the evaluation."""

    block: int = Field(10, ge=1)
    """How many consecutive frames make a block."""
    every: int = Field(5, ge=2)
    """Of how many blocks one is kept."""
    gap: int = Field(0, ge=0)
    """So many frames before and after a block that is kept are not used at all: they show nearly the same."""

    def keeps_out(self, index: int) -> bool:
        """Whether a recorded frame is for the evaluation only."""
        return (index // self.block) % self.every == self.every - 1

    def trains_on(self, index: int) -> bool:
        """Whether a recorded frame is for training: not kept out, and not in a gap."""
        return not any(self.keeps_out(near) for near in range(max(index - self.gap, 0), index + self.gap + 1))

    @model_validator(mode="after")
    def _leaves_some(self) -> "Holdout":
        if 2 * self.gap >= self.block * (self.every - 1):
            raise PlanError(
                f"data_loader.settings.holdout.gap {self.gap} leaves no frame to train on: between two blocks that are "
                f"kept are {self.block * (self.every - 1)} frames."
            )
        return self


class EvaluationFrames(Settings):
    """Recorded frames that the first vehicle scores the global model on."""

    paths: dict[str, list[str]] = Field(default_factory=dict)
    """For each domain the folders of its snippets."""
    seconds: dict[str, list[Span]] = Field(default_factory=dict)
    """Spans [from, to) of the time stamps of some of these folders, by the path given above; the others are whole."""
    held_out_only: bool = False
    """Of snippets that vehicles learn from, score only the frames that `holdout` keeps out of training."""
    every: int = Field(1, ge=1)
    """Score every so many frames of a snippet; neighbouring frames show much the same."""
    least_objects: int = Field(1, ge=1)
    """In how many objects of a domain a class must occur to be part of its mAP; the others are scored on their own."""
    batch_size: int = Field(16, ge=1)
    """Frames that are scored at once."""
    keep_megabytes: int = Field(512, ge=0)
    """How many megabytes of decoded frames are kept for the next round; frames that do not fit are decoded again."""


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
    vehicles: list[Name] = Field(min_length=1)
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
    class_aliases: dict[str, str | None] = Field(default_factory=dict)
    """Which of `classes` a class of the snippets is, by its name there: {car: vehicle, truck: vehicle}; null leaves its
    boxes out."""
    domains: list[str] = Field(default_factory=list)
    """The domains that frames may come from, to say what the buffers are made of."""
    domain_rules: dict[str, Annotated[str, AfterValidator(_image_rule)]] = Field(default_factory=dict)
    """Which recorded images make a domain, by their attributes: {night: brightness<40}; legs and evaluation paths of
    that domain leave out the others."""
    batch_size: int = Field(8, ge=1)
    """Frames in a step."""
    epochs: int = Field(1, ge=1)
    """Passes over the frames of a round."""
    max_boxes: int = Field(50, ge=1)
    """The most boxes that a frame may have."""

    def rule_of(self, domain: str) -> ImageRule | None:
        """Which recorded images belong to a domain; None if all of its folders do."""
        return ImageRule.parse(self.domain_rules[domain]) if domain in self.domain_rules else None

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
        scored = {path for paths in self.evaluation.paths.values() for path in paths}
        for path in self.evaluation.seconds:
            if path not in scored:
                raise PlanError(f"data_loader.settings.evaluation.seconds has {path!r}{suggestion(path, scored)}")
        used = {*self.evaluation.paths, *(leg.domain for legs in self.snippets.values() for leg in legs)}
        for domain in self.domain_rules:
            if domain not in used:
                raise PlanError(
                    f"data_loader.settings.domain_rules has {domain!r}, which is the domain of no leg and of no "
                    "evaluation.paths"
                    f"{suggestion(domain, used - {''})}"
                )
        for name, known in self.class_aliases.items():
            if known is not None and known not in self.classes:
                path = f"data_loader.settings.class_aliases.{name}"
                raise PlanError(f"{path} is {known!r}{suggestion(known, self.classes)}")
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
    """How long an evaluation drive is, in each region."""
    evaluation_drives: int = Field(1, ge=1)
    """How many evaluation drives there are, each in a town of its own."""
    evaluation_regions: list[str] = Field(default_factory=lambda: ["city", "highway"])
    """The regions that are scored."""
    evaluation_vehicles: int = Field(1, ge=1)
    """How many vehicles drive at once in each region of an evaluation drive: many places in a short drive."""
    jpeg_quality: int | None = Field(None, ge=1, le=100)
    """Recorded frames are JPEG of this quality, or PNG."""
    snippets: str = "snippets"
    """Where recordings are kept, to be used again by every run of the same drive."""
