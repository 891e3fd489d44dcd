"""Trained detectors on disk: plain tensors and plain settings, never pickled code."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedagem.errors import DataError, PlanError
from fedagem.learning.openfl_model import read_openfl_model
from fedagem.plans.plan import check_layout, load_plan
from fedagem.settings import parse_settings
from models.tiny_yolo import TinyYolo, TinyYoloConfig

MODEL_TEMPLATES = ("models.tiny_yolo.TinyYolo", "models.darknet_weights.pretrained_tiny_yolo")


@dataclass(frozen=True)
class Checkpoint:
    """A detector, and the objective's settings of the plan that it was trained with, where there was one."""

    model: TinyYolo
    objective_settings: Mapping[str, Any] = field(default_factory=dict)


def save_detector(model: TinyYolo, path: Path) -> None:
    """Write weights and settings into one `.pt` file, so that the file alone is enough to run the model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    torch.save({"model": model.state_dict(), "config": model.config.to_settings()}, partial)
    partial.replace(path)


def load_detector(path: Path, plan: Path | None = None) -> Checkpoint:
    """A detector in evaluation mode from a `.pt` file, or from a run's `.pbuf` file with the plan of the run.

    Without `plan`, a `.pbuf` file's plan is looked for where runs keep it: `plan/plan.yaml` beside its folder.
    """
    if not path.is_file():
        raise DataError(f"there is no model at {path}.")
    if path.suffix == ".pbuf":
        settings = _settings_of_plan(plan or path.resolve().parent.parent / "plan" / "plan.yaml", path)
        model_settings = {k: v for k, v in settings["model"].get("settings", {}).items() if k != "weights"}
        objective = settings.get("objective", {}).get("settings", {})
        return Checkpoint(_build(model_settings, read_openfl_model(path), path), objective)
    problem = f"{path} is not a model file of plain weights (.pt) or of OpenFL (.pbuf)."
    if not zipfile.is_zipfile(path):
        raise DataError(problem)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, LookupError, ValueError, EOFError) as error:
        raise DataError(problem) from error
    if not isinstance(content, dict) or not {"model", "config"} <= set(content):
        raise DataError(f"{path} holds no detector: it needs the entries 'model' and 'config'.")
    return Checkpoint(_build(content["config"], content["model"], path))


def _settings_of_plan(plan: Path, model: Path) -> dict[str, Any]:
    if not plan.is_file():
        raise DataError(f"{model} needs the plan of its run, which is not at {plan}: name it with --plan.")
    content = load_plan(plan)
    check_layout(content, needed=["task_runner"])
    runner = content["task_runner"].get("settings", {})
    chosen = runner.get("model")
    template = chosen.get("template") if isinstance(chosen, dict) else chosen
    if template not in MODEL_TEMPLATES:
        raise DataError(f"the plan {plan} trains {template!r}, which is not the detector {MODEL_TEMPLATES[0]!r}.")
    settings: dict[str, Any] = runner
    return settings


def _build(settings: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> TinyYolo:
    try:
        model = TinyYolo.of(parse_settings(TinyYoloConfig, settings, "its config"))
        model.load_state_dict(dict(weights))
    except PlanError as error:
        raise DataError(f"{path} does not fit TinyYOLO: {error.message}") from error
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{path} does not fit TinyYOLO: {' '.join(str(error).split())}") from error
    return model.eval()
