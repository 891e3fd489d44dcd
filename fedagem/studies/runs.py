"""The runs behind a study: every variation, with and without Fed-A-GEM, for every seed."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.runs.many_runs import Job
from fedagem.runs.results import write_results
from fedagem.studies.study import SIDES, Part, Row, Scale, Study, check_assignments, load_scale
from fedagem.studies.sweep import point_of
from fedagem.tasks.settings import StreamSettings


@dataclass(frozen=True)
class StudyRun:
    """One run of a study: a complete plan and the directory that its content names.

    Studies that share a setting share its runs, and a changed setting never meets an old result.
    """

    part: int
    label: str
    side: str
    name: str
    """What its row and side are called in front of people."""
    seed: int
    plan: Plan
    directory: Path

    @property
    def title(self) -> str:
        """What the run is called while it runs."""
        return f"{self.plan.name}: {self.name}, seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the results of all its rounds are there."""
        return self.job().finished

    def job(self) -> Job:
        """The run as work to be done."""
        return Job(self.title, self.plan, self.plan, self.directory)

    def results(self) -> dict[str, Any]:
        """What a finished run has shown; a damaged file is derived again from what the run measured."""
        try:
            found: dict[str, Any] = json.loads((self.directory / "results.json").read_text(encoding="utf-8"))
        except ValueError:
            return write_results(self.directory).to_json()
        return found


def runs_of(
    study: Study, scale_name: str, seeds: int, folder: Path, out: Path, assignments: tuple[str, ...] = ()
) -> list[StudyRun]:
    """All runs of a study; `assignments` change every plan, apart from what its rows vary."""
    check_assignments(study, assignments)
    runs = []
    for number, part in enumerate(study.parts):
        point = point_of(part)
        scale = load_scale(folder, part, scale_name)
        plan_file = Plan.load(folder / f"{part.plan}.yaml")
        for seed in range(seeds):
            for row in part.rows:
                for side in SIDES:
                    if row.figures(side) is not None:
                        plan = resolve_plan(plan_file, row, side, scale, seed, (*assignments, *point.assignments))
                        directory = out / "runs" / _directory_name(part, row, side, seed, plan)
                        name = part.name_of(row, side)
                        runs.append(StudyRun(number, row.label, side, name, seed, plan, directory))
    return runs


def resolve_plan(
    plan_file: Plan, row: Row, side: str, scale: Scale, seed: int, assignments: tuple[str, ...] = ()
) -> Plan:
    """The plan of one run: what the plan's file says, then the scale, then the row, then the command line."""
    data = _stream(plan_file)
    plan = plan_file.changed(
        {
            **scale.set,
            "task_runner.settings.method": row.method,
            "task_runner.settings.method_settings": row.method_settings,
            "task_runner.settings.fedagem": side == "with",
            **row.set,
            "data_loader.settings.rounds_per_task": scale.rounds_per_task or data.rounds_per_task,
        },
        assignments,
    )
    data = _stream(plan)
    rounds_per_task, left = divmod(data.rounds_per_task, row.fewer_rounds)
    if left:
        raise PlanError(
            f"data_loader.settings.rounds_per_task is {data.rounds_per_task}, but the row {row.label} runs "
            f"{row.fewer_rounds} times fewer: use a multiple of {row.fewer_rounds}, so that all rows learn as much."
        )
    plan = plan.changed(
        {"data_loader.settings.epochs": data.epochs * row.fewer_rounds},
        seed=seed,
        rounds=rounds_per_task * data.tasks.count,
    )
    check_plan(plan)
    return plan


def _stream(plan: Plan) -> StreamSettings:
    if not isinstance(plan.data, StreamSettings):
        raise PlanError(f"a study needs the plan of a benchmark, but {plan.name} is a driving plan.")
    return plan.data


def _directory_name(part: Part, row: Row, side: str, seed: int, plan: Plan) -> str:
    method = f"{row.method}+fedagem" if side == "with" else row.method
    words = [part.plan, method, point_of(part).file_name, plan.digest, f"seed{seed}"]
    return re.sub(r"[^\w+.=,-]", "_", "-".join(word for word in words if word))
