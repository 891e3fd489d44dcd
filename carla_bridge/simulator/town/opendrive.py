"""The road network as OpenDRIVE 1.4, which the client's map, waypoints and topology are built from.

OpenDRIVE's y points the other way than CARLA's, so headings and curvatures change sign too.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from carla_bridge.simulator.town.road_network import (
    Junction,
    LaneSpec,
    LaneType,
    Road,
    RoadKind,
    RoadNetwork,
    Turn,
)
from carla_bridge.simulator.town.road_signals import Signal

LATITUDE, LONGITUDE = 49.0, 8.0
"""Where on earth (0, 0) lies."""


def opendrive(network: RoadNetwork, name: str, lights: Sequence[Signal], signs: Sequence[Signal]) -> str:
    """The whole map as an XML document."""
    root = Xml.Element("OpenDRIVE")
    header = _add(root, "header", revMajor=1, revMinor=4, name=name, version=1.0)
    reference = Xml.SubElement(header, "geoReference")
    reference.text = f"+proj=tmerc +lat_0={LATITUDE} +lon_0={LONGITUDE} +k=1 +x_0=0 +y_0=0 +datum=WGS84"
    turns = {turn.connecting[0]: turn for junction in network.junctions.values() for turn in junction.turns}
    for road in network.roads.values():
        beside = [signal for signal in (*lights, *signs) if signal.road == road.id]
        _road(root, road, turns.get(road.id), beside, lights)
    for light in lights:
        controller = _add(root, "controller", id=f"controller_{light.id}", name=light.id, sequence=0)
        _add(controller, "control", signalId=light.id, type=0)
    for junction in network.junctions.values():
        _junction(root, junction, [light for light in lights if light.junction == junction.id])
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode")


def _add(parent: Xml.Element, tag: str, **attributes: object) -> Xml.Element:
    return Xml.SubElement(parent, tag, {key: _text(value) for key, value in attributes.items()})


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _road(
    root: Xml.Element,
    road: Road,
    turn: Turn | None,
    beside: Sequence[Signal],
    lights: Sequence[Signal],
) -> None:
    inside = -1 if road.junction is None else road.junction
    element = _add(root, "road", name=road.name, length=road.reference.length, id=road.id, junction=inside)
    link = _add(element, "link")
    if turn is None:
        _add(link, "predecessor", elementType="junction", elementId=road.start_junction)
        _add(link, "successor", elementType="junction", elementId=road.end_junction)
    else:
        before = "end" if turn.incoming[1] < 0 else "start"
        after = "start" if turn.outgoing[1] < 0 else "end"
        _add(link, "predecessor", elementType="road", elementId=turn.incoming[0], contactPoint=before)
        _add(link, "successor", elementType="road", elementId=turn.outgoing[0], contactPoint=after)
    kind = "motorway" if road.kind is RoadKind.HIGHWAY else "town"
    _add(_add(element, "type", s=0, type=kind), "speed", max=road.speed_limit, unit="km/h")
    _plan_view(element, road)
    profile = _add(element, "elevationProfile")
    _add(profile, "elevation", s=0, a=0, b=0, c=0, d=0)
    _lanes(element, road, turn)
    signals = _add(element, "signals")
    for signal in beside:
        _signal(signals, signal)
    if turn is not None:
        for light in lights:
            if turn.incoming in light.lanes:
                away = _add(signals, "signalReference", s=0, t=0, id=light.id, orientation="+")
                _add(away, "validity", fromLane=-1, toLane=-1)


def _plan_view(element: Xml.Element, road: Road) -> None:
    plan = _add(element, "planView")
    for (s, x, y, yaw), piece in zip(road.reference.starts(), road.reference.segments, strict=False):
        geometry = _add(plan, "geometry", s=s, x=x, y=-y, hdg=-yaw, length=piece.length)
        if piece.curvature:
            _add(geometry, "arc", curvature=-piece.curvature)
        else:
            _add(geometry, "line")


def _lanes(element: Xml.Element, road: Road, turn: Turn | None) -> None:
    lanes = _add(element, "lanes")
    _add(lanes, "laneOffset", s=0, a=0, b=0, c=0, d=0)
    section = _add(lanes, "laneSection", s=0)
    if road.left:
        left = _add(section, "left")
        for number in range(len(road.left), 0, -1):
            _lane(left, number, road.left, turn)
    centre = _add(_add(section, "center"), "lane", id=0, type="none", level="false")
    _mark(centre, "solid" if road.left else "none", "yellow" if road.left else "standard")
    right = _add(section, "right")
    for number in range(1, len(road.right) + 1):
        _lane(right, -number, road.right, turn)


def _lane(side: Xml.Element, number: int, specs: Sequence[LaneSpec], turn: Turn | None) -> None:
    spec = specs[abs(number) - 1]
    lane = _add(side, "lane", id=number, type=spec.type.value, level="false")
    link = _add(lane, "link")
    if turn is not None:
        _add(link, "predecessor", id=turn.incoming[1])
        _add(link, "successor", id=turn.outgoing[1])
    _add(lane, "width", sOffset=0, a=spec.width, b=0, c=0, d=0)
    between = abs(number) < len(specs) and spec.type is LaneType.DRIVING and specs[abs(number)].type is LaneType.DRIVING
    line = "broken" if between else "solid" if spec.type is LaneType.DRIVING and turn is None else "none"
    _mark(lane, line, "standard")


def _mark(lane: Xml.Element, line: str, colour: str) -> None:
    change = "both" if line == "broken" else "none"
    _add(
        lane,
        "roadMark",
        sOffset=0,
        type=line,
        weight="standard",
        color=colour,
        width=0.14,
        laneChange=change,
    )


def _signal(signals: Xml.Element, signal: Signal) -> None:
    lanes = [number for _, number in signal.lanes]
    light = signal.speed is None
    element = _add(
        signals,
        "signal",
        s=signal.s,
        t=signal.t,
        id=signal.id,
        name="Signal_3Light_Post01" if light else f"Speed_{signal.speed}",
        dynamic="yes" if light else "no",
        orientation="+" if signal.along else "-",
        zOffset=4.6 if light else 2.2,
        country="OpenDRIVE",
        type="1000001" if light else "274",
        subtype="-1" if light else str(signal.speed),
        value=-1 if light else signal.speed,
        unit="" if light else "km/h",
        height=1.0,
        width=0.4,
        text="",
        hOffset=0.0,
        pitch=0.0,
        roll=0.0,
    )
    _add(element, "validity", fromLane=min(lanes), toLane=max(lanes))


def _junction(root: Xml.Element, junction: Junction, lights: Sequence[Signal]) -> None:
    element = _add(root, "junction", id=junction.id, name=f"Junction {junction.id}")
    for number, turn in enumerate(junction.turns):
        connection = _add(
            element,
            "connection",
            id=number,
            incomingRoad=turn.incoming[0],
            connectingRoad=turn.connecting[0],
            contactPoint="start",
        )
        _add(connection, "laneLink", **{"from": turn.incoming[1], "to": turn.connecting[1]})
    for light in lights:
        _add(element, "controller", id=f"controller_{light.id}", type=0, sequence=0)
