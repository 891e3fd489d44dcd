"""Settings of a plan: typed models that refuse a wrong value with one sentence.

A setting has one home, a field of a `Settings` model: its type, its bounds, its default, and below it the sentence
that explains it. The check, the error, `fedagem plan show`, the schema for editors and docs/plan.md follow from it.
"""

import difflib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from fedagem.errors import PlanError


class Settings(BaseModel):
    """A mapping of a plan: unknown keys are refused, and values are never converted to another type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


S = TypeVar("S", bound=BaseModel)
T = TypeVar("T")
Several = Annotated[tuple[T, ...], Strict(False)]
"""A list in YAML, a tuple here."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
NAME_RULE = "up to 40 lower-case letters, digits, '-' and '_' that begin with a letter or a digit"


def is_name(text: str) -> bool:
    """Whether something may be called so: folders and certificates carry names, and OpenFL makes them lower-case."""
    return _NAME.fullmatch(text) is not None


def _check_name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"must be a name of {NAME_RULE}, not {text!r}.")
    return text


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"})]
"""What a collaborator or a vehicle is called."""
Place = tuple[int | str, ...]


def parse_settings(schema: type[S], values: Any, path: str) -> S:
    """Build `schema` from the plan's values at `path`; refuses unknown and missing keys and wrong types."""
    if not isinstance(values, Mapping):
        raise PlanError(f"{path} must be a mapping, not {values!r}.")
    for key in values:
        if not isinstance(key, str):
            raise PlanError(f"{path} has no setting {key!r}{suggestion(str(key), schema.model_fields)}")
    try:
        return schema.model_validate(dict(values))
    except ValidationError as problem:
        raise PlanError(_sentence(schema, problem.errors(), path)) from None


def check_arguments(factory: Callable[..., Any], arguments: Mapping[str, Any], path: str) -> None:
    """Refuse settings that the thing they are meant for does not take, and plain values of another type.

    A class may declare all about its settings as a model named `Settings`.
    """
    if schema := settings_of(factory):
        parse_settings(schema, arguments, path)
        return
    known = _parameters(factory)
    for key, value in arguments.items():
        if key not in known:
            raise PlanError(f"{path} has no setting {key!r}{suggestion(key, known)}")
        wanted = known[key].annotation
        fits = isinstance(value, (int, float) if wanted is float else wanted) if wanted in _KINDS else True
        if not fits or (isinstance(value, bool) and wanted in {int, float, str}):
            raise PlanError(f"{path}.{key} must be {_KINDS[wanted]}, not {value!r}.")


def settings_of(factory: Callable[..., Any]) -> type[BaseModel] | None:
    """The model of the settings that a class declares."""
    declared = getattr(factory, "Settings", None)
    return declared if isinstance(declared, type) and issubclass(declared, BaseModel) else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error sentence: the nearest known names, or all of them."""
    known = sorted(known)
    if not known:
        return "; there are none."
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else f"; valid values: {', '.join(known)}."


def fields_below(schema: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Every setting of a schema by its dotted path, nested models included."""
    for name, field in schema.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, field
        if nested := nested_model(field.annotation):
            yield from fields_below(nested, path)


def nested_model(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, itself or optionally."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        models = [found for option in typing.get_args(annotation) if (found := nested_model(option))]
        return models[0] if len(models) == 1 else None
    return None


def default_of(field: FieldInfo) -> Any:
    """A field's default as plain values; `...` if it must be given."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return ...
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else default


_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
_WRONG_TYPE = {
    "int_type": _KINDS[int],
    "int_from_float": _KINDS[int],
    "float_type": _KINDS[float],
    "string_type": _KINDS[str],
    "bool_type": _KINDS[bool],
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """With their types, unless those cannot be looked up at run time."""
    try:
        return inspect.signature(factory, eval_str=True).parameters
    except NameError:
        return inspect.signature(factory).parameters


def _sentence(schema: type[BaseModel], errors: list[ErrorDetails], path: str) -> str:
    """The first mistake; a misspelt key comes before the missing one that it was meant to be."""
    error = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    kind, place, value = error["type"], error["loc"], error["input"]
    at = _dotted(path, _without_union_tag(place))
    if kind == "extra_forbidden":
        known = _names_at(schema, place[:-1])
        return f"{_dotted(path, place[:-1])} has no setting {place[-1]!r}{suggestion(str(place[-1]), known)}"
    if kind == "missing":
        return f"{at} is missing: set it in the plan."
    alternatives = [other for other in errors if other["loc"][:-1] == place[:-1] and len(place) > 1]
    if len(alternatives) > 1 and at != _dotted(path, place):
        kinds = " or ".join(dict.fromkeys(_wanted(other) for other in alternatives))
        return f"{at} must be {kinds}, not {value!r}."
    if kind == "literal_error":
        return f"{at} is {value!r}{suggestion(str(value), _options(error))}"
    if kind == "value_error":
        return f"{at} {error['ctx']['error']}"
    return f"{at} must be {_wanted(error)}, not {value!r}."


def _wanted(error: ErrorDetails) -> str:
    kind = error["type"]
    if kind in _WRONG_TYPE:
        return _WRONG_TYPE[kind]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = error["ctx"][name]
        return "positive" if words == "above" and bound == 0 else f"{words} {bound:g}"
    if kind == "literal_error":
        return " or ".join(repr(option) for option in _options(error))
    if kind in {"too_short", "too_long"}:
        least = kind == "too_short"
        count = error["ctx"]["min_length" if least else "max_length"]
        return f"a list of at {'least' if least else 'most'} {count} value{'' if count == 1 else 's'}"
    return f"something else ({error['msg'].lower()})"


def _options(error: ErrorDetails) -> list[str]:
    """The values that a literal may have, from pydantic's own list of them."""
    return [option.strip("'") for option in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]


def _dotted(path: str, place: Place) -> str:
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


def _without_union_tag(place: Place) -> Place:
    """A place in the plan: pydantic ends it with the alternative of a union that it tried."""
    last = place[-1]
    tagged = isinstance(last, str) and (last in {"int", "float", "str", "bool"} or last.startswith("literal["))
    return place[:-1] if tagged else place


def _names_at(schema: type[BaseModel], place: Place) -> list[str]:
    """The settings that the model at a place has."""
    annotation: Any = schema
    for part in place:
        model = nested_model(annotation)
        if model is not None and isinstance(part, str) and part in model.model_fields:
            annotation = model.model_fields[part].annotation
            continue
        inner = [a for a in _members(annotation) if nested_model(a)]
        annotation = inner[0] if inner else annotation
    model = nested_model(annotation)
    return list(model.model_fields) if model else []


def _members(annotation: Any) -> Iterator[Any]:
    """What a list, tuple, mapping or union holds, however deep."""
    for option in typing.get_args(annotation):
        yield option
        yield from _members(option)
