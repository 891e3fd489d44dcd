"""Reads the `carla` section of a plan, and says what is wrong with it and where."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from carla_bridge.annotation import Annotator
from carla_bridge.config.schedule import parse_schedule
from carla_bridge.config.section import (
    EVERYWHERE,
    CameraConfig,
    Encoding,
    FleetConfig,
    RegionRule,
    ServerConfig,
    StreamConfig,
    TrafficConfig,
    VehicleConfig,
)
from carla_bridge.config.settings import Settings
from carla_bridge.errors import ConfigError
from carla_bridge.tags import DEFAULT_SPLIT, DEFAULT_TAGS


def read_plan(path: Path | str) -> dict[str, Any]:
    """The `carla` section of a plan file, unchecked."""
    try:
        plan = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"the plan {path} cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the plan {path} is not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(plan, dict) or not isinstance(plan.get("carla"), dict):
        raise ConfigError(f"the plan {path} has no 'carla' section")
    section: dict[str, Any] = plan["carla"]
    return section


def parse_config(section: Mapping[str, Any]) -> FleetConfig:
    """Check the section from top to bottom; the first mistake is named with its place."""
    top = Settings(section, "carla")
    server = _server(top)
    tags = _tags(top.take("classes"))
    delta = top.number("fixed_delta_seconds", 0.05, 0.001, 0.1)
    config = FleetConfig(
        server=server,
        seed=top.whole("seed", 0, 0, 2**31 - 1),
        fixed_delta_seconds=delta,
        ticks_per_frame=_ticks_per_frame(top.number("frames_per_second", 1.0, 0.001, 1000.0), delta),
        camera=_camera(top.section("image")),
        vehicles=_vehicles(section.get("vehicles"), top.sections("vehicles")),
        traffic={name: _traffic(part) for name, part in top.named_sections("traffic").items()},
        regions={name: _region(part) for name, part in top.named_sections("regions").items()},
        schedule=parse_schedule(top.sections("schedule")),
        tags=tags,
        split=_split(top.take("split_classes"), tags),
        min_pixels=top.whole("min_pixels", 16, 1, 10**6),
        keep_parked=top.choice("parked_vehicles", "keep", ("keep", "drop")) == "keep",
        stuck_seconds=top.number("stuck_seconds", 90.0, 1.0, 1e6),
        traffic_radius=top.optional_number("traffic_radius", 100.0, 1e5),
        ignore_lights=top.number("ignore_lights", 0.0, 0.0, 100.0),
        stream=_stream(top.section("stream")),
    )
    top.close()
    _check_names(config)
    return config


def _server(top: Settings) -> ServerConfig:
    embedded = top.choice("simulator", None, (None, "embedded")) == "embedded"
    host = top.optional_text("host")
    if embedded and host is not None:
        raise ConfigError(f"carla.simulator and carla.host ({host}) exclude each other; keep one of them")
    tm_port = top.whole("traffic_manager_port", 0, 0, 65535)
    return ServerConfig(
        host=host or "127.0.0.1",
        port=top.whole("port", 2000, 1, 65535),
        embedded=embedded,
        town=top.optional_text("town"),
        timeout_seconds=top.number("timeout_seconds", 20.0, 0.5, 600.0),
        traffic_manager_port=tm_port or None,
    )


def _ticks_per_frame(frames_per_second: float, delta: float) -> int:
    ticks = 1 / (frames_per_second * delta)
    if round(ticks) < 1 or abs(ticks - round(ticks)) > 1e-6 * ticks:
        raise ConfigError(
            f"carla.frames_per_second {frames_per_second:g} does not divide the {1 / delta:g} steps per second "
            f"of carla.fixed_delta_seconds {delta:g}; a frame is taken after a whole number of steps"
        )
    return round(ticks)


def _camera(part: Settings) -> CameraConfig:
    camera = CameraConfig(
        width=part.whole("width", 416, 16, 4096),
        height=part.whole("height", 256, 16, 4096),
        fov=part.number("fov", 90.0, 10.0, 170.0),
        x=part.number("x", 1.2, -10.0, 10.0),
        z=part.optional_number("z", 0.0, 20.0),
        pitch=part.number("pitch", 0.0, -90.0, 90.0),
    )
    part.close()
    return camera


def _vehicles(given: Any, parts: list[Settings]) -> tuple[VehicleConfig, ...]:
    if given is None:
        return FleetConfig().vehicles
    if not parts:
        raise ConfigError("carla.vehicles names no vehicle")
    vehicles = []
    for part in parts:
        name = part.text("name")
        vehicles.append(VehicleConfig(name, part.text("region", EVERYWHERE), part.optional_text("blueprint")))
        part.close()
    names = [vehicle.name for vehicle in vehicles]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"carla.vehicles names {name!r} twice")
        if not name.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"carla.vehicles has the name {name!r}; use letters, digits, '-' and '_'")
    return tuple(vehicles)


def _traffic(part: Settings) -> TrafficConfig:
    numbers = {key: part.whole(key, 0, 0, 1000) for key in ("vehicles", "two_wheelers", "walkers")}
    part.close()
    return TrafficConfig(**numbers)


def _region(part: Settings) -> RegionRule:
    rule = RegionRule(
        spawn_points=part.wholes("spawn_points"),
        roads=part.wholes("roads"),
        min_speed=part.optional_number("min_speed", 0.0, 500.0),
        max_speed=part.optional_number("max_speed", 0.0, 500.0),
        min_lanes=part.whole("min_lanes", 1, 1, 20),
        max_lanes=part.whole("max_lanes", 20, 1, 20),
    )
    part.close()
    return rule


def _tags(value: Any) -> dict[str, tuple[int, ...]]:
    if value is None:
        return dict(DEFAULT_TAGS)
    part = Settings({"classes": value}, "carla").section("classes")
    tags = {name: part.wholes(name) or () for name in list(value)}
    if not tags:
        raise ConfigError("carla.classes names no class")
    try:
        Annotator(tags)
    except ValueError as error:
        raise ConfigError(f"carla.classes: {error}") from error
    return tags


def _split(value: Any, tags: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    if value is None:
        return tuple(name for name in DEFAULT_SPLIT if name in tags)
    if not isinstance(value, list) or not all(name in tags for name in value):
        raise ConfigError(f"carla.split_classes is {value!r}, not a list of names from {', '.join(tags)}")
    return tuple(value)


def _stream(part: Settings) -> StreamConfig:
    encoding: Encoding = part.choice("encoding", "raw", ("raw", "png", "jpeg"))  # type: ignore[assignment]
    stream = StreamConfig(
        host=part.text("host", "127.0.0.1"),
        port=part.whole("port", 4400, 0, 65535),
        window_seconds=part.number("window_seconds", 200.0, 0.001, 1e6),
        encoding=encoding,
        jpeg_quality=part.whole("jpeg_quality", 95, 1, 100),
    )
    part.close()
    return stream


def _check_names(config: FleetConfig) -> None:
    regions = {EVERYWHERE, *config.regions}
    vehicles = {vehicle.name for vehicle in config.vehicles}
    used = [("carla.vehicles", vehicle.region) for vehicle in config.vehicles]
    used += [("carla.traffic", name) for name in config.traffic]
    used += [("carla.schedule", move.region) for move in config.schedule.moves]
    for place, region in used:
        if region not in regions:
            known = ", ".join(sorted(regions))
            raise ConfigError(f"{place} uses the region {region!r}; carla.regions knows {known}")
    for move in config.schedule.moves:
        if move.vehicle not in vehicles:
            known = ", ".join(sorted(vehicles))
            raise ConfigError(f"carla.schedule moves {move.vehicle!r}; carla.vehicles knows {known}")
