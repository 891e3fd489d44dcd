"""The format of COCO: one JSON file per split with `images`, `categories` and `annotations`, boxes in pixels.

What else an image says about itself, in its row or under `attributes`, can be used to choose its domain.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from carla_bridge.datasets.dataset import Dataset, LabelledImage, box_inside, choose_split, picture_size
from carla_bridge.datasets.documents import image_folder, numbers, read_json
from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box
from carla_bridge.snippets.layout import Faults, Key, Row, attributes_of, category_names, key_of, table_rows


def read(place: Path, split: str | None, faults: Faults, pictures: Path | None = None) -> Dataset:
    """`place` is a folder with COCO's `annotations/`, with one JSON file, or with one in each split's folder."""
    splits = _label_files(place)
    chosen = choose_split(place, splits, split)
    file = splits[chosen]
    document = read_json(file)
    if not isinstance(document, dict):
        raise SnippetError(f"{file} holds a {type(document).__name__}, not a COCO object")
    categories = category_names(file, document)
    labels = {number: label for label, number in enumerate(categories)}
    rows = table_rows(file, document, "images")
    names = [row.get("file_name") for row in rows]
    if not rows or not all(isinstance(name, str) for name in names):
        raise SnippetError(f"{file}: 'images' is empty, or one of them has no file_name")
    boxes: dict[Key, list[Row]] = {}
    for row in table_rows(file, document, "annotations"):
        boxes.setdefault(key_of(row.get("image_id")), []).append(row)
    if unknown := set(boxes) - {key_of(row.get("id")) for row in rows}:
        faults.report(SnippetError(f"{file}: boxes belong to image id {unknown.pop()!r}, which does not exist"))
    homes = [file.parent, *file.parent.parents[:1]]
    guesses = [home / part for home in homes for part in (".", chosen, "images", f"images/{chosen}")]
    folder = pictures or image_folder(guesses, str(names[0]), file)
    left_out: Counter[str] = Counter()

    def images() -> Iterator[LabelledImage]:
        for row in sorted(rows, key=lambda row: str(row["file_name"])):
            try:
                mine = boxes.get(key_of(row.get("id")), [])
                yield _labelled(folder / row["file_name"], row, mine, labels, chosen, left_out, faults)
            except SnippetError as fault:
                faults.report(fault)

    return Dataset(tuple(categories.values()), chosen, len(rows), images(), left_out)


def _label_files(place: Path) -> dict[str, Path]:
    """Every split's file: COCO's own layout, or `_annotations.coco.json` in a folder per split, or just one file."""
    if place.is_file():
        return {_split_name(place): place}
    for pattern in ("annotations/instances_*.json", "annotations/*.json", "*/_annotations.coco.json", "*.json"):
        if found := sorted(place.glob(pattern)):
            return {_split_name(file): file for file in found}
    raise SnippetError(f"{place} has no annotations in JSON: name the JSON file itself, and its images with --images")


def _split_name(file: Path) -> str:
    plain = file.stem.removeprefix("instances_")
    return file.parent.name if plain in ("_annotations.coco", "annotations") else plain


def _labelled(
    path: Path,
    row: Row,
    annotations: list[Row],
    labels: dict[Key, int],
    split: str,
    left_out: Counter[str],
    faults: Faults,
) -> LabelledImage:
    size = picture_size(path)
    if size != (row.get("width"), row.get("height")):
        given = f"{row.get('width')} x {row.get('height')}"
        raise SnippetError(f"{path}: the image is {size[0]} x {size[1]}, its annotation says {given}")
    boxes: list[Box] = []
    for annotation in annotations:
        if annotation.get("iscrowd"):
            left_out["crowds"] += 1
            continue
        try:
            boxes.append(_box(f"{path.name}, annotation {annotation.get('id')}", annotation, labels, size))
        except SnippetError as fault:
            faults.report(fault)
    folder = Path(row["file_name"]).parent.as_posix()
    return LabelledImage(path, *size, Annotations.of(boxes), {"split": split, "folder": folder, **attributes_of(row)})


def _box(where: str, row: Row, labels: dict[Key, int], size: tuple[int, int]) -> Box:
    category = key_of(row.get("category_id"))
    if category not in labels:
        raise SnippetError(f"{where}: the category {row.get('category_id')!r} is not among 'categories'")
    bbox = row.get("bbox")
    if not isinstance(bbox, list) or len(bbox) != 4:
        raise SnippetError(f"{where}: bbox is {bbox!r}, not [x, y, width, height]")
    x, y, width, height = numbers(where, bbox)
    truncated = row.get("truncated")
    known = bool(truncated) if isinstance(truncated, bool | int) else None
    return box_inside(where, labels[category], (x, y, x + width, y + height), size, known)
