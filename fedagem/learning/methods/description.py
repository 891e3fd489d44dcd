"""What a method declares about itself, for people who choose one."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from fedagem.learning.flat_model import FlatModel
from fedagem.learning.methods import METHODS, find_method
from fedagem.settings import default_of

_SHOWN = {"domain_il": "domain-IL", "class_il": "class-IL", "task_il": "task-IL"}


@dataclass(frozen=True)
class MethodDescription:
    """A method in words."""

    name: str
    what: str
    scenarios: list[str]
    detection: bool
    boundaries: bool
    exchanges: list[str]
    keeps: str
    settings: dict[str, str]
    """The default and the sentence of each setting."""
    paper: str

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is told of it, line by line."""
        yield "for", ", ".join([*self.scenarios, *(["detection"] if self.detection else [])])
        yield "boundaries", "must be told where tasks end" if self.boundaries else "not needed"
        yield "exchanges", "; ".join(["the model", *self.exchanges])
        yield "keeps", self.keeps
        for name, text in self.settings.items():
            yield "setting", f"{name} {text}"
        yield "paper", self.paper


def describe(name: str) -> MethodDescription:
    """What the method called `name` declares; what it exchanges is asked for a network of one layer."""
    found = find_method(name)
    method = found()
    exchanges = method.exchanges(FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 2))))
    when = {"buffer_gradient": "before training", "train": "with the model", "end_task": "at the end of a task"}
    return MethodDescription(
        name,
        _first_paragraph(sys.modules[found.__module__].__doc__ if name in METHODS else found.__doc__),
        [shown for scenario, shown in _SHOWN.items() if scenario in method.scenarios],
        method.detects and not method.needs_boundaries,
        method.needs_boundaries,
        [f"{exchange.name} ({exchange.combine}, {when[exchange.stage]})" for exchange in exchanges],
        method.keeps,
        {
            name: f"({default_of(field)}): {' '.join((field.description or '').split())}"
            for name, field in found.Settings.model_fields.items()
        },
        method.paper,
    )


def _first_paragraph(docstring: str | None) -> str:
    return " ".join((docstring or "").partition("\n\n")[0].split())
