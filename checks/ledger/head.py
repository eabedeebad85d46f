"""The head of a host's row of ledgers, and a strict reader of it that loads no schema library.

`preflight gate` is asked by schedulers, thousands of times a day, and loading jsonschema takes
longer than all else that it does. The published schema is `head-1.json`; tests show that this reader
takes and refuses what that schema does.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from checks.core.codec import Json
from checks.core.errors import LedgerError, Problem, shortened
from checks.core.fingerprint import Fields
from checks.core.moment import FORM
from checks.ledger.canonical import parse

HEAD = "head.json"
HEAD_SCHEMA = "preflight-head/1"
VERDICTS = ("pass", "fail", "incomplete", "interrupted")
NEWER = ("unconfirmed_required", "areas")
"""Fields of an entry that heads had not from the beginning."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """Which ledger is the newest, and what a reader in a hurry needs of it."""

    host: str
    file: str
    sha256: str
    """Of the file's bytes."""
    digest: str
    verdict: str
    exit_code: int
    scope: str
    ended_utc: str
    boot_id: str | None
    boot_offset_s: float | None
    """Wall clock minus time since boot."""
    newest_s: float
    """Latest moment that any ledger of this row records: it never goes back with the clock."""
    fingerprint: dict[str, dict[str, Fields]]
    """Slot = kind and identity, field by field."""
    scopes: dict[str, dict[str, Json]]
    """The newest complete ledger of each scope: one of a single area, or one that was interrupted,
    does not hide the last whole one."""
    unsettled: dict[str, dict[str, Json]] | None
    """What no later run of a single area, or of a selection, settles: the newest run that was
    interrupted, and the newest selection that failed, since the newest complete run of everything.
    None where that run's head did not keep it yet."""
    previous: dict[str, Json] | None

    def to_json(self) -> dict[str, Json]:
        """Give it as the file holds it."""
        row: dict[str, Json] = {"schema": HEAD_SCHEMA, **asdict(self)}
        if self.unsettled is None:
            del row["unsettled"]
        return row


def parse_head(raw: bytes, name: str) -> Head:
    """Read a head from its bytes.

    Raises:
        LedgerError: every problem of it.

    """
    value = parse(raw, name)
    wrong = head_problems(value, name)
    if wrong:
        raise LedgerError(*wrong)
    assert isinstance(value, dict)  # noqa: S101 - it has no problems
    fields = {key: value.get(key) for key in Head.__dataclass_fields__}
    return Head(**fields)  # type: ignore[arg-type]


def head_problems(value: Json, name: str) -> list[Problem]:
    """Find what of a head is against its schema, each with the path of its key."""
    found = value.get("schema") if isinstance(value, dict) else None
    if found != HEAD_SCHEMA:
        wanted = f"this version of preflight reads {HEAD_SCHEMA}"
        return [Problem(file=name, key="schema", found=f"found {_show(found)}", wanted=wanted)]
    return [
        Problem(file=name, key=key, found=found, wanted=f"wanted: {wanted}")
        for key, found, wanted in _HEAD(value, "")
    ]


def as_fingerprint(value: Json) -> dict[str, dict[str, Fields]] | None:
    """Take a value for the fingerprint of a head; None where it is none."""
    if any(True for _ in _FINGERPRINT(value, "")):
        return None
    return typing.cast("dict[str, dict[str, Fields]]", value)


_Wrong = Iterator[tuple[str, str, str]]
_Test = Callable[[Json, str], _Wrong]
"""Gives the key, what stands there, and what is wanted, of all that is wrong."""


def _show(value: Json) -> str:
    return shortened(repr(value))


def _text(pattern: str = r"(?s:.*)", form: str = "a text") -> _Test:
    whole = re.compile(pattern)

    def test(value: Json, key: str) -> _Wrong:
        if not isinstance(value, str) or not whole.fullmatch(value):
            yield key, f"found {_show(value)}", form

    return test


def _number(value: Json, key: str) -> _Wrong:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield key, f"found {_show(value)}", "a number"


def _count(value: Json, key: str) -> _Wrong:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        yield key, f"found {_show(value)}", "an integer, 0 or more"


def _or_null(inner: _Test) -> _Test:
    def test(value: Json, key: str) -> _Wrong:
        if value is not None:
            yield from inner(value, key)

    return test


def _values(inner: _Test) -> _Test:
    def test(value: Json, key: str) -> _Wrong:
        if not isinstance(value, dict):
            yield key, f"found {_show(value)}", "an object"
            return
        for name, item in value.items():
            yield from inner(item, _join(key, name))

    return test


def _object(needed: Mapping[str, _Test], more: Mapping[str, _Test] | None = None) -> _Test:
    known = {**needed, **(more or {})}

    def test(value: Json, key: str) -> _Wrong:
        if not isinstance(value, dict):
            yield key, f"found {_show(value)}", "an object"
            return
        for name in needed:
            if name not in value:
                yield _join(key, name), "missing", "what the schema says"
        for name, item in value.items():
            if name in known:
                yield from known[name](item, _join(key, name))
            else:
                yield _join(key, name), "unknown key", "what the schema says"

    return test


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _one_of(*names: str) -> _Test:
    return _text("|".join(names), f"one of {', '.join(names)}")


_FILE = _text(r"[A-Za-z0-9._-]+", "the name of a file")
_SHA256 = _text(r"[0-9a-f]{64}", "64 hex digits")
_DIGEST = _text(r"sha256:[0-9a-f]{64}", "`sha256:` and 64 hex digits")
_MOMENT = _text(FORM, "a moment such as 2026-01-31T12:00:00.000Z")
_FIELDS = _values(_or_null(_text()))
_FINGERPRINT = _values(_object({"kind": _FIELDS, "identity": _FIELDS}))
_PART = _object({"verdict": _one_of("pass", "fail", "incomplete"), "unconfirmed": _count})
_RUN = {
    "file": _FILE,
    "sha256": _SHA256,
    "digest": _DIGEST,
    "verdict": _one_of(*VERDICTS),
    "exit_code": _count,
    "ended_utc": _MOMENT,
}
_ENTRY = _object(
    {**_RUN, "unconfirmed": _count}, {"unconfirmed_required": _count, "areas": _values(_PART)}
)
_HEAD = _object(
    {
        "schema": _text(re.escape(HEAD_SCHEMA), HEAD_SCHEMA),
        "host": _text(r"(\[[a-z]+\]|[A-Za-z0-9][A-Za-z0-9._-]{0,62})", "the name of a host"),
        **_RUN,
        "scope": _text(),
        "boot_id": _or_null(_text()),
        "boot_offset_s": _or_null(_number),
        "newest_s": _number,
        "fingerprint": _FINGERPRINT,
        "previous": _or_null(_object({"file": _text(), "digest": _DIGEST})),
        "scopes": _values(_ENTRY),
    },
    {"unsettled": _object({}, {"fail": _ENTRY, "interrupted": _ENTRY})},
)
