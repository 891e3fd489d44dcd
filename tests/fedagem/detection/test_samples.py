import numpy as np
import pytest
import torch

from fedagem.detection.footage import NamedFrame
from fedagem.detection.samples import make_batch


def frame(width, height, boxes, labels=None, value=0):
    image = np.full((height, width, 3), value, dtype=np.uint8)
    rows = np.array(boxes, dtype=np.float32).reshape(-1, 4)
    return NamedFrame(image, "frame", rows, np.arange(len(rows)) if labels is None else np.array(labels))


def test_frames_of_any_size_become_one_batch_in_their_order():
    frames = [frame(640, 380, [[0, 0, 640, 380]], value=10), frame(96, 64, [], value=20), frame(640, 380, [], value=30)]
    batch = make_batch(frames, (96, 64), max_boxes=4)
    assert batch["x"].shape == (3, 3, 64, 96)
    assert batch["x"][:, 0, 32, 48].tolist() == [10, 20, 30]
    assert batch["boxes"][0, 0].tolist() == pytest.approx([0, 0.5, 31.5 / 64, 1.0, 57 / 64])
    assert batch["boxes"][1:, :, 0].eq(-1).all()
    assert batch["boxes"].dtype == torch.float32


def test_the_largest_objects_stay_where_there_is_no_room_for_all():
    batch = make_batch([frame(96, 64, [[0, 0, 3, 3], [0, 0, 40, 40], [0, 0, 20, 20]])], (96, 64), max_boxes=2)
    assert batch["boxes"][0, :, 0].tolist() == [1, 2]


def test_tiny_boxes_are_kept_as_they_are():
    batch = make_batch([frame(96, 64, [[10, 10, 1, 2]])], (96, 64), max_boxes=2)
    assert batch["boxes"][0, 0, 3:].tolist() == pytest.approx([1 / 96, 2 / 64])


@pytest.mark.parametrize("box", [[5, 5, 0, 4], [5, 5, 4, -1], [5, 5, float("nan"), 4]])
def test_boxes_without_area_are_refused(box):
    with pytest.raises(ValueError, match="without area"):
        make_batch([frame(96, 64, [box])], (96, 64), max_boxes=2)
