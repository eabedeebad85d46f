"""Probes that hang, die or never report cost their own finding, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from checks.ledger.verify import verify_file
from tests.support.crash_host import Host, Server, ledger_of, missing
from tests.support.crash_probes import DEADLINE_S

_SUITE = """
import pytest


@pytest.mark.check("trial.{name}.answers")
def test_the_probe_answers(judged):
    judged()
"""


def start(host: Host, server: Server, name: str):
    """Start a run of the suite with one more test in it, of a probe that misbehaves."""
    extra = host.folder / f"test_trial_{name}.py"
    extra.write_text(_SUITE.format(name=name))
    argv = [*host.argv(), str(extra), "-p", "tests.support.crash_probes"]
    return server.start("pytest", argv, CRASH_TRIAL=name)


def of(ledger, check: str) -> dict:
    return {f.subject: f for f in ledger.findings if f.check == check}


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


@pytest.mark.slow
def test_a_probe_whose_process_is_killed_is_lost(host, server):
    run = start(host, server, "doomed")
    assert run.wait_for("doomed"), run.output
    os.kill(run.told.of("doomed")["child"], signal.SIGKILL)
    end = server.wait(run)
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    finding = of(ledger, "trial.doomed.answers")["box"]
    assert (finding.verdict.value, finding.reason.value) == ("unknown", "lost")
    assert "SIGKILL" in finding.says
    assert ledger.run["end"] == "complete"
    assert verify_file(Path(ledger.file)).wrong == []
    assert end.status == 1  # the profile's one fail; the lost one is among what is missing
    assert ("trial.doomed.answers", "box") in missing(ledger)


@pytest.mark.slow
def test_a_probe_that_hangs_is_ended_at_its_deadline_with_all_that_it_started(host, server):
    run = start(host, server, "hung")
    assert run.wait_for("hung"), run.output
    start_s = time.monotonic()
    pids = run.told.of("hung")
    assert not gone(pids["grandchild"])
    assert run.wait_for("finishing"), run.output
    took_s = time.monotonic() - start_s
    assert gone(pids["child"])
    assert gone(pids["grandchild"])
    end = server.wait(run)
    assert not end.survivors
    assert took_s < DEADLINE_S + 2.0
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    finding = of(ledger, "trial.hung.answers")["box"]
    assert (finding.verdict.value, finding.reason.value) == ("unknown", "not-observable")
    assert "no answer within 1.5 s" in finding.says
    assert ledger.run["end"] == "complete"


@pytest.mark.slow
def test_a_probe_that_is_stuck_does_not_delay_those_beside_it(host, server):
    run = start(host, server, "side")
    server.wait(run)
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    seen = {
        row["subject"]: row for row in ledger.row["observations"] if row["probe"] == "trial.side"
    }
    assert seen["first"]["elapsed_s"] < 1.0
    assert seen["third"]["elapsed_s"] < 1.0
    assert DEADLINE_S <= seen["second"]["elapsed_s"] < DEADLINE_S + 1.0
    findings = of(ledger, "trial.side.answers")
    assert {name: f.verdict.value for name, f in findings.items()} == {
        "first": "pass",
        "second": "unknown",
        "third": "pass",
    }


@pytest.mark.slow
def test_a_kill_names_the_probe_that_hung_and_takes_its_processes_along(host, server):
    run = start(host, server, "doomed")
    assert run.wait_for("doomed"), run.output
    run.kill()
    end = server.wait(run)
    assert end.status == -9
    assert not end.survivors
    ((path, what),) = host.recover()
    assert "trial.doomed" in what
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    assert Path(ledger.file) == path
    assert ledger.row["open_probes"] == [["trial.doomed", "box"]]
    finding = of(ledger, "trial.doomed.answers")["box"]
    assert (finding.verdict.value, finding.reason.value) == ("unknown", "interrupted")
    assert "trial.doomed" in finding.says


@pytest.mark.slow
def test_a_signal_while_a_probe_hangs_ends_the_run_at_once(host, server):
    run = start(host, server, "doomed")
    assert run.wait_for("doomed"), run.output
    start_s = time.monotonic()
    run.kill(signal.SIGTERM)
    end = server.wait(run)
    assert time.monotonic() - start_s < 10
    assert end.status == 2, run.output
    assert not end.survivors
    assert end.orphans == 0  # ended and reaped by the run itself
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    assert ledger.run["interrupted_by"] == "SIGTERM"
    assert ledger.row["open_probes"] == [["trial.doomed", "box"]]


@pytest.mark.slow
def test_a_folder_is_free_again_though_something_that_a_probe_started_lives_on(host, server):
    run = start(host, server, "stray")
    assert run.wait_for("stray"), run.output
    stray = run.told.of("stray")["grandchild"]
    try:
        run.kill()
        server.wait(run, orphans_s=0.2)
        assert not gone(stray)
        store = host.store()
        store.lock()  # would raise BusyError
        store.unlock()
    finally:
        os.kill(stray, signal.SIGKILL)


def test_a_test_that_never_reports_is_lost_and_the_run_is_not_green(tmp_path, server):
    host = Host(tmp_path, wish=False)
    run, end = server.complete("pytest", host.argv())
    whole = ledger_of(host, run.told.run_id)
    assert whole is not None
    # on some machines this user cannot see all that is required; what counts is what comes on top
    assert end.status == (10 if missing(whole) else 0), run.output
    run, end = server.complete("pytest", host.argv(), CRASH_DROP="test_the_clock_runs_evenly")
    assert end.status == 10, run.output
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    finding = of(ledger, "machine.clock.jump")["box"]
    assert (finding.verdict.value, finding.reason.value) == ("unknown", "lost")
    assert ledger.run["verdict"] == "incomplete"
    assert missing(ledger) == missing(whole) | {("machine.clock.jump", "box")}
    assert verify_file(Path(ledger.file)).wrong == []
