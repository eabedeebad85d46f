"""The fingerprint: what the box is made of, by component and slot, and whether it changed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum

import rfc8785

from checks.core.codec import Json
from checks.core.facts import Blind, Facts, Observation, Unseen

Field = str | Unseen


@dataclass(frozen=True, kw_only=True)
class Component:
    """One part in one slot.

    `kind` is what any equal part shares (model, size, version); `identity` is what this part
    alone has (UUID, serial). Either side may hold fields that could not be read.
    """

    slot: str
    """`board`, `cpu`, `gpu[3]`, `disk[nvme0n1]`, …"""
    kind: Mapping[str, Field]
    identity: Mapping[str, Field]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component as a ledger keeps it."""

    kind: str | None
    """Digest of all kind fields; None if one of them could not be read."""
    identity: str | None
    """Digest of all identity fields; None if one could not be read, or if there are none."""
    kind_text: str
    identity_text: str
    unread: tuple[str, ...]
    """Fields that could not be read, each with the reason and what would show it."""


def _digest(fields: Mapping[str, Field]) -> str | None:
    if not fields or any(isinstance(value, Unseen) for value in fields.values()):
        return None
    plain: dict[str, Json] = {name: str(value) for name, value in fields.items()}
    return "sha256:" + hashlib.sha256(rfc8785.dumps(plain)).hexdigest()


_FIRST = ("vendor", "device", "product", "board", "model")


def _text(fields: Mapping[str, Field]) -> str:
    """Show fields in an order of their own: a ledger, which is read in a replay, sorts them."""
    names = [name for name in _FIRST if name in fields]
    names += sorted(set(fields) - set(names))
    return " ".join(str(fields[name]) for name in names if not isinstance(fields[name], Unseen))


def _unread(side: str, fields: Mapping[str, Field]) -> tuple[str, ...]:
    return tuple(
        f"{side} {name}: {value}" + (f" ({value.remedy})" if value.remedy else "")
        for name, value in fields.items()
        if isinstance(value, Unseen)
    )


def fingerprint(observations: Iterable[Observation]) -> dict[str, Part]:
    """Collect the components that the observed facts describe, by slot."""
    parts: dict[str, Part] = {}
    for observation in observations:
        components = getattr(type(observation.seen), "components", None)
        if not isinstance(observation.seen, Facts) or components is None:
            continue
        for component in components(_filled(observation.seen)):
            parts[component.slot] = Part(
                kind=_digest(component.kind),
                identity=_digest(component.identity),
                kind_text=_text(component.kind),
                identity_text=_text(component.identity),
                unread=(*_unread("kind", component.kind), *_unread("identity", component.identity)),
            )
    return dict(sorted(parts.items()))


def _filled(facts: Facts) -> Facts:
    """Give facts in which a field that an older ledger lacks has that as its value."""
    missing = [field.name for field in fields(facts) if field.name not in vars(facts)]  # type: ignore[arg-type]
    if not missing:
        return facts
    filled = copy.copy(facts)
    for name in missing:
        unseen = Unseen(Blind.NOT_RECORDED, f"{type(facts).__name__}.{name} was not recorded")
        object.__setattr__(filled, name, unseen)
    return filled


class Change(str, Enum):
    """How one side of one component compares between two runs."""

    SAME = "same"
    CHANGED = "changed"
    NOT_COMPARABLE = "not comparable"
    """One of the two runs could not read it; that is never a change."""
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """One slot, before and after."""

    slot: str
    kind: Change
    identity: Change
    before: str
    after: str


def compare(before: Mapping[str, Part], after: Mapping[str, Part]) -> tuple[PartChange, ...]:
    """Compare two fingerprints slot by slot; slots that are the same on both sides are left out."""
    changes = []
    for slot in sorted(set(before) | set(after)):
        old, new = before.get(slot), after.get(slot)
        if old is None or new is None:
            change = Change.ADDED if old is None else Change.REMOVED
            kind = identity = change
        else:
            kind = _compare(old.kind, new.kind)
            identity = _compare(old.identity, new.identity)
        if (kind, identity) != (Change.SAME, Change.SAME):
            changes.append(
                PartChange(
                    slot=slot,
                    kind=kind,
                    identity=identity,
                    before=_whole(old),
                    after=_whole(new),
                )
            )
    return tuple(changes)


def _compare(before: str | None, after: str | None) -> Change:
    if before is None and after is None:
        return Change.SAME
    if before is None or after is None:
        return Change.NOT_COMPARABLE
    return Change.SAME if before == after else Change.CHANGED


def _whole(part: Part | None) -> str:
    if part is None:
        return "nothing"
    return " ".join(text for text in (part.kind_text, part.identity_text) if text) or "unreadable"


def premise_changes(premise: Mapping[str, str], now: Mapping[str, Part]) -> tuple[str, ...]:
    """Name the components whose kind is no longer the one that an expectation was measured on.

    A component that cannot be read now is not among them: it is not comparable, not changed.
    """
    changed = []
    for slot, digest in premise.items():
        part = now.get(slot)
        if part is None or (part.kind is not None and part.kind != digest):
            changed.append(slot)
    return tuple(changed)
