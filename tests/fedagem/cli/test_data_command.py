"""`fedagem data`: what is here and what is not, for people and for programs."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli import data


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A data folder with a damaged MNIST and, in half, CIFAR-10."""
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    raw = tmp_path / "mnist" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (raw / f"{part}-{kind}-ubyte.gz").write_bytes(b"x" * 500_000)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "train.npz").touch()
    return tmp_path


def ask(*options, code=0):
    result = CliRunner().invoke(data.command, options, env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == code
    return result.output


def test_people_read_what_is_here_and_what_to_do_about_the_rest(folder):
    shown = ask()
    lines = [line.split() for line in shown.splitlines()]
    assert ["mnist", "yes", "2", "MB", "permuted_mnist,"] in [line[:5] for line in lines]
    assert ["cifar100", "missing", "169", "MB"] in [line[:4] for line in lines]
    assert {"rotated_mnist,", "sequential_cifar100,"} <= {word for line in lines for word in line}
    assert ["digits", "yes", "-", "rotated_digits"] in lines
    assert ["resnet18-f37072fd.pth", "missing", "47", "MB", "sequential_tinyimagenet"] in lines
    assert f"  place    {folder / 'cifar100'}\n" in shown
    assert "  put      cifar-100-python.tar.gz" in shown
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in shown
    assert "  checksum " not in shown
    table = [line for line in shown.splitlines() if not line.startswith("  ")]
    assert max(map(len, table)) <= 80


def test_programs_get_all_facts(folder):
    found = {entry["name"]: entry for entry in json.loads(ask("--json"))}
    assert found["mnist"]["present"]
    assert found["mnist"]["bytes"] == 2_000_000
    assert found["cifar10"] == {
        "name": "cifar10",
        "kind": "data",
        "present": False,
        "installed_with_a_package": False,
        "place": str(folder / "cifar10"),
        "missing": [str(folder / "cifar10" / "test.npz")],
        "bytes": 0,
        "title": "CIFAR-10",
        "from": "https://www.cs.toronto.edu/~kriz/cifar.html",
        "put": found["cifar10"]["put"],
        "published_megabytes": 170,
        "checksums": {"cifar-10-python.tar.gz": "md5 c58f30108f718f92721af3b95e74349a"},
        "verified": {},
        "plans": ["sequential_cifar10", "sequential_cifar10_l2p", "sequential_cifar100"],
        "studies": found["cifar10"]["studies"],
    }
    assert "seq-cifar10" in found["cifar10"]["studies"]


def test_wrong_checksums_are_told_on_request_and_by_the_exit_code(folder):
    shown = ask("--verify", code=1)
    images = folder / "mnist" / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    assert f"  checksum WRONG: {images}" in shown
    verified = {entry["name"]: entry["verified"] for entry in json.loads(ask("--verify", "--json", code=1))}
    assert verified["mnist"][str(images)] is False
    assert len(verified["mnist"]) == 4


def test_the_real_mnist_has_its_published_checksums(data_pack, monkeypatch):
    monkeypatch.setenv("FEDAGEM_DATA", str(data_pack("mnist").parent))
    verified = {entry["name"]: entry["verified"] for entry in json.loads(ask("--verify", "--json"))}
    assert list(verified["mnist"].values()) == [True] * 4
