"""Frames of one vehicle, live or replayed, as the batches that a round learns from."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from openfl.federated.data.loader import DataLoader
from torch import nn

from carla_bridge.errors import StreamError
from carla_bridge.frames import Frame, FrameSource
from carla_bridge.snippets import SnippetError, SnippetSource, find_snippets
from carla_bridge.stream.client import StreamClient
from fedagem.detection.inference import ScoringBatch, score, scoring_batches
from fedagem.detection.objective import DetectionObjective
from fedagem.detection.samples import make_batch
from fedagem.errors import DataError, PlanError
from fedagem.learning.buffer import Batch
from fedagem.learning.objective import Objective
from fedagem.plans.driving import DrivingSettings, Leg
from fedagem.runs.metrics_log import AP_50, BUFFER_DOMAIN, MAP, MAP_50
from fedagem.seeding import derive_generator
from fedagem.settings import parse_settings
from fedagem.tasks.accuracy import Evaluation
from fedagem.tasks.data_folder import resolve_root
from models.tiny_yolo import TinyYolo


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

    def for_client(self, data_path: str) -> "DrivingLoader":
        """Another vehicle of the same plan."""
        other = DrivingLoader.__new__(DrivingLoader)
        other.__dict__ = {**self.__dict__, "vehicle": data_path, "_stream": None, "_round": None}
        return other

    def train_batches(self, round_number: int) -> Iterator[Batch]:
        """The frames of the round, letterboxed and un-augmented, shuffled by the plan's seed."""
        frames = self._frames_of(round_number)
        for epoch in range(self.settings.epochs):
            generator = derive_generator(self.seed, "order", str(self.vehicle), round_number, epoch)
            for chosen in torch.randperm(len(frames["x"]), generator=generator).split(self.settings.batch_size):
                yield {name: values[chosen] for name, values in frames.items()}

    def evaluate(self, model: nn.Module, objective: Objective) -> Evaluation:
        """mAP on the recorded frames, in all and by domain; the first vehicle does it for everybody."""
        plan = self.settings.evaluation
        if self.vehicle != self.settings.vehicles[0] or not plan.paths:
            return Evaluation()
        assert isinstance(model, TinyYolo)
        assert isinstance(objective, DetectionObjective)
        scores = score(model, objective, self._evaluation_batches())
        metrics: dict[str, float | None] = {}
        for name, part in {"all": scores.overall, **scores.domains}.items():
            metrics |= {f"{MAP_50}{name}": part.map_50, f"{MAP}{name}": part.map}
        for name, precision in scores.overall.per_class.items():
            metrics[f"{AP_50}{name}"] = precision.map_50
        return Evaluation(metrics={name: value for name, value in metrics.items() if value is not None})

    def describe_buffer(self, contents: Batch) -> dict[str, float]:
        """What the buffer is made of: its frames by domain."""
        codes = contents.get("domain", torch.zeros(0, dtype=torch.uint8))
        return {
            f"{BUFFER_DOMAIN}{name}": float((codes == code).sum()) for code, name in enumerate(self.settings.domains)
        }

    def get_feature_shape(self) -> None:
        """Models take their shape from the plan, not from the data."""

    # Inside

    def _frames_of(self, round_number: int) -> Batch:
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
            token = os.environ.get("CARLA_BRIDGE_TOKEN")
            self._stream = StreamClient(address.host, address.port, str(self.vehicle), token)
            if list(self._stream.classes) != self.settings.classes:
                raise PlanError(
                    f"the stream's classes are {list(self._stream.classes)}, "
                    f"but data_loader.settings.classes are {self.settings.classes}."
                )
        return self._stream

    def _replay(self, leg: Leg) -> FrameSource:
        directories = [found for path in leg.paths for found in find_snippets(resolve_root(path))]
        return self._source(directories, held_out=False if self.settings.holdout else None, repeat=leg.repeat)

    def _source(self, directories: list[Path], held_out: bool | None, repeat: bool = False) -> SnippetSource:
        """Snippets as one source: all of their frames, or only those that the holdout keeps out (or does not)."""
        holdout = self.settings.holdout
        select = None if held_out is None or holdout is None else lambda n: holdout.keeps_out(n) == held_out
        return SnippetSource(
            directories,
            classes=self.settings.classes,
            frame_period=self.settings.frame_period,
            repeat=repeat,
            select=select,
        )

    def _evaluation_batches(self) -> Iterator[ScoringBatch]:
        plan, size = self.settings.evaluation, (self.settings.input_size[0], self.settings.input_size[1])
        try:
            for domain, paths in plan.paths.items():
                directories = find_snippets(*(resolve_root(path) for path in paths))
                source = self._source(directories, held_out=True if plan.held_out_only else None)
                yield from scoring_batches(source.frames(), size, domain=domain, batch_size=plan.batch_size)
        except SnippetError as problem:
            raise DataError(f"the evaluation frames cannot be read: {problem}.") from problem
