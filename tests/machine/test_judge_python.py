"""The judge of Python environments, with data alone."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, NotDeclared
from checks.core.profile import Profile, Python
from checks.core.registry import REGISTRY
from checks.core.verdict import Verdict
from checks.machine.facts import PythonEnvironment
from checks.machine.judge import python as judge
from tests.support.judging import UNSEEN, expected

WHOLE = PythonEnvironment(
    path="/v/bin/python",
    start="ok",
    version="Python 3.12.3",
    checker="pip check",
    complaints=(),
    complaints_left_out_count=0,
    warnings=("WARNING: Ignoring invalid distribution -x",),
)
UNMET = "a 1.0 requires b, which is not installed."


def test_an_environment_that_fits_together_passes_with_what_was_warned_of():
    said = judge.requirements_met(WHOLE, None)
    assert (said.verdict, said.says) == (Verdict.PASS, "pip check finds nothing broken")
    assert said.notes == WHOLE.warnings
    assert said.observed == {"start": "ok", "unmet_count": 0}
    assert said.expected == {"start": "ok", "unmet_count": 0}


@pytest.mark.parametrize(
    ("complaints", "left_out", "says", "count"),
    [
        ((UNMET,), 0, UNMET, 1),
        ((UNMET, "c"), 0, f"{UNMET} (and 1 more)", 2),
        ((UNMET, "c"), 6, f"{UNMET} (and 7 more)", 8),
    ],
)
def test_an_unmet_requirement_fails_with_its_lines(complaints, left_out, says, count):
    seen = replace(WHOLE, complaints=complaints, complaints_left_out_count=left_out)
    said = judge.requirements_met(seen, None)
    assert (said.cause, said.says, said.evidence) == ("broken-requirements", says, complaints)
    assert said.observed == {"start": "ok", "unmet_count": count}
    assert said.notes == WHOLE.warnings
    assert "`/v/bin/python -m pip check`" in said.remedy


def test_an_interpreter_that_is_not_there_or_does_not_start_fails():
    said = judge.requirements_met(replace(WHOLE, start="missing", complaints=UNSEEN), None)
    assert (said.cause, said.says) == ("interpreter-missing", "there is no file /v/bin/python")
    assert said.observed == {"start": "missing"}
    for start in ("ends early", "no encodings"):
        broken = replace(WHOLE, start=start, complaints=UNSEEN)
        assert judge.requirements_met(broken, None).cause == "interpreter-broken"
    said = judge.requirements_met(replace(WHOLE, start="no encodings", complaints=UNSEEN), None)
    assert said.cause == "interpreter-broken"
    assert said.says == "/v/bin/python does not start: no encodings"


def test_an_environment_that_nobody_could_ask_is_unknown():
    said = judge.requirements_met(replace(WHOLE, complaints=UNSEEN), None)
    assert said.verdict is Verdict.UNKNOWN
    assert "uv" in said.remedy
    assert said.observed == {"start": "ok"}


def test_each_declared_environment_is_a_subject():
    of = REGISTRY.checks["machine.python.dependencies"].cases
    (case,) = of(expected(Profile(schema=1)))
    assert case.wanted == NotDeclared(fact="not declared: no [[python]]")
    entries = (Python(name="vllm", path="/v/bin/python"), Python(name="train", path="/t/python"))
    first, second = of(expected(Profile(schema=1, python=entries)))
    assert (first.subject, second.subject) == ("vllm", "train")
    assert (second.wanted.basis, second.wanted.source) == (Basis.DECLARED, "h100-1.toml: python[1]")
