"""A detector as it is used in a vehicle: a camera's frame in, objects in the pixels of that frame out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.ops import nms

from models.byte_resize import ByteResize
from models.detections import CONSIDERED, LIMIT, Candidates
from models.detector import Detector
from models.letterbox import GREY, Letterbox


class DeployedDetector(torch.nn.Module):
    """Letterbox, network, decoding and non-maximum suppression as one module, which can be exported as a graph.

    It finds for one frame what `select` finds for a batch: suppression first and the threshold second give the same as
    the other way round, because a box never suppresses a better one.
    """

    def __init__(
        self, network: Detector, candidates: Callable[[Tensor], Candidates], letterbox: Letterbox, overlap: float
    ) -> None:
        super().__init__()
        self.network = network
        self._candidates = candidates
        self._letterbox = letterbox
        self._overlap = overlap
        self._resize = ByteResize(letterbox.frame_size, letterbox.content_size)

    def forward(self, frame: Tensor, confidence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes (n, 4) as x1, y1, x2, y2, scores (n) and labels (n), best first, of an RGB frame (H, W, 3) of bytes."""
        found = self._candidates(self.network(self._input(frame).div(255)))
        classes = found.scores.shape[2]
        scores = found.scores.reshape(-1)
        best, index = scores.topk(min(CONSIDERED, scores.shape[0]))
        labels = index % classes
        boxes = found.boxes[0, index // classes]
        # Boxes of different classes never meet if each class has a plane of its own.
        kept = nms(boxes + 2.0 * labels[:, None].to(boxes), best, self._overlap)[:LIMIT]
        kept = kept[best[kept] > confidence]
        pixels = self._letterbox.clip(self._letterbox.to_frame(boxes[kept]))
        return pixels, best[kept], labels[kept]

    def _input(self, frame: Tensor) -> Tensor:
        """The same bytes as `Letterbox.images`, as numbers."""
        scaled = self._resize(frame.permute(2, 0, 1)[None].float())
        box = self._letterbox
        (width, height), (left, top) = box.content_size, box.corner
        edges = (left, box.input_size[0] - width - left, top, box.input_size[1] - height - top)
        return functional.pad(scaled, edges, value=float(GREY))
