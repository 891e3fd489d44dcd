"""CARLA 0.9.16's semantic tags, and the division of 16-bit instance ids between actors and the map."""

from enum import IntEnum


class Tag(IntEnum):
    """The red channel of semantic and instance images."""

    NONE = 0
    ROAD = 1
    SIDEWALK = 2
    BUILDING = 3
    WALL = 4
    FENCE = 5
    POLE = 6
    TRAFFIC_LIGHT = 7
    TRAFFIC_SIGN = 8
    VEGETATION = 9
    TERRAIN = 10
    SKY = 11
    PEDESTRIAN = 12
    RIDER = 13
    CAR = 14
    TRUCK = 15
    BUS = 16
    TRAIN = 17
    MOTORCYCLE = 18
    BICYCLE = 19
    STATIC = 20
    DYNAMIC = 21
    OTHER = 22
    WATER = 23
    ROAD_LINE = 24
    GROUND = 25
    BRIDGE = 26
    RAIL_TRACK = 27
    GUARD_RAIL = 28


FIRST_STATIC_ID = 0xC000
"""Instance ids 0xC000 to 0xFFFF belong to the map; actor ids never have such a low half."""


def next_actor_id(previous: int) -> int:
    """The id after `previous` whose low 16 bits are neither zero nor in the map's range."""
    candidate = previous + 1
    if candidate % 0x10000 >= FIRST_STATIC_ID or candidate % 0x10000 == 0:
        candidate = (candidate // 0x10000 + (candidate % 0x10000 != 0)) * 0x10000 + 1
    return candidate
