"""A pytest plugin with a check that loads the box while it looks, and one that it would explain.

The probe that loads writes the file that LOAD_TRIAL names, so that a test can see whether it ran.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from checks.core.expectation import Basis, Case, Wanted
from checks.core.facts import BOX, Facts
from checks.core.finding import Judgement, fail, ok
from checks.core.registry import check, control, probe

LOAD = "all links at once"
LOADED, QUIET = "trial.load.speed", "trial.quiet.speed"


@dataclass(frozen=True)
class Loud(Facts):
    """What a probe sees that loads the box."""

    speed_ratio: float


@dataclass(frozen=True)
class Quiet(Facts):
    """What a probe sees that loads nothing."""

    speed_ratio: float


def loud(_: object, __: None = None) -> Loud:
    Path(os.environ["LOAD_TRIAL"]).write_text("ran")
    return Loud(speed_ratio=float(os.environ.get("LOAD_TRIAL_SPEED", "1")))


def quiet(_: object, __: None = None) -> Quiet:
    return Quiet(speed_ratio=1.0)


def _judge(seen: Loud | Quiet, wanted: float) -> Judgement:
    """Whether it is as fast as it should be."""
    if not seen.speed_ratio >= wanted:
        return fail("too-slow", "it is too slow", remedy="make it faster; rerun")
    return ok("it is as fast as it should be")


def _register() -> None:
    probe("trial.load", sees=Loud, load=LOAD)(loud)
    probe("trial.quiet", sees=Quiet)(quiet)
    wanted = Wanted(value=1.0, basis=Basis.INVARIANT, source="the test")
    for name, sees, explains in ((LOADED, Loud, ()), (QUIET, Quiet, (LOADED,))):
        check(
            name,
            sees=sees,
            cases=lambda _: [Case(subject=BOX, wanted=wanted)],
            causes={"too-slow": "it is slower than it should be"},
            blocked_by=explains,
        )(_judge)
        control(name, sees(speed_ratio=1.0), 1.0, passes=True)
        control(name, sees(speed_ratio=0.9), 1.0, fails="too-slow")


if os.environ.get("LOAD_TRIAL"):  # else the names above are all that a test takes from here
    _register()
