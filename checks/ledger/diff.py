"""What changed between two ledgers: components, then findings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from checks.core.finding import Finding
from checks.core.fingerprint import Change, PartChange, compare
from checks.core.verdict import LOOKS, Verdict
from checks.ledger.document import Ledger


class Move(str, Enum):
    """How a finding moved."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"
    """Same verdict for another cause, reason or basis."""
    NEW = "new"
    GONE = "gone"
    STRUCK_OUT = "struck out"
    """The earlier verdict rested on a part that has been replaced."""


@dataclass(frozen=True, kw_only=True)
class FindingChange:
    """One check and subject, before and after."""

    check: str
    subject: str
    move: Move
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What changed between two ledgers."""

    parts: tuple[PartChange, ...]
    findings: tuple[FindingChange, ...]

    @property
    def nothing(self) -> bool:
        """Whether nothing changed that is worth a word."""
        return not self.findings and not self.real_parts

    @property
    def real_parts(self) -> tuple[PartChange, ...]:
        """Parts that changed, without those that one of the two runs could not read."""
        quiet = {Change.SAME, Change.NOT_COMPARABLE}
        return tuple(p for p in self.parts if not {p.kind, p.identity} <= quiet)


def difference(before: Ledger, after: Ledger) -> Difference:
    """Compare two ledgers.

    Raises:
        LedgerError: a part of one cannot be read by this version.

    """
    parts = compare(before.parts, after.parts)
    replaced = {
        part.slot
        for part in parts
        if Change.CHANGED in (part.kind, part.identity)
        or Change.REMOVED in (part.kind, part.identity)
    }
    old = {finding.key: finding for finding in before.findings}
    new = {finding.key: finding for finding in after.findings}
    changes = []
    for key in sorted(set(old) | set(new)):
        change = _change(key, old.get(key), new.get(key), replaced)
        if change is not None:
            changes.append(change)
    return Difference(parts=parts, findings=tuple(changes))


def _change(
    key: tuple[str, str], old: Finding | None, new: Finding | None, replaced: set[str]
) -> FindingChange | None:
    undecided = Verdict.NOT_RUN in {row.verdict for row in (old, new) if row is not None}
    if undecided:
        return None  # one of the two runs did not judge it, so nothing is known to have moved
    if old is None or new is None:
        move = Move.NEW if old is None else Move.GONE
    elif _rests_on(old, replaced):
        move = Move.STRUCK_OUT
    else:
        before, after = LOOKS[old.verdict].severity, LOOKS[new.verdict].severity
        same = (old.cause, old.reason, old.basis) == (new.cause, new.reason, new.basis)
        if before == after and same:
            return None
        move = Move.WORSE if after > before else Move.BETTER if after < before else Move.CHANGED
    return FindingChange(
        check=key[0], subject=key[1], move=move, before=_word(old), after=_word(new)
    )


def _rests_on(finding: Finding, replaced: set[str]) -> bool:
    """Whether a verdict rests on one of the slots; `disk` stands for every `disk[…]`."""
    judged = finding.verdict.value in ("pass", "fail")
    return judged and any(
        slot == premise or slot.startswith(f"{premise}[")
        for slot in replaced
        for premise in finding.premise
    )


def _word(finding: Finding | None) -> str:
    if finding is None:
        return "-"
    detail = finding.cause or (finding.reason.value if finding.reason else "")
    return f"{finding.verdict.value}{f': {detail}' if detail else ''}"
