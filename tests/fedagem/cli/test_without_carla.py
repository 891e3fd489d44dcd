"""Without the extra `carla`, what drives says in one sentence what to install, before anything is written."""

import sys

import pytest
from click.testing import CliRunner

from carla_bridge.cli.main import main as bridge
from fedagem.cli.main import main

REMEDY = "which is missing; run `pip install 'fedagem[carla]'`"


@pytest.fixture(autouse=True)
def without(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, request.param, None)
    return request.param


@pytest.mark.parametrize("without", ["carla", "panda3d"], indirect=True)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_plan_that_drives_is_refused(command, without, tmp_path):
    result = CliRunner().invoke(main, [command, "carla_demo"])
    assert result.exit_code == 2
    assert f"Error: driving needs the package {without}, {REMEDY}." in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


DRIVE = ["--simulator", "embedded", "--vehicles", "1", "--seconds", "1", "--out", "drive"]


@pytest.mark.parametrize(
    ("without", "command"),
    [
        ("carla", ["record", *DRIVE]),
        ("panda3d", ["record", *DRIVE]),
        ("carla", ["check", "--port", "2000"]),
        ("carla", ["serve", "--port", "2000"]),
        ("carla", ["preview", "embedded", "--out", "sheet.png"]),
        ("panda3d", ["simulator", "--port", "0"]),
    ],
    indirect=["without"],
)
def test_the_bridge_says_it_too(command, without, tmp_path):
    result = CliRunner().invoke(bridge, command)
    assert result.exit_code == 1
    assert f"Error: driving needs the package {without}, {REMEDY}" in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []
