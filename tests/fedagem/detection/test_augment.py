import pytest
import torch

from fedagem.detection.augment import Augmentation, mirror_head
from fedagem.detection.objective import DetectionObjective
from fedagem.errors import PlanError
from models.tiny_yolo import TinyYoloConfig
from models.yolo_decode import decode_boxes, split_head

CONFIG = TinyYoloConfig(
    classes=("car", "sign"), anchors=((0.5, 0.5), (2.0, 1.0), (1.0, 2.0)), input_size=(160, 96), width=0.05
)
ANCHORS = torch.tensor(CONFIG.anchors)


def bright_boxes(seed, images=24):
    """Dark frames with one bright rectangle each, and its box."""
    generator = torch.Generator().manual_seed(seed)
    width, height = CONFIG.input_size
    x = torch.full((images, 3, height, width), 40, dtype=torch.uint8)
    boxes = torch.full((images, 3, 5), -1.0)
    for n in range(images):
        w, h = (torch.randint(20, 50, (2,), generator=generator)).tolist()
        left = int(torch.randint(0, width - w, (1,), generator=generator))
        top = int(torch.randint(0, height - h, (1,), generator=generator))
        x[n, :, top : top + h, left : left + w] = 230
        boxes[n, 0] = torch.tensor([n % 2, (left + w / 2) / width, (top + h / 2) / height, w / width, h / height])
    return {"x": x, "boxes": boxes}


def bright_extent(image):
    bright = torch.nonzero(image.float().mean(dim=0) > 170)
    top, left = bright.amin(dim=0).tolist()
    bottom, right = (bright.amax(dim=0) + 1).tolist()
    return [left, top, right, bottom]


@pytest.mark.parametrize(
    "augmentation",
    [
        Augmentation(flip=1, zoom=0, colour=0),
        Augmentation(flip=0, zoom=0.4, colour=0),
        Augmentation(flip=0, zoom=0, colour=0.1),
        Augmentation(flip=0.5, zoom=0.3, colour=0.1),
    ],
    ids=["flip", "zoom", "colour", "all"],
)
def test_boxes_stay_on_their_objects(augmentation):
    batch = bright_boxes(1)
    view = augmentation(batch, torch.Generator().manual_seed(2), len(ANCHORS))
    assert view["x"].dtype == torch.uint8
    assert view["x"].shape == batch["x"].shape
    kept = torch.nonzero(view["boxes"][:, 0, 0] >= 0).flatten().tolist()
    assert len(kept) >= 20
    size = torch.tensor([160.0, 96.0])
    for n in kept:
        centre, sides = view["boxes"][n, 0, 1:3] * size, view["boxes"][n, 0, 3:5] * size
        expected = torch.cat([centre - sides / 2, centre + sides / 2])
        assert torch.allclose(torch.tensor(bright_extent(view["x"][n])).float(), expected, atol=2.0)


def test_augmentation_changes_no_tensor_it_was_given():
    batch = {**bright_boxes(3), "logits": torch.randn(24, CONFIG.head_channels, *CONFIG.grid).half()}
    before = {name: values.clone() for name, values in batch.items()}
    view = Augmentation(flip=0.5, zoom=0.3, colour=0.3)(batch, torch.Generator().manual_seed(0), len(ANCHORS))
    assert all(torch.equal(batch[name], before[name]) for name in before)
    assert not torch.equal(view["x"], batch["x"])


def test_same_generator_same_view():
    batch = bright_boxes(4)
    views = [Augmentation()(batch, torch.Generator().manual_seed(9), len(ANCHORS)) for _ in range(2)]
    assert all(torch.equal(views[0][name], views[1][name]) for name in views[0])


def test_objects_zoomed_out_of_sight_become_padding_and_padding_stays():
    batch = bright_boxes(5, images=200)
    view = Augmentation(flip=0, zoom=0.9, colour=0)(batch, torch.Generator().manual_seed(1), len(ANCHORS))
    lost = view["boxes"][:, 0, 0] < 0
    assert 0 < int(lost.sum()) < 200
    assert bool((view["boxes"][:, 1:, 0] == -1).all())
    corners = view["boxes"][~lost][:, 0]
    assert bool((corners[:, 1:3] - corners[:, 3:] / 2 >= -1e-6).all())
    assert bool((corners[:, 1:3] + corners[:, 3:] / 2 <= 1 + 1e-6).all())


def test_a_mirrored_head_map_says_the_mirrored_boxes():
    head = torch.randn(4, CONFIG.head_channels, *CONFIG.grid, dtype=torch.double)
    boxes = decode_boxes(split_head(head, 3), ANCHORS.double())
    parts = split_head(mirror_head(head, 3), 3)
    mirrored = decode_boxes(parts, ANCHORS.double()).flip(3)
    assert torch.allclose(mirrored[..., 0], 1 - boxes[..., 0])
    assert torch.allclose(mirrored[..., 1:], boxes[..., 1:])
    assert torch.equal(parts.classes.flip(3), split_head(head, 3).classes)
    assert torch.equal(mirror_head(mirror_head(head, 3), 3), head)


def test_stored_logits_follow_the_frame_they_belong_to():
    batch = {**bright_boxes(6), "logits": torch.randn(24, CONFIG.head_channels, *CONFIG.grid).half()}
    objective = DetectionObjective(anchors=CONFIG.anchors, augmentation={"flip": 0.5, "zoom": 0.3, "colour": 0.2})
    view = objective.augment(batch, torch.Generator().manual_seed(3))
    flipped = view["boxes"][:, 0, 1] != batch["boxes"][:, 0, 1]
    assert 0 < int(flipped.sum()) < 24
    assert torch.equal(view["logits"][~flipped], batch["logits"][~flipped])
    assert torch.equal(view["logits"][flipped], mirror_head(batch["logits"], 3)[flipped])
    assert torch.equal(view["boxes"][..., 3:], batch["boxes"][..., 3:]), "replayed samples are never zoomed"


def test_logits_of_a_view_come_back_to_the_sample():
    batch = bright_boxes(7)
    objective = DetectionObjective(anchors=CONFIG.anchors, augmentation={"flip": 0.5, "zoom": 0.0, "colour": 0.2})
    view = objective.augment(batch, torch.Generator().manual_seed(4))
    of_sample = torch.randn(24, CONFIG.head_channels, *CONFIG.grid)
    of_view = torch.where(view["mirrored"][:, None, None, None], mirror_head(of_sample, 3), of_sample)
    restored = objective.restore_logits(of_view, view)
    assert restored.dtype == torch.float16
    assert torch.equal(restored, of_sample.half())


def test_zoom_is_refused_where_logits_are_stored():
    objective = DetectionObjective(anchors=CONFIG.anchors, augmentation={"flip": 0.5, "zoom": 0.25, "colour": 0.2})
    view = objective.augment(bright_boxes(8), torch.Generator().manual_seed(4))
    with pytest.raises(PlanError, match=r"zoom 0\.25.*set the augmentation's zoom to 0"):
        objective.restore_logits(torch.zeros(24, CONFIG.head_channels, *CONFIG.grid), view)
