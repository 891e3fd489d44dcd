"""A detector as one ONNX file: written from PyTorch, and run by ONNX Runtime."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedagem.detection.objective import FrameObjective
from fedagem.errors import FedAGemError
from models.deployed_detector import DeployedDetector
from models.detections import Detections
from models.detector import Detector
from models.letterbox import Letterbox

OPSET = 18
"""The first with the resizing that frames need; ONNX Runtime has it since 1.14."""
FRAME, CONFIDENCE = "frame", "confidence"
OUTPUTS = ("boxes", "scores", "labels")


def require_onnx() -> None:
    """Refuse to begin without the packages of the extra."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as problem:
        raise FedAGemError(f"{problem.name} is missing: install it with `pip install 'fedagem[onnx]'`.") from problem


def write_onnx(
    model: Detector,
    objective: FrameObjective,
    frame_size: tuple[int, int],
    path: Path,
    details: Mapping[str, Any],
) -> None:
    """Export for frames of one size; `details` go into the file's metadata.

    The confidence is an input with a default, so that whoever runs the file may choose another.
    """
    import onnx

    letterbox = Letterbox(frame_size, model.input_size)
    deployed = DeployedDetector(model.eval(), objective.candidates, letterbox, objective.thresholds.overlap).eval()
    frame = torch.zeros((frame_size[1], frame_size[0], 3), dtype=torch.uint8)
    confidence = torch.tensor(objective.thresholds.confidence)
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                deployed,
                (frame, confidence),
                input_names=[FRAME, CONFIDENCE],
                output_names=list(OUTPUTS),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    finally:
        exporter.setLevel(level)
    assert program is not None
    proto = program.model_proto
    proto.graph.initializer.append(onnx.numpy_helper.from_array(confidence.numpy(), CONFIDENCE))
    described = {"classes": list(model.classes), "frame_size": list(frame_size), **details}
    onnx.helper.set_model_props(proto, {name: json.dumps(value) for name, value in described.items()})
    onnx.checker.check_model(proto)
    path.write_bytes(proto.SerializeToString())


class OnnxDetector:
    """An exported file, on the processor."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        threads = options.intra_op_num_threads
        self.threads = "1 thread" if threads == 1 else f"{threads} threads"
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, frame: NDArray[np.uint8], confidence: float | None = None) -> Detections:
        """The objects of one frame, boxes in its pixels; at the file's own confidence, or at another."""
        inputs: dict[str, Any] = {FRAME: np.ascontiguousarray(frame)}
        if confidence is not None:
            inputs[CONFIDENCE] = np.array(confidence, dtype=np.float32)
        boxes, scores, labels = (torch.from_numpy(values) for values in self._session.run(OUTPUTS, inputs))
        return Detections(torch.zeros(len(scores), dtype=torch.long), boxes, scores, labels)
