"""What a plan says, setting by setting: for `fedagem plan show`, for editors and for docs/plan.md."""

import importlib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from fedagem.detection.objective import DetectionSettings
from fedagem.learning.objective import ClassificationSettings
from fedagem.plans import editing
from fedagem.plans.driving import DrivingSettings
from fedagem.plans.federation import FederatedTask
from fedagem.plans.plan import Plan
from fedagem.plans.schema import CLASSES, OPTIONAL_SECTIONS, WHOLE_SECTIONS, settings_schema
from fedagem.settings import default_of, fields_below, nested_model, settings_of
from fedagem.tasks.settings import StreamSettings
from models.ssdlite import SSDLiteConfig
from models.tiny_yolo import TinyYoloConfig

Origin = Literal["plan", "base", "--set", "derived", "default"]

_CLOSED = ConfigDict(extra="forbid")
_INTRODUCTION = """# Plans

Every setting of a plan. This page is made by `fedagem plan reference`; `fedagem plan show PLAN` lists what is in force
in a plan and where each value comes from, and `fedagem plan schema` writes a JSON schema with which editors complete
and check plans.

A plan is merged over `plan/base.yaml`, mapping by mapping. A setting is changed on the command line by its path:
`--set task_runner.settings.optimizer.lr=0.1`.
"""
_SCALARS = {int: "whole number", float: "number", str: "string", bool: "true or false", type(None): "null", Any: "any"}


@dataclass(frozen=True)
class SettingInForce:
    """A setting of a plan: its value, where the value comes from, and what it means."""

    path: str
    value: str
    origin: Origin
    sentence: str


def settings_in_force(path: Path, assignments: tuple[str, ...] = ()) -> list[SettingInForce]:
    """Every setting of the plan at `path`, perhaps changed, in the order of its sections."""
    own = editing.read_yaml(path)
    asked = editing.with_base(own)
    editing.change(asked, assignments)
    Plan.load(path).changed(assignments=assignments)
    whole = editing.complete(asked)
    changed = [assignment.partition("=")[0] for assignment in assignments]
    found = []
    for dotted, field in _leaves(whole):
        value = editing.value_at(whole, dotted)
        shown = default_of(field) if value is ... else value
        if shown is not ...:
            origin = _origin(dotted, value, asked, own, changed)
            found.append(SettingInForce(dotted, _written(shown), origin, _sentence(field)))
    return found


def plan_schema() -> dict[str, Any]:
    """The JSON schema of plan files; nothing at the top is required, because the base supplies what a plan omits."""
    sections: dict[str, Any] = {}
    for name in CLASSES:
        settings: Any = StreamSettings | DrivingSettings if name == "data_loader" else settings_schema(name, {})
        section = create_model(f"{name}_section", __config__=_CLOSED, template=(str, ""), settings=(settings, None))
        sections[name] = (section, None)
    for name in OPTIONAL_SECTIONS:
        sections[name] = (WHOLE_SECTIONS.get(name, dict[str, Any]), None)
    sections["tasks"] = (dict[str, FederatedTask], None)
    whole: type[BaseModel] = create_model("Plan", __config__=_CLOSED, **sections)
    schema = whole.model_json_schema()
    for _, _, model in _documented():
        schema["$defs"].get(model.__name__, {}).pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def reference() -> str:
    """docs/plan.md: every setting, its type, its default and its sentence."""
    text = [_INTRODUCTION]
    for title, prefix, model in _documented():
        text += [f"## {title}\n", (model.__doc__ or "").strip().partition("\n")[0]]
        text += ["", "| setting | type | default | meaning |", "|---|---|---|---|"]
        text += [_row(path, field) for path, field in fields_below(model, prefix) if not _is_container(field)]
        text.append("")
    return "\n".join(text)


def _documented() -> Iterator[tuple[str, str, type[BaseModel]]]:
    """The titles, paths and models of docs/plan.md."""
    for name in ("aggregator", "collaborator", "assigner", "task_runner", "network"):
        model = settings_schema(name, {})
        assert model is not None
        yield f"`{name}.settings`", f"{name}.settings", model
    yield "`data_loader.settings` of a benchmark", "data_loader.settings", StreamSettings
    yield "`data_loader.settings` of vehicles", "data_loader.settings", DrivingSettings
    for name, section in WHOLE_SECTIONS.items():
        yield f"`{name}`", name, section
    yield "TinyYOLO", "task_runner.settings.model.settings", TinyYoloConfig
    yield "SSDLite", "task_runner.settings.model.settings", SSDLiteConfig
    yield "Classification", "task_runner.settings.objective.settings", ClassificationSettings
    yield "Detection", "task_runner.settings.objective.settings", DetectionSettings


def _leaves(document: editing.Document) -> Iterator[tuple[str, FieldInfo]]:
    """The settings that hold values, without those of optional parts that the plan does not have."""
    absent: list[str] = []
    for path, field in editing.known_fields(document):
        section = path.partition(".")[0]
        if section not in document or any(path.startswith(f"{part}.") for part in absent):
            continue
        declared = _declared_settings(document, path)
        if declared is not None:
            yield from ((below, own) for below, own in fields_below(declared, path) if not nested_model(own.annotation))
        elif nested_model(field.annotation) is None:
            yield path, field
        elif default_of(field) is None and editing.value_at(document, path) in (..., None):
            absent.append(path)


def _declared_settings(document: Mapping[str, Any], path: str) -> type[BaseModel] | None:
    """The model of the settings of a class that the plan names, if the class declares one."""
    parent, _, name = path.rpartition(".")
    template = editing.value_at(document, f"{parent}.template")
    if name != "settings" or not isinstance(template, str) or parent in CLASSES:
        return None
    module, _, factory = template.rpartition(".")
    return settings_of(getattr(importlib.import_module(module), factory))


def _origin(path: str, value: Any, asked: Mapping[str, Any], own: Mapping[str, Any], changed: list[str]) -> Origin:
    if any(f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.") for other in changed):
        return "--set"
    if value is ...:
        return "default"
    if value != editing.value_at(asked, path):
        return "derived"
    return "base" if editing.value_at(own, path) is ... else "plan"


def _is_container(field: FieldInfo) -> bool:
    """Whether a setting only holds others, which have rows themselves."""
    return nested_model(field.annotation) is not None and default_of(field) is not None


def _row(path: str, field: FieldInfo) -> str:
    default = default_of(field)
    shown = "required" if default is ... else f"`{_written(default)}`"
    return f"| `{path}` | {_words(field.annotation)} | {shown} | {_sentence(field)} |"


def _sentence(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _written(value: Any) -> str:
    """A value as YAML would have it in one line."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_defaults=True)
    return value if isinstance(value, str) and value else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, BaseModel) else list(value)


def _words(annotation: Any) -> str:
    """A type in plain words."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _words(options[0])
    if origin is Literal:
        return " or ".join(f"`{option}`" for option in options)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_words(option) for option in options)
    if origin in {list, tuple}:
        return f"list of {_words(options[0])}"
    if origin is dict or nested_model(annotation) is not None:
        return f"mapping of {_words(options[1])}" if options else "mapping"
    return _SCALARS.get(annotation, "any")
