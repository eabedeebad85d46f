"""A clock that is right to the second that is allowed, and one beyond."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Clock,
    Discipline,
    HardwareClock,
    History,
    Moment,
    Timekeeping,
    TimeZone,
)
from checks.machine.judge.clock import CLOCK_SLACK_S, RTC_SLACK_S

_NOW_S = 1_750_000_000.0
_CLOCK = Clock(
    now_s=_NOW_S,
    up_s=1_000.0,
    boot_s=_NOW_S - 1_000.0,
    boot_id="planted",
    synchronised=True,
    kernel_built=Moment(what="the kernel's build", at_s=_NOW_S - 9_000.0),
    packages_installed=Moment(what="planted", at_s=_NOW_S + CLOCK_SLACK_S),
)
_HISTORY = History(
    ledger="planted",
    newest_s=_NOW_S - 5_000.0,
    boot_id="planted",
    boot_offset_s=_NOW_S - 1_000.0,
    run_boot_offset_s=_NOW_S - 1_000.0,
)
_LATE = _NOW_S + CLOCK_SLACK_S + 1.0
control("machine.clock.past", (_CLOCK, _HISTORY), passes=True)
control(
    "machine.clock.past",
    (replace(_CLOCK, kernel_built=Moment(what="planted", at_s=_LATE)), _HISTORY),
    fails="clock-in-the-past",
)
control(
    "machine.clock.past",
    (replace(_CLOCK, packages_installed=Moment(what="planted", at_s=_LATE)), _HISTORY),
    fails="clock-in-the-past",
)
control(
    "machine.clock.past",
    (_CLOCK, replace(_HISTORY, newest_s=_LATE)),
    fails="clock-in-the-past",
)

_OFFSET_S = _NOW_S - 1_000.0
control("machine.clock.jump", (_CLOCK, _HISTORY), passes=True)
for _step_s in (-CLOCK_SLACK_S, CLOCK_SLACK_S):
    control(
        "machine.clock.jump",
        (_CLOCK, replace(_HISTORY, run_boot_offset_s=_OFFSET_S + _step_s)),
        passes=True,
    )
    control(
        "machine.clock.jump",
        (_CLOCK, replace(_HISTORY, run_boot_offset_s=_OFFSET_S + _step_s * 1.02)),
        fails="jumped-during-the-run",
    )
    control(
        "machine.clock.jump",
        (replace(_CLOCK, boot_s=_OFFSET_S + _step_s), _HISTORY),
        passes=True,
    )
    control(
        "machine.clock.jump",
        (replace(_CLOCK, boot_s=_OFFSET_S + _step_s * 1.02), _HISTORY),
        fails="boot-time-off",
    )
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + CLOCK_SLACK_S)),
    passes=True,
)
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + CLOCK_SLACK_S + 1.0)),
    fails="jumped-back",
)
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + 9_000.0, boot_id="another")),
    passes=True,
)

_NONE = Unseen(Blind.ABSENT, "planted")
_RIGHT = Discipline(synchronised=True, status="0x2001", maxerror_s=0.01, esterror_s=0.001)
_RTC = HardwareClock(name="rtc0", at_s=_NOW_S, system_at_s=_NOW_S, set_the_system=True)
_KEPT = Timekeeping(
    discipline=_RIGHT,
    services=("chrony",),
    rtc=_RTC,
    zone=TimeZone(variable="", localtime=_NONE, timezone=_NONE, missing=()),
)
_LEFT = replace(_KEPT, discipline=replace(_RIGHT, synchronised=False, status="0x2041"))
control("machine.clock.discipline", (_KEPT, IDENTITY), True, passes=True)  # noqa: FBT003 - as declared
control("machine.clock.discipline", (_LEFT, IDENTITY), None, passes=True)
control("machine.clock.discipline", (_LEFT, IDENTITY), True, fails="not-disciplined")  # noqa: FBT003
for _off_s in (-RTC_SLACK_S, RTC_SLACK_S):
    for _more, _cause in ((1.0, ""), (1.001, "rtc-wrong")):
        control(
            "machine.clock.rtc",
            replace(_KEPT, rtc=replace(_RTC, at_s=_NOW_S + _off_s * _more)),
            fails=_cause,
            passes=not _cause,
        )
