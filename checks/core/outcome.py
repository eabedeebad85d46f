"""What a whole run says: counts, waivers, verdict and exit code. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from checks.core.expectation import Basis
from checks.core.finding import Finding
from checks.core.profile import ObserveOnly, Waiver
from checks.core.scope import ALL, QUICK, SELECTION, area_of
from checks.core.verdict import EXIT_CODES, LOOKS, Excuse, ExitEffect, RunVerdict, Verdict

WAIVER_CHECK = "profile.waiver"
"""Id of the findings about waivers themselves."""
WAIVER_CAUSES = {
    "waiver-expired": "a waiver's day has passed and the fault is still there",
    "waiver-not-needed": "a waiver covers nothing that fails any more",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run says."""

    verdict: RunVerdict
    exit_code: int
    counts: dict[str, int]
    """Findings by verdict; `confirmed` and `unconfirmed` split the passes, `waived` and `observed`
    are fails that have no effect."""
    findings: tuple[Finding, ...]
    """All of them, each with its effect on the exit code, or what excuses it."""


def waiver_findings(
    waivers: Iterable[Waiver], findings: Iterable[Finding], today: datetime.date
) -> tuple[Finding, ...]:
    """Judge the waivers themselves: expired, no longer needed, or in use."""
    rows = list(findings)
    return tuple(
        _waiver_finding(index, waiver, rows, today) for index, waiver in enumerate(waivers)
    )


def _covers(waiver: Waiver, finding: Finding) -> bool:
    return finding.check == waiver.check and waiver.subject in (None, finding.subject)


def _waiver_finding(
    index: int, waiver: Waiver, rows: list[Finding], today: datetime.date
) -> Finding:
    covered = [row for row in rows if _covers(waiver, row)]
    failing = [row for row in covered if row.verdict is Verdict.FAIL]
    undecided = [row for row in covered if row.verdict in (Verdict.UNKNOWN, Verdict.NOT_RUN)]
    subject = f"{waiver.check}{f'/{waiver.subject}' if waiver.subject else ''}"
    until = waiver.until.isoformat()
    verdict, cause, remedy = Verdict.PASS, "", ""
    if failing and today > waiver.until:
        verdict, cause = Verdict.FAIL, "waiver-expired"
        says = f"expired on {until}, and {failing[0].name} still fails ({waiver.ticket})"
        remedy = f"mend the fault, or set a new day in waiver[{index}].until; rerun"
    elif failing:
        verdict = Verdict.NOT_APPLICABLE
        says = f"in use until {until}: {waiver.reason} ({waiver.ticket})"
    elif undecided:
        verdict = Verdict.NOT_APPLICABLE
        says = f"not decided: {undecided[0].name} is {undecided[0].verdict.value}"
    else:
        verdict, cause = Verdict.FAIL, "waiver-not-needed"
        says = f"nothing fails that it covers ({waiver.ticket})"
        remedy = f"remove waiver[{index}] from the profile; rerun"
    return Finding(
        check=WAIVER_CHECK,
        subject=subject,
        verdict=verdict,
        says=says,
        cause=cause,
        cause_text=WAIVER_CAUSES.get(cause, ""),
        expected={"until": until},
        basis=Basis.DECLARED,
        source=f"waiver[{index}]",
        remedy=remedy,
    )


def outcome(
    findings: Iterable[Finding],
    *,
    waivers: Iterable[Waiver],
    optional: Mapping[str, str],
    observe_only: Iterable[ObserveOnly] = (),
    today: datetime.date,
    interrupted: bool,
    scope: str,
) -> Outcome:
    """Add up a run.

    Args:
        findings: all of them, those about waivers included.
        waivers: of the profile.
        optional: check id = reason, of the profile.
        observe_only: checks on trial, of the profile.
        today: day of the run, UTC.
        interrupted: whether the run was stopped before its end.
        scope: `all`, `selection`, `quick`, or the one area that the run speaks of.

    """
    valid = [waiver for waiver in waivers if today <= waiver.until]
    on_trial = {entry.check for entry in observe_only if today <= entry.until}
    rows = tuple(_weigh(row, valid, optional, on_trial, scope) for row in findings)
    over = {entry.check: entry.until for entry in observe_only if entry.check not in on_trial}
    rows = tuple(_after_trial(row, over) for row in rows)
    counts = {verdict.value: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
    counts["confirmed"] = sum(row.confirmed for row in rows)
    counts["unconfirmed"] = counts[Verdict.PASS.value] - counts["confirmed"]
    counts["waived"] = sum(row.excused is Excuse.WAIVER for row in rows)
    counts["observed"] = sum(row.excused is Excuse.OBSERVE_ONLY for row in rows)
    effects = {row.effect for row in rows}
    if interrupted:
        verdict = RunVerdict.INTERRUPTED
    elif ExitEffect.FAILS in effects:
        verdict = RunVerdict.FAIL
    elif ExitEffect.INCOMPLETE in effects or not _confirmed(rows, scope):
        verdict = RunVerdict.INCOMPLETE
    else:
        verdict = RunVerdict.PASS
    return Outcome(verdict=verdict, exit_code=EXIT_CODES[verdict], counts=counts, findings=rows)


def _weigh(
    row: Finding,
    waivers: list[Waiver],
    optional: Mapping[str, str],
    on_trial: set[str],
    scope: str,
) -> Finding:
    """Say what a finding does to the exit code, or what excuses it."""
    effect = LOOKS[row.verdict].exit_effect
    excused: Excuse | None = None
    if effect is ExitEffect.NONE:
        pass
    elif not in_scope(row.check, scope, load=row.load):
        excused = Excuse.SCOPE
    elif effect is ExitEffect.FAILS and any(_covers(waiver, row) for waiver in waivers):
        excused = Excuse.WAIVER
    elif effect is ExitEffect.FAILS and row.check in on_trial:
        excused = Excuse.OBSERVE_ONLY
    elif effect is ExitEffect.INCOMPLETE and row.check in optional:
        excused = Excuse.OPTIONAL
    return replace(row, effect=ExitEffect.NONE if excused else effect, excused=excused)


def _after_trial(row: Finding, over: Mapping[str, datetime.date]) -> Finding:
    """Say of a fail that it was only observed until a day that has gone by."""
    if row.effect is not ExitEffect.FAILS or row.check not in over:
        return row
    note = f"only observed until {over[row.check]} ([[observe_only]] of the profile); now it counts"
    return replace(row, notes=(*row.notes, note))


def _confirmed(rows: Iterable[Finding], scope: str) -> bool:
    return any(row.confirmed and in_scope(row.check, scope, load=row.load) for row in rows)


def in_scope(check: str, scope: str, *, load: str = "") -> bool:
    """Whether a run of this scope speaks of a check; it always speaks of its own waivers.

    A selection speaks of everything: what it left out keeps it incomplete.

    Args:
        check: id of the check.
        scope: of the run.
        load: what the check puts on the box; empty: nothing to speak of.

    """
    if scope == QUICK:
        return not load
    return scope in (ALL, SELECTION) or area_of(check) == scope or check == WAIVER_CHECK
