"""What a whole run says: waivers, optional checks, scope, and what is never green."""

import datetime
from dataclasses import replace

import pytest

from checks.core.expectation import Basis
from checks.core.finding import Finding
from checks.core.outcome import WAIVER_CHECK, in_scope, outcome, waiver_findings
from checks.core.profile import Waiver
from checks.core.verdict import Excuse, ExitEffect, Reason, RunVerdict, Verdict

TODAY = datetime.date(2026, 6, 15)


def finding(check="machine.memory.total", verdict=Verdict.PASS, subject="box", confirmed=None):
    passed = verdict is Verdict.PASS
    return Finding(
        check=check,
        subject=subject,
        verdict=verdict,
        says="says",
        cause="cause" if verdict is Verdict.FAIL else "",
        cause_text="",
        reason=Reason.NOT_OBSERVABLE if verdict is Verdict.UNKNOWN else None,
        blocked_by="",
        observed={},
        expected={},
        basis=Basis.DECLARED if passed else None,
        source="",
        confirmed=passed if confirmed is None else confirmed,
        remedy="",
        notes=(),
        evidence=(),
        premise=(),
    )


def waiver(check="machine.memory.total", subject=None, until=TODAY):
    return Waiver(check=check, subject=subject, reason="on order", ticket="T-1", until=until)


def run(*findings, waivers=(), optional=None, interrupted=False, scope="all"):
    rows = [*findings, *waiver_findings(waivers, findings, TODAY)]
    return outcome(
        rows,
        waivers=waivers,
        optional=optional or {},
        today=TODAY,
        interrupted=interrupted,
        scope=scope,
    )


def excuses(result):
    return {row.key: row.excused for row in result.findings if row.excused is not None}


def undecided(result):
    return [row.key for row in result.findings if row.effect is ExitEffect.INCOMPLETE]


FAIL, UNKNOWN = Verdict.FAIL, Verdict.UNKNOWN
NOT_RUN, NOT_APPLICABLE = Verdict.NOT_RUN, Verdict.NOT_APPLICABLE
OTHER = "machine.disk.free"


@pytest.mark.parametrize(
    ("rows", "verdict", "code"),
    [
        ([finding()], RunVerdict.PASS, 0),
        ([finding(), finding(OTHER, NOT_APPLICABLE)], RunVerdict.PASS, 0),
        ([finding(), finding(OTHER, FAIL)], RunVerdict.FAIL, 1),
        ([finding(verdict=UNKNOWN), finding(OTHER, FAIL)], RunVerdict.FAIL, 1),
        ([finding(), finding(OTHER, UNKNOWN)], RunVerdict.INCOMPLETE, 10),
        ([finding(), finding(OTHER, NOT_RUN)], RunVerdict.INCOMPLETE, 10),
        ([], RunVerdict.INCOMPLETE, 10),
        ([finding(OTHER, NOT_APPLICABLE)], RunVerdict.INCOMPLETE, 10),
        ([finding(confirmed=False)], RunVerdict.INCOMPLETE, 10),
        ([finding(confirmed=False), finding(OTHER)], RunVerdict.PASS, 0),
    ],
    ids=[
        "one pass",
        "a pass and one that does not apply",
        "one fail",
        "a fail is worse than an unknown",
        "an unknown is not green",
        "not run is not green",
        "nothing at all",
        "nothing applies",
        "nothing confirmed",
        "one confirmed is enough",
    ],
)
def test_the_verdict_and_the_exit_code_of_a_run(rows, verdict, code):
    result = run(*rows)
    assert (result.verdict, result.exit_code) == (verdict, code)


def test_an_interrupted_run_is_that_whatever_it_found():
    for rows in ([finding()], [finding(verdict=FAIL)], []):
        assert run(*rows, interrupted=True).verdict is RunVerdict.INTERRUPTED
        assert run(*rows, interrupted=True).exit_code == 2


def test_passes_are_counted_apart_by_what_confirms_them():
    counts = run(finding(), finding(OTHER, confirmed=False), finding("a.b", UNKNOWN)).counts
    assert (counts["pass"], counts["confirmed"], counts["unconfirmed"]) == (2, 1, 1)
    assert counts["unknown"] == 1


# optional


def test_an_optional_check_may_be_undecided():
    rows = [finding(), finding(OTHER, UNKNOWN), finding("a.b", NOT_RUN)]
    result = run(*rows, optional={OTHER: "no permission"})
    assert undecided(result) == [("a.b", "box")]
    assert excuses(result) == {(OTHER, "box"): Excuse.OPTIONAL}
    assert run(*rows, optional={OTHER: "r", "a.b": "r"}).verdict is RunVerdict.PASS


def test_an_optional_check_that_fails_still_fails():
    result = run(finding(), finding(OTHER, FAIL), optional={OTHER: "r"})
    assert result.verdict is RunVerdict.FAIL


# waivers


def waiver_row(*findings, waivers):
    (row,) = waiver_findings(waivers, findings, TODAY)
    return row


def test_a_waiver_in_use_takes_the_fail_out_of_the_exit_code_and_is_no_pass():
    bad, good = finding(verdict=FAIL), finding(OTHER)
    result = run(bad, good, waivers=[waiver()])
    assert result.verdict is RunVerdict.PASS
    assert excuses(result) == {bad.key: Excuse.WAIVER}
    assert result.counts["fail"] == result.counts["waived"] == 1
    assert result.counts["pass"] == 1
    row = waiver_row(bad, waivers=[waiver()])
    assert row.verdict is Verdict.NOT_APPLICABLE
    assert "in use until 2026-06-15" in row.says
    assert "T-1" in row.says


def test_a_waiver_alone_makes_no_green():
    assert run(finding(verdict=FAIL), waivers=[waiver()]).verdict is RunVerdict.INCOMPLETE


def test_a_waiver_holds_on_its_last_day_and_not_on_the_next():
    rows = [finding(verdict=FAIL), finding(OTHER)]
    assert run(*rows, waivers=[waiver(until=TODAY)]).exit_code == 0
    yesterday = TODAY - datetime.timedelta(days=1)
    result = run(*rows, waivers=[waiver(until=yesterday)])
    assert result.verdict is RunVerdict.FAIL
    assert excuses(result) == {}
    row = waiver_row(*rows, waivers=[waiver(until=yesterday)])
    assert (row.verdict, row.cause) == (FAIL, "waiver-expired")
    assert row.remedy


@pytest.mark.parametrize("verdict", [Verdict.PASS, NOT_APPLICABLE])
def test_a_waiver_that_nothing_needs_fails(verdict):
    rows = [finding(verdict=verdict), finding(OTHER)]
    row = waiver_row(*rows, waivers=[waiver()])
    assert (row.verdict, row.cause) == (FAIL, "waiver-not-needed")
    assert run(*rows, waivers=[waiver()]).verdict is RunVerdict.FAIL


def test_a_waiver_for_what_does_not_exist_fails():
    row = waiver_row(finding(), waivers=[waiver(subject="gpu[7]")])
    assert row.cause == "waiver-not-needed"


@pytest.mark.parametrize("verdict", [UNKNOWN, NOT_RUN])
def test_a_waiver_of_what_could_not_be_told_is_left_undecided(verdict):
    rows = [finding(verdict=verdict), finding(OTHER)]
    row = waiver_row(*rows, waivers=[waiver()])
    assert row.verdict is Verdict.NOT_APPLICABLE
    assert "not decided" in row.says
    result = run(*rows, waivers=[waiver()])
    assert result.verdict is RunVerdict.INCOMPLETE, "a waiver does not cover an unknown"


def test_a_waiver_of_one_subject_leaves_the_others():
    rows = [finding(verdict=FAIL, subject=name) for name in ("a", "b")] + [finding(OTHER)]
    result = run(*rows, waivers=[waiver(subject="a")])
    assert excuses(result) == {("machine.memory.total", "a"): Excuse.WAIVER}
    assert result.verdict is RunVerdict.FAIL
    assert run(*rows, waivers=[waiver()]).verdict is RunVerdict.PASS


# scope


def test_a_run_of_one_area_speaks_of_that_area_alone():
    rows = [finding(), finding("network.resolve", FAIL), finding("gpu.count", NOT_RUN)]
    assert run(*rows, scope="machine").verdict is RunVerdict.PASS
    assert undecided(run(*rows, scope="machine")) == []
    assert set(excuses(run(*rows, scope="machine")).values()) == {Excuse.SCOPE}
    assert run(*rows, scope="network").verdict is RunVerdict.FAIL
    assert run(*rows, scope="gpu").verdict is RunVerdict.INCOMPLETE


def test_a_pass_elsewhere_confirms_nothing_in_this_area():
    rows = [finding(), finding("network.resolve", NOT_APPLICABLE)]
    assert run(*rows, scope="network").verdict is RunVerdict.INCOMPLETE


def test_a_run_always_speaks_of_its_own_waivers():
    assert in_scope(WAIVER_CHECK, "network")
    assert not in_scope("networking.x", "network")


def test_a_selection_speaks_of_everything_and_what_it_left_out_keeps_it_incomplete():
    assert in_scope("network.resolve", "selection")
    rows = [finding(), finding("network.resolve", NOT_RUN)]
    assert run(*rows, scope="selection").verdict is RunVerdict.INCOMPLETE


def test_a_quick_run_speaks_of_what_loads_nothing():
    loaded = replace(finding("gpu.links.speed", NOT_RUN), load="all links at once")
    quick = run(finding(), loaded, scope="quick")
    assert quick.verdict is RunVerdict.PASS
    assert excuses(quick) == {("gpu.links.speed", "box"): Excuse.SCOPE}
    assert run(finding(), loaded).verdict is RunVerdict.INCOMPLETE
    assert run(finding(), loaded, scope="selection").verdict is RunVerdict.INCOMPLETE
    assert run(finding(verdict=FAIL), loaded, scope="quick").verdict is RunVerdict.FAIL
    assert run(finding(verdict=UNKNOWN), loaded, scope="quick").verdict is RunVerdict.INCOMPLETE


def test_a_pass_under_load_confirms_nothing_in_a_quick_run():
    loaded = replace(finding("gpu.links.speed"), load="all links at once")
    assert run(loaded).verdict is RunVerdict.PASS
    assert run(loaded, scope="quick").verdict is RunVerdict.INCOMPLETE
    assert in_scope(WAIVER_CHECK, "quick")
