"""Text as features of a frozen encoder: computed once, kept on disk, refused where something is missing."""

import csv
import gzip
import shutil
import sys
from pathlib import Path

import pytest
import torch

from fedagem.errors import CorruptStateError, DataError
from fedagem.tasks.data_folder import cache_folder
from fedagem.tasks.sources import load_source, missing_files
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


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(root, encoder, monkeypatch):
    (root / "a file").touch()
    monkeypatch.setenv("FEDAGEM_DATA", str(root / "a file" / "data"))
    monkeypatch.setattr(sys.modules["fedagem.tasks.sources.yahooqa"], "encode_texts", lambda *_: pytest.fail("worked"))
    with pytest.raises(DataError, match="cannot be written, but features are kept there: set FEDAGEM_DATA"):
        load(root, encoder)


def write_pack(path, rows, columns=("split", "label", "source", "text")):
    with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def pack_rows():
    """Two texts of each topic for training, one for testing, and a source that knows two topics only."""
    rows = [("train", topic, "whole", f"about {topic} of {number}") for number in range(2) for topic in range(10)]
    rows[5:5] = [("train", topic % 2, "partial", f"more about {topic % 2}") for topic in range(8)]
    rows += [("test", topic, "whole", f"ask {topic}") for topic in range(10)]
    return [*rows, ("test", 1, "partial", "more to ask")]


@pytest.fixture
def encoded(monkeypatch):
    """The texts that were encoded, train and test, in their order."""
    texts = []

    def encode(_, batch, __):
        texts.append(list(batch))
        return torch.zeros(len(batch), 4)

    monkeypatch.setattr(sys.modules["fedagem.tasks.sources.yahooqa"], "encode_texts", encode)
    return texts


@pytest.mark.parametrize("named", [lambda root: root, lambda root: root / "yahoo_answers.csv.gz"])
def test_a_pack_is_read_without_sources_that_have_only_some_topics(tmp_path, encoded, named):
    write_pack(tmp_path / "yahoo_answers.csv.gz", pack_rows())
    source = load(named(tmp_path), tmp_path)
    assert source.train.y.tolist() == [*range(10), *range(10)], "in the order of the file"
    assert source.test.y.tolist() == list(range(10))
    assert encoded[0][:2] == ["about 0 of 0", "about 1 of 0"]
    assert encoded[1] == [f"ask {topic}" for topic in range(10)]
    assert load(named(tmp_path), tmp_path, per_class=1).train.y.tolist() == list(range(10))


def test_published_files_come_before_a_pack(root, encoder):
    write_pack(root / "yahoo_answers.csv.gz", pack_rows())
    assert len(load(root, encoder).train) == 30


def test_a_pack_counts_as_there(tmp_path, encoder):
    assert [path.name for path in missing_files("yahooqa", str(tmp_path), {"encoder": str(encoder)})] == [
        "test.csv",
        "train.csv",
    ]
    write_pack(tmp_path / "yahoo_answers.csv.gz", pack_rows())
    assert not missing_files("yahooqa", str(tmp_path), {"encoder": str(encoder)})


@pytest.mark.parametrize("row", [("train", 10, "s", "t"), ("train", "x", "s", "t"), ("dev", 1, "s", "t"), ("train", 1)])
def test_a_row_of_a_pack_that_is_wrong_is_named(tmp_path, row):
    write_pack(tmp_path / "yahoo_answers.csv.gz", [*pack_rows(), row])
    with pytest.raises(DataError, match=r"yahoo_answers\.csv\.gz, row 41: expected train or test, a label \(0 to 9\)"):
        load(tmp_path, "/nowhere/bert")


def test_a_pack_of_other_columns_or_cut_short_is_refused(tmp_path):
    path = tmp_path / "yahoo_answers.csv.gz"
    write_pack(path, [("a", "b")], columns=("label", "text"))
    with pytest.raises(DataError, match=r"has the columns label, text, but should have split, label, source, text"):
        load(tmp_path, "/nowhere/bert")
    write_pack(path, pack_rows())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"yahoo_answers\.csv\.gz is damaged"):
        load(tmp_path, "/nowhere/bert")


def test_the_real_pack_is_balanced(data_pack, encoded):
    source = load(data_pack("text_topics/yahoo_answers.csv.gz"), "/nowhere/bert")
    assert (len(source.train), len(source.test)) == (6127, 1518)
    for split, least, most in ((source.train, 579, 632), (source.test, 143, 157)):
        counts = split.y.bincount().tolist()
        assert least <= min(counts) <= max(counts) <= most
    assert not set(encoded[0]) & set(encoded[1]), "no text is in both"


def test_a_damaged_cache_is_never_loaded(root, encoder):
    load(root, encoder)
    cache = next((cache_folder() / "features").glob("train-*.features"))
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
