"""Model files: what is written is read again, what could run code or does not fit is refused."""

import pickle

import numpy as np
import pytest
import torch
import yaml

from fedagem.detection.detector_file import load_detector, save_detector
from fedagem.errors import DataError
from models.tiny_yolo import TinyYolo, TinyYoloConfig

CONFIG = TinyYoloConfig(classes=("car", "sign"), anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)


@pytest.fixture
def model():
    model = TinyYolo.of(CONFIG)
    model(torch.rand(4, 3, 64, 96))
    return model.eval()


def same(first, second):
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_saved_detector_comes_back_whole(tmp_path, model):
    save_detector(model, tmp_path / "deep" / "model.pt")
    loaded = load_detector(tmp_path / "deep" / "model.pt").model
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
    save_detector(model, path)
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
    with pytest.raises(DataError, match=r"there is no model at .*nothing\.pt"):
        load_detector(tmp_path / "nothing.pt")


def write_run(directory, model, template="models.tiny_yolo.TinyYolo"):
    """What a federation leaves behind: OpenFL's own writer with the workspace's own pipeline."""
    from openfl.protocols import utils

    from src.pipeline import ExactPipeline

    settings = {
        "model": {"template": template, "settings": CONFIG.to_settings()},
        "objective": {"settings": {"anchors": CONFIG.to_settings()["anchors"], "thresholds": {"confidence": 0.7}}},
    }
    (directory / "plan").mkdir(parents=True)
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump({"task_runner": {"settings": settings}}))
    (directory / "save").mkdir()
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    arrays["exchange/g_ref"] = np.array([7], np.int64)
    path = directory / "save" / "last.pbuf"
    utils.dump_proto(utils.construct_model_proto(arrays, 3, ExactPipeline()), str(path))
    return path


def test_the_model_of_a_federation_is_read_with_the_plan_of_its_run(tmp_path, model):
    path = write_run(tmp_path / "run", model)
    checkpoint = load_detector(path)
    assert same(checkpoint.model, model)
    assert checkpoint.model.config == CONFIG
    assert checkpoint.objective_settings["thresholds"] == {"confidence": 0.7}
    moved = path.rename(tmp_path / "moved.pbuf")
    with pytest.raises(DataError, match="name it with --plan"):
        load_detector(moved)
    assert same(load_detector(moved, tmp_path / "run" / "plan" / "plan.yaml").model, model)


def test_a_damaged_federation_model_is_refused(tmp_path, model):
    path = write_run(tmp_path / "run", model)
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[: len(whole) // 2], torch.rand(100).numpy().tobytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"last\.pbuf"):
            load_detector(path)


def test_the_plan_of_another_kind_of_model_is_refused(tmp_path, model):
    path = write_run(tmp_path / "run", model, template="models.mnist_cnn.McMahanCNN")
    with pytest.raises(DataError, match="which is not the detector"):
        load_detector(path)
