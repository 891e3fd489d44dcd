"""The `task_runner.settings` of a plan, and the working parts that they describe."""

import importlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.buffer_policies import POLICIES
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.methods import METHODS
from fedagem.learning.methods.fedagem import Refinement
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Objective
from fedagem.memory import keep_freed_pages
from fedagem.seeding import seeded_torch
from fedagem.settings import check_arguments, suggestion


@dataclass(frozen=True)
class Component:
    """A class or function named by its dotted path, as everywhere in OpenFL plans."""

    template: str
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self, path: str) -> Any:
        """Import and call the template with its settings."""
        module_name, _, name = self.template.rpartition(".")
        try:
            factory = getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError, ValueError) as problem:
            raise PlanError(f"{path}.template is {self.template!r}, which cannot be imported: {problem}.") from problem
        check_arguments(factory, self.settings, f"{path}.settings")
        try:
            return factory(**self.settings)
        except (TypeError, ValueError, OSError) as problem:
            raise PlanError(f"{path} ({self.template}) cannot be built: {problem}.") from problem


@dataclass(frozen=True)
class BufferSettings:
    """The replay buffer of each client."""

    capacity: int = 200
    policy: str = "reservoir"

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            path = "task_runner.settings.buffer.policy"
            raise PlanError(f"{path} is {self.policy!r}{suggestion(self.policy, POLICIES)}")
        if self.capacity < 0:
            raise PlanError(f"task_runner.settings.buffer.capacity must not be negative, but is {self.capacity}.")


@dataclass(frozen=True)
class OptimizerSettings:
    """SGD; momentum starts afresh in every round."""

    lr: float
    decay: float = 1.0
    """What the learning rate is multiplied by after every round."""
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """A gradient longer than this is shortened to it before the step, after the refinement, whose direction stays."""

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise PlanError(f"task_runner.settings.optimizer.lr must be positive, not {self.lr}.")
        if not 0 < self.decay <= 1:
            raise PlanError(f"task_runner.settings.optimizer.decay must be above 0 and at most 1, not {self.decay}.")
        for name in ("momentum", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise PlanError(
                    f"task_runner.settings.optimizer.{name} must not be negative, but is {getattr(self, name)}."
                )
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise PlanError(f"task_runner.settings.optimizer.clip_norm must be positive, not {self.clip_norm}.")


@dataclass(frozen=True)
class TrainingSettings:
    """What a client computes."""

    model: Component
    optimizer: OptimizerSettings
    method: str = "fedavg"
    method_settings: dict[str, Any] = field(default_factory=dict)
    fedagem: bool = True
    """Whether gradients are refined by the global buffer gradient."""
    refinement: Refinement = field(default_factory=Refinement)
    buffer: BufferSettings = field(default_factory=BufferSettings)
    buffer_gradient_samples: int = 32
    """m of ComputeBufferGrad."""
    objective: Component = field(default_factory=lambda: Component("fedagem.learning.classification.Classification"))
    initial_model: str | None = None
    """The `.pbuf` file of an earlier run that the federation begins with; only who begins it needs the file."""
    threads: int = 1
    """Threads of one client's arithmetic; part of the plan because sums depend on it in their last bit."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise PlanError(f"task_runner.settings.method is {self.method!r}{suggestion(self.method, METHODS)}")
        check_arguments(METHODS[self.method], self.method_settings, "task_runner.settings.method_settings")
        for name in ("buffer_gradient_samples", "threads"):
            if getattr(self, name) < 1:
                raise PlanError(f"task_runner.settings.{name} must be at least 1, not {getattr(self, name)}.")
        if not 0 <= self.refinement.rate <= 1:
            raise PlanError(f"task_runner.settings.refinement.rate must be in 0..1, not {self.refinement.rate}.")


@dataclass(frozen=True)
class Worker:
    """The parts that clients take turns with: one model, however many clients a process serves."""

    settings: TrainingSettings
    model: FlatModel
    objective: Objective
    method: Method

    @classmethod
    def build(cls, settings: TrainingSettings, seed: int) -> "Worker":
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
