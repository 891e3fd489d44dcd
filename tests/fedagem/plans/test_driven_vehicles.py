"""Every vehicle of a stream needs a collaborator, because the stream waits for the slowest of them."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan

THREE = "carla.vehicles=[{name: vehicle_1}, {name: vehicle_2}, {name: vehicle_3}]"
REPLAYED = [
    "data_loader.settings.stream=null",
    "data_loader.settings.snippets={vehicle_1: [{paths: [a]}], vehicle_2: [{paths: [a]}]}",
]


@pytest.fixture(scope="module")
def two_vehicles(repository):
    return Plan.load(repository / "plan" / "carla_demo.yaml")


def test_a_vehicle_that_no_collaborator_drives_is_refused(two_vehicles):
    with pytest.raises(PlanError) as refused:
        check_plan(two_vehicles.changed(assignments=[THREE]))
    assert refused.value.message == (
        "carla.vehicles has 'vehicle_3', which is not in data_loader.settings.vehicles: nobody would ask for its "
        "frames, and the stream would wait for ever; add it there, or leave it out here."
    )


def test_vehicles_that_replay_snippets_wait_for_nobody(two_vehicles):
    check_plan(two_vehicles.changed(assignments=[THREE, *REPLAYED]))
