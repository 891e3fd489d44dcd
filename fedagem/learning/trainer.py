"""The `task_runner.settings` of a plan, and the working parts that they describe."""

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field, model_validator
from torch import nn
from torch.nn.utils import clip_grad_norm_

from fedagem.errors import PlanError
from fedagem.learning.buffer import PolicyName, ReplayBuffer
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.methods import METHODS
from fedagem.learning.methods.fedagem import Refinement
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Objective
from fedagem.seeding import seeded_torch
from fedagem.settings import Settings, check_arguments, suggestion
from fedagem.system import keep_freed_pages

_MOVED = {"fedagem.classification.Classification": "fedagem.learning.objective.Classification"}
"""Classes that plans may name by an older path."""


class Component(Settings):
    """A class or function named by its dotted path, as everywhere in OpenFL plans."""

    template: str
    """The dotted path of the class or function."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Its arguments."""

    def build(self, path: str) -> Any:
        """Import and call the template with its settings."""
        module_name, _, name = _MOVED.get(self.template, self.template).rpartition(".")
        try:
            factory = getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError, ValueError) as problem:
            raise PlanError(f"{path}.template is {self.template!r}, which cannot be imported: {problem}.") from problem
        check_arguments(factory, self.settings, f"{path}.settings")
        try:
            return factory(**self.settings)
        except (TypeError, ValueError, OSError) as problem:
            raise PlanError(f"{path} ({self.template}) cannot be built: {problem}.") from problem


CLASSIFICATION = Component(template="fedagem.learning.objective.Classification")


class BufferSettings(Settings):
    """The replay buffer of each client."""

    capacity: int = Field(200, ge=0)
    """How many samples a client keeps."""
    policy: PolicyName = "reservoir"
    """Which samples stay."""


class OptimizerSettings(Settings):
    """SGD; momentum starts from zero in every round."""

    lr: float = Field(gt=0)
    """The learning rate."""
    decay: float = Field(1.0, gt=0, le=1)
    """What the learning rate is multiplied by after every round."""
    momentum: float = Field(0.0, ge=0)
    """The momentum of SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """The weight decay of SGD."""
    clip_norm: float | None = Field(None, gt=0)
    """A gradient longer than this is shortened to it before the step, after the refinement, whose direction stays."""


class TrainingSettings(Settings):
    """What a client computes."""

    model: Component
    """The network."""
    optimizer: OptimizerSettings
    """How each step changes the weights."""
    method: str = "fedavg"
    """The continual-learning method: a name of fedagem/learning/methods."""
    method_settings: dict[str, Any] = Field(default_factory=dict)
    """The settings of the method."""
    fedagem: bool = True
    """Whether gradients are refined by the global buffer gradient."""
    refinement: Refinement = Field(default_factory=Refinement)
    """How gradients are refined; the defaults are Fed-A-GEM."""
    buffer: BufferSettings = Field(default_factory=BufferSettings)
    """The replay buffer of each client."""
    buffer_gradient_samples: int = Field(32, ge=1)
    """m of ComputeBufferGrad."""
    objective: Component = CLASSIFICATION
    """What is learned: classification, or detection."""
    initial_model: str | None = None
    """The model file of an earlier run that the federation begins with; only the node that starts it needs the file."""
    threads: int = Field(1, ge=1)
    """Threads of one client's arithmetic; part of the plan because sums depend on it in their last bit."""

    @model_validator(mode="after")
    def _known_method(self) -> "TrainingSettings":
        if self.method not in METHODS:
            raise PlanError(f"task_runner.settings.method is {self.method!r}{suggestion(self.method, METHODS)}")
        check_arguments(METHODS[self.method], self.method_settings, "task_runner.settings.method_settings")
        return self

    @property
    def label(self) -> str:
        """What the method is called in tables and legends."""
        return method_label(self.method, self.fedagem)

    @property
    def short_name(self) -> str:
        """What the method is called in names of runs and in --methods."""
        return self.method + ("+fedagem" if self.fedagem else "")


def method_label(method: str, fedagem: bool) -> str:
    """`der` with Fed-A-GEM as `der + Fed-A-GEM`."""
    return f"{method} + Fed-A-GEM" if fedagem else method


@dataclass(frozen=True)
class Trainer:
    """The parts that clients take turns with: one model, however many clients a process serves."""

    settings: TrainingSettings
    model: FlatModel
    objective: Objective
    method: Method

    @classmethod
    def build(cls, settings: TrainingSettings, seed: int) -> "Trainer":
        """Build everything the settings name; the model's initial weights follow from the seed."""
        keep_freed_pages()
        torch.set_num_threads(settings.threads)
        with seeded_torch(seed, "model"):
            module: nn.Module = settings.model.build("task_runner.settings.model")
        return cls(
            settings,
            FlatModel(module),
            settings.objective.build("task_runner.settings.objective"),
            METHODS[settings.method](**settings.method_settings),
        )

    def fresh_optimizer(self, round_num: int) -> torch.optim.Optimizer:
        """SGD over the flat weights."""
        chosen, weights = self.settings.optimizer, self.model.weights
        optimizer = torch.optim.SGD(
            [weights],
            lr=chosen.lr * chosen.decay**round_num,
            momentum=chosen.momentum,
            weight_decay=chosen.weight_decay,
        )
        if (limit := chosen.clip_norm) is not None:

            def shorten(*_: object) -> None:
                clip_grad_norm_(weights, limit)

            optimizer.register_step_pre_hook(shorten)
        return optimizer

    def fresh_buffer(self) -> ReplayBuffer:
        """An empty buffer."""
        return ReplayBuffer(self.settings.buffer.capacity, self.settings.buffer.policy)
