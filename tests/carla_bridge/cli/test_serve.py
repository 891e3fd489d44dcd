"""`carla-bridge serve` with collaborators in processes of their own, and all of them killed now and then."""

import functools
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

from carla_bridge.config.plan_file import parse_config
from carla_bridge.fleet_process.process import FleetProcess
from carla_bridge.packets import decode_frame, unpack
from tests.support.waiting import wait_for

SCRIPT = Path(__file__).parents[2] / "support" / "collaborator.py"
RATE, LENGTH = 5, 2.0
PLAN = {
    "carla": {
        "simulator": "embedded",
        "seed": 11,
        "frames_per_second": RATE,
        "image": {"width": 160, "height": 96},
        "regions": {"city": {"max_speed": 55}, "highway": {"min_speed": 80}},
        "vehicles": [{"name": "vehicle_1", "region": "city"}, {"name": "vehicle_2", "region": "city"}],
        "traffic": {"city": {"vehicles": 5}},
        "schedule": [{"at": 4, "vehicle": "vehicle_2", "region": "highway"}],
        "stream": {"window_seconds": LENGTH},
    }
}


@pytest.fixture
def environment(environment, tmp_path):
    """The token and temporary files of the processes are kept apart from the user's."""
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    return {**environment, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}


class Serve:
    """A running `carla-bridge serve`."""

    def __init__(self, directory, environment, port=0):
        self.directory = directory
        plan = directory / "plan.yaml"
        plan.write_text(yaml.safe_dump(PLAN))
        ready = directory / "ready"
        ready.unlink(missing_ok=True)
        self.log = (directory / "serve.log").open("a")
        command = [sys.executable, "-m", "carla_bridge.cli.main", "serve", "--plan", str(plan)]
        command += ["--listen", f"127.0.0.1:{port}", "--ready-file", str(ready)]
        command += ["--events", str(directory / "events.jsonl")]
        self.process = subprocess.Popen(command, env=environment, stderr=self.log, stdout=self.log)
        wait_for(ready.exists, 120, (directory / "serve.log").read_text)
        self.port = int(ready.read_text().rpartition(":")[2])

    def child(self, word):
        """A process below this one by a word of its command line."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if any(word in part for part in child.cmdline()):
                return child
        raise AssertionError(f"no child with {word}")

    def events(self):
        path = self.directory / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def gaps(self):
        return [event for event in self.events() if event["event"] == "gap"]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)
        self.log.close()


@contextmanager
def serving(directory, environment, port=0):
    serve = Serve(directory, environment, port)
    try:
        yield serve
    finally:
        if serve.process.poll() is None:
            serve.process.kill()
            serve.process.wait()


def collaborator(serve, vehicle, first, last, environment):
    notes = serve.directory / f"{vehicle}.jsonl"
    arguments = [serve.port, vehicle, first, last, LENGTH, notes]
    command = [sys.executable, str(SCRIPT), "127.0.0.1", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stderr=serve.log)


def rows(serve, vehicle):
    path = serve.directory / f"{vehicle}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def frames(serve, vehicle):
    return [row for row in rows(serve, vehicle) if "time" in row]


def wait_for_frames(serve, vehicle, count):
    wait_for(lambda: len(frames(serve, vehicle)) >= count)


def wait_for_gaps(serve, count):
    wait_for(lambda: len(serve.gaps()) >= count, 90)


def finish(*processes):
    for process in processes:
        assert process.wait(120) == 0


def expected_times(last):
    return [round(number / RATE, 9) for number in range(round(last * RATE))]


@functools.cache
def drive(last):
    with FleetProcess(parse_config(PLAN["carla"])) as fleet:
        return [decode_frame(unpack(packet.packed)) for packet in fleet.packets(last)]


def uninterrupted(vehicle, last):
    """The digests of a vehicle's frames, as a collaborator notes them, if nobody is killed."""
    return [
        hashlib.sha256(frame.image.tobytes() + frame.boxes.tobytes()).hexdigest()
        for frame in drive(last)
        if frame.vehicle == vehicle
    ]


def test_two_collaborators_get_disjoint_complete_ordered_windows_and_a_killed_one_returns(tmp_path, environment):
    with serving(tmp_path, environment) as serve:
        one = collaborator(serve, "vehicle_1", 0, 10, environment)
        two = collaborator(serve, "vehicle_2", 0, 10, environment)
        # Kill the second at a random moment of its work; it comes back to the window it was in.
        kill_after = random.randint(8, 25)
        wait_for_frames(serve, "vehicle_2", kill_after)
        two.send_signal(signal.SIGKILL)
        two.wait()
        before = frames(serve, "vehicle_2")
        done = [row["done"] for row in rows(serve, "vehicle_2") if "done" in row]
        resume = done[-1] + LENGTH if done else 0.0
        again = collaborator(serve, "vehicle_2", resume, 10, environment)
        finish(one, again)
        assert [row["time"] for row in frames(serve, "vehicle_1")] == expected_times(10)
        after = frames(serve, "vehicle_2")[len(before) :]
        kept = [row for row in before if row["time"] < resume]
        assert [row["time"] for row in kept + after] == expected_times(10)
        # What it had already seen of the window is the same again, bit for bit.
        repeated = {row["time"]: row["digest"] for row in after}
        assert all(repeated[row["time"]] == row["digest"] for row in before if row["time"] >= resume)
        for vehicle in ("vehicle_1", "vehicle_2"):
            assert {row["vehicle"] for row in frames(serve, vehicle)} == {vehicle}
        assert {row["domain"] for row in kept + after if row["time"] >= 4} == {"highway"}
        assert {row["domain"] for row in kept + after if row["time"] < 4} == {"city"}
        one_digests = {row["digest"] for row in frames(serve, "vehicle_1")}
        assert not one_digests & {row["digest"] for row in kept + after}
        assert serve.gaps() == []
        serve.stop()
        assert serve.process.returncode in (0, 128 + signal.SIGTERM)


@pytest.mark.timeout(900)
def test_a_killed_fleet_and_a_killed_simulator_are_replaced_and_the_timeline_goes_on(tmp_path, environment):
    with serving(tmp_path, environment) as serve:
        one = collaborator(serve, "vehicle_1", 0, 10, environment)
        two = collaborator(serve, "vehicle_2", 0, 10, environment)
        for kills, victim in enumerate(("spawn_main", "carla_bridge.fleet_process.simulator_server"), start=1):
            enough = len(frames(serve, "vehicle_1")) + random.randint(5, 15)
            wait_for_frames(serve, "vehicle_1", enough)
            killed_at = time.time()
            serve.child(victim).kill()
            wait_for_gaps(serve, kills)
            noticed = next(event["wall_time"] for event in serve.events() if event["wall_time"] > killed_at)
            assert noticed - killed_at < 30
        finish(one, two)
        for vehicle in ("vehicle_1", "vehicle_2"):
            assert [row["time"] for row in frames(serve, vehicle)] == expected_times(10)
        assert [0 < gap["at"] <= 10 for gap in serve.gaps()] == [True, True]
        # Nobody asks for anything now; the world is looked after all the same.
        serve.child("carla_bridge.fleet_process.simulator_server").kill()
        wait_for_gaps(serve, 3)
        assert len(serve.gaps()) == 3
        finish(collaborator(serve, "vehicle_1", 10, 12, environment))
        assert [row["time"] for row in frames(serve, "vehicle_1")] == expected_times(12)
        children = psutil.Process(serve.process.pid).children(recursive=True)
        serve.stop()
        _, alive = psutil.wait_procs(children, 20)
        assert not alive


@pytest.mark.timeout(900)
def test_a_killed_serve_takes_its_children_along_and_a_new_one_continues(tmp_path, environment):
    with serving(tmp_path, environment) as serve:
        one = collaborator(serve, "vehicle_1", 0, 6, environment)
        two = collaborator(serve, "vehicle_2", 0, 6, environment)
        wait_for_frames(serve, "vehicle_1", 15)
        children = psutil.Process(serve.process.pid).children(recursive=True)
        assert len(children) >= 2
        serve.stop(signal.SIGKILL)
        with serving(tmp_path, environment, port=serve.port) as second:
            finish(one, two)
            for vehicle in ("vehicle_1", "vehicle_2"):
                assert [row["time"] for row in frames(second, vehicle)] == expected_times(6)
                assert [row["digest"] for row in frames(second, vehicle)] == uninterrupted(vehicle, 6)
        _, alive = psutil.wait_procs(children, 30)
        assert not alive
        second.stop(signal.SIGKILL)
        assert list((tmp_path / "temporary").iterdir()) == [], "what is killed leaves nothing"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--listen", "0.0.0.0:0"],
            "Error: 0.0.0.0 can be reached from other machines, so the stream needs the certif",
        ),
        (["--listen", "127.0.0.1:²"], "Error: --listen is '127.0.0.1:²', not HOST:PORT"),
        (["--token", "a long shared secret"], "Error: No such option '--token'"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_starts(tmp_path, environment, options, sentence):
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(PLAN))
    command = [sys.executable, "-m", "carla_bridge.cli.main", "serve", "--plan", str(plan), *options]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (1, 2)
    assert done.stderr.splitlines()[-1].startswith(sentence)
    assert "Traceback" not in done.stderr
