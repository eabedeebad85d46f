"""The edges of what a whole run says: the day of a waiver, names beside a name, words of scope."""

import datetime

import pytest

from checks.core.expectation import Basis
from checks.core.finding import Finding
from checks.core.outcome import WAIVER_CHECK, Outcome, in_scope, outcome, waiver_findings
from checks.core.profile import ObserveOnly, Waiver
from checks.core.verdict import Excuse, Reason, RunVerdict, Verdict

TODAY = datetime.date(2026, 6, 15)
CHECK = "machine.memory.total"


def finding(verdict: Verdict, check: str = CHECK, subject: str = "box") -> Finding:
    return Finding(
        check=check,
        subject=subject,
        verdict=verdict,
        says="says",
        cause="cause" if verdict is Verdict.FAIL else "",
        cause_text="",
        reason=Reason.LOST if verdict is Verdict.UNKNOWN else None,
        blocked_by="",
        observed={},
        expected={},
        basis=Basis.DECLARED,
        source="",
        confirmed=verdict is Verdict.PASS,
        remedy="",
        notes=(),
        evidence=(),
        premise=(),
    )


def waiver(days: int, check: str = CHECK, subject: str | None = None) -> Waiver:
    until = TODAY + datetime.timedelta(days=days)
    return Waiver(check=check, subject=subject, reason="on order", ticket="T-1", until=until)


def add_up(
    *rows: Finding,
    waivers: tuple[Waiver, ...] = (),
    trials: tuple[ObserveOnly, ...] = (),
    scope: str = "all",
) -> Outcome:
    return outcome(
        [*rows, *waiver_findings(waivers, rows, TODAY)],
        waivers=waivers,
        optional={},
        observe_only=trials,
        today=TODAY,
        interrupted=False,
        scope=scope,
    )


def test_what_has_no_effect_needs_no_excuse():
    """Outside the scope, covered by a waiver, or optional: a pass is a pass."""
    rows = [finding(verdict, "other.check") for verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)]
    whole = add_up(*rows, waivers=(waiver(1, "other.check"),), scope="machine")
    assert {row.excused for row in whole.findings if row.check == "other.check"} == {None}


def waived(whole: Outcome) -> list[tuple[str, str]]:
    return [row.key for row in whole.findings if row.excused is Excuse.WAIVER]


PASSES = finding(Verdict.PASS, "machine.clock.past")


@pytest.mark.parametrize("days", [0, 1, 400])
def test_a_waiver_holds_through_its_last_day(days):
    row = finding(Verdict.FAIL)
    (about,) = waiver_findings([waiver(days)], [row], TODAY)
    assert about.verdict is Verdict.NOT_APPLICABLE
    whole = add_up(PASSES, row, waivers=(waiver(days),))
    assert waived(whole) == [row.key]
    assert whole.verdict is RunVerdict.PASS


@pytest.mark.parametrize("days", [-1, -400])
def test_a_waiver_does_not_hold_on_the_day_after(days):
    row = finding(Verdict.FAIL)
    (about,) = waiver_findings([waiver(days)], [row], TODAY)
    assert (about.verdict, about.cause) == (Verdict.FAIL, "waiver-expired")
    whole = add_up(PASSES, row, waivers=(waiver(days),))
    assert waived(whole) == []
    assert whole.verdict is RunVerdict.FAIL


@pytest.mark.parametrize("days", [-1, -400, 0])
def test_a_fail_says_that_its_trial_is_over(days):
    row = finding(Verdict.FAIL)
    until = TODAY + datetime.timedelta(days=days)
    trials = (ObserveOnly(check=CHECK, until=until),)
    other = finding(Verdict.FAIL, "other.check")
    passed = finding(Verdict.PASS)
    weighed, unlike, good = add_up(row, other, passed, trials=trials).findings
    over = f"only observed until {until} ([[observe_only]] of the profile); now it counts"
    assert weighed.notes == ((over,) if days else ())
    assert unlike.notes == good.notes == ()


@pytest.mark.parametrize("check", ["machine.memory.a", "machine.memory.zzz", "machine.memory"])
def test_a_waiver_of_another_check_covers_nothing(check):
    row = finding(Verdict.FAIL)
    whole = add_up(PASSES, row, waivers=(waiver(1, check=check),))
    assert waived(whole) == []
    assert whole.verdict is RunVerdict.FAIL


def test_a_waiver_is_found_by_equal_names_and_not_by_the_same_object():
    row = finding(Verdict.FAIL, check="".join(CHECK), subject="box")
    other = waiver(1, check="".join(list(CHECK)), subject="box")
    assert waived(add_up(PASSES, row, waivers=(other,))) == [row.key]


@pytest.mark.parametrize(
    ("subject", "shown"), [(None, CHECK), ("box", f"{CHECK}/box"), ("chat", f"{CHECK}/chat")]
)
def test_the_finding_about_a_waiver_names_what_it_covers(subject, shown):
    (about,) = waiver_findings([waiver(1, subject=subject)], [finding(Verdict.FAIL)], TODAY)
    assert about.subject == shown


def test_of_several_covered_findings_the_first_is_named():
    rows = [finding(Verdict.FAIL, subject="one"), finding(Verdict.FAIL, subject="two")]
    (about,) = waiver_findings([waiver(-1)], rows, TODAY)
    assert f"{CHECK} [one] still fails" in about.says
    rows = [finding(Verdict.UNKNOWN, subject="one"), finding(Verdict.NOT_RUN, subject="two")]
    (about,) = waiver_findings([waiver(1)], rows, TODAY)
    assert about.says == f"not decided: {CHECK} [one] is unknown"


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not Verdict.FAIL])
def test_a_waiver_covers_fails_and_nothing_else(verdict):
    row = finding(verdict)
    assert waived(add_up(PASSES, row, waivers=(waiver(1),))) == []
    (about,) = waiver_findings([waiver(1)], [row], TODAY)
    undecided = verdict in (Verdict.UNKNOWN, Verdict.NOT_RUN)
    assert about.verdict is (Verdict.NOT_APPLICABLE if undecided else Verdict.FAIL)
    assert about.cause == ("" if undecided else "waiver-not-needed")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.FAIL, RunVerdict.FAIL),
        (Verdict.UNKNOWN, RunVerdict.INCOMPLETE),
        (Verdict.NOT_RUN, RunVerdict.INCOMPLETE),
        (Verdict.PASS, RunVerdict.PASS),
        (Verdict.NOT_APPLICABLE, RunVerdict.PASS),
    ],
)
def test_each_verdict_has_its_effect_on_the_run(verdict, expected):
    assert add_up(PASSES, finding(verdict)).verdict is expected


def test_passes_are_split_by_whether_anybody_stands_for_them():
    loose = [
        Finding(**{**finding(Verdict.PASS, subject=name).__dict__, "confirmed": False})
        for name in ("a", "b", "c")
    ]
    counts = add_up(PASSES, *loose).counts
    assert (counts["pass"], counts["confirmed"], counts["unconfirmed"]) == (4, 1, 3)
    firm = [finding(Verdict.PASS, subject=name) for name in ("a", "b")]
    counts = add_up(PASSES, *firm, loose[2]).counts
    assert (counts["pass"], counts["confirmed"], counts["unconfirmed"]) == (4, 3, 1)


@pytest.mark.parametrize("scope", ["al", "alll", "aaa", "zzz", "machin", "machinery"])
def test_a_scope_speaks_of_its_own_area_alone(scope):
    assert not in_scope(CHECK, scope)
    assert in_scope("".join(list(WAIVER_CHECK)), scope)
    assert in_scope(f"{scope}.some.check", "".join(list(scope)))
    assert not in_scope("profile.waivers", scope)
    assert not in_scope("zzz.zzz", scope) or scope == "zzz"


def test_what_a_run_says_cannot_be_changed():
    said = add_up(PASSES)
    with pytest.raises(AttributeError):
        said.exit_code = 0
    with pytest.raises(TypeError):
        Outcome(RunVerdict.PASS, 0, {}, ())


def trial(days: int, check: str = CHECK) -> ObserveOnly:
    return ObserveOnly(check=check, until=TODAY + datetime.timedelta(days=days))


@pytest.mark.parametrize(
    ("days", "check", "excused"),
    [
        (0, CHECK, Excuse.OBSERVE_ONLY),
        (1, CHECK, Excuse.OBSERVE_ONLY),
        (-1, CHECK, None),
        (1, "machine.memory", None),
        (1, "machine.memory.zzz", None),
        (1, "a", None),
    ],
)
def test_the_fails_of_a_check_on_trial_do_not_count_through_its_last_day(days, check, excused):
    whole = add_up(PASSES, finding(Verdict.FAIL), trials=(trial(days, check),))
    (row,) = (row for row in whole.findings if row.check == CHECK)
    assert (row.verdict, row.excused) == (Verdict.FAIL, excused)
    assert whole.verdict is (RunVerdict.PASS if excused else RunVerdict.FAIL)
    assert (whole.counts["fail"], whole.counts["observed"]) == (1, int(bool(excused)))


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.NOT_RUN])
def test_a_check_on_trial_that_could_not_tell_leaves_the_run_incomplete(verdict):
    whole = add_up(PASSES, finding(verdict), trials=(trial(1),))
    assert whole.verdict is RunVerdict.INCOMPLETE
    assert whole.counts["observed"] == 0


def test_a_waiver_says_more_than_a_trial():
    whole = add_up(PASSES, finding(Verdict.FAIL), waivers=(waiver(1),), trials=(trial(1),))
    assert (whole.counts["waived"], whole.counts["observed"]) == (1, 0)


def test_a_fail_on_trial_confirms_nothing():
    assert add_up(finding(Verdict.FAIL), trials=(trial(1),)).verdict is RunVerdict.INCOMPLETE
