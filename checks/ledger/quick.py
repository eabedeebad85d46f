"""Says in a tenth of the time whether a value keeps a schema; what is wrong with it jsonschema says.

Covers the keywords that the published schemas use, and refuses to be made from any other.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from checks.core.codec import Json

Keeps: TypeAlias = Callable[[Json], bool]
Schema: TypeAlias = "dict[str, Any]"

_WORDS_ONLY = {"$schema", "$id", "$defs", "$comment", "title", "description"}
_OF_OBJECTS = {"properties", "additionalProperties", "required"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile a pattern whose `$` is the end; Python's also stands in front of a last newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", text))


def compiled(schema: Schema) -> Keeps:
    """Make the function that says whether a value keeps a schema.

    Raises:
        KeyError: a keyword that is not covered.

    """
    parts = [
        _MAKERS[keyword](given, schema)
        for keyword, given in schema.items()
        if keyword not in _WORDS_ONLY | _OF_OBJECTS | {"then", "else"}
    ]
    if schema.keys() & _OF_OBJECTS:
        parts.append(_object(schema))
    if len(parts) == 1:
        return parts[0]
    return lambda value: all(keeps(value) for keeps in parts)


def _type(given: str | list[str], _: Schema) -> Keeps:
    names = [given] if isinstance(given, str) else given
    # the exact type: True is no integer
    kinds = frozenset(kind for name in names for kind in _TYPES[name])
    return lambda value: type(value) in kinds


def _enum(given: list[Json], _: Schema) -> Keeps:
    allowed = {(type(item), item) for item in given}
    return lambda value: not isinstance(value, dict | list) and (type(value), value) in allowed


def _pattern(given: str, _: Schema) -> Keeps:
    search = pattern_of(given).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _minimum(given: float, _: Schema) -> Keeps:
    return lambda value: type(value) not in (int, float) or value >= given  # type: ignore[operator]


def _items(given: Schema, _: Schema) -> Keeps:
    keeps = compiled(given)
    return lambda value: not isinstance(value, list) or all(map(keeps, value))


def _object(schema: Schema) -> Keeps:
    named = {name: compiled(part) for name, part in schema.get("properties", {}).items()}
    required = tuple(schema.get("required", ()))
    more = schema.get("additionalProperties", True)
    rest: Keeps = (lambda _: bool(more)) if isinstance(more, bool) else compiled(more)

    def keeps(value: Json) -> bool:
        if not isinstance(value, dict):
            return True
        return all(name in value for name in required) and all(
            named.get(name, rest)(item) for name, item in value.items()
        )

    return keeps


def _if(given: Schema, schema: Schema) -> Keeps:
    condition = compiled(given)
    then, otherwise = compiled(schema.get("then", {})), compiled(schema.get("else", {}))
    return lambda value: then(value) if condition(value) else otherwise(value)


def _not(given: Schema, _: Schema) -> Keeps:
    keeps = compiled(given)
    return lambda value: not keeps(value)


def _some(counts: Callable[[int, int], bool]) -> Callable[[list[Schema], Schema], Keeps]:
    def make(given: list[Schema], _: Schema) -> Keeps:
        parts = [compiled(part) for part in given]
        return lambda value: counts(sum(keeps(value) for keeps in parts), len(parts))

    return make


def _length(
    kind: type[list[Json] | str], good: Callable[[int, int], bool]
) -> Callable[[int, Schema], Keeps]:
    def make(given: int, _: Schema) -> Keeps:
        return lambda value: not isinstance(value, kind) or good(len(value), given)

    return make


_MAKERS: dict[str, Callable[[Any, Schema], Keeps]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda given, schema: _enum([given], schema),
    "pattern": _pattern,
    "minimum": _minimum,
    "items": _items,
    "if": _if,
    "not": _not,
    "allOf": _some(lambda kept, all_: kept == all_),
    "anyOf": _some(lambda kept, _: kept > 0),
    "oneOf": _some(lambda kept, _: kept == 1),
    "minItems": _length(list, operator.ge),
    "maxItems": _length(list, operator.le),
    "minLength": _length(str, operator.ge),
    "maxLength": _length(str, operator.le),
}
