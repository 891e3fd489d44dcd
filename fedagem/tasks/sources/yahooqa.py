"""Yahoo! Answers topics as features of a frozen text encoder."""

import csv
import gzip
import hashlib
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from fedagem.errors import DataError
from fedagem.files import read_state, write_state
from fedagem.tasks.data_folder import cache_folder, one_process_at_a_time, resolve_root
from fedagem.tasks.sources.labelled import Labelled, Source
from fedagem.tasks.sources.text_encoder import encode_texts

TOPICS = 10
ENCODER = "distilbert-base-uncased"
PACK = "yahoo_answers.csv.gz"
_COLUMNS = ["split", "label", "source", "text"]

Text = tuple[int, str]
"""A topic, from 0 on, and what was written about it."""


def yahooqa(root: Path, encoder: str = ENCODER, per_class: int | None = None, max_length: int = 128) -> Source:
    """Ten topics; `root` holds `train.csv` and `test.csv` (topic 1 to 10, title, question, answer) as published.

    Or it is a pack of them, or holds one: `yahoo_answers.csv.gz` with split, label, source and text. The features are
    computed once and kept. `per_class` takes only the first samples of each topic.
    """
    train, test = (_features(root, split, resolve_root(encoder), per_class, max_length) for split in ("train", "test"))
    return Source(train, test, classes=TOPICS)


def missing_yahooqa(root: Path, encoder: str = ENCODER, **_: object) -> list[Path]:
    """What the texts and their encoder lack."""
    texts = {_file_of(root, split) for split in ("train", "test")}
    return [path for path in (*sorted(texts), resolve_root(encoder) / "config.json") if not path.exists()]


def _file_of(root: Path, split: str) -> Path:
    """The file with the texts of a split: the published one, or a pack of both if there is one."""
    published, pack = root / f"{split}.csv", root if root.is_file() else root / PACK
    return pack if pack.exists() and not published.exists() else published


def _features(root: Path, split: str, encoder: Path, per_class: int | None, max_length: int) -> Labelled:
    path = _file_of(root, split)
    if not path.exists():
        raise DataError(
            f"{path} does not exist: put train.csv and test.csv of the Yahoo! Answers topic data set there, or set "
            "data_loader.settings.root to the folder that has them."
        )
    cache = cache_folder() / "features" / f"{split}-{_fingerprint(path, encoder, per_class, max_length)}.features"
    if not cache.exists():
        with one_process_at_a_time(cache):
            if not cache.exists():
                _make_room(cache)
                read = _read_pack(path, split) if path.suffix == ".gz" else _read_published(path)
                texts = list(_first_of_each(read, per_class))
                if not texts:
                    raise DataError(f"{path} is empty.")
                x = encode_texts(encoder, [text for _, text in texts], max_length)
                write_state(cache, {"x": x, "y": torch.tensor([label for label, _ in texts])})
    saved = read_state(cache)
    return Labelled(saved["x"], saved["y"])


def _make_room(cache: Path) -> None:
    """Refuse a folder that cannot be written before the minutes that the features take."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        writable = os.access(cache.parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise DataError(
            f"{cache.parent} cannot be written, but features are kept there: set FEDAGEM_DATA to a folder of yours."
        )


def _read_published(path: Path) -> Iterator[Text]:
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if len(row) != 4 or row[0] not in {str(topic) for topic in range(1, TOPICS + 1)}:
                raise DataError(f"{path}, row {number}: expected topic (1 to {TOPICS}), title, question, answer.")
            yield int(row[0]) - 1, " ".join(part for part in row[1:] if part)


def _read_pack(path: Path, split: str) -> Iterator[Text]:
    """The texts of a split, without those of a source that has only some of the topics.

    Such a source would make its topics more frequent than the others, and recognisable by its style.
    """
    topics = {str(topic): topic for topic in range(TOPICS)}
    covered: dict[str, set[str]] = defaultdict(set)
    try:
        with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != _COLUMNS:
                found = ", ".join(reader.fieldnames or [])
                raise DataError(f"{path} has the columns {found}, but should have {', '.join(_COLUMNS)}.")
            rows = list(reader)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        raise DataError(f"{path} is damaged: {problem}.") from problem
    for number, row in enumerate(rows, start=2):
        if row["split"] not in {"train", "test"} or row["label"] not in topics or row["text"] is None:
            raise DataError(f"{path}, row {number}: expected train or test, a label (0 to {TOPICS - 1}), source, text.")
        covered[row["source"]].add(row["label"])
    for row in rows:
        if row["split"] == split and len(covered[row["source"]]) == TOPICS:
            yield topics[row["label"]], row["text"]


def _first_of_each(texts: Iterable[Text], per_class: int | None) -> Iterator[Text]:
    taken = [0] * TOPICS
    for label, text in texts:
        taken[label] += 1
        if per_class is None or taken[label] <= per_class:
            yield label, text


def _fingerprint(path: Path, encoder: Path, per_class: int | None, max_length: int) -> str:
    """What the features depend on; another text, encoder or length never meets an old cache."""
    facts = [str(per_class), str(max_length)]
    for file in (path, *sorted(encoder.glob("*"))):
        facts.append(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
