"""What plans and studies need: found in their settings, each once, with those who need it."""

import hashlib

import pytest
import yaml

from fedagem.plans.plan import Plan
from fedagem.plans.workspace import plan_folder
from fedagem.studies.data import everything_needed, fetch_missing, needs_of, needs_of_studies
from fedagem.studies.runs import runs_of
from fedagem.studies.study import load_study
from fedagem.tasks.sources.published import Published

PLANS = plan_folder()


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def plan(name, **changes):
    return Plan.load(PLANS / f"{name}.yaml").changed({path.replace("__", "."): v for path, v in changes.items()})


def names(needs):
    return [(need.kind, need.name) for need in needs]


def test_a_plan_needs_its_data_its_surrogate_and_its_weights(data):
    surrogate = {"dataset": "cifar10", "root": "elsewhere"}
    found = needs_of(plan("sequential_cifar100", data_loader__settings__surrogate=surrogate))
    assert names(found) == [("data", "cifar100"), ("data", "cifar10")]
    assert [need.place for need in found] == [data / "cifar100", data / "elsewhere"]
    vit = "elsewhere/vit/model.safetensors"
    found = needs_of(plan("sequential_cifar100_l2p", task_runner__settings__model__settings={"weights": vit}))
    assert names(found) == [("data", "cifar100"), ("weights", "vit/model.safetensors")]
    assert found[1].missing() == [data / vit]
    assert found[1].published is not None
    assert found[1].published.megabytes == 343


def test_texts_and_their_encoder_are_two_things(data):
    texts, encoder = needs_of(plan("sequential_yahooqa"))
    assert [path.name for path in texts.missing()] == ["test.csv", "train.csv"]
    assert encoder.missing() == [data / "distilbert-base-uncased" / "config.json"]
    (data / "distilbert-base-uncased").mkdir(parents=True)
    (data / "distilbert-base-uncased" / "config.json").write_text("{}")
    assert not encoder.missing()
    assert encoder.bytes_on_disk() == 2
    assert len(texts.missing()) == 2


def test_recorded_drives_are_needed_by_plans_that_replay_them(data):
    found = {need.name: need for need in needs_of(plan("carla_snippets"))}
    assert found.keys() == {"carla_drives", "carla_snippets"}
    towns = found["carla_snippets"]
    assert "Town04" in [path.name for path in towns.missing()]
    (data / "carla_snippets" / "Town04").mkdir(parents=True)
    assert "Town04" not in [path.name for path in towns.missing()]
    assert needs_of(plan("carla_demo")) == []


def test_what_comes_with_a_package_is_never_missing():
    [digits] = needs_of(plan("rotated_digits"))
    assert digits.installed
    assert not digits.missing()


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_the_quick_look_finds_what_the_runs_of_every_study_need(scale, tmp_path):
    quick = needs_of_studies(PLANS, scale)
    for name in ("seq-tinyimagenet", "seq-yahooqa", "seq-cifar10", "refinement-mnist", "rotated-mnist"):
        runs = runs_of(load_study(PLANS, name), scale, 1, PLANS, tmp_path)
        thorough = {need for run in runs for need in needs_of(run.plan)}
        assert {need for found in quick[name].values() for need in found} == thorough


def test_rows_may_need_more_than_their_plan(tmp_path):
    surrogate = {"dataset": "image_folder", "root": "mine"}
    rows = [
        {"label": "FL", "with": []},
        {"label": "CFeD", "with": [], "set": {"data_loader.settings.surrogate": surrogate}},
        {"label": "L2P", "with": [], "set": {"task_runner.settings.model.settings": {"weights": "vit.npz"}}},
    ]
    part = {"plan": "sequential_cifar10", "metrics": ["seconds"], "rows": rows}
    (tmp_path / "studies").mkdir()
    for name in ("base", "scales", "sequential_cifar10"):
        (tmp_path / f"{name}.yaml").write_text((PLANS / f"{name}.yaml").read_text())
    (tmp_path / "studies" / "mine.yaml").write_text(yaml.safe_dump({"title": "t", "paper": "p", "parts": [part]}))
    found = needs_of_studies(tmp_path, "smoke")["mine"]["sequential_cifar10"]
    assert names(found) == [("data", "cifar10"), ("data", "image_folder"), ("weights", "vit.npz")]


def test_everything_is_listed_once_with_those_who_need_it():
    found = {(entry.need.kind, entry.need.name): entry for entry in everything_needed(PLANS)}
    assert len(found) == len(everything_needed(PLANS))
    assert found["data", "mnist"].plans == [
        "permuted_mnist",
        "permuted_mnist_l2p",
        "rotated_mnist",
        "rotated_mnist_l2p",
    ]
    assert {"rotated-mnist", "buffer-size"} <= set(found["data", "mnist"].studies)
    assert found["weights", "resnet18-f37072fd.pth"].plans == ["sequential_tinyimagenet"]
    assert found["drives", "carla_snippets"].studies == []
    assert set(found["weights", "vit/model.safetensors"].studies) >= {"rotated-mnist", "seq-cifar10", "table-1"}
    assert all(entry.need.published for (kind, _), entry in found.items() if kind == "weights")


def test_data_that_is_there_is_not_fetched(tmp_path, data, monkeypatch):
    fetched = []
    monkeypatch.setattr("fedagem.studies.data.load_source", lambda name, *_: fetched.append(name))
    runs = runs_of(load_study(PLANS, "transfer"), "smoke", 1, PLANS, tmp_path)
    fetch_missing(runs)
    assert sorted(fetched) == ["cifar10", "cifar100"]
    (data / "cifar10").mkdir(parents=True)
    for split in ("train", "test"):
        (data / "cifar10" / f"{split}.npz").touch()
    fetched.clear()
    fetch_missing(runs)
    assert fetched == ["cifar100"]


def test_files_are_compared_with_what_was_published(data, monkeypatch):
    md5 = hashlib.md5(b"images").hexdigest()
    sha256 = hashlib.sha256(b"labels").hexdigest()[:8]
    checksums = {"a.gz": f"md5 {md5}", "b.gz": f"sha256 {sha256}", "c.gz": f"md5 {md5}"}
    monkeypatch.setitem(needs_of.__globals__["DATA_SETS"], "mnist", Published("MNIST", "home", "files", 1, checksums))
    (data / "mnist").mkdir(parents=True)
    (data / "mnist" / "a.gz").write_bytes(b"images")
    (data / "mnist" / "b.gz").write_bytes(b"labelz")
    [need] = needs_of(plan("rotated_mnist"))
    assert need.verify() == {data / "mnist" / "a.gz": True, data / "mnist" / "b.gz": False}
    (data / "mnist" / "b.gz").write_bytes(b"labels")
    assert all(need.verify().values())
