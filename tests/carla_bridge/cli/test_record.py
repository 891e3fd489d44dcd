"""Recording and the commands around snippets, run as a user runs them."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import psutil
import pytest
import yaml

from carla_bridge.config.plan_file import parse_config
from carla_bridge.fleet.fleet import GRACE_SECONDS
from carla_bridge.fleet_process.process import FleetProcess
from carla_bridge.fleet_process.recorder import record
from carla_bridge.snippets import SnippetSource, find_snippets
from carla_bridge.snippets.recording import SUMMARY
from tests.support.waiting import wait_for

SECTION = {
    "seed": 4,
    "frames_per_second": 2,
    "fixed_delta_seconds": 0.1,
    "image": {"width": 160, "height": 96},
    "regions": {"city": {"max_speed": 55}, "highway": {"min_speed": 80}},
    "vehicles": [{"name": "vehicle_1", "region": "city"}, {"name": "vehicle_2", "region": "city"}],
    "traffic": {"city": {"vehicles": 8}},
    "schedule": [{"at": 3, "vehicle": "vehicle_2", "region": "highway"}],
}


def bridge(environment, *arguments, timeout=200):
    command = [sys.executable, "-m", "carla_bridge.cli.main", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def digest(frame):
    notes = frame.annotations
    parts = (frame.image, notes.boxes, notes.labels, notes.truncated, notes.pixels, notes.object_ids)
    content = b"".join(part.tobytes() for part in parts)
    return frame.vehicle, frame.timestamp, frame.frame, frame.domain, hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def recorded(simulator, tmp_path_factory):
    """Six seconds of two vehicles, one of which takes the highway, and the digest of every frame as it came."""
    place = tmp_path_factory.mktemp("recording") / "snippets"
    config = parse_config({**SECTION, "host": simulator.host, "port": simulator.port})
    seen = []
    summary = record(config, place, 6.0, on_frame=lambda frame: seen.append(digest(frame)))
    return place, seen, summary


def test_a_recording_replays_bit_for_bit(recorded):
    place, seen, _ = recorded
    for vehicle in ("vehicle_1", "vehicle_2"):
        source = SnippetSource(find_snippets(place / vehicle))
        live = [entry for entry in seen if entry[0] == vehicle]
        assert len(live) == 12
        assert [digest(frame) for frame in source.frames()] == live
        windows = [digest(frame) for start in (0, 2, 4) for frame in source.window(start, start + 2)]
        assert windows == live


def test_a_vehicle_that_changes_region_leaves_a_snippet_per_stay(recorded):
    place, _, summary = recorded
    names = {path.parent.name: [p.name for p in find_snippets(path.parent)] for path in find_snippets(place)}
    assert names == {"vehicle_1": ["000_city"], "vehicle_2": ["000_city", "001_highway"]}
    assert summary.frames == {"vehicle_1": {"city": 12}, "vehicle_2": {"city": 6, "highway": 6}}
    assert (place / SUMMARY).is_file()
    written = json.loads((place / "recording.json").read_text())
    assert written["gaps"] == []
    assert any("vehicle_2 moves to highway" in event for event in written["events"])


def test_a_killed_recording_is_resumed_where_it_ended(tmp_path, simulator, environment):
    plan = tmp_path / "plan.yaml"
    section = {**SECTION, "host": simulator.host, "port": simulator.port}
    plan.write_text(yaml.safe_dump({"carla": section}))
    out = tmp_path / "out"
    arguments = ["record", "--plan", plan, "--seconds", "10", "--out", out, "--jpeg-quality", "90"]
    command = [sys.executable, "-m", "carla_bridge.cli.main", *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(list(out.glob("vehicle_2/*/*.jpg"))) >= 5, 100)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / SUMMARY).exists()
    kept = len(SnippetSource(find_snippets(out / "vehicle_1")))
    assert kept >= 4
    refused = bridge(environment, *arguments)
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    done = bridge(environment, *arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert "the drive was interrupted here and goes on from other places" in done.stderr
    assert "1 gaps" in done.stdout
    for vehicle in ("vehicle_1", "vehicle_2"):
        source = SnippetSource(find_snippets(out / vehicle))
        assert [frame.timestamp for frame in source.frames()] == [number / 2 for number in range(20)]
    counted = json.loads((out / SUMMARY).read_text())["frames"]
    assert {vehicle: sum(domains.values()) for vehicle, domains in counted.items()} == dict.fromkeys(counted, 20)


def test_a_recording_that_drives_again_says_so_and_how_far_it_is(tmp_path, environment):
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump({"carla": {**SECTION, "simulator": "embedded"}}))
    arguments = ["record", "--plan", plan, "--out", tmp_path / "out", "--resume", "--seconds"]
    assert bridge(environment, *arguments, "1").returncode == 0
    done = bridge(environment, *arguments, "2")
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[0] == "driving again from the beginning to second 1, without pictures"
    assert said[1:3] == ["0.5 of 2 s", "1 of 2 s"]
    assert "0 gaps" in done.stdout


def test_preview_draws_a_sheet_and_a_film(recorded, tmp_path, environment):
    place, _, _ = recorded
    sheet = tmp_path / "pictures" / "sheet.png"
    done = bridge(environment, "preview", place, "--out", sheet, "--frames", "6", "--columns", "3")
    assert done.returncode == 0, done.stderr
    image = cv2.imread(str(sheet))
    assert image is not None
    assert image.shape == (2 * 96, 3 * 160, 3)
    film = cv2.VideoCapture(str(sheet.with_suffix(".mp4")))
    count = 0
    while film.read()[0]:
        count += 1
    assert count == 24


def test_stats_count_what_was_recorded(recorded, tmp_path, environment):
    place, _, summary = recorded
    done = bridge(environment, "stats", place, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "stats.json").read_text())
    assert found["city"]["frames"] == 18
    assert found["highway"]["frames"] == 6
    assert sum(entry["boxes"] for entry in found["all"]["classes"].values()) == summary.boxes
    assert cv2.imread(str(tmp_path / "stats.png")) is not None


def test_check_reports_a_usable_server(simulator, environment):
    done = bridge(environment, "check", "--host", simulator.host, "--port", simulator.port, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["version"] == "0.9.16"
    assert found["leftovers"] == 0
    assert not found["synchronous"]
    assert found["frames_per_second"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats", "nowhere"], "nowhere is not a directory"),
        (["preview", "nowhere:1", "--out", "x.png"], "no server listens at nowhere:1"),
        (["record", "--host", "127.0.0.1", "--port", "1", "--seconds", "1", "--out", "x"], "no server listens at"),
        (["serve", "--plan", "missing.yaml"], "missing.yaml cannot be read"),
        (["serve", "--listen", "4400"], "--listen is '4400', not HOST:PORT"),
        (["check", "--host", "a", "--simulator", "embedded"], "exclude each other"),
    ],
)
def test_a_users_mistake_ends_in_one_sentence(tmp_path, environment, arguments, message):
    command = [sys.executable, "-m", "carla_bridge.cli.main", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert np.sum([line.startswith("Error") for line in done.stderr.splitlines()]) == 1


def drive(config, seconds, pause):
    """All packets of a drive whose painters stop for so long after its first."""
    with FleetProcess(config) as fleet:
        packets = fleet.packets(seconds)
        first = next(packets)
        painters = psutil.Process(fleet.simulator_pid).children()
        for painter in painters:
            painter.suspend()
        time.sleep(pause)
        for painter in painters:
            painter.resume()
        return [(packet.vehicle, packet.timestamp, packet.packed) for packet in (first, *packets)]


def test_the_same_seed_gives_the_same_frames_however_busy_the_processor_is():
    config = parse_config({**SECTION, "simulator": "embedded"})
    with ThreadPoolExecutor(2) as pool:
        first, again = pool.map(drive, (config, config), (4.0, 4.0), (0.0, GRACE_SECONDS + 0.5))
    assert len(first) == 16
    assert first == again
