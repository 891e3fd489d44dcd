import struct
from typing import Any

import numpy as np
import pytest
import torch

from models.darknet_weights import load_darknet_weights, pretrained_tiny_yolo
from models.tiny_yolo import COCO_ANCHORS, TinyYolo, TinyYoloConfig

CONFIG = TinyYoloConfig(classes=("car", "sign"), anchors=((1.0, 1.0), (2.0, 2.0)), input_size=(64, 64), width=0.05)


def darknet_file(path, model, *, minor=2, seen=32_013_312, drop=0):
    """Written layer by layer from the format's description, not with the loader's own list of tensors."""
    state = {name: value.numpy().astype("<f4") for name, value in model.state_dict().items()}
    names = sorted({int(n.split(".")[1]) for n in state if n.startswith("backbone.")})
    values = []
    for number in names:
        for part in ("1.bias", "1.weight", "1.running_mean", "1.running_var", "0.weight"):
            values.append(state[f"backbone.{number}.{part}"].ravel())
    values += [state["head.bias"].ravel(), state["head.weight"].ravel()]
    floats = np.concatenate(values)
    header = struct.pack("<iii", 0, minor, 0) + struct.pack("<q" if minor >= 2 else "<i", seen)
    path.write_bytes(header + floats[: len(floats) - drop].tobytes())
    return path


def trained_model(seed):
    torch.manual_seed(seed)
    model = TinyYolo.of(CONFIG)
    model(torch.rand(4, 3, 64, 64))
    return model


@pytest.mark.parametrize("minor", [1, 2])
def test_a_published_file_fills_every_tensor(tmp_path, minor):
    published, model = trained_model(1), trained_model(2)
    assert load_darknet_weights(model, darknet_file(tmp_path / "w", published, minor=minor)) == 32_013_312
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(model.eval()(images), published.eval()(images))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "only 0 bytes"), (b"PK\3\4" * 40, "claims version"), (b"\0" * 400, "holds 96 values")],
)
def test_other_files_are_refused(tmp_path, content, complaint):
    path = tmp_path / "w"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        load_darknet_weights(TinyYolo.of(CONFIG), path)


def test_a_truncated_file_leaves_the_model_as_it_was(tmp_path):
    model = trained_model(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="must be those of the weight file"):
        load_darknet_weights(model, darknet_file(tmp_path / "w", trained_model(4), drop=1))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_damaged_values_are_refused(tmp_path):
    broken = trained_model(5)
    with torch.no_grad():
        broken.head.bias[0] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        load_darknet_weights(TinyYolo.of(CONFIG), darknet_file(tmp_path / "w", broken))


def test_hidden_layers_serve_other_classes(tmp_path):
    published = trained_model(6)
    other = TinyYolo(classes=("a", "b", "c"), anchors=((1.0, 1.0),), input_size=(64, 64), width=CONFIG.width)
    head = other.head.weight.clone()
    load_darknet_weights(other, darknet_file(tmp_path / "w", published), with_head=False)
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(other.eval().backbone(images), published.eval().backbone(images))
    assert torch.equal(other.head.weight, head)
    with pytest.raises(ValueError, match="the variant and the width must be"):
        load_darknet_weights(TinyYolo(classes=("a",), width=0.5), tmp_path / "w", with_head=False)


def test_a_plan_can_start_from_published_weights(tmp_path):
    torch.manual_seed(7)
    published = TinyYolo(classes=tuple("abcde"))
    model = pretrained_tiny_yolo(str(darknet_file(tmp_path / "w", published)), ["car"], [[1.0, 1.0]], [64, 64])
    assert model.config.classes == ("car",)
    ours, theirs = model.conv_blocks()[-1].convolution, published.conv_blocks()[-1].convolution
    assert torch.equal(ours.weight, theirs.weight)


def test_paths_of_weights_are_expanded_and_statistics_move_as_told(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIGHTS", str(tmp_path))
    darknet_file(tmp_path / "w", TinyYolo(classes=["car"], anchors=[[1.0, 1.0]], input_size=[64, 64]))
    model = pretrained_tiny_yolo("$WEIGHTS/w", ["car"], [[1.0, 1.0]], [64, 64], statistics_momentum=0.02)
    assert {block.normalisation.momentum for block in model.conv_blocks()} == {0.02}


@pytest.mark.parametrize(("published", "wanted"), [("coco", "voc"), ("voc", "coco")])
def test_the_weights_of_one_published_network_are_not_taken_for_the_other(tmp_path, published, wanted):
    """The file for VOC is the longer one, but its last hidden layer is another."""
    sizes = {"classes": tuple("abcde"), "input_size": (64, 64)}
    torch.manual_seed(8)
    theirs = TinyYolo(**sizes, variant=published)
    path = str(darknet_file(tmp_path / "w", theirs))
    settings: dict[str, Any] = {"classes": ["car"], "anchors": [[1.0, 1.0]], "input_size": [64, 64]}
    ours = pretrained_tiny_yolo(path, **settings, variant=published)
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(ours.eval().backbone(images), theirs.eval().backbone(images))
    assert ours.head.in_channels == {"voc": 1024, "coco": 512}[published]
    with pytest.raises(ValueError, match="and a head: the variant and the width must be those of the weight file"):
        pretrained_tiny_yolo(path, **settings, variant=wanted)


def test_the_published_networks_have_as_many_values_as_their_files():
    """The published files of YOLOv2-tiny have 20 bytes of header and then these many values."""
    voc = TinyYolo(classes=[f"{n}" for n in range(20)])
    coco = TinyYolo(classes=[f"{n}" for n in range(80)], anchors=COCO_ANCHORS, variant="coco")
    for model, size in ((voc, 63_471_556), (coco, 44_948_600)):
        values = sum(v.numel() for n, v in model.state_dict().items() if not n.endswith("num_batches_tracked"))
        assert 4 * values == pytest.approx(size, abs=20)
