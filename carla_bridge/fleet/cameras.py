"""The cameras of a vehicle, and their images with the same frame number."""

import queue
import time
from dataclasses import dataclass
from typing import cast

import carla
import numpy as np
from numpy.typing import NDArray

from carla_bridge.config.parts import CameraSettings
from carla_bridge.fleet.cleanup import mark

ABOVE_ROOF = 0.15
"""Metres from the roof to the cameras if the plan names no height."""

ImageQueue = queue.SimpleQueue[carla.Image]


@dataclass(frozen=True)
class Shot:
    """Colour image and instance mask of one frame, and its depth image if one was asked for, as CARLA sent them."""

    frame: int
    colour: carla.Image
    mask: carla.Image
    depth: carla.Image | None = None

    def colour_bgra(self) -> NDArray[np.uint8]:
        return _pixels(self.colour)

    def mask_bgra(self) -> NDArray[np.uint8]:
        return _pixels(self.mask)

    def depth_bgra(self) -> NDArray[np.uint8] | None:
        return None if self.depth is None else _pixels(self.depth)


def _pixels(image: carla.Image) -> NDArray[np.uint8]:
    return np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)


def camera_kinds(depth: bool) -> tuple[str, ...]:
    """The cameras of every vehicle: colours, instances and, if wanted, depth."""
    pair = ("sensor.camera.rgb", "sensor.camera.instance_segmentation")
    return (*pair, "sensor.camera.depth") if depth else pair


class CameraRig:
    """Cameras at the same place of one vehicle, which take their images together."""

    def __init__(self, interval: float, config: CameraSettings, depth: bool) -> None:
        self.sensors: list[carla.Sensor] = []
        self.mounting: carla.Transform | None = None
        """Place of the cameras on the vehicle, once they are mounted."""
        self._interval = interval
        self._config = config
        self._queues: list[ImageQueue] = []
        self._kinds = camera_kinds(depth)
        self._held: list[carla.Image | None] = [None] * len(self._kinds)

    def mount(self, world: carla.World, vehicle: carla.Vehicle, spawned: list[int]) -> None:
        """Spawn the cameras on a vehicle; each id is added to `spawned` at once, so that no camera is lost."""
        config = self._config
        body = vehicle.bounding_box
        height = body.location.z + body.extent.z + ABOVE_ROOF if config.z is None else config.z
        place = carla.Transform(carla.Location(x=config.x, z=height), carla.Rotation(pitch=config.pitch))
        self.mounting = place
        library = world.get_blueprint_library()
        for kind in self._kinds:
            blueprint = library.find(kind)
            blueprint.set_attribute("image_size_x", str(config.width))
            blueprint.set_attribute("image_size_y", str(config.height))
            blueprint.set_attribute("fov", str(config.fov))
            blueprint.set_attribute("sensor_tick", str(self._interval))
            mark(blueprint, "camera")
            sensor = world.spawn_actor(blueprint, place, attach_to=vehicle)
            spawned.append(sensor.id)
            self.sensors.append(cast(carla.Sensor, sensor))

    def listen(self) -> None:
        for sensor in self.sensors:
            images: ImageQueue = queue.SimpleQueue()
            sensor.listen(images.put)
            self._queues.append(images)

    def stop(self) -> None:
        for sensor in self.sensors:
            if sensor.is_listening():
                sensor.stop()

    def next_shot(self, earliest: int, timeout: float) -> Shot | None:
        """The next images of one frame, `earliest` or later; None if they do not come in time."""
        deadline = time.monotonic() + timeout
        while True:
            for number, images in enumerate(self._queues):
                if self._held[number] is None:
                    self._held[number] = _get(images, earliest, deadline)
            held = [image for image in self._held if image is not None]
            if len(held) < len(self._kinds):
                return None
            newest = max(image.frame for image in held)
            if all(image.frame == newest for image in held):
                self._held = [None] * len(self._kinds)
                return Shot(newest, *held)
            self._held = [image if image.frame == newest else None for image in held]


def _get(images: ImageQueue, earliest: int, deadline: float) -> carla.Image | None:
    while True:
        try:
            image = images.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            return None
        if image.frame >= earliest:
            return image
