"""The runs behind a study: every variation, with and without Fed-A-GEM, for every seed."""

import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedagem.errors import PlanError
from fedagem.plans.plan import (
    Plan,
    change_plan,
    check_plan,
    check_sections,
    digest_of,
    load_plan,
    set_in_plan,
    set_rounds,
    set_seed,
)
from fedagem.runs.many_runs import Job
from fedagem.runs.results import write_results
from fedagem.studies.assignments import check_assignments
from fedagem.studies.study import SIDES, Part, Row, Scale, Study, load_scale


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
    plan_name: str
    plan: Plan
    directory: Path

    @property
    def title(self) -> str:
        """What the run is called while it runs."""
        return f"{self.plan_name}: {self.name}, seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the results of all its rounds are there."""
        return self.job().finished

    def job(self) -> Job:
        """The run as work to be done."""
        return Job(self.title, self.plan, self.plan_name, self.directory)

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
        scale = load_scale(folder, part, scale_name)
        plan_file = load_plan(folder / f"{part.plan}.yaml")
        for seed in range(seeds):
            for row in part.rows:
                for side in SIDES:
                    if row.figures(side) is not None:
                        plan = resolve_plan(plan_file, row, side, scale, seed, assignments)
                        directory = out / "runs" / _directory_name(part, row, side, seed, plan)
                        name = part.name_of(row, side)
                        runs.append(StudyRun(number, row.label, side, name, seed, part.plan, plan, directory))
    return runs


def resolve_plan(
    plan_file: Plan, row: Row, side: str, scale: Scale, seed: int, assignments: tuple[str, ...] = ()
) -> Plan:
    """The plan of one run: what the plan's file says, then the scale, then the row, then the command line."""
    plan = copy.deepcopy(plan_file)
    settings = {
        **scale.set,
        "task_runner.settings.method": row.method,
        "task_runner.settings.method_settings": row.method_settings,
        "task_runner.settings.fedagem": side == "with",
        **row.set,
    }
    for path, value in settings.items():
        set_in_plan(plan, path, copy.deepcopy(value))
    loader = plan["data_loader"]["settings"]
    usual = loader["rounds_per_task"]
    loader["rounds_per_task"] = scale.rounds_per_task or usual
    change_plan(plan, assignments)
    check_sections(plan)
    rounds_per_task, left = divmod(loader["rounds_per_task"], row.fewer_rounds)
    if left:
        raise PlanError(
            f"data_loader.settings.rounds_per_task is {loader['rounds_per_task']}, but the row {row.label} runs "
            f"{row.fewer_rounds} times fewer: use a multiple of {row.fewer_rounds}, so that all rows learn as much."
        )
    loader["rounds_per_task"] = usual
    loader["epochs"] = loader.get("epochs", 1) * row.fewer_rounds
    set_seed(plan, seed)
    plan["aggregator"]["settings"]["rounds_to_train"] = usual * loader["tasks"]["count"]
    set_rounds(plan, rounds_per_task * loader["tasks"]["count"])
    check_plan(plan)
    return plan


def _directory_name(part: Part, row: Row, side: str, seed: int, plan: Plan) -> str:
    content = digest_of(plan)
    method = f"{row.method}+fedagem" if side == "with" else row.method
    return re.sub(r"[^\w+.-]", "_", f"{part.plan}-{method}-{content}-seed{seed}")
