"""How fast the embedded simulator ticks through the real CARLA client, how it starts, and whether anything grows.

    python -m benchmarks.simulator [--ticks 300] [--soak 20000]

40 vehicles on autopilot and 20 walkers move all the time; every image of a tick is received before the next one.
CPU time is shown beside the rate, because a busy machine changes the one and not the other.

The client library can abort its process, so the client has one of its own; if that does not come to the end, the last
line tells its exit code, the server's, and what the server had to say.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import queue
import subprocess
import sys
import tempfile
import time
from typing import Any, cast

import carla
import psutil

VEHICLES, WALKERS = 40, 20
SIZE = (416, 256)
SOAK_SIZE = (64, 40)


def main() -> None:
    """Print one JSON line per measurement."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--ticks", type=int, default=300, help="ticks per measurement of speed")
    options.add_argument("--soak", type=int, default=20_000, help="ticks of the measurement of memory and open files")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile("w+") as complaints:
        os.environ["HOME"] = home  # the client keeps the walkers' mesh there
        start = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-m", "carla_bridge.cli.main", "simulator", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().split(":")[1].split(",")[0])
            report("start-up", seconds_to_listen=time.perf_counter() - start)
            client = multiprocessing.get_context("spawn").Process(
                target=run_client, args=(port, server.pid, start, arguments.ticks, arguments.soak)
            )
            client.start()
            client.join()
            ended = server.poll()
        finally:
            server.terminate()
            server.wait()
        if client.exitcode:
            complaints.seek(0)
            codes = {"client_exit_code": client.exitcode, "server_exit_code": ended}
            print(json.dumps({"benchmark": "failed", **codes, "server_stderr": complaints.read()}), flush=True)
            sys.exit(1)


def run_client(port: int, server: int, start: float, ticks: int, soak: int) -> None:
    """Measure, and leave without the client library's static destructors, which may abort."""
    faulthandler.enable()
    measure(port, psutil.Process(server), start, ticks, soak)
    sys.stdout.flush()
    os._exit(0)


def report(name: str, **figures: float) -> None:
    print(json.dumps({"benchmark": name, **{key: round(value, 3) for key, value in figures.items()}}), flush=True)


def measure(port: int, server: psutil.Process, start: float, ticks: int, soak: int) -> None:
    """All measurements, in one world."""
    client = carla.Client("127.0.0.1", port, 8)
    client.set_timeout(60.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    cars = populate(client, world)
    rigs = [Rig(world, car, SIZE) for car in cars[:2]]
    world.tick()
    frame = world.tick()
    rigs[0].receive(frame)
    report("start-up", seconds_to_first_image=time.perf_counter() - start)
    rigs[1].receive(frame)  # the client library can crash if a camera is stopped while it reads a picture
    rigs[1].stop()
    for name, active in (("one pair", rigs[:1]), ("two pairs", rigs)):
        for rig in active:
            rig.listen()
        report(name, **rate(world, server, active, ticks))
    for rig in rigs:
        rig.stop()
    report("no cameras", **rate(world, server, [], ticks))
    small = Rig(world, cars[2], SOAK_SIZE)
    for tenth in range(10):
        rate(world, server, [small], soak // 10)
        report("soak", ticks=(tenth + 1) * soak // 10, **held(server))
    small.stop()


class Rig:
    """An RGB and an instance camera at the same place of a vehicle."""

    def __init__(self, world: carla.World, car: carla.Vehicle, size: tuple[int, int]) -> None:
        self._sensors: list[carla.Sensor] = []
        for kind in ("rgb", "instance_segmentation"):
            blueprint = world.get_blueprint_library().find(f"sensor.camera.{kind}")
            blueprint.set_attribute("image_size_x", str(size[0]))
            blueprint.set_attribute("image_size_y", str(size[1]))
            mount = carla.Transform(carla.Location(x=1.2, z=1.6))
            self._sensors.append(cast(carla.Sensor, world.spawn_actor(blueprint, mount, attach_to=car)))
        self._queues: list[queue.Queue[Any]] = []
        self.listen()

    def listen(self) -> None:
        if not self._queues:
            self._queues = [queue.Queue() for _ in self._sensors]
            for sensor, images in zip(self._sensors, self._queues, strict=True):
                sensor.listen(images.put)

    def receive(self, frame: int) -> None:
        for images in self._queues:
            while images.get(timeout=60.0).frame < frame:
                pass

    def stop(self) -> None:
        for sensor in self._sensors:
            sensor.stop()
        self._queues = []


def populate(client: carla.Client, world: carla.World) -> list[carla.Vehicle]:
    """Traffic everywhere, walkers on the pavements."""
    library, command = world.get_blueprint_library(), carla.command
    models = sorted(library.filter("vehicle.*"), key=lambda blueprint: blueprint.id)
    manager = client.get_trafficmanager()
    places = world.get_map().get_spawn_points()
    future: Any = command.FutureActor  # the stubs do not know that it stands for an actor
    batch = [
        command.SpawnActor(models[number % len(models)], place).then(
            command.SetAutopilot(future, True, manager.get_port())
        )
        for number, place in enumerate(places[: VEHICLES + 10])
    ]
    ids = [answer.actor_id for answer in client.apply_batch_sync(batch, False) if not answer.error]
    client.apply_batch_sync([command.DestroyActor(number) for number in ids[VEHICLES:]], False)
    pedestrians = list(library.filter("walker.pedestrian.*"))
    walkers: list[carla.Actor] = []
    while len(walkers) < WALKERS:
        above = cast(carla.Location, world.get_random_location_from_navigation() + carla.Location(z=1.0))
        place = carla.Transform(above)
        walker = world.try_spawn_actor(pedestrians[len(walkers)], place)
        if walker is not None:
            walkers.append(walker)
    world.tick()
    for walker in walkers:
        spawned = world.spawn_actor(library.find("controller.ai.walker"), carla.Transform(), walker)
        control = cast(carla.WalkerAIController, spawned)
        control.start()
        control.go_to_location(world.get_random_location_from_navigation())
    world.tick()
    return [cast(carla.Vehicle, world.get_actor(number)) for number in ids[:VEHICLES]]


def family(server: psutil.Process) -> list[psutil.Process]:
    """The server and the processes that draw for it."""
    return [server, *server.children()]


def held(server: psutil.Process) -> dict[str, float]:
    """Memory of its own and open files of the server, of each process that draws for it, and of the client."""
    own, *drawing = family(server)
    named = {"server": own, "client": psutil.Process()}
    named.update({f"drawing_{number}": worker for number, worker in enumerate(drawing, start=1)})
    memory = {f"{name}_mb": process.memory_full_info().uss / 1e6 for name, process in named.items()}
    return memory | {f"{name}_files": process.num_fds() for name, process in named.items()}


def rate(world: carla.World, server: psutil.Process, rigs: list[Rig], ticks: int) -> dict[str, float]:
    """Ticks per second, and milliseconds of CPU per tick: of the server, of what draws for it, and of the client."""

    def spent() -> tuple[float, float, float]:
        own, client = (sum(process.cpu_times()[:2]) for process in (server, psutil.Process()))
        return own, sum(sum(process.cpu_times()[:2]) for process in family(server)) - own, client

    for rig in rigs:
        rig.receive(world.tick())
    before = spent()
    start = time.perf_counter()
    for _ in range(ticks):
        frame = world.tick()
        for rig in rigs:
            rig.receive(frame)
    seconds = time.perf_counter() - start
    server_cpu, drawing_cpu, client_cpu = (
        1000 * (now - then) / ticks for now, then in zip(spent(), before, strict=True)
    )
    return {
        "ticks_per_second": ticks / seconds,
        "server_cpu_ms_per_tick": server_cpu,
        "drawing_cpu_ms_per_tick": drawing_cpu,
        "client_cpu_ms_per_tick": client_cpu,
    }


if __name__ == "__main__":
    main()
