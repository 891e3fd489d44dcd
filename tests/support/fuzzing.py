"""Inputs that nobody meant: values of any shape, and documents, texts and bytes in which something was changed.

A quick form of each test tries the same inputs every time; the nightly one tries many more, and others every night.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click import ClickException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_odd_numbers = st.sampled_from([0, -1, 2**31, 2**63, 2**64 - 1, 1e300, -0.0, 5e-324])
_odd_texts = st.sampled_from(["", ".", "..", "../../escape", "/", "\0", "\n", "null", "a" * 300, "é", "~", "{}", "%s"])
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=12)
    | _odd_numbers
    | _odd_texts
)
_MANY = 1000
"""A quick test tries fewer inputs, and the same ones every time."""
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
"""What YAML, JSON and msgpack can all hold."""


def amounts(quick: int, nightly: int) -> pytest.MarkDecorator:
    """How many inputs the test called with `examples` tries."""
    return pytest.mark.parametrize(
        "examples", [quick, pytest.param(nightly, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])]
    )


def fuzz(inputs: st.SearchStrategy[Any], check: Callable[[Any], object], examples: int) -> None:
    """Call `check` with so many inputs; what it raises fails the test, with the smallest input that does it."""
    tried = 0

    @settings(
        max_examples=examples,
        derandomize=examples < _MANY,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def try_one(value: Any) -> None:
        nonlocal tried
        tried += 1
        check(value)

    try_one()
    print(f"{tried} inputs")


@contextmanager
def refused_in_a_sentence(kind: type[Exception]) -> Iterator[None]:
    """Inside, an error of this kind is fine if its message is one line; any other fails the test."""
    try:
        yield
    except kind as refusal:
        _check_sentence(refusal.message if isinstance(refusal, ClickException) else str(refusal))


def _check_sentence(message: str) -> None:
    assert message
    assert "\n" not in message, message


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A document of mappings and lists with one to three places replaced, removed, repeated or given something new."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(result))
        if not places:
            return draw(values)
        parent, key = draw(st.sampled_from(places))
        action = draw(st.sampled_from(["replace", "replace", "remove", "add", "repeat"]))
        if action == "replace":
            others = [place[0][place[1]] for place in places]
            parent[key] = copy.deepcopy(draw(values | st.sampled_from(others)))
        elif action == "remove":
            del parent[key]
        elif action == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = draw(values)
        elif isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]) if action == "repeat" else draw(values))
    return result


def _places(node: Any, depth: int = 0) -> Any:
    if depth > 30:
        return
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in list(entries):
        yield node, key
        yield from _places(child, depth + 1)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes that were cut, overwritten in some places, or had others put among them."""
    result = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(result)))
        action = draw(st.sampled_from(["cut", "flip", "overwrite", "insert", "remove"]))
        if action == "cut":
            del result[place:]
        elif action == "flip" and place < len(result):
            result[place] ^= 1 << draw(st.integers(0, 7))
        elif action == "overwrite":
            some = draw(st.binary(min_size=1, max_size=16))
            result[place : place + len(some)] = some
        elif action == "insert":
            result[place:place] = draw(st.binary(max_size=16))
        elif action == "remove":
            del result[place : place + draw(st.integers(1, 64))]
    return bytes(result)
