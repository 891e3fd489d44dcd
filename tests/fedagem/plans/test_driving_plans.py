"""The settings of driving plans, and what a driving plan needs around the federation."""

import socket

import pytest
from click.testing import CliRunner

from fedagem.cli.compare import _variant
from fedagem.cli.main import main
from fedagem.errors import PlanError
from fedagem.plans.driving import DrivingSettings
from fedagem.runs.drives import check_stream, drives_before
from fedagem.runs.folder import plan_of_run, requested_plan


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"epochs": -1}, "epochs must be at least 1, not -1"),
        ({"seconds_per_round": 0}, "seconds_per_round must be positive, not 0"),
        ({"input_size": [416]}, r"input_size must be a list of at least 2 values, not \[416\]"),
        ({"vehicles": []}, r"vehicles must be a list of at least 1 value, not \[\]"),
        ({"vehicles": ["a", "a"]}, "vehicles must be different names"),
        ({"holdout": {"every": 1}}, "holdout.every must be at least 2"),
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
def test_settings_that_cannot_work_are_refused(demo, change, sentence):
    with pytest.raises(PlanError, match=rf"^data_loader\.settings\.{sentence}"):
        demo.changed({f"data_loader.settings.{name}": value for name, value in change.items()})


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (5, r"carla\.schedule must be a list, not 5\."),
        ([5], r"carla\.schedule\[0\] must be a mapping, not 5\."),
        ([{"vehicle": "vehicle_2", "region": "highway"}], r"carla\.schedule\[0\]\.at is missing: set it in the plan\."),
    ],
)
def test_a_schedule_that_is_none_is_refused_before_anything_drives(demo, schedule, sentence):
    with pytest.raises(PlanError, match=sentence):
        demo.changed({"carla.schedule": schedule})


def test_only_what_is_not_driven_live_or_named_by_the_plan_is_recorded(demo):
    def titles(plan, live):
        return [drive.title for drive in drives_before(plan.renamed("demo"), live)]

    assert titles(demo, live=True) == ["demo-evaluation", "demo-warm-up"]
    assert titles(demo, live=False) == ["demo-evaluation", "demo-drive", "demo-warm-up"]
    named = {
        "data_loader.settings.evaluation": {"paths": {"city": ["mine"]}},
        "task_runner.settings.initial_model": "mine.safetensors",
    }
    assert titles(demo.changed(named), live=False) == ["demo-drive"]
    assert titles(demo.changed({**named, "carla": None}), live=False) == []


@pytest.mark.parametrize("seconds", [0, -5])
def test_an_evaluation_drive_needs_time(demo, seconds):
    with pytest.raises(PlanError, match=rf"driving\.evaluation_seconds must be positive, not {seconds}\."):
        demo.changed({"driving.evaluation_seconds": seconds})


def test_frames_that_nobody_drives_are_not_waited_for(demo):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        plan = demo.changed({"data_loader.settings.stream.port": port})
        with pytest.raises(
            PlanError, match=rf"nobody serves the plan's frames at 127\.0\.0\.1:{port} .*use `fedagem run`"
        ):
            check_stream(plan)
        server.listen()
        check_stream(plan)


@pytest.mark.parametrize("rate", [0.5, 1, 5])
def test_ideal_has_room_for_every_frame_of_the_drive(demo, rate):
    plan = demo.changed({"carla.frames_per_second": rate})
    rounds = plan.aggregator.rounds_to_train
    capacity = _variant(plan, {"task_runner.settings.method": "ideal"}).training.buffer.capacity
    frames = rounds * plan.data.seconds_per_round * rate
    assert frames <= capacity <= frames + rounds, "each frame once, however many epochs it is seen in"


def legs(*rounds_and_domains):
    return [{"paths": [f"drive_{n}"], "from_round": n, "domain": domain} for n, domain in rounds_and_domains]


@pytest.mark.parametrize(
    ("snippets", "expected"),
    [
        ({"a": legs((0, "city"), (2, "city"), (4, "highway")), "b": legs((0, "city"))}, 4),
        ({"a": legs((0, "city"), (5, "highway")), "b": legs((0, "highway"), (3, "city"))}, 3),
        ({"a": legs((0, "city"), (2, "city"))}, None),
        ({"a": legs((0, ""), (2, ""))}, 2),
        ({"a": [*legs((0, "")), {"paths": ["drive_0"], "from_round": 2}]}, None),
    ],
)
def test_a_shift_is_another_domain_and_not_another_drive(demo, snippets, expected):
    replayed = {"vehicles": list(snippets), "stream": None, "snippets": snippets}
    changes = {f"data_loader.settings.{name}": value for name, value in replayed.items()}
    assert demo.changed({"carla": None, **changes}).workload.shift_round == expected


def move(at, region, vehicle="vehicle_2"):
    return {"at": at, "vehicle": vehicle, "region": region}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ([move(240, "highway")], 4),
        ([move(300, "highway"), move(120, "city"), {"at": 60, "weather": "ClearNoon"}], 5),
        ([move(0, "highway"), move(120, "highway"), move(180, "city")], 3),
        ([move(0, "highway"), move(120, "city", "vehicle_1")], None),
        ([move(60, "everywhere", "vehicle_3"), move(120, "city", "vehicle_3")], 2),
        ([], None),
    ],
)
def test_a_move_within_the_region_is_no_shift(demo, schedule, expected):
    vehicles = [
        *({"name": vehicle.name, "region": vehicle.region} for vehicle in demo.carla.vehicles),
        {"name": "vehicle_3"},
    ]
    plan = demo.changed({"carla.schedule": schedule, "carla.vehicles": vehicles})
    assert plan.workload.shift_round == expected


def test_a_simulation_of_a_live_drive_is_evaluated(repository, tmp_path, monkeypatch):
    """What records has recorded already, and the federation ends as it begins."""
    drives: list[str] = []

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedagem.runs.preparation.record_drives", lambda asked: drives.extend(d.title for d in asked))
    monkeypatch.setattr("fedagem.runs.processes.ProcessGroup.start", interrupt)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        changes = ["--set", f"data_loader.settings.stream.port={port}", "--set", "warm_up=null"]
        plan_path = str(repository / "plan" / "carla_demo.yaml")
        result = CliRunner().invoke(main, ["simulate", plan_path, *changes, "--out", "run"])
    assert result.exit_code == 130, result.output
    assert drives == ["carla_demo-evaluation"]
    requested, followed = (read(tmp_path / "run").data for read in (requested_plan, plan_of_run))
    assert isinstance(requested, DrivingSettings)
    assert isinstance(followed, DrivingSettings)
    assert requested.evaluation.paths == {}, "they were found, not asked for"
    assert {domain: len(paths) for domain, paths in followed.evaluation.paths.items()} == {"city": 3, "highway": 3}
