"""Snippets: what is written is read, what is broken is named, what a crash leaves is usable."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carla_bridge.frames import Annotations, Box, Frame
from carla_bridge.snippets import EndOfSnippetsError, SnippetError, SnippetSource, SnippetWriter
from carla_bridge.snippets.layout import ANNOTATIONS, JOURNAL
from carla_bridge.tags import DEFAULT_TAGS

CLASSES = tuple(DEFAULT_TAGS)
REPOSITORY = Path(__file__).parents[3]
DATA = Path(os.environ.get("FEDAGEM_DATA", REPOSITORY.parent / "shared" / "data")) / "carla_snippets"
DRIVES = DATA.with_name("carla_drives")
needs_packs = pytest.mark.skipif(not DATA.is_dir(), reason=f"no recorded packs in {DATA}; set FEDAGEM_DATA")


def make_frame(number, rng, boxes=(), period=0.5):
    image = rng.integers(0, 256, (12, 20, 3), dtype=np.uint8)
    return Frame(image, number, number * period, Annotations.of(boxes), "vehicle_1", "city")


def write(directory, count=4, start=0, **options):
    rng = np.random.default_rng(start)
    frames = [make_frame(n, rng, [Box(n % 3, 1, 2, 3 + n % 4, 5)]) for n in range(start, start + count)]
    with SnippetWriter(directory, CLASSES, vehicle="vehicle_1", domain="city", **options) as writer:
        for frame in frames:
            writer.write(frame)
    return frames


def same(a, b):
    return (
        np.array_equal(a.image, b.image)
        and (a.frame, a.timestamp, a.vehicle, a.domain) == (b.frame, b.timestamp, b.vehicle, b.domain)
        and all(
            np.array_equal(getattr(a.annotations, name), getattr(b.annotations, name))
            for name in ("boxes", "labels", "truncated", "pixels", "object_ids")
        )
    )


def edit(directory, change):
    path = directory / ANNOTATIONS
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


boxes = st.builds(
    Box,
    label=st.integers(0, 5),
    x=st.integers(0, 9),
    y=st.integers(0, 5),
    width=st.integers(1, 11),
    height=st.integers(1, 7),
    truncated=st.booleans(),
    pixels=st.integers(0, 77),
    object_id=st.integers(0, 65535),
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(boxes, max_size=4), min_size=1, max_size=5), st.integers(0, 2**32))
def test_what_is_written_is_read_back_bit_for_bit(tmp_path_factory, drawn, seed):
    directory = tmp_path_factory.mktemp("snippet")
    rng = np.random.default_rng(seed)
    frames = [make_frame(number, rng, row) for number, row in enumerate(drawn)]
    with SnippetWriter(directory, CLASSES, vehicle="vehicle_1", domain="city") as writer:
        for frame in frames:
            writer.write(frame)
    source = SnippetSource([directory])
    assert source.classes == CLASSES
    assert all(same(a, b) for a, b in zip(frames, source.frames(), strict=True))
    assert not (directory / JOURNAL).exists()


def test_jpeg_is_near_and_smaller_quality_is_smaller(tmp_path):
    smooth = np.broadcast_to(np.arange(240, dtype=np.uint8)[None, :, None], (160, 240, 3)).copy()
    sizes = {}
    for quality in (95, 30):
        with SnippetWriter(tmp_path / str(quality), ("a",), vehicle="v", domain="d", jpeg_quality=quality) as w:
            w.write(Frame(smooth, 1, 1.0))
        (frame,) = SnippetSource([tmp_path / str(quality)]).frames()
        assert np.abs(frame.image.astype(int) - smooth).mean() < 4
        sizes[quality] = next((tmp_path / str(quality)).glob("*.jpg")).stat().st_size
    assert sizes[30] < sizes[95]
    with pytest.raises(SnippetError, match="JPEG quality 101"):
        SnippetWriter(tmp_path / "x", ("a",), vehicle="v", domain="d", jpeg_quality=101)


def test_a_journal_cut_at_any_byte_is_a_readable_prefix(tmp_path):
    directory = tmp_path / "snippet"
    rng = np.random.default_rng(0)
    writer = SnippetWriter(directory, CLASSES, vehicle="vehicle_1", domain="city")
    frames = [make_frame(number, rng, [Box(1, 1, 1, 3, 4)] * 2) for number in range(3)]
    for frame in frames:
        writer.write(frame)
    whole = (directory / JOURNAL).read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        (directory / JOURNAL).write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends) - 1
        if complete < 1:
            with pytest.raises(SnippetError, match=r"first line|no frame is left"):
                SnippetSource([directory])
        else:
            read = list(SnippetSource([directory]).frames())
            assert len(read) == complete
            assert all(same(a, b) for a, b in zip(frames, read, strict=False))


def test_a_killed_recorder_leaves_what_it_wrote(tmp_path):
    script = """
import sys, numpy as np
from carla_bridge.frames import Frame
from carla_bridge.snippets import SnippetWriter
with SnippetWriter(sys.argv[1], ("a",), vehicle="v", domain="d") as writer:
    for number in range(100_000):
        writer.write(Frame(np.full((64, 64, 3), number % 256, np.uint8), number, float(number)))
        if number == 20:
            print("go", flush=True)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    frames = list(SnippetSource([tmp_path / "s"]).frames())
    assert len(frames) > 20
    assert [frame.frame for frame in frames] == list(range(len(frames)))
    assert all((frame.image == frame.frame % 256).all() for frame in frames)


def test_the_journal_wins_where_the_json_is_older(tmp_path):
    write(tmp_path / "s", count=3)
    document = json.loads((tmp_path / "s" / ANNOTATIONS).read_text())
    header = {"info": document["info"], "categories": document["categories"]}
    line = {"image": document["images"][0], "annotations": []}
    (tmp_path / "s" / JOURNAL).write_text(json.dumps(header) + "\n" + json.dumps(line) + "\n")
    later = (tmp_path / "s" / ANNOTATIONS).stat().st_mtime + 10
    os.utime(tmp_path / "s" / JOURNAL, (later, later))
    assert len(SnippetSource([tmp_path / "s"])) == 1
    os.utime(tmp_path / "s" / JOURNAL, (later - 20, later - 20))
    assert len(SnippetSource([tmp_path / "s"])) == 3


def test_a_recorder_never_overwrites_or_goes_back_in_time(tmp_path):
    write(tmp_path / "s")
    with pytest.raises(SnippetError, match="already holds a snippet"):
        write(tmp_path / "s")
    rng = np.random.default_rng(0)
    with SnippetWriter(tmp_path / "t", ("a",), vehicle="v", domain="d") as writer:
        writer.write(make_frame(5, rng))
        with pytest.raises(SnippetError, match="must rise"):
            writer.write(make_frame(5, rng))


def test_windows_are_half_open_disjoint_and_complete(tmp_path):
    frames = write(tmp_path / "s", count=10)  # 0, 0.5, ... 4.5
    source = SnippetSource([tmp_path / "s"])
    assert [f.timestamp for f in source.window(1.0, 2.5)] == [1.0, 1.5, 2.0]
    parts = [f for second in range(5) for f in source.window(second, second + 1)]
    assert all(same(a, b) for a, b in zip(frames, parts, strict=True))
    assert list(source.window(1.1, 1.4)) == []
    with pytest.raises(EndOfSnippetsError, match=r"end at second 5, .*window \[5, 6\)"):
        source.window(5, 6)
    with pytest.raises(SnippetError, match="not a span of time"):
        source.window(3, 2)


def test_pieces_of_one_drive_join_and_consecutive_drives_follow_each_other(tmp_path):
    first, second = write(tmp_path / "a", count=4), write(tmp_path / "b", count=4, start=4)
    joined = SnippetSource([tmp_path / "b", tmp_path / "a"])
    assert [f.frame for f in joined.frames()] == [f.frame for f in first + second]
    laid_out = SnippetSource([tmp_path / "b", tmp_path / "a"], timeline="consecutive")
    assert [(f.frame, f.timestamp) for f in laid_out.window(0, 4)] == [
        (4, 0.0), (5, 0.5), (6, 1.0), (7, 1.5), (0, 2.0), (1, 2.5), (2, 3.0), (3, 3.5),
    ]  # fmt: skip


def test_repeating_goes_round_without_end_and_time_rises(tmp_path):
    write(tmp_path / "s", count=4)  # two seconds
    source = SnippetSource([tmp_path / "s"], repeat=True)
    frames = list(source.window(1.5, 5.0))
    assert [f.timestamp for f in frames] == [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    assert [f.frame for f in frames] == [3, 0, 1, 2, 3, 0, 1]


def test_gaps_close_on_an_even_timeline(tmp_path):
    rng = np.random.default_rng(0)
    with SnippetWriter(tmp_path / "a", CLASSES, vehicle="vehicle_1", domain="city") as writer:
        for number in (3, 4, 90, 91):
            writer.write(make_frame(number, rng))
    source = SnippetSource([tmp_path / "a"], timeline="even", frame_period=2.0)
    assert [frame.timestamp for frame in source.frames()] == [0, 2, 4, 6]
    assert source.end == 8
    with pytest.raises(SnippetError, match="valid values: 'recorded', 'consecutive', 'even'"):
        SnippetSource([tmp_path / "a"], timeline="odd")  # type: ignore[arg-type]


def test_seconds_of_a_drive_can_be_chosen(tmp_path):
    write(tmp_path / "a", count=10)
    source = SnippetSource([tmp_path / "a"], seconds=[(0.5, 1.5), (4.0, 99.0)], select=lambda number: number != 8)
    assert [frame.frame for frame in source.frames()] == [1, 2, 9]
    assert [frame.frame for frame in source.frames([2, 0])] == [9, 1]
    edit(tmp_path / "a", lambda document: [image.pop("timestamp") for image in document["images"]])
    with pytest.raises(SnippetError, match="has no time stamps, so seconds of it cannot be chosen"):
        SnippetSource([tmp_path / "a"], seconds=[(0.5, 1.5)])


def test_classes_may_have_other_names_or_be_left_out(tmp_path):
    """The frames have a vehicle, a bike and a motobike in turn."""
    write(tmp_path / "a", count=6)
    aliases = {"motobike": "bike", "vehicle": None}
    source = SnippetSource([tmp_path / "a"], classes=["bike"], aliases=aliases)
    assert [frame.labels.tolist() for frame in source.frames()] == [[], [0], [0], [], [0], [0]]
    assert SnippetSource([tmp_path / "a"], aliases=aliases).classes == tuple(
        name for name in CLASSES if name not in aliases
    )
    with pytest.raises(SnippetError, match="a box is a 'vehicle', which is not among the requested classes"):
        SnippetSource([tmp_path / "a"], classes=["bike"], aliases={"motobike": "bike"})


def test_pictures_may_be_webp(tmp_path):
    frames = write(tmp_path / "a")
    for picture in (tmp_path / "a").glob("*.png"):
        image = cv2.imread(str(picture))
        assert image is not None
        cv2.imwrite(str(picture.with_suffix(".webp")), image, [cv2.IMWRITE_WEBP_QUALITY, 101])
        picture.unlink()

    def renamed(document):
        for image in document["images"]:
            image["file_name"] = image["file_name"].replace(".png", ".webp")

    edit(tmp_path / "a", renamed)
    assert all(same(a, b) for a, b in zip(SnippetSource([tmp_path / "a"]).frames(), frames, strict=True))
    broken = next((tmp_path / "a").glob("*.webp"))
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(SnippetError, match=r"webp: the image is truncated"):
        list(SnippetSource([tmp_path / "a"]).frames())


def test_classes_are_matched_by_name(tmp_path):
    write(tmp_path / "s")
    source = SnippetSource([tmp_path / "s"], classes=("bike", "vehicle", "motobike"))
    assert [int(f.labels[0]) for f in source.frames()] == [1, 0, 2, 1]
    with pytest.raises(SnippetError, match="'motobike', which is not among the requested classes"):
        SnippetSource([tmp_path / "s"], classes=("vehicle", "bike"))


def cut_image(directory, keep):
    path = directory / "00000001.png"
    path.write_bytes(path.read_bytes()[:keep])


FAULTS = {
    "broken JSON": (lambda d: (d / ANNOTATIONS).write_text('{"images": ['), "broken JSON", 0, 0),
    "not an object": (lambda d: (d / ANNOTATIONS).write_text("[]"), "holds a list", 0, 0),
    "no images": (lambda d: edit(d, lambda c: c.pop("images")), "'images' of the annotations", 0, 0),
    "missing image": (lambda d: (d / "00000001.png").unlink(), "00000001.png: the image is missing", 3, 3),
    "truncated image": (lambda d: cut_image(d, -20), "00000001.png: the image is truncated", 3, 3),
    "empty image": (lambda d: cut_image(d, 0), "00000001.png: the image is truncated", 3, 3),
    "other size": (
        lambda d: edit(d, lambda c: c["images"][1].update(width=21)),
        "the image is 20 x 12, its annotation says 21 x 12",
        3,
        3,
    ),
    "box outside": (
        lambda d: edit(d, lambda c: c["annotations"][1].update(bbox=[18, 0, 3, 3])),
        r"the box \[18, 0, 3, 3\] is empty or outside the 20 x 12 frame",
        4,
        3,
    ),
    "empty box": (
        lambda d: edit(d, lambda c: c["annotations"][1].update(bbox=[1, 1, 0, 3])),
        "is empty or outside",
        4,
        3,
    ),
    "strange box": (
        lambda d: edit(d, lambda c: c["annotations"][1].update(bbox=[1, "a", 0])),
        r"not \[x, y, width, height\]",
        4,
        3,
    ),
    "unknown category": (
        lambda d: edit(d, lambda c: c["annotations"][1].update(category_id=77)),
        "unknown category 77",
        4,
        3,
    ),
    "lost box": (
        lambda d: edit(d, lambda c: c["annotations"][1].update(image_id=77)),
        "image id 77, which does not exist",
        4,
        3,
    ),
    "path traversal": (
        lambda d: edit(d, lambda c: c["images"][1].update(file_name="../other/00000001.png")),
        "'../other/00000001.png' leads out of the snippet's directory",
        3,
        3,
    ),
    "absolute path": (
        lambda d: edit(d, lambda c: c["images"][1].update(file_name=str(d / "00000001.png"))),
        "leads out of the snippet's directory",
        3,
        3,
    ),
    "bad time": (
        lambda d: edit(d, lambda c: c["images"][1].update(timestamp="noon")),
        "timestamp 'noon'",
        3,
        3,
    ),
    "bad frame": (lambda d: edit(d, lambda c: c["images"][1].update(frame=1.5)), "its frame is 1.5", 3, 3),
    "id twice": (lambda d: edit(d, lambda c: c["images"][1].update(id=1)), "id 1 is missing or used twice", 3, 3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_and_refused_or_skipped(tmp_path, name):
    damage, message, frames_left, boxes_left = FAULTS[name]
    write(tmp_path / "bad")
    write(tmp_path / "good", count=1, start=100)
    damage(tmp_path / "bad")
    directories = [tmp_path / "bad", tmp_path / "good"]
    with pytest.raises(SnippetError, match=message):
        list(SnippetSource(directories).frames())
    source = SnippetSource(directories, on_error="skip")
    frames = list(source.frames())
    assert len(frames) == frames_left + 1
    assert sum(len(f.boxes) for f in frames) == boxes_left + 1
    assert source.skipped
    assert "\n" not in source.skipped[0]


def test_a_link_that_leads_out_is_refused(tmp_path):
    write(tmp_path / "s")
    write(tmp_path / "elsewhere")
    image = tmp_path / "s" / "00000001.png"
    image.unlink()
    image.symlink_to(tmp_path / "elsewhere" / "00000001.png")
    with pytest.raises(SnippetError, match="leads out"):
        SnippetSource([tmp_path / "s"])


def test_what_is_no_snippet_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(SnippetError, match="is not a directory"):
        SnippetSource([tmp_path / "nothing"])
    with pytest.raises(SnippetError, match=r"holds no annotations\.json"):
        SnippetSource([tmp_path])
    with pytest.raises(SnippetError, match="no frame is left"):
        SnippetSource([])


@needs_packs
def test_the_recorded_packs_load_as_they_are():
    source = SnippetSource([DATA / f"Town0{number}" for number in (1, 2, 3, 4)])
    assert len(source) == 779
    assert source.classes == CLASSES[:5]
    assert (source.start, source.end) == (0.0, 779.0)
    frames = list(source.window(195, 205))
    assert [f.domain for f in frames] == ["Town01"] * 5 + ["Town02"] * 5
    assert all(f.image.shape == (380, 640, 3) for f in frames)


@pytest.mark.skipif(not DRIVES.is_dir(), reason=f"no recorded drives in {DRIVES}; set FEDAGEM_DATA")
def test_the_recorded_drives_load_under_other_names():
    aliases = {"car": "vehicle", "truck": "vehicle", "motorbike": "two_wheeler", "bike": "two_wheeler", "person": None}
    source = SnippetSource([DRIVES / "highway_day"], classes=["vehicle", "two_wheeler"], aliases=aliases)
    assert len(source) == 361
    frame = next(source.frames())
    assert frame.image.shape == (240, 320, 3)


@pytest.mark.parametrize(
    "module", ["carla_bridge.snippets", "carla_bridge.stream.client", "carla_bridge.fleet_process.recorder"]
)
def test_reading_frames_needs_neither_carla_nor_torch(module):
    code = f"import sys, {module}; print({{'carla', 'torch'}} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    assert found == "set()\n"
