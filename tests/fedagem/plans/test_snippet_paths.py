"""Recorded drives that are not there are missed before anything is made."""

import json

import pytest
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.errors import DataError
from fedagem.plans.checks import check_snippet_paths
from fedagem.plans.plan import Plan


@pytest.fixture
def plan_path(repository):
    return repository / "plan" / "carla_snippets.yaml"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder with the pack that the plan wants; its snippets are found, not read."""
    folder = tmp_path / "data"
    drives = [f"carla_drives/{name}" for name in ("city_day", "city_day_b", "highway_hills", "highway_day")]
    for name in (*drives, "carla_snippets/Town04", "carla_snippets/Town04_b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "annotations.json").write_text(json.dumps({}))
    monkeypatch.setenv("FEDAGEM_DATA", str(folder))
    return folder


@pytest.mark.parametrize("command", ["run", "simulate", "compare"])
def test_a_run_without_its_pack_ends_at_once_and_leaves_nothing(command, plan_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "data"))
    result = CliRunner().invoke(main, [command, str(plan_path)])
    assert result.exit_code == 2
    assert " ".join(result.output.split()) == (
        "Error: data_loader.settings.snippets.vehicle_1 names carla_drives/city_day, but "
        f"{tmp_path}/data/carla_drives/city_day is not a directory: "
        "set FEDAGEM_DATA to the folder that holds carla_drives, or give absolute paths."
    )
    assert list(tmp_path.iterdir()) == []


def test_later_legs_and_evaluation_frames_are_looked_for_too(plan_path, data, tmp_path):
    plan = Plan.load(plan_path)
    check_snippet_paths(plan)
    for name in ("carla_drives/highway_hills", "carla_snippets/Town04"):
        (data / name / "annotations.json").unlink()
    with pytest.raises(DataError, match=r"snippets\.vehicle_2 names carla_drives/highway_hills, but there is no snip"):
        check_snippet_paths(plan)
    first_leg_only = [{"paths": ["carla_drives/city_day"], "domain": "city"}]
    plan = plan.changed({"data_loader.settings.snippets.vehicle_2": first_leg_only})
    with pytest.raises(DataError, match=r"evaluation\.paths\.highway names carla_snippets/Town04, but"):
        check_snippet_paths(plan)
    plan = plan.changed({"data_loader.settings.evaluation.paths.highway": [str(tmp_path / "drive")]})
    with pytest.raises(DataError, match=r"drive is not a directory: name a folder with frames and their annotations"):
        check_snippet_paths(plan)


def test_benchmarks_name_no_drives(digits):
    check_snippet_paths(digits)
