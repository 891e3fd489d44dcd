"""The data sets and weights behind plans and studies: where they belong, and whether they are there."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fedagem.plans.driving import DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import plan_names
from fedagem.runs.many_runs import Job
from fedagem.studies.runs import StudyRun
from fedagem.studies.study import Part, Scale, load_scale, load_study, overlap, study_names
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.settings import StreamSettings, SurrogateSettings
from fedagem.tasks.sources import comes_with_a_package, load_source, missing_files
from fedagem.tasks.sources.published import DATA_SETS, WEIGHTS, Published, has_checksum
from fedagem.tasks.sources.yahooqa import ENCODER

Kind = Literal["data", "weights", "drives"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_SUFFIXES = {".bin", ".npz", ".pt", ".pth", ".safetensors", ".weights"}
"""A setting of a network or a method that ends like this is a file of weights."""
_NAMING_SETTINGS = (
    *(f"data_loader.settings.{name}" for name in ("dataset", "root", "dataset_settings", "surrogate")),
    "task_runner.settings.model",
)
"""The settings of a plan that name data and weights."""


@dataclass(frozen=True)
class Need:
    """A data set, a file or folder of weights, or recorded drives, as a plan names it."""

    kind: Kind
    name: str
    place: Path
    """Where it is looked for on this machine."""
    files: tuple[Path, ...] = field(default=(), compare=False)
    """Of weights and drives: the files that must be there."""
    root: str = field(default="", compare=False)
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Of data sets: how the plan names the place, and their settings."""

    @property
    def installed(self) -> bool:
        """Whether it comes with a package."""
        return self.kind == "data" and comes_with_a_package(self.name)

    @property
    def published(self) -> Published | None:
        """What its authors say about it; None if it is the user's own."""
        if self.kind == "data":
            return DATA_SETS.get(self.name)
        return next((known for path, known in WEIGHTS.items() if self.place.match(path)), None)

    def missing(self) -> list[Path]:
        """The files that it needs and that are not there."""
        if self.kind != "data":
            return [path for path in self.files if not path.exists()]
        encoder = _encoder_of(self.name, self.settings)
        files = missing_files(self.name, self.root, self.settings)
        return [path for path in files if encoder is None or not path.is_relative_to(encoder)]

    def bytes_on_disk(self) -> int:
        """How much of it is there."""
        found = [path for path in (self.files if self.kind == "drives" else [self.place]) if path.exists()]
        files = [file for path in found for file in ([path] if path.is_file() else path.rglob("*"))]
        return sum(file.stat().st_size for file in files if file.is_file())

    def verify(self) -> dict[Path, bool]:
        """Whether the files that are there and have a published checksum are what was published."""
        checksums = self.published.checksums if self.published else {}
        files = {self.place / below: checksum for below, checksum in checksums.items()}
        return {path: has_checksum(path, checksum) for path, checksum in files.items() if path.is_file()}


@dataclass(frozen=True)
class Needed:
    """Something that plans and studies need, and which ones."""

    need: Need
    plans: list[str] = field(default_factory=list)
    studies: list[str] = field(default_factory=list)


def needs_of(plan: Plan) -> list[Need]:
    """What a plan needs, each once."""
    found: list[Need] = []
    if isinstance(plan.data, StreamSettings):
        for data in (plan.data, plan.data.surrogate):
            found += _data_needs(data) if data is not None else []
    else:
        found += _drives(plan.data)
    found += [
        _weights(path) for path in _weight_files({**plan.training.model.settings, **plan.training.method_settings})
    ]
    return list(dict.fromkeys(found))


def needs_of_studies(folder: Path, scale: str) -> dict[str, dict[str, list[Need]]]:
    """What every study needs at a scale, by study and plan; looks at settings that name data, so it is quick."""
    load = functools.cache(lambda plan: Plan.load(folder / f"{plan}.yaml"))
    needs: dict[str, dict[str, list[Need]]] = {}
    for name in study_names(folder):
        needs[name] = {}
        for part in load_study(folder, name).parts:
            found = needs[name].setdefault(part.plan, [])
            for changes in _variations(part, load_scale(folder, part, scale)):
                found += needs_of(load(part.plan).changed(changes))
            found += [_weights(path) for row in part.rows for path in _weight_files(row.method_settings)]
            needs[name][part.plan] = list(dict.fromkeys(found))
    return needs


def everything_needed(folder: Path) -> list[Needed]:
    """What the plans of the package need, and the studies at the scale of the paper; data sets come first."""
    users: list[tuple[str, str | None, Need]]
    users = [(name, None, need) for name in plan_names() for need in needs_of(Plan.load(folder / f"{name}.yaml"))]
    by_study = needs_of_studies(folder, "paper")
    users += [(plan, study, n) for study, by_plan in by_study.items() for plan, found in by_plan.items() for n in found]
    needed: dict[Need, Needed] = {}
    for plan, study, need in users:
        entry = needed.setdefault(need, Needed(need))
        for name, names in ((plan, entry.plans), (study, entry.studies)):
            if name is not None and name not in names:
                names.append(name)
    return sorted(needed.values(), key=lambda entry: (KINDS.index(entry.need.kind), entry.need.name))


def fetch_missing(runs: Sequence[StudyRun | Job]) -> None:
    """Fetch what can be fetched once for all runs, and refuse the rest before any run is laid out."""
    needs = dict.fromkeys(need for run in runs if not run.finished for need in needs_of(run.plan))
    for need in needs:
        if need.kind == "data" and missing_files(need.name, need.root, need.settings):
            load_source(need.name, need.root, need.settings)


def _variations(part: Part, scale: Scale) -> list[dict[str, Any]]:
    """What the rows of a part change in the settings that name data and weights."""
    found: list[dict[str, Any]] = []
    for row in part.rows:
        changes = {**scale.set, **row.set}
        changes = {
            path: value for path, value in changes.items() if any(overlap(path, own) for own in _NAMING_SETTINGS)
        }
        if changes not in found:
            found.append(changes)
    return found


def _data_needs(data: StreamSettings | SurrogateSettings) -> list[Need]:
    root = data.root or data.dataset
    needs = [Need("data", data.dataset, resolve_root(root), root=root, settings=data.dataset_settings)]
    if (encoder := _encoder_of(data.dataset, data.dataset_settings)) is not None:
        needs.append(Need("weights", encoder.name, encoder, (encoder / "config.json",)))
    return needs


def _encoder_of(dataset: str, settings: Mapping[str, Any]) -> Path | None:
    """The folder of a text encoder."""
    if dataset != "yahooqa":
        return None
    return resolve_root(str(settings.get("encoder", ENCODER)))


def _drives(data: DrivingSettings) -> Iterator[Need]:
    """The recorded drives that a plan replays or is evaluated on."""
    legs = [leg for legs in data.snippets.values() for leg in legs]
    named = [
        *(path for leg in legs for path in leg.paths),
        *(path for paths in data.evaluation.paths.values() for path in paths),
    ]
    by_folder: dict[Path, list[Path]] = {}
    for path in (resolve_root(path) for path in dict.fromkeys(named)):
        by_folder.setdefault(path.parent, []).append(path)
    for place, paths in by_folder.items():
        yield Need("drives", place.name, place, tuple(paths))


def _weight_files(settings: Mapping[str, Any]) -> Iterable[str]:
    return [value for value in settings.values() if isinstance(value, str) and Path(value).suffix in _SUFFIXES]


def _weights(path: str) -> Need:
    place = resolve_root(os.path.expandvars(path))
    name = f"{place.parent.name}/{place.name}" if place.stem == "model" else place.name
    return Need("weights", name, place, (place,))
