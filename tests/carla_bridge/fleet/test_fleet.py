"""The fleet on the embedded simulator, through the real client."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from typing import Any

import msgpack
import numpy as np
import pytest
from scipy import ndimage

from carla_bridge.config.plan_file import parse_config
from carla_bridge.errors import ConfigError, ServerUnreachableError
from carla_bridge.fleet.cleanup import all_actors
from carla_bridge.fleet.connection import connect
from carla_bridge.fleet.regions import speed_limits
from carla_bridge.tags import DEFAULT_TAGS, RIDER

REGIONS = {"city": {"max_speed": 55}, "highway": {"min_speed": 80}}
TRAFFIC = {"city": {"vehicles": 12, "two_wheelers": 6, "walkers": 6}, "highway": {"vehicles": 4}}
VEHICLES = [{"name": "vehicle_1", "region": "city"}, {"name": "vehicle_2", "region": "city"}]


def config_for(simulator, **changes):
    settings = {"regions": REGIONS, "traffic": TRAFFIC, "vehicles": VEHICLES, "seed": 3, **changes}
    return parse_config({**settings, "host": simulator.host, "port": simulator.port})


def actors_and_mode(host, port):
    """All vehicles, walkers, sensors and controllers of a server, and whether it is synchronous."""
    client = connect(host, port, timeout=20.0, sensors=0)
    world = client.get_world()
    kinds = ("vehicle.", "walker.", "sensor.", "controller.")
    found = [actor.type_id for actor in all_actors(world) if actor.type_id.startswith(kinds)]
    settings = world.get_settings()
    return found, settings.synchronous_mode, settings.fixed_delta_seconds


def and_what_is_left(function, config):
    return function(config), actors_and_mode(config.host, config.port)


@pytest.fixture
def drive(isolated):
    """Calls a function with a configuration, away from here, and fails if it leaves anything on the server."""

    def call(function, config):
        result, left = isolated(and_what_is_left, function, config)
        assert left == ([], False, None)
        return result

    return call


def plain_boxes(mask, ego_id, min_pixels):
    """Boxes by one boolean mask per class and id, and per piece of a traffic light."""
    tags, ids = mask[..., 2].astype(int), mask[..., 1] + 256 * mask[..., 0].astype(int)
    boxes = []
    for label, (name, group) in enumerate(DEFAULT_TAGS.items()):
        for number in np.unique(ids[np.isin(tags, group)]):
            if number in (0, ego_id % 65536):
                continue
            mine = np.isin(tags, group)
            if set(group) & {18, 19}:
                mine |= tags == RIDER
            mine &= ids == number
            pieces = ndimage.label(mine, structure=np.ones((3, 3)))[0] if name == "traffic_light" else mine * 1
            for piece in range(1, pieces.max() + 1):
                rows, columns = np.nonzero(pieces == piece)
                if len(rows) >= min_pixels:
                    x, y = columns.min(), rows.min()
                    size = (columns.max() - x + 1, rows.max() - y + 1)
                    boxes.append((label, int(number), x, y, *size, len(rows)))
    return sorted(boxes)


def compare_boxes(config):
    from carla_bridge.fleet.fleet import Fleet

    compared, kinds = 0, set()
    with Fleet(config) as fleet:
        for _ in range(15):
            for capture in fleet.capture():
                frame = fleet.annotate(capture)
                expected = plain_boxes(capture.shot.mask_bgra(), capture.ego_id, config.min_pixels)
                found = sorted(
                    (box.label, box.object_id, box.x, box.y, box.width, box.height, box.pixels)
                    for box in frame.annotations
                )
                assert found == expected, (found, expected)
                bgra = capture.shot.colour_bgra()
                assert np.array_equal(frame.image, bgra[..., 2::-1])
                compared += len(found)
                kinds |= {row[0] for row in found}
    return compared, kinds


def test_boxes_equal_the_masks(simulator, drive):
    compared, kinds = drive(compare_boxes, config_for(simulator))
    assert compared > 30
    assert len(kinds) >= 2


def boxes_with_depth(config):
    """By frame: the boxes of the mask as it came, those that the depth image leaves, and those behind a wall.

    The simulator's instance camera does not look through anything, so the wall is drawn into the depth image, three
    metres ahead.
    """
    from dataclasses import replace

    from carla_bridge.fleet.fleet import Fleet, annotator_of
    from carla_bridge.fleet.visibility import FARTHEST, without_hidden

    annotator, rows = annotator_of(config), []
    near = round(3 / FARTHEST * (256**3 - 1))
    with Fleet(config) as fleet:
        for _ in range(15):
            for capture in fleet.capture():
                mask, depth = capture.shot.mask_bgra(), capture.shot.depth_bgra()
                assert capture.shot.depth is not None
                assert depth is not None
                assert capture.shot.depth.frame == capture.shot.frame
                wall = np.full_like(depth, 255)
                wall[..., :3] = [near >> 16, near >> 8 & 255, near & 255]
                assert capture.nearest is not None
                beyond = {number % 65536 for number, metres in capture.nearest.items() if metres > 5.1}
                rows.append(
                    [
                        beyond,
                        *(
                            [(box.label, box.object_id, box.x, box.width, box.pixels) for box in found]
                            for found in (
                                annotator.annotate(mask, capture.ego_id),
                                fleet.annotate(capture).annotations,
                                annotator.annotate(without_hidden(mask, wall, capture.nearest), capture.ego_id),
                                fleet.annotate(replace(capture, nearest=None)).annotations,
                            )
                        ),
                    ]
                )
    return rows


def test_depth_leaves_what_is_seen_and_takes_what_is_behind_a_wall(simulator, drive):
    moving = {list(DEFAULT_TAGS).index(name) for name in ("vehicle", "bike", "motobike", "pedestrian")}
    taken = 0
    for beyond, raw, checked, walled, unchecked in drive(
        boxes_with_depth, config_for(simulator, depth_check=True, frames_per_second=2)
    ):
        assert unchecked == raw
        assert checked == raw, "nothing that is seen is taken for hidden"
        behind = [box for box in raw if box[0] in moving and box[1] in beyond]
        assert walled == [box for box in raw if box not in behind], "signs and parked vehicles stay: they are no actors"
        taken += len(behind)
    assert taken > 5


def poses(config):
    from carla_bridge.fleet.fleet import Fleet

    rows = []
    with Fleet(config) as fleet:
        for _ in range(8):
            captures = fleet.capture()
            snapshot = fleet.world.get_snapshot()
            for vehicle, capture in zip(fleet.vehicles, captures, strict=True):
                shot = capture.shot
                mount = snapshot.find(vehicle.actor.id).get_transform()
                mounting: Any = vehicle.cameras.mounting
                at = mounting.location
                there: Any = mount.transform(type(at)(at.x, at.y, at.z))  # the client changes its argument
                here = shot.colour.transform.location
                rows.append(
                    (
                        snapshot.frame,
                        shot.colour.frame,
                        shot.mask.frame,
                        here.distance(there),
                        here.distance(shot.mask.transform.location),
                        capture.timestamp,
                        shot.colour.timestamp - snapshot.timestamp.elapsed_seconds,
                    )
                )
    return rows


@pytest.mark.parametrize("rate", [20, 2])
def test_frame_time_and_camera_pose_agree(simulator, drive, rate):
    rows = drive(poses, config_for(simulator, frames_per_second=rate))
    for world, colour, mask, off_mount, apart, _, late in rows:
        assert world == colour == mask
        assert off_mount < 0.01
        assert apart == 0
        assert abs(late) < 1e-6
    times = [row[5] for row in rows]
    assert times[0::2] == times[1::2] == [round(number / rate, 9) for number in range(8)]


def strolls(config):
    from carla_bridge.fleet.fleet import Fleet

    with Fleet(config) as fleet:
        fleet.advance()
        walkers: Any = list(fleet.world.get_actors().filter("walker.*"))
        before = [walker.get_location() for walker in walkers]
        for _ in range(8):
            fleet.advance()
        return [walker.get_location().distance(place) for walker, place in zip(walkers, before, strict=True)]


def test_walkers_walk(simulator, drive):
    walked = drive(strolls, config_for(simulator))
    assert len(walked) == TRAFFIC["city"]["walkers"]
    assert sum(distance > 2 for distance in walked) > len(walked) / 2, walked


def scheduled(config):
    from carla_bridge.fleet.fleet import Fleet

    notes: list[str] = []
    rows = []
    with Fleet(config, report=notes.append) as fleet:
        speeds = speed_limits(fleet.world.get_map().to_opendrive())
        for _ in range(10):
            frames = fleet.advance()
            weather = fleet.world.get_weather().cloudiness
            for vehicle, frame in zip(fleet.vehicles, frames, strict=True):
                waypoint = fleet.world.get_map().get_waypoint(vehicle.actor.get_location())
                speed = None if waypoint.is_junction else speeds.get(waypoint.road_id)
                rows.append((frame.vehicle, frame.timestamp, frame.domain, speed, weather))
    return rows, notes


def test_regions_and_weather_follow_the_schedule(simulator, drive):
    schedule = [
        {"at": 3, "vehicle": "vehicle_2", "region": "highway"},
        {"at": 6, "vehicle": "vehicle_2", "region": "city"},
        {"at": 5, "weather": {"cloudiness": 77}},
    ]
    rows, notes = drive(scheduled, config_for(simulator, schedule=schedule))
    assert len(rows) == 20
    for vehicle, second, domain, speed, cloudiness in rows:
        expected = "highway" if vehicle == "vehicle_2" and 3 <= second < 6 else "city"
        assert domain == expected
        assert speed is None or (speed >= 80) == (expected == "highway")
        assert (cloudiness == 77) == (second >= 5)
    assert any("vehicle_2 moves to highway" in note for note in notes)


def where_everybody_goes(config):
    from carla_bridge.fleet.fleet import Fleet

    seen = []
    with Fleet(config) as fleet:
        for _ in range(20):
            fleet.capture()
            places = [actor.get_location() for actor in sorted(all_actors(fleet.world), key=lambda actor: actor.id)]
            seen.append([(round(place.x, 3), round(place.y, 3)) for place in places])
    return seen


def test_a_drive_does_not_depend_on_what_the_server_did_before(simulator, drive):
    config = config_for(simulator, traffic={**TRAFFIC, "highway": {"vehicles": 20}}, traffic_radius=150)
    # Between the two the server goes on in its own time: lights change, frames are counted.
    first, again = (drive(where_everybody_goes, config) for _ in range(2))
    assert first == again


def metres_against_red(config):
    """How far the fleet gets in ten seconds once nobody has had a green light for thirty."""
    import carla

    from carla_bridge.fleet.fleet import Fleet

    with Fleet(config) as fleet:
        lights: Any = list(fleet.world.get_actors().filter("traffic.traffic_light"))
        try:
            for light in lights:
                light.set_state(carla.TrafficLightState.Red)
                light.freeze(True)
            places = []
            for _ in range(40):
                fleet.advance()
                places.append([vehicle.actor.get_location() for vehicle in fleet.vehicles])
        finally:
            for light in lights:
                light.freeze(False)
    return [sum(a.distance(b) for a, b in pairwise(way)) for way in zip(*places[30:], strict=True)]


@pytest.mark.parametrize("share", [0, 100])
def test_a_fleet_stops_at_red_unless_told_otherwise(simulator, drive, share):
    metres = drive(metres_against_red, config_for(simulator, traffic={}, ignore_lights=share))
    assert all((way > 20) == (share == 100) for way in metres), metres


def metres_to_the_fleet(config):
    """Of every background vehicle after a while, to the nearest vehicle of the fleet."""
    from carla_bridge.fleet.fleet import Fleet

    with Fleet(config) as fleet:
        for _ in range(30):
            fleet.advance()
        watched = [vehicle.actor.get_location() for vehicle in fleet.vehicles]
        own = {vehicle.actor.id for vehicle in fleet.vehicles}
        everybody: Any = fleet.world.get_actors().filter("vehicle.*")
        others = [actor for actor in everybody if actor.id not in own]
        return [min(actor.get_location().distance(place) for place in watched) for actor in others]


def test_traffic_stays_around_the_fleet_where_the_plan_says_so(simulator, drive):
    vehicles = [{"name": "vehicle_1", "region": "highway"}]
    changes = {"traffic": {"highway": {"vehicles": 10}}, "vehicles": vehicles}
    roaming = drive(metres_to_the_fleet, config_for(simulator, **changes))
    gathered = drive(metres_to_the_fleet, config_for(simulator, **changes, traffic_radius=150))
    assert len(roaming) == len(gathered) == 10
    assert np.median(gathered) < 200 < np.median(roaming)


def drive_then_raise(config):
    from carla_bridge.fleet.fleet import Fleet

    try:
        with Fleet(config) as fleet:
            fleet.advance()
            raise KeyError("in the middle")
    except KeyError:
        return


def test_an_exception_leaves_the_server_as_it_was(simulator, drive):
    drive(drive_then_raise, config_for(simulator))


def drive_for_ever(config, connection):
    from carla_bridge.fleet.fleet import Fleet

    with Fleet(config) as fleet:
        fleet.advance()
        connection.send("driving")
        while True:
            fleet.advance()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_the_server_as_it_was(simulator, isolated, number):
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=drive_for_ever, args=(config_for(simulator), theirs))
    process.start()
    assert mine.poll(60)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode is not None
    assert isolated(actors_and_mode, simulator.host, simulator.port) == ([], False, None)


def test_a_killed_fleet_is_cleaned_up_by_the_next(simulator, isolated, drive):
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=drive_for_ever, args=(config_for(simulator), theirs))
    process.start()
    assert mine.poll(60)
    process.kill()
    process.join(30)
    left, synchronous, _ = isolated(actors_and_mode, simulator.host, simulator.port)
    assert left
    assert synchronous
    drive(drive_then_raise, config_for(simulator))


def refused(config):
    from carla_bridge.fleet.fleet import Fleet

    try:
        with Fleet(config):
            return "nothing was refused"
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"town": "Atlantis"}, "carla.town is 'Atlantis'; valid values:"),
        ({"regions": {**REGIONS, "city": {"min_speed": 400}}}, "carla.regions.city fits none of the"),
        ({"regions": {**REGIONS, "city": {"spawn_points": [99999]}}}, "names spawn point 99999"),
        ({"vehicles": [{"name": "a", "blueprint": "vehicle.moon.rover"}]}, "blueprint 'vehicle.moon.rover'"),
        ({"schedule": [{"at": 900, "weather": "Hail"}]}, "the weather 'Hail'; valid values: ClearNight"),
    ],
)
def test_what_this_server_does_not_have_is_named(simulator, drive, changes, message):
    told = drive(refused, config_for(simulator, **changes))
    assert message in told
    assert "\n" not in told


class OtherVersion:
    """Stands for a CARLA server of another release: it answers every call with its version."""

    def __init__(self, version):
        self._version = version
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        unpacker = msgpack.Unpacker()
        while data := connection.recv(65536):
            unpacker.feed(data)
            for _, number, _, _ in unpacker:
                connection.sendall(msgpack.packb([1, number, None, [[1, self._version]]]))

    def close(self):
        self._socket.close()


@pytest.mark.parametrize("version", ["0.9.15", "0.10.0"])
def test_a_server_of_another_version_is_refused_in_one_line(environment, version):
    server = OtherVersion(version)
    command = [
        sys.executable,
        "-m",
        "carla_bridge.cli.main",
        "check",
        "--host",
        "127.0.0.1",
        "--port",
        str(server.port),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    server.close()
    assert done.returncode == 1
    line = done.stderr.strip().splitlines()[-1]
    assert f"is CARLA {version} and the client is 0.9.16; they must be equal" in line
    assert "Traceback" not in done.stderr


def test_no_server_and_a_server_of_something_else_are_told_apart():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(ServerUnreachableError, match=f"no server listens at 127.0.0.1:{free}"):
        connect("127.0.0.1", free, timeout=1.0, sensors=0)
