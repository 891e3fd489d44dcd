"""Real commands and processes for the end-to-end tests, and what a run leaves behind in comparable form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.outcome import differences, rows_of
from chaos.processes import BIN, Process, end
from chaos.subjects import copy_prepared
from fedagem.runs.folder import freeze_plan, plan_of_run
from fedagem.system import HeldPort
from tests.support.waiting import wait_for

PATIENCE = 600.0
"""Seconds for anything that works; a loaded machine needs many times what an idle one does."""
ROUNDS = 10
SETTINGS = [
    *("--rounds", str(ROUNDS)),
    *("--set", "task_runner.settings.model.template=models.mnist_cnn.SmallCNN"),
    *("--set", "data_loader.settings.clients=2"),
    *("--set", "data_loader.settings.partition.classes_per_client=5"),
    *("--set", "data_loader.settings.samples_per_client=64"),
    *("--set", "data_loader.settings.test_samples=100"),
]


_held: list[HeldPort] = []
"""The ports of the copies of runs, for as long as the tests run."""


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


def wait_until(happened: Callable[[], bool], process: Process | None = None) -> None:
    def look() -> bool:
        assert process is None or process.poll() is None, f"ended too early: {finish(process)}"
        return happened()

    wait_for(look, PATIENCE)


def reached(run: Path, round_number: int) -> Callable[[], bool]:
    """Whether something of a round has been aggregated."""
    return lambda: any(row["round"] >= round_number for row in rows_of(run))


def assert_same_outcome(run: Path, reference: Path) -> None:
    assert not differences(run, reference)


def fresh_copy(prepared: Path, target: Path) -> Path:
    """A prepared run (certificates, initial model) in which nothing has happened yet, with a port of its own."""
    copy_prepared(prepared, target)
    _held.append(HeldPort())
    change_plan_file(target, "network", agg_port=_held[-1].number)
    return target


def change_plan_file(run: Path, section: str, **settings: Any) -> None:
    """Put settings into a section of the plan that a run's processes follow."""
    freeze_plan(
        run, plan_of_run(run).changed({f"{section}.settings.{name}": value for name, value in settings.items()})
    )
