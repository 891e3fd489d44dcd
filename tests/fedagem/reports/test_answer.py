"""The question of a page follows from the domains and the shift of its plan."""

from pathlib import Path
from typing import Any

import pytest

from carla_bridge.config.section import CarlaSettings
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.workload import DrivingWorkload
from fedagem.reports.answer import over_drives, question
from fedagem.reports.summary import Summary

VEHICLES = ["vehicle_1", "vehicle_2"]
REGIONS = {name: {"max_speed": 60} for name in ("harbour", "bridge", "dunes")}


def replayed(*legs: tuple[str, int], domains: tuple[str, ...] = ()) -> DrivingWorkload:
    """One vehicle replays drives of these domains from these rounds on, and the other stays."""
    drives = [{"paths": ["a"], "domain": domain, "from_round": number} for domain, number in legs]
    snippets = {"vehicle_1": drives[:1], "vehicle_2": drives}
    return DrivingWorkload(learning_from(snippets=snippets, domains=list(domains)), None)


def driven(first: str, *moves: tuple[int, str]) -> DrivingWorkload:
    """Vehicles that begin in a region, and one of them moves at these seconds."""
    schedule: list[dict[str, Any]] = [{"at": at, "vehicle": "vehicle_2", "region": region} for at, region in moves]
    schedule.append({"at": 0, "weather": {"cloudiness": 30}})
    vehicles = [{"name": name, "region": first} for name in VEHICLES]
    carla = CarlaSettings.model_validate({"vehicles": vehicles, "schedule": schedule, "regions": REGIONS})
    return DrivingWorkload(learning_from(stream={"port": 5000}), carla)


def learning_from(**frames: Any) -> DrivingSettings:
    settings = {"seed": 0, "classes": ["vehicle"], "input_size": [96, 64], "seconds_per_round": 10, **frames}
    return DrivingSettings.model_validate({"vehicles": VEHICLES, **settings})


@pytest.mark.parametrize(
    ("workload", "domains"),
    [
        (driven("harbour", (240, "dunes"), (120, "bridge")), ("harbour", "bridge")),
        (driven("harbour", (10, "harbour"), (240, "dunes")), ("harbour", "dunes")),
        (driven("harbour"), ("harbour", None)),
        (replayed(("rain", 0), ("snow", 4)), ("rain", "snow")),
        (replayed(("", 0), ("", 4), domains=("rain", "snow")), ("rain", "snow")),
        (replayed(("", 0), ("", 4), domains=("rain", "snow", "fog")), ("rain", None)),
        (replayed(("", 0), ("", 4)), (None, None)),
    ],
)
def test_domains_come_in_the_order_of_the_plan(
    workload: DrivingWorkload, domains: tuple[str | None, str | None]
) -> None:
    assert workload.domains_of_shift == domains


def summary(shift: int | None) -> Summary:
    return Summary(shift, True, 10, [0], methods={}, tasks={})


@pytest.mark.parametrize(
    ("workload", "asked"),
    [
        (replayed(("rain", 0), ("snow", 4)), "Vehicles move from rain to snow: does the federation forget rain?"),
        (replayed(("rain", 0), ("", 4)), "Vehicles leave rain: does the federation forget it?"),
        (replayed(("", 0), ("", 4)), "What the vehicles see changes: does the federation forget what it saw first?"),
    ],
)
def test_a_shift_is_asked_about_by_the_names_of_its_domains(workload: DrivingWorkload, asked: str) -> None:
    assert question(workload, summary(4)) == asked


def test_plans_without_a_shift_are_asked_something_else(repository: Path) -> None:
    assert question(replayed(("rain", 0)), summary(None)) == "What has the federation learned to see?"
    tasks = Plan.load(repository / "plan" / "rotated_digits.yaml").workload
    assert question(tasks, summary(None)) == "Task after task: does the federation forget the first ones?"


@pytest.mark.parametrize("name", ["carla", "carla_demo", "carla_snippets"])
def test_the_driving_plans_ask_about_the_city(repository: Path, name: str) -> None:
    plan = Plan.load(repository / "plan" / f"{name}.yaml")
    assert question(plan.workload, summary(4)) == "Vehicles move from city to highway: does the federation forget city?"


def lost_on_a_drive(*seeds: tuple[float, float, float]) -> dict[str, dict[str, list[float]]]:
    """The levels of one method's runs on one drive: before, lost and at the end."""
    before, lost, end = (list(levels) for levels in zip(*seeds, strict=True))
    return {"map_50/harbour": {"before": before, "lost": lost, "end": end}}


def test_runs_on_several_drives_are_answered_together() -> None:
    """The standard error of 0.10, 0.06, 0.08 and 0.04 is 0.0129, that of the paired differences 0.0065."""
    drives = [
        {
            "fedavg": lost_on_a_drive((0.4, 0.1, 0.3), (0.4, 0.06, 0.35)),
            "der + Fed-A-GEM": lost_on_a_drive((0.4, -0.01, 0.4), (0.4, -0.01, 0.44)),
        },
        {
            "fedavg": lost_on_a_drive((0.5, 0.08, 0.4), (0.5, 0.04, 0.44)),
            "der + Fed-A-GEM": lost_on_a_drive((0.5, -0.01, 0.51), (0.5, -0.01, 0.52)),
        },
    ]
    summaries = [Summary(4, True, 10, [0, 1], methods=methods, tasks={}) for methods in drives]
    assert over_drives(driven("harbour", (240, "dunes")), summaries) == (
        "mAP@0.5 harbour, 2 drives, 4 runs of each method, ± is a standard error: fedavg loses 0.070 ± 0.013 of 0.450; "
        "der + Fed-A-GEM gains 0.010 ± 0.000 of 0.450; at the end der + Fed-A-GEM is 0.095 ± 0.006 above fedavg."
    )
    unfinished = Summary(4, False, 3, [0, 1], methods=drives[0], tasks={})
    assert over_drives(driven("harbour", (240, "dunes")), [summaries[0], unfinished]) is None
