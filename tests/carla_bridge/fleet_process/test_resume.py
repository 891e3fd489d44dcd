"""Drives that go on after an interruption: as if nothing had happened, or with other frames and a reported gap."""

import hashlib
import json
import os
import signal

import pytest

from carla_bridge.config.plan_file import parse_config
from carla_bridge.errors import BridgeError, ServerLostError
from carla_bridge.fleet_process.process import MOST_LOSSES, FleetProcess
from carla_bridge.fleet_process.recorder import record
from carla_bridge.packets import Gap, decode_frame, unpack
from carla_bridge.snippets import SnippetSource, find_snippets
from carla_bridge.snippets.recording import SUMMARY

HALF, WHOLE = 3.0, 6.0
SECTION = {
    "seed": 4,
    "frames_per_second": 2,
    "fixed_delta_seconds": 0.1,
    "image": {"width": 160, "height": 96},
    "regions": {"city": {"max_speed": 55}, "highway": {"min_speed": 80}},
    "vehicles": [{"name": "vehicle_1", "region": "city"}, {"name": "vehicle_2", "region": "city"}],
    "traffic": {"city": {"vehicles": 8, "two_wheelers": 2, "walkers": 20}, "highway": {"vehicles": 2}},
    "traffic_radius": 100,
    "schedule": [
        {"at": 2, "vehicle": "vehicle_2", "region": "highway"},
        {"at": 1, "weather": "HardRainNoon"},
        {"at": 4, "vehicle": "vehicle_1", "region": "highway"},
    ],
}
EMBEDDED = parse_config({**SECTION, "simulator": "embedded"})


def digest(frame):
    notes = frame.annotations
    parts = (frame.image, notes.boxes, notes.labels, notes.truncated, notes.pixels, notes.object_ids)
    content = b"".join(part.tobytes() for part in parts)
    return frame.vehicle, frame.timestamp, frame.frame, frame.domain, hashlib.sha256(content).hexdigest()


def digests(packets):
    return [digest(decode_frame(unpack(packet.packed))) for packet in packets]


def in_order(rows):
    return sorted(rows, key=lambda row: (row[1], row[0]))


def on_disk(place):
    return in_order(
        digest(frame) for vehicle in place.glob("vehicle_*") for frame in SnippetSource(find_snippets(vehicle)).frames()
    )


def pictures(rows, start, end):
    return {row[-1] for row in rows if start <= row[1] < end}


@pytest.fixture(scope="module")
def uninterrupted():
    with FleetProcess(EMBEDDED) as fleet:
        rows = digests(fleet.packets(WHOLE))
    assert len({row[-1] for row in rows}) == 24
    return in_order(rows)


def test_a_resumed_recording_equals_an_uninterrupted_one(tmp_path, uninterrupted):
    record(EMBEDDED, tmp_path, HALF)
    said: list[str] = []
    passed: list[float] = []
    done = record(EMBEDDED, tmp_path, WHOLE, resume=True, on_event=said.append, on_repeat=passed.append)
    assert on_disk(tmp_path) == uninterrupted
    assert done.gaps == []
    assert said[0] == f"driving again from the beginning to second {HALF:g}, without pictures"
    assert passed == [number / 2 for number in range(1, 7)]


def test_a_fleet_that_begins_later_serves_the_frames_of_that_time(uninterrupted):
    with FleetProcess(EMBEDDED) as fleet:
        fleet.begin(HALF)
        rows = digests(fleet.packets(WHOLE))
        assert fleet.gaps == []
    assert in_order(rows) == [row for row in uninterrupted if row[1] >= HALF]


@pytest.mark.parametrize(("victim", "end"), [("worker_pid", signal.SIGABRT), ("simulator_pid", signal.SIGKILL)])
def test_a_drive_in_which_something_dies_equals_an_undisturbed_one(uninterrupted, victim, end):
    """The client library ends its process by SIGABRT when one of its threads throws."""
    said: list[str] = []
    with FleetProcess(EMBEDDED, on_event=said.append) as fleet:
        packets = fleet.packets(WHOLE)
        rows = digests(next(packets) for _ in range(10))
        os.kill(getattr(fleet, victim), end)
        rows += digests(packets)
        assert len(fleet.gaps) == 1
    assert in_order(rows) == uninterrupted
    assert len([text for text in said if "moves to" in text]) == 2, "what happens again is not reported again"


def test_a_drive_that_is_always_lost_before_the_same_frame_is_given_up(monkeypatch):
    fleet = FleetProcess(EMBEDDED)

    def lose(until):
        raise ServerLostError("the renderer failed")

    monkeypatch.setattr(fleet, "_launch", lambda: None)
    monkeypatch.setattr(fleet, "_drive", lose)
    with pytest.raises(BridgeError, match=r"lost 6 times before its frame at second 0 \(the renderer failed\)"):
        list(fleet.packets(WHOLE))
    assert len(fleet.gaps) == MOST_LOSSES


def test_on_a_server_a_resumed_recording_goes_on_with_other_frames_and_reports_the_gaps(tmp_path, simulator):
    config = parse_config({**SECTION, "host": simulator.host, "port": simulator.port})
    record(config, tmp_path, 1.0)
    assert record(config, tmp_path, 1.0, resume=True).gaps == [], "nothing was left to record"
    said: list[str] = []
    for seconds in (HALF, WHOLE):
        record(config, tmp_path, seconds, resume=True, on_event=said.append)
    rows = on_disk(tmp_path)
    assert [row[1] for row in rows] == [number / 2 for number in range(12) for _ in range(2)]
    assert len({row[-1] for row in rows}) == 24, "no picture comes twice"
    written = json.loads((tmp_path / SUMMARY).read_text())
    assert [gap["at"] for gap in written["gaps"]] == [1.0, HALF]
    assert f"second {HALF:g}: the drive was interrupted here and goes on from other places" in said


def test_on_a_server_a_fleet_that_begins_later_serves_other_frames_and_reports_the_gap(simulator):
    config = parse_config({**SECTION, "schedule": [], "host": simulator.host, "port": simulator.port})
    with FleetProcess(config) as fleet:
        first = digests(fleet.packets(1.0))
    gaps: list[Gap] = []
    with FleetProcess(config) as fleet:
        fleet.on_gap(gaps.append)
        fleet.begin(HALF)
        again = digests(fleet.packets(HALF + 1.0))
        assert fleet.gaps == gaps
    assert [gap.at for gap in gaps] == [HALF]
    assert not pictures(first, 0, 1) & pictures(again, HALF, HALF + 1)
    assert len(again) == 4
