"""The judges of clock, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import (
    Basis,
    Wanted,
)
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement
from checks.core.profile import Hardware, Profile
from checks.core.registry import REGISTRY
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Clock,
    Discipline,
    HardwareClock,
    History,
    Identity,
    Moment,
    Timekeeping,
    TimeZone,
)
from checks.machine.judge import clock as judge
from tests.support.judging import UNSEEN, expected, same_text, stopped_without

NOW_S = 1_750_000_000.0


def test_the_tolerance_is_the_one_that_the_text_promises():
    assert judge.CLOCK_SLACK_S == 60.0
    assert "more than a minute" in judge.clock_not_in_the_past.__doc__


UP_S = 1_000.0
BOOT_S = NOW_S - UP_S


def clock(**changes: object) -> Clock:
    fields = {
        "now_s": NOW_S,
        "up_s": UP_S,
        "boot_s": BOOT_S,
        "boot_id": "one",
        "synchronised": True,
        "kernel_built": Moment(what="the kernel's build", at_s=NOW_S - 9_000.0),
        "packages_installed": Moment(what="/var/lib/dpkg/status", at_s=NOW_S - 8_000.0),
    }
    return Clock(**(fields | changes))


def history(**changes: object) -> History:
    fields = {
        "ledger": "before.json",
        "newest_s": NOW_S - 5_000.0,
        "boot_id": "one",
        "boot_offset_s": BOOT_S,
        "run_boot_offset_s": BOOT_S,
    }
    return History(**(fields | changes))


def past(seen: Clock, earlier: History):
    return judge.clock_not_in_the_past(seen, earlier)


@pytest.mark.parametrize("ahead_s", [-1.0, 0.0, 59.0, 60.0])
@pytest.mark.parametrize("which", ["kernel_built", "packages_installed", "newest_s"])
def test_a_clock_within_a_minute_of_what_has_happened_passes(which, ahead_s):
    said = past(*ahead(which, ahead_s))
    assert said.verdict is Verdict.PASS
    assert said.cause == ""
    assert said.expected == {"now_min_s": NOW_S + ahead_s}


@pytest.mark.parametrize("ahead_s", [60.001, 61.0, 1e6, 1e12])
@pytest.mark.parametrize("which", ["kernel_built", "packages_installed", "newest_s"])
def test_a_clock_more_than_a_minute_behind_what_has_happened_fails(which, ahead_s):
    said = past(*ahead(which, ahead_s))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "clock-in-the-past")
    assert said.observed == {"now_s": NOW_S}
    assert said.expected == {"now_min_s": NOW_S + ahead_s}


def ahead(which: str, ahead_s: float) -> tuple[Clock, History]:
    if which == "newest_s":
        return clock(), history(newest_s=NOW_S + ahead_s)
    moment = Moment(what="a moment ahead", at_s=NOW_S + ahead_s)
    return clock(**{which: moment}), history()


def test_a_clock_in_the_past_is_said_with_both_times_and_the_distance():
    said = past(clock(), history(newest_s=NOW_S + 86_400.0 * 3))
    assert said.says == (
        "the clock is 3 d behind: the clock says 2025-06-15 15:06:40Z; "
        "the latest moment in the ledgers up to before.json is of 2025-06-18 15:06:40Z"
    )
    assert "hwclock -w" in said.remedy
    assert said.evidence == (
        "the kernel's build: 2025-06-15 12:36:40Z",
        "/var/lib/dpkg/status: 2025-06-15 12:53:20Z",
        "the latest moment in the ledgers up to before.json: 2025-06-18 15:06:40Z",
    )


def test_the_remedy_blames_no_ledger_that_may_have_been_written_with_the_right_clock():
    """The newest ledger hands on the latest moment of those before it."""
    remedy = past(clock(), history(newest_s=NOW_S + 86_400.0)).remedy
    assert "before.json" not in remedy
    assert "whose names begin with a date that is still to come" in remedy
    assert "head.json" in remedy
    package = Moment(what="/var/lib/dpkg/status", at_s=NOW_S + 86_400.0)
    remedy = past(clock(packages_installed=package), history()).remedy
    assert "/var/lib/dpkg/status was written while it was ahead" in remedy
    assert "ledgers" not in remedy


def test_a_clock_that_fell_back_to_1970_says_how_far():
    said = past(clock(now_s=1_000.0), history(newest_s=UNSEEN))
    assert said.says.startswith("the clock is 20254 d 12 h behind: the clock says 1970-01-01")


def test_a_clock_that_is_right_says_against_what():
    said = past(clock(), history())
    assert said.says == (
        "the clock says 2025-06-15 15:06:40Z; the latest moment in the ledgers up to before.json "
        "is of 2025-06-15 13:43:20Z"
    )
    assert len(said.evidence) == 3


def test_what_could_not_be_seen_is_left_out():
    seen = clock(kernel_built=UNSEEN, packages_installed=UNSEEN)
    said = past(seen, history())
    assert said.evidence == (
        "the latest moment in the ledgers up to before.json: 2025-06-15 13:43:20Z",
    )
    only_kernel = past(clock(packages_installed=UNSEEN), history(newest_s=UNSEEN))
    assert only_kernel.expected == {"now_min_s": NOW_S - 9_000.0}


def test_without_anything_to_compare_with_the_clock_is_unknown():
    seen = clock(kernel_built=UNSEEN, packages_installed=UNSEEN)
    said = past(seen, history(newest_s=UNSEEN))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.observed == {"now_s": NOW_S}
    assert "date -u" in said.remedy


def test_a_moment_that_no_calendar_holds_is_said_in_seconds():
    assert past(clock(), history(newest_s=1e300)).says.endswith("s since 1970")
    assert past(clock(now_s=-1e300), history()).verdict is Verdict.FAIL


def jump(seen: Clock, earlier: History):
    return judge.clock_runs_evenly(seen, earlier)


@pytest.mark.parametrize("step_s", [-60.0, -59.0, 0.0, 59.0, 60.0])
def test_a_clock_within_a_minute_of_the_time_since_boot_passes(step_s):
    for seen, earlier in (
        (clock(), history(run_boot_offset_s=BOOT_S + step_s)),
        (clock(boot_s=BOOT_S + step_s), history()),
        (clock(), history(boot_offset_s=BOOT_S + step_s)),
    ):
        said = jump(seen, earlier)
        assert said.verdict is Verdict.PASS
        assert said.says == "clock and time since boot run evenly"
        assert said.notes == ()


@pytest.mark.parametrize("step_s", [-7_200.0, -61.0, -60.5, 60.5, 61.0, 7_200.0])
def test_a_clock_that_is_set_during_the_run_fails_both_ways(step_s):
    said = jump(clock(), history(run_boot_offset_s=BOOT_S - step_s))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "jumped-during-the-run")
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": step_s}
    assert said.remedy.startswith("rerun")
    if abs(step_s) == 7_200.0:
        assert said.says == "the clock moved by 2 h while the suite ran"


@pytest.mark.parametrize("step_s", [-7_200.0, -61.0, -60.5, 60.5, 61.0, 7_200.0])
def test_a_boot_time_that_does_not_add_up_fails_both_ways(step_s):
    said = jump(clock(boot_s=BOOT_S + step_s), history())
    assert (said.verdict, said.cause) == (Verdict.FAIL, "boot-time-off")
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0}
    if step_s == 7_200.0:
        assert said.says == (
            "booted at 2025-06-15 16:50:00Z by /proc/stat, 2025-06-15 14:50:00Z by clock and uptime"
        )


def test_a_clock_that_was_set_back_since_the_last_run_of_this_boot_fails():
    for step_s in (60.5, 61.0, 7_200.0):
        said = jump(clock(), history(boot_offset_s=BOOT_S + step_s))
        assert (said.verdict, said.cause) == (Verdict.FAIL, "jumped-back")
        assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0, "step_s": -step_s}
    assert said.says == "the clock was set back by 2 h since before.json"


def test_a_clock_that_was_put_forward_passes_with_a_note():
    for step_s in (60.5, 61.0, 7_200.0):
        said = jump(clock(), history(boot_offset_s=BOOT_S - step_s))
        assert said.verdict is Verdict.PASS
        assert said.observed["step_s"] == step_s
        assert len(said.notes) == 1
    assert said.notes[0].startswith("the clock was put forward by 2 h since before.json")
    still = jump(clock(), history())
    assert still.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0, "step_s": 0.0}


def test_the_last_run_counts_only_within_the_same_boot():
    back = history(boot_offset_s=BOOT_S + 7_200.0)
    for seen, earlier in (
        (clock(boot_id="two"), back),
        (clock(boot_id="aaa"), back),
        (clock(), replace(back, boot_id=UNSEEN)),
        (clock(boot_id=UNSEEN), replace(back, boot_id=UNSEEN)),
        (clock(), history(boot_offset_s=UNSEEN)),
    ):
        said = jump(seen, earlier)
        assert said.verdict is Verdict.PASS
        assert "step_s" not in said.observed
    same = jump(clock(boot_id=same_text("one")), back)
    assert same.cause == "jumped-back"


def test_an_unread_boot_time_is_not_compared():
    assert jump(clock(boot_s=UNSEEN), history()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "earlier",
    [history(boot_id=UNSEEN), history(boot_id="two"), history(boot_offset_s=UNSEEN)],
    ids=["unread", "another boot", "no earlier run"],
)
def test_a_clock_that_only_this_run_could_watch_is_unknown(earlier):
    said = jump(clock(boot_s=UNSEEN), earlier)
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.blind is UNSEEN.reason
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0}
    assert "rerun before the next boot" in said.remedy
    moved = jump(clock(boot_s=UNSEEN), replace(earlier, run_boot_offset_s=BOOT_S + 61.0))
    assert moved.cause == "jumped-during-the-run"
    assert jump(clock(), earlier).verdict is Verdict.PASS


# No number is no pass


def test_what_is_no_number_passes_nowhere():
    seen = (clock(), history())
    numbers = {"now_s", "at_s", "newest_s"}
    assert stopped_without("machine.clock.past", seen, None, numbers) == numbers
    numbers = {"now_s", "up_s", "boot_s", "boot_offset_s", "run_boot_offset_s"}
    assert stopped_without("machine.clock.jump", seen, None, numbers) == numbers


@pytest.mark.parametrize("check", ["machine.clock.past", "machine.clock.jump"])
def test_the_clock_is_judged_on_every_box(check):
    (case,) = REGISTRY.checks[check].cases(expected())
    assert case.subject == BOX
    assert case.wanted.value is None
    assert case.wanted.basis is Basis.INVARIANT
    rule = "time only passes" if check.endswith("past") else "one second lasts one second"
    assert case.wanted.source == rule


# Who keeps the clock right


BOX_SEEN = Identity(**(dict.fromkeys(Identity.__dataclass_fields__, "none") | {"evidence": ()}))
RIGHT = Discipline(synchronised=True, status="0x2001", maxerror_s=0.0125, esterror_s=UNSEEN)
WRONG = Discipline(synchronised=False, status="0x40", maxerror_s=UNSEEN, esterror_s=UNSEEN)
RTC = HardwareClock(name="rtc0", at_s=NOW_S, system_at_s=NOW_S, set_the_system=True)


def kept(**changes: object) -> Timekeeping:
    fields = {
        "discipline": RIGHT,
        "services": ("chrony", "ntpd"),
        "rtc": RTC,
        "zone": TimeZone(variable="", localtime=UNSEEN, timezone=UNSEEN, missing=()),
    }
    return Timekeeping(**(fields | changes))


@pytest.mark.parametrize("wanted", [None, False, True])
def test_a_clock_that_is_disciplined_passes_whatever_is_declared(wanted):
    said = judge.clock_is_disciplined(kept(), BOX_SEEN, wanted)
    assert (said.verdict, said.notes) == (Verdict.PASS, ())
    assert said.observed == {"synchronised": "yes"}
    assert said.evidence == (
        "adjtimex: status 0x2001, off by 0.012500 s at most",
        "time services: chrony, ntpd",
    )


def test_a_clock_that_nothing_disciplines_is_noted_and_fails_only_where_that_is_declared():
    seen = kept(discipline=WRONG, services=())
    said = judge.clock_is_disciplined(seen, BOX_SEEN, None)
    assert said.verdict is Verdict.PASS
    assert said.says == "the kernel says that its clock is not synchronised (no time service)"
    (note,) = said.notes
    for words in ("nothing disciplines this clock", "UDP port 123", "PTP", "rtcsync"):
        assert words in note
    assert said.evidence == ("adjtimex: status 0x40", "time services: no time service")
    quiet = judge.clock_is_disciplined(seen, BOX_SEEN, False)  # noqa: FBT003
    assert (quiet.verdict, quiet.notes) == (Verdict.PASS, ())
    said = judge.clock_is_disciplined(seen, BOX_SEEN, True)  # noqa: FBT003
    assert said.cause == "not-disciplined"
    assert said.observed == {"synchronised": "no"}
    assert said.expected == {"synchronised": "yes"}
    assert said.notes == ()
    assert said.remedy.startswith("enable chrony")
    assert said.remedy.endswith("; rerun")


@pytest.mark.parametrize(
    ("container", "there"), [("none", False), (UNSEEN, False), ("docker", True)]
)
def test_in_a_container_it_is_the_hosts_clock(container, there):
    box = replace(BOX_SEEN, container=container)
    said = judge.clock_is_disciplined(kept(discipline=WRONG), box, True)  # noqa: FBT003
    assert said.remedy.startswith("on the host, ") is there


def test_a_discipline_that_cannot_be_seen_is_unknown_where_it_is_declared_and_else_not_judged():
    seen = kept(discipline=UNSEEN)
    said = judge.clock_is_disciplined(seen, BOX_SEEN, True)  # noqa: FBT003
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    for wanted in (None, False):
        said = judge.clock_is_disciplined(seen, BOX_SEEN, wanted)
        assert said.verdict is Verdict.NOT_APPLICABLE
        assert str(UNSEEN) in said.says


@pytest.mark.parametrize("discipline", [RIGHT, WRONG])
def test_a_zone_that_is_not_there_is_noted(discipline):
    zone = TimeZone(variable="Mars/X", localtime=UNSEEN, timezone=UNSEEN, missing=("TZ=Mars/X",))
    for wanted in (False, True):
        said = judge.clock_is_disciplined(kept(discipline=discipline, zone=zone), BOX_SEEN, wanted)
        assert said.notes == ("TZ=Mars/X is a time zone that is not on this box: times are UTC",)


def test_that_the_clock_is_disciplined_may_be_declared():
    def wanted(**hardware: object) -> Wanted:
        profile = Profile(schema=1, hardware=Hardware(**hardware))
        (case,) = judge._disciplined(expected(profile))
        assert case.subject == "box"
        return case.wanted

    assert (wanted().value, wanted().basis) == (None, Basis.INVARIANT)
    for value in (True, False):
        said = wanted(clock_disciplined=value)
        assert (said.value, said.basis) == (value, Basis.DECLARED)
        assert said.source == "h100-1.toml: hardware.clock_disciplined"


# The clock of the board


def board(off_s: float) -> Judgement:
    return judge.board_clock_tells_the_day(kept(rtc=replace(RTC, at_s=NOW_S + off_s)))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("off_s", "verdict"),
    [(0, "pass"), (93_599, "pass"), (93_600, "pass"), (93_601, "fail"), (10**9, "fail")],
)
def test_a_board_clock_may_be_off_by_a_day_and_two_hours(off_s, verdict, sign):
    said = board(sign * off_s)
    assert said.verdict.value == verdict
    assert said.cause == ("rtc-wrong" if verdict == "fail" else "")
    assert said.observed == {"rtc_off_s": sign * off_s}
    assert said.expected == {"rtc_off_max_s": 93_600.0}
    assert said.evidence == ("the system's clock says 2025-06-15 15:06:40Z",)
    if verdict == "fail":
        for words in ("hwclock -w", "battery", "watch"):
            assert words in said.remedy
    assert judge.RTC_SLACK_S == 93_600.0
    assert "26 hours" in judge.board_clock_tells_the_day.__doc__


def test_which_way_a_board_clock_is_off_is_said():
    assert board(7_200).says == ("rtc0 says 2025-06-15 17:06:40Z, 2 h ahead of the system's clock")
    assert board(-90_000).says == (
        "rtc0 says 2025-06-14 14:06:40Z, 1 d 1 h behind the system's clock"
    )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("off_s", "words"),
    [
        (0, ""),
        (60, ""),
        (61, "hwclock -w"),
        (839, "hwclock -w"),
        (840, "local time"),
        (900, "local time"),
        (960, "local time"),
        (961, "hwclock -w"),
        (19_800, "local time"),
        (50_400, "local time"),
        (50_460, "local time"),
        (51_300, "hwclock -w"),
        (93_600, "hwclock -w"),
    ],
)
def test_a_board_clock_that_is_off_by_quarters_of_an_hour_is_kept_in_local_time(off_s, words, sign):
    said = board(sign * off_s)
    assert said.verdict is Verdict.PASS
    assert len(said.notes) == bool(words)
    assert words in "".join(said.notes)


def test_a_box_without_a_board_clock_has_nothing_to_judge_and_one_that_is_unreadable_is_unknown():
    said = judge.board_clock_tells_the_day(
        kept(rtc=Unseen(Blind.ABSENT, "/sys/class/rtc is absent"))
    )
    assert said.verdict is Verdict.NOT_APPLICABLE
    assert "/sys/class/rtc is absent" in said.says
    said = judge.board_clock_tells_the_day(kept(rtc=UNSEEN))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    broken = Unseen(Blind.MALFORMED, "rtc0: Invalid argument")
    assert "hwclock -w" in judge.board_clock_tells_the_day(kept(rtc=broken)).remedy


def test_a_board_clock_is_compared_to_the_millisecond():
    assert board(0.5).says.endswith("ahead of the system's clock")
    assert board(-0.5).says.endswith("behind the system's clock")
    rtc = replace(RTC, at_s=0.12345, system_at_s=0.0)
    said = judge.board_clock_tells_the_day(kept(rtc=rtc))
    assert said.observed == {"rtc_off_s": 0.123}


def test_a_board_clock_without_a_number_passes_nowhere():
    compared = {"at_s", "system_at_s"}
    assert stopped_without("machine.clock.rtc", (kept(),), None, compared) == compared
