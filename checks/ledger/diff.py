"""What changed between two ledgers: components, then findings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from checks.core.finding import Finding
from checks.core.fingerprint import Change, PartChange, compare
from checks.core.verdict import LOOKS, Reason, Verdict
from checks.ledger.document import Ledger
from checks.ledger.swap import replaced, rests_on


class Move(str, Enum):
    """How a finding moved."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"
    """Same verdict for another cause, reason or basis."""
    NEW = "new"
    GONE = "gone"
    UNDECIDED = "unknown now"
    """It was judged before, and now nobody can tell."""
    APPLIES = "judged now"
    """There was nothing to compare it with before, and now there is."""
    NO_LONGER_APPLIES = "no longer judged"
    """There was something to compare it with before, and now there is nothing."""
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
    open_after: tuple[Finding, ...] = ()
    """Earlier findings of what the later run did not get to judge."""
    open_before: tuple[Finding, ...] = ()
    """Later findings of what the earlier run did not get to judge."""

    @property
    def rest_same(self) -> bool:
        """Whether nothing changed, that is worth a word, of what both runs judged."""
        return not self.findings and not self.real_parts

    @property
    def nothing(self) -> bool:
        """Whether nothing changed, and both runs judged all that one of them judged."""
        return self.rest_same and not self.gaps

    @property
    def gaps(self) -> tuple[str, ...]:
        """Say what cannot be compared because one of the runs did not get to judge it."""
        after = _gap(self.open_after, "now", "failed then")
        before = _gap(self.open_before, "then", "failed now")
        return tuple(filter(None, (after, before)))

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
    was, now = before.parts, after.parts
    parts = compare(was, now)
    if "interrupted" in (before.run["end"], after.run["end"]):
        # what an interrupted run did not get to look at has neither come nor gone
        parts = tuple(part for part in parts if part.kind not in (Change.ADDED, Change.REMOVED))
    gone = replaced(parts)
    old = {finding.key: finding for finding in before.findings}
    new = {finding.key: finding for finding in after.findings}
    changes = []
    for key in sorted(set(old) | set(new)):
        rests = key in old and not gone.isdisjoint(rests_on(old[key], was))
        change = _change(key, old.get(key), new.get(key), struck=rests)
        if change is not None:
            changes.append(change)
    both = sorted(set(old) & set(new))
    return Difference(
        parts=parts,
        findings=tuple(changes),
        open_after=tuple(old[key] for key in both if not _reached(new[key])),
        open_before=tuple(
            new[key] for key in both if _reached(new[key]) and not _reached(old[key])
        ),
    )


def _reached(finding: Finding) -> bool:
    """Whether the run got as far as judging it."""
    return finding.verdict is not Verdict.NOT_RUN and finding.reason is not Reason.INTERRUPTED


def _gap(rows: tuple[Finding, ...], missed: str, failed: str) -> str:
    if not rows:
        return ""
    names = [row.name for row in rows if row.verdict is Verdict.FAIL]
    fails = f" ({len(names)} of them {failed}: {', '.join(names)})" if names else ""
    checks = "1 check was" if len(rows) == 1 else f"{len(rows)} checks were"
    return f"{checks} not judged {missed}{fails}"


def _change(
    key: tuple[str, str], old: Finding | None, new: Finding | None, *, struck: bool
) -> FindingChange | None:
    move = _move(old, new, struck=struck)
    if move is None:
        return None
    return FindingChange(
        check=key[0], subject=key[1], move=move, before=_word(old), after=_word(new)
    )


_JUDGED = (Verdict.PASS, Verdict.FAIL)


def _move(old: Finding | None, new: Finding | None, *, struck: bool) -> Move | None:
    """Say how a finding moved; None where it did not, or where nobody can tell (the gaps)."""
    if struck:
        return Move.STRUCK_OUT  # also where nobody judged the new part yet, or there is none
    if old is None or new is None:
        return Move.NEW if old is None else Move.GONE
    if not _reached(old) or not _reached(new):
        return None
    if new.verdict not in _JUDGED:
        if old.verdict in _JUDGED:
            away = new.verdict is Verdict.NOT_APPLICABLE
            return Move.NO_LONGER_APPLIES if away else Move.UNDECIDED
        return None if (old.verdict, old.reason) == (new.verdict, new.reason) else Move.CHANGED
    if old.verdict is Verdict.NOT_APPLICABLE:
        return Move.APPLIES  # it was not judged before: neither better nor worse
    before, after = LOOKS[old.verdict].severity, LOOKS[new.verdict].severity
    if before != after:
        return Move.WORSE if after > before else Move.BETTER
    same = (old.cause, old.basis) == (new.cause, new.basis)
    return None if same else Move.CHANGED


def _word(finding: Finding | None) -> str:
    if finding is None:
        return "-"
    basis = finding.basis.value if finding.basis and finding.verdict is Verdict.PASS else ""
    detail = finding.cause or (finding.reason.value if finding.reason else basis)
    return f"{finding.verdict.value}{f': {detail}' if detail else ''}"
