"""Snippets of anybody: every frame that is read is sound, and what is not is refused or skipped in a sentence."""

import json

import numpy as np
import pytest
from hypothesis import strategies as st

from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.snippets import SnippetSource, SnippetWriter, find_snippets
from carla_bridge.snippets.layout import ANNOTATIONS, JOURNAL
from tests.support.fuzzing import amounts, changed, damaged, fuzz, refused_in_a_sentence

NASTY = (
    b"[" * 100_000,
    b'{"images": 1' + b"0" * 5000 + b"}",
    b'{"images": [{"id": 1, "file_name": "\\ud800.png"}], "categories": [], "annotations": []}',
    b'{"images": [{"id": 1, "file_name": "' + b"a" * 5000 + b'"}], "categories": [], "annotations": []}',
    b"\xff\xfe\x00",
)
HUGE = (10**400, -(10**400), 2**63, 2**64, 1e308, 1e999)


@pytest.fixture
def snippet(tmp_path):
    rng = np.random.default_rng(0)
    with SnippetWriter(tmp_path / "snippet", ("car", "bike"), vehicle="vehicle_1", domain="city") as writer:
        for number in range(3):
            image = rng.integers(0, 256, (12, 20, 3), dtype=np.uint8)
            boxes = [Box(number % 2, 1, 2, 3, 4, pixels=5, object_id=6)]
            writer.write(Frame(image, number, number * 0.5, Annotations.of(boxes), "vehicle_1", "city"))
    return tmp_path / "snippet"


def replay(folder):
    """All that is done with snippets, in both ways to treat faults."""
    for on_error in ("refuse", "skip"):
        with refused_in_a_sentence(SnippetError):
            source = SnippetSource(find_snippets(folder), on_error=on_error)
            frames = [*source.frames(), *source.window(0, 1)]
            for frame in frames:
                height, width, _ = frame.image.shape
                assert np.isfinite(frame.timestamp)
                assert all(0 <= label < len(source.classes) for label in frame.labels)
                for x, y, w, h in frame.boxes:
                    assert 0 <= x <= x + w <= width + 1e-3
                    assert 0 <= y <= y + h <= height + 1e-3


@amounts(250, 20_000)
def test_changed_annotations_are_used_or_refused_in_a_sentence(snippet, examples):
    path = snippet / ANNOTATIONS
    document = json.loads(path.read_text())
    text = path.read_bytes()

    def check(content):
        path.write_bytes(content)
        replay(snippet)

    def with_huge(place):
        where, value = place
        other = json.loads(text)
        key, name = where
        other[key][0][name] = [value] * 4 if name == "bbox" else value
        return other

    fields = [("images", name) for name in document["images"][0]] + [
        ("annotations", n) for n in document["annotations"][0]
    ]
    huge = st.tuples(st.sampled_from(fields), st.sampled_from(HUGE)).map(with_huge)
    documents = (changed(document) | huge).map(lambda changed_document: json.dumps(changed_document).encode())
    fuzz(documents | damaged(text) | st.sampled_from(NASTY), check, examples)


@amounts(150, 20_000)
def test_a_changed_journal_is_used_or_refused_in_a_sentence(snippet, examples):
    document = json.loads((snippet / ANNOTATIONS).read_text())
    (snippet / ANNOTATIONS).unlink()
    header = {"info": document["info"], "categories": document["categories"]}
    rows = [
        {"image": image, "annotations": [box for box in document["annotations"] if box["image_id"] == image["id"]]}
        for image in document["images"]
    ]

    def journal(lines):
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def check(content):
        (snippet / JOURNAL).write_bytes(content)
        replay(snippet)

    whole = [header, *rows]
    lists = changed(whole).map(lambda lines: journal(lines if isinstance(lines, list) else [lines]))
    fuzz(lists | damaged(journal(whole)) | st.sampled_from(NASTY), check, examples)


@amounts(150, 20_000)
def test_a_damaged_picture_is_refused_in_a_sentence(snippet, examples):
    picture = sorted(snippet.glob("*.png"))[1]
    whole = picture.read_bytes()

    def check(content):
        picture.write_bytes(content)
        replay(snippet)

    fuzz(damaged(whole) | st.binary(max_size=60), check, examples)
