"""Plans: reading them, changing them from the command line, and refusing what cannot work before anything starts."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from fedagem.errors import PlanError
from fedagem.learning.trainer import TrainingSettings
from fedagem.plans.drive_check import check_drive
from fedagem.plans.driving import DriveSettings, DrivingSettings, WarmUp
from fedagem.plans.federation import AggregatorSettings, CollaboratorSettings
from fedagem.plans.rounds import RoundSettings
from fedagem.plans.workspace import workspace_source
from fedagem.settings import Settings, fields_below, parse_settings, suggestion
from fedagem.tasks.settings import StreamSettings

Plan = dict[str, Any]

_SECTIONS = ("aggregator", "collaborator", "data_loader", "task_runner", "assigner", "tasks", "network")
_CLASSES = ("aggregator", "collaborator", "data_loader", "task_runner", "assigner", "network")
"""Sections that name a class and its settings."""
_OPTIONAL_SECTIONS = ("compression_pipeline", "straggler_handling_policy", "carla", "driving", "warm_up")
_SCHEMAS: dict[str, type[Settings]] = {
    "src.aggregator.StagedAggregator": AggregatorSettings,
    "src.assigner.StagedAssigner": RoundSettings,
    "src.collaborator.StagedCollaborator": CollaboratorSettings,
    "src.data_loader.TaskStreamLoader": StreamSettings,
    "src.driving_loader.DrivingLoader": DrivingSettings,
    "src.task_runner.FedAGemTaskRunner": TrainingSettings,
}
_WHOLE_SECTIONS: dict[str, type[Settings]] = {"driving": DriveSettings, "warm_up": WarmUp}
"""Sections that are settings all through."""


def load_plan(path: Path) -> Plan:
    """A plan from its YAML file."""
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PlanError(f"the plan {path} cannot be read: {problem.strerror}.") from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise PlanError(f"the plan {path} is not valid YAML: {' '.join(str(problem).split())}.") from problem
    if not isinstance(plan, dict):
        raise PlanError(f"the plan {path} must be a mapping of sections, not {type(plan).__name__}.")
    return plan


def change_plan(plan: Plan, assignments: Iterable[str]) -> None:
    """Apply `path.in.plan=value` assignments; the value is YAML, and the path must be one the plan can have."""
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise PlanError(f"--set takes path.in.plan=value, not {assignment!r}.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as problem:
            raise PlanError(f"--set {assignment} is not valid YAML: {' '.join(str(problem).split())}.") from problem
        set_in_plan(plan, path, value)


def set_in_plan(plan: Plan, path: str, value: Any) -> None:
    """Change one setting by its dotted path; refuses a path that the plan cannot have."""
    known = known_paths(plan)
    if path not in known and not any(path.startswith(f"{open_path}.") for open_path in _open_paths(plan)):
        raise PlanError(f"the plan has no {path!r}{suggestion(path, _same_end(path, known) or known)}")
    if value is None and path in _OPTIONAL_SECTIONS:
        del plan[path]
        return
    *parents, last = path.split(".")
    section = plan
    for depth, parent in enumerate(parents, start=1):
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise PlanError(f"{'.'.join(parents[:depth])} is {section!r}, so --set cannot change {path} in it.")
    section[last] = value


def set_seed(plan: Plan, seed: int) -> None:
    """Make `seed` the seed of everything in the plan."""
    for section in plan.values():
        if isinstance(section, dict) and "seed" in section.get("settings", {}):
            section["settings"]["seed"] = seed


def set_rounds(plan: Plan, rounds: int) -> None:
    """Shorten or lengthen a run; a task stream keeps its tasks and gets fewer or more rounds for each."""
    loader = plan["data_loader"]["settings"]
    if "rounds_per_task" in loader:
        tasks = loader["tasks"]["count"]
        if rounds < tasks or rounds % tasks:
            raise PlanError(f"--rounds {rounds} cannot be shared evenly by {tasks} tasks: use a multiple of {tasks}.")
        old, loader["rounds_per_task"] = loader["rounds_per_task"], rounds // tasks
        for stage in plan["assigner"]["settings"]["stages"]:
            if stage.get("every") == old:
                stage["every"] = rounds // tasks
        participation = plan["assigner"]["settings"].get("participation", {})
        if participation.get("rounds_per_task") == old:
            participation["rounds_per_task"] = rounds // tasks
    plan["aggregator"]["settings"]["rounds_to_train"] = rounds


def check_plan(plan: Plan) -> None:
    """Refuse a plan that cannot work, in one sentence."""
    check_sections(plan)
    _check_rounds(plan)
    _check_arrivals(plan)
    _check_warm_up(plan)
    check_drive(plan)


def check_sections(plan: Plan) -> None:
    """Refuse a plan whose sections, each for itself, cannot work."""
    check_layout(plan, _SECTIONS)
    for name in _CLASSES:
        if not {"template", "settings"} <= plan[name].keys():
            raise PlanError(f"{name} needs a template, the class that does its work, and settings.")
    for name, section in plan.items():
        if name not in (*_SECTIONS, *_OPTIONAL_SECTIONS):
            raise PlanError(f"the plan has an unknown section {name!r}{suggestion(name, _SECTIONS)}")
        template = section.get("template", "")
        _check_template(name, template)
        if schema := _SCHEMAS.get(template):
            parse_settings(schema, section.get("settings", {}), f"{name}.settings")
    _check_tasks(plan)


def check_layout(plan: Plan, needed: Iterable[str]) -> None:
    """Refuse a plan without the sections that are needed, or with one that is no mapping; settings may be any."""
    for name in needed:
        if not isinstance(plan.get(name), dict):
            raise PlanError(f"the plan has no section {name!r}.")
    for name, section in plan.items():
        if not isinstance(section, dict):
            raise PlanError(f"{name} must be a mapping, not {section!r}.")
        if not isinstance(section.get("settings", {}), dict):
            raise PlanError(f"{name}.settings must be a mapping, not {section['settings']!r}.")


def collaborators(plan: Plan) -> dict[str, str]:
    """The collaborators of a run on one machine and their data paths: clients by rank, or vehicles by name."""
    settings = plan["data_loader"]["settings"]
    if "vehicles" in settings:
        return {name: name for name in settings["vehicles"]}
    count = settings["clients"]
    width = len(str(count))
    return {f"client_{rank + 1:0{width}d}": str(rank) for rank in range(count)}


def run_name(plan: Plan, plan_path: Path) -> str:
    """What a run of this plan is called: the plan, the method and the seed."""
    training = plan["task_runner"]["settings"]
    method = training.get("method", "fedavg") + ("+fedagem" if training.get("fedagem", True) else "")
    return f"{plan_path.stem}-{method}-seed{plan['data_loader']['settings']['seed']}"


def digest_of(settings: dict[str, Any]) -> str:
    """A short name for settings: the same settings, the same name."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


def known_paths(plan: Plan) -> list[str]:
    """Every dotted path that the plan has or could have."""
    paths = set(_paths_in(plan, ""))
    for name, section in plan.items():
        schema = _SCHEMAS.get(section.get("template", "")) if isinstance(section, dict) else None
        if schema:
            paths.update(path for path, _ in fields_below(schema, f"{name}.settings"))
        if name in _WHOLE_SECTIONS:
            paths.update(path for path, _ in fields_below(_WHOLE_SECTIONS[name], name))
    return sorted(paths)


def _check_template(section: str, template: Any) -> None:
    """Refuse a class that is not there; those of the workspace are looked for by name, without importing OpenFL."""
    if not isinstance(template, str):
        raise PlanError(f"{section}.template must be the dotted path of a class, not {template!r}.")
    package = template.partition(".")[0]
    if package != "src":
        if package and importlib.util.find_spec(package) is None:
            raise PlanError(f"{section}.template is {template!r}, but there is no package {package!r} here.")
        return
    module, _, name = template.removeprefix("src.").rpartition(".")
    folder = workspace_source() / "src"
    known = [
        f"src.{file.stem}.{found}"
        for file in sorted(folder.glob("*.py"))
        for found in re.findall(r"^class ([A-Z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    if f"src.{module}.{name}" not in known:
        raise PlanError(f"{section}.template is {template!r}{suggestion(template, known)}")


def _check_tasks(plan: Plan) -> None:
    """Every stage's tasks must be there and name a function."""
    for name, task in plan["tasks"].items():
        if name != "settings" and not (isinstance(task, dict) and isinstance(task.get("function"), str)):
            raise PlanError(f"tasks.{name} must be a mapping with a function, not {task!r}.")
    if _SCHEMAS.get(plan["assigner"]["template"]) is not RoundSettings:
        return
    for stage in plan["assigner"]["settings"]["stages"]:
        for task in stage["tasks"]:
            if task not in plan["tasks"]:
                path = f"assigner.settings.stages ({stage['name']})"
                raise PlanError(f"{path} names the task {task!r}{suggestion(task, plan['tasks'])}")


def _check_rounds(plan: Plan) -> None:
    rounds = plan["aggregator"].get("settings", {}).get("rounds_to_train")
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise PlanError(f"aggregator.settings.rounds_to_train must be a whole number of at least 1, not {rounds!r}.")
    loader = plan["data_loader"].get("settings", {})
    if "rounds_per_task" in loader and rounds != loader["rounds_per_task"] * loader["tasks"]["count"]:
        raise PlanError(
            f"aggregator.settings.rounds_to_train is {rounds}, but {loader['tasks']['count']} tasks of "
            f"{loader['rounds_per_task']} rounds (data_loader.settings.rounds_per_task) make "
            f"{loader['rounds_per_task'] * loader['tasks']['count']}: make them agree, or use --rounds."
        )
    for stage in plan["assigner"]["settings"].get("stages", []):
        every = stage.get("every", 1)
        if "rounds_per_task" in loader and loader["rounds_per_task"] % every:
            raise PlanError(
                f"assigner.settings.stages ({stage['name']}) runs every {every} rounds, which misses ends of tasks of "
                f"{loader['rounds_per_task']} rounds (data_loader.settings.rounds_per_task): use a divisor of it."
            )


def _check_arrivals(plan: Plan) -> None:
    """Clients who come later must do so for the data and for the rounds alike."""
    loader = plan["data_loader"].get("settings", {})
    participation = plan["assigner"].get("settings", {}).get("participation", {})
    for key in ("arrivals", "rounds_per_task"):
        dealt, taking_part = loader.get(key), participation.get(key)
        if (loader.get("arrivals") or participation.get("arrivals")) and dealt != taking_part:
            raise PlanError(
                f"data_loader.settings.{key} is {dealt}, but assigner.settings.participation.{key} is {taking_part}: "
                "clients who arrive later need the same in both."
            )


def _check_warm_up(plan: Plan) -> None:
    if "warm_up" not in plan:
        return
    chosen = parse_settings(WarmUp, plan["warm_up"], "warm_up")
    end = plan["task_runner"]["settings"]["optimizer"]["lr"]
    if chosen.lr is not None and not chosen.lr >= end:
        raise PlanError(
            f"warm_up.lr is {chosen.lr}, but it falls to task_runner.settings.optimizer.lr, {end}: "
            "give it at least that."
        )
    if plan["data_loader"]["template"] != "src.driving_loader.DrivingLoader":
        raise PlanError(
            "warm_up is for driving plans: a benchmark's plan may name its task_runner.settings.initial_model."
        )


def _paths_in(node: Any, prefix: str) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            yield path
            yield from _paths_in(value, path)


def _same_end(path: str, known: Iterable[str]) -> list[str]:
    """Known paths to a setting of this name: who writes `settings.lr` means `settings.optimizer.lr`."""
    return [other for other in known if other.rpartition(".")[2] == path.rpartition(".")[2]]


def _open_paths(plan: Plan) -> list[str]:
    """Mappings whose keys are up to whatever they configure."""
    runner = "task_runner.settings"
    within = ("method_settings", "model.settings", "objective.settings")
    carla = ["carla"] if "carla" in plan else []
    return [*(f"{runner}.{name}" for name in within), "data_loader.settings.dataset_settings", *carla]
