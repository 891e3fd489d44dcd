"""Starting the processes of a plan on this machine: one that simulates, or a whole federation of `fx`."""

import sys
from pathlib import Path
from typing import Any

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.runs.bridge_commands import check_bridge, fleet_command
from fedagem.runs.folder import freeze_plan
from fedagem.runs.processes import ProcessGroup
from fedagem.system import free_port

_FLEET_READY = "logs/fleet.ready"


def start_simulation(group: ProcessGroup, plan: Plan, workers: int = 1) -> None:
    """Start the whole federation without sockets."""
    group.claim()
    freeze_plan(group.directory, plan)
    group.start("simulation", [sys.executable, "-m", "src.simulate", "--workers", str(workers)])


def start_federation(group: ProcessGroup, plan: Plan) -> None:
    """Start the aggregator and the collaborators over mutual TLS, and the fleet if frames are driven live."""
    group.claim()
    stream_port = free_port() if _is_live(plan) else None
    _prepare(group, plan, stream_port)
    if stream_port is not None:
        _start_fleet(group, stream_port)
    fx = str(Path(sys.executable).with_name("fx"))
    group.start("aggregator", [fx, "aggregator", "start"])
    for name in plan.workload.collaborators:
        group.start(name, [fx, "collaborator", "start", "-n", name])


def check_fleet(plan: Plan) -> None:
    """Refuse a federation that drives live if the packages are missing that driving needs."""
    if _is_live(plan) and plan.carla is not None:
        check_bridge([plan.carla])


def _is_live(plan: Plan) -> bool:
    return isinstance(plan.data, DrivingSettings) and plan.data.stream is not None


def _prepare(group: ProcessGroup, plan: Plan, stream_port: int | None) -> None:
    """Choose free ports and, the first time, make the initial model and the certificates."""
    found: dict[str, Any] = {"network.settings.agg_addr": "localhost", "network.settings.agg_port": free_port()}
    if stream_port is not None:
        found["data_loader.settings.stream"] = {"host": "127.0.0.1", "port": stream_port}
    freeze_plan(group.directory, plan.changed(found))
    prepared = group.directory / "cert" / "prepared"
    if prepared.exists():
        return
    group.start("prepare", [sys.executable, "-m", "src.prepare"])
    group.wait(lambda: None)
    prepared.touch()


def _start_fleet(group: ProcessGroup, port: int) -> None:
    """Let the vehicles drive, and wait until their frames can be asked for."""
    ready = group.directory / _FLEET_READY
    ready.unlink(missing_ok=True)
    group.start("fleet", fleet_command("plan/plan.yaml", port, _FLEET_READY), service=True)
    group.wait_for_service(ready.exists)
