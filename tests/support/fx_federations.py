"""Real commands and processes for the end-to-end tests, and what a run leaves behind in comparable form."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedagem.files import read_state
from fedagem.runs.folder import freeze_plan, plan_of_run
from fedagem.system import free_port
from tests.support.waiting import wait_for

BIN = Path(sys.executable).parent
PATIENCE = 600.0
"""Seconds for anything that works; a loaded machine needs many times what an idle one does."""
MODELS = ("last.pbuf", "best.pbuf", "last.safetensors", "best.safetensors")
ROUNDS = 10
SETTINGS = [
    *("--rounds", str(ROUNDS)),
    *("--set", "task_runner.settings.model.template=models.mnist_cnn.SmallCNN"),
    *("--set", "data_loader.settings.clients=2"),
    *("--set", "data_loader.settings.partition.classes_per_client=5"),
    *("--set", "data_loader.settings.samples_per_client=64"),
    *("--set", "data_loader.settings.test_samples=100"),
]


class Process(subprocess.Popen[bytes]):
    """Leads a session of its own and speaks into a file: a pipe that nobody reads would stop it when full."""

    def __init__(self, *command: str | Path, cwd: Path | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )

    def said(self) -> str:
        """Everything it has said so far; its own place in the file is left alone."""
        descriptor = self._output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def fedagem(*arguments: str | Path) -> Process:
    return Process(BIN / "fedagem", *arguments)


def fx(directory: Path, *arguments: str) -> Process:
    return Process(BIN / "fx", *arguments, cwd=directory)


def finish(process: Process, patience: float = PATIENCE) -> tuple[int, str]:
    """The exit code and everything the process said; it and its children are gone afterwards."""
    try:
        return process.wait(patience), process.said()
    finally:
        end(process)


def end(*processes: Process) -> None:
    """End whatever is left of the processes and their children."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(happened: Callable[[], bool], process: Process | None = None) -> None:
    def look() -> bool:
        assert process is None or process.poll() is None, f"ended too early: {finish(process)}"
        return happened()

    wait_for(look, PATIENCE)


def rows_of(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def reached(run: Path, round_number: int) -> Callable[[], bool]:
    """Whether something of a round has been aggregated."""
    return lambda: any(row["round"] >= round_number for row in rows_of(run))


def outcome(run: Path) -> dict[str, Any]:
    """Everything that must not depend on how a run came about: metrics, models and the clients' memories."""
    clock = {"seconds", "train_seconds", "buffer_gradient_seconds", "bytes_down", "bytes_up"}
    states = {}
    for path in sorted((run / "local_state").rglob("*.state")):
        state = read_state(path)
        slots = {name: (tensor.dtype, tensor.numpy().tobytes()) for name, tensor in state["buffer"]["slots"].items()}
        key = str(path.relative_to(run))
        states[key] = {**state, "buffer": {**state["buffer"], "slots": slots}}
    return {
        "metrics": [row for row in rows_of(run) if row["metric"] not in clock],
        "models": {name: (run / "save" / name).read_bytes() for name in MODELS},
        "states": states,
    }


def assert_same_outcome(run: Path, reference: Path) -> None:
    ours, theirs = outcome(run), outcome(reference)
    assert ours["metrics"] == theirs["metrics"]
    assert ours["states"].keys() == theirs["states"].keys()
    for name, state in theirs["states"].items():
        assert ours["states"][name] == state, name
    for name, content in theirs["models"].items():
        assert ours["models"][name] == content, name


def fresh_copy(prepared: Path, target: Path) -> Path:
    """A prepared run (certificates, initial model) in which nothing has happened yet, with a port of its own."""
    left_behind = (
        "local_state",
        "metrics.jsonl",
        "results.json",
        "results.csv",
        "plots",
        "report.html",
        "tensorboard",
        "logs",
    )
    shutil.copytree(prepared, target, ignore=shutil.ignore_patterns(*left_behind, "checkpoint.state", *MODELS))
    (target / "logs").mkdir()
    change_plan_file(target, "network", agg_port=free_port())
    return target


def change_plan_file(run: Path, section: str, **settings: Any) -> None:
    """Put settings into a section of the plan that a run's processes follow."""
    freeze_plan(
        run, plan_of_run(run).changed({f"{section}.settings.{name}": value for name, value in settings.items()})
    )
