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
    for number in range(1, 5):
        town = folder / "carla_snippets" / f"Town0{number}"
        town.mkdir(parents=True)
        (town / "annotations.json").write_text(json.dumps({}))
    monkeypatch.setenv("FEDAGEM_DATA", str(folder))
    return folder


@pytest.mark.parametrize("command", ["run", "simulate", "compare"])
def test_a_run_without_its_pack_ends_at_once_and_leaves_nothing(command, plan_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDAGEM_DATA", str(tmp_path / "data"))
    result = CliRunner().invoke(main, [command, str(plan_path)])
    assert result.exit_code == 2
    assert " ".join(result.output.split()) == (
        "Error: data_loader.settings.snippets.vehicle_1 names carla_snippets/Town01, but "
        f"{tmp_path}/data/carla_snippets/Town01 is not a directory: "
        "set FEDAGEM_DATA to the folder that holds carla_snippets, or give absolute paths."
    )
    assert list(tmp_path.iterdir()) == []


def test_later_legs_and_evaluation_frames_are_looked_for_too(plan_path, data, tmp_path):
    plan = Plan.load(plan_path)
    check_snippet_paths(plan)
    (data / "carla_snippets" / "Town04" / "annotations.json").unlink()
    with pytest.raises(DataError, match=r"snippets\.vehicle_2 names carla_snippets/Town04, but there is no snippet at"):
        check_snippet_paths(plan)
    first_leg_only = [{"paths": ["carla_snippets/Town03"], "domain": "city"}]
    plan = plan.changed({"data_loader.settings.snippets.vehicle_2": first_leg_only})
    with pytest.raises(DataError, match=r"evaluation\.paths\.highway names carla_snippets/Town04, but"):
        check_snippet_paths(plan)
    plan = plan.changed({"data_loader.settings.evaluation.paths.highway": [str(tmp_path / "drive")]})
    with pytest.raises(DataError, match=r"drive is not a directory: name a folder with frames and their annotations"):
        check_snippet_paths(plan)


def test_benchmarks_name_no_drives(digits):
    check_snippet_paths(digits)
