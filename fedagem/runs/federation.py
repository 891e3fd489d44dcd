"""Starting the processes of a plan on this machine: one that simulates, or a whole federation of `fx`."""

import sys
from pathlib import Path

from fedagem.runs.bridge_commands import fleet_command
from fedagem.plans.plan import Plan, collaborators
from fedagem.runs.processes import ProcessGroup
from fedagem.runs.folder import freeze_plan
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
    _prepare(group, plan)
    if plan["data_loader"]["settings"].get("stream"):
        _start_fleet(group, plan)
    fx = str(Path(sys.executable).with_name("fx"))
    group.start("aggregator", [fx, "aggregator", "start"])
    for name in collaborators(plan):
        group.start(name, [fx, "collaborator", "start", "-n", name])


def _prepare(group: ProcessGroup, plan: Plan) -> None:
    """Choose free ports and, the first time, make the initial model and the certificates."""
    plan["network"]["settings"] |= {"agg_addr": "localhost", "agg_port": free_port()}
    if stream := plan["data_loader"]["settings"].get("stream"):
        stream |= {"host": "127.0.0.1", "port": free_port()}
    freeze_plan(group.directory, plan)
    prepared = group.directory / "cert" / "prepared"
    if prepared.exists():
        return
    group.start("prepare", [sys.executable, "-m", "src.prepare"])
    group.wait(lambda: None)
    prepared.touch()


def _start_fleet(group: ProcessGroup, plan: Plan) -> None:
    """Let the vehicles drive, and wait until their frames can be asked for."""
    ready = group.directory / _FLEET_READY
    ready.unlink(missing_ok=True)
    port = plan["data_loader"]["settings"]["stream"]["port"]
    group.start("fleet", fleet_command("plan/plan.yaml", port, _FLEET_READY), service=True)
    group.wait_for_service(ready.exists)
