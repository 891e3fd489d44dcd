import pytest
import torch
from torch import nn

from fedagem.errors import PlanError
from fedagem.settings import parse_settings
from models.tiny_yolo import SameSizePool, TinyYolo, TinyYoloConfig

VOC_CLASSES = tuple(f"class {number}" for number in range(20))


def test_the_published_network_has_the_published_layers_and_size():
    model = TinyYolo.of(TinyYoloConfig(classes=VOC_CLASSES))
    shapes = []
    for layer in model.backbone:
        layer.register_forward_hook(lambda _layer, _given, result: shapes.append(tuple(result.shape[1:])))
    with torch.inference_mode():
        head = model.eval()(torch.zeros(1, 3, 416, 416))
    assert shapes == [
        (16, 416, 416),
        (16, 208, 208),
        (32, 208, 208),
        (32, 104, 104),
        (64, 104, 104),
        (64, 52, 52),
        (128, 52, 52),
        (128, 26, 26),
        (256, 26, 26),
        (256, 13, 13),
        (512, 13, 13),
        (512, 13, 13),
        (1024, 13, 13),
        (1024, 13, 13),
    ]
    assert head.shape == (1, 125, 13, 13)
    trained = sum(parameter.numel() for parameter in model.parameters())
    statistics = sum(b.numel() for b in model.buffers() if b.is_floating_point())
    assert trained == 15_861_773
    # tiny-yolo-voc.weights has 63,471,556 bytes: a header of 16 and 15,867,885 floats.
    assert 16 + 4 * (trained + statistics) == 63_471_556


def test_leaky_slope_is_a_tenth():
    slopes = {
        m.negative_slope
        for m in TinyYolo.of(TinyYoloConfig(classes=("a",), width=0.1)).modules()
        if isinstance(m, nn.LeakyReLU)
    }
    assert slopes == {0.1}


@pytest.mark.parametrize(("size", "width"), [((416, 256), 0.25), ((64, 32), 0.5), ((96, 160), 0.125)])
def test_any_size_of_whole_cells_and_any_width(size, width):
    config = TinyYoloConfig(
        classes=("car", "sign"), anchors=((1.0, 2.0), (3.0, 1.0), (0.1, 0.2)), input_size=size, width=width
    )
    head = TinyYolo.of(config).eval()(torch.rand(2, 3, size[1], size[0]))
    assert head.shape == (2, 3 * 7, size[1] // 32, size[0] // 32)
    assert head.shape[2:] == config.grid
    assert head.shape[1] == config.head_channels


def test_the_stride_one_pool_ignores_what_lies_outside():
    features = -torch.rand(2, 3, 4, 5) - 0.5
    padded = torch.full((2, 3, 5, 6), float("-inf"))
    padded[:, :, :4, :5] = features
    expected = nn.functional.max_pool2d(padded, 2, stride=1)
    assert torch.equal(SameSizePool()(features), expected)
    assert bool((SameSizePool()(features) < 0).all()), "zero padding would show up as zeros"


def test_sides_that_are_no_whole_cells_are_refused():
    model = TinyYolo.of(TinyYoloConfig(classes=("car",), width=0.1))
    with pytest.raises(ValueError, match="multiples of 32, got 100x64"):
        model(torch.zeros(1, 3, 64, 100))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"classes": []}, "model.classes must be a list of at least 1 value, not"),
        ({"classes": ["car", "car"]}, "model.classes must be different names"),
        ({"classes": ["car"], "anchors": [[1.0, 0.0]]}, r"model.anchors\[0\]\[1\] must be positive, not 0.0"),
        ({"classes": ["car"], "input_size": [416, 250]}, "model.input_size must be .* multiples of 32"),
        ({"classes": ["car"], "width": 0}, "model.width must be positive"),
        ({"classes": ["car"], "colour": 1}, "model has no setting 'colour'"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings, complaint):
    with pytest.raises(PlanError, match=complaint):
        parse_settings(TinyYoloConfig, settings, "model")


def test_settings_survive_plain_values():
    config = TinyYoloConfig(
        classes=("car", "sign"), anchors=((0.5, 0.25),), input_size=(96, 64), width=0.25, statistics_momentum=0.02
    )
    assert TinyYoloConfig.model_validate(config.to_settings()) == config
    assert config.to_settings() == {
        "classes": ["car", "sign"],
        "anchors": [[0.5, 0.25]],
        "input_size": [96, 64],
        "width": 0.25,
        "statistics_momentum": 0.02,
        "variant": "voc",
    }


def test_batch_statistics_move_as_fast_as_the_settings_say():
    network = TinyYolo(classes=["car"], input_size=(64, 64), width=0.1, statistics_momentum=0.02)
    assert {block.normalisation.momentum for block in network.conv_blocks()} == {0.02}


def test_an_untrained_network_takes_everything_for_background():
    """Objectness that starts at 1/2 everywhere is pushed into saturation by the first steps of plain SGD."""
    config = TinyYoloConfig(classes=("car", "sign"), width=0.1)
    head = TinyYolo.of(config).eval()(torch.rand(2, 3, 64, 96)).unflatten(1, (5, 7))
    assert torch.allclose(head[:, :, 4].sigmoid(), torch.tensor(0.1), atol=0.05)
    assert bool((head[:, :, :4].abs() < 1).all())
