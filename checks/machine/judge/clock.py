"""Whether the clock tells the time."""

from __future__ import annotations

from checks.core.expectation import Case
from checks.core.facts import BOX, Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.judging import always, utc
from checks.core.registry import check
from checks.core.units import span_text
from checks.core.verdict import Reason
from checks.machine.facts import (
    Clock,
    History,
    Moment,
)

CLOCK_SLACK_S = 60.0
"""Clocks that are set by hand or by a network may differ by this much and nothing is wrong."""


@check(
    "machine.clock.past",
    sees=(Clock, History),
    cases=lambda _: [Case(subject=BOX, wanted=always("time only passes"))],
    causes={
        "clock-in-the-past": "the wall clock is earlier than something that has already happened: "
        "a dead clock battery or a new board, and no time server reached",
    },
)
def clock_not_in_the_past(clock: Clock, history: History, _: None = None) -> Judgement:
    """The wall clock is not in the past.

    Looks at the wall clock, the build date of the kernel, the newest file that a package manager
    wrote, and the newest ledger of this host; needs no network. Fails where the clock is earlier
    than one of them by more than a minute. While it is, every certificate is "not yet valid", and
    ledgers, logs and certificates that are written carry wrong dates.
    What to do: set the clock, make chrony or systemd-timesyncd reach a server, write it to the
    board (`hwclock -w` as root), make anew what was made meanwhile.
    """
    moments = [
        item for item in (clock.kernel_built, clock.packages_installed) if isinstance(item, Moment)
    ]
    if not isinstance(history.newest_s, Unseen):
        # not of that ledger itself: it hands on the latest moment of those before it
        ledgers = f"the latest moment in the ledgers up to {history.ledger}"
        moments.append(Moment(what=ledgers, at_s=history.newest_s))
    observed = {"now_s": clock.now_s}
    if not moments:
        return unknown(
            Reason.NOT_OBSERVABLE,
            "nothing on this box says what time it must be at least",
            remedy="compare `date -u` with a watch",
            observed=observed,
        )
    newest = max(moments, key=lambda moment: moment.at_s)
    says = f"the clock says {utc(clock.now_s)}; {newest.what} is of {utc(newest.at_s)}"
    expected = {"now_min_s": newest.at_s}
    notes = ("nothing disciplines this clock (adjtimex)",) if clock.synchronised is False else ()
    evidence = tuple(f"{moment.what}: {utc(moment.at_s)}" for moment in moments)
    earlier = f"{newest.what} was written while it was ahead: write it anew, and rerun"
    if newest is not clock.kernel_built and newest is not clock.packages_installed:
        earlier = (
            "an earlier run was made while it was ahead: among the ledgers of this host, find those "
            "whose names begin with a date that is still to come, move them and head.json "
            "elsewhere, and rerun"
        )
    if not all(clock.now_s >= moment.at_s - CLOCK_SLACK_S for moment in moments):
        return fail(
            "clock-in-the-past",
            f"the clock is {span_text(newest.at_s - clock.now_s)} behind: {says}",
            remedy="set the clock (`date -u -s …` as root), enable chrony or systemd-timesyncd, "
            "then `hwclock -w`; make certificates anew that were made meanwhile; rerun. If the "
            f"clock is right, {earlier}",
            observed=observed,
            expected=expected,
            notes=notes,
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


@check(
    "machine.clock.jump",
    sees=(Clock, History),
    cases=lambda _: [Case(subject=BOX, wanted=always("one second lasts one second"))],
    blocked_by=("machine.clock.past",),
    causes={
        "jumped-during-the-run": "the wall clock was set while the suite ran",
        "jumped-back": "the wall clock was set back since an earlier run in the same boot",
        "boot-time-off": "the moment of boot and the time since boot do not add up to the wall "
        "clock: something fakes one of the three",
    },
)
def clock_runs_evenly(clock: Clock, history: History, _: None = None) -> Judgement:
    """The wall clock runs as fast as the time since boot.

    Compares the wall clock minus the time since boot with the same difference at the start of the
    run, with the newest ledger if that is of the same boot, and with the boot time of /proc/stat.
    Fails where they differ by more than a minute: set during the run, set back since the last one,
    or faked. A clock that was put forward since the last run was corrected: a note says so. Where
    neither an earlier run of this boot nor /proc/stat can be compared with, it is unknown.
    What to do: rerun; if it comes back, find what sets the clock (two time services, a guest agent).
    """
    offset_s = clock.now_s - clock.up_s
    run_step_s = offset_s - history.run_boot_offset_s
    observed = {"boot_offset_s": offset_s, "run_step_s": run_step_s}
    rerun = "rerun; if it comes back, stop all but one of chrony, systemd-timesyncd, ntpd and the guest agent"
    if not abs(run_step_s) <= CLOCK_SLACK_S:
        says = f"the clock moved by {span_text(run_step_s)} while the suite ran"
        return fail("jumped-during-the-run", says, remedy=rerun, observed=observed)
    if not isinstance(clock.boot_s, Unseen) and not abs(offset_s - clock.boot_s) <= CLOCK_SLACK_S:
        says = f"booted at {utc(clock.boot_s)} by /proc/stat, {utc(offset_s)} by clock and uptime"
        return fail("boot-time-off", says, remedy=rerun, observed=observed)
    same_boot = not isinstance(clock.boot_id, Unseen) and clock.boot_id == history.boot_id
    if not same_boot or isinstance(history.boot_offset_s, Unseen):
        if isinstance(clock.boot_s, Unseen):
            return unknown(
                Reason.NOT_OBSERVABLE,
                "the clock ran evenly in this run, and nothing shows whether it did before: boot "
                f"time {clock.boot_s}, and no earlier run of the same boot",
                remedy="run where /proc/stat may be read; where it has no btime, rerun before the "
                "next boot, and this run is what that one compares with",
                observed=observed,
                unseen=clock.boot_s,
            )
        return ok("clock and time since boot run evenly", observed=observed)
    step_s = offset_s - history.boot_offset_s
    observed["step_s"] = step_s
    if not step_s >= -CLOCK_SLACK_S:
        says = f"the clock was set back by {span_text(step_s)} since {history.ledger}"
        return fail("jumped-back", says, remedy=rerun, observed=observed)
    if step_s > CLOCK_SLACK_S:
        note = f"the clock was put forward by {span_text(step_s)} since {history.ledger}; times in it are wrong"
        return ok("clock and time since boot run evenly", observed=observed, notes=(note,))
    return ok("clock and time since boot run evenly", observed=observed)
