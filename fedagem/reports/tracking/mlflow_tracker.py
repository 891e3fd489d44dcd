"""A run in MLflow: the server of MLFLOW_TRACKING_URI, or the folder `mlruns` here."""

import os
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan

LONGEST_VALUE = 6000
MOST_PARAMETERS, MOST_METRICS = 100, 1000
"""What MLflow takes in one request."""


class MlflowTracker:
    """An experiment for each plan, in it a run of the same name as ours."""

    def __init__(self, directory: Path, plan: Plan, parameters: Mapping[str, Any], run_id: str | None) -> None:
        place = os.environ.get("MLFLOW_TRACKING_URI") or (Path.cwd() / "mlruns").as_uri()
        if place.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            self._client = mlflow.MlflowClient(place)
            if run_id is None:
                experiment = self._client.get_experiment_by_name(plan.name)
                number = experiment.experiment_id if experiment else self._client.create_experiment(plan.name)
                tags = {"method": plan.training.short_name, "seed": str(plan.seed), "plan_digest": plan.digest}
                run_id = self._client.create_run(number, run_name=directory.name, tags=tags).info.run_id
                self._add_parameters(run_id, parameters)
            else:
                self._client.update_run(run_id, "RUNNING")
        except (MlflowException, OSError) as problem:
            raise FedAGemError(f"MLflow cannot be used at {place}: {' '.join(str(problem).split())}") from problem
        self.run_id = run_id

    def _add_parameters(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        items = iter(parameters.items())
        while part := list(islice(items, MOST_PARAMETERS)):
            rows = [Param(name, str(value)[:LONGEST_VALUE]) for name, value in part]
            self._client.log_batch(run_id, params=rows)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """As `client/metric.part`: MLflow's folders cannot hold both a metric `loss` and a metric `loss/box`."""
        now = int(time.time() * 1000)
        items = iter(values.items())
        while part := list(islice(items, MOST_METRICS)):
            self._client.log_batch(self.run_id, metrics=[Metric(_name(name), value, now, step) for name, value in part])

    def add_files(self, pictures: list[Path], models: list[Path], others: list[Path]) -> None:
        for folder, paths in (("plots", pictures), ("save", models), (None, others)):
            for path in paths:
                self._client.log_artifact(self.run_id, str(path), folder)

    def close(self, succeeded: bool) -> None:
        self._client.set_terminated(self.run_id, "FINISHED" if succeeded else "KILLED")


def _name(series: str) -> str:
    client, _, metric = series.partition("/")
    return f"{client}/{metric.replace('/', '.')}"
