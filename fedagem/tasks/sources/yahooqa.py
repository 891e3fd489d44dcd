"""Yahoo! Answers topics as features of a frozen text encoder."""

import csv
import hashlib
from pathlib import Path

import torch

from fedagem.errors import DataError
from fedagem.files import Lock, read_state, write_state
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.sources.labelled import Labelled, Source
from fedagem.tasks.sources.text_encoder import encode_texts

TOPICS = 10
ENCODER = "distilbert-base-uncased"


def yahooqa(root: Path, encoder: str = ENCODER, per_class: int | None = None, max_length: int = 128) -> Source:
    """Ten topics; `root` holds `train.csv` and `test.csv` (topic 1 to 10, title, question, answer) as published.

    The features are computed once and kept in `root`. `per_class` takes only the first samples of each topic.
    """
    train, test = (
        _features(root / f"{split}.csv", resolve_root(encoder), per_class, max_length) for split in ("train", "test")
    )
    return Source(train, test, classes=TOPICS)


def missing_yahooqa(root: Path, encoder: str = ENCODER, **_: object) -> list[Path]:
    """What the texts and their encoder lack."""
    needed = (root / "train.csv", root / "test.csv", resolve_root(encoder) / "config.json")
    return [path for path in needed if not path.exists()]


def _features(path: Path, encoder: Path, per_class: int | None, max_length: int) -> Labelled:
    if not path.exists():
        raise DataError(
            f"{path} does not exist: put train.csv and test.csv of the Yahoo! Answers topic data set there, or set "
            "data_loader.settings.root to the folder that has them."
        )
    cache = path.with_name(f"{path.stem}-{_fingerprint(path, encoder, per_class, max_length)}.features")
    if not cache.exists():
        try:
            with Lock(cache.with_suffix(".lock")) as lock:
                lock.take(wait=True)  # clients of one machine start together; one of them does the work
                if not cache.exists():
                    texts, labels = _read_texts(path, per_class)
                    write_state(cache, {"x": encode_texts(encoder, texts, max_length), "y": torch.tensor(labels)})
        except OSError as problem:
            raise DataError(f"the features cannot be kept in {cache}: {problem}.") from problem
    saved = read_state(cache)
    return Labelled(saved["x"], saved["y"])


def _read_texts(path: Path, per_class: int | None) -> tuple[list[str], list[int]]:
    texts: list[str] = []
    labels: list[int] = []
    taken = [0] * TOPICS
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if len(row) != 4 or row[0] not in {str(topic) for topic in range(1, TOPICS + 1)}:
                raise DataError(f"{path}, row {number}: expected topic (1 to {TOPICS}), title, question, answer.")
            label = int(row[0]) - 1
            if per_class is None or taken[label] < per_class:
                texts.append(" ".join(part for part in row[1:] if part))
                labels.append(label)
                taken[label] += 1
    if not texts:
        raise DataError(f"{path} is empty.")
    return texts, labels


def _fingerprint(path: Path, encoder: Path, per_class: int | None, max_length: int) -> str:
    """What the features depend on; another text, encoder or length never meets an old cache."""
    facts = [str(per_class), str(max_length)]
    for file in (path, *sorted(encoder.glob("*"))):
        facts.append(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
