"""The plan's `carla` section: what is written is what happens, and a mistake is named with its place."""

import pytest
import yaml

from carla_bridge.config.plan_file import parse_config, read_plan
from carla_bridge.config.section import EVERYWHERE
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
    assert config.server.embedded
    assert config.frame_seconds == 0.5
    assert config.ticks_per_frame == 5
    assert [vehicle.region for vehicle in config.vehicles] == ["city", "city"]
    assert config.regions["highway"].min_lanes == 2
    assert config.regions["yard"].spawn_points == (3, 1)
    assert config.classes == ("car", "person")
    assert not config.keep_parked
    assert config.stream.encoding == "jpeg"


def test_the_schedule_says_who_is_where_and_what_the_weather_is():
    schedule = parse_config(section()).schedule
    assert schedule.region("vehicle_2", "city", 299.9) == "city"
    assert schedule.region("vehicle_2", "city", 300.0) == "highway"
    assert schedule.region("vehicle_1", "city", 9999.0) == "city"
    assert schedule.weather_at(99.0) is None
    assert schedule.weather_at(100.0) == "ClearSunset"
    assert schedule.weather_at(1e6) == {"sun_altitude_angle": -10.0}


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
        ({"hosst": "x"}, "unknown setting hosst"),
        ({"host": "x"}, r"carla\.simulator and carla\.host \(x\) exclude each other"),
        ({"simulator": "other"}, r"carla\.simulator is 'other'"),
        ({"port": 0}, r"carla\.port is 0, not a whole number from 1 to 65535"),
        ({"port": True}, r"carla\.port is True"),
        ({"frames_per_second": 3}, "does not divide the 10 steps per second"),
        ({"frames_per_second": 20}, "does not divide the 10 steps per second"),
        ({"fixed_delta_seconds": 0.5}, "fixed_delta_seconds is 0.5"),
        ({"image": {"width": 8}}, r"carla\.image\.width is 8"),
        ({"image": 5}, r"carla\.image is 5, not a mapping"),
        ({"vehicles": []}, r"carla\.vehicles names no vehicle"),
        ({"vehicles": [{"name": "a"}, {"name": "a"}]}, "names 'a' twice"),
        ({"vehicles": [{"name": "../a"}]}, r"the name '\.\./a'"),
        ({"vehicles": [{"name": "a", "region": "sea"}]}, "region 'sea'"),
        ({"vehicles": [{"region": "city"}]}, r"carla\.vehicles\[0\]\.name is None"),
        ({"traffic": {"sea": {"vehicles": 1}}}, "region 'sea'"),
        ({"traffic": {"city": {"cars": 1}}}, r"carla\.traffic\.city has the unknown setting cars"),
        ({"regions": {"city": {"min_speed": "fast"}}}, r"carla\.regions\.city\.min_speed is 'fast'"),
        ({"schedule": [{"vehicle": "vehicle_1", "region": "city"}]}, r"schedule\[0\] has no 'at'"),
        ({"schedule": [{"at": 1}]}, "either a 'vehicle' and its 'region', or a 'weather'"),
        ({"schedule": [{"at": 1, "vehicle": "x", "region": "city"}]}, "moves 'x'"),
        ({"schedule": [{"at": -1, "weather": "ClearNoon"}]}, r"schedule\[0\]\.at is -1"),
        ({"schedule": [{"at": 1, "weather": {"rain": 5}}]}, "unknown setting rain"),
        ({"classes": {"car": [14], "truck": [14]}}, "tag 14 belongs to two classes"),
        ({"classes": {"car": "14"}}, r"carla\.classes\.car is '14', not a list"),
        ({"split_classes": ["bus"]}, r"carla\.split_classes is \['bus'\], not a list of names from car, person"),
        ({"stream": {"encoding": "gif"}}, r"carla\.stream\.encoding is 'gif'; choose among 'raw', 'png', 'jpeg'"),
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
