"""Names of vehicles become folders, certificates and collaborators: what cannot be all of them is refused."""

import pytest

from fedagem.errors import PlanError
from fedagem.plans.plan import Plan


@pytest.fixture(scope="module")
def snippets(repository):
    """A driving plan without a carla section."""
    return Plan.load(repository / "plan" / "carla_snippets.yaml")


@pytest.mark.parametrize(
    "name",
    ["../../escape", "..", "a/b", "Vehicle_1", "ÄRGER", "vehicle 1", "-n", "", "a" * 41, "vehicle_1\n", "vehicle,1"],
)
@pytest.mark.parametrize("plan", ["snippets", "demo"])
def test_a_name_that_no_collaborator_can_have_is_refused_with_and_without_a_carla_section(request, plan, name):
    chosen = request.getfixturevalue(plan)
    with pytest.raises(PlanError) as refused:
        chosen.changed({"data_loader.settings.vehicles": [name]})
    assert refused.value.message == (
        "data_loader.settings.vehicles[0] must be a name of up to 40 lower-case letters, digits, '-' and '_' that "
        f"begin with a letter or a digit, not {name!r}."
    )


@pytest.mark.parametrize("name", ["vehicle_1", "7", "my-car_2", "a" * 40])
def test_names_that_fit_everywhere_are_taken(demo, name):
    changed = demo.changed(
        {
            "data_loader.settings.vehicles": [name],
            "carla.vehicles": [{"name": name}],
            "carla.schedule": [],
            "driving": None,
        }
    )
    assert changed.workload.collaborators == {name: name}
