"""Image data sets: real packs where they are at hand, small ones made here, and what is said when data is missing."""

import gzip
import io
import struct
import subprocess
import sys
import tarfile
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torchvision.io import encode_jpeg, encode_png

from fedagem.errors import DataError, PlanError
from fedagem.tasks.data_folder import one_process_at_a_time, resolve_root
from fedagem.tasks.sources import SOURCES, load_source, missing_files
from tests.support.waiting import wait_for, waits_for_a_lock

COLOURS = {"red": (250, 5, 5), "green": (5, 250, 5), "blue": (5, 5, 250)}


def plain(colour, size=8):
    return torch.tensor(colour, dtype=torch.uint8).view(3, 1, 1).expand(3, size, size).contiguous()


def jpeg(colour, size=8):
    return encode_jpeg(plain(colour, size), quality=95).numpy().tobytes()


def assert_has_colours(data, names):
    """Each label's images have its colour, red before green and blue."""
    for label, name in enumerate(names):
        mean = data.x[data.y == label].float().mean(dim=(0, 2, 3))
        assert int(mean.argmax()) == list(COLOURS).index(name)


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 3), ("test", 1)):
        for name, colour in COLOURS.items():
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(count):
                (tmp_path / split / name / f"{number}.png").write_bytes(encode_png(plain(colour)).numpy().tobytes())
    return tmp_path


def test_paths_are_within_the_data_folder_unless_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path))
    assert resolve_root("mnist") == tmp_path / "mnist"
    assert str(resolve_root("/elsewhere/mnist")) == "/elsewhere/mnist"


def test_folders_are_classes_in_alphabetical_order(folder):
    source = load_source("image_folder", str(folder))
    assert source.classes == 3
    assert source.train.x.shape == (9, 3, 8, 8)
    assert source.train.x.dtype == torch.uint8
    assert_has_colours(source.train, sorted(COLOURS))
    assert_has_colours(source.test, sorted(COLOURS))


def test_images_are_brought_to_one_size_on_demand(folder):
    (folder / "train" / "red" / "large.png").write_bytes(encode_png(plain(COLOURS["red"], 20)).numpy().tobytes())
    with pytest.raises(DataError, match=r"20 x 20 pixels|others are 20 x 20") as refusal:
        load_source("image_folder", str(folder))
    assert "dataset_settings.size" in refusal.value.message
    source = load_source("image_folder", str(folder), {"size": 16})
    assert source.train.x.shape == (10, 3, 16, 16)


def test_a_file_that_is_no_image_is_named(folder):
    (folder / "test" / "blue" / "0.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"test/blue/0\.png cannot be read as an image"):
        load_source("image_folder", str(folder))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("image_folder", r"missing/train does not exist: put images there as train/<class>"),
        ("tiny_imagenet", r"missing does not exist: put Tiny-ImageNet there .* --set data_loader\.settings\.root="),
        ("yahooqa", r"missing/train\.csv does not exist: put train\.csv and test\.csv"),
    ],
)
def test_missing_data_says_what_to_put_where(name, sentence, tmp_path):
    with pytest.raises(DataError, match=sentence):
        load_source(name, str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("name", "data_set", "wanted"),
    [("cifar10", "CIFAR10", "cifar-10-python.tar.gz"), ("cifar100", "CIFAR100", "cifar-100-python.tar.gz")],
)
def test_cifar_that_cannot_be_fetched_says_what_to_put_where(name, data_set, wanted, tmp_path, monkeypatch):
    def offline(url, *_, **__):
        raise OSError(f"no route to {url}")

    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", offline)
    with pytest.raises(DataError, match=rf"{data_set} is not in .*: put {wanted}"):
        load_source(name, str(tmp_path / "data" / name))
    assert not list(tmp_path.iterdir()), "a download that fails leaves no empty folders"


def test_mnist_that_cannot_be_fetched_leaves_only_what_was_there(tmp_path, monkeypatch):
    def offline(url, *_, **__):
        raise OSError(f"no route to {url}")

    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", offline)
    (tmp_path / "mnist" / "mine").mkdir(parents=True)
    with pytest.raises(DataError, match=r"MNIST is not in .* put the four original \.gz files"):
        load_source("mnist", str(tmp_path / "mnist"))
    assert [path.name for path in (tmp_path / "mnist").iterdir()] == ["mine"]


FETCHING = """
import sys
import torchvision.datasets.utils
from fedagem.tasks.sources import load_source
torchvision.datasets.utils._urlretrieve = lambda url, *_: sys.exit("it fetched")
assert len(load_source("mnist", sys.argv[1]).train) == 3
"""


def test_processes_that_start_together_fetch_once(tmp_path):
    """While one downloads, the others wait, and then find what it has put there."""
    root = tmp_path / "mnist"
    with one_process_at_a_time(root):
        other = subprocess.Popen([sys.executable, "-c", FETCHING, str(root)], stderr=subprocess.PIPE, text=True)
        wait_for(lambda: waits_for_a_lock(other.pid) or other.poll() is not None)
        assert other.poll() is None, other.communicate()[1]
        unpacked_mnist(root / "MNIST" / "raw")
    assert other.communicate(timeout=60)[1] == ""
    assert other.returncode == 0


def unpacked_mnist(raw):
    """A very small MNIST as torchvision unpacks it."""
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, 3, 28, 28) + bytes(3 * 784))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 3) + bytes([7, 0, 9]))


def test_data_counts_as_there_only_with_the_files_that_are_read(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    for name in SOURCES:
        assert bool(missing_files(name, str(empty))) == (name != "digits")
    assert not missing_files("image_folder", str(folder), {"size": 8})
    mnist_files(empty / "MNIST" / "raw")
    assert not missing_files("mnist", str(empty))
    (empty / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert [path.name for path in missing_files("mnist", str(empty))] == ["t10k-labels-idx1-ubyte.gz"]
    write_pack(empty / "train.npz", [0])
    assert missing_files("cifar10", str(empty)) == [empty / "test.npz"]
    write_pack(empty / "test.npz", [0])
    assert not missing_files("cifar10", str(empty))
    assert not missing_files("tiny_imagenet", str(as_folder(empty, tiny_imagenet_files())))
    assert not missing_files("tiny_imagenet", str(as_tar(empty, tiny_imagenet_files())))


def test_a_source_refuses_settings_it_does_not_have(folder):
    with pytest.raises(PlanError, match=r"dataset_settings has no setting 'sise'; did you mean size"):
        load_source("image_folder", str(folder), {"sise": 3})


def webp(colour, size=8):
    return cv2.imencode(".webp", plain(colour, size).flip(0).permute(1, 2, 0).numpy())[1].tobytes()


def write_pack(path, labels, offsets_off=0, key="jpeg", encode=jpeg, **others):
    images = [encode(list(COLOURS.values())[label % 3], 32) for label in labels]
    offsets = np.cumsum([0, *(len(image) for image in images)]) + offsets_off
    arrays: dict[str, Any] = {key: np.frombuffer(b"".join(images), dtype=np.uint8), **others}
    np.savez(path, offsets=offsets, labels=np.array(labels, dtype=np.uint8), classes=np.array(["a"] * 10), **arrays)


@pytest.mark.parametrize("key", ["jpeg", "images"])
@pytest.mark.parametrize("encode", [jpeg, webp])
def test_a_pack_of_encoded_images_is_read(tmp_path, key, encode):
    write_pack(tmp_path / "train.npz", [0, 1, 2, 2], key=key, encode=encode, coarse_labels=np.array([7, 7, 7, 7]))
    write_pack(tmp_path / "test.npz", [2, 1], key=key, encode=encode)
    source = load_source("cifar10", str(tmp_path))
    assert source.train.y.tolist() == [0, 1, 2, 2]
    assert source.train.y.dtype == torch.int64
    assert source.train.x.shape == (4, 3, 32, 32)
    assert_has_colours(source.train, list(COLOURS))


def test_half_a_pack_is_refused(tmp_path):
    write_pack(tmp_path / "train.npz", [0, 1])
    with pytest.raises(DataError, match=r"test\.npz does not exist: a pack consists of train\.npz and test\.npz"):
        load_source("cifar10", str(tmp_path))


def test_a_pack_without_images_is_refused(tmp_path):
    write_pack(tmp_path / "train.npz", [0, 1], key="pixels")
    write_pack(tmp_path / "test.npz", [0, 1])
    with pytest.raises(DataError, match=r"train\.npz is not a pack of images \(images or jpeg, offsets, labels\)"):
        load_source("cifar10", str(tmp_path))


@pytest.mark.parametrize(("labels", "offsets_off"), [([0, 1], 5), ([0, 10], 0)])
def test_a_damaged_pack_is_refused(tmp_path, labels, offsets_off):
    write_pack(tmp_path / "train.npz", labels, offsets_off)
    write_pack(tmp_path / "test.npz", [0])
    with pytest.raises(DataError, match=r"train\.npz is damaged"):
        load_source("cifar10", str(tmp_path))


@pytest.mark.parametrize("damage", [lambda _: b"PK but not a zip", lambda whole: whole[:-50]])
def test_a_file_that_is_no_pack_is_refused(tmp_path, damage):
    for split in ("train", "test"):
        write_pack(tmp_path / f"{split}.npz", [0])
    (tmp_path / "train.npz").write_bytes(damage((tmp_path / "train.npz").read_bytes()))
    with pytest.raises(DataError, match=r"train\.npz is not a pack"):
        load_source("cifar10", str(tmp_path))


def tiny_imagenet_files():
    files = {"wnids.txt": b"n02\nn01\n"}
    for wnid, colour in (("n01", COLOURS["red"]), ("n02", COLOURS["green"])):
        files |= {f"train/{wnid}/images/{wnid}_{i}.JPEG": jpeg(colour, 64) for i in range(3)}
    files |= {"val/images/val_0.JPEG": jpeg(COLOURS["red"], 64), "val/images/val_1.JPEG": jpeg(COLOURS["green"], 64)}
    files["val/val_annotations.txt"] = b"val_0.JPEG\tn01\t0\t0\t63\t63\nval_1.JPEG\tn02\t0\t0\t63\t63\n"
    return files


def as_folder(root, files):
    for name, content in files.items():
        path = root / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def as_tar(root, files):
    with tarfile.open(root / "tiny.tar", "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"tiny-imagenet-200/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return root / "tiny.tar"


@pytest.mark.parametrize("laid_out", [as_folder, as_tar])
def test_tiny_imagenet_has_the_labels_of_its_word_net_ids(tmp_path, laid_out):
    source = load_source("tiny_imagenet", str(laid_out(tmp_path, tiny_imagenet_files())))
    assert source.classes == 2
    assert source.train.x.shape == (6, 3, 64, 64)
    assert_has_colours(source.train, ["green", "red"])
    assert_has_colours(source.test, ["green", "red"])


def test_an_incomplete_tiny_imagenet_is_refused(tmp_path):
    files = tiny_imagenet_files()
    del files["val/images/val_1.JPEG"]
    with pytest.raises(DataError, match=r"is incomplete: val/images/val_1\.JPEG is missing"):
        load_source("tiny_imagenet", str(as_tar(tmp_path, files)))
    del files["wnids.txt"]
    with pytest.raises(DataError, match=r"has no wnids\.txt: put Tiny-ImageNet there as it is distributed"):
        load_source("tiny_imagenet", str(as_tar(tmp_path, files)))


def mnist_files(raw, images=3):
    """The four original files of a very small MNIST."""
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        pixels = bytes(range(256)) * 10
        (raw / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels[: images * 784]))
        (raw / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + bytes([7, 0, 9])))


def test_mnist_is_read_from_its_original_files_without_writing(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    mnist_files(raw)
    before = sorted(tmp_path.rglob("*"))
    source = load_source("mnist", str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    assert (source.train.x.shape, source.train.x.dtype) == ((3, 1, 28, 28), torch.uint8)
    assert source.train.x[0, 0, 1, :3].tolist() == [28, 29, 30]
    assert source.test.y.tolist() == [7, 0, 9]
    assert source.test.y.dtype == torch.int64


def test_damaged_mnist_files_are_refused_by_name(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    mnist_files(raw)
    labels = raw / "t10k-labels-idx1-ubyte.gz"
    whole = labels.read_bytes()
    for damaged in (b"", b"not packed", whole[:-9], whole[:12] + b"\x00\xff" + whole[14:]):
        labels.write_bytes(damaged)
        with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is damaged \(.+\): replace it"):
            load_source("mnist", str(tmp_path))


def test_mnist_with_too_few_pixels_is_refused(tmp_path):
    mnist_files(tmp_path / "MNIST" / "raw", images=2)
    with pytest.raises(DataError, match="is not MNIST: 1568 pixels for 3 images of 28 x 28"):
        load_source("mnist", str(tmp_path))


def test_real_mnist_is_read_also_where_nothing_can_be_written(data_pack):
    source = load_source("mnist", str(data_pack("mnist")))
    assert (len(source.train), len(source.test), source.classes) == (60000, 10000, 10)
    assert source.train.x.shape[1:] == (1, 28, 28)
    assert source.train.y[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]


def test_real_tiny_imagenet_from_its_tar(data_pack):
    source = load_source("tiny_imagenet", str(data_pack("tiny-imagenet-200-subset.tar")))
    assert (source.train.x.shape, source.test.x.shape) == ((10000, 3, 64, 64), (2000, 3, 64, 64))
    assert source.classes == 200
    assert source.train.y.bincount().tolist() == [50] * 200


def test_real_cifar_10_from_its_pack(data_pack):
    source = load_source("cifar10", str(data_pack("cifar10")))
    assert (len(source.train), len(source.test)) == (50000, 10000)
    assert source.test.y.bincount().tolist() == [1000] * 10
    mean = source.train.x[::10].float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.491, 0.482, 0.447], abs=0.005)


def test_real_cifar_100_from_its_pack(data_pack):
    source = load_source("cifar100", str(data_pack("cifar100")))
    assert (source.train.x.shape, source.test.x.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert source.train.y.bincount().tolist() == [500] * 100
    assert source.test.y.bincount().tolist() == [100] * 100
    mean = source.train.x[::10].float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.507, 0.487, 0.441], abs=0.005)
