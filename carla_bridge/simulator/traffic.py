"""Stand-in."""

from carla_bridge.simulator.actors import TrafficLight, Vehicle, Walker
from carla_bridge.simulator.road_network import RoadNetwork


class Traffic:
    def __init__(self, network: RoadNetwork, lights: list[TrafficLight], seed: int) -> None:
        pass

    def register(self, vehicle: Vehicle) -> None:
        vehicle.autopilot = True

    def unregister(self, vehicle: Vehicle) -> None:
        vehicle.autopilot = False

    def relocate(self, vehicle: Vehicle) -> None:
        pass

    def step(self, vehicles: list[Vehicle], walkers: list[Walker], dt: float) -> None:
        pass
