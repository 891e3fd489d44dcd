"""The plan's `carla` section: what is written is what happens, and a mistake is named with its place."""

import pickle
from typing import Any

import pytest
import yaml

from carla_bridge.config.parts import (
    EVERYWHERE,
    CameraSettings,
    RegionRule,
    ScheduleEvent,
    StreamSettings,
    TrafficSettings,
    VehicleSettings,
)
from carla_bridge.config.plan_file import parse_config, read_plan
from carla_bridge.config.section import CarlaSettings
from carla_bridge.errors import ConfigError

PLAN = """
simulator: embedded
seed: 7
fixed_delta_seconds: 0.1
frames_per_second: 2
image: {width: 320, height: 192, fov: 100}
vehicles:
  - {name: vehicle_1, region: city}
  - {name: vehicle_2, region: city, blueprint: vehicle.tesla.model3}
regions:
  city: {max_speed: 60}
  highway: {min_speed: 80, min_lanes: 2}
  yard: {spawn_points: [3, 1]}
traffic:
  city: {vehicles: 10, two_wheelers: 3, walkers: 5}
schedule:
  - {at: 500, weather: {sun_altitude_angle: -10}}
  - {at: 300, vehicle: vehicle_2, region: highway}
  - {at: 100, weather: ClearSunset}
classes: {car: [14], person: [12]}
min_pixels: 30
parked_vehicles: drop
stream: {window_seconds: 50, encoding: jpeg}
"""


def section(**changes):
    return {**yaml.safe_load(PLAN), **changes}


def test_a_whole_section_is_read():
    config = parse_config(section())
    assert config.embedded
    assert config.frame_seconds == 0.5
    assert config.ticks_per_frame == 5
    assert [vehicle.region for vehicle in config.vehicles] == ["city", "city"]
    assert config.regions["highway"].min_lanes == 2
    assert config.regions["yard"].spawn_points == (3, 1)
    assert config.class_names == ("car", "person")
    assert not config.keep_parked
    assert config.stream.encoding == "jpeg"


def test_the_schedule_says_who_is_where_and_what_the_weather_is():
    config = parse_config(section())
    first, second = config.vehicles
    assert config.region_at(second, 299.9) == "city"
    assert config.region_at(second, 300.0) == "highway"
    assert config.region_at(first, 9999.0) == "city"
    assert config.weather_at(99.0) is None
    assert config.weather_at(100.0) == "ClearSunset"
    assert str(config.weather_at(1e6)) == "{'sun_altitude_angle': -10.0}"


def test_of_two_events_at_the_same_second_the_later_written_one_counts():
    events = [{"at": 5, "weather": "ClearNoon"}, {"at": 5, "weather": "ClearSunset"}, {"at": 1, "weather": "WetNoon"}]
    assert parse_config({"schedule": events}).weather_at(7.0) == "ClearSunset"


def test_an_empty_section_has_two_vehicles_everywhere():
    config = parse_config({})
    assert [(vehicle.name, vehicle.region) for vehicle in config.vehicles] == [
        ("vehicle_1", EVERYWHERE),
        ("vehicle_2", EVERYWHERE),
    ]
    assert config.frame_seconds == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hosst": "x"}, r"carla has no setting 'hosst'; did you mean host"),
        ({"host": "x"}, r"carla\.simulator and carla\.host \(x\) exclude each other"),
        ({"simulator": "other"}, r"carla\.simulator is 'other'"),
        ({"port": 0}, r"carla\.port must be at least 1, not 0"),
        ({"port": True}, r"carla\.port must be a whole number, not True"),
        ({"frames_per_second": 3}, "does not divide the 10 steps per second"),
        ({"frames_per_second": 20}, "does not divide the 10 steps per second"),
        ({"fixed_delta_seconds": 0.5}, r"carla\.fixed_delta_seconds must be at most 0\.1, not 0\.5"),
        ({"image": {"width": 8}}, r"carla\.image\.width must be at least 16, not 8"),
        ({"image": 5}, r"carla\.image must be a mapping, not 5"),
        ({"town": ""}, r"carla\.town is empty"),
        ({"vehicles": []}, r"carla\.vehicles names no vehicle"),
        ({"vehicles": [{"name": "a"}, {"name": "a"}]}, "the name 'a' twice"),
        ({"vehicles": [{"name": "../a"}]}, r"carla\.vehicles\[0\]\.name must be a name of .*, not '\.\./a'"),
        ({"vehicles": [{"name": "Car"}]}, r"carla\.vehicles\[0\]\.name must be a name of .* lower-case .*, not 'Car'"),
        ({"regions": {"../../escape": {}}}, r"carla\.regions has the name '\.\./\.\./escape'; use up to 40 lower-case"),
        ({"vehicles": [{"name": "a", "region": "sea"}]}, "region 'sea'"),
        ({"vehicles": [{"region": "city"}]}, r"carla\.vehicles\[0\]\.name is missing"),
        ({"traffic": {"sea": {"vehicles": 1}}}, "region 'sea'"),
        ({"traffic": {"city": {"cars": 1}}}, r"carla\.traffic\.city has no setting 'cars'"),
        ({"regions": {"city": {"min_speed": "fast"}}}, r"carla\.regions\.city\.min_speed must be a number, not 'fast'"),
        ({"schedule": [{"vehicle": "vehicle_1", "region": "city"}]}, r"schedule\[0\]\.at is missing"),
        ({"schedule": [{"at": 1}]}, "either a 'vehicle' and its 'region', or a 'weather'"),
        ({"schedule": [{"at": 1, "vehicle": "x", "region": "city"}]}, r"schedule\[0\] moves the vehicle 'x'"),
        ({"schedule": [{"at": -1, "weather": "ClearNoon"}]}, r"schedule\[0\]\.at must be at least 0, not -1"),
        ({"schedule": [{"at": 1, "weather": 5}]}, r"carla\.schedule\[0\]\.weather must be a string, .*, not 5"),
        ({"schedule": [{"at": 1, "weather": {"rain": 5}}]}, r"carla\.schedule\[0\]\.weather has no setting 'rain'"),
        ({"classes": {"car": [14], "truck": [14]}}, "tag 14 belongs to two classes"),
        ({"classes": {"car": "14"}}, r"carla\.classes\.car must be a list, not '14'"),
        ({"split_classes": ["bus"]}, r"carla\.split_classes has 'bus'; .*car, person"),
        ({"stream": {"encoding": "gif"}}, r"carla\.stream\.encoding is 'gif'; .*raw"),
    ],
)
def test_mistakes_are_named_with_their_place(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_config(section(**changes))
    assert "\n" not in str(caught.value)


def test_a_plan_without_the_section_or_that_is_no_plan_is_refused(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("aggregator: {}\n")
    with pytest.raises(ConfigError, match="has no 'carla' section"):
        read_plan(plan)
    plan.write_text("a: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        read_plan(plan)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_plan(tmp_path / "nothing.yaml")
    plan.write_text("carla:" + "\n  ".join(PLAN.split("\n")))
    assert parse_config(read_plan(plan)) == parse_config(section())


def test_an_empty_setting_counts_as_left_out():
    nothing: dict[str, Any] = {"host": None, "town": None, "image": None, "regions": {"city": None}, "vehicles": None}
    assert parse_config({"simulator": "embedded", **nothing}) == parse_config(
        {"simulator": "embedded", "regions": {"city": {}}}
    )


def test_the_empty_settings_that_fx_writes_into_a_plan_file_are_ignored(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump({"carla": {**section(), "settings": {}}}))
    assert parse_config(read_plan(plan)) == parse_config(section())
    values: list[Any] = [{"seed": 1}, None, []]
    for value in values:
        plan.write_text(yaml.safe_dump({"carla": {**section(), "settings": value}}))
        with pytest.raises(ConfigError, match="carla has no setting 'settings'"):
            parse_config(read_plan(plan))
    with pytest.raises(ConfigError, match="carla has no setting 'settings'"):
        parse_config(section(settings={}))


@pytest.mark.parametrize(
    "part", [CarlaSettings, CameraSettings, VehicleSettings, RegionRule, TrafficSettings, StreamSettings, ScheduleEvent]
)
def test_every_setting_has_a_sentence_and_stands_in_the_schema(part):
    assert all(field.description for field in part.model_fields.values())
    schema = CarlaSettings.model_json_schema()
    properties = (schema if part is CarlaSettings else schema["$defs"][part.__name__])["properties"]
    assert list(properties) == list(part.model_fields)


def test_a_drive_can_be_sent_to_another_process():
    config = parse_config(section())
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.at("elsewhere", 7).port == 7
