"""`fedagem run`: a real federation on this machine, processes of `fx` over mutual TLS."""

import socket
import sys
from pathlib import Path

import click
import yaml

from fedagem.drive import add_evaluation_frames, fleet_command, is_driving
from fedagem.errors import FedAGemError
from fedagem.finish import finish_run, interrupted
from fedagem.live_view import LiveView
from fedagem.plan import Plan, collaborators
from fedagem.processes import ProcessGroup
from fedagem.run_options import RunRequest, run_options

_FLEET_READY = "logs/fleet.ready"


@click.command(name="run")
@run_options
def command(request: RunRequest) -> None:
    """Run PLAN as a federation of `fx` processes over mutual TLS on this machine, with its simulator and fleet."""
    directory, plan = request.open_run()
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    try:
        if is_driving(plan) and not plan["data_loader"]["settings"].get("evaluation", {}).get("paths"):
            add_evaluation_frames(plan, request.plan_path.stem)
        with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
            _prepare(directory, plan, group)
            if plan["data_loader"]["settings"].get("stream"):
                _start_fleet(directory, plan, group)
            fx = str(Path(sys.executable).with_name("fx"))
            group.start("aggregator", [fx, "aggregator", "start"])
            for name in collaborators(plan):
                group.start(name, [fx, "collaborator", "start", "-n", name])
            group.wait(view.refresh)
    except KeyboardInterrupt:
        interrupted("run", request, directory)
    finish_run(directory)


def _prepare(directory: Path, plan: Plan, group: ProcessGroup) -> None:
    """Choose free ports and, the first time, make the initial model and the certificates."""
    plan["network"]["settings"] |= {"agg_addr": "localhost", "agg_port": _free_port()}
    if stream := plan["data_loader"]["settings"].get("stream"):
        stream |= {"host": "127.0.0.1", "port": _free_port()}
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    prepared = directory / "cert" / "prepared"
    if prepared.exists():
        return
    group.start("prepare", [sys.executable, "-m", "src.prepare"])
    group.wait(lambda: None)
    prepared.touch()


def _start_fleet(directory: Path, plan: Plan, group: ProcessGroup) -> None:
    """Let the vehicles drive, and wait until their frames can be asked for."""
    ready = directory / _FLEET_READY
    ready.unlink(missing_ok=True)
    port = plan["data_loader"]["settings"]["stream"]["port"]
    group.start("fleet", fleet_command("plan/plan.yaml", port, _FLEET_READY), service=True)
    group.wait_for_service(ready.exists)


def _free_port() -> int:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as problem:
            raise FedAGemError(f"no port is free on this machine: {problem}.") from problem
        port: int = probe.getsockname()[1]
        return port
