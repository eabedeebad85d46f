"""Findings: what a judge says, and what the runner makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.core.codec import Json, decode, encode
from checks.core.expectation import Basis
from checks.core.facts import Blind, Unseen
from checks.core.verdict import Excuse, ExitEffect, Reason, Verdict

Quantities = Mapping[str, Json]
"""Names carry their unit as a suffix: `memory_total_bytes`, `effective_cpus`, `step_s`."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a judge decides. The runner adds whose it is and what it rests on."""

    verdict: Verdict
    says: str
    """The finding in one line, with the numbers."""
    cause: str = ""
    """Slug that the check declares; empty on a pass."""
    reason: Reason | None = None
    observed: Quantities = field(default_factory=dict)
    expected: Quantities = field(default_factory=dict)
    remedy: str = ""
    """What to change, where, and how to see that it worked."""
    notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    """The raw lines that were read."""
    premise: tuple[str, ...] | None = None
    """Slots that it rests on, where that is less than all that the check declares."""
    basis: Basis | None = None
    """What it rests on, where that is weaker than the basis of what was expected."""
    blind: Blind | None = None
    """Why what it asks for could not be seen, where that is why it is unknown."""


def ok(
    says: str,
    *,
    observed: Quantities | None = None,
    expected: Quantities | None = None,
    notes: tuple[str, ...] = (),
    evidence: tuple[str, ...] = (),
    basis: Basis | None = None,
) -> Judgement:
    """Within the expectation."""
    return Judgement(
        verdict=Verdict.PASS,
        says=says,
        observed=observed or {},
        expected=expected or {},
        notes=notes,
        evidence=evidence,
        basis=basis,
    )


def fail(
    cause: str,
    says: str,
    *,
    remedy: str,
    observed: Quantities | None = None,
    expected: Quantities | None = None,
    notes: tuple[str, ...] = (),
    evidence: tuple[str, ...] = (),
    basis: Basis | None = None,
) -> Judgement:
    """Outside the expectation, for a cause that the check declares."""
    return Judgement(
        verdict=Verdict.FAIL,
        says=says,
        cause=cause,
        remedy=remedy,
        observed=observed or {},
        expected=expected or {},
        notes=notes,
        evidence=evidence,
        basis=basis,
    )


def unknown(
    reason: Reason,
    says: str,
    *,
    remedy: str = "",
    observed: Quantities | None = None,
    expected: Quantities | None = None,
    evidence: tuple[str, ...] = (),
    unseen: Unseen | None = None,
) -> Judgement:
    """Could not tell, and why; `unseen` where one thing could not be seen, and nothing else is why."""
    return Judgement(
        verdict=Verdict.UNKNOWN,
        says=says,
        reason=reason,
        remedy=remedy,
        observed=observed or {},
        expected=expected or {},
        evidence=evidence,
        blind=None if unseen is None else unseen.reason,
    )


def not_seen(
    what: str,
    why: Unseen,
    *,
    remedy: str = "",
    observed: Quantities | None = None,
    evidence: tuple[str, ...] = (),
) -> Judgement:
    """Could not tell, because of one thing that could not be seen; `what` says of what it is so."""
    return unknown(
        Reason.NOT_OBSERVABLE,
        f"{what} not seen: {why}",
        remedy=remedy or why.remedy,
        observed=observed,
        evidence=evidence,
        unseen=why,
    )


def not_applicable(fact: str) -> Judgement:
    """Has no meaning here; `fact` is what makes it so."""
    return Judgement(verdict=Verdict.NOT_APPLICABLE, says=fact)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One property of one subject: the row of every report."""

    check: str
    subject: str
    verdict: Verdict
    says: str
    cause: str = ""
    cause_text: str = ""
    reason: Reason | None = None
    blocked_by: str = ""
    """The finding that explains this one, as reports name it, where the reason is `blocked-by`."""
    observed: dict[str, Json] = field(default_factory=dict)
    expected: dict[str, Json] = field(default_factory=dict)
    basis: Basis | None = None
    """What the expectation rests on; None where none was compared."""
    source: str = ""
    """Where the expectation is written, or where and when it was measured."""
    confirmed: bool = False
    """A pass on a basis that somebody declared or measured, or that holds on every box."""
    remedy: str = ""
    notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    premise: tuple[str, ...] = ()
    """Slots of the fingerprint that the verdict rests on; `disk` stands for every `disk[…]`."""
    blind: Blind | None = None
    """Why what it asks for could not be seen, where that is why it is unknown."""
    load: str = ""
    """What looking puts on the box, of what was looked at or was left out; empty: nothing to speak of."""
    effect: ExitEffect = ExitEffect.NONE
    """What it does to the exit code of the run. Set when the run is added up."""
    excused: Excuse | None = None
    """Why it has no effect although its verdict would have one."""

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the row: check and subject."""
        return (self.check, self.subject)

    @property
    def name(self) -> str:
        """Check and subject as reports show them."""
        return f"{self.check} [{self.subject}]"

    def to_json(self) -> dict[str, Json]:
        """Give the row as JSON."""
        row = encode(self)
        assert isinstance(row, dict)  # noqa: S101 - a dataclass always encodes to an object
        return row

    @staticmethod
    def from_json(row: Json, path: str = "finding") -> Finding:
        """Read a row.

        Raises:
            CodecError: where it is not one.

        """
        return decode(Finding, row, path)
