"""Turns a data set into snippets, all of them or none: one folder per vehicle and domain."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from carla_bridge.datasets import bdd100k, coco, kitti, yolo
from carla_bridge.datasets.dataset import Dataset, LabelledImage
from carla_bridge.datasets.domains import DomainRule, domain_name, domains_by_rule, domains_by_value
from carla_bridge.datasets.new_folder import new_folder, require_free
from carla_bridge.errors import SnippetError
from carla_bridge.snippets.layout import Faults
from carla_bridge.snippets.writer import SnippetWriter

SUMMARY = "import.json"

_READERS = {"yolo": yolo.read, "kitti": kitti.read}
_READERS_WITH_PICTURES = {"coco": coco.read, "bdd100k": bdd100k.read}
"""Formats whose images may lie anywhere."""


@dataclass
class Imported:
    """What an import made; written as `import.json` beside the snippets."""

    split: str
    classes: tuple[str, ...]
    frames: dict[str, dict[str, int]] = field(default_factory=dict)
    """Frames by vehicle and domain."""
    boxes: dict[str, int] = field(default_factory=dict)
    """Boxes by class."""
    left_out: dict[str, int] = field(default_factory=dict)
    """What was not imported, by its kind."""


def open_dataset(kind: str, place: Path, split: str | None, pictures: Path | None, faults: Faults) -> Dataset:
    """Find a data set's labels and images; `pictures` is where the images are, for formats that do not say it."""
    if not place.exists():
        raise SnippetError(f"{place} does not exist")
    if kind in _READERS_WITH_PICTURES:
        return _READERS_WITH_PICTURES[kind](place, split, faults, pictures)
    if pictures is not None:
        raise SnippetError(f"--images is for coco and bdd100k: the files of {kind} say themselves where the images are")
    return _READERS[kind](place, split, faults)


def import_dataset(
    dataset: Dataset,
    out: Path,
    *,
    rules: Sequence[DomainRule] = (),
    by: Sequence[str] = (),
    vehicles: int = 1,
    show: Callable[[int], None] = lambda done: None,
) -> Imported:
    """Read a whole split, choose domains by `rules` or by the values of the attributes `by`, and write snippets.

    Each domain's images, in order of their names, are divided among the vehicles in as many parts of equal length.
    """
    require_free(out)
    images = []
    for image in dataset.images:
        images.append(image)
        show(len(images))
    if not images:
        raise SnippetError(f"no image of the split {dataset.split!r} can be used")
    parts = _divided(images, _domains(images, rules, by, dataset.split), vehicles)
    imported = Imported(dataset.split, dataset.classes, left_out=dict(dataset.left_out))
    if unmatched := len(images) - sum(map(len, parts.values())):
        imported.left_out["images of no domain"] = unmatched
    counted: Counter[int] = Counter()
    with new_folder(out) as folder:
        for (vehicle, domain), mine in parts.items():
            stays = imported.frames.setdefault(vehicle, {})
            place = folder / vehicle / f"{len(stays):03d}_{domain}"
            with SnippetWriter(place, dataset.classes, vehicle=vehicle, domain=domain) as writer:
                for image in mine:
                    details = {"source": image.path.name, "attributes": dict(image.attributes)}
                    writer.adopt(image.path, (image.width, image.height), image.annotations, **details)
                    counted.update(image.annotations.labels.tolist())
            stays[domain] = len(mine)
        imported.boxes = {name: counted[label] for label, name in enumerate(dataset.classes)}
        (folder / SUMMARY).write_text(json.dumps(asdict(imported), indent=1) + "\n")
    return imported


def _domains(
    images: Sequence[LabelledImage], rules: Sequence[DomainRule], by: Sequence[str], split: str
) -> list[str | None]:
    if rules:
        return domains_by_rule(images, rules)
    return domains_by_value(images, by) if by else [domain_name(split)] * len(images)


def _divided(
    images: Sequence[LabelledImage], domains: Sequence[str | None], vehicles: int
) -> dict[tuple[str, str], list[LabelledImage]]:
    """The images of each vehicle and domain; every vehicle has some of every domain."""
    by_domain: dict[str, list[LabelledImage]] = {}
    for image, domain in zip(images, domains, strict=True):
        if domain is not None:
            by_domain.setdefault(domain, []).append(image)
    parts: dict[tuple[str, str], list[LabelledImage]] = {}
    for number in range(vehicles):
        for domain, mine in by_domain.items():
            if len(mine) < vehicles:
                raise SnippetError(f"the domain {domain!r} has {len(mine)} images, too few for {vehicles} vehicles")
            begin, end = (len(mine) * part // vehicles for part in (number, number + 1))
            parts[f"vehicle_{number + 1}", domain] = mine[begin:end]
    return parts
