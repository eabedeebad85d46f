"""Which ledger a scope relies on, and what later runs have to say against it. Pure.

- `all` relies on the newest complete run of everything.
- `quick` relies on the newest complete quick run, or the newest of everything, whichever is newer;
  a fault that the latter found stands all the same, since a quick run does not look at everything.
- An area relies on the newest complete run of that area, or on that area's part of the newest run
  of everything, whichever is newer.

What a later run found closes: a fail in any scope, an incomplete run of an area or a quick one, and
any run that was interrupted, since a box that hangs must not stay open. A selection (`-k`) is
incomplete by its nature, and that alone closes nothing. A later run of one area that passes neither
opens nor closes. For an area, only what other runs found of that area counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.core.codec import Json
from checks.core.scope import ALL, QUICK, SELECTION
from checks.ledger.head import Head

_SUITE_CODES = (0, 1, 10)
"""Exit codes of a complete run that are not pytest's own."""

Entry = dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Later:
    """A run that says something against a ledger."""

    what: str
    """What was run: an area, `quick`, `selection`, or `run` where the head does not say."""
    verdict: str
    """`fail`, `incomplete` or `interrupted`."""
    ended_utc: str


@dataclass(frozen=True, kw_only=True)
class Base:
    """A complete run that speaks of the whole scope."""

    file: str
    sha256: str
    ended_utc: str
    verdict: str
    """Of the part that counts: `pass`, `fail` or `incomplete`."""
    unconfirmed: int
    """Required passes of that part that nobody confirms."""


@dataclass(frozen=True, kw_only=True)
class Reliance:
    """What a scope relies on, and what speaks against it."""

    base: Base | None
    """None where no complete run speaks of the whole scope."""
    later: tuple[Later, ...]


def reliance(head: Head, scope: str) -> Reliance:
    """Say what a scope relies on, and what speaks against it."""
    whole, own = head.scopes.get(ALL), head.scopes.get(scope)
    if whole is not None and _part(whole, scope) is None:
        whole = None  # nothing of that area applied to the box, or that version had none
    entry = own or whole
    if own and whole and _is_later(head, whole, own):
        entry = whole
    base = None
    if entry is not None:
        verdict, unconfirmed = _part(entry, scope) or _whole(entry)
        if verdict == "pass" and entry["exit_code"] not in _SUITE_CODES:
            verdict = "incomplete"
        base = Base(
            file=str(entry["file"]),
            sha256=str(entry["sha256"]),
            ended_utc=str(entry["ended_utc"]),
            verdict=verdict,
            unconfirmed=unconfirmed,
        )
    return Reliance(base=base, later=tuple(_later(head, entry, scope)))


def _is_later(head: Head, entry: Entry, base: Entry | None) -> bool:
    """Whether a run ended after another. The head knows the newest, whatever the clock said."""
    if base is None:
        return True
    if head.file in (entry["file"], base["file"]):
        return bool(head.file == entry["file"] != base["file"])
    return str(entry["ended_utc"]) >= str(base["ended_utc"])


def _part(entry: Entry, scope: str) -> tuple[str, int] | None:
    """Give verdict and unconfirmed passes of what an entry says of a scope; None: nothing.

    An entry without parts, as older heads have them, is one whole.
    """
    areas = entry.get("areas")
    if scope in (ALL, QUICK) or not isinstance(areas, dict):
        return _whole(entry)
    part = areas.get(scope)
    return (str(part["verdict"]), _int(part["unconfirmed"])) if isinstance(part, dict) else None


def _whole(entry: Entry) -> tuple[str, int]:
    unconfirmed = entry.get("unconfirmed_required", entry["unconfirmed"])
    return str(entry["verdict"]), _int(unconfirmed)


def _int(value: Json) -> int:
    assert isinstance(value, int)  # noqa: S101 - the reader of the head has seen to it
    return value


def _found_fault(entry: Entry, scope: str) -> bool:
    """Whether a run found a fault in a scope, however it ended."""
    areas = entry.get("areas")
    if not isinstance(areas, dict):
        return entry["verdict"] == "fail"
    parts = areas.items() if scope in (ALL, QUICK) else [(scope, areas.get(scope))]
    return any(isinstance(part, dict) and part["verdict"] == "fail" for _, part in parts)


def _later(head: Head, base: Entry | None, scope: str) -> Iterator[Later]:
    """Find what speaks against a run: each scope's newest run, and what nothing has settled."""
    against = [
        (name, entry)
        for name, entry in head.scopes.items()
        if _is_later(head, entry, base)
        or (scope == QUICK and name == ALL and entry["verdict"] == "fail")
    ]
    for name, entry in against:
        verdict = (_part(entry, scope) or ("", 0))[0]
        own = base is not None and entry["file"] == base["file"]
        if not own and (verdict == "fail" or (verdict == "incomplete" and name != SELECTION)):
            yield Later(what=name, verdict=verdict, ended_utc=str(entry["ended_utc"]))
    for verdict, entry in (head.unsettled or {}).items():
        fault = _found_fault(entry, scope)
        if _is_later(head, entry, base) and (fault or verdict == "interrupted"):
            said = "fail" if fault else verdict
            yield Later(what="run", verdict=said, ended_utc=str(entry["ended_utc"]))
    if head.verdict == "interrupted":
        yield Later(what="run", verdict=head.verdict, ended_utc=head.ended_utc)
