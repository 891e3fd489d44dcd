"""Images are decoded once for all processes of a machine, and again when their files change."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.io import encode_png

from fedagem.errors import DataError
from fedagem.tasks.data_folder import cache_folder, one_process_at_a_time
from fedagem.tasks.sources import load_source
from tests.support.waiting import wait_for, waits_for_a_lock

cifar = sys.modules["fedagem.tasks.sources.cifar"]


def write_pack(path, seed, images=6):
    rng = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (images, 3, 32, 32), dtype=torch.uint8, generator=rng)
    encoded = [encode_png(image).numpy() for image in pixels]
    offsets = np.cumsum([0, *map(len, encoded)])
    np.savez(path, images=np.concatenate(encoded), offsets=offsets, labels=np.arange(images) % 10)
    return pixels


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr("fedagem.tasks.sources.decoded._WORTH_KEEPING", 0)
    for seed, split in enumerate(("train", "test")):
        write_pack(tmp_path / f"{split}.npz", seed)
    return tmp_path


@pytest.fixture
def decoded(monkeypatch, tmp_path):
    """How often images were decoded, in whatever process."""
    log = tmp_path / "decoded"
    log.touch()
    decode_all = cifar.decode_all

    def note(*arguments):
        with log.open("a") as file:
            file.write("once\n")
        return decode_all(*arguments)

    monkeypatch.setattr(cifar, "decode_all", note)
    return lambda: len(log.read_text().splitlines())


def kept_files():
    return sorted((cache_folder() / "decoded").glob("*"))


def test_images_are_decoded_once_and_mapped_from_then_on(root, decoded):
    first = load_source("cifar10", str(root))
    assert decoded() == 2
    again = load_source("cifar10", str(root))
    assert decoded() == 2
    for one, other in ((first.train, again.train), (first.test, again.test)):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    assert again.classes == 10
    [kept] = kept_files()
    assert str(kept) in Path("/proc/self/maps").read_text(), "pages are shared, not read"


def test_what_was_decoded_is_what_the_files_hold(root):
    pixels = write_pack(root / "train.npz", seed=7)
    for _ in range(2):
        assert torch.equal(load_source("cifar10", str(root)).train.x, pixels)


def test_changed_files_are_decoded_again_and_take_the_place_of_the_old_ones(root, decoded):
    load_source("cifar10", str(root))
    before = (root / "train.npz").stat()
    pixels = write_pack(root / "train.npz", seed=5)
    os.utime(root / "train.npz", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert torch.equal(load_source("cifar10", str(root)).train.x, pixels)
    assert decoded() == 4
    assert len(kept_files()) == 1


def test_another_data_set_in_the_same_folder_is_not_mistaken(root):
    load_source("cifar10", str(root))
    assert load_source("cifar100", str(root)).classes == 100


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"PK no"])
def test_a_damaged_file_is_made_again(root, decoded, damage):
    whole = load_source("cifar10", str(root))
    [kept] = kept_files()
    content = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(damage(content))
    assert torch.equal(load_source("cifar10", str(root)).train.x, whole.train.x)
    assert decoded() == 4
    assert torch.equal(load_source("cifar10", str(root)).train.x, whole.train.x)
    assert decoded() == 4


def test_a_mistake_in_the_files_is_told_and_nothing_is_kept(root):
    (root / "test.npz").write_bytes(b"not a pack")
    with pytest.raises(DataError, match=r"test\.npz is not a pack"):
        load_source("cifar10", str(root))
    assert not kept_files()


def test_a_few_images_are_not_worth_keeping(root, monkeypatch):
    monkeypatch.setattr("fedagem.tasks.sources.decoded._WORTH_KEEPING", 10**6)
    load_source("cifar10", str(root))
    assert not kept_files()


LOADING = """
import sys
from fedagem.tasks.sources import decoded, load_source
decoded._WORTH_KEEPING = 0
sys.modules["fedagem.tasks.sources.cifar"].decode_all = lambda *_: sys.exit("it decoded")
assert len(load_source("cifar10", sys.argv[1]).train) == 6
"""


def test_processes_that_start_together_decode_once(root, own_data_folder):
    """The clients of a machine: while one decodes, the others wait, and then find what it has made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDAGEM_DATA", str(own_data_folder / "elsewhere"))
        load_source("cifar10", str(root))
        [made] = kept_files()
    path = own_data_folder / "decoded" / made.name
    with one_process_at_a_time(path):
        other = subprocess.Popen([sys.executable, "-c", LOADING, str(root)], stderr=subprocess.PIPE, text=True)
        wait_for(lambda: waits_for_a_lock(other.pid) or other.poll() is not None)
        assert other.poll() is None, other.communicate()[1]
        made.parent.rename(path.parent)
    assert other.communicate(timeout=60)[1] == ""
    assert other.returncode == 0


def test_a_read_only_data_folder_is_left_alone(root, decoded, own_data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own_data_folder.chmod(0o555)
    load_source("cifar10", str(root))
    load_source("cifar10", str(root))
    own_data_folder.chmod(0o755)
    assert not list(own_data_folder.iterdir())
    assert decoded() == 2
    assert list((tmp_path / "home" / ".cache" / "fedagem" / "decoded").iterdir())


def test_without_a_place_to_keep_them_images_are_decoded_every_time(root, decoded, tmp_path, monkeypatch, caplog):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "a file" / "data"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert len(load_source("cifar10", str(root)).train) == 6
    assert decoded() == 4
    assert "Every process decodes the images" in caplog.text
