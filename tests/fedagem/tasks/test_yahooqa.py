"""Text as features of a frozen encoder: computed once, kept on disk, refused where something is missing."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from fedagem.errors import CorruptStateError, DataError
from fedagem.tasks.sources import load_source
from tests.support.tiny_encoder import save_tiny_encoder

TEXTS = Path(__file__).parent / "yahooqa"


@pytest.fixture
def root(tmp_path):
    shutil.copytree(TEXTS, tmp_path / "yahooqa")
    return tmp_path / "yahooqa"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("encoder")
    save_tiny_encoder(folder, TEXTS.glob("*.csv"))
    return folder


def load(root, encoder, **settings):
    return load_source("yahooqa", str(root), {"encoder": str(encoder), **settings})


def test_ten_topics_become_features(root, encoder):
    source = load(root, encoder)
    assert source.classes == 10
    assert source.train.x.shape == (30, 16)
    assert source.train.x.dtype == torch.float32
    assert source.train.y.bincount().tolist() == [3] * 10
    assert len(source.test) == 10
    assert len(source.train.x.unique(dim=0)) == 30, "different texts have different features"


def test_features_are_computed_once(root, encoder, monkeypatch):
    first = load(root, encoder)
    module = sys.modules["fedagem.tasks.sources.yahooqa"]
    monkeypatch.setattr(module, "encode_texts", lambda *_: pytest.fail("computed again"))
    again = load(root, encoder)
    assert torch.equal(first.train.x, again.train.x)
    with pytest.raises(pytest.fail.Exception):
        load(root, encoder, max_length=8)


def test_a_part_of_each_topic(root, encoder):
    source = load(root, encoder, per_class=2)
    assert source.train.y.bincount().tolist() == [2] * 10


def test_a_damaged_cache_is_never_loaded(root, encoder):
    load(root, encoder)
    cache = next(root.glob("train-*.features"))
    cache.write_bytes(cache.read_bytes()[:-10])
    with pytest.raises(CorruptStateError, match="damaged"):
        load(root, encoder)


def test_a_missing_encoder_says_what_to_put_where(root):
    with pytest.raises(DataError, match=r"holds no text encoder: save distilbert-base-uncased there"):
        load(root, "/nowhere/distilbert")


def test_without_transformers_the_extra_is_named(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(DataError, match=r"install fedagem with its extra `text`"):
        load(root, "/nowhere/distilbert")


@pytest.mark.parametrize("row", ['"11","a","b","c"', '"0","a","b","c"', '"1","a","b"', "words"])
def test_a_row_of_another_kind_is_named(root, row):
    with (root / "train.csv").open("a") as file:
        file.write(f"{row}\n")
    with pytest.raises(DataError, match=r"train\.csv, row 31: expected topic \(1 to 10\)"):
        load(root, "/nowhere/distilbert")
