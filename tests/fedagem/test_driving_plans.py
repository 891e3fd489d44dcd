"""The settings of driving plans, and what a driving plan needs around the federation."""

import copy
import socket

import pytest

from fedagem.commands.compare import _variant
from fedagem.drive import add_evaluation_frames, check_stream, shift_round
from fedagem.driving import DrivingSettings
from fedagem.errors import PlanError
from fedagem.plan import load_plan
from fedagem.settings import parse_settings


@pytest.fixture(scope="module")
def demo(repository):
    return load_plan(repository / "plan" / "carla_demo.yaml")


@pytest.fixture
def plan(demo):
    return copy.deepcopy(demo)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"epochs": -1}, "epochs must be at least 1, not -1"),
        ({"seconds_per_round": 0}, "seconds_per_round must be positive, not 0.0"),
        ({"input_size": [416]}, r"input_size must be a width and a height, not \[416\]"),
        ({"vehicles": []}, r"vehicles must be different names, not \[\]"),
        ({"vehicles": ["a", "a"]}, "vehicles must be different names"),
        ({"holdout": {"every": 1}}, "holdout needs block of at least 1 and every of at least 2"),
        (
            {"evaluation": {"paths": {"city": "drives/city"}}},
            r"evaluation\.paths\.city must be a list, not 'drives/city'",
        ),
        ({"stream": None, "snippets": {"vehicle_1": 5, "vehicle_2": []}}, r"snippets\.vehicle_1 must be a list, not 5"),
        (
            {"stream": None, "snippets": {"vehicle_1": [{"paths": ["a"], "from_round": 1}], "vehicle_2": []}},
            r"snippets\.vehicle_1 must have legs with rising from_round, the first at 0, not \[1\]",
        ),
        (
            {"stream": None, "snippets": {"vehicle_1": [{"paths": ["a"]}], "vehicle_2": []}},
            r"snippets\.vehicle_2 must have legs .*, not \[\]",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(plan, change, sentence):
    with pytest.raises(PlanError, match=sentence):
        parse_settings(DrivingSettings, {**plan["data_loader"]["settings"], **change}, "data_loader.settings")


@pytest.mark.parametrize("schedule", [5, [5], [{"vehicle": "vehicle_2", "region": "highway"}]])
def test_a_schedule_that_is_none_is_refused_before_anything_drives(plan, schedule):
    plan["carla"]["schedule"] = schedule
    for use in (shift_round, lambda plan: add_evaluation_frames(plan, "demo")):
        with pytest.raises(PlanError, match=r"carla\.schedule must be a list of events"):
            use(plan)


@pytest.mark.parametrize("seconds", [0, -5])
def test_an_evaluation_drive_needs_time(plan, seconds):
    plan["driving"]["evaluation_seconds"] = seconds
    with pytest.raises(PlanError, match=r"driving\.evaluation_seconds must be positive"):
        add_evaluation_frames(plan, "demo")


def test_frames_that_nobody_drives_are_not_waited_for(plan):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        plan["data_loader"]["settings"]["stream"]["port"] = port
        with pytest.raises(
            PlanError, match=rf"nobody serves the plan's frames at 127\.0\.0\.1:{port} .*use `fedagem run`"
        ):
            check_stream(plan)
        server.listen()
        check_stream(plan)


@pytest.mark.parametrize("rate", [0.5, 1, 5])
def test_ideal_has_room_for_every_frame_of_the_drive(plan, rate):
    plan["carla"]["frames_per_second"] = rate
    loader = plan["data_loader"]["settings"]
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    ideal = _variant(plan, ("task_runner.settings.method=ideal",))
    capacity = ideal["task_runner"]["settings"]["buffer"]["capacity"]
    frames = rounds * loader["seconds_per_round"] * rate
    assert frames <= capacity <= frames + rounds, "each frame once, however many epochs it is seen in"
