"""A pytest plugin with a probe that misbehaves, and a check of it: the edge, where anything happens.

Only the one that CRASH_TRIAL names is registered: at its end a run looks with every probe there is.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from checks.core.expectation import Basis, Case, Wanted
from checks.core.facts import Facts, Unseen
from checks.core.finding import Judgement, fail, ok
from checks.core.registry import check, control, probe
from tests.support.crash_plugin import tell

DEADLINE_S = 1.5


@dataclass(frozen=True)
class Waited(Facts):
    """What each of these probes gives, or would give."""

    waited_s: float


def _three(_: object) -> dict[str, str]:
    return {"first": "calm", "second": "stuck", "third": "calm"}


def side_by_side(_: object, target: str) -> Waited | Unseen:
    if target == "stuck":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)
    return Waited(waited_s=0.0)


def with_a_grandchild(_: object, __: None = None) -> Waited | Unseen:
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(600)
        os._exit(0)
    tell("hung", child=os.getpid(), grandchild=grandchild)
    time.sleep(600)
    return Waited(waited_s=600.0)


def until_it_is_killed(_: object, __: None = None) -> Waited | Unseen:
    tell("doomed", child=os.getpid())
    time.sleep(600)
    return Waited(waited_s=600.0)


def with_a_stray(_: object, __: None = None) -> Waited | Unseen:
    grandchild = os.fork()
    if grandchild == 0:
        os.setsid()  # stands for a process in state D, which no signal ends
        tell("stray", grandchild=os.getpid())
        time.sleep(600)
        os._exit(0)
    time.sleep(600)
    return Waited(waited_s=600.0)


TRIALS = {
    "side": (side_by_side, DEADLINE_S, ("first", "second", "third")),
    "hung": (with_a_grandchild, DEADLINE_S, ("box",)),
    "doomed": (until_it_is_killed, 60.0, ("box",)),
    "stray": (with_a_stray, 60.0, ("box",)),
}


def _register(name: str) -> None:
    read, deadline_s, subjects = TRIALS[name]
    targets = _three if len(subjects) > 1 else None
    probe(f"trial.{name}", sees=Waited, targets=targets, deadline_s=deadline_s)(read)
    wish = Wanted(value=1.0, basis=Basis.INVARIANT, source="the test")

    def judge(seen: Waited, wanted: float) -> Judgement:
        """Whether the probe answered."""
        if seen.waited_s > wanted:
            return fail("too-long", "waited too long", remedy="wait less; rerun")
        return ok("answered at once")

    check(
        f"trial.{name}.answers",
        sees=Waited,
        cases=lambda _: [Case(subject=subject, wanted=wish) for subject in subjects],
        causes={"too-long": "the probe took too long"},
    )(judge)
    control(f"trial.{name}.answers", Waited(waited_s=1.0), 1.0, passes=True)
    control(f"trial.{name}.answers", Waited(waited_s=1.1), 1.0, fails="too-long")


if os.environ.get("CRASH_TRIAL"):
    _register(os.environ["CRASH_TRIAL"])
