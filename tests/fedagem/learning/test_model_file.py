"""Model files: what is written is read again, and what is damaged, foreign or could run code is refused."""

import json
import sys
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from numpy.typing import NDArray

from fedagem.errors import DataError
from fedagem.learning.model_file import ModelDescription, read_model, write_model
from fedagem.learning.objective import Classification
from fedagem.learning.trainer import Component
from models.mnist_cnn import SmallCNN

NETWORK = Component(template="models.mnist_cnn.SmallCNN", settings={"classes": 4})
DESCRIPTION = ModelDescription(network=NETWORK, plan="digits", plan_digest="0123456789", rounds=7)


@pytest.fixture
def network():
    return SmallCNN(4).eval()


def arrays(network):
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


@pytest.fixture
def path(tmp_path, network):
    write_model(tmp_path / "save" / "last.safetensors", arrays(network), DESCRIPTION)
    return tmp_path / "save" / "last.safetensors"


def describe(path, **changes):
    """Write the same weights with another description."""
    document = {"format": 1, "network": {"template": NETWORK.template, "settings": {"classes": 4}}, **changes}
    metadata = {"fedagem": json.dumps(document)}
    path.write_bytes(safetensors.numpy.save(arrays(SmallCNN(4)), metadata))
    return path


def test_a_model_comes_back_with_its_description(path, network):
    saved = read_model(path)
    assert saved.description == DESCRIPTION
    assert isinstance(saved.build_objective(), Classification)
    built = saved.build_network()
    assert not built.training
    assert all(torch.equal(tensor, network.state_dict()[name]) for name, tensor in built.state_dict().items())


def test_values_shapes_and_dtypes_are_kept(tmp_path):
    given: dict[str, NDArray[Any]] = {
        "scalar": np.array(5, np.int64),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "half": np.ones(3, np.float16),
        "mask": np.array([True, False]),
    }
    write_model(tmp_path / "m.safetensors", given, DESCRIPTION)
    weights = read_model(tmp_path / "m.safetensors").weights
    for name, array in given.items():
        np.testing.assert_array_equal(weights[name].numpy(), array)
        assert weights[name].numpy().dtype == array.dtype
        assert tuple(weights[name].shape) == array.shape


def test_the_same_model_gives_the_same_bytes(path, network):
    first = path.read_bytes()
    write_model(path, dict(reversed(arrays(network).items())), DESCRIPTION)
    assert path.read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == ["last.safetensors"]


def test_defaults_are_written_down_and_the_file_that_training_began_with_is_not():
    template = "models.darknet_weights.pretrained_tiny_yolo"
    chosen = Component(template=template, settings={"weights": "tiny-yolo-voc.weights", "classes": ["car"]})
    completed = ModelDescription(network=chosen).completed().network.settings
    assert completed["input_size"] == (416, 416)
    assert len(completed["anchors"]) == 5
    assert completed["weights"] is None
    assert completed["classes"] == ["car"]


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 0.5, -1])
def test_a_truncated_file_is_refused(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match=r"last\.safetensors is not a model file of this project"):
        read_model(path)


@pytest.mark.parametrize("content", [b"junk", b"PK\3\4" * 100, b"\0" * 400, b"\xff" * 400])
def test_a_file_of_another_format_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"last\.safetensors is not a model file of this project"):
        read_model(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no model at .*gone\.safetensors"):
        read_model(tmp_path / "gone.safetensors")


def test_the_file_to_use_instead_of_openfls_is_named(tmp_path):
    (tmp_path / "best.pbuf").write_bytes(b"weights")
    with pytest.raises(DataError, match=r"best\.pbuf is OpenFL's own model file: use .*best\.safetensors"):
        read_model(tmp_path / "best.pbuf")


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        (None, "without the description"),
        ({"format": "pt"}, "without the description"),
        ({"fedagem": "no json"}, "its description cannot be read"),
        ({"fedagem": "[1]"}, "its description cannot be read"),
        ({"fedagem": "{}"}, "its description cannot be read"),
        ({"fedagem": '{"format": 2}'}, "of format 2, but this version reads format 1"),
        ({"fedagem": '{"format": 1}'}, r"its description\.network is missing"),
        ({"fedagem": '{"format": 1, "network": "SmallCNN"}'}, r"its description\.network must be a mapping"),
        ({"fedagem": '{"format": 1, "network": {"template": 5}}'}, r"its description\.network\.template must be"),
    ],
)
def test_a_file_without_our_description_is_refused(path, metadata, complaint):
    path.write_bytes(safetensors.numpy.save({"w": np.ones(3, np.float32)}, metadata))
    with pytest.raises(DataError, match=complaint):
        read_model(path)


def test_weights_of_another_network_are_refused(path):
    saved = read_model(describe(path, network={"template": "models.mnist_cnn.McMahanCNN"}))
    with pytest.raises(DataError, match=r"last\.safetensors does not fit the network it names: .*Missing key"):
        saved.build_network()


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        (
            {"template": "os.system", "settings": {"command": "touch harm"}},
            r"names 'os\.system'.*allow .* --allow os\.",
        ),
        ({"template": "subprocess.Popen", "settings": {"args": ["touch", "harm"]}}, "not part of this project"),
        (
            {"template": "fedagem.files.write_file", "settings": {"path": "harm", "content": ""}},
            "does not make a Module",
        ),
        ({"template": "fedagem.files.os.system", "settings": {"command": "touch harm"}}, "cannot be imported"),
        ({"template": "fedagem.runs.processes.subprocess"}, "does not make a Module"),
        ({"template": "fedagem.learning.objective.Classification"}, "does not make a Module"),
        ({"template": "models.resnet_cifar.BasicBlock"}, "does not make a Module"),
        ({"template": "models.mnist_cnn.Missing"}, "cannot be imported"),
        ({"template": "SmallCNN"}, "not part of this project"),
        ({"template": ".models.mnist_cnn.SmallCNN"}, "not part of this project"),
        ({"template": "models.mnist_cnn.SmallCNN", "settings": {"layers": 3}}, "has no setting 'layers'"),
    ],
)
def test_only_networks_of_this_project_are_built(path, tmp_path, monkeypatch, named, complaint):
    monkeypatch.chdir(tmp_path)
    saved = read_model(describe(path, network=named))
    with pytest.raises(DataError, match=complaint):
        saved.build_network()
    assert not (tmp_path / "harm").exists()


def test_an_objective_is_held_to_the_same_rules(path):
    for template in ("os.system", "models.mnist_cnn.SmallCNN"):
        saved = read_model(describe(path, objective={"template": template}))
        with pytest.raises(DataError, match="names"):
            saved.build_objective()


def test_a_package_can_be_allowed(path, tmp_path, monkeypatch):
    code = "from models.mnist_cnn import SmallCNN\n\nclass Mine(SmallCNN):\n    pass\n"
    (tmp_path / "their_networks.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    saved = read_model(describe(path, network={"template": "their_networks.Mine", "settings": {"classes": 4}}))
    with pytest.raises(DataError, match="--allow their_networks"):
        saved.build_network()
    assert "their_networks" not in sys.modules, "it is not even imported"
    assert type(saved.build_network(["their_networks"])).__name__ == "Mine"


def test_a_function_that_makes_a_network_is_built(tmp_path):
    from models.resnet_cifar import resnet18_cifar

    description = ModelDescription(
        network=Component(template="models.resnet_cifar.resnet18_cifar", settings={"classes": 3, "width": 4})
    )
    write_model(tmp_path / "m.safetensors", arrays(resnet18_cifar(3, 4)), description)
    assert read_model(tmp_path / "m.safetensors").build_network()(torch.rand(1, 3, 32, 32)).shape == (1, 3)
