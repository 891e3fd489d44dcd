"""A run is a folder: an OpenFL workspace with the frozen plan, and everything the run leaves behind.

`plan/requested.yaml` is the complete plan that the user asked for, `plan/plan.yaml` the one that the run's processes
follow: the same with what this start found, such as ports, recorded drives and a warmed-up model.
"""

import shutil
from pathlib import Path

import yaml

from fedagem.errors import FedAGemError, PlanError
from fedagem.files import write_file
from fedagem.learning import LEARNING_VERSION
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import workspace_source

_REQUESTED = "plan/requested.yaml"
_FOLLOWED = "plan/plan.yaml"
_VERSION = "plan/version"
"""The version of the code that learns, because the same plan gives other numbers in another one."""


def create_run(directory: Path, requested: Plan) -> None:
    """Lay out a new run; refuses a folder that already holds one."""
    if directory.exists() and not directory.is_dir():
        raise FedAGemError(f"{directory} is a file: choose another folder for the run (--out).")
    if directory.exists() and any(directory.iterdir()):
        raise FedAGemError(f"{directory} exists: resume it (--resume) or choose another folder (--out).")
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    lay_out_workspace(partial, requested)
    (partial / _VERSION).write_text(f"{LEARNING_VERSION}\n", encoding="utf-8")
    (partial / "plan" / "name").write_text(f"{requested.name}\n", encoding="utf-8")
    (partial / _REQUESTED).write_text(requested.to_yaml(), encoding="utf-8")
    freeze_plan(partial, requested)
    partial.replace(directory)


def lay_out_workspace(directory: Path, plan: Plan) -> None:
    """Make an OpenFL workspace for a plan's collaborators, without the plan."""
    source = workspace_source()
    directory.mkdir(parents=True)
    shutil.copytree(source / "src", directory / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".workspace", "requirements.txt"):
        shutil.copy(source / name, directory / name)
    for name in ("plan", "save", "logs"):
        (directory / name).mkdir()
    members = plan.workload.collaborators
    (directory / "plan" / "cols.yaml").write_text(yaml.safe_dump({"collaborators": list(members)}), encoding="utf-8")
    (directory / "plan" / "data.yaml").write_text(
        "".join(f"{name},{path}\n" for name, path in members.items()), encoding="utf-8"
    )


def freeze_plan(directory: Path, plan: Plan) -> Path:
    """Write down the plan that the run's processes follow, with what this start found; its file."""
    path = directory / _FOLLOWED
    write_file(path, plan.to_yaml())
    return path


def resume_run(directory: Path, requested: Plan) -> None:
    """Check that a run can be resumed; refuses a folder that holds none, or one of another plan."""
    path = directory / _REQUESTED
    if not path.exists():
        if (directory / _FOLLOWED).exists():
            raise FedAGemError(
                f"{directory} has no {_REQUESTED}: it was made by an older version or by hand with fx, and cannot be "
                "resumed here; start again with --out."
            )
        raise FedAGemError(f"{directory} holds no run to resume: start it without --resume.")
    if _read(path, requested.name) != requested:
        raise FedAGemError(
            f"{path} is not the plan you gave: resume with the same plan and settings, or start again with --out."
        )
    version = directory / _VERSION
    if not version.exists() or version.read_text(encoding="utf-8").strip() != str(LEARNING_VERSION):
        raise FedAGemError(
            f"{directory} was made by a version of fedagem that computes other numbers: start again with --out."
        )


def is_run(directory: Path) -> bool:
    """Whether a folder holds a run."""
    return (directory / _FOLLOWED).exists()


def is_requested(directory: Path) -> bool:
    """Whether a folder holds a run that a command of `fedagem` has laid out, not one that is started by hand."""
    return (directory / _REQUESTED).exists()


def plan_of_run(directory: Path) -> Plan:
    """The plan that a run's processes follow."""
    path = directory / _FOLLOWED
    if not path.exists():
        raise FedAGemError(f"{directory} is not a run: it has no {_FOLLOWED}.")
    name = directory / "plan" / "name"
    return _read(path, name.read_text(encoding="utf-8").strip() if name.exists() else directory.resolve().name)


def requested_plan(directory: Path) -> Plan:
    """The plan that the user asked for; of a federation that was started by hand, the one that it follows."""
    path = directory / _REQUESTED
    followed = plan_of_run(directory)
    return _read(path, followed.name) if path.exists() else followed


def checked_plan(directory: Path) -> Plan:
    """The plan that the user asked for; refused in one sentence if it cannot work, also if `fx` was started by hand."""
    plan = requested_plan(directory)
    check_plan(plan, may_end_early=True)
    return plan


def _read(path: Path, name: str) -> Plan:
    try:
        return Plan.of_run(path, name)
    except PlanError as problem:
        raise PlanError(f"{path} is not the plan of a run of this version: {problem.message}") from problem
