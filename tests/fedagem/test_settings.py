"""Every sentence with which a plan's settings are refused."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from fedagem.errors import PlanError
from fedagem.settings import parse_settings


@dataclass(frozen=True)
class Inner:
    size: int
    label: str = "x"


@dataclass(frozen=True)
class Outer:
    rate: float
    inner: Inner
    kind: Literal["red", "green"] = "red"
    flag: bool = False
    names: list[str] = field(default_factory=list)
    pair: tuple[int, ...] = ()
    root: str | None = None
    free: dict[str, Any] = field(default_factory=dict)
    later: Inner | None = None


GOOD: dict[str, Any] = {"rate": 0.5, "inner": {"size": 3}}


def parse(**changes: Any) -> Outer:
    return parse_settings(Outer, {**GOOD, **changes}, "a.settings")


def test_defaults_and_nested_values():
    assert parse() == Outer(0.5, Inner(3))
    everything = parse(
        rate=2, kind="green", flag=True, names=["a"], pair=[1, 2], root="r", free={"z": [1]}, later={"size": 1}
    )
    assert everything == Outer(2.0, Inner(3), "green", True, ["a"], (1, 2), "r", {"z": [1]}, Inner(1))
    assert isinstance(everything.rate, float)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rate": "fast"}, "a.settings.rate must be a number, not 'fast'."),
        ({"rate": True}, "a.settings.rate must be a number, not True."),
        ({"rate": None}, "a.settings.rate must be a number, not None."),
        ({"inner": {"size": 2.5}}, "a.settings.inner.size must be a whole number, not 2.5."),
        ({"inner": {"size": True}}, "a.settings.inner.size must be a whole number, not True."),
        ({"inner": {"size": 1, "label": 3}}, "a.settings.inner.label must be a text, not 3."),
        ({"inner": {}}, "a.settings.inner.size is missing: set it in the plan."),
        ({"inner": 4}, "a.settings.inner must be a mapping, not 4."),
        ({"inner": {"size": 1, "sise": 2}}, "a.settings.inner has no setting 'sise'; did you mean size?"),
        ({"flag": 1}, "a.settings.flag must be true or false, not 1."),
        ({"kind": "gren"}, "a.settings.kind is 'gren'; did you mean green or red?"),
        ({"kind": 7}, "a.settings.kind is 7; known are green, red."),
        ({"kind": ["red"]}, "a.settings.kind is ['red']; did you mean red?"),
        ({"names": "a"}, "a.settings.names must be a list, not 'a'."),
        ({"names": ["a", 1]}, "a.settings.names[1] must be a text, not 1."),
        ({"pair": [1, "b"]}, "a.settings.pair[1] must be a whole number, not 'b'."),
        ({"root": 5}, "a.settings.root must be a text, not 5."),
        ({"free": [1]}, "a.settings.free must be a mapping, not [1]."),
        ({"later": {"size": "x"}}, "a.settings.later.size must be a whole number, not 'x'."),
        ({"zzz": 1}, "a.settings has no setting 'zzz'; known are"),
        ({5: 1}, "a.settings has no setting 5; known are"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(change, sentence):
    with pytest.raises(PlanError) as refused:
        parse_settings(Outer, {**GOOD, **change}, "a.settings")
    assert refused.value.message.startswith(sentence)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("values", [None, [], "text", 3])
def test_settings_must_be_a_mapping(values):
    with pytest.raises(PlanError, match=r"a\.settings must be a mapping"):
        parse_settings(Outer, values, "a.settings")
