"""A run in Weights & Biases; WANDB_MODE=offline keeps it in `wandb/` of the run's folder, for `wandb sync`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan


class WandbTracker:
    """A project for each plan, unless WANDB_PROJECT names one; in it a run of the same name as ours."""

    def __init__(self, directory: Path, plan: Plan, parameters: Mapping[str, Any], run_id: str | None) -> None:
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        try:
            self._run = wandb.init(
                dir=directory,
                project=os.environ.get("WANDB_PROJECT", plan.name),
                name=directory.name,
                id=run_id,
                resume="allow",
                config=dict(parameters),
                settings=settings,
            )
        except (wandb.Error, OSError) as problem:
            reason = " ".join(str(problem).split())
            raise FedAGemError(f"wandb cannot begin a run: {reason}; WANDB_MODE=offline needs no server.") from problem
        self.run_id: str = self._run.id
        self._plan = plan

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def add_files(self, pictures: list[Path], models: list[Path], others: list[Path]) -> None:
        if pictures:
            self._run.log({f"plots/{path.stem}": wandb.Image(str(path)) for path in pictures})
        artifact = wandb.Artifact(f"{self._run.id}-models", type="model", metadata={"plan_digest": self._plan.digest})
        for path in (*models, *others):
            artifact.add_file(str(path), name=path.name)
        self._run.log_artifact(artifact)

    def close(self, succeeded: bool) -> None:
        self._run.finish(exit_code=0 if succeeded else 1)
