"""Rules of a plan that make domains of recorded images: what vehicles learn from and what they are scored on."""

import json

import cv2
import numpy as np
import pytest

from carla_bridge.datasets.importing import import_dataset, open_dataset
from carla_bridge.snippets.layout import Faults
from fedagem.errors import DataError, PlanError
from fedagem.plans.driving import DrivingSettings
from fedagem.runs.evaluation_frames import evaluation_sources
from fedagem.settings import parse_settings
from src.driving_loader import DrivingLoader

CLASSES = ["vehicle"]
RULES = {"day": "timeofday=daytime, weather=clear|overcast", "night": "timeofday=night"}


@pytest.fixture
def pack(tmp_path):
    """BDD100K's labels, imported with one domain: images 0, 2, 4 by day, one of them in rain, and 1, 3, 5 by night."""
    home = tmp_path / "bdd"
    frames = []
    for number in range(6):
        weather = "rainy" if number == 2 else "clear"
        path = home / "images" / "100k" / "train" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((64, 96, 3), 10 * number, np.uint8))
        label = {"id": number, "category": "vehicle", "box2d": {"x1": 10, "y1": 10, "x2": 40, "y2": 30}}
        attributes = {"weather": weather, "scene": "highway", "timeofday": "night" if number % 2 else "daytime"}
        frames.append({"name": path.name, "attributes": attributes, "labels": [label]})
    (home / "labels" / "det_20").mkdir(parents=True)
    (home / "labels" / "det_20" / "det_train.json").write_text(json.dumps(frames))
    import_dataset(open_dataset("bdd100k", home, None, None, Faults()), tmp_path / "pack", by=["split"])
    return tmp_path / "pack" / "vehicle_1" / "000_train"


def settings_of(pack, **changes):
    """A vehicle that knows the day and later the night of the same images, scored on both."""
    legs = [{"paths": [str(pack)], "domain": "day"}, {"paths": [str(pack)], "domain": "night", "from_round": 1}]
    return {
        "seed": 0,
        "classes": CLASSES,
        "input_size": [96, 64],
        "seconds_per_round": 3,
        "vehicles": ["vehicle_1"],
        "snippets": {"vehicle_1": legs},
        "domains": ["day", "night"],
        "domain_rules": RULES,
        "evaluation": {"paths": {"day": [str(pack)], "night": [str(pack)]}},
        **changes,
    }


def shades(batch):
    """Which of the pack's images these are, by their grey."""
    return [round(float(image.float().mean()) / 10) for image in batch["x"]]


def test_a_leg_replays_the_images_of_its_domain(pack):
    loader = DrivingLoader("vehicle_1", **settings_of(pack))
    first, second = loader.frames_of(0), loader.frames_of(1)
    assert shades(first) == [0, 4, 0], "clear days, again from the beginning"
    assert shades(second) == [1, 3, 5]
    assert (first["domain"].tolist(), second["domain"].tolist()) == ([0, 0, 0], [1, 1, 1])


def test_a_domain_is_scored_on_its_images(pack):
    settings = parse_settings(DrivingSettings, settings_of(pack), "data_loader.settings")
    scored = {domain: [frame.frame for frame in source.frames()] for domain, source in evaluation_sources(settings)}
    assert scored == {"day": [0, 4], "night": [1, 3, 5]}


def add_attributes(pack, **attributes):
    document = json.loads((pack / "annotations.json").read_text())
    for number, row in enumerate(document["images"]):
        row |= {name: values[number] for name, values in attributes.items()}
    (pack / "annotations.json").write_text(json.dumps(document))


def test_numbers_beside_an_image_are_compared(pack):
    add_attributes(pack, brightness=[149.6, 17.9, 40.0, 39.9, 80, None])
    rules = {"day": "brightness>=40", "night": "brightness<40"}
    settings = parse_settings(DrivingSettings, settings_of(pack, domain_rules=rules), "data_loader.settings")
    scored = {domain: [frame.frame for frame in source.frames()] for domain, source in evaluation_sources(settings)}
    assert scored == {"day": [0, 2, 4], "night": [1, 3]}


def test_a_folder_without_such_images_is_passed_over_if_another_has_some(pack, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for file in pack.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    add_attributes(other, timeofday=["dawn"] * 6)
    document = json.loads((other / "annotations.json").read_text())
    for row in document["images"]:
        del row["attributes"]
    (other / "annotations.json").write_text(json.dumps(document))
    paths = {"day": [str(other), str(pack)], "night": [str(pack)]}
    settings = parse_settings(DrivingSettings, settings_of(pack, evaluation={"paths": paths}), "data_loader.settings")
    assert [len(source) for _, source in evaluation_sources(settings)] == [2, 3]
    only = {"day": [str(other)], "night": [str(pack)]}
    settings = parse_settings(DrivingSettings, settings_of(pack, evaluation={"paths": only}), "data_loader.settings")
    with pytest.raises(
        DataError, match=r"the rule of its domain fits no image of .*other: timeofday is dawn \(6\); no "
    ):
        evaluation_sources(settings)


def test_a_rule_that_fits_nothing_to_learn_from_says_what_there_is(pack):
    loader = DrivingLoader("vehicle_1", **settings_of(pack, domain_rules=RULES | {"day": "weather=snowy"}))
    with pytest.raises(
        DataError, match=r"round 0: the rule of its domain fits no image of .*: weather is clear \(5\), r"
    ):
        loader.frames_of(0)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"day": "sunny"}, "domain_rules.day is 'sunny', not a rule like 'scene=city street|residential, "),
        ({"day": "brightness<x"}, "compares with 'x', which is not a number."),
        (
            {"nigth": "timeofday=night"},
            "has 'nigth', which is the domain of no leg and of no evaluation.paths; did you",
        ),
    ],
)
def test_rules_that_cannot_work_are_refused(pack, rules, sentence):
    with pytest.raises(PlanError) as refused:
        parse_settings(DrivingSettings, settings_of(pack, domain_rules=rules), "data_loader.settings")
    assert sentence in refused.value.message
