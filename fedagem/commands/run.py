"""`fedagem run`: a real federation on this machine, processes of `fx` over mutual TLS."""

import socket
import sys
from pathlib import Path

import click
import yaml

from fedagem.errors import FedAGemError
from fedagem.finish import finish_run, interrupted
from fedagem.live_view import LiveView
from fedagem.plan import Plan, collaborators
from fedagem.processes import ProcessGroup
from fedagem.run_options import RunRequest, run_options


@click.command(name="run")
@run_options
def command(request: RunRequest) -> None:
    """Run PLAN as a federation of `fx` processes over mutual TLS on this machine."""
    directory, plan = request.open_run()
    rounds = plan["aggregator"]["settings"]["rounds_to_train"]
    try:
        with LiveView(directory, directory.name, rounds) as view, ProcessGroup(directory) as group:
            _prepare(directory, plan, group)
            fx = str(Path(sys.executable).with_name("fx"))
            group.start("aggregator", [fx, "aggregator", "start"])
            for name in collaborators(plan):
                group.start(name, [fx, "collaborator", "start", "-n", name])
            group.wait(view.refresh)
    except KeyboardInterrupt:
        interrupted("run", request, directory)
    finish_run(directory)


def _prepare(directory: Path, plan: Plan, group: ProcessGroup) -> None:
    """Choose a free port and, the first time, make the initial model and the certificates."""
    plan["network"]["settings"] |= {"agg_addr": "localhost", "agg_port": _free_port()}
    (directory / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    prepared = directory / "cert" / "prepared"
    if prepared.exists():
        return
    group.start("prepare", [sys.executable, "-m", "src.prepare"])
    group.wait(lambda: None)
    prepared.touch()


def _free_port() -> int:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as problem:
            raise FedAGemError(f"no port is free on this machine: {problem}.") from problem
        port: int = probe.getsockname()[1]
        return port
