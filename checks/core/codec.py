"""Facts to JSON and back, strictly: what the type does not allow is an error, never a guess."""

from __future__ import annotations

import datetime
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, TypeVar

from checks.core.errors import shortened
from checks.core.facts import Blind, Facts, Unseen

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")

LARGEST_INT = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8785, section 3.2.2.3)."""
_SCALARS = {str: "a text", int: "an integer", bool: "true or false"}
MARK = "unseen"
"""Key that tells an Unseen from every other object."""


class CodecError(Exception):
    """A value that cannot be written or read; `path` names it."""

    def __init__(self, path: str, found: str, wanted: str) -> None:
        """Say what stands where, and what should."""
        super().__init__(f"{path}: {found}; {wanted}")
        self.path = path
        self.found = found
        self.wanted = wanted


def encode(value: object, path: str = "$") -> Json:
    """Turn facts, findings and their parts into JSON values.

    Raises:
        CodecError: for NaN, infinities, integers beyond 2^53-1, and types that are not data.

    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return encode(value.value, path)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return _number(value, path)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, Unseen):
        return {
            MARK: value.reason.value,
            "detail": _text(value.detail),
            "remedy": _text(value.remedy),
        }
    if is_dataclass(value) and not isinstance(value, type):
        # what an older ledger lacks stays out of what is written of it
        return {
            field.name: encode(getattr(value, field.name), f"{path}.{field.name}")
            for field in fields(value)
            if field.name in vars(value) or not isinstance(value, Facts)
        }
    if isinstance(value, list | tuple):
        return [encode(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(key, path): encode(item, f"{path}.{key}") for key, item in value.items()}
    raise CodecError(path, f"a {type(value).__name__}", "only plain data can be recorded")


def _text(value: str) -> str:
    if value.isascii():
        return value
    # File names and kernel text may hold bytes that are not UTF-8; Python hands them over as lone
    # surrogates, which no JSON reader accepts.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise CodecError(path, f"the key {key!r}", "keys are texts")
    return _text(key)


def _number(value: float, path: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise CodecError(path, str(value), "a finite number is wanted")
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        raise CodecError(path, f"{value:#x}", "an integer within 2^53-1 is wanted; write a text")
    return value


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def decode(cls: type[T], value: Json, path: str = "$") -> T:
    """Read JSON as `cls`. A Facts field that is absent stays unset and says so when it is read.

    Raises:
        CodecError: where a value does not have the type of its field.

    """
    result: T = _decode(cls, value, path)
    return result


def _decode(hint: Any, value: Json, path: str) -> Any:  # noqa: ANN401 - a type hint is any object
    if hint in _SCALARS:
        return _expect(type(value) is hint, value, value, path, _SCALARS[hint])
    origin = typing.get_origin(hint)
    if origin is list:  # occurs in Json alone, which names itself from here on
        return _expect(isinstance(value, list), value, value, path, "a list")
    if isinstance(hint, str | typing.ForwardRef):
        return value
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(hint), value, path)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), value, path)
    if origin in (dict, Mapping):
        return _decode_mapping(typing.get_args(hint), value, path)
    if hint is type(None):
        return _expect(value is None, None, value, path, "null")
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _decode_enum(hint, value, path)
    if hint is float:
        return _decode_float(value, path)
    if hint is datetime.date:
        return _decode_date(value, path)
    if hint is Unseen:
        return _decode_unseen(value, path)
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_dataclass(hint, value, path)
    raise CodecError(path, f"the type {hint!r}", "a type that can be recorded is wanted")


def _expect(good: bool, result: Any, value: Json, path: str, wanted: str) -> Any:  # noqa: ANN401, FBT001
    if not good:
        raise CodecError(path, _show(value), f"{wanted} is wanted")
    return result


def _show(value: Json) -> str:
    return shortened(repr(value))


def _decode_union(hints: tuple[Any, ...], value: Json, path: str) -> Any:  # noqa: ANN401
    is_unseen = isinstance(value, dict) and MARK in value
    if Unseen in hints and is_unseen:
        return _decode_unseen(value, path)
    if value is None and type(None) in hints:
        return None
    rest = [hint for hint in hints if hint not in (Unseen, type(None))]
    problems = []
    for hint in rest:
        try:
            return _decode(hint, value, path)
        except CodecError as error:
            problems.append(error)
    raise problems[0] if problems else CodecError(path, _show(value), "another type is wanted")


def _decode_tuple(hints: tuple[Any, ...], value: Json, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise CodecError(path, _show(value), "a list is wanted")
    return tuple(_decode(hints[0], item, f"{path}[{n}]") for n, item in enumerate(value))


def _decode_mapping(hints: tuple[Any, ...], value: Json, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(path, _show(value), "an object is wanted")
    return {key: _decode(hints[1], item, f"{path}.{key}") for key, item in value.items()}


def _decode_float(value: Json, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CodecError(path, _show(value), "a number is wanted")
    try:
        return float(value)
    except OverflowError as error:
        raise CodecError(path, "a number beyond all floats", "a number is wanted") from error


def _decode_enum(hint: type[Enum], value: Json, path: str) -> Enum:
    for member in hint:
        if member.value == value and isinstance(value, str):
            return member
    names = ", ".join(str(member.value) for member in hint)
    raise CodecError(path, _show(value), f"one of {names} is wanted")


def _decode_unseen(value: Json, path: str) -> Unseen:
    if not isinstance(value, dict) or MARK not in value:
        raise CodecError(path, _show(value), "a reason why it was not seen is wanted")
    reason = typing.cast("Blind", _decode_enum(Blind, value[MARK], f"{path}.{MARK}"))
    detail = _decode(str, value.get("detail"), f"{path}.detail")
    remedy = _decode(str, value.get("remedy", ""), f"{path}.remedy")
    return Unseen(reason, detail, remedy)


def _decode_date(value: Json, path: str) -> datetime.date:
    try:
        day = datetime.date.fromisoformat(str(value))
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:  # Python 3.11 takes `20260131` as well
        raise CodecError(path, _show(value), "a date such as 2026-01-31 is wanted")
    return day


def _decode_dataclass(hint: type, value: Json, path: str) -> object:
    if not isinstance(value, dict):
        raise CodecError(path, _show(value), "an object is wanted")
    hints = _hints(hint)
    instance: object = object.__new__(hint)
    for field in fields(hint):
        if field.name in value:
            item = _decode(hints[field.name], value[field.name], f"{path}.{field.name}")
            object.__setattr__(instance, field.name, item)
        elif issubclass(hint, Facts):
            continue
        elif field.default is not MISSING:
            object.__setattr__(instance, field.name, field.default)
        elif field.default_factory is not MISSING:
            object.__setattr__(instance, field.name, field.default_factory())
        else:
            raise CodecError(f"{path}.{field.name}", "nothing", "a value is wanted")
    return instance
