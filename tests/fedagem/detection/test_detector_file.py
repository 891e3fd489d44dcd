"""Model files: what is written is read again, what could run code or does not fit is refused."""

import pickle

import pytest
import torch

from fedagem.detection.detector_file import load_detector, save_detector
from fedagem.errors import DataError
from fedagem.learning.model_file import ModelDescription, write_model
from fedagem.learning.trainer import Component
from models.mnist_cnn import SmallCNN
from models.tiny_yolo import TinyYolo, TinyYoloConfig

CONFIG = TinyYoloConfig(classes=("car", "sign"), anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)
OBJECTIVE = "fedagem.detection.objective.DetectionObjective"


@pytest.fixture
def model():
    model = TinyYolo.of(CONFIG)
    model(torch.rand(4, 3, 64, 96))
    return model.eval()


def same(first, second):
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_saved_detector_comes_back_whole(tmp_path, model):
    save_detector(model, tmp_path / "deep" / "model.safetensors")
    loaded = load_detector(tmp_path / "deep" / "model.safetensors").model
    assert loaded.config == CONFIG
    assert not loaded.training
    assert same(loaded, model)


def save_plain(model, path):
    """The other kind of file: what a script outside of this project can write with torch alone."""
    torch.save({"model": model.state_dict(), "config": model.config.to_settings()}, path)


def test_plain_weights_and_settings_are_a_detector_too(tmp_path, model):
    save_plain(model, tmp_path / "model.pt")
    loaded = load_detector(tmp_path / "model.pt").model
    assert loaded.config == CONFIG
    assert not loaded.training
    assert same(loaded, model)


class Harmful:
    def __reduce__(self):
        return (open, ("harm", "w"))


@pytest.mark.parametrize(
    "content",
    [b"", b"no model", pickle.dumps({"model": {}, "config": {}}, protocol=2), pickle.dumps(Harmful(), protocol=2)],
    ids=["empty", "text", "pickle", "harmful pickle"],
)
def test_files_that_are_no_model_are_refused_and_never_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.pt"):
        load_detector(tmp_path / "model.pt")
    assert not (tmp_path / "harm").exists()


def test_a_truncated_file_is_refused(tmp_path, model):
    path = tmp_path / "model.pt"
    save_plain(model, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="not a model file"):
        load_detector(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"weights": {}}, "needs the entries 'model' and 'config'"),
        ({"model": {}, "config": {"classes": ["car"], "size": 3}}, "has no setting 'size'"),
        ({"model": {}, "config": {"classes": ["car"]}}, "does not fit TinyYOLO.*Missing key"),
    ],
)
def test_other_content_is_refused_by_name(tmp_path, content, complaint):
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(DataError, match=complaint):
        load_detector(tmp_path / "model.pt")


def test_a_missing_file_is_named(tmp_path):
    for name in ("nothing.pt", "nothing.safetensors"):
        with pytest.raises(DataError, match=rf"there is no model at .*{name}"):
            load_detector(tmp_path / name)


def write_run(directory, model, template="models.tiny_yolo.TinyYolo", **settings):
    """What a federation leaves behind: a model file that is described by the plan."""
    anchors = CONFIG.to_settings()["anchors"]
    objective = Component(template=OBJECTIVE, settings={"anchors": anchors, "thresholds": {"confidence": 0.7}})
    network = Component(template=template, settings={**CONFIG.to_settings(), **settings})
    path = directory / "save" / "last.safetensors"
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    write_model(
        path, arrays, ModelDescription(network=network, objective=objective, plan="carla", rounds=3).completed()
    )
    return path


def test_the_model_of_a_federation_needs_nothing_but_its_file(tmp_path, model):
    path = write_run(tmp_path / "run", model).rename(tmp_path / "moved.safetensors")
    checkpoint = load_detector(path)
    assert same(checkpoint.model, model)
    assert checkpoint.model.config == CONFIG
    assert checkpoint.trained_for.settings["thresholds"] == {"confidence": 0.7, "overlap": 0.45}
    assert not checkpoint.model.training


def test_a_run_that_began_with_published_weights_does_not_need_them_again(tmp_path):
    model = TinyYolo(classes=CONFIG.classes, anchors=CONFIG.anchors, input_size=CONFIG.input_size)
    settings = {name: value for name, value in CONFIG.to_settings().items() if name != "width"}
    network = Component(
        template="models.darknet_weights.pretrained_tiny_yolo", settings={**settings, "weights": "gone.weights"}
    )
    objective = Component(template=OBJECTIVE, settings={"anchors": settings["anchors"]})
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    write_model(tmp_path / "m.safetensors", arrays, ModelDescription(network=network, objective=objective).completed())
    assert same(load_detector(tmp_path / "m.safetensors").model, model)


def test_a_damaged_federation_model_is_refused(tmp_path, model):
    path = write_run(tmp_path / "run", model)
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[: len(whole) // 2], torch.rand(100).numpy().tobytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"last\.safetensors"):
            load_detector(path)


def test_another_kind_of_model_is_refused(tmp_path):
    network = SmallCNN()
    arrays = {name: value.numpy() for name, value in network.state_dict().items()}
    write_model(
        tmp_path / "m.safetensors", arrays, ModelDescription(network=Component(template="models.mnist_cnn.SmallCNN"))
    )
    with pytest.raises(DataError, match=r"holds 'models\.mnist_cnn\.SmallCNN', which is not a detector"):
        load_detector(tmp_path / "m.safetensors")
