"""Which domain an image belongs to, by its attributes: rules with names, or the values themselves."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carla_bridge.datasets.dataset import LabelledImage
from carla_bridge.errors import SnippetError
from fedagem.settings import NAME_RULE, is_name

LONGEST_NAME = 40


@dataclass(frozen=True)
class DomainRule:
    """The images whose attributes have one of the given values each, such as `highway: scene=highway`."""

    name: str
    conditions: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, text: str) -> "DomainRule":
        """From `NAME: ATTRIBUTE=VALUE|VALUE, ATTRIBUTE=VALUE`."""
        name, colon, rest = text.partition(":")
        name = name.strip()
        conditions: dict[str, tuple[str, ...]] = {}
        for part in rest.split(","):
            attribute, equals, values = part.partition("=")
            wanted = tuple(_plain(value) for value in values.split("|"))
            if not colon or not equals or not attribute.strip() or not all(wanted):
                raise SnippetError(f"the domain {text!r} is not written like 'city: scene=city street|residential'")
            conditions[attribute.strip()] = wanted
        if not is_name(name):
            raise SnippetError(f"the domain's name {name!r} must have {NAME_RULE}")
        return cls(name, conditions)

    def fits(self, image: LabelledImage) -> bool:
        return all(_plain(image.attributes.get(key, "")) in values for key, values in self.conditions.items())


def domains_by_rule(images: Sequence[LabelledImage], rules: Sequence[DomainRule]) -> list[str | None]:
    """The first rule that fits each image, None if none does; refuses a rule that fits no image at all."""
    chosen = [next((rule.name for rule in rules if rule.fits(image)), None) for image in images]
    for rule in rules:
        if rule.name not in chosen:
            raise SnippetError(f"no image is left for the domain {rule.name!r}: {_values(images, rule.conditions)}")
    return chosen


def domains_by_value(images: Sequence[LabelledImage], attributes: Sequence[str]) -> list[str | None]:
    """The values of the attributes, joined to a name: `city-street-daytime`."""
    chosen: list[str | None] = []
    for image in images:
        for attribute in attributes:
            if attribute not in image.attributes:
                raise SnippetError(
                    f"{image.path} has no attribute {attribute!r}; it has {', '.join(image.attributes) or 'none'}"
                )
        chosen.append(domain_name("-".join(image.attributes[attribute] for attribute in attributes)))
    return chosen


def domain_name(text: str) -> str:
    """A name that folders and plans can have."""
    name = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")
    return name[:LONGEST_NAME].rstrip("-_") or "undefined"


def _plain(value: str) -> str:
    return " ".join(value.lower().split())


def _values(images: Sequence[LabelledImage], attributes: Mapping[str, object]) -> str:
    """What the images have for these attributes."""
    parts = []
    for attribute in attributes:
        counts = Counter(image.attributes[attribute] for image in images if attribute in image.attributes)
        found = ", ".join(f"{value} ({count})" for value, count in counts.most_common(12))
        parts.append(f"{attribute} is {found}" if found else f"no image has the attribute {attribute}")
    return "; ".join(parts)
