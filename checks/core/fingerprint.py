"""The fingerprint: what the box is made of, by component and slot, and whether it changed.

It is compared field by field, not by one digest a side: a field that only one of two runs could
read (root reads more than a user, a later version reads more than an earlier one) must not make
a part look changed, and must not hide that another field did change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from checks.core.facts import Blind, Component, Facts, Field, NotRecordedError, Observation, Unseen

Fields = dict[str, str | None]
"""Name = text; None where it could not be read."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A component as a ledger keeps it."""

    kind: Fields
    identity: Fields
    unread: tuple[str, ...]
    """Fields that could not be read, each with the reason and what would show it."""

    @property
    def text(self) -> str:
        """The part in one line."""
        return " ".join(v for v in (*self.kind.values(), *self.identity.values()) if v)


class _Lenient:
    """Facts of an older recording: a field that they lack is unseen, and no error."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def __getattr__(self, name: str) -> object:
        try:
            return getattr(self._facts, name)
        except NotRecordedError as error:
            return Unseen(Blind.NOT_RECORDED, str(error))


def fingerprint(observations: Iterable[Observation]) -> dict[str, Part]:
    """Collect the components that the observed facts describe, by slot.

    Several probes may describe one slot: their fields are put together.
    """
    found: dict[str, list[Component]] = {}
    for observation in observations:
        if isinstance(observation.seen, Facts):
            lenient = _Lenient(observation.seen)
            for component in type(observation.seen).components(lenient):  # type: ignore[arg-type]
                found.setdefault(component.slot, []).append(component)
    return {slot: _part(components) for slot, components in sorted(found.items())}


def _part(components: list[Component]) -> Part:
    unread: list[str] = []
    kind = _merge("kind", [component.kind for component in components], unread)
    identity = _merge("identity", [component.identity for component in components], unread)
    return Part(kind=kind, identity=identity, unread=tuple(unread))


def _merge(side: str, sources: list[Mapping[str, Field]], unread: list[str]) -> Fields:
    merged: Fields = {}
    for name in sorted({name for source in sources for name in source}):
        values = [source[name] for source in sources if name in source]
        texts = sorted({value for value in values if not isinstance(value, Unseen)})
        if len(texts) == 1:
            merged[name] = texts[0]
            continue
        merged[name] = None
        if texts:
            unread.append(f"{side} {name}: probes disagree: {' / '.join(texts)}")
        for value in values:
            if isinstance(value, Unseen) and not texts:
                remedy = f" ({value.remedy})" if value.remedy else ""
                unread.append(f"{side} {name}: {value}{remedy}")
    return merged


class Change(str, Enum):
    """How one side of one component compares between two runs."""

    SAME = "same"
    CHANGED = "changed"
    NOT_COMPARABLE = "not comparable"
    """No field of it could be read in both runs; that is never a change."""
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """One slot, before and after."""

    slot: str
    kind: Change
    identity: Change
    before: Part | None
    """None where there was nothing in the slot."""
    after: Part | None
    moved_to: str = ""
    """Slot in which the part from before is now; empty where it is in none."""

    @property
    def text(self) -> str:
        """The change in one line."""
        sides = (
            f"kind and identity {self.kind.value}"
            if self.kind is self.identity
            else f"kind {self.kind.value}, identity {self.identity.value}"
        )
        moved = f" (it is in {self.moved_to} now)" if self.moved_to else ""
        return f"{self.slot}: {sides}: {_whole(self.before)}{moved} → {_whole(self.after)}"


def family(slot: str) -> str:
    """Name what a slot is one of: `gpu` for `gpu[0000:18:00.0]`."""
    return slot.partition("[")[0]


def slots_of(name: str, parts: Iterable[str]) -> tuple[str, ...]:
    """List the slots that a name stands for: one slot, or as `disk` every `disk[…]` there is."""
    return tuple(slot for slot in parts if name in (slot, family(slot)))


def compare(before: Mapping[str, Part], after: Mapping[str, Part]) -> tuple[PartChange, ...]:
    """Compare two fingerprints slot by slot; slots that are the same on both sides are left out."""
    changes = []
    for slot in sorted(set(before) | set(after)):
        old, new = before.get(slot), after.get(slot)
        if old == new:
            continue  # also where neither run could read anything of it
        if old is None or new is None:
            change = Change.ADDED if old is None else Change.REMOVED
            if _unlisted(slot, before) or _unlisted(slot, after):
                change = Change.NOT_COMPARABLE
            kind = identity = change
        else:
            kind = compare_fields(old.kind, new.kind)
            identity = compare_fields(old.identity, new.identity)
        if (kind, identity) != (Change.SAME, Change.SAME):
            moved = "" if identity is Change.SAME else _found_in(old, slot, after)
            changes.append(
                PartChange(
                    slot=slot, kind=kind, identity=identity, before=old, after=new, moved_to=moved
                )
            )
    return tuple(changes)


def _found_in(part: Part | None, slot: str, parts: Mapping[str, Part]) -> str:
    """Find the slot of its sort that a part has moved to; empty where nobody can tell."""
    if part is None or not any(part.identity.values()):
        return ""
    sort = family(slot)
    for other, there in parts.items():
        moved = other != slot and family(other) == sort
        if moved and compare_fields(part.identity, there.identity) is Change.SAME:
            return other
    return ""


def _unlisted(slot: str, parts: Mapping[str, Part]) -> bool:
    """Whether the list that a slot belongs to could not be read: `gpu` for `gpu[0000:18:00.0]`."""
    listing = parts.get(family(slot))
    return listing is not None and not any(listing.kind.values())


def compare_fields(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> Change:
    """Compare the fields that both sides could read."""
    common = [
        name for name, value in before.items() if value is not None and after.get(name) is not None
    ]
    if any(before[name] != after[name] for name in common):
        return Change.CHANGED
    if common or not (before or after):
        return Change.SAME
    return Change.NOT_COMPARABLE


def _whole(part: Part | None) -> str:
    if part is None:
        return "nothing"
    return part.text or "unreadable"


def premise_changes(
    premise: Mapping[str, Mapping[str, str]], now: Mapping[str, Part]
) -> tuple[str, ...]:
    """Name the components whose kind is no longer the one that an expectation was measured on.

    A component that cannot be read now is not among them: it is not comparable, not changed.
    """
    changed = []
    for slot, kind in premise.items():
        part = now.get(slot)
        if part is None:
            if not _unlisted(slot, now):
                changed.append(slot)
        elif compare_fields(dict(kind), part.kind) is Change.CHANGED:
            changed.append(slot)
    return tuple(changed)
