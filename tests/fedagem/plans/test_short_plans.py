"""A plan shows what is special about its experiment, and its complete form is the same plan."""

import pytest

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.editing import base_document, read_yaml
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan, plan_names

LINES_OF_A_BENCHMARK = 45
LINES_OF_A_DRIVE = 80


@pytest.mark.parametrize("name", plan_names())
def test_a_plan_is_short(name):
    path = find_plan(name)
    drives = isinstance(Plan.load(path).data, DrivingSettings)
    assert len(path.read_text().splitlines()) <= (LINES_OF_A_DRIVE if drives else LINES_OF_A_BENCHMARK)


@pytest.mark.parametrize("name", plan_names())
def test_a_plan_does_not_repeat_the_base(name):
    own, base = read_yaml(find_plan(name)), base_document()
    assert not {section for section, content in own.items() if content == base.get(section)}


@pytest.mark.parametrize("name", plan_names())
def test_the_complete_plan_is_the_same_plan(name, tmp_path):
    plan = Plan.load(find_plan(name))
    path = tmp_path / "plan.yaml"
    path.write_text(plan.to_yaml())
    for complete in (Plan.of_run(path, name), Plan.load(path)):
        assert complete == plan
        assert complete.digest == plan.digest
