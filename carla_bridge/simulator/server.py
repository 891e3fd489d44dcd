"""The simulator as a server: the clock of the world, and the sockets that clients talk to."""

import asyncio
import gc
import logging
from collections.abc import Sequence

from carla_bridge.simulator.actors.actor import Sensor
from carla_bridge.simulator.actors.sensing import gnss, imu
from carla_bridge.simulator.pictures.render_jobs import CAMERAS, image_request
from carla_bridge.simulator.pictures.render_pool import PendingImage, RenderPool
from carla_bridge.simulator.protocol.actor_methods import ActorMethods
from carla_bridge.simulator.protocol.dispatch import Dispatcher
from carla_bridge.simulator.protocol.messages import SensorType, collision_value, small_sensor
from carla_bridge.simulator.protocol.rpc import RpcServer
from carla_bridge.simulator.protocol.streams import StreamHub
from carla_bridge.simulator.protocol.traffic_manager import TrafficManagerEndpoint
from carla_bridge.simulator.protocol.world_methods import WORLD_STREAM, WorldMethods
from carla_bridge.simulator.protocol.world_state import WorldStateWriter
from carla_bridge.simulator.world import Collision, World

EARLY = 1e-6
"""Seconds by which a periodic sensor may be early, so that rounding does not cost it a tick."""

log = logging.getLogger(__name__)


class SimulatorServer:
    """Serves one world. `start`, then `serve_forever`, then `stop`, all in one event loop."""

    def __init__(self, world: World, pool: RenderPool) -> None:
        self.world = world
        self._state = WorldStateWriter(world)
        self._hub = StreamHub()
        self._pool = pool
        self._rpc: RpcServer | None = None
        self._traffic_rpc = RpcServer(TrafficManagerEndpoint(world))
        self._ticking = asyncio.Lock()
        self._pictures: asyncio.Task[None] | None = None
        self._mode_changed = asyncio.Event()
        self._stepped = asyncio.Event()
        self._episode_shown = 0

    async def start(self, host: str, port: int) -> None:
        """Open the sockets. OSError if one is taken; the streams use the next port, or any if port is 0."""
        await self._hub.start(host, port + 1 if port else 0)
        await self._traffic_rpc.start(host, 0)
        actors = ActorMethods(self.world, self._hub.port)
        world = WorldMethods(
            self.world,
            actors,
            self._hub,
            self.tick,
            self._next_frame,
            self._change_mode,
            lambda: self._traffic_rpc.port,
        )
        self._rpc = RpcServer(Dispatcher(actors, world))
        self._publish_state()
        await self._rpc.start(host, port)

    @property
    def port(self) -> int:
        """The RPC port; 0 before `start`."""
        return 0 if self._rpc is None else self._rpc.port

    @property
    def stream_port(self) -> int:
        return self._hub.port

    async def serve_forever(self) -> None:
        """Run until cancelled; raises RendererLostError when pictures can no longer be drawn."""
        gc.freeze()  # the town's objects stay; the collector need not visit them again
        clock = asyncio.create_task(self._run_clock())
        try:
            await self._pool.run()
        finally:
            clock.cancel()

    async def _run_clock(self) -> None:
        """Tick in real time while the world is asynchronous; wait while it is synchronous."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        failed = False
        while True:
            if self.world.settings.synchronous:
                self._mode_changed.clear()
                await self._mode_changed.wait()
                due = loop.time()
                continue
            failed = not await self._survives_tick(silent=failed)
            due = max(due + self.world.settings.step, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _survives_tick(self, silent: bool) -> bool:
        """Tick without a client's request; only the log can report a failure. False if it failed."""
        try:
            await self.tick()
        except Exception:
            if not silent:
                log.exception("the world failed at frame %d", self.world.frame)
            return False
        return True

    async def _next_frame(self) -> int:
        """Wait until the world has ticked by itself or has been made synchronous."""
        await self._stepped.wait()
        return self.world.frame

    def _change_mode(self) -> None:
        self._mode_changed.set()
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        """Wake the calls that wait for the next frame, but none that come later."""
        self._stepped.set()
        self._stepped = asyncio.Event()

    async def stop(self) -> None:
        """Close every connection and end the workers."""
        if self._rpc is not None:
            await self._rpc.stop()
        await self._traffic_rpc.stop()
        await self._hub.stop()
        if self._pictures is not None:
            self._pictures.cancel()
        self._pool.close()

    async def tick(self) -> int:
        """One step of the world: the state goes out first, then the sensors' data. Returns the frame.

        Pictures take longest, so they are requested as soon as the actors have moved.
        """
        async with self._ticking:
            if self.world.settings.synchronous:
                await self._hub.wait_for_subscribers()
            if self._pictures is not None:
                await self._pictures
            await self._hub.await_departure()
            hits = self.world.advance()
            due = self._due_sensors()
            self._request_pictures([sensor for sensor in due if sensor.blueprint in CAMERAS])
            self._publish_state()
            self._publish_collisions(hits)
            self._publish_sensors(due)
            self.world.decide()
            self._wake_waiting()
            return self.world.frame

    def _publish_state(self) -> None:
        state = self._state.message(self.world.episode != self._episode_shown)
        self._episode_shown = self.world.episode
        self._hub.set_first_message(WORLD_STREAM, state)
        self._hub.publish(WORLD_STREAM, state)

    def _publish_collisions(self, hits: list[Collision]) -> None:
        for sensor in self.world.sensors() if hits else ():
            if sensor.blueprint == "sensor.other.collision" and self._hub.has_listeners(sensor.stream):
                for hit in hits:
                    if hit.actor is sensor.parent:
                        value = collision_value(hit, self._hub.port)
                        message = small_sensor(self.world, sensor, SensorType.COLLISION, value)
                        self._hub.publish(sensor.stream, message)

    def _due_sensors(self) -> list[Sensor]:
        """Sensors that have listeners and whose period is over."""
        due = []
        for sensor in self.world.sensors():
            if self.world.elapsed + EARLY >= sensor.next_due and self._hub.has_listeners(sensor.stream):
                on_time = sensor.next_due > self.world.elapsed - sensor.period
                sensor.next_due = (sensor.next_due if on_time else self.world.elapsed) + sensor.period
                due.append(sensor)
        return due

    def _publish_sensors(self, due: Sequence[Sensor]) -> None:
        world = self.world
        for sensor in due:
            if sensor.blueprint == "sensor.other.gnss":
                message = small_sensor(world, sensor, SensorType.GNSS, gnss(sensor, world.frame))
                self._hub.publish(sensor.stream, message)
            elif sensor.blueprint == "sensor.other.imu":
                message = small_sensor(world, sensor, SensorType.IMU, imu(sensor, world.frame))
                self._hub.publish(sensor.stream, message)

    def _request_pictures(self, cameras: Sequence[Sensor]) -> None:
        """Let the workers draw while the rest of the tick is done."""
        self._pictures = None
        world = self.world
        if cameras and not world.settings.no_rendering:
            requests = [image_request(camera) for camera in cameras]
            pending = self._pool.submit(world.moment(), requests, world.frame, world.elapsed)
            self._pictures = asyncio.create_task(self._send_pictures(pending, world.frame))

    async def _send_pictures(self, pending: Sequence[PendingImage], frame: int) -> None:
        try:
            await self._pool.deliver(pending, self._hub.publish)
        except RuntimeError:
            log.exception("the renderer failed at frame %d", frame)
