"""Which domain an image belongs to, by its attributes: rules with names, or the values themselves."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from carla_bridge.config.image_rule import EXAMPLE, ImageRule
from carla_bridge.datasets.dataset import LabelledImage
from carla_bridge.errors import ConfigError, SnippetError
from fedagem.settings import NAME_RULE, is_name

LONGEST_NAME = 40


@dataclass(frozen=True)
class DomainRule:
    """The images that a rule fits, such as `highway: scene=highway`."""

    name: str
    rule: ImageRule

    @classmethod
    def parse(cls, text: str) -> "DomainRule":
        """From `NAME: ATTRIBUTE=VALUE|VALUE, ATTRIBUTE=VALUE`."""
        name, colon, rest = text.partition(":")
        name = name.strip()
        if not colon:
            raise SnippetError(f"the domain {text!r} is not written like 'city: {EXAMPLE}'")
        try:
            rule = ImageRule.parse(rest)
        except ConfigError as problem:
            raise SnippetError(f"the domain {text!r} is not written like 'city: {EXAMPLE}': {problem}") from problem
        if not is_name(name):
            raise SnippetError(f"the domain's name {name!r} must have {NAME_RULE}")
        return cls(name, rule)


def domains_by_rule(images: Sequence[LabelledImage], rules: Sequence[DomainRule]) -> list[str | None]:
    """The first rule that fits each image, None if none does; refuses a rule that fits no image at all."""
    chosen = [next((rule.name for rule in rules if rule.rule.fits(image.attributes)), None) for image in images]
    for rule in rules:
        if rule.name not in chosen:
            found = rule.rule.found(image.attributes for image in images)
            raise SnippetError(f"no image is left for the domain {rule.name!r}: {found}")
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
