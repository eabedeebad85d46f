"""Checks that load the box: left out by --quick, refused on a busy box, run with --allow-busy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.ledger.verify import verify_file
from tests.support.boxes import PREFLIGHT, Box, Run, plain_box
from tests.support.load_probes import LOAD, LOADED, QUIET

_TESTS = "import pytest\n" + "".join(
    f"""

@pytest.mark.check("{name}")
def test_{number}(judged):
    judged()
"""
    for number, name in enumerate((LOADED, QUIET))
)


@dataclass
class Trial:
    """Runs of the suite with two more checks, one of which loads the box."""

    suite: object
    folder: Path

    @property
    def ran(self) -> bool:
        return (self.folder / "ran").exists()

    def run(self, *words: object, box: Box | None = None, speed: str = "1") -> Run:
        (self.folder / "ran").unlink(missing_ok=True)
        tests = self.folder / "test_trial.py"
        tests.write_text(_TESTS)
        root = None if box is None else box.write(self.folder / "tree")
        own = ("-c", PREFLIGHT / "pytest.toml", f"--rootdir={PREFLIGHT}")
        env = {"LOAD_TRIAL": str(self.folder / "ran"), "LOAD_TRIAL_SPEED": speed}
        return self.suite.run(
            *(self.folder, tests, *own, "-p", "tests.support.load_probes", *words),
            root=root,
            env=env,
        )


@pytest.fixture
def trial(suite, tmp_path) -> Trial:
    return Trial(suite, tmp_path)


def busy_box() -> Box:
    box = plain_box().process(812, "/usr/bin/vllm", "serve", "m")
    return box.link("/proc/812/fd/7", "/dev/nvidia0")


def test_on_an_idle_box_what_loads_it_runs_and_the_ledger_says_what_it_put_there(trial):
    run = trial.run(box=plain_box())
    assert (run.code, trial.ran) == (0, True), run.out
    found = run.finding(LOADED)
    assert (found["verdict"], found["load"]) == ("pass", LOAD)
    assert (run.ledger["run"]["scope"], run.ledger["run"]["allow_busy"]) == ("all", False)
    assert run.finding(QUIET)["load"] == ""


def test_quick_leaves_out_what_loads_the_box_and_speaks_of_the_rest_alone(trial):
    run = trial.run("--quick", box=plain_box())
    assert (run.code, trial.ran) == (0, False), run.out
    assert run.ledger["run"]["scope"] == "quick"
    assert run.ledger["run"]["verdict"] == "pass"
    assert "(only quick)" in run.out
    found = run.finding(LOADED)
    assert (found["verdict"], found["effect"], found["excused"]) == ("not-run", "none", "scope")
    assert found["says"] == f"left out by --quick: {LOAD}"
    assert LOADED in run.out
    assert run.finding(QUIET)["verdict"] == "pass"
    assert "trial.load" not in {row["probe"] for row in run.ledger["observations"]}
    assert "machine.activity" not in {row["probe"] for row in run.ledger["observations"]}


def test_quick_starts_no_load_to_explain_another_check(trial):
    """A fault that would explain a quick check is not looked for at the price of a load."""
    slow = trial.run(box=plain_box(), speed="0.5")
    assert slow.finding(QUIET)["reason"] == "blocked-by"
    quick = trial.run("--quick", box=plain_box(), speed="0.5")
    assert (quick.code, trial.ran) == (0, False)
    assert quick.finding(QUIET)["verdict"] == "pass"


def test_quick_fails_where_a_quick_check_fails(trial):
    profile = "schema = 1\n[hardware]\nswap_max_bytes = 0\n"
    hosts = trial.folder / "expected" / "hosts"
    hosts.mkdir(parents=True)
    (hosts / "planted.toml").write_text(profile)
    box = plain_box()
    text = str(box.files["/proc/meminfo"]).replace("SwapTotal:      0", "SwapTotal:      9")
    run = trial.run("--quick", box=box.put("/proc/meminfo", text))
    assert (run.code, run.ledger["run"]["verdict"]) == (1, "fail"), run.out


def test_the_head_of_a_quick_run_says_so_and_a_whole_one_is_told_apart(trial):
    quick = trial.run("--quick")
    assert quick.ledger_path is not None
    assert verify_file(quick.ledger_path).wrong == []
    head = (quick.ledger_path.parent / "head.json").read_text()
    assert '"scope": "quick"' in head
    assert not trial.ran


def test_a_selection_among_quick_checks_stays_a_selection(trial):
    run = trial.run("--quick", "-k", "test_1", box=plain_box())
    assert (run.ledger["run"]["scope"], run.code) == ("selection", 10)
    assert not trial.ran


def test_quick_and_an_area_are_two_scopes_and_an_error(trial):
    run = trial.run("--quick", "--only", "machine", box=plain_box())
    assert run.code == 4
    assert "--only and --quick: a run has one scope; give one of them" in run.out


def test_a_load_is_refused_on_a_busy_box_and_told_what_it_is_busy_with(trial):
    run = trial.run(box=busy_box())
    assert (run.code, trial.ran) == (10, False), run.out
    found = run.finding(LOADED)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert f"{LOAD} would compete: pid 812 vllm holds /dev/nvidia0" in found["says"]
    assert "--allow-busy" in found["remedy"]
    assert run.finding(QUIET)["verdict"] == "pass"


def test_a_load_runs_on_a_busy_box_where_that_is_allowed_and_the_ledger_says_so(trial):
    run = trial.run("--allow-busy", box=busy_box())
    assert (run.code, trial.ran) == (0, True), run.out
    assert run.ledger["run"]["allow_busy"] is True
    (seen,) = (row for row in run.ledger["observations"] if row["probe"] == "machine.activity")
    assert seen["data"]["holders"] == [{"process": "812 vllm", "device": "/dev/nvidia0"}]


def test_quick_is_quick_on_a_busy_box_too(trial):
    run = trial.run("--quick", box=busy_box())
    assert (run.code, trial.ran) == (0, False), run.out


def test_a_replay_of_a_whole_run_may_be_quick_and_one_of_a_quick_run_is(trial):
    whole = trial.run(box=plain_box())
    quick = trial.run("--quick", box=plain_box())
    for replayed, words in ((whole, ("--quick",)), (quick, ())):
        run = trial.run("--replay", replayed.ledger_path, *words)
        assert (run.code, run.ledger["run"]["scope"]) == (0, "quick"), run.out
        assert run.finding(LOADED)["verdict"] == "not-run"
    again = trial.run("--replay", whole.ledger_path)
    assert (again.code, again.ledger["run"]["scope"], trial.ran) == (0, "all", False)
    assert again.finding(LOADED)["load"] == LOAD
