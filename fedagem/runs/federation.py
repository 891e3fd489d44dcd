"""Starting the processes of a plan on this machine: one that simulates, or a whole federation of `fx`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carla_bridge.stream.identity import TOKEN_VARIABLE, new_token
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.bridge_commands import check_bridge, fleet_command
from fedagem.runs.folder import freeze_plan
from fedagem.runs.processes import ProcessGroup
from fedagem.runs.standing import forget_standing

_FLEET_READY = "logs/fleet.ready"


def start_simulation(group: ProcessGroup, plan: Plan, workers: int = 1, devices: Sequence[str] = ()) -> None:
    """Start the whole federation without sockets; if devices are named, each of them gets so many workers."""
    group.claim()
    forget_standing(group.directory)
    freeze_plan(group.directory, plan)
    places = [part for device in devices for part in ("--device", device)]
    group.start("simulation", [sys.executable, "-m", "src.simulate", "--workers", str(workers), *places])


def start_federation(group: ProcessGroup, plan: Plan) -> None:
    """Start the aggregator and the collaborators over mutual TLS, and the fleet if frames are driven live."""
    group.claim()
    forget_standing(group.directory)
    plan = plan.changed({"network.settings.agg_addr": "localhost", "network.settings.agg_port": group.hold_port()})
    freeze_plan(group.directory, plan)
    secrets = {TOKEN_VARIABLE: new_token()} if _is_live(plan) else {}
    if _is_live(plan):
        _start_fleet(group, secrets)
    _prepare(group)
    if _is_live(plan):
        freeze_plan(group.directory, plan.changed({"data_loader.settings.stream": _stream_address(group)}))
    fx = str(Path(sys.executable).with_name("fx"))
    group.start("aggregator", [fx, "aggregator", "start"])
    for name in plan.workload.collaborators:
        group.start(name, [fx, "collaborator", "start", "-n", name], secrets=secrets)


def check_fleet(plan: Plan) -> None:
    """Refuse a federation that drives live if the packages are missing that driving needs."""
    if _is_live(plan) and plan.carla is not None:
        check_bridge([plan.carla])


def _is_live(plan: Plan) -> bool:
    return isinstance(plan.data, DrivingSettings) and plan.data.stream is not None


def _prepare(group: ProcessGroup) -> None:
    """Make the initial model and the certificates, the first time."""
    prepared = group.directory / "cert" / "prepared"
    if prepared.exists():
        return
    group.start("prepare", [sys.executable, "-m", "src.prepare"])
    group.wait(lambda: None)
    prepared.touch()


def _start_fleet(group: ProcessGroup, secrets: Mapping[str, str]) -> None:
    """Let the vehicles drive, and serve their frames to whoever knows the run's token."""
    (group.directory / _FLEET_READY).unlink(missing_ok=True)
    group.start("fleet", fleet_command("plan/plan.yaml", _FLEET_READY), service=True, secrets=secrets)


def _stream_address(group: ProcessGroup) -> dict[str, Any]:
    """Where the fleet serves, as soon as it does."""
    ready = group.directory / _FLEET_READY
    group.wait_for_service(ready.exists)
    host, _, port = ready.read_text(encoding="utf-8").rpartition(":")
    return {"host": host, "port": int(port)}
