"""Data sets in the formats of others become snippets; the files here follow each format's own documentation."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carla_bridge.cli.main import main
from carla_bridge.datasets.importing import import_dataset, open_dataset
from carla_bridge.errors import SnippetError
from carla_bridge.snippets import SnippetSource, find_snippets
from carla_bridge.snippets.layout import Faults


def picture(path: Path, width=640, height=480, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.full((height, width, 3), value, np.uint8))


def write(path: Path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def imported(*words, out):
    """The frames of every domain by running the command."""
    result = run("import", *words, "--out", out)
    assert result.exit_code == 0, result.output
    source = SnippetSource(find_snippets(out))
    frames: dict[str, list[object]] = {}
    for frame in source.frames():
        boxes = [(source.classes[box.label], box.x, box.y, box.width, box.height) for box in frame.annotations]
        frames.setdefault(frame.domain, []).append(boxes)
    return frames


@pytest.fixture
def yolo(tmp_path):
    """A set with a mapping of names, an image without objects, and a folder below the split's."""
    home = tmp_path / "set"
    picture(home / "images/train/day/a.jpg")
    picture(home / "images/train/day/b.jpg")
    picture(home / "images/train/night/c.png", 1280, 720)
    picture(home / "images/val/d.jpg")
    write(home / "labels/train/day/a.txt", "1 0.5 0.5 0.25 0.5\n0 0.9 0.1 0.2 0.2\n")
    write(home / "labels/train/night/c.txt", "0 0.1 0.1 0.3 0.1 0.3 0.6\n\n")
    write(home / "labels/val/d.txt", "")
    write(home / "data.yaml", "path: set\ntrain: images/train\nval: images/val\ntest:\nnames:\n  0: car\n  1: bus\n")
    return home


def test_yolo_boxes_are_shares_around_a_centre(yolo, tmp_path):
    frames = imported("--from", "yolo", yolo, "--split", "train", "--domain-by", "folder", out=tmp_path / "out")
    assert frames == {
        "day": [[("bus", 240, 120, 160, 240), ("car", 512, 0, 128, 96)], []],
        "night": [[("car", 128, 72, 256, 360)]],
    }


def test_yolo_lists_of_images_and_names_and_paths_that_exporters_write(tmp_path):
    home = tmp_path / "set"
    picture(home / "train/images/a.jpg", 100, 50)
    picture(home / "more/b.jpg", 100, 50)
    write(home / "train/labels/a.txt", "0 0.5 0.5 1 1")
    write(home / "more/b.txt", "1 0.25 0.5 0.5 1.0")
    write(home / "list.txt", "./more/b.jpg\n")
    write(home / "data.yaml", "train: [../train/images, list.txt]\nnc: 2\nnames: ['head', 'person']\n")
    frames = imported("--from", "yolo", home / "data.yaml", out=tmp_path / "out")
    assert frames == {"train": [[("head", 0, 0, 100, 50)], [("person", 0, 0, 50, 50)]]}


CAR = "Car 0.00 0 -1.59 586.42 199.76 662.87 266.02 1.36 1.69 3.38 0.28 2.08 17.74 -1.58"
CUT = "Pedestrian 0.31 0 0.15 1200.00 179.08 1241.00 303.37 1.87 0.64 0.65 -3.21 1.97 11.22 -0.13"
REGION = "DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10"


@pytest.fixture
def kitti(tmp_path):
    home = tmp_path / "kitti"
    for number in range(2):
        picture(home / f"training/image_2/{number:06d}.png", 1242, 375)
    write(home / "training/label_2/000000.txt", f"{CAR}\n{REGION}\n{CUT}\n")
    write(home / "training/label_2/000001.txt", f"{REGION}\n")
    picture(home / "testing/image_2/000000.png", 1242, 375)
    return home


def test_kitti_boxes_are_corners_and_regions_to_ignore_are_no_objects(kitti, tmp_path):
    out = tmp_path / "out"
    frames = imported("--from", "kitti", kitti, out=out)
    assert list(frames) == ["training"]
    (car, pedestrian), nothing = frames["training"]
    assert nothing == []
    assert car[0] == "Car"
    assert car[1:] == pytest.approx((586.42, 199.76, 76.45, 66.26), abs=2e-3)
    assert pedestrian[1:] == pytest.approx((1200, 179.08, 41, 124.29), abs=2e-3)
    (frame, _) = SnippetSource(find_snippets(out)).frames()
    assert frame.annotations.truncated.tolist() == [False, True]
    assert json.loads((out / "import.json").read_text())["left_out"] == {"DontCare regions": 2}


def bdd_frame(name, scene, time, labels, weather="clear"):
    attributes = {"weather": weather, "scene": scene, "timeofday": time}
    return {"name": name, "attributes": attributes, "timestamp": 10000, "labels": labels}


@pytest.fixture
def bdd100k(tmp_path):
    """Two of the releases' peculiarities: lanes among the labels, and null in place of an empty list."""
    home = tmp_path / "bdd100k"
    box = {"x1": 45.240919, "y1": 254.530367, "x2": 357.805838, "y2": 487.906215}
    car = {"id": "1", "category": "car", "attributes": {"occluded": False, "truncated": True}, "box2d": box}
    light = {"id": "2", "category": "traffic light", "box2d": {"x1": 1200, "y1": 0, "x2": 1280, "y2": 40}}
    lane = {"id": "3", "category": "lane", "poly2d": [{"vertices": [[0, 0], [1, 1]], "types": "LL", "closed": False}]}
    frames = [
        bdd_frame("d.jpg", "highway", "night", None),
        bdd_frame("a.jpg", "city street", "daytime", [car, lane]),
        bdd_frame("b.jpg", "residential", "dawn/dusk", [light], "partly cloudy"),
        bdd_frame("c.jpg", "highway", "daytime", [car, light], "rainy"),
    ]
    write(home / "labels/det_20/det_train.json", frames)
    for frame in frames:
        picture(home / "images/100k/train" / frame["name"], 1280, 720)
    return home


def test_bdd100k_scenes_and_times_of_day_become_domains(bdd100k, tmp_path):
    frames = imported("--from", "bdd100k", bdd100k, out=tmp_path / "out")
    assert set(frames) == {"city-street-daytime", "residential-dawn-dusk", "highway-daytime", "highway-night"}
    (car,), *_ = frames["city-street-daytime"]
    assert car[0] == "car"
    assert car[1:] == pytest.approx((45.240919, 254.530367, 312.564919, 233.375848), abs=2e-3)
    assert frames["highway-night"] == [[]]
    assert json.loads((tmp_path / "out/import.json").read_text())["left_out"] == {"labels without a box": 1}


def test_rules_on_attributes_name_the_domains_and_leave_out_the_rest(bdd100k, tmp_path):
    rules = ("--domain", "city: scene=City Street|residential", "--domain", "wet: scene=highway, weather=rainy")
    frames = imported("--from", "bdd100k", bdd100k, *rules, out=tmp_path / "out")
    assert {name: len(found) for name, found in frames.items()} == {"city": 2, "wet": 1}
    assert json.loads((tmp_path / "out/import.json").read_text())["left_out"]["images of no domain"] == 1


@pytest.fixture
def coco(tmp_path):
    home = tmp_path / "coco"
    picture(home / "val2017/000000397133.jpg")
    picture(home / "val2017/000000037777.jpg", 352, 230)
    document = {
        "info": {"year": 2017},
        "licenses": [],
        "images": [
            {"id": 397133, "file_name": "000000397133.jpg", "width": 640, "height": 480, "license": 4, "place": "town"},
            {
                "id": 37777,
                "file_name": "000000037777.jpg",
                "width": 352,
                "height": 230,
                "attributes": {"place": "land"},
            },
        ],
        "categories": [
            {"id": 3, "name": "car", "supercategory": "vehicle"},
            {"id": 90, "name": "toothbrush", "supercategory": "indoor"},
        ],
        "annotations": [
            {"id": 1, "image_id": 397133, "category_id": 90, "bbox": [388.66, 69.92, 109.41, 277.62], "iscrowd": 0},
            {"id": 2, "image_id": 397133, "category_id": 3, "bbox": [0, 0, 640, 480], "iscrowd": 1},
            {"id": 3, "image_id": 37777, "category_id": 3, "bbox": [300.5, 200.25, 60, 40], "iscrowd": 0},
        ],
    }
    write(home / "annotations/instances_val2017.json", document)
    write(home / "annotations/captions_val2017.json", {"images": []})
    return home


def test_coco_ids_have_gaps_crowds_are_no_objects_and_boxes_end_at_the_border(coco, tmp_path):
    frames = imported("--from", "coco", coco, "--domain-by", "place", out=tmp_path / "out")
    assert frames["land"] == [[("car", 300.5, 200.25, 51.5, 29.75)]]
    ((brush,),) = frames["town"]
    assert brush[1:] == pytest.approx((388.66, 69.92, 109.41, 277.62), abs=2e-3)


def test_images_are_shared_with_the_original_and_keep_their_bytes_and_attributes(coco, tmp_path):
    imported("--from", "coco", coco, "--domain-by", "place", out=tmp_path / "out")
    (folder,) = [place for place in find_snippets(tmp_path / "out") if place.name.endswith("town")]
    document = json.loads((folder / "annotations.json").read_text())
    (row,) = document["images"]
    assert (folder / row["file_name"]).samefile(coco / "val2017/000000397133.jpg")
    assert row["source"] == "000000397133.jpg"
    assert row["attributes"] == {"split": "val2017", "folder": ".", "place": "town"}


def test_every_vehicle_has_its_own_part_of_every_domain(tmp_path):
    home = tmp_path / "set"
    for number in range(7):
        picture(home / f"images/{'ab'[number % 2]}/{number}.png", 8, 8, value=number)
    write(home / "data.yaml", "train: images\nnames: [car]\n")
    words = ("import", "--from", "yolo", home, "--vehicles", 3, "--domain-by", "folder", "--out", tmp_path / "out")
    assert run(*words).exit_code == 0
    seen = []
    for vehicle in ("vehicle_1", "vehicle_2", "vehicle_3"):
        source = SnippetSource(find_snippets(tmp_path / "out" / vehicle))
        assert {snippet.domain for snippet in source.snippets} == {"a", "b"}
        seen += [int(frame.image[0, 0, 0]) for frame in source.frames()]
    assert sorted(seen) == list(range(7))


def test_an_image_with_a_turned_camera_has_the_size_in_which_it_is_decoded(tmp_path):
    from PIL import Image

    picture(tmp_path / "set/images/a.jpg", 60, 40)
    with Image.open(tmp_path / "set/images/a.jpg") as image:
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(tmp_path / "set/images/a.jpg", exif=exif)
    write(tmp_path / "set/labels/a.txt", "0 0.5 0.5 0.5 0.5\n")
    write(tmp_path / "set/data.yaml", "train: images\nnames: [car]\n")
    assert imported("--from", "yolo", tmp_path / "set", out=tmp_path / "out")["train"] == [[("car", 10, 15, 20, 30)]]


def damaged(home: Path, name: str, content) -> Path:
    write(home / name, content)
    return home


MISTAKES: dict[str, list[tuple[str, object, str]]] = {
    "yolo": [
        ("data.yaml", "names: [car]\n", "names no images"),
        ("data.yaml", "train: images/train\nnames: car\n", "names must list the classes"),
        ("data.yaml", "train: nowhere\nnames: [car, bus]\n", "nowhere does not exist"),
        ("data.yaml", ": :\n- x: [", "is not YAML"),
        ("labels/train/day/a.txt", "1 0.5 0.5 0.25", "4 values are neither"),
        ("labels/train/day/a.txt", "7 0.5 0.5 0.25 0.1", "class 7 is not a number from 0 to 1"),
        ("labels/train/day/a.txt", "1 240 120 160 240", "a.txt, line 1: 240 is not between 0 and 1"),
        ("labels/train/day/a.txt", "1 0.5 x 0.25 0.1", "'x' is not a finite number"),
        ("labels/train/day/a.txt", "1 0.5 0.5 0 0.1", "is empty or outside the 640 x 480 image"),
        ("images/train/day/a.jpg", "no image", "a.jpg: the image is truncated or not an image"),
    ],
    "kitti": [
        ("training/label_2/000000.txt", f"0 1 {CAR}", "a label has 15 values, not 17, as with the frame and track"),
        ("training/label_2/000000.txt", CAR.replace("Car", "Cart"), "the type is 'Cart'; valid values: Car, Van"),
        ("training/label_2/000000.txt", CAR.replace("586.42", "nan"), "'nan' is not a finite number"),
    ],
    "bdd100k": [
        ("labels/det_20/det_train.json", {"a": 1}, "must be a list of frames with names"),
        ("labels/det_20/det_train.json", "[{", "is broken JSON"),
        (
            "labels/det_20/det_train.json",
            [bdd_frame("z.jpg", "x", "y", [])],
            "name the folder of the images with --images",
        ),
        (
            "labels/det_20/det_train.json",
            [bdd_frame("a.jpg", "x", "y", [{"box2d": [1, 2]}])],
            "must have x1, y1, x2 and y2",
        ),
        ("labels/det_20/det_train.json", [{"name": "a.jpg", "labels": []}], "has no attribute 'scene'; it has split"),
        ("labels/bdd100k_labels_images_train.json", [], "both label train"),
    ],
    "coco": [
        ("annotations/instances_train2017.json", {}, "has the splits train2017, val2017: choose one with --split"),
        ("annotations/instances_val2017.json", [], "holds a list, not a COCO object"),
        (
            "annotations/instances_val2017.json",
            {"categories": [], "images": [], "annotations": []},
            "'images' is empty",
        ),
        ("val2017/000000397133.jpg", "", "the image is truncated or not an image"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "name", "content", "sentence"),
    [(kind, *mistake) for kind, mistakes in MISTAKES.items() for mistake in mistakes],
)
def test_bad_input_ends_in_one_sentence_and_leaves_nothing(request, tmp_path, kind, name, content, sentence):
    home = damaged(request.getfixturevalue(kind), name, content)
    split = ["--split", "train"] if kind == "yolo" else []
    result = run("import", "--from", kind, home, *split, "--out", tmp_path / "out")
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert result.output.count("Error: ") == 1
    assert sentence in " ".join(result.output.split())
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--domain", "Night: timeofday=night"], "the domain's name 'Night' must have up to 40 lower-case letters"),
        (
            ["--domain", "night"],
            "the domain 'night' is not written like 'city: scene=city street|residential, brightness>=40'",
        ),
        (
            ["--domain", "snow: weather=snowy"],
            "no image is left for the domain 'snow': weather is clear (2), partly cloudy",
        ),
        (["--domain-by", "country"], "has no attribute 'country'; it has split, weather, scene, timeofday"),
        (["--split", "val"], "has no split 'val'; valid values: train"),
        (["--vehicles", "2"], "has 1 images, too few for 2 vehicles"),
    ],
)
def test_options_that_fit_no_image_are_named(bdd100k, tmp_path, words, sentence):
    result = run("import", "--from", "bdd100k", bdd100k, *words, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())


def test_a_folder_in_use_is_not_touched(yolo, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    result = run("import", "--from", "yolo", yolo, "--split", "train", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "exists and is not an empty folder" in result.output
    assert (tmp_path / "out/mine").read_text() == "x"


def test_faults_can_be_skipped_one_by_one(yolo, tmp_path, caplog):
    write(yolo / "labels/train/day/a.txt", "1 0.5 0.5 0.25 0.5\n9 0 0 0 0\n")
    write(yolo / "images/train/day/b.jpg", "broken")
    frames = imported("--from", "yolo", yolo, "--split", "train", "--skip-faults", out=tmp_path / "out")
    assert [len(boxes) for boxes in frames["train"]] == [1, 1]
    assert len(caplog.messages) == 2


words = st.text(alphabet=st.sampled_from("01.-eE nainf\nxCar,:[]{}\"'é\0"), max_size=80)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x1", "box2d", "labels"]), inner),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words, values)
def test_labels_of_any_content_are_read_or_refused(tmp_path_factory, text, value):
    home = tmp_path_factory.mktemp("fuzz")
    picture(home / "yolo/images/a.png", 8, 8)
    write(home / "yolo/data.yaml", "train: images\nnames: [car]\n")
    write(home / "yolo/labels/a.txt", text)
    picture(home / "kitti/image_2/a.png", 8, 8)
    write(home / "kitti/label_2/a.txt", text)
    picture(home / "bdd/a.png", 8, 8)
    write(home / "bdd/det_train.json", [{"name": "a.png", "attributes": value, "labels": value}])
    row = {"id": 1, "file_name": "a.png", "width": 8, "height": 8, "attributes": value}
    box = {"image_id": 1, "category_id": value, "bbox": value}
    document = {"images": [row], "categories": [{"id": 1, "name": "car"}], "annotations": [box]}
    picture(home / "coco/a.png", 8, 8)
    write(home / "coco/labels.json", document)
    for kind, name in (("yolo", "yolo"), ("kitti", "kitti"), ("bdd100k", "bdd"), ("coco", "coco")):
        try:
            import_dataset(open_dataset(kind, home / name, None, None, Faults()), home / f"{name}.out")
        except SnippetError:
            continue
        assert len(SnippetSource(find_snippets(home / f"{name}.out"))) == 1
