"""Data sets and weights as their authors publish them: where they come from, how large they are, their checksums."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchvision.datasets import CIFAR10, CIFAR100, MNIST

_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True)
class Published:
    """What is known about a data set or a file of weights wherever it is."""

    title: str
    home: str
    """Where to get it."""
    put: str
    """What belongs into its place, in words."""
    megabytes: int
    """The size of what is downloaded, in millions of bytes."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """By path below its place (empty for a single file): `md5` or `sha256`, and the digest or its beginning."""


DATA_SETS = {
    "mnist": Published(
        "MNIST",
        "http://yann.lecun.com/exdb/mnist",
        "MNIST/raw with the four .gz files (or let torchvision fetch them)",
        12,
        {f"MNIST/raw/{name}": f"md5 {digest}" for name, digest in MNIST.resources},
    ),
    "cifar10": Published(
        "CIFAR-10",
        _CIFAR,
        "cifar-10-python.tar.gz (or let torchvision fetch it), or a pack: train.npz and test.npz",
        170,
        {CIFAR10.filename: f"md5 {CIFAR10.tgz_md5}"},
    ),
    "cifar100": Published(
        "CIFAR-100",
        _CIFAR,
        "cifar-100-python.tar.gz (or let torchvision fetch it), or a pack: train.npz and test.npz",
        169,
        {CIFAR100.filename: f"md5 {CIFAR100.tgz_md5}"},
    ),
    "tiny_imagenet": Published(
        "Tiny-ImageNet",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "the unpacked folder tiny-imagenet-200, or a tar of it",
        248,
    ),
    "yahooqa": Published(
        "Yahoo! Answers topics of Zhang, Zhao and LeCun, 2015",
        "linked from https://github.com/zhangxiangxiao/Crepe",
        "train.csv and test.csv, or a pack: yahoo_answers.csv.gz",
        319,
    ),
}
"""By the name in SOURCES; what is not here comes with a package, or is the user's own."""

WEIGHTS = {
    "distilbert-base-uncased": Published(
        "DistilBERT, the paper's text encoder",
        "https://huggingface.co/distilbert/distilbert-base-uncased",
        "config.json, model.safetensors and the files of the tokenizer",
        268,
    ),
    "all-MiniLM-L6-v2": Published(
        "all-MiniLM-L6-v2, a smaller text encoder",
        "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        "config.json, model.safetensors and the files of the tokenizer",
        91,
    ),
    "resnet18-f37072fd.pth": Published(
        "ResNet-18 trained on ImageNet",
        "torchvision's ResNet18_Weights.IMAGENET1K_V1",
        "resnet18-f37072fd.pth",
        47,
        {"": "sha256 f37072fd"},
    ),
    "vit/model.safetensors": Published(
        "ViT-B/16 trained on ImageNet-21k, the backbone of L2P",
        "https://huggingface.co/timm/vit_base_patch16_224.orig_in21k",
        "model.safetensors",
        343,
    ),
}
"""By the end of the path by which plans name them."""


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file has a checksum of `Published.checksums`."""
    algorithm, _, expected = checksum.partition(" ")
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest().startswith(expected)
