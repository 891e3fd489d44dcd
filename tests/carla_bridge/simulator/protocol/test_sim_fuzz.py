"""Calls that no client makes: each gets an answer, and the world goes on for everybody else, with numbers in it."""

import socket
import struct
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.fuzzing import amounts, changed, fuzz, values
from tests.support.raw_rpc import Rpc

pytest_plugins = ("tests.support.simulator_servers",)

WORLD_STREAM = 1
HEAD, ROW = 84, 119
PLACE = [[0.0, 0.0, 1.0], [0.0, 90.0, 0.0]]
CAR, WALKER, LIGHT, CAMERA = "<car>", "<walker>", "<light>", "<camera>"
"""Stand for the ids of actors, which change when a call destroys them."""
CALLS: list[list[Any]] = [
    ["spawn_actor", [0, "vehicle.audi.tt", [["role_name", 3, "x"]]], PLACE],
    ["spawn_actor", [0, "sensor.camera.rgb", [["fov", 2, "90"], ["image_size_x", 1, "64"]]], PLACE],
    ["spawn_actor_with_parent", [0, "sensor.other.imu", []], PLACE, CAR, 0, ""],
    ["destroy_actor", CAMERA],
    ["get_actors_by_id", [CAR, WALKER, LIGHT]],
    ["set_actor_transform", CAR, PLACE],
    ["set_actor_location", WALKER, [1.0, 2.0, 3.0]],
    ["set_actor_simulate_physics", CAR, True],
    ["set_actor_collisions", CAR, True],
    ["set_actor_enable_gravity", CAR, False],
    ["set_actor_target_velocity", CAR, [1.0, 0.0, 0.0]],
    ["enable_actor_constant_velocity", CAR, [1.0, 0.0, 0.0]],
    ["disable_actor_constant_velocity", CAR],
    ["add_actor_impulse", CAR, [1.0, 0.0, 0.0]],
    ["add_actor_force", CAR, [1.0, 0.0, 0.0]],
    ["apply_control_to_vehicle", CAR, [0.5, 0.1, 0.0, False, False, False, 0]],
    ["apply_ackermann_control_to_vehicle", CAR, [0.1, 0.0, 5.0, 0.0, 0.0]],
    ["get_wheel_steer_angle", CAR, 0],
    ["set_vehicle_light_state", CAR, 3],
    ["set_actor_autopilot", CAR, True],
    ["apply_control_to_walker", WALKER, [[1.0, 0.0, 0.0], 1.5, False]],
    ["set_traffic_light_state", LIGHT, 2],
    ["set_traffic_light_green_time", LIGHT, 5.0],
    ["freeze_traffic_light", LIGHT, True],
    ["reset_traffic_light_group", LIGHT],
    ["get_sensor_token", 2],
    ["set_episode_settings", [True, False, [True, 0.05], True, 0.01, 10, 0.0, False, 3000.0, 2000.0, True]],
    ["set_weather_parameters", [10.0, 0.0, 0.0, 5.0, 0.0, 45.0, 0.0, 0.0, 0.1, 0.0, 1.0, 0.03, 0.0331, 0.0]],
    ["load_new_episode", "", True, 65535],
    ["request_file", "x"],
    ["get_all_level_BBs", 0],
    ["apply_batch", [[[2, [CAR, [0.5, 0.1, 0.0, False, False, False, 0]]]], [[6, [CAR, PLACE]]]], True],
    ["apply_batch", [[[0, [[0, "vehicle.audi.tt", []], PLACE, [False], 0, "", []]]], [[1, [CAR]]]], False],
]
MANAGER_CALLS: list[list[Any]] = [
    ["register_vehicle", [[[CAR, 0, [0, "vehicle.audi.tt", []], [[0, 0, 0], [1, 1, 1], [0, 0, 0]], b"", b""]]]],
    ["set_percentage_speed_difference", [[CAR, 0]], 30.0],
    ["set_global_percentage_speed_difference", -50.0],
    ["set_distance_to_leading_vehicle", [[CAR, 0]], 5.0],
    ["set_path", [[CAR, 0]], [[0.0, 0.0, 0.0]], True],
    ["set_imported_route", [[CAR, 0]], [1, 2], True],
    ["set_force_lane_change", [[CAR, 0]], True],
    ["set_hybrid_physics_radius", 50.0],
    ["set_random_device_seed", 5],
]


class Witness:
    """Another client: it ticks the world and looks at every state that it gets."""

    def __init__(self, server):
        self._rpc = Rpc(server.port)
        self._stream = socket.create_connection(("127.0.0.1", server.stream_port), timeout=60)
        self._stream.sendall(struct.pack("<I", WORLD_STREAM))
        self._frame = self._read()
        self.ids = {}
        self.replace_actors()

    def replace_actors(self):
        """Spawn what a call has destroyed."""
        for name, blueprint in ((CAR, "vehicle.tesla.model3"), (WALKER, "walker.pedestrian.0001")):
            places = self._rpc.call("get_map_info")[1][0][1][1] if name not in self.ids or not self._alive(name) else []
            for place in places:
                succeeded, answer = self._rpc.call("spawn_actor", [0, blueprint, []], place)[1][0]
                if succeeded:
                    self.ids[name] = answer[0]
                    break
        self.ids.setdefault(LIGHT, 10)
        self.ids.setdefault(CAMERA, 11)

    def _alive(self, name):
        return bool(self._rpc.call("get_actors_by_id", [self.ids[name]])[1][0][1])

    def check(self):
        error, [[succeeded, frame]] = self._rpc.call("tick_cue")
        assert error is None
        assert succeeded, frame
        while self._frame < frame:
            self._frame = self._read()
        self.replace_actors()

    def _read(self):
        (length,) = struct.unpack("<I", self._exactly(4))
        message = self._exactly(length)
        _, frame, seconds = struct.unpack_from("<QQd", message)
        count, rest = divmod(length - HEAD, ROW)
        assert rest == 0
        assert np.isfinite(seconds)
        for number in range(count):
            assert np.isfinite(np.frombuffer(message, "<f4", 15, HEAD + number * ROW + 5)).all(), "a place is no number"
        return frame

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self._stream.recv(count - len(data))
            assert more, "the stream of the world has ended"
            data += more
        return data


def with_ids(value, ids):
    if isinstance(value, list):
        return [with_ids(item, ids) for item in value]
    return ids.get(value, value) if isinstance(value, str) else value


@amounts(120, 10_000)
def test_every_call_is_answered_and_the_world_goes_on(new_server, examples):
    server = new_server()
    rpc, witness = Rpc(server.port), Witness(server)
    manager = Rpc(rpc.call("get_traffic_manager_running", 8000)[1][0][1][1])

    def check(calls):
        for of_manager, call in calls:
            if not (isinstance(call, list) and call and isinstance(call[0], str)):
                continue
            name, *arguments = with_ids(call, witness.ids)
            if of_manager:
                error, result = manager.call(str(name), *arguments, metadata=())
                assert "internal error" not in str(error), (call, error)
            else:
                error, result = rpc.call(str(name), *arguments)
                assert error is None, (call, error)
                assert "internal error" not in str(result), (call, result)
        witness.check()

    ours = st.sampled_from(CALLS)
    theirs = st.sampled_from(MANAGER_CALLS)
    call = (
        st.tuples(st.just(False), ours | ours.flatmap(changed))
        | st.tuples(st.just(True), theirs | theirs.flatmap(changed))
        | st.tuples(st.booleans(), st.tuples(st.sampled_from([c[0] for c in CALLS + MANAGER_CALLS]), values).map(list))
    )
    fuzz(st.lists(call, min_size=1, max_size=4), check, examples)
    assert server.process.poll() is None
