"""What changed between two ledgers: components, then findings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from checks.core.finding import Finding
from checks.core.fingerprint import Change, PartChange, compare
from checks.core.verdict import LOOKS, Reason, Verdict
from checks.ledger.document import Ledger


class Move(str, Enum):
    """How a finding moved."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"
    """Same verdict for another cause, reason or basis."""
    NEW = "new"
    GONE = "gone"
    UNDECIDED = "not judged"
    """It was judged before and is not any more."""
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
    if "interrupted" in (before.run["end"], after.run["end"]):
        # what an interrupted run did not get to look at has neither come nor gone
        parts = tuple(part for part in parts if part.kind not in (Change.ADDED, Change.REMOVED))
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
    move = _move(old, new, replaced)
    if move is None:
        return None
    return FindingChange(
        check=key[0], subject=key[1], move=move, before=_word(old), after=_word(new)
    )


_JUDGED = (Verdict.PASS, Verdict.FAIL)


def _move(old: Finding | None, new: Finding | None, replaced: set[str]) -> Move | None:
    """Say how a finding moved; None where it did not, or where nobody can tell."""
    if old is None or new is None:
        return Move.NEW if old is None else Move.GONE
    if Verdict.NOT_RUN in (old.verdict, new.verdict) or Reason.INTERRUPTED in (
        old.reason,
        new.reason,
    ):
        return None
    if _rests_on(old, replaced):
        return Move.STRUCK_OUT
    if new.verdict not in _JUDGED:
        if old.verdict in _JUDGED:
            return Move.UNDECIDED
        return None if (old.verdict, old.reason) == (new.verdict, new.reason) else Move.CHANGED
    before, after = LOOKS[old.verdict].severity, LOOKS[new.verdict].severity
    if before != after:
        return Move.WORSE if after > before else Move.BETTER
    same = (old.cause, old.basis) == (new.cause, new.basis)
    return None if same else Move.CHANGED


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
    basis = finding.basis.value if finding.basis and finding.verdict is Verdict.PASS else ""
    detail = finding.cause or (finding.reason.value if finding.reason else basis)
    return f"{finding.verdict.value}{f': {detail}' if detail else ''}"
