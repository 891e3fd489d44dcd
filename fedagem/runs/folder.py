"""A run is a directory: an OpenFL workspace with the frozen plan, and everything the run leaves behind."""

import copy
import shutil
from pathlib import Path

import yaml

from fedagem.errors import FedAGemError, PlanError
from fedagem.files import write_file
from fedagem.plans.initial_model import locate_initial_model
from fedagem.plans.plan import Plan, check_layout, collaborators, digest_of, load_plan
from fedagem.plans.workspace import workspace_source


def create_run(directory: Path, plan: Plan, plan_name: str) -> None:
    """Lay out a new run; refuses a folder that already holds one."""
    if directory.exists() and not directory.is_dir():
        raise FedAGemError(f"{directory} is a file: choose another folder for the run (--out).")
    if directory.exists() and any(directory.iterdir()):
        raise FedAGemError(f"{directory} exists: go on with it (--resume) or choose another folder (--out).")
    locate_initial_model(plan)
    source = workspace_source()
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    shutil.copytree(source / "src", partial / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".workspace", "requirements.txt"):
        shutil.copy(source / name, partial / name)
    for name in ("plan", "save", "logs"):
        (partial / name).mkdir()
    members = collaborators(plan)
    (partial / "plan" / "cols.yaml").write_text(yaml.safe_dump({"collaborators": list(members)}), encoding="utf-8")
    (partial / "plan" / "data.yaml").write_text(
        "".join(f"{name},{path}\n" for name, path in members.items()), encoding="utf-8"
    )
    (partial / "plan" / "name").write_text(f"{plan_name}\n", encoding="utf-8")
    freeze_plan(partial, plan)
    partial.replace(directory)


def freeze_plan(directory: Path, plan: Plan) -> None:
    """Write down the plan that the run's processes follow, with what this start found out."""
    write_file(directory / "plan" / "plan.yaml", yaml.safe_dump(plan, sort_keys=False))


def resume_run(directory: Path, plan: Plan) -> None:
    """Go on with a run; refuses a folder that holds none, or one of another plan."""
    frozen = directory / "plan" / "plan.yaml"
    if not frozen.exists():
        raise FedAGemError(f"{directory} holds no run to resume: start it without --resume.")
    locate_initial_model(plan)
    if _without_address(_read_frozen(frozen)) != _without_address(plan):
        raise FedAGemError(
            f"{frozen} is not the plan you gave: resume with the same plan and settings, or start another run with --out."
        )


def plan_of_run(directory: Path) -> tuple[Plan, str]:
    """The frozen plan of a run and the plan's name."""
    frozen = directory / "plan" / "plan.yaml"
    if not frozen.exists():
        raise FedAGemError(f"{directory} is not a run: it has no plan/plan.yaml.")
    name = directory / "plan" / "name"
    return _read_frozen(frozen), name.read_text(encoding="utf-8").strip() if name.exists() else directory.resolve().name


def plan_digest(plan: Plan) -> str:
    """A short name for what a run computes: the same for every start of it, on any machine."""
    return digest_of(_without_address(plan))


def _read_frozen(path: Path) -> Plan:
    plan = load_plan(path)
    try:
        check_layout(plan, needed=("data_loader", "task_runner"))
    except PlanError as problem:
        raise PlanError(f"{path} is not the plan of a run: {problem.message}") from problem
    return plan


def _without_address(plan: Plan) -> Plan:
    """The plan apart from what each start on this machine finds: ports, evaluation frames, a warmed-up model.

    A run does not go on from another model than it began with all the same: its checkpoint knows.
    """
    plain = copy.deepcopy(plan)
    found = {
        "network": ["agg_addr", "agg_port"],
        "data_loader": ["stream", "evaluation"],
        "task_runner": ["initial_model"],
    }
    for part, names in found.items():
        for name in names:
            plain.get(part, {}).get("settings", {}).pop(name, None)
    return plain
