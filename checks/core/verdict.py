"""Verdicts: a closed set, with one table that says how each is shown and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """What was found out about one property of one subject."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    PASS = "pass"
    NOT_RUN = "not-run"
    NOT_APPLICABLE = "not-applicable"


class Reason(str, Enum):
    """Why a verdict is unknown."""

    NOT_OBSERVABLE = "not-observable"
    NO_EXPECTATION = "no-expectation"
    PREMISE_CHANGED = "premise-changed"
    BLOCKED_BY = "blocked-by"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    CONTROL_PASSED = "control-passed"


class ExitEffect(str, Enum):
    """What one finding does to the exit code of a run."""

    NONE = "none"
    FAILS = "fails"
    INCOMPLETE = "incomplete"
    """Only where the check is required."""


class Excuse(str, Enum):
    """Why a finding has no effect on the exit code although its verdict would have one."""

    WAIVER = "waiver"
    """A known fail that may stand until a day."""
    OPTIONAL = "optional"
    """The profile says, with a reason, that this box may go without it."""
    OBSERVE_ONLY = "observe-only"
    """The check is on trial until a day."""
    SCOPE = "scope"
    """The run speaks of another area."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a verdict is shown, counted and mapped, everywhere."""

    label: str
    """Word in reports."""
    sigil: str
    """One ASCII letter, as in pytest's progress."""
    colour: str
    """Colour name that rich and pytest both know."""
    severity: int
    """Sort order: higher is worse. `unknown` is always worse than `pass`."""
    exit_effect: ExitEffect
    metric: str
    """Label value in metrics."""
    pytest: str
    """Outcome that pytest and so JUnit see: `passed`, `failed` or `skipped`."""


LOOKS: dict[Verdict, Look] = {
    Verdict.FAIL: Look(
        label="FAIL",
        sigil="F",
        colour="red",
        severity=4,
        exit_effect=ExitEffect.FAILS,
        metric="fail",
        pytest="failed",
    ),
    Verdict.UNKNOWN: Look(
        label="UNKNOWN",
        sigil="U",
        colour="yellow",
        severity=3,
        exit_effect=ExitEffect.INCOMPLETE,
        metric="unknown",
        pytest="failed",
    ),
    Verdict.NOT_RUN: Look(
        label="not run",
        sigil="-",
        colour="yellow",
        severity=2,
        exit_effect=ExitEffect.INCOMPLETE,
        metric="not_run",
        pytest="skipped",
    ),
    Verdict.PASS: Look(
        label="pass",
        sigil=".",
        colour="green",
        severity=1,
        exit_effect=ExitEffect.NONE,
        metric="pass",
        pytest="passed",
    ),
    Verdict.NOT_APPLICABLE: Look(
        label="not applicable",
        sigil="s",
        colour="white",
        severity=0,
        exit_effect=ExitEffect.NONE,
        metric="not_applicable",
        pytest="skipped",
    ),
}


class RunVerdict(str, Enum):
    """What a whole run says about the box, within its scope."""

    PASS = "pass"
    FAIL = "fail"
    INCOMPLETE = "incomplete"
    INTERRUPTED = "interrupted"


EXIT_CODES: dict[RunVerdict, int] = {
    RunVerdict.PASS: 0,
    RunVerdict.FAIL: 1,
    RunVerdict.INTERRUPTED: 2,
    RunVerdict.INCOMPLETE: 10,
}
"""Exit codes 3 to 6 are pytest's own: internal error, usage (also a profile or a folder that
cannot be used), nothing collected, too many warnings."""
