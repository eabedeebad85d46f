"""Dataclasses from TOML and JSON Schemas from the same dataclasses, with located errors.

A class that a person writes as TOML is a frozen dataclass whose fields are made by
`checks.core.setting.setting`.
Unknown keys are errors, every problem is collected, and each says file, line, key, what was
found and what is wanted.
"""

from __future__ import annotations

import datetime
import difflib
import fractions
import math
import re
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from checks.core.errors import MANY_PROBLEMS, Problem, ProfileError, shortened
from checks.core.redact import HIDDEN, names_secret

if TYPE_CHECKING:
    from dataclasses import Field

    from checks.core.codec import Json
    from checks.core.toml import Document

T = TypeVar("T")

LARGEST_INT = 2**53 - 1


def read_document(cls: type[T], document: Document) -> T:
    """Read a TOML document as `cls`.

    Raises:
        ProfileError: with all problems of the document.

    """
    reading = _Reading(document)
    value = reading.table(cls, document.data, "")
    if reading.problems:
        raise ProfileError(*reading.problems)
    return typing.cast("T", value)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


class _Reading:
    """One pass over one document that collects its problems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def complain(self, key: str, found: str, wanted: str) -> None:
        if names_secret(key.rpartition(".")[2]) and found.startswith("found"):
            found = f"found {HIDDEN}"
        line = self.document.line(key)
        self.problems.append(
            Problem(file=self.document.file, line=line, key=key, found=found, wanted=wanted)
        )

    def table(self, cls: type, data: object, path: str) -> object:
        """Read a table as a dataclass; None where it had problems."""
        if not isinstance(data, dict):
            self.complain(path, f"found {show(data)}", "a table is wanted")
            return None
        hints = _hints(cls)
        before = len(self.problems)
        known = {field.name: field for field in fields(cls)}
        for key in data:
            if key not in known:
                # a guess takes its time, and nobody is shown more than these
                guess = len(self.problems) < MANY_PROBLEMS
                wanted = _nearest(key, list(known) if guess else [])
                self.complain(_join(path, key), "unknown key", wanted)
        values: dict[str, Any] = {}
        for name, field in known.items():
            key = _join(path, name)
            if name in data:
                values[name] = self.checked(hints[name], data[name], key, field)
            elif field.default is MISSING and field.default_factory is MISSING:
                self.complain(key, "missing", _line(name, hints[name], field))
        if len(self.problems) > before:
            return None
        instance: object = cls(**values)
        check = getattr(instance, "problems", None)
        for key, found, wanted in check() if check else ():
            self.complain(_join(path, key), found, wanted)
        return instance

    def checked(self, hint: Any, data: object, path: str, field: Field[Any]) -> Any:  # noqa: ANN401
        """Read one key: its type and bounds, then what only its own check can tell."""
        before = len(self.problems)
        value = self.value(hint, data, path, field)
        check = field.metadata.get("check")
        if check is not None and value is not None and len(self.problems) == before:
            wanted = check(value)
            if wanted:
                self.complain(path, f"found {show(data)}", f"wanted: {wanted}")
        return value

    def value(self, hint: Any, data: object, path: str, field: Field[Any]) -> Any:  # noqa: ANN401
        """Read one value by its type."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self.union(arguments, data, path, field)
        if origin is tuple:
            return self.items(arguments[0], data, path, field)
        if origin is dict:
            return self.mapping(arguments[1], data, path, field)
        if is_dataclass(hint):
            return self.table(typing.cast("type", hint), data, path)
        wanted = describe(hint, field)
        if hint is float and isinstance(data, int) and not isinstance(data, bool):
            if abs(data) > LARGEST_INT:
                self.complain(path, f"found {show(data)}", wanted)
                return None
            data = float(data)
        good = isinstance(data, hint) and not (hint is not bool and isinstance(data, bool))
        if hint is datetime.date and isinstance(data, datetime.datetime):
            good = False
        if not good or not within(data, field):
            if isinstance(data, str) and hint in (int, float) and path.endswith("_bytes"):
                wanted += _in_bytes(data)
            self.complain(path, f"found {show(data)}", wanted)
            return None
        if isinstance(data, str) and "\x00" in data:
            self.complain(path, "found a NUL character", "write the text without it")
            return None
        return data

    def union(self, hints: tuple[Any, ...], data: object, path: str, field: Field[Any]) -> Any:  # noqa: ANN401
        options = [hint for hint in hints if hint is not type(None)]
        for hint in options[:-1]:
            origin = typing.get_origin(hint) or hint
            shape = list if origin is tuple else origin
            if isinstance(data, shape) and not isinstance(data, bool):
                return self.value(hint, data, path, field)
        return self.value(options[-1], data, path, field)

    def items(self, hint: Any, data: object, path: str, field: Field[Any]) -> tuple[Any, ...]:  # noqa: ANN401
        if not isinstance(data, list):
            tables = (
                f"write [[{path}]], with two brackets" if is_dataclass(hint) else "a list is wanted"
            )
            self.complain(path, f"found {show(data)}", tables)
            return ()
        found = tuple(self.value(hint, item, f"{path}[{n}]", field) for n, item in enumerate(data))
        unique = field.metadata.get("unique")
        if unique:
            self.differ(found, unique, path)
        return found

    def differ(self, found: tuple[Any, ...], unique: str, path: str) -> None:
        seen: dict[object, int] = {}
        for index, item in enumerate(found):
            value = getattr(item, unique, None)
            if value in seen and value is not None:
                wanted = f"{path}[{seen[value]}] has it already; each needs its own"
                self.complain(f"{path}[{index}].{unique}", f"found {show(value)} again", wanted)
            seen.setdefault(value, index)

    def mapping(self, hint: Any, data: object, path: str, field: Field[Any]) -> dict[str, Any]:  # noqa: ANN401
        if not isinstance(data, dict):
            self.complain(path, f"found {show(data)}", "a table is wanted")
            return {}
        return {key: self.value(hint, item, _join(path, key), field) for key, item in data.items()}


def _join(path: str, key: str) -> str:
    key = key or '""'
    return f"{path}.{key}" if path else key


def show(value: object) -> str:
    """Show a value from a file in an error, shortened."""
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4,300 digits cannot be printed
        return "a number of thousands of digits"
    return shortened(text)


def _nearest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known keys are {', '.join(known)}" if known else "take it out"


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def describe(hint: Any, field: Field[Any]) -> str:  # noqa: ANN401
    """Say what a key wants, for errors."""
    metadata = field.metadata
    if len(metadata.get("choices", ())) == 1:
        return f"wanted: {metadata['choices'][0]}"
    if metadata.get("choices"):
        return "wanted: one of " + ", ".join(str(choice) for choice in metadata["choices"])
    word = _WORDS.get(hint, "a date such as 2026-01-31" if hint is datetime.date else "a value")
    bounds = [
        f"at {side} {metadata[name]:{'_' if isinstance(metadata[name], int) else 'g'}}"
        for side, name in (("least", "minimum"), ("most", "maximum"))
        if metadata.get(name) is not None
    ]
    pattern = f"a text of the form {metadata['pattern']}" if metadata.get("pattern") else ""
    if hint is str:
        word = metadata.get("form") or pattern or word
    return f"wanted: {word}{', ' + ' and '.join(bounds) if bounds else ''}"


def _line(name: str, hint: Any, field: Field[Any]) -> str:  # noqa: ANN401
    """Say what a key that is missing wants; the line itself where only one will do."""
    choices = field.metadata["choices"]
    if len(choices) == 1:
        return f"wanted: a line {name} = {choices[0]}"
    return f"{describe(hint, field)} ({field.metadata['doc']})"


_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([KMGTP]?)(i?)B\s*", re.IGNORECASE)


def _in_bytes(text: str) -> str:
    """Say how to write a size such as `256 GiB`; nothing where it is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return ""
    number, prefix, binary = found.groups()
    unit = (1_024 if binary else 1_000) ** " KMGTP".index(prefix.upper() or " ")
    return f"; write {round(fractions.Fraction(number) * unit):_}"


def within(data: object, field: Field[Any]) -> bool:
    """Whether a value of the right type keeps the bounds of its field."""
    metadata = field.metadata
    if isinstance(data, float) and not math.isfinite(data):
        return False
    if isinstance(data, int) and abs(data) > LARGEST_INT:
        return False
    if metadata.get("choices") and data not in metadata["choices"]:
        return False
    if isinstance(data, int | float) and not isinstance(data, bool):
        low, high = metadata.get("minimum"), metadata.get("maximum")
        return (low is None or data >= low) and (high is None or data <= high)
    if isinstance(data, str) and metadata.get("pattern"):
        return re.fullmatch(metadata["pattern"], data) is not None
    return True


def json_schema(cls: type, *, identifier: str, title: str) -> dict[str, Json]:
    """Make the JSON Schema 2020-12 of a class whose fields are made by `setting`."""
    definitions: dict[str, Json] = {}
    schema = _table_schema(cls, definitions)
    head: dict[str, Json] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": identifier,
        "title": title,
    }
    return {**head, **schema, "$defs": definitions}


def _table_schema(cls: type, definitions: dict[str, Json]) -> dict[str, Json]:
    hints = _hints(cls)
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for field in fields(cls):
        schema = _value_schema(hints[field.name], field, definitions)
        schema["description"] = field.metadata["doc"]
        if field.default is MISSING and field.default_factory is MISSING:
            required.append(field.name)
        properties[field.name] = schema
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip().splitlines()[0],
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _value_schema(hint: Any, field: Field[Any], definitions: dict[str, Json]) -> dict[str, Json]:  # noqa: ANN401
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        options = [argument for argument in arguments if argument is not type(None)]
        if len(options) == 1:
            return _value_schema(options[0], field, definitions)
        return {"anyOf": [_value_schema(option, field, definitions) for option in options]}
    if origin is tuple:
        return {"type": "array", "items": _value_schema(arguments[0], field, definitions)}
    if origin is dict:
        inner = _value_schema(arguments[1], field, definitions)
        return {"type": "object", "additionalProperties": inner}
    if is_dataclass(hint):
        kind = typing.cast("type", hint)
        definitions[kind.__name__] = _table_schema(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    return _scalar_schema(hint, field)


def _scalar_schema(hint: Any, field: Field[Any]) -> dict[str, Json]:  # noqa: ANN401
    names = {str: "string", int: "integer", float: "number", bool: "boolean"}
    metadata = field.metadata
    if hint is datetime.date:
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    schema: dict[str, Json] = {"type": names[hint]}
    if metadata.get("choices"):
        schema["enum"] = list(metadata["choices"])
    if hint in (int, float):
        schema |= {
            name: metadata[name]
            for name in ("minimum", "maximum")
            if metadata.get(name) is not None
        }
    if hint is str and metadata.get("pattern"):
        schema["pattern"] = f"^(?:{metadata['pattern']})$"
    return schema
