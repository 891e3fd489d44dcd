"""The YAML of plans: read, merged with the base that all plans share, changed by path, and completed.

Raw mappings exist only here and in plan.py, which makes a typed `Plan` of them.
"""

import copy
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fedagem.errors import PlanError
from fedagem.plans.schema import OPTIONAL_SECTIONS, WHOLE_SECTIONS, settings_schema
from fedagem.plans.workspace import plan_folder
from fedagem.settings import fields_below, suggestion

Document = dict[str, Any]
"""A plan as its YAML file has it."""


def load_document(path: Path) -> Document:
    """A plan from its YAML file, merged with the base."""
    return with_base(read_yaml(path))


def read_yaml(path: Path) -> Document:
    """The mapping that a YAML file holds."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PlanError(f"the plan {path} cannot be read: {problem.strerror}.") from problem
    except Exception as problem:  # PyYAML has errors of its own, but the date 2021-99-99 ends in Python's, for one
        raise PlanError(f"the plan {path} is not valid YAML: {' '.join(str(problem).split())}.") from problem
    if not isinstance(document, dict):
        raise PlanError(f"the plan {path} must be a mapping of sections, not {type(document).__name__}.")
    return document


def base_document() -> Document:
    """What all plans share: collaborator, stages and their tasks, pipeline, network."""
    return read_yaml(plan_folder() / "base.yaml")


def with_base(document: Mapping[str, Any]) -> Document:
    """The plan over the base: mappings are merged at every depth, everything else is replaced."""
    for name, section in document.items():
        if isinstance(section, Mapping) and "defaults" in section:
            raise PlanError(
                f"{name}.defaults is OpenFL's way to share settings, which looks into OpenFL's own package: remove it; "
                "what plans share here is in plan/base.yaml and is merged automatically."
            )
    merged: Document = _merged(base_document(), document)
    return merged


def complete(document: Document) -> Document:
    """The plan with what follows from other settings filled in, as OpenFL needs it."""
    whole = copy.deepcopy(document)
    loader, rounds = _settings(whole, "data_loader"), _settings(whole, "assigner")
    per_task, count = loader.get("rounds_per_task"), _mapping(loader.get("tasks")).get("count")
    if isinstance(per_task, int) and isinstance(count, int):
        _settings(whole, "aggregator").setdefault("rounds_to_train", per_task * count)
    stages = rounds.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        if isinstance(stage, dict) and stage.get("every") == "task":
            stage["every"] = per_task if per_task is not None else 1
    if loader.get("arrivals") is not None:
        participation = rounds.setdefault("participation", {})
        if isinstance(participation, dict):
            participation |= {"arrivals": loader["arrivals"], "rounds_per_task": per_task}
    if "seed" in loader:
        rounds.setdefault("seed", loader["seed"])
    for name in WHOLE_SECTIONS:
        if isinstance(whole.get(name), dict) and whole[name].get("settings") == {}:
            del whole[name]["settings"]  # `fx plan initialize` writes it into every section
    return {name: section for name, section in whole.items() if section is not None}


def change(document: Document, assignments: Iterable[str]) -> None:
    """Apply `path.in.plan=value` assignments; the value is YAML, and the path must be one the plan can have."""
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise PlanError(f"--set takes path.in.plan=value, not {assignment!r}.")
        try:
            value = yaml.safe_load(text)
        except Exception as problem:  # see read_yaml
            raise PlanError(f"--set {assignment} is not valid YAML: {' '.join(str(problem).split())}.") from problem
        set_value(document, path, value)


def set_value(document: Document, path: str, value: Any) -> None:
    """Change one setting by its dotted path; refuses a path that the plan cannot have."""
    known = known_paths(document)
    possible = path in known or path in OPTIONAL_SECTIONS
    if not possible and not any(path.startswith(f"{open_path}.") for open_path in _open_paths(document)):
        raise PlanError(f"the plan has no {path!r}{suggestion(path, _same_end(path, known) or known)}")
    if value is None and path in OPTIONAL_SECTIONS:
        document.pop(path, None)
        return
    *parents, last = path.split(".")
    section = document
    for depth, parent in enumerate(parents, start=1):
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise PlanError(f"{'.'.join(parents[:depth])} is {section!r}, so --set cannot change {path} in it.")
    section[last] = value


def set_seed(document: Document, seed: int) -> None:
    """Make `seed` the seed of everything in the plan."""
    _settings(document, "data_loader")["seed"] = seed
    _settings(document, "assigner").pop("seed", None)


def set_rounds(document: Document, rounds: int) -> None:
    """Shorten or lengthen a run; a task stream keeps its tasks and gets fewer or more rounds for each."""
    loader = _settings(document, "data_loader")
    if "rounds_per_task" in loader:
        tasks = loader["tasks"]["count"]
        if rounds < tasks or rounds % tasks:
            raise PlanError(f"--rounds {rounds} cannot be shared evenly by {tasks} tasks: use a multiple of {tasks}.")
        loader["rounds_per_task"] = rounds // tasks
    _settings(document, "aggregator")["rounds_to_train"] = rounds


def known_paths(document: Document) -> list[str]:
    """Every dotted path that the plan has or could have."""
    paths = {*_paths_in(document, ""), *WHOLE_SECTIONS}
    paths.update(path for path, _ in known_fields(document))
    return sorted(paths)


def known_fields(document: Document) -> Iterator[tuple[str, Any]]:
    """Every setting that the plan's sections declare, by its dotted path."""
    for name in (*document, *(name for name in WHOLE_SECTIONS if name not in document)):
        if name in WHOLE_SECTIONS:
            yield from fields_below(WHOLE_SECTIONS[name], name)
        elif schema := settings_schema(name, document.get(name)):
            yield from fields_below(schema, f"{name}.settings")


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; `...` if the document says nothing there."""
    node: Any = document
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return ...
        node = node[part]
    return node


def _merged(base: Any, own: Any) -> Any:
    if not (isinstance(base, Mapping) and isinstance(own, Mapping)):
        return copy.deepcopy(own)
    result = {key: copy.deepcopy(value) for key, value in base.items()}
    for key, value in own.items():
        result[key] = _merged(base[key], value) if key in base else copy.deepcopy(value)
    return result


def _settings(document: Document, section: str) -> dict[str, Any]:
    """The settings of a section, to be changed in place; an unused mapping if the section is not one."""
    found = document.get(section)
    if not isinstance(found, dict):
        return {}
    settings = found.get("settings")
    return settings if isinstance(settings, dict) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _paths_in(node: Any, prefix: str) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            yield path
            yield from _paths_in(value, path)


def _same_end(path: str, known: Iterable[str]) -> list[str]:
    """Known paths to a setting of this name: `settings.lr` is meant to be `settings.optimizer.lr`."""
    return [other for other in known if other.rpartition(".")[2] == path.rpartition(".")[2]]


def _open_paths(document: Document) -> list[str]:
    """Mappings with free keys: what they configure decides which are valid."""
    return [path for path, field in known_fields(document) if typing.get_origin(field.annotation) is dict]
