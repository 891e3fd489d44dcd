"""Makes boxes from an instance-segmentation image, tight around the visible part of each object.

The image is first compressed into runs of equal pixels along its rows; a frame has a hundred thousand pixels but only
a few thousand runs, so grouping and sorting cost almost nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from carla_bridge.errors import AnnotationError
from carla_bridge.frames import Annotations, Box, no_boxes
from carla_bridge.tags import DEFAULT_TAGS, RIDER, TWO_WHEELER_TAGS, VEHICLE_TAGS, label_by_tag

Ints = NDArray[np.int64]

NONE, MERGED = -1, -2


@dataclass(frozen=True)
class _Runs:
    """Stretches of equal pixels within one row: pixels start to stop (exclusive) of the flattened image."""

    tag: Ints
    object_id: Ints
    start: Ints
    stop: Ints

    def __getitem__(self, chosen: NDArray[np.generic]) -> "_Runs":
        return _Runs(self.tag[chosen], self.object_id[chosen], self.start[chosen], self.stop[chosen])


class Annotator:
    """Turns instance masks into boxes with the labels of `tags`, in its order.

    A rider's pixels count as part of the two-wheeler with the same id, unless `tags` makes riders a separate class;
    a rider whose two-wheeler is completely hidden gets no box. Vehicles that belong to the map are in the mask
    without being actors; they look like any other vehicle and are kept, unless `keep_parked` is false. Pixels with
    id 0 belong to no instance and get no box. Objects of the classes in `split` get one box per connected piece of
    their mask.
    """

    def __init__(
        self,
        tags: Mapping[str, Sequence[int]] = DEFAULT_TAGS,
        *,
        min_pixels: int = 16,
        keep_parked: bool = True,
        split: Sequence[str] = (),
    ) -> None:
        self.classes = tuple(tags)
        unknown = [name for name in split if name not in tags]
        if unknown:
            raise AnnotationError(f"{unknown[0]!r} is to be split but is not among the classes")
        self._split = {self.classes.index(name): tuple(tags[name]) for name in split}
        self._min_pixels = min_pixels
        self._keep_parked = keep_parked
        self._label = np.full(256, NONE, dtype=np.int64)
        for tag, label in label_by_tag(tags).items():
            self._label[tag] = label
        if self._label[RIDER] == NONE:
            self._label[RIDER] = MERGED

    def annotate(self, mask: NDArray[np.uint8], ego_id: int, actor_ids: Ints | None = None) -> Annotations:
        """Boxes of a raw BGRA mask: R is the semantic tag, G + 256 B the id.

        `actor_ids` are the world's actors; they distinguish driven vehicles from parked ones if the latter are dropped.
        """
        runs = _runs(mask, self._label != NONE)
        wanted = (runs.object_id != 0) & (runs.object_id != ego_id % 65536)
        if not self._keep_parked:
            if actor_ids is None:
                raise AnnotationError("to drop parked vehicles the ids of all actors must be known")
            wanted &= ~np.isin(runs.tag, VEHICLE_TAGS) | np.isin(runs.object_id, actor_ids % 65536)
        runs = runs[wanted]
        labels = self._labels(runs)
        group = (labels << 16) | runs.object_id
        order = np.argsort(group, kind="stable")
        order = order[labels[order] >= 0]
        whole = self._boxes(runs[order], group[order], mask.shape[1], mask.shape[0])
        if not np.isin(whole.labels, list(self._split)).any():
            return whole
        return Annotations.of([part for box in whole for part in self._parts(box, mask)])

    def _parts(self, box: Box, mask: NDArray[np.uint8]) -> list[Box]:
        """The box itself, or one for each connected piece if its class is to be split."""
        if box.label not in self._split:
            return [box]
        left, top = int(box.x), int(box.y)
        crop = mask[top : top + int(box.height), left : left + int(box.width)]
        low, high = box.object_id & 0xFF, box.object_id >> 8
        mine = np.isin(crop[..., 2], self._split[box.label]) & (crop[..., 1] == low) & (crop[..., 0] == high)
        height, width = mask.shape[:2]
        parts = []
        for across, down, w, h, pixels in _pieces(mine):
            if pixels >= self._min_pixels:
                x, y = left + across, top + down
                truncated = x == 0 or y == 0 or x + w == width or y + h == height
                parts.append(Box(box.label, x, y, w, h, truncated, pixels, box.object_id))
        return parts

    def _labels(self, runs: _Runs) -> Ints:
        labels = self._label[runs.tag]
        riders = labels == MERGED
        if riders.any():
            labels[riders] = NONE
            wheels = np.isin(runs.tag, TWO_WHEELER_TAGS)
            ids, first = np.unique(runs.object_id[wheels], return_index=True)
            for number, label in zip(ids, labels[wheels][first], strict=True):
                labels[riders & (runs.object_id == number)] = label
        return labels

    def _boxes(self, runs: _Runs, group: Ints, width: int, height: int) -> Annotations:
        if not len(group):
            return no_boxes()
        begin = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        row, first = np.divmod(runs.start, width)
        last = runs.stop - 1 - row * width
        left, right = np.minimum.reduceat(first, begin), np.maximum.reduceat(last, begin)
        top, bottom = np.minimum.reduceat(row, begin), np.maximum.reduceat(row, begin)
        pixels = np.add.reduceat(runs.stop - runs.start, begin)
        truncated = (left == 0) | (top == 0) | (right == width - 1) | (bottom == height - 1)
        keep = pixels >= self._min_pixels
        boxes = np.stack([left, top, right - left + 1, bottom - top + 1], axis=1)
        return Annotations(
            boxes=boxes[keep].astype(np.float32),
            labels=(group[begin] >> 16)[keep],
            truncated=truncated[keep],
            pixels=pixels[keep],
            object_ids=(group[begin] & 0xFFFF)[keep],
        )


def _pieces(mine: NDArray[np.bool_]) -> list[list[int]]:
    """x, y, width, height and pixels of every connected piece."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(mine.astype(np.uint8), connectivity=8)
    rows: list[list[int]] = stats[1:].tolist()
    return rows


def _runs(mask: NDArray[np.uint8], wanted_tags: NDArray[np.bool_]) -> _Runs:
    if mask.ndim != 3 or mask.shape[2] != 4 or mask.dtype != np.uint8:
        raise AnnotationError(f"an instance mask is (height, width, 4) bytes, not {mask.shape} {mask.dtype}")
    height, width = mask.shape[:2]
    pixel = np.ascontiguousarray(mask).view("<u4").reshape(height, width) & np.uint32(0x00FFFFFF)
    begins = np.empty((height, width), dtype=np.bool_)
    begins[:, 0] = True
    np.not_equal(pixel[:, 1:], pixel[:, :-1], out=begins[:, 1:])
    start = np.flatnonzero(begins)
    key = pixel.reshape(-1)[start]
    wanted = np.flatnonzero(wanted_tags[key >> 16])
    key = key[wanted].astype(np.int64)
    stop = np.append(start, height * width)[wanted + 1]
    return _Runs(key >> 16, ((key >> 8) & 0xFF) | ((key & 0xFF) << 8), start[wanted], stop)
