"""Follows a run's metrics.jsonl and hands every finished round to a tracker, once, also after an interruption."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from fedagem.errors import FedAGemError
from fedagem.files import write_file
from fedagem.plans.plan import Plan
from fedagem.runs.folder import requested_plan
from fedagem.runs.metrics_log import LOG_NAME, MetricRow, read_metrics, series_of

Parameters = dict[str, Any]


class Tracker(Protocol):
    """What a tracker is asked for; it keeps to one run of its own, whose id is remembered for a resumed run."""

    @property
    def run_id(self) -> str:
        """What the run is called in the tracker's own store."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Metrics after so many rounds of training."""

    def add_files(self, pictures: list[Path], models: list[Path], others: list[Path]) -> None:
        """What the run leaves behind."""

    def close(self, succeeded: bool) -> None:
        """The run is over, or stops here for now."""


Open = Callable[[Path, Plan, Parameters, str | None], Tracker]
"""From the run's folder, its plan, its parameters and the id of a run to go on with."""


class TrackedRun:
    """One run and its tracker.

    Training never depends on a tracker: if that fails after it was opened, tracking stops with a warning. The run's
    files hold everything that was not handed over.
    """

    def __init__(self, directory: Path, kind: str, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._kind = kind
        self._warn = warn
        self._state_file = directory / "tracking" / f"{kind}.json"
        self._size = -1
        state = json.loads(self._state_file.read_text(encoding="utf-8")) if self._state_file.exists() else {}
        self._logged: int = state.get("logged", -1)
        """The last number of rounds of training whose metrics were handed over."""
        self.complete: bool = state.get("complete", False)
        plan = requested_plan(directory)
        self._tracker: Tracker | None = None
        if not self.complete:
            self._tracker = _opener(kind)(directory, plan, parameters_of(plan), state.get("run_id"))
            self._remember()

    def update(self) -> None:
        """Hand over the rounds that have ended since; cheap if nothing was written."""
        path = self._directory / LOG_NAME
        size = path.stat().st_size if path.exists() else 0
        if self._tracker is not None and size != self._size and size:
            self._size = size
            rows = read_metrics(self._directory)
            self._guarded(lambda tracker: self._hand_over(tracker, rows, max(row.trained for row in rows)))

    def finish(self) -> None:
        """Hand over the rest of the metrics, the pictures and the models."""

        def everything(tracker: Tracker) -> None:
            rows = read_metrics(self._directory)
            self._hand_over(tracker, rows, max(row.trained for row in rows) + 1)
            pictures = sorted(self._directory.glob("plots/*.png"))
            models = sorted(self._directory.glob("save/*.safetensors"))
            names = ("plan/requested.yaml", "results.json", "results.csv", "report.html", LOG_NAME)
            others = [self._directory / name for name in names if (self._directory / name).exists()]
            tracker.add_files(pictures, models, others)
            tracker.close(succeeded=True)
            self.complete = True
            self._remember()

        self._guarded(everything)
        self._tracker = None

    def stop(self) -> None:
        """The run was interrupted; its tracker's run is resumed with it."""
        self._guarded(lambda tracker: tracker.close(succeeded=False))
        self._tracker = None

    def _hand_over(self, tracker: Tracker, rows: list[MetricRow], until: int) -> None:
        by_step: dict[int, dict[str, float]] = {}
        for row in rows:
            if self._logged < row.trained < until:
                by_step.setdefault(row.trained, {}).update(series_of(row))
        for step, values in sorted(by_step.items()):
            tracker.log(values, step)
            self._logged = step
            self._remember()

    def _remember(self) -> None:
        if self._tracker is not None:
            state = {"run_id": self._tracker.run_id, "logged": self._logged, "complete": self.complete}
            write_file(self._state_file, json.dumps(state) + "\n")

    def _guarded(self, act: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            act(self._tracker)
        except Exception as problem:  # a tracker may raise anything: a server that is gone, a full disk
            self._tracker = None
            reason = " ".join(str(problem).split()) or type(problem).__name__
            self._warn(f"{self._kind} stopped tracking after round {max(self._logged, 0)}: {reason}")


def parameters_of(plan: Plan) -> Parameters:
    """Every setting of a plan by its dotted path, and what the run is known by."""
    known = {"plan": plan.name, "plan_digest": plan.digest, "method": plan.training.short_name, "seed": plan.seed}
    return {**known, **plan.by_path()}


def require_tracker(kind: str) -> None:
    """Refuse a tracker whose package is missing, before anything is written."""
    if kind != "tensorboard" and importlib.util.find_spec(kind) is None:
        raise FedAGemError(f"--track {kind} needs its package: `pip install 'fedagem[{kind}]'`.")


def _opener(kind: str) -> Open:
    require_tracker(kind)
    if kind == "mlflow":
        from fedagem.reports.tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker
    if kind == "wandb":
        from fedagem.reports.tracking.wandb_tracker import WandbTracker

        return WandbTracker
    from fedagem.reports.tensorboard import TensorboardTracker

    return TensorboardTracker
