"""Whether the clock tells the time."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.expectation import Case, Expected
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, not_applicable, not_seen, ok, unknown
from checks.core.judging import always, declared_or_always, utc
from checks.core.registry import check
from checks.core.units import span_text
from checks.core.verdict import Reason
from checks.machine.facts import (
    Clock,
    Discipline,
    HardwareClock,
    History,
    Identity,
    Moment,
    Timekeeping,
)

RTC_SLACK_S = 26 * 3_600.0
"""A day, and what is left of a time zone's difference where date and zone are both taken wrongly."""
ZONE_STEP_S, WIDEST_ZONE_S = 900.0, 14 * 3_600.0
"""Time zones differ by whole quarters of an hour, and by 14 hours from UTC at most."""
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
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, evidence=evidence)


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


def _disciplined(expected: Expected) -> Iterator[Case[bool | None]]:
    rule = "the kernel knows who keeps its clock right"
    yield from declared_or_always(expected, "clock_disciplined", rule)


@check(
    "machine.clock.discipline",
    sees=(Timekeeping, Identity),
    cases=_disciplined,
    causes={
        "not-disciplined": "no time service keeps this clock right, although the profile says that "
        "one must: none runs, or it reaches no server",
    },
)
def clock_is_disciplined(
    seen: Timekeeping,
    box: Identity,
    wanted: bool | None,  # noqa: FBT001 - a judge takes what is wanted
) -> Judgement:
    """Something keeps the clock right.

    Looks at what the kernel says of its clock (adjtimex, which needs no rights; in a container it is
    the host's), which time services have left a trace, and which time zone is named. Fails where the
    profile declares hardware.clock_disciplined = true and the kernel says that its clock is not
    synchronised. Undeclared, that passes with a note: many virtual machines have a right clock from
    their host and no time service.
    What to do: enable chrony or systemd-timesyncd, let it reach a server (open UDP port 123 to it) or
    use PTP; `timedatectl` then says "System clock synchronized: yes". chrony tells the kernel only
    with `rtcsync` in its configuration.
    """
    discipline = seen.discipline
    services = ", ".join(seen.services) or "no time service"
    if isinstance(discipline, Unseen):
        if not wanted:
            return not_applicable(f"not declared, and not to be seen here: {discipline}")
        return not_seen("whether something disciplines the clock was", discipline)
    evidence = (_discipline_text(discipline), f"time services: {services}")
    observed = {"synchronised": "yes" if discipline.synchronised else "no"}
    notes = [
        f"{name} is a time zone that is not on this box: times are UTC"
        for name in seen.zone.missing
    ]
    if discipline.synchronised:
        says = "the kernel says that its clock is synchronised"
        return ok(says, observed=observed, notes=tuple(notes), evidence=evidence)
    says = f"the kernel says that its clock is not synchronised ({services})"
    host = "" if box.container == "none" or isinstance(box.container, Unseen) else "on the host, "
    remedy = (
        f"{host}enable chrony (with `rtcsync`) or systemd-timesyncd, open UDP port 123 to its server or "
        "use PTP, and see that `timedatectl` says `System clock synchronized: yes`"
    )
    if wanted:
        return fail(
            "not-disciplined",
            says,
            remedy=f"{remedy}; rerun",
            observed=observed,
            expected={"synchronised": "yes"},
            notes=tuple(notes),
            evidence=evidence,
        )
    if wanted is None:
        notes.append(f"nothing disciplines this clock (adjtimex), so it drifts: {remedy}")
    return ok(says, observed=observed, notes=tuple(notes), evidence=evidence)


def _discipline_text(discipline: Discipline) -> str:
    error = discipline.maxerror_s
    most = "" if isinstance(error, Unseen) else f", off by {error:.6f} s at most"
    return f"adjtimex: status {discipline.status}{most}"


@check(
    "machine.clock.rtc",
    sees=Timekeeping,
    cases=lambda _: [Case(subject=BOX, wanted=always("the board's clock tells the day"))],
    premise=("board",),
    blocked_by=("machine.clock.past",),
    causes={
        "rtc-wrong": "the board's clock tells another day: the next boot without a network begins at "
        "a wrong time",
    },
)
def board_clock_tells_the_day(seen: Timekeeping, _: None = None) -> Judgement:
    """The clock of the board tells the same day as the system's.

    Looks at the hardware clock (/sys/class/rtc) that set the system's at boot, or the first. Fails
    where it is off the system's clock by more than 26 hours, a day and a difference of time zones: the
    next boot begins there, and until a time server is reached every certificate is not yet valid, or
    no longer. Off by whole quarters of an hour, up to 14 hours, it is kept in local time, which is
    noted. A box without one (containers, many small boards, WSL) has nothing to judge.
    What to do: write the right time to it (`hwclock -w` as root); if it is wrong again after the next
    power cut, replace the battery of the board.
    """
    rtc = seen.rtc
    if isinstance(rtc, Unseen):
        if rtc.reason is Blind.ABSENT:
            return not_applicable(f"this box has no hardware clock that is shown: {rtc.detail}")
        remedy = rtc.remedy or "write the time to it (`hwclock -w` as root), and rerun"
        return not_seen("the hardware clock was", rtc, remedy=remedy)
    off_s = rtc.at_s - rtc.system_at_s
    side = "ahead of" if off_s > 0 else "behind"
    says = f"{rtc.name} says {utc(rtc.at_s)}, {span_text(off_s)} {side} the system's clock"
    observed = {"rtc_off_s": round(off_s, 3)}
    expected = {"rtc_off_max_s": RTC_SLACK_S}
    evidence = (f"the system's clock says {utc(rtc.system_at_s)}",)
    if not abs(off_s) <= RTC_SLACK_S:
        return fail(
            "rtc-wrong",
            says,
            remedy="compare `date -u` with a watch; if that is right, write it to the board (`hwclock -w` "
            "as root, on the host), and if it is wrong again after the next power cut, replace the "
            "battery of the board; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, notes=_rtc_notes(rtc), evidence=evidence)


def _rtc_notes(rtc: HardwareClock) -> tuple[str, ...]:
    off_s = rtc.at_s - rtc.system_at_s
    if abs(off_s) <= CLOCK_SLACK_S:
        return ()
    zone_s = round(off_s / ZONE_STEP_S) * ZONE_STEP_S
    if zone_s and abs(off_s - zone_s) <= CLOCK_SLACK_S and abs(zone_s) <= WIDEST_ZONE_S:
        return (
            f"{rtc.name} seems to be kept in local time; `timedatectl set-local-rtc 0` keeps it in UTC",
        )
    return (f"write the right time to {rtc.name}: `hwclock -w` as root",)
