"""The judges of clock, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import (
    Basis,
)
from checks.core.facts import BOX
from checks.core.registry import REGISTRY
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Clock,
    History,
    Moment,
)
from checks.machine.judge import clock as judge
from tests.support.judging import UNSEEN, expected, passes_nowhere_without_a_number, same_text

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


@pytest.mark.parametrize("now_s", [NOW_S, NOW_S - 90_000.0])
def test_a_clock_that_nothing_disciplines_is_noted(now_s):
    assert past(clock(now_s=now_s, synchronised=True), history()).notes == ()
    assert past(clock(now_s=now_s, synchronised=UNSEEN), history()).notes == ()
    (note,) = past(clock(now_s=now_s, synchronised=False), history()).notes
    assert "nothing disciplines this clock" in note


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
    passes_nowhere_without_a_number("machine.clock.past", seen, None, numbers)
    numbers = {"now_s", "up_s", "boot_s", "boot_offset_s", "run_boot_offset_s"}
    passes_nowhere_without_a_number("machine.clock.jump", seen, None, numbers)


@pytest.mark.parametrize("check", ["machine.clock.past", "machine.clock.jump"])
def test_the_clock_is_judged_on_every_box(check):
    (case,) = REGISTRY.checks[check].cases(expected())
    assert case.subject == BOX
    assert case.wanted.value is None
    assert case.wanted.basis is Basis.INVARIANT
    rule = "time only passes" if check.endswith("past") else "one second lasts one second"
    assert case.wanted.source == rule
