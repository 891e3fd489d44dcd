"""Traffic lights that cycle: in each junction one approach at a time is green."""

from collections.abc import Iterable

from carla_bridge.simulator.actors.actor import GREEN, RED, YELLOW, TrafficLight


class SignalGroup:
    """The lights of one junction. Between two greens all are red, so that the junction clears."""

    def __init__(self, lights: list[TrafficLight]) -> None:
        self.lights = lights
        self.reset()

    def reset(self) -> None:
        """Start the cycle again; neighbours start with different approaches."""
        self._turn = (self.lights[0].signal.junction or 0) % len(self.lights)
        for number, light in enumerate(self.lights):
            light.elapsed = 0.0
            light.state = GREEN if number == self._turn else RED

    def step(self, dt: float) -> None:
        for light in self.lights:
            if light.frozen:
                return
        for light in self.lights:
            light.elapsed += dt
        current = self.lights[self._turn]
        if current.state == GREEN and current.elapsed >= current.green_time:
            self._show(current, YELLOW)
        elif current.state == YELLOW and current.elapsed >= current.yellow_time:
            self._show(current, RED)
        elif current.state not in (GREEN, YELLOW) and current.elapsed >= current.red_time:
            self._turn = (self._turn + 1) % len(self.lights)
            for light in self.lights:
                light.state = RED
            self._show(self.lights[self._turn], GREEN)

    @staticmethod
    def _show(light: TrafficLight, state: int) -> None:
        light.state = state
        light.elapsed = 0.0


def group_lights(lights: Iterable[TrafficLight]) -> dict[int, SignalGroup]:
    """Groups by actor id of each of their lights."""
    by_junction: dict[int | None, list[TrafficLight]] = {}
    for light in lights:
        by_junction.setdefault(light.signal.junction, []).append(light)
    groups: dict[int, SignalGroup] = {}
    for members in by_junction.values():
        for number, light in enumerate(members):
            light.pole = number
        group = SignalGroup(members)
        groups.update({light.id: group for light in members})
    return groups
