"""A plan: everything that makes an experiment, typed, frozen and checked."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from carla_bridge.config.section import CarlaSettings
from fedagem.errors import PlanError
from fedagem.learning.trainer import TrainingSettings
from fedagem.plans import editing
from fedagem.plans.driving import DriveSettings, DrivingSettings, WarmUp
from fedagem.plans.federation import (
    AggregatorSettings,
    CollaboratorSettings,
    FederatedTask,
    NetworkSettings,
    parse_tasks,
)
from fedagem.plans.identity import computation_of, digest_of, settings_of
from fedagem.plans.rounds import RoundSettings
from fedagem.plans.schema import CLASSES, OPENFL_SECTIONS, OPTIONAL_SECTIONS, SECTIONS, WHOLE_SECTIONS, settings_schema
from fedagem.plans.templates import check_template
from fedagem.plans.workload import DrivingWorkload, TaskWorkload, Workload
from fedagem.settings import parse_settings, suggestion
from fedagem.tasks.settings import StreamSettings


class IncompletePlanError(PlanError):
    """The plan lacks a section, or one has no class: it was not merged with the base."""


@dataclass(frozen=True)
class Plan:
    """An experiment. It never changes: `changed` makes another plan, so two plans can be compared as they are."""

    name: str = field(compare=False)
    """What the plan is called: the name of its file."""
    templates: Mapping[str, str]
    """The class that does the work of each section."""
    aggregator: AggregatorSettings
    collaborator: CollaboratorSettings
    network: NetworkSettings
    rounds: RoundSettings
    """The section `assigner`: the stages of a round and who takes part."""
    tasks: Mapping[str, FederatedTask]
    """The functions that stages name."""
    training: TrainingSettings
    """The section `task_runner`: what a client computes."""
    data: StreamSettings | DrivingSettings
    """The section `data_loader`: what the clients learn from."""
    carla: CarlaSettings | None
    """What the vehicles do, if they drive live or are recorded first."""
    driving: DriveSettings | None
    """What is recorded before the rounds."""
    warm_up: WarmUp | None
    _document: editing.Document = field(repr=False, compare=False)
    """The YAML behind it, before what follows from other settings is filled in."""

    @classmethod
    def load(cls, path: Path) -> "Plan":
        """The plan of a YAML file, merged with the base and checked section by section."""
        return cls._parse(editing.load_document(path), path.stem)

    @classmethod
    def of_run(cls, path: Path, name: str) -> "Plan":
        """The complete plan that a run's processes follow."""
        return cls._parse(editing.read_yaml(path), name)

    def changed(
        self,
        changes: Mapping[str, Any] | None = None,
        assignments: Iterable[str] = (),
        seed: int | None = None,
        rounds: int | None = None,
    ) -> "Plan":
        """This plan with other settings: by dotted paths, `--set` assignments, `--seed` and `--rounds`."""
        document = copy.deepcopy(self._document)
        for path, value in (changes or {}).items():
            editing.set_value(document, path, value)
        editing.change(document, assignments)
        if seed is not None or rounds is not None:
            self._parse(document, self.name)
        if seed is not None:
            editing.set_seed(document, seed)
        if rounds is not None:
            editing.set_rounds(document, rounds)
        return self._parse(document, self.name)

    def template_of(self, section: str) -> str:
        """The class that does the work of a section."""
        return self.templates[section]

    def renamed(self, name: str) -> "Plan":
        """The same plan under another name."""
        return replace(self, name=name)

    def to_yaml(self) -> str:
        """The complete plan, as OpenFL and the run's processes follow it."""
        return yaml.safe_dump(editing.complete(self._document), sort_keys=False, allow_unicode=True)

    def by_path(self) -> dict[str, Any]:
        """Every setting of the complete plan by its dotted path; lists and empty sections as JSON."""
        return dict(_flat(editing.complete(self._document), ""))

    @property
    def workload(self) -> Workload:
        """What the clients learn from."""
        if isinstance(self.data, DrivingSettings):
            return DrivingWorkload(self.data, self.carla)
        return TaskWorkload(self.data)

    @property
    def seed(self) -> int:
        """The one seed of the run."""
        return self.data.seed

    @property
    def label(self) -> str:
        """What a run of this plan is called in tables and legends."""
        return self.training.label

    @property
    def run_name(self) -> str:
        """What the folder of a run is called: the plan, the method and the seed."""
        return f"{self.name}-{self.training.short_name}-seed{self.seed}"

    @property
    def pending_warm_up(self) -> WarmUp | None:
        """How the model is warmed up; None if it is not, or if the plan names the model to begin with."""
        return None if self.training.initial_model is not None else self.warm_up

    @property
    def digest(self) -> str:
        """A short name for the settings: the same settings, the same name, whether defaults are spelled out or not."""
        return digest_of(settings_of(self._parts()))

    @property
    def origin(self) -> str:
        """What checkpoints and clients' states belong to: a name for what each round computes, at any address."""
        return digest_of(computation_of(self._parts()))

    def _parts(self) -> dict[str, Any]:
        """The plan's sections, with those that only OpenFL reads."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in {"name", "_document"}}
        whole = editing.complete(self._document)
        openfl = {name: {"settings": {}, **whole[name]} for name in OPENFL_SECTIONS if name in whole}
        return {name: part for name, part in {**named, **openfl}.items() if part is not None}

    @classmethod
    def _parse(cls, document: editing.Document, name: str) -> "Plan":
        whole = editing.complete(document)
        _check_layout(whole)
        # First, because others follow from them: a mistake is refused by the name under which it was made.
        data = _section(whole, "data_loader", settings_schema("data_loader", whole["data_loader"]) or StreamSettings)
        return cls(
            name=name,
            templates={section: part["template"] for section, part in whole.items() if "template" in part},
            aggregator=_section(whole, "aggregator", AggregatorSettings),
            collaborator=_section(whole, "collaborator", CollaboratorSettings),
            network=_section(whole, "network", NetworkSettings),
            rounds=_section(whole, "assigner", RoundSettings),
            tasks=parse_tasks(whole["tasks"]),
            training=_section(whole, "task_runner", TrainingSettings),
            data=data,
            carla=_whole_section(whole, "carla"),
            driving=_whole_section(whole, "driving"),
            warm_up=_whole_section(whole, "warm_up"),
            _document=document,
        )


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, dict | list):
        yield path, json.dumps(value)
    else:
        yield path, value


def _check_layout(document: editing.Document) -> None:
    """Refuse a plan without the sections that are needed, with unknown ones, or with one that is not a mapping."""
    for name in SECTIONS:
        if not isinstance(document.get(name), dict):
            raise IncompletePlanError(f"the plan has no section {name!r}.")
    for name, section in document.items():
        if name not in (*SECTIONS, *OPTIONAL_SECTIONS):
            raise PlanError(f"the plan has an unknown section {name!r}{suggestion(str(name), SECTIONS)}")
        if not isinstance(section, dict):
            raise PlanError(f"{name} must be a mapping, not {section!r}.")
        if not isinstance(section.get("settings", {}), dict):
            raise PlanError(f"{name}.settings must be a mapping, not {section['settings']!r}.")
        check_template(name, section.get("template", ""))
    for name in CLASSES:
        if not {"template", "settings"} <= document[name].keys():
            raise IncompletePlanError(f"{name} needs a template, the class that does its work, and settings.")


def _section(document: editing.Document, name: str, schema: type[Any]) -> Any:
    return parse_settings(schema, document[name]["settings"], f"{name}.settings")


def _whole_section(document: editing.Document, name: str) -> Any:
    return parse_settings(WHOLE_SECTIONS[name], document[name], name) if name in document else None
