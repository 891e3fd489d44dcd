"""Trained detectors on disk: plain tensors and plain settings, never pickled code."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from fedagem.errors import DataError
from models.tiny_yolo import TinyYolo, TinyYoloConfig


def save_detector(model: TinyYolo, path: Path) -> None:
    """Write weights and settings into one `.pt` file, so that the file alone is enough to run the model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    torch.save({"model": model.state_dict(), "config": model.config.to_settings()}, partial)
    partial.replace(path)


def load_detector(path: Path) -> TinyYolo:
    """The model of a `.pt` file, in evaluation mode; a file that is not one of ours is refused."""
    if not path.is_file():
        raise DataError(f"there is no model at {path}.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"{path} is not a model file of plain weights: {reason}") from error
    if not isinstance(content, dict) or not {"model", "config"} <= set(content):
        raise DataError(f"{path} holds no detector: it needs the entries 'model' and 'config'.")
    try:
        model = TinyYolo.of(TinyYoloConfig.from_settings(content["config"]))
        model.load_state_dict(content["model"])
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} does not fit TinyYOLO: {' '.join(str(error).split())}") from error
    return model.eval()
