"""What the tests do with the real client, again and again."""

import queue
from contextlib import contextmanager
from typing import Any

import carla

STEP = 0.05


def connect(port, synchronous=True):
    """A client and its world; synchronous with a fixed step unless `synchronous` is False."""
    client = carla.Client("127.0.0.1", port, 6)
    client.set_timeout(30.0)
    world = client.get_world()
    if synchronous:
        make_synchronous(world)
    return client, world


def make_synchronous(world, step=STEP):
    settings = world.get_settings()
    settings.synchronous_mode = True
    settings.fixed_delta_seconds = step
    world.apply_settings(settings)


def fresh(client):
    """A new, synchronous episode."""
    world = client.reload_world()
    make_synchronous(world)
    return world


def blueprint(world, name, **attributes):
    found = world.get_blueprint_library().find(name)
    for key, value in attributes.items():
        found.set_attribute(key, str(value))
    return found


@contextmanager
def listening(*sensors):
    """One queue per sensor; the sensors are stopped afterwards."""
    queues: list[queue.Queue[Any]] = [queue.Queue() for _ in sensors]
    for sensor, data in zip(sensors, queues, strict=True):
        sensor.listen(data.put)
    try:
        yield queues
    finally:
        for sensor in sensors:
            sensor.stop()


def at(data, frame):
    """The item of this frame from a sensor's queue."""
    while True:
        item = data.get(timeout=30.0)
        if item.frame == frame:
            return item
        assert item.frame < frame, f"frame {frame} was lost: got {item.frame}"
