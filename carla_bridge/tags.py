"""CARLA's semantic tags, and the classes that a plan makes of them.

Apart from the annotation, so that a plan can be checked without loading the libraries that work on images.
"""

from collections.abc import Mapping, Sequence

from carla_bridge.errors import AnnotationError

RIDER = 13
VEHICLE_TAGS = (14, 15, 16, 17, 18, 19)
TWO_WHEELER_TAGS = (18, 19)
DEFAULT_TAGS: Mapping[str, tuple[int, ...]] = {
    "vehicle": (14, 15, 16, 17),
    "bike": (19,),
    "motobike": (18,),
    "traffic_light": (7,),
    "traffic_sign": (8,),
    "pedestrian": (12,),
}
"""Semantic tags by class; a vehicle is a car, truck, bus or train."""

DEFAULT_SPLIT = ("traffic_light",)
"""Classes whose objects have parts far apart: the heads of one traffic light on its pole and on its arm."""


def label_by_tag(tags: Mapping[str, Sequence[int]]) -> dict[int, int]:
    """The label of every tag that belongs to a class; labels count the classes in their order."""
    labels: dict[int, int] = {}
    for label, numbers in enumerate(tags.values()):
        for tag in numbers:
            if not 0 < tag < 256:
                raise AnnotationError(f"semantic tag {tag} is not between 1 and 255")
            if tag in labels:
                raise AnnotationError(f"semantic tag {tag} belongs to two classes")
            labels[tag] = label
    return labels
