"""The mutation run itself: are changes of decorated functions made, loaded and noticed?"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")
ROOT = RUN.parents[2]


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("mutation_run", RUN)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


SOURCE = """\
from __future__ import annotations


@check("a.b", cases=lambda expected: [1])
def judged(seen: int | None, wanted: int) -> Judgement:
    if seen < wanted:
        return fail("less")
    return ok()


def helper(seen: int | str) -> int:
    return seen
"""


def test_decorated_functions_have_mutants_and_they_are_counted_to_the_function(run):
    made = list(run.mutants("x.py", SOURCE))
    assert {mutant.judge for mutant in made} == {"judged", "helper"}
    body = [mutant for mutant in made if mutant.line == 6]
    assert {"AddNot", "ReplaceComparisonOperator_Lt_LtE"} <= {mutant.operator for mutant in body}
    assert all(mutant.text == "if seen < wanted:" for mutant in body)
    assert all(mutant.source != SOURCE for mutant in made)
    assert run.judges(SOURCE) == {"judged": (6, 8)}


def test_changes_of_annotations_alone_are_told_apart(run):
    inert = [mutant for mutant in run.mutants("x.py", SOURCE) if mutant.inert]
    assert {mutant.line for mutant in inert} == {5, 11}
    assert all("BitOr" in mutant.operator for mutant in inert)


def test_an_excuse_fits_one_function_operator_and_line(run):
    entry = run.Excuse("judged", "ReplaceComparisonOperator_*", "if seen < wanted:", "because")
    fitting = [mutant for mutant in run.mutants("x.py", SOURCE) if entry.fits(mutant)]
    assert fitting
    assert {mutant.line for mutant in fitting} == {6}
    assert not any("AddNot" in mutant.operator for mutant in fitting)


def test_every_excuse_says_why(run):
    for entries in run.excuses(run.EQUIVALENT).values():
        for entry in entries:
            assert len(entry.reason) > 5
            assert entry.used == 0


# Runs in a process of its own: this one has imported the judges already.
PROBE = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("mutation_run", {run!r})
run = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = run
spec.loader.exec_module(run)
sys.path.insert(0, os.getcwd())
path = "checks/machine/judge/cpu.py"
source = open(path, encoding="utf-8").read()
def mutant(text):
    return run.Mutant(path, "planted", "", 1, "", text, False)
gross = source.replace("if threads > cpus:", "if False:")
assert gross != source
broken = source.replace("MOST_NAMED = 8", "MOST_NAMED = nothing")
print(run.run_all([mutant(source), mutant(gross), mutant(broken)], run.tests_of(path), 2))
import checks.machine.judge.cpu
print(run.run_all([mutant(source)], run.tests_of(path), 1))
"""


@pytest.mark.slow
def test_a_gross_fault_is_noticed_no_change_is_not_and_a_module_loaded_too_early_is_told():
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(run=str(RUN))],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "['survived', 'killed', 'killed: it does not load']"
    assert second == "['not run']"


@pytest.mark.slow
def test_too_low_a_score_and_an_excuse_for_nothing_end_with_1(tmp_path):
    # Of the checkout only the run itself is needed; everything else is planted.
    for folder in ("tests/mutation", "tests/area", "checks/area"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checks/__init__.py").touch()
    (tmp_path / "checks/area/__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest]\naddopts = ["--import-mode=importlib"]\npythonpath = ["."]\n'
    )
    (tmp_path / "tests/mutation/run.py").write_bytes(RUN.read_bytes())
    excuse = '[[equivalent]]\nmodule = "checks/area/judge.py"\njudge = "judged"\n'
    (tmp_path / "tests/mutation/equivalent.toml").write_text(
        excuse + 'operator = "*"\nline = "gone"\nreason = "none"\n'
    )
    (tmp_path / "checks/area/judge.py").write_text(
        "def check(name):\n    return lambda judge: judge\n\n\n"
        'def ok(text):\n    return text\n\n\n@check("area.a")\ndef judged(seen):\n'
        '    return "good" if seen > 3 else "bad"\n\n\n'
        '@check("area.b")\ndef empty(seen):\n    return seen\n'
    )
    (tmp_path / "tests/test_registry.py").write_text(
        "from checks.area.judge import empty, judged\n\n\n"
        "def test_each_control_comes_out_as_it_says():\n"
        '    assert judged(9) == "good"\n    assert empty(1) == 1\n'
    )
    done = subprocess.run(
        [sys.executable, "tests/mutation/run.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert done.returncode == 1, done.stdout + done.stderr
    assert any("judged: scores" in line for line in wrong), done.stdout
    assert any("empty: no mutant in its body" in line for line in wrong), done.stdout
    assert any("`gone` fits no survivor" in line for line in wrong), done.stdout
    assert "SURVIVED checks/area/judge.py:11 in judged" in done.stdout
