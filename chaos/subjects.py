"""What is broken: small federations, each with an undisturbed run that every disturbed one must equal."""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chaos.outcome import MODELS
from chaos.processes import BIN
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan, workspace_source
from fedagem.runs.folder import freeze_plan, plan_of_run
from fedagem.system import HeldPort

DIGITS: Mapping[str, Any] = {
    "task_runner.settings.model.template": "models.mnist_cnn.SmallCNN",
    "data_loader.settings.clients": 2,
    "data_loader.settings.partition.classes_per_client": 5,
    "data_loader.settings.samples_per_client": 64,
    "data_loader.settings.test_samples": 100,
}
_SIZE = [160, 96]
DRIVE: Mapping[str, Any] = {
    "carla.image": {"width": _SIZE[0], "height": _SIZE[1], "fov": 90},
    "carla.min_pixels": 4,
    "carla.traffic": {"city": {"vehicles": 6, "walkers": 2}, "highway": {"vehicles": 6}},
    "carla.schedule": [{"at": 16, "vehicle": "vehicle_2", "region": "highway"}],
    "driving.evaluation_seconds": 3,
    "driving.evaluation_vehicles": 2,
    "warm_up": {"seconds": 3, "rounds": 1},
    "aggregator.settings.snapshots": [],
    "data_loader.settings.seconds_per_round": 2,
    "data_loader.settings.input_size": _SIZE,
    "data_loader.settings.batch_size": 2,
    "data_loader.settings.epochs": 1,
    "task_runner.settings.model.settings.input_size": _SIZE,
    "task_runner.settings.model.settings.width": 0.125,
    "task_runner.settings.objective.settings.min_size": 0,
}
_LEFT_BEHIND = (
    "local_state",
    "metrics.jsonl",
    "results.json",
    "results.csv",
    "plots",
    "report.html",
    "tensorboard",
    "logs",
    "checkpoint.state",
    *MODELS,
)


def copy_prepared(prepared: Path, target: Path) -> None:
    """A prepared run (certificates, initial model) in which nothing has happened yet."""
    shutil.copytree(prepared, target, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
    (target / "logs").mkdir()


class Federation(Protocol):
    """What is broken."""

    @property
    def name(self) -> str:
        """What it is called in the ledger."""

    @property
    def reference(self) -> Path:
        """An undisturbed run."""

    @property
    def by_hand(self) -> bool:
        """Whether its processes are started one by one; otherwise by one command."""

    @property
    def collaborators(self) -> list[str]:
        """Their names."""

    def commands(self, run: Path) -> dict[str, list[str]]:
        """What a person starts, by the role of each process."""


@dataclass(frozen=True)
class Subject:
    """A federation of real processes, started with `fx` by hand or by `fedagem run`."""

    name: str
    reference: Path
    """An undisturbed run."""
    plan: Path
    by_hand: bool

    @property
    def collaborators(self) -> list[str]:
        """Their names."""
        return list(plan_of_run(self.reference).workload.collaborators)

    def lay_out(self, run: Path, port: int) -> None:
        """A folder in which nothing has happened yet; the aggregator will listen on a port of its own."""
        copy_prepared(self.reference, run)
        shutil.copytree(workspace_source() / "src", run / "src", dirs_exist_ok=True)  # it may be newer
        patient = {"collaborator.settings.connect_seconds": 30.0, "network.settings.client_reconnect_interval": 1}
        freeze_plan(run, plan_of_run(run).changed({"network.settings.agg_port": port, **patient}))
        for name in self.collaborators:
            (run / "local_state" / name).mkdir(parents=True)  # where writes are waited for

    def commands(self, run: Path) -> dict[str, list[str]]:
        """What a person starts, by the role of each process."""
        if not self.by_hand:
            return {"command": [str(BIN / "fedagem"), "run", str(self.plan), "--out", str(run), "--resume"]}
        fx = str(BIN / "fx")
        collaborators = {name: [fx, "collaborator", "start", "-n", name] for name in self.collaborators}
        return {"aggregator": [fx, "aggregator", "start"], **collaborators}


def make_digits(folder: Path, rounds: int) -> Path:
    """A plan of handwritten digits."""
    plan = Plan.load(find_plan("rotated_digits")).changed(DIGITS, rounds=rounds)
    return _written(plan, folder / "digits.yaml")


def make_live(folder: Path, rounds: int) -> Path:
    """A plan of vehicles that are driving while the federation learns from them."""
    changes = {**DRIVE, "driving.snippets": str(folder / "snippets")}
    return _written(Plan.load(find_plan("carla_demo")).changed(changes, rounds=rounds), folder / "drive.yaml")


def make_drive(folder: Path, rounds: int) -> Path:
    """A plan of vehicles whose drives were recorded before, with all that was made on the way."""
    path = make_live(folder, rounds)
    out = folder / "comparison"
    _run("compare", path, "--methods", "der+fedagem", "--out", out)  # what is there is not done again
    [run] = out.glob("*-seed0")
    return _written(plan_of_run(run), folder / "recorded.yaml")


def make_reference(plan: Path, out: Path) -> Path:
    """An undisturbed run, unless there is one."""
    if not (out / "results.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        _run("run", plan, "--out", out)
    return out


def hold_port() -> "closing[HeldPort]":
    """A port that nobody else can take."""
    return closing(HeldPort())


def _written(plan: Plan, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan.to_yaml(), encoding="utf-8")
    return path


def _run(*arguments: str | Path) -> None:
    done = subprocess.run([BIN / "fedagem", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stderr[-3000:]}")
