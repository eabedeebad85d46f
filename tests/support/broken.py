"""Breaks one thing of the suite in one run: `-p tests.support.broken` and BREAK=WHAT.

What is broken here is never what the test then looks at: a judge that cannot fail is there to see
the controls find it, a probe that hangs to see the deadline, and so on.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from checks.core.facts import Facts, Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.registry import REGISTRY, load_areas
from checks.core.verdict import Reason
from checks.core.world import World

CHECK = "machine.clock.past"
PROBE = "machine.memory"


def _judge(judge: Callable[..., Judgement], name: str = CHECK) -> None:
    REGISTRY.checks[name] = dataclasses.replace(REGISTRY.checks[name], judge=judge)


def _read(read: Callable[[World, Any], Any], deadline_s: float = 5.0) -> None:
    REGISTRY.probes[PROBE] = dataclasses.replace(
        REGISTRY.probes[PROBE], read=read, deadline_s=deadline_s
    )


def _always_passes(*_: object) -> Judgement:
    return ok("all is well")


def _always_fails(*_: object) -> Judgement:
    return fail("clock-in-the-past", "it is late", remedy="wait")


def _wrong_cause(*_: object) -> Judgement:
    return fail("clock-in-the-pest", "command not found", remedy="look")


def _never_decides(*_: object) -> Judgement:
    return unknown(Reason.NOT_OBSERVABLE, "who knows", remedy="look")


def _raises(*_: object) -> Judgement:
    raise RuntimeError("a bug in the judge")


def _raises_on_the_real_thing(clock: Any, history: Any, wanted: None = None) -> Judgement:
    if clock.boot_id == "planted":
        return REAL(clock, history, wanted)
    raise RuntimeError("a bug that no control has met")


def _observes_nan(clock: Any, history: Any, wanted: None = None) -> Judgement:
    if clock.boot_id == "planted":
        return REAL(clock, history, wanted)
    return ok("within limits", observed={"now_s": math.nan})


def _hangs(*_: object) -> Facts | Unseen:
    time.sleep(600)
    raise AssertionError


def _read_raises(*_: object) -> Facts | Unseen:
    raise RuntimeError("a bug in the probe")


def _dies(*_: object) -> Facts | Unseen:
    os.kill(os.getpid(), 9)
    raise AssertionError


def _gives_nothing(*_: object) -> Any:
    return None


def _no_cases() -> None:
    for name, check in REGISTRY.checks.items():
        REGISTRY.checks[name] = dataclasses.replace(check, cases=lambda _: ())


def _a_check_without_a_test() -> None:
    check = REGISTRY.checks[CHECK]
    REGISTRY.checks["machine.clock.untested"] = dataclasses.replace(
        check, name="machine.clock.untested"
    )


def _no_must_fail() -> None:
    check = REGISTRY.checks[CHECK]
    kept = [control for control in check.controls if not control.fails]
    REGISTRY.checks[CHECK] = dataclasses.replace(check, controls=kept)


def _no_controls() -> None:
    REGISTRY.checks[CHECK] = dataclasses.replace(REGISTRY.checks[CHECK], controls=[])


WAYS: dict[str, Callable[[], None]] = {
    "judge always passes": lambda: _judge(_always_passes),
    "judge always fails": lambda: _judge(_always_fails),
    "judge fails for another reason": lambda: _judge(_wrong_cause),
    "judge never decides": lambda: _judge(_never_decides),
    "judge raises": lambda: _judge(_raises),
    "judge raises on the real thing": lambda: _judge(_raises_on_the_real_thing),
    "judge observes NaN": lambda: _judge(_observes_nan),
    "probe hangs": lambda: _read(_hangs, 0.5),
    "probe raises": lambda: _read(_read_raises),
    "probe dies": lambda: _read(_dies),
    "probe gives nothing": lambda: _read(_gives_nothing),
    "no cases": _no_cases,
    "check without a test": _a_check_without_a_test,
    "no must-fail control": _no_must_fail,
    "no controls": _no_controls,
    "tests judge nothing": lambda: None,
    "tests skip themselves": lambda: None,
}

load_areas()
REAL = REGISTRY.checks[CHECK].judge
_WAY = os.environ.get("BREAK", "")
if _WAY:
    WAYS[_WAY]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _WAY == "tests judge nothing":
            item.obj = lambda judged: None  # type: ignore[attr-defined]
        skipped = pytest.mark.skipif(_WAY == "tests skip themselves", reason="switched off")
        item.add_marker(skipped)
