"""KITTI's 2D objects: `training/image_2/NAME.png` with `training/label_2/NAME.txt`, one object to a line.

A line has 15 values: type, truncated (0 to 1), occluded, alpha, the box's left, top, right and bottom in pixels, and
seven of the object in space, which are not used. The type DontCare marks regions whose objects nobody labelled.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from carla_bridge.datasets.dataset import Dataset, LabelledImage, box_inside, choose_split, picture_size
from carla_bridge.datasets.documents import numbers, read_text, rows_of
from carla_bridge.errors import SnippetError
from carla_bridge.frames import Annotations, Box
from carla_bridge.snippets.layout import Faults

TYPES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
DONT_CARE = "DontCare"

_COLUMNS = 15
_OTHERS = {16: "the score of a detector's results", 17: "the frame and track of a tracking label"}


def read(place: Path, split: str | None, faults: Faults) -> Dataset:
    """`place` has `training/`, or is itself the folder of `image_2` and `label_2`."""
    homes = [place, *sorted(folder for folder in place.iterdir() if folder.is_dir())]
    splits = {home.name: home for home in homes if (home / "image_2").is_dir() and (home / "label_2").is_dir()}
    if not splits:
        raise SnippetError(f"{place} has no folder with image_2 and label_2, such as KITTI's training")
    chosen = choose_split(place, splits, split)
    paths = sorted((splits[chosen] / "image_2").glob("*.[pj][np]g"))
    if not paths:
        raise SnippetError(f"{splits[chosen] / 'image_2'} has no images")
    left_out: Counter[str] = Counter()

    def images() -> Iterator[LabelledImage]:
        for path in paths:
            labels = splits[chosen] / "label_2" / f"{path.stem}.txt"
            try:
                size = picture_size(path)
                boxes = list(_boxes(labels, size, left_out, faults))
                yield LabelledImage(path, *size, Annotations.of(boxes), {"split": chosen})
            except SnippetError as fault:
                faults.report(fault)

    return Dataset(TYPES, chosen, len(paths), images(), left_out)


def _boxes(labels: Path, size: tuple[int, int], left_out: Counter[str], faults: Faults) -> Iterator[Box]:
    for where, words in rows_of(labels, read_text(labels)):
        try:
            if len(words) != _COLUMNS:
                hint = f", as with {_OTHERS[len(words)]}" if len(words) in _OTHERS else ""
                raise SnippetError(f"{where}: a label has {_COLUMNS} values, not {len(words)}{hint}")
            if words[0] == DONT_CARE:
                left_out[f"{DONT_CARE} regions"] += 1
                continue
            if words[0] not in TYPES:
                raise SnippetError(f"{where}: the type is {words[0]!r}; valid values: {', '.join(TYPES)}, {DONT_CARE}")
            truncated, _, _, *corners = numbers(where, words[1:8])
            yield box_inside(where, TYPES.index(words[0]), corners, size, truncated > 0)
        except SnippetError as fault:
            faults.report(fault)
