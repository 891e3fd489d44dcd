"""Trained detectors on disk: the model files of runs, and files of plain weights and settings from elsewhere."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedagem.detection.objective import FrameObjective
from fedagem.errors import DataError, PlanError
from fedagem.learning.model_file import ModelDescription, read_model, write_model
from fedagem.learning.trainer import Component
from fedagem.settings import parse_settings
from models.detector import Detector
from models.tiny_yolo import TinyYolo, TinyYoloConfig

_NETWORK = "models.tiny_yolo.TinyYolo"
_OBJECTIVE = "fedagem.detection.objective.DetectionObjective"


@dataclass(frozen=True)
class Checkpoint:
    """A detector, and the objective that it was trained for."""

    model: Detector
    trained_for: Component
    description: ModelDescription | None = None
    """What its file says of it; None for plain weights."""

    def objective(self, **changes: Any) -> FrameObjective:
        """The objective, with some settings changed."""
        chosen = self.trained_for.model_copy(update={"settings": {**self.trained_for.settings, **changes}})
        built = chosen.build("its objective")
        assert isinstance(built, FrameObjective)
        built.attach(self.model)
        return built


def save_detector(model: TinyYolo, path: Path) -> None:
    """Write a detector that was not trained by a run as a model file."""
    network = Component(template=_NETWORK, settings=model.config.to_settings())
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    write_model(path, weights, ModelDescription(network=network, objective=_objective_of(model)))


def load_detector(path: Path, allowed: Collection[str] = ()) -> Checkpoint:
    """A detector in evaluation mode, from a model file or from a `.pt` file of plain weights and settings.

    `allowed` names further packages whose classes a model file may use.
    """
    if path.suffix == ".pt":
        return _load_plain(path)
    saved = read_model(path)
    model = saved.build_network(allowed)
    if not isinstance(model, Detector) or not isinstance(saved.build_objective(allowed), FrameObjective):
        raise DataError(f"{path} holds {saved.description.network.template!r}, which is not a detector.")
    return Checkpoint(model, saved.description.objective, saved.description)


def _objective_of(model: TinyYolo) -> Component:
    return Component(template=_OBJECTIVE, settings={"anchors": model.config.to_settings()["anchors"]})


def _load_plain(path: Path) -> Checkpoint:
    """A `.pt` file with the entries `model` and `config`; nothing in it can run code."""
    if not path.is_file():
        raise DataError(f"there is no model at {path}.")
    problem = f"{path} is not a model file of plain weights and settings."
    if not zipfile.is_zipfile(path):
        raise DataError(problem)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, LookupError, ValueError, EOFError) as error:
        raise DataError(problem) from error
    if not isinstance(content, dict) or not {"model", "config"} <= set(content):
        raise DataError(f"{path} holds no detector: it needs the entries 'model' and 'config'.")
    model = _build(content["config"], content["model"], path)
    return Checkpoint(model, _objective_of(model))


def _build(settings: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> TinyYolo:
    try:
        model = TinyYolo.of(parse_settings(TinyYoloConfig, settings, "its config"))
        model.load_state_dict(dict(weights))
    except PlanError as error:
        raise DataError(f"{path} does not fit TinyYOLO: {error.message}") from error
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{path} does not fit TinyYOLO: {' '.join(str(error).split())}") from error
    return model.eval()
