"""Plans are found by path or, wherever one works, by the name of one that comes with the package."""

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan, plan_folder, plan_names, workspace_source


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_of_the_package_is_found_by_name():
    assert find_plan("carla_demo") == plan_folder() / "carla_demo.yaml"


def test_every_name_is_a_plan_that_can_run():
    assert {"rotated_digits", "carla", "sequential_yahooqa"} <= set(plan_names())
    for name in plan_names():
        check_plan(Plan.load(find_plan(name)))


@pytest.mark.parametrize("name", ["base", "cols", "data", "scales", "studies", "weather_tour"])
def test_other_files_of_the_folder_are_not_plans(name):
    with pytest.raises(PlanError, match=f"there is no plan {name}, "):
        find_plan(name)


@pytest.mark.parametrize("given", ["mine.yaml", "folder/mine", "carla_demo"])
def test_a_file_of_the_user_comes_first(given, elsewhere):
    path = elsewhere / given
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert find_plan(given).resolve() == path


def test_a_folder_with_the_name_of_a_plan_is_not_in_its_way(elsewhere):
    (elsewhere / "carla_demo").mkdir()
    assert find_plan("carla_demo") == plan_folder() / "carla_demo.yaml"


@pytest.mark.parametrize("given", ["carla-demo", "carla_demo.yaml", "plan/carla_demo.yaml"])
def test_a_plan_that_is_not_there_is_refused_with_near_names(given):
    with pytest.raises(PlanError, match=rf"there is no plan {given}, .*did you mean carla_demo"):
        find_plan(given)


@pytest.mark.parametrize("command", ["simulate", "run", "compare"])
def test_commands_take_names(command):
    result = CliRunner().invoke(main, [command, "rotated_digit"])
    assert result.exit_code == 2
    assert "did you mean rotated_digits" in result.output
    result = CliRunner().invoke(main, [command, "rotated_digits", "--rounds", "7"])
    assert "--rounds 7 cannot be shared evenly by 5 tasks" in result.output


def test_the_workspace_has_what_a_run_copies():
    for name in ("src/simulate.py", ".workspace", "requirements.txt"):
        assert (workspace_source() / name).is_file()
