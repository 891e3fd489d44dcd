"""Stand-in."""

from typing import Any

from carla_bridge.simulator.rpc import Caller
from carla_bridge.simulator.world import World


class TrafficManager:
    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, caller: Caller, name: str, arguments: list[Any]) -> object:
        if name == "register_vehicle":
            for a in arguments[0]:
                self._world.traffic.register(self._world.vehicle(a[0]))
        return None
