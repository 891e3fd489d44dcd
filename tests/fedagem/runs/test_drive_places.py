"""A recording is found again by what made it: its settings, and the version of the embedded simulator."""

import pytest

from carla_bridge.config.section import CarlaSettings
from carla_bridge.simulator import WORLD_VERSION
from fedagem.runs import drives
from fedagem.runs.drives import Drive


def place(folder, **settings):
    return Drive("drive", CarlaSettings(**settings), 5.0, None, str(folder)).place


def test_another_version_of_the_embedded_simulator_makes_another_recording(tmp_path, monkeypatch):
    before = place(tmp_path, simulator="embedded")
    assert place(tmp_path, simulator="embedded") == before
    monkeypatch.setattr(drives, "WORLD_VERSION", WORLD_VERSION + 1)
    assert place(tmp_path, simulator="embedded") != before


def test_the_version_of_the_embedded_simulator_is_nothing_to_a_real_server(tmp_path, monkeypatch):
    before = place(tmp_path, host="127.0.0.1")
    monkeypatch.setattr(drives, "WORLD_VERSION", WORLD_VERSION + 1)
    assert place(tmp_path, host="127.0.0.1") == before


@pytest.mark.parametrize("settings", [{"seed": 1}, {"frames_per_second": 2.0}])
def test_other_settings_make_another_recording(tmp_path, settings):
    assert place(tmp_path, simulator="embedded", **settings) != place(tmp_path, simulator="embedded")


@pytest.mark.parametrize(
    "settings", [{"timeout_seconds": 60.0}, {"traffic_manager_port": 8000}, {"stream": {"port": 4401}}]
)
def test_settings_that_change_no_frame_find_the_same_recording(tmp_path, settings):
    assert place(tmp_path, simulator="embedded", **settings) == place(tmp_path, simulator="embedded")
