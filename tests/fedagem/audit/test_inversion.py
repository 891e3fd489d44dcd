"""What can be read out of a gradient: exactly what went into a linear layer, and images like those of the client."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedagem.audit.attack import Finding, attack, psnr
from fedagem.audit.decomposition import inputs_of
from fedagem.audit.report import summary_of, write_report
from fedagem.learning.flat_model import FlatModel
from fedagem.tasks.sources.digits import digits
from models.mnist_cnn import McMahanCNN, SmallCNN
from tests.support.small_federation import small_network


@cache
def images(count, seed=0):
    source = digits(Path()).train
    chosen = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))[:count]
    return source.x[chosen], source.y[chosen]


def gradient_of(model, x, y):
    model.module.train()
    model.gradient.zero_()
    functional.cross_entropy(model.module(x.float() / 255), y).backward()
    return model.gradient.clone()


def made(network, seed=0):
    torch.manual_seed(seed)
    return FlatModel(network())


@pytest.mark.parametrize("samples", [1, 4, 8])
def test_the_inputs_of_a_layer_behind_a_relu_are_found_exactly(samples):
    draw = torch.Generator().manual_seed(samples)
    network = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 5))
    for parameter in network.parameters():
        parameter.data = 0.2 * torch.randn(parameter.shape, generator=draw)
    x = torch.randn(samples, 40, generator=draw)
    functional.cross_entropy(network(x), torch.arange(samples) % 5).backward()
    layer: Any = network[0]
    found = inputs_of(layer.weight.grad, layer.bias.grad, samples, draw).float()
    nearest = torch.cdist(x, found).amin(dim=1)
    assert (nearest < 1e-2 * x.norm(dim=1)).all()


def test_one_image_is_seen_in_a_gradient():
    x, y = images(1)
    model = made(McMahanCNN)
    finding = attack(model, gradient_of(model, x, y).numpy(), x, "one")
    assert finding.reconstructed == 1
    assert finding.psnr[0] >= 20
    assert finding.verdict == "1 of 1 images reconstructed"


def test_four_images_are_told_apart_in_a_network_without_convolutions():
    x, y = images(4)
    model = made(small_network)
    finding = attack(model, gradient_of(model, x, y).numpy(), x, "four")
    assert finding.reconstructed == 4


@pytest.mark.parametrize("kind", ["uint64", "uint32", "zeros", "not numbers"])
def test_what_is_no_gradient_gives_nothing(kind):
    """Masked vectors are uniform whole numbers."""
    x, _ = images(1)
    model = made(SmallCNN)
    draw = np.random.default_rng(0)
    vectors = {
        "uint64": draw.integers(0, 2**64, model.size, np.uint64),
        "uint32": draw.integers(0, 2**32, model.size, np.uint32),
        "zeros": np.zeros(model.size),
        "not numbers": np.full(model.size, np.nan),
    }
    finding = attack(model, vectors[kind], x, kind)
    assert finding.verdict == "nothing reconstructed"
    assert max(finding.psnr) < 20


def test_the_ratio_of_signal_to_noise_is_the_textbooks():
    image = torch.full((1, 2, 2), 0.5)
    assert psnr(torch.stack([image + 0.1, image]), image).tolist() == pytest.approx([20, 100])


def test_the_report_has_numbers_and_pictures(tmp_path):
    x = images(3)[0].float() / 255
    found = [Finding("received from <b>", 3, x, x.flip(0), [25.0, 12.0, 8.0]), Finding("mean", 3, x, x, [9.0] * 3)]
    page, numbers, *pictures = write_report(found, "run", tmp_path)
    assert "1 of 3 images reconstructed" in page.read_text()
    assert "<b>" not in page.read_text()
    assert '"reconstructed": 1' in numbers.read_text()
    assert [path.read_bytes()[1:4] for path in pictures] == [b"PNG", b"PNG"]
    assert summary_of(found) == "Images were reconstructed from: received from <b>."
    assert summary_of(found[1:]) == "Nothing was reconstructed."
