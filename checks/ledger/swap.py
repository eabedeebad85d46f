"""What a swapped part does to earlier verdicts: struck out, or back with the part. Pure.

A verdict rests on the identities of its premise: this card in this slot. When the card leaves, what
was found out about it says nothing of the next one. It is struck out by name, and kept: if the old
card comes back into its slot, so do its verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checks.core.finding import Finding
from checks.core.fingerprint import Change, Part, PartChange, compare, compare_fields, slots_of
from checks.core.moment import minute
from checks.core.verdict import Verdict

MOST_KEPT = 200
"""Struck-out verdicts that a ledger carries on; fails first, then the newest."""
_AWAY = {Change.CHANGED, Change.REMOVED}


@dataclass(frozen=True, kw_only=True)
class Struck:
    """An earlier verdict that no longer holds, because a part that it rested on has left."""

    check: str
    subject: str
    verdict: Verdict
    says: str
    cause: str
    cause_text: str
    load: str
    file: str
    """Ledger that holds it."""
    digest: str
    ended_utc: str
    parts: dict[str, Part]
    """What it rested on, by slot."""
    left: tuple[str, ...]
    """Slots whose part has left."""
    struck_utc: str
    """Start of the run that found that out."""

    @property
    def name(self) -> str:
        """Check and subject as reports show them."""
        return f"{self.check} [{self.subject}]"

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it one: of the same subject on the same parts only the newest is kept."""
        parts = sorted((slot, str(part.identity)) for slot, part in self.parts.items())
        return (self.check, self.subject, str(parts))


@dataclass(frozen=True, kw_only=True)
class Since:
    """What has changed since the ledger that a run is compared with."""

    file: str
    digest: str
    ended_utc: str
    parts: tuple[PartChange, ...]
    struck_out: tuple[Struck, ...]
    """All that are struck out by now, those of earlier runs as well."""
    returned: tuple[Struck, ...]
    """Those that count again, because their part is back."""


def rests_on(finding: Finding, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """List the slots that a verdict rests on; `disk` stands for every `disk[…]` there is."""
    if finding.verdict not in (Verdict.PASS, Verdict.FAIL):
        return ()
    rested = {slot for name in finding.premise for slot in slots_of(name, parts)}
    return tuple(slot for slot in parts if slot in rested)


def replaced(changes: Iterable[PartChange]) -> set[str]:
    """List the slots whose part is not the one that was there before."""
    return {change.slot for change in changes if {change.kind, change.identity} & _AWAY}


def since(
    *,
    file: str,
    digest: str,
    ended_utc: str,
    findings: Iterable[Finding],
    before: Mapping[str, Part],
    after: Mapping[str, Part],
    carried: Iterable[Struck],
    now_utc: str,
) -> Since:
    """Compare a run with an earlier ledger.

    Args:
        file: name of the earlier ledger.
        digest: its digest.
        ended_utc: when it was made.
        findings: what it found.
        before: its fingerprint.
        after: the fingerprint of the run.
        carried: what was struck out before, newest first.
        now_utc: start of the run.

    """
    changes = compare(before, after)
    gone = replaced(changes)
    struck = {}
    for finding in findings:
        slots = rests_on(finding, before)
        left = tuple(slot for slot in slots if slot in gone)
        if left:
            one = Struck(
                check=finding.check,
                subject=finding.subject,
                verdict=finding.verdict,
                says=finding.says,
                cause=finding.cause,
                cause_text=finding.cause_text,
                load=finding.load,
                file=file,
                digest=digest,
                ended_utc=ended_utc,
                parts={slot: before[slot] for slot in slots},
                left=left,
                struck_utc=now_utc,
            )
            struck[one.key] = one
    returned = []
    for one in carried:
        if _is_back(one, after):
            returned.append(one)
        else:
            struck.setdefault(one.key, one)
    kept = sorted(struck.values(), key=lambda one: one.ended_utc, reverse=True)
    kept.sort(key=lambda one: one.verdict is not Verdict.FAIL)
    return Since(
        file=file,
        digest=digest,
        ended_utc=ended_utc,
        parts=changes,
        struck_out=tuple(kept[:MOST_KEPT]),
        returned=tuple(returned),
    )


def _is_back(struck: Struck, now: Mapping[str, Part]) -> bool:
    """Whether every part that it rested on is in its slot; one that cannot be read is not."""
    for slot, was in struck.parts.items():
        part = now.get(slot)
        if part is None:
            return False
        sides = ((was.kind, part.kind), (was.identity, part.identity))
        if any(compare_fields(old, new) is not Change.SAME for old, new in sides):
            return False
    return True


def closing(struck: Struck, now: Finding | None, parts: Mapping[str, Part], at_utc: str) -> str:
    """Say the sentence that closes a ticket, or keeps it open: seen on this part, not on that one.

    Args:
        struck: a fail that rested on a part that has left.
        now: what the run found out about the same subject; None where it has none any more.
        parts: the fingerprint of the run.
        at_utc: start of the run.

    """
    old = _names(struck.parts, struck.left)
    seen = f"{struck.name} ({struck.cause}): seen on {old} at {minute(struck.ended_utc)}"
    new = _names(parts, struck.left)
    if not new:
        return f"{seen}; nothing is in its place now"
    if now is None or now.verdict not in (Verdict.PASS, Verdict.FAIL):
        word = now.verdict.value if now else "not judged"
        return f"{seen}; on {new} it is {word} in this run: rerun before the ticket is closed"
    load = f"under load ({now.load})" if now.load else "without load"
    run = f"on {new} in this run of {minute(at_utc)}, {load}"
    if now.verdict is Verdict.PASS:
        return f"{seen}; not seen {run}"
    return f"{seen}; seen again {run} ({now.cause}): the part alone was not the cause"


def _names(parts: Mapping[str, Part], slots: Iterable[str]) -> str:
    """Name parts by what they alone have, else by what they are."""
    named = []
    for slot in slots:
        part = parts.get(slot)
        if part is not None:
            own = " ".join(text for text in part.identity.values() if text)
            named.append(f"{slot} {own or part.text or 'unreadable'}")
    return ", ".join(named)
