"""Plan settings become typed dataclasses here; whatever does not fit is refused in one sentence.

The dataclass is the schema: its fields are the known keys, its annotations the types, its defaults the defaults.
"""

import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fedagem.errors import PlanError

T = TypeVar("T")


def parse_settings(schema: type[T], values: Any, path: str) -> T:
    """Build `schema` from the plan's values at `path`; refuses unknown and missing keys and wrong types."""
    if not isinstance(values, Mapping):
        raise PlanError(f"{path} must be a mapping, not {values!r}.")
    hints = typing.get_type_hints(schema)
    fields = {field.name: field for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise PlanError(f"{path} has no setting {key!r}{suggestion(str(key), fields)}")
    arguments = {}
    for name, field in fields.items():
        if name in values:
            arguments[name] = _convert(values[name], hints[name], f"{path}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PlanError(f"{path}.{name} is missing: set it in the plan.")
    return schema(**arguments)


def check_arguments(factory: Callable[..., Any], arguments: Mapping[str, Any], path: str) -> None:
    """Refuse settings that the thing they are meant for does not take, and plain values of another type."""
    known = _parameters(factory)
    for key, value in arguments.items():
        if key not in known:
            raise PlanError(f"{path} has no setting {key!r}{suggestion(key, known)}")
        if known[key].annotation in _KINDS:
            _convert_scalar(value, known[key].annotation, f"{path}.{key}")


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """With their types, unless those cannot be looked up at run time."""
    try:
        return inspect.signature(factory, eval_str=True).parameters
    except NameError:
        return inspect.signature(factory).parameters


def suggestion(word: str, known: typing.Iterable[str]) -> str:
    """The end of an error sentence: the nearest known names, or all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else f"; known are {', '.join(known)}."


def _convert(value: Any, hint: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return parse_settings(typing.cast(type, hint), value, path)
    if origin is typing.Literal:
        options = typing.get_args(hint)
        if value not in options:
            raise PlanError(f"{path} is {value!r}{suggestion(str(value), map(str, options))}")
        return value
    if origin in {typing.Union, types.UnionType}:
        return _convert_union(value, typing.get_args(hint), path)
    if origin in {list, tuple}:
        if not isinstance(value, (list, tuple)):
            raise PlanError(f"{path} must be a list, not {value!r}.")
        return origin(_convert(item, typing.get_args(hint)[0], f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise PlanError(f"{path} must be a mapping, not {value!r}.")
        return {key: _convert(item, typing.get_args(hint)[1], f"{path}.{key}") for key, item in value.items()}
    return _convert_scalar(value, hint, path)


def _convert_union(value: Any, options: tuple[Any, ...], path: str) -> Any:
    if value is None and type(None) in options:
        return None
    [option] = [option for option in options if option is not type(None)]
    return _convert(value, option, path)


def _convert_scalar(value: Any, hint: Any, path: str) -> Any:
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise PlanError(f"{path} must be {_KINDS.get(hint, hint.__name__)}, not {value!r}.")
    return value


_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
