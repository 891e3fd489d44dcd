"""The `task_runner.settings` of a plan, and the working parts that they describe."""

import copy
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from torch import nn
from torch.nn.utils import clip_grad_norm_

from fedagem.errors import PlanError
from fedagem.learning.buffer import PolicyName, ReplayBuffer
from fedagem.learning.device import resolve_device
from fedagem.learning.exchange import Exchange
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.methods import METHODS, check_method_name, find_method
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.method import SETTINGS_PATH, Method
from fedagem.learning.objective import Objective
from fedagem.learning.refinement import Refinement
from fedagem.learning.server_side import ServerSide
from fedagem.seeding import seeded_torch
from fedagem.settings import Settings, check_arguments
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
    """How many samples a client keeps; if neither the method nor Fed-A-GEM looks into the buffer, it keeps none."""
    by_client: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """The capacities of single clients that differ from the others', by their names."""
    policy: PolicyName = "reservoir"
    """Which samples stay."""
    offer: Literal["every_time", "once"] = "every_time"
    """Whether the buffer is offered a sample every time that its client trains on it, in all epochs and rounds of a
    task (as the paper's algorithm reads), or once (as one pass over a stream would)."""
    device: Literal["host", "model"] = "host"
    """Where the samples are kept: in the host's memory, or on the device of the model, if that has room for it."""

    def capacity_of(self, client: str) -> int:
        """How many samples a client keeps."""
        return self.by_client.get(client, self.capacity)


class OptimizerSettings(Settings):
    """How each step changes the weights; momentum and moments start from zero in every round."""

    kind: Literal["sgd", "adam"] = "sgd"
    """SGD, as in the paper, or Adam, which L2P uses; a projected gradient keeps its promise for SGD alone."""
    lr: float = Field(gt=0)
    """The learning rate."""
    decay: float = Field(1.0, gt=0, le=1)
    """What the learning rate is multiplied by after every round."""
    momentum: float = Field(0.0, ge=0)
    """The momentum of SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """The weight decay."""
    clip_norm: float | None = Field(None, gt=0)
    """A gradient longer than this is shortened to it before the step, after the refinement, whose direction stays."""

    @model_validator(mode="after")
    def _momentum_of_sgd(self) -> "OptimizerSettings":
        if self.kind == "adam" and self.momentum:
            raise PlanError("task_runner.settings.optimizer.momentum is for kind: sgd; Adam has its own.")
        return self


class TrainingSettings(Settings):
    """What a client computes."""

    model: Component
    """The network."""
    optimizer: OptimizerSettings
    """How each step changes the weights."""
    method: str = "fedavg"
    """The continual-learning method: a name that `fedagem methods` lists, or the dotted path of one's own class."""
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
    device: str = "auto"
    """Where clients compute: `auto` (the GPU if there is one), `cpu`, `cuda` or `cuda:N`. Each node decides for itself;
    the environment variable FEDAGEM_DEVICE overrides it there."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Whether forward passes compute in single precision or in bfloat16; weights and gradients stay single."""
    compile: bool = False
    """Whether the network is compiled first, which takes half a minute and pays in longer runs."""

    @model_validator(mode="after")
    def _known_method(self) -> "TrainingSettings":
        check_method_name(self.method)
        if self.method in METHODS:
            check_arguments(METHODS[self.method], self.method_settings, SETTINGS_PATH)
        return self

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
            raise ValueError(f"is {device!r}; valid values: auto, cpu, cuda, cuda:N.")
        return device

    def build_method(self) -> Method:
        """The method, with Fed-A-GEM if the plan says so; imports one's own."""
        method = find_method(self.method)
        check_arguments(method, self.method_settings, SETTINGS_PATH)
        plain = method(**self.method_settings)
        return FedAGEM(plain, self.refinement, self.buffer_gradient_samples) if self.fedagem else plain

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


def server_side_of(settings: TrainingSettings, exchanges: list[Exchange]) -> ServerSide:
    """What the aggregator does for the plan's method besides averaging."""
    return settings.build_method().server_side(exchanges)


@dataclass(frozen=True)
class Trainer:
    """The parts that clients take turns with: one model, however many clients a process serves."""

    settings: TrainingSettings
    model: FlatModel
    objective: Objective
    method: Method
    _teachers: list[nn.Module] = field(default_factory=list)

    @classmethod
    def build(cls, settings: TrainingSettings, seed: int) -> "Trainer":
        """Build everything the settings name; the model's initial weights follow from the seed."""
        keep_freed_pages()
        torch.set_num_threads(settings.threads)
        device = resolve_device(settings.device)
        with seeded_torch(seed, "model"):
            module: nn.Module = settings.model.build("task_runner.settings.model")
        objective: Objective = settings.objective.build("task_runner.settings.objective")
        objective.attach(module)
        method = settings.build_method()
        if method.stores_logits:
            objective.check_stores_logits()
        trainer = cls(settings, FlatModel(module.to(device)), objective, method)
        if settings.compile:
            module.compile()
        return trainer

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self.model.weights.device

    def fresh_optimizer(self, round_num: int) -> torch.optim.Optimizer:
        """The plan's optimiser over the flat weights."""
        chosen, weights = self.settings.optimizer, self.model.weights
        lr = chosen.lr * chosen.decay**round_num
        optimizer: torch.optim.Optimizer
        if chosen.kind == "adam":
            optimizer = torch.optim.Adam([weights], lr=lr, weight_decay=chosen.weight_decay)
        else:
            optimizer = torch.optim.SGD([weights], lr=lr, momentum=chosen.momentum, weight_decay=chosen.weight_decay)
        if (limit := chosen.clip_norm) is not None:

            def shorten(*_: object) -> None:
                clip_grad_norm_(weights, limit)

            optimizer.register_step_pre_hook(shorten)
        return optimizer

    def fresh_buffer(self, client: str = "") -> ReplayBuffer:
        """An empty buffer of a client; one that nobody will look into has no room."""
        chosen = self.settings.buffer
        capacity = chosen.capacity_of(client) if self.method.uses_buffer else 0
        return ReplayBuffer(capacity, chosen.policy, self.device if chosen.device == "model" else None)

    def teacher(self, arrays: Mapping[str, NDArray[Any]]) -> nn.Module:
        """A frozen model with these parameters and statistics; one per process, loaded again for each turn."""
        if not self._teachers:
            frozen = copy.deepcopy(self.model.module).requires_grad_(False).eval()
            self._teachers.append(frozen)
        teacher = self._teachers[0]
        teacher.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
        return teacher.eval()
