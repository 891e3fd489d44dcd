"""Lights that the traffic manager switches, on vehicles for which a client asked it to."""

from collections.abc import Iterable

from carla_bridge.simulator.scene import Weather
from carla_bridge.simulator.traffic.driver import Driver
from carla_bridge.simulator.traffic.routing import direction

POSITION, LOW_BEAM, BRAKE, RIGHT, LEFT, FOG = 0x1, 0x2, 0x8, 0x10, 0x20, 0x80
"""CARLA's bits of the lights that are switched; a client's setting of the others stays."""
DARK, DIM = 15.0, 35.0
"""Degrees of the sun below which beams, or at least position lights, are on."""
HEAVY_RAIN, FOGGY = 80.0, 20.0
"""Percent."""
BRAKES_HARD = 0.5
SIGNALS_BEFORE = 30.0
"""Metres before a turn."""


def switch_lights(drivers: Iterable[Driver], weather: Weather) -> None:
    """Switch the lights of all drivers that were asked to see to them."""
    asked = [driver for driver in drivers if driver.settings.switches_lights]
    if not asked:
        return
    foggy = weather.fog_density > FOGGY
    seen = POSITION if weather.sun_altitude < DIM else 0
    if weather.sun_altitude < DARK or weather.precipitation > HEAVY_RAIN or foggy:
        seen |= POSITION | LOW_BEAM
    if foggy:
        seen |= FOG
    for driver in asked:
        vehicle = driver.vehicle
        braking = BRAKE if vehicle.control.brake > BRAKES_HARD else 0
        kept = vehicle.lights & ~(POSITION | LOW_BEAM | BRAKE | RIGHT | LEFT | FOG)
        vehicle.lights = kept | seen | braking | _signal(driver)


def _signal(driver: Driver) -> int:
    """The indicator for the turn in which the vehicle is, or which is next."""
    distance = -driver.s
    for lane in driver.route:
        if distance > SIGNALS_BEFORE:
            break
        if lane.junction is not None:
            return {"Left": LEFT, "Right": RIGHT}.get(direction(lane), 0)
        distance += lane.length
    return 0
