"""Which images belong to a domain, by what is known of them: the syntax of `import --domain` and of plans."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from carla_bridge.errors import ConfigError

EXAMPLE = "scene=city street|residential, brightness>=40"
_CONDITION = re.compile(r"([^<>=]+)(<=|>=|<|>|=)(.*)")
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Condition:
    """One of some values, or a bound that numbers keep."""

    attribute: str
    operator: str
    values: tuple[str, ...] = ()
    bound: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """From `ATTRIBUTE=VALUE|VALUE` or, for instance, `ATTRIBUTE>=NUMBER`; refuses anything else."""
        found = _CONDITION.fullmatch(text.strip())
        if found is None or not found[1].strip():
            raise ConfigError(f"{text.strip()!r} has no attribute and value")
        attribute, operator, right = found[1].strip(), found[2], found[3]
        if operator == "=":
            values = tuple(_plain(value) for value in right.split("|"))
            if not all(values):
                raise ConfigError(f"{text.strip()!r} has an empty value")
            return cls(attribute, operator, values)
        bound = _number(right)
        if bound is None:
            raise ConfigError(f"{text.strip()!r} compares with {right.strip()!r}, which is not a number")
        return cls(attribute, operator, bound=bound)

    def fits(self, attributes: Mapping[str, str]) -> bool:
        given = attributes.get(self.attribute, "")
        if self.operator == "=":
            return _plain(given) in self.values
        number = _number(given)
        if number is None:
            return False
        below = number < self.bound if self.operator in ("<", ">=") else number <= self.bound
        return below == self.operator.startswith("<")


@dataclass(frozen=True)
class ImageRule:
    """Images that meet all conditions."""

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, text: str) -> "ImageRule":
        """From conditions with commas between them."""
        return cls(tuple(Condition.parse(part) for part in text.split(",")))

    def fits(self, attributes: Mapping[str, str]) -> bool:
        return all(condition.fits(attributes) for condition in self.conditions)

    def found(self, images: Iterable[Mapping[str, str]]) -> str:
        """What the attributes of some images are, for the sentence that says that none of them fits."""
        given = list(images)
        return "; ".join(_found(name, given) for name in dict.fromkeys(each.attribute for each in self.conditions))


def _found(attribute: str, images: list[Mapping[str, str]]) -> str:
    values = [image[attribute] for image in images if attribute in image]
    if not values:
        known = ", ".join(sorted(set(chain.from_iterable(images)))) or "none"
        return f"no image has the attribute {attribute!r}; their attributes: {known}"
    numbers = [number for value in values if (number := _number(value)) is not None]
    if len(numbers) == len(values) and len(set(numbers)) > _MOST_SHOWN:
        return f"{attribute} is {min(numbers):g} to {max(numbers):g}"
    counts = Counter(values).most_common(_MOST_SHOWN)
    return f"{attribute} is {', '.join(f'{value} ({count})' for value, count in counts)}"


def _plain(value: str) -> str:
    return " ".join(value.lower().split())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
