"""The networks of the classification benchmarks."""

import pytest
import torch
from torchvision.models import resnet18

from fedagem.errors import PlanError
from fedagem.learning.trainer import Component
from models.cifar_cnn import SmallCNN as SmallCIFARNetwork
from models.resnet_cifar import resnet18_cifar
from models.resnet_pretrained import PretrainedResNet18
from models.text_head import TextHead


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


def test_resnet_for_cifar_is_resnet_18_with_a_small_stem():
    reference = resnet18(num_classes=100)
    stem = 64 * 3 * (7 * 7 - 3 * 3)
    assert count(resnet18_cifar(100)) == count(reference) - stem
    assert resnet18_cifar(100).eval()(torch.rand(2, 3, 32, 32)).shape == (2, 100)


def test_a_narrow_resnet_keeps_its_depth():
    narrow = resnet18_cifar(10, width=8)
    assert len(list(narrow.modules())) == len(list(resnet18_cifar(10).modules()))
    assert count(narrow) < count(resnet18_cifar(10)) / 50
    assert narrow(torch.rand(4, 3, 64, 64)).shape == (4, 10)


def test_a_pretrained_network_keeps_its_features_and_gets_a_new_head(tmp_path):
    torch.manual_seed(1)
    published = resnet18()
    torch.save(published.state_dict(), tmp_path / "weights.pth")
    network = PretrainedResNet18(str(tmp_path / "weights.pth"), classes=20).eval()
    assert torch.equal(network.network.layer4[1].conv2.weight, published.layer4[1].conv2.weight)
    assert network(torch.rand(2, 3, 64, 64)).shape == (2, 20)
    mean_image = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).expand(1, 3, 64, 64)
    assert torch.allclose(network(mean_image), network.network(torch.zeros(1, 3, 64, 64)), atol=1e-5)
    assert set(network.state_dict()) == {f"network.{name}" for name in published.state_dict()}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"does not exist: put torchvision's resnet18-f37072fd\.pth there"),
        (b"not weights", r"is not a file of weights"),
        ({"fc.weight": torch.zeros(1)}, r"holds weights of another network"),
    ],
)
def test_weights_that_are_missing_or_wrong_are_refused_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "weights.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    component = Component(template="models.resnet_pretrained.PretrainedResNet18", settings={"weights": str(path)})
    with pytest.raises(PlanError, match=sentence):
        component.build("task_runner.settings.model")


def test_the_text_head_is_linear():
    assert count(TextHead(768, 10)) == 7690


@pytest.mark.parametrize("side", [32, 64])
def test_the_small_cifar_network_takes_images_of_several_sizes(side):
    network = SmallCIFARNetwork(100)
    assert network(torch.rand(2, 3, side, side)).shape == (2, 100)
    assert count(network) < count(resnet18_cifar(100, width=8))
