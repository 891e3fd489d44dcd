"""Model files: a network's weights, and what is needed to use them, in one safetensors file.

Nothing in such a file can run code. Its metadata names classes, and those are built only if they belong to this project
or to a package that the user allows.
"""

import importlib
import inspect
import json
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedagem.errors import DataError, PlanError
from fedagem.files import write_file
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.objective import Objective
from fedagem.learning.trainer import CLASSIFICATION, Component
from fedagem.settings import Settings, parse_settings, settings_of

T = TypeVar("T")

SUFFIX = ".safetensors"
INITIAL_MODEL = "task_runner.settings.initial_model"
"""The setting that names a model file to begin with."""
_FORMAT = 1
_KEY = "fedagem"
"""The one entry of the metadata, a JSON document: several would be written in an order that changes."""
_OURS = ("fedagem", "models")
"""The packages whose classes a file may name."""
_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))


class ModelDescription(Settings):
    """What is needed to use a model's weights, and where they come from."""

    network: Component
    """With all of its settings: for a detector also its classes, anchors and input size."""
    objective: Component = CLASSIFICATION
    plan: str | None = None
    """The name of the plan that the model was trained with."""
    plan_digest: str | None = None
    rounds: int = 0
    """How many rounds the model was trained for."""

    def completed(self) -> "ModelDescription":
        """The same with the defaults of network and objective filled in: other versions may have other defaults.

        The network's `weights`, a file that training began with, is left out: the model file replaces it.
        """
        network, objective = _with_defaults(self.network), _with_defaults(self.objective)
        if "weights" in network.settings:
            network = network.model_copy(update={"settings": {**network.settings, "weights": None}})
        return self.model_copy(update={"network": network, "objective": objective})


@dataclass(frozen=True)
class SavedModel:
    """A model file that was read."""

    path: Path
    description: ModelDescription
    weights: Mapping[str, Tensor]

    def build_network(self, allowed: Collection[str] = ()) -> nn.Module:
        """The network in evaluation mode; `allowed` names packages whose classes it may use, in addition to ours."""
        network = _build(self.description.network, nn.Module, self.path, allowed)
        try:
            network.load_state_dict(dict(self.weights))
        except RuntimeError as problem:
            raise DataError(f"{self.path} does not fit the network it names: {_in_one_line(problem)}") from problem
        return network.eval()

    def build_objective(self, allowed: Collection[str] = ()) -> Objective:
        """The objective that the model was trained for."""
        return _build(self.description.objective, Objective, self.path, allowed)  # type: ignore[type-abstract]


def write_model(path: Path, weights: Mapping[str, NDArray[Any]], description: ModelDescription) -> None:
    """Replace `path` atomically; the same model gives the same bytes."""
    document = {"format": _FORMAT, **description.model_dump(mode="json")}
    arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
    write_file(path, safetensors.numpy.save(arrays, {_KEY: json.dumps(document, sort_keys=True)}))


def read_model(path: Path) -> SavedModel:
    """The model file at `path`; refuses one that is damaged, of another format or without a description."""
    if not path.is_file():
        raise DataError(f"there is no model at {path}.")
    refuse_openfl_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            description = _read_description(path, file.metadata())
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as problem:
        raise DataError(f"{path} is not a model file of this project: {_in_one_line(problem)}.") from problem
    return SavedModel(path, description, weights)


def fill_from_file(model: FlatModel, path: Path) -> None:
    """Fill a model with the weights of a file, with which a federation begins; one of another network is refused."""
    if not path.is_file():
        raise PlanError(f"{INITIAL_MODEL} is {path}, but there is no such file here.")
    try:
        model.load_state_dict(dict(read_model(path).weights))
    except RuntimeError as problem:
        raise DataError(f"{path} does not fit the model of the plan: {_in_one_line(problem)}") from problem


def refuse_openfl_file(path: Path) -> None:
    """Refuse OpenFL's `.pbuf` file, which holds weights without a description, and name the file to use instead."""
    if path.suffix == ".pbuf":
        raise DataError(f"{path} is OpenFL's own model file: use {path.with_suffix(SUFFIX)} from the same folder.")


def _read_description(path: Path, metadata: Mapping[str, str] | None) -> ModelDescription:
    text = (metadata or {}).get(_KEY)
    if text is None:
        raise DataError(f"{path} is a safetensors file without the description that runs of this project write.")
    try:
        document = json.loads(text)
        found = document.pop("format")
    except (ValueError, AttributeError, TypeError, KeyError) as problem:
        raise DataError(f"{path} is not a model file of this project: its description cannot be read.") from problem
    if found != _FORMAT:
        raise DataError(f"{path} is a model file of format {found}, but this version reads format {_FORMAT}.")
    try:
        return parse_settings(ModelDescription, document, "its description")
    except PlanError as problem:
        raise DataError(f"{path} is not a model file of this project: {problem.message}") from problem


def _with_defaults(component: Component) -> Component:
    factory = _import(component.template)
    if schema := settings_of(factory):
        complete = parse_settings(schema, component.settings, component.template)
        return component.model_copy(update={"settings": complete.model_dump(mode="json")})
    parameters = inspect.signature(factory).parameters.values()
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not parameter.empty and isinstance(parameter.default, _PLAIN)
    }
    return component.model_copy(update={"settings": {**defaults, **component.settings}})


def _build(component: Component, kind: type[T], source: Path, allowed: Collection[str]) -> T:
    """Build what a file names, if it is a `kind` and defined in a package that may be used."""
    template = component.template
    package = template.partition(".")[0]
    if package not in (*_OURS, *allowed):
        raise DataError(
            f"{source} names {template!r}, which is not part of this project: if you trust it, allow its package with "
            f"--allow {package}."
        )
    try:
        made = _made_by(_import(template), package)
        if made is None or not issubclass(made, kind):
            raise DataError(f"{source} names {template!r}, which does not make a {kind.__name__}.")
        built = component.build("its description")
    except PlanError as problem:
        raise DataError(f"{source} cannot be used: {problem.message}") from problem
    assert isinstance(built, kind)
    return built


def _made_by(factory: Any, package: str) -> type | None:
    """The class itself, or the class that a function returns; None unless `package` defines it."""
    if str(getattr(factory, "__module__", "")).partition(".")[0] != package:
        return None
    if isinstance(factory, type):
        return factory
    made = typing.get_type_hints(factory).get("return") if inspect.isfunction(factory) else None
    return made if isinstance(made, type) else None


def _import(template: str) -> Any:
    module, _, name = template.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as problem:
        raise PlanError(f"{template!r} cannot be imported: {problem}.") from problem


def _in_one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())
