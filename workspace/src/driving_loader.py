"""Frames of one vehicle, live or replayed, as the batches that a round learns from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from openfl.federated.data.loader import DataLoader

from carla_bridge.errors import StreamError
from carla_bridge.frames import Frame, FrameSource
from carla_bridge.snippets import SnippetError, SnippetSource, find_snippets
from carla_bridge.stream.client import StreamClient
from fedagem.detection.inference import ScoringBatch, score, scoring_batches
from fedagem.detection.kept_batches import KeptBatches
from fedagem.detection.objective import FrameObjective
from fedagem.detection.precision import ScoredFrames
from fedagem.detection.samples import make_batch
from fedagem.errors import DataError, PlanError
from fedagem.learning.buffer import FIRST, Batch
from fedagem.learning.learner import Learner, Place
from fedagem.learning.methods.method import Method
from fedagem.plans.driving import DrivingSettings, Leg
from fedagem.runs.evaluation_frames import evaluation_sources
from fedagem.runs.metrics_log import AP_50, BUFFER_DOMAIN, DRAWN, MAP, MAP_50, OBJECTS
from fedagem.seeding import derive_generator, derive_seed
from fedagem.settings import parse_settings
from fedagem.tasks.accuracy import Evaluation
from fedagem.tasks.data_folder import resolve_root
from models.detector import Detector

Metrics = dict[str, float | list[float] | None]
_DIGITS = 4
"""Of drawn precisions: a thousand of them are a row of metrics.jsonl."""


class DrivingLoader(DataLoader):  # type: ignore[misc]
    """Round r of a vehicle is the simulation seconds [r S, (r + 1) S); the data path is the vehicle's name."""

    def __init__(self, data_path: str | None, **settings: Any) -> None:
        self.settings = parse_settings(DrivingSettings, settings, "data_loader.settings")
        self.seed = self.settings.seed
        self.vehicle = data_path
        if data_path is not None and data_path not in self.settings.vehicles:
            known = ", ".join(self.settings.vehicles)
            raise PlanError(f"plan/data.yaml gives the vehicle {data_path!r}, but data_loader.settings has {known}.")
        self._stream: StreamClient | None = None
        self._round: tuple[int, Batch] | None = None
        self._kept: KeptBatches | None = None

    def for_client(self, data_path: str) -> "DrivingLoader":
        """Another vehicle of the same plan."""
        other = DrivingLoader.__new__(DrivingLoader)
        other.__dict__ = {**self.__dict__, "vehicle": data_path, "_stream": None, "_round": None}
        return other

    def train_batches(self, round_number: int) -> Iterator[Batch]:
        """The frames of the round, letterboxed and un-augmented, shuffled by the seed; new in the first epoch."""
        frames = self.frames_of(round_number)
        for epoch in range(self.settings.epochs):
            generator = derive_generator(self.seed, "order", str(self.vehicle), round_number, epoch)
            for chosen in torch.randperm(len(frames["x"]), generator=generator).split(self.settings.batch_size):
                first = torch.full((len(chosen),), epoch == 0)
                yield {**{name: values[chosen] for name, values in frames.items()}, FIRST: first}

    def evaluate(self, learner: Learner, method: Method) -> Evaluation:
        """mAP on the recorded frames, in all and by domain; the first vehicle does it for everybody."""
        model, objective = learner.model.module, learner.objective
        plan = self.settings.evaluation
        if self.vehicle != self.settings.vehicles[0] or not plan.paths:
            return Evaluation()
        assert isinstance(model, Detector)
        assert isinstance(objective, FrameObjective)
        if self._kept is None:
            self._kept = self._open_evaluation()
        try:
            scored = score(model, objective, self._kept, least_objects=plan.least_objects)
        except SnippetError as problem:
            raise DataError(f"the evaluation frames cannot be read: {problem}.") from problem
        metrics: Metrics = {}
        for name, part in {"all": scored.overall, **scored.domains}.items():
            scores = part.scores()
            metrics |= {f"{MAP_50}{name}": scores.map_50, f"{MAP}{name}": scores.map}
        for name, part in scored.domains.items():
            metrics |= _by_class(name, part)
        return Evaluation(metrics={name: value for name, value in metrics.items() if value is not None})

    def place(self, round_number: int) -> Place:
        """Which vehicle this is."""
        return Place(
            self.settings.vehicles.index(str(self.vehicle)), len(self.settings.vehicles), round_number, self.seed
        )

    def local_data(self, round_number: int) -> "WindowOfRound":
        """The frames of the round."""
        return WindowOfRound(self, round_number)

    def describe_buffer(self, contents: Batch) -> dict[str, float]:
        """What the buffer is made of: its frames by domain."""
        codes = contents.get("domain", torch.zeros(0, dtype=torch.uint8))
        return {
            f"{BUFFER_DOMAIN}{name}": float((codes == code).sum()) for code, name in enumerate(self.settings.domains)
        }

    def get_feature_shape(self) -> None:
        """Models take their shape from the plan, not from the data."""

    # Inside

    def frames_of(self, round_number: int) -> Batch:
        """One window in memory: several epochs of a round read it once."""
        if self._round is None or self._round[0] != round_number:
            try:
                frames = list(self._window(round_number))
            except (SnippetError, StreamError) as problem:
                raise DataError(f"{self.vehicle}, round {round_number}: {problem}.") from problem
            if not frames:
                raise DataError(f"{self.vehicle} has no frames in round {round_number}: check seconds_per_round.")
            size = (self.settings.input_size[0], self.settings.input_size[1])
            batch = make_batch(frames, size, self.settings.max_boxes)
            batch["domain"] = torch.tensor([self._domain_code(frame) for frame in frames], dtype=torch.uint8)
            self._round = (round_number, batch)
        return self._round[1]

    def _window(self, round_number: int) -> Iterator[Frame]:
        length = self.settings.seconds_per_round
        if self.settings.stream is not None:
            return self._open_stream().window(length * round_number, length * (round_number + 1))
        leg = [leg for leg in self.settings.snippets[str(self.vehicle)] if leg.from_round <= round_number][-1]
        since = round_number - leg.from_round
        frames = self._replay(leg).window(length * since, length * (since + 1))
        return (replace(frame, domain=leg.domain) for frame in frames) if leg.domain else frames

    def _domain_code(self, frame: Frame) -> int:
        """The frame's place in `domains`; one past the end for a domain that is not listed."""
        known = self.settings.domains
        return known.index(frame.domain) if frame.domain in known else len(known)

    def _open_stream(self) -> FrameSource:
        address = self.settings.stream
        assert address is not None
        if self._stream is None:
            self._stream = StreamClient(address.host, address.port, str(self.vehicle))
            if list(self._stream.classes) != self.settings.classes:
                raise PlanError(
                    f"the stream's classes are {list(self._stream.classes)}, "
                    f"but data_loader.settings.classes are {self.settings.classes}."
                )
        return self._stream

    def _replay(self, leg: Leg) -> FrameSource:
        holdout = self.settings.holdout
        return SnippetSource(
            [found for path in leg.paths for found in find_snippets(resolve_root(path))],
            classes=self.settings.classes,
            aliases=self.settings.class_aliases,
            frame_period=self.settings.frame_period,
            repeat=leg.repeat,
            select=None if holdout is None else holdout.trains_on,
            seconds=[(begin, end) for begin, end in leg.seconds],
            timeline="even" if leg.close_gaps else None,
            rule=self.settings.rule_of(leg.domain),
        )

    def _open_evaluation(self) -> KeptBatches:
        plan, size = self.settings.evaluation, (self.settings.input_size[0], self.settings.input_size[1])

        def batches(domain: str, source: SnippetSource) -> Callable[[], Iterator[ScoringBatch]]:
            return lambda: scoring_batches(source.frames(), size, domain=domain, batch_size=plan.batch_size)

        places = [batches(domain, source) for domain, source in evaluation_sources(self.settings)]
        return KeptBatches(places, plan.keep_megabytes * 2**20)


def _by_class(domain: str, scored: ScoredFrames) -> Metrics:
    """What there is to find in a domain and how well each class is found, with what chance there is in it.

    The draws do not depend on the seed of the run: runs of several seeds are compared on the same draws.
    """
    classes = scored.scores().per_class
    metrics: Metrics = {f"{OBJECTS}{domain}/{name}": part.objects for name, part in classes.items()}
    metrics |= {f"{AP_50}{domain}/{name}": part.map_50 for name, part in classes.items()}
    drawn, by_class = scored.resampled(derive_seed(0, "drawn frames", domain))
    first = scored.classes[0]
    if by_class:
        metrics[f"{DRAWN}{MAP_50}{domain}"] = drawn.round(_DIGITS).tolist()
    if first in by_class:
        metrics[f"{DRAWN}{AP_50}{domain}/{first}"] = by_class[first].round(_DIGITS).tolist()
    return metrics


@dataclass(frozen=True)
class WindowOfRound:
    """A vehicle's samples of a round, for methods that look at them again."""

    loader: DrivingLoader
    round_number: int

    def samples(self) -> Batch:
        """The round's frames."""
        return self.loader.frames_of(self.round_number)

    def surrogate(self) -> None:
        """Vehicles have no surrogate data set."""
