"""What a process of a federation is doing at a moment, from what the aggregator says of the federation."""

from pathlib import Path

import psutil

from chaos.ledger import IDLE
from fedagem.errors import FedAGemError
from fedagem.runs.standing import Standing, read_standing

STATELESS = frozenset({"command", "fleet", "simulator"})
"""Who writes no state; what a fleet has driven is driven again."""


def standing_of(run: Path) -> Standing | None:
    """Where the federation stands; None if nothing can be read."""
    try:
        return read_standing(run)
    except FedAGemError:
        return None


def phase_of(run: Path, role: str, pid: int) -> str:
    """`starting`, the stage in which the process works, `waiting` if it has nothing to do, `ending`."""
    standing = standing_of(run)
    try:
        born = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return IDLE
    if standing is None:
        return "starting"
    if role in STATELESS:
        return "ending" if standing.ended is not None else "starting" if standing.since < born else "rounds"
    if role == "aggregator":
        return "starting" if standing.pid != pid else IDLE if standing.ended is not None else standing.stage
    return IDLE if standing.ended is not None else _phase_of_collaborator(standing, role, born)


def _phase_of_collaborator(standing: Standing, role: str, born: float) -> str:
    if role not in standing.awaited:
        return IDLE
    heard = standing.awaited[role]
    if heard is None or heard < born:
        return "starting"
    return standing.stage if heard >= standing.since else IDLE


def roles_of(command: int) -> dict[str, int]:
    """The processes of a `fedagem run` by their roles, with the command itself."""
    roles = {"command": command}
    try:
        for child in psutil.Process(command).children(recursive=True):
            words = child.cmdline()
            if words[-2:] == ["aggregator", "start"]:
                roles["aggregator"] = child.pid
            elif words[-4:-1] == ["collaborator", "start", "-n"]:
                roles[words[-1]] = child.pid
            elif "serve" in words and "--ready-file" in words:
                roles["fleet"] = child.pid
            elif "carla_bridge.fleet_process.simulator_server" in words:
                roles["simulator"] = child.pid
    except psutil.NoSuchProcess:
        pass
    return roles


def kind_of(role: str) -> str:
    """What a role is called in the ledger."""
    return role if role in {"aggregator", *STATELESS} else "collaborator"
