"""The one table of verdicts."""

import pytest

from checks.core.verdict import EXIT_CODES, LOOKS, ExitEffect, RunVerdict, Verdict


def test_every_verdict_has_its_entry_and_no_other():
    assert set(LOOKS) == set(Verdict)
    assert set(EXIT_CODES) == set(RunVerdict)


@pytest.mark.parametrize("field", ["label", "sigil", "severity", "metric"])
def test_no_two_verdicts_can_be_mistaken_for_each_other(field):
    values = [getattr(look, field) for look in LOOKS.values()]
    assert len(set(values)) == len(values)


def test_what_was_not_seen_is_worse_than_a_pass():
    severity = {verdict: look.severity for verdict, look in LOOKS.items()}
    assert severity[Verdict.FAIL] > severity[Verdict.UNKNOWN] > severity[Verdict.NOT_RUN]
    assert severity[Verdict.NOT_RUN] > severity[Verdict.PASS] > severity[Verdict.NOT_APPLICABLE]


def test_only_a_pass_is_green_or_passed():
    green = {verdict for verdict, look in LOOKS.items() if look.colour == "green"}
    passed = {verdict for verdict, look in LOOKS.items() if look.pytest == "passed"}
    assert green == passed == {Verdict.PASS}


def test_what_was_not_seen_is_a_failure_to_pytest_and_makes_the_run_incomplete():
    assert LOOKS[Verdict.UNKNOWN].pytest == "failed"
    assert LOOKS[Verdict.UNKNOWN].exit_effect is ExitEffect.INCOMPLETE
    assert LOOKS[Verdict.NOT_RUN].exit_effect is ExitEffect.INCOMPLETE
    assert LOOKS[Verdict.FAIL].exit_effect is ExitEffect.FAILS


def test_exit_codes_leave_pytests_own_alone():
    assert EXIT_CODES == {
        RunVerdict.PASS: 0,
        RunVerdict.FAIL: 1,
        RunVerdict.INTERRUPTED: 2,
        RunVerdict.INCOMPLETE: 10,
    }


def test_sigils_are_single_ascii_letters():
    assert all(len(look.sigil) == 1 and look.sigil.isascii() for look in LOOKS.values())
