"""The model card: what somebody who gets a detector's file should know, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment, PackageLoader

from fedagem.detection.export_check import Latency
from fedagem.detection.parity import Parity
from fedagem.detection.precision import DetectionScores
from fedagem.learning.model_file import ModelDescription
from fedagem.plans.plan import Plan


@dataclass(frozen=True)
class ModelCard:
    """Everything that the card says."""

    file: str
    source: str
    classes: tuple[str, ...]
    frame_size: tuple[int, int]
    input_size: tuple[int, int]
    confidence: float
    overlap: float
    parameters: int
    description: ModelDescription | None
    plan: Plan | None
    scores: Mapping[str, DetectionScores]
    """mAP of the exported file by domain, `all` last."""
    original: Mapping[str, DetectionScores]
    """The same of the model it was made from."""
    min_size: float
    parity: Parity
    latency: Latency

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "source": self.source,
            "classes": list(self.classes),
            "frame_size": list(self.frame_size),
            "input_size": list(self.input_size),
            "confidence": self.confidence,
            "overlap": self.overlap,
            "parameters": self.parameters,
            "trained": self.description.model_dump(mode="json") if self.description else None,
            "scores": {name: part.to_json() for name, part in self.scores.items()},
            "scores_of_the_original": {name: part.to_json() for name, part in self.original.items()},
            "min_size": self.min_size,
            "parity": asdict(self.parity),
            "latency_milliseconds": asdict(self.latency),
        }

    def to_markdown(self) -> str:
        environment = Environment(
            loader=PackageLoader("fedagem.reports", ""), autoescape=False, keep_trailing_newline=True
        )
        environment.filters["score"] = lambda value: "-" if value is None else f"{value:.3f}"
        return environment.get_template("model_card.md.jinja").render(card=self, origin=list(self._origin()))

    def _origin(self) -> Iterator[tuple[str, object]]:
        yield "model file", self.source
        if (made := self.description) is not None:
            yield "network", made.network.template
            yield "plan", made.plan or "not known"
            yield "plan digest", made.plan_digest or "not known"
            yield "rounds of training", made.rounds
        if (plan := self.plan) is not None:
            yield "method", plan.training.label
            yield "seed", plan.seed
            yield "clients", ", ".join(plan.workload.collaborators)
