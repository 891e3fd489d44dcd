"""Every sentence with which a plan's settings are refused."""

from typing import Any, Literal

import pytest
from pydantic import Field

from fedagem.errors import PlanError
from fedagem.settings import Settings, Several, default_of, fields_below, parse_settings


class Inner(Settings):
    size: int = Field(ge=1)
    """How large it is."""
    label: str = "x"


class Outer(Settings):
    rate: float = Field(gt=0, le=10)
    inner: Inner
    kind: Literal["red", "green"] = "red"
    flag: bool = False
    names: list[str] = Field(default_factory=list)
    pair: Several[int] = ()
    root: str | None = None
    free: dict[str, Any] = Field(default_factory=dict)
    later: Inner | None = None
    legs: dict[str, list[Inner]] = Field(default_factory=dict)
    every: int | Literal["task"] = 1


GOOD: dict[str, Any] = {"rate": 0.5, "inner": {"size": 3}}


def parse(**changes: Any) -> Outer:
    return parse_settings(Outer, {**GOOD, **changes}, "a.settings")


def test_defaults_and_nested_values():
    assert parse() == Outer(rate=0.5, inner=Inner(size=3))
    everything = parse(
        rate=2, kind="green", flag=True, names=["a"], pair=[1, 2], root="r", free={"z": [1]}, later={"size": 1}
    )
    assert everything == Outer(
        rate=2.0,
        inner=Inner(size=3),
        kind="green",
        flag=True,
        names=["a"],
        pair=(1, 2),
        root="r",
        free={"z": [1]},
        later=Inner(size=1),
    )
    assert isinstance(everything.rate, float)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rate": "fast"}, "a.settings.rate must be a number, not 'fast'."),
        ({"rate": True}, "a.settings.rate must be a number, not True."),
        ({"rate": None}, "a.settings.rate must be a number, not None."),
        ({"rate": 0}, "a.settings.rate must be positive, not 0."),
        ({"rate": 10.5}, "a.settings.rate must be at most 10, not 10.5."),
        ({"rate": float("nan")}, "a.settings.rate must be a finite number, not nan."),
        ({"inner": {"size": 2.5}}, "a.settings.inner.size must be a whole number, not 2.5."),
        ({"inner": {"size": True}}, "a.settings.inner.size must be a whole number, not True."),
        ({"inner": {"size": 0}}, "a.settings.inner.size must be at least 1, not 0."),
        ({"inner": {"size": 1, "label": 3}}, "a.settings.inner.label must be a string, not 3."),
        ({"inner": {}}, "a.settings.inner.size is missing: set it in the plan."),
        ({"inner": 4}, "a.settings.inner must be a mapping, not 4."),
        ({"inner": {"size": 1, "sise": 2}}, "a.settings.inner has no setting 'sise'; did you mean size?"),
        ({"inner": {"sise": 2}}, "a.settings.inner has no setting 'sise'; did you mean size?"),
        ({"flag": 1}, "a.settings.flag must be true or false, not 1."),
        ({"kind": "gren"}, "a.settings.kind is 'gren'; did you mean green or red?"),
        ({"kind": 7}, "a.settings.kind is 7; valid values: green, red."),
        ({"kind": ["red"]}, "a.settings.kind is ['red']; did you mean red?"),
        ({"names": "a"}, "a.settings.names must be a list, not 'a'."),
        ({"names": ["a", 1]}, "a.settings.names[1] must be a string, not 1."),
        ({"pair": [1, "b"]}, "a.settings.pair[1] must be a whole number, not 'b'."),
        ({"pair": 5}, "a.settings.pair must be a list, not 5."),
        ({"root": 5}, "a.settings.root must be a string, not 5."),
        ({"free": [1]}, "a.settings.free must be a mapping, not [1]."),
        ({"later": {"size": "x"}}, "a.settings.later.size must be a whole number, not 'x'."),
        ({"later": 3}, "a.settings.later must be a mapping, not 3."),
        (
            {"legs": {"v": [{"size": 1}, {"size": 1, "labl": "y"}]}},
            "a.settings.legs.v[1] has no setting 'labl'; did you",
        ),
        ({"legs": {"v": {}}}, "a.settings.legs.v must be a list, not {}."),
        ({"every": "tusk"}, "a.settings.every must be a whole number or 'task', not 'tusk'."),
        ({"zzz": 1}, "a.settings has no setting 'zzz'; valid values: "),
        ({5: 1}, "a.settings has no setting 5; valid values: "),
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


def test_a_setting_carries_its_sentence_and_its_default():
    fields = dict(fields_below(Outer, "a"))
    assert fields["a.inner.size"].description == "How large it is."
    assert default_of(fields["a.inner.size"]) is ...
    assert default_of(fields["a.pair"]) == ()
    assert default_of(fields["a.every"]) == 1
