"""Checks a ledger against its published JSON Schema (2020-12), with jsonschema's traps closed.

Formats are patterns in the schema, since `format` is not checked by default; the parser refuses
NaN, which would pass `minimum`; `integer` means an integer here, where jsonschema takes 1.0; and
`$` is the end of the text, where Python's also stands in front of a last newline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
from jsonschema import Draft202012Validator, validators

from checks.core.codec import Json
from checks.core.errors import LedgerError, Problem, shortened
from checks.core.paths import schema_file
from checks.core.reader import show
from checks.ledger.canonical import ledger_digest, parse, read
from checks.ledger.document import SCHEMA, Ledger
from checks.ledger.head import HEAD_SCHEMA

FILES = {SCHEMA: "ledger-1.json", HEAD_SCHEMA: "head-1.json"}


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _whole(pattern: str) -> re.Pattern[str]:
    """Compile a pattern whose `$` is the end; Python's also stands in front of a last newline."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _pattern(
    _: object, pattern: str, value: object, __: object
) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not _whole(pattern).search(value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


_Strict = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


@cache
def validator(version: str) -> jsonschema.Draft202012Validator:
    """Give the validator of a published version."""
    made: jsonschema.Draft202012Validator = _Strict(_schema(version))
    return made


def _schema(version: str) -> dict[str, Json]:
    schema, _ = read(schema_file(FILES[version]))
    assert isinstance(schema, dict)  # noqa: S101 - a published schema is an object
    return {**schema, "properties": _spread(schema["properties"], schema)}


def _spread(part: Json, schema: dict[str, Json]) -> Json:
    """Put each definition where it is referred to: looking it up takes longer than checking it."""
    if isinstance(part, list):
        return [_spread(item, schema) for item in part]
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("$ref"), str):
        name = str(part["$ref"]).removeprefix("#/$defs/")
        return _spread(schema["$defs"][name], schema)  # type: ignore[index,call-overload]
    return {key: _spread(item, schema) for key, item in part.items()}


def problems(value: Json, name: str, *, version: str = SCHEMA) -> list[Problem]:
    """Find what of a ledger is against its schema, each with the path of its key."""
    found = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(found, str) or found not in FILES or found != version:
        if isinstance(value, dict) and (found, version) == (HEAD_SCHEMA, SCHEMA):
            newest = Path(name).parent / Path(str(value.get("file"))).name
            head = "this is the head of a host's row, no ledger"
            return [Problem(file=name, found=head, wanted=f"the newest ledger is {newest}")]
        wanted = f"this version of preflight reads {version}"
        return [Problem(file=name, key="schema", found=f"found {show(found)}", wanted=wanted)]
    errors = sorted(
        validator(found).iter_errors(value), key=lambda error: list(map(str, error.path))
    )
    return [
        Problem(
            file=name,
            key=error.json_path.removeprefix("$").lstrip("."),
            found=shortened(error.message, 200),
            wanted="wanted: what the schema says",
        )
        for error in errors[:50]
    ]


def read_ledger(path: Path) -> Ledger:
    """Read a ledger and check it against its schema (not its digests: `verify` does).

    Raises:
        LedgerError: unreadable, not JSON, of another version, or against the schema.

    """
    value, sha256 = read(path)
    return _ledger(value, str(path), sha256)


def parse_ledger(raw: bytes, name: str) -> Ledger:
    """Read a ledger from its bytes. Raises as `read_ledger`."""
    return _ledger(parse(raw, name), name, "")


def _ledger(value: Json, name: str, sha256: str) -> Ledger:
    wrong = problems(value, name)
    if wrong:
        raise LedgerError(*wrong)
    assert isinstance(value, dict)  # noqa: S101 - the schema says so
    return Ledger(file=name, sha256=sha256, row=dict(value))


def whole(ledger: Ledger) -> Ledger:
    """Give a ledger back if its content is what its digest was made of.

    Raises:
        LedgerError: it was altered.

    """
    if ledger_digest(ledger.row) != ledger.row["digest"]:
        raise LedgerError(
            Problem(
                file=ledger.file,
                key="digest",
                found="the content is not the one that this digest was made of",
                wanted="take the ledger as it was written; `preflight verify` tells more",
            )
        )
    return ledger
