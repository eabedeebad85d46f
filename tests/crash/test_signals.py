"""SIGTERM, SIGINT and SIGHUP at any moment: a valid interrupted ledger, or none where none had begun."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from checks.ledger.schema import read_ledger
from checks.ledger.verify import verify_ledger, verify_row
from tests.support.crash_host import HERE, Host, Run, Server, verdicts

ENDED_EARLY = {-signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT, 2}


def timing(host: Host, server: Server) -> tuple[float, float]:
    """Seconds from the fork to `configured`, and from there to the end of a whole run."""
    start_s = time.monotonic()
    run = server.start("pytest", host.argv())
    assert run.wait_for("configured"), run.output
    configured_s = time.monotonic()
    assert run.wait_for("finished"), run.output
    server.wait(run)
    host.run_ids.update({path.name: "" for path in host.store().ledgers()})
    return configured_s - start_s, time.monotonic() - configured_s


def outcome_of(host: Host, run: Run, status: int, names: set[str]) -> str:
    """Check what a signal left behind, and say which of the three ends it was."""
    shown = run.output
    finished = run.told.of("finished")
    # Once the suite has given the signals back, Python answers them as it does in every program.
    late = finished is not None and finished["at_s"] < run.killed_s
    if not late:
        assert "Traceback" not in shown, shown
        assert 'File "' not in shown, shown
    if run.told.of("begun") and not late:
        assert ".py:" not in shown, shown
    assert host.journals() == []
    new = [path for path in host.store().ledgers() if path.name not in host.run_ids]
    if not new:
        assert run.told.of("begun") is None
        assert status in ENDED_EARLY, shown
        return "before the journal"
    (path,) = new
    ledger = read_ledger(path)
    host.run_ids[path.name] = ledger.run["id"]
    assert run.told.run_id in ("", ledger.run["id"])
    assert verify_ledger(Path(ledger.file))[1] == []
    told = run.told.found
    found = verdicts(ledger)
    assert {key: found[key] for key in told} == told
    if ledger.run["end"] == "complete":
        assert len(told) == len(found)
        assert status == 1 or late, shown
        return "after the last test"
    assert status == 2, shown
    assert ledger.run["interrupted_by"] in names
    assert (ledger.run["verdict"], ledger.run["exit_code"]) == ("interrupted", 2)
    untold = [finding for finding in ledger.findings if finding.key not in told]
    waiting = [f for f in untold if f.reason is not None and f.reason.value == "interrupted"]
    assert len(untold) - len(waiting) <= 1
    assert "INTERRUPTED" in shown
    return "interrupted"


@pytest.mark.slow
def test_50_sigterms_from_the_start_to_the_end_of_the_process(host, server, record_property):
    timing(host, server)
    before_s, after_s = timing(host, server)
    dice = random.Random(3)
    ends: Counter = Counter()
    for _ in range(50):
        run = server.start("pytest", host.argv())
        time.sleep(dice.uniform(0, before_s + after_s))
        run.kill(signal.SIGTERM)
        end = server.wait(run)
        assert not end.survivors
        ends[outcome_of(host, run, end.status, {"SIGTERM"})] += 1
    print(dict(ends))
    record_property("sigterms", dict(ends))
    assert verify_row(host.store()).wrong == []
    assert ends["interrupted"] >= 10


@pytest.mark.slow
def test_50_sigterms_while_the_journal_is_open(host, server, record_property):
    timing(host, server)
    dice = random.Random(4)
    ends: Counter = Counter()
    probing_s = timing(host, server)[1] / 3
    for _ in range(200):
        run = server.start("pytest", host.argv())
        run.wait_for("begun")
        time.sleep(dice.uniform(0, probing_s))
        run.kill(signal.SIGTERM)
        end = server.wait(run)
        assert not end.survivors
        ends[outcome_of(host, run, end.status, {"SIGTERM"})] += 1
        if ends["interrupted"] == 50:
            break
    print(dict(ends))
    record_property("sigterms", dict(ends))
    assert ends["interrupted"] == 50
    assert verify_row(host.store()).wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["SIGINT", "SIGHUP"])
def test_ctrl_c_and_a_lost_terminal(host, server, number):
    timing(host, server)
    _, after_s = timing(host, server)
    dice = random.Random(number)
    ends: Counter = Counter()
    for _ in range(15):
        run = server.start("pytest", host.argv(), CRASH_PAUSE_AT="")
        # Before that, Python's own handler answers Ctrl-C, with Python's own traceback.
        assert run.wait_for("configured"), run.output
        time.sleep(dice.uniform(0.02, 0.7 * after_s))
        run.kill(number)
        end = server.wait(run)
        ends[outcome_of(host, run, end.status, {signal.Signals(number).name})] += 1
    print(dict(ends))
    assert ends["interrupted"] >= 3
    assert verify_row(host.store()).wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 40], ids=["two", "a-burst"])
def test_signals_in_quick_succession(host, server, count):
    timing(host, server)
    probing_s = timing(host, server)[1] / 3
    dice = random.Random(count)
    ends: Counter = Counter()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for _ in range(20):
        run = server.start("pytest", host.argv())
        assert run.wait_for("begun"), run.output
        time.sleep(dice.uniform(0, probing_s))
        sent = set()
        for _ in range(count):
            number = dice.choice(numbers)
            sent.add(signal.Signals(number).name)
            run.kill(number)
            time.sleep(dice.choice((0, 0, 0.0005, 0.001, 0.005)))
            if run.over():  # the suite gives the signals back at its end
                break
        end = server.wait(run)
        assert not end.survivors
        # two that arrive together are delivered in the order of their numbers
        ends[outcome_of(host, run, end.status, sent)] += 1
    print(dict(ends))
    assert ends["interrupted"] >= 10
    assert verify_row(host.store()).wrong == []


@pytest.mark.slow
def test_a_process_of_its_own_as_a_user_starts_it(host):
    dice = random.Random(6)
    argv = [word for word in host.argv() if word != "tests.support.crash_plugin"]
    argv.remove("-p")
    ends: Counter = Counter()
    took_s = 0.0
    for number in range(9):
        start_s = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *argv],
            cwd=HERE,
            env={**os.environ, "TERM": "dumb"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        before = set(host.store().ledgers())
        if number:
            time.sleep(dice.uniform(0.3 * took_s, 0.95 * took_s))
            process.terminate()
        shown, _ = process.communicate(timeout=60)
        if not number:
            assert process.returncode == 1, shown
            took_s = time.monotonic() - start_s
            continue
        assert "Traceback" not in shown, shown
        new = set(host.store().ledgers()) - before
        assert host.journals() == []
        if not new:
            assert process.returncode in ENDED_EARLY, shown
            ends["no ledger"] += 1
            continue
        (path,) = new
        ledger, wrong = verify_ledger(path)
        assert wrong == []
        assert ledger is not None
        ends[ledger.run["end"]] += 1
        if ledger.run["end"] == "interrupted":
            assert process.returncode == 2, shown
            assert ledger.run["interrupted_by"] == "SIGTERM"
    print(dict(ends))
    assert verify_row(host.store()).wrong == []


def test_a_signal_while_a_run_waits_for_another_ends_it_without_a_ledger(host, server):
    store = host.store()
    store.prepare()
    store.lock()
    try:
        run = server.start("pytest", host.argv())
        assert run.wait_for("configured")
        end_s = time.monotonic() + 20
        while "waiting for it" not in run.output and time.monotonic() < end_s:
            time.sleep(0.01)
        run.kill(signal.SIGTERM)
        end = server.wait(run, timeout_s=10)
    finally:
        store.unlock()
    assert end.status == 2, run.output
    assert "Traceback" not in run.output
    assert host.store().ledgers() == []
    assert host.journals() == []
