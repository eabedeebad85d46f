"""Two runs of one host at once: the second says so and waits; neither harms the other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from checks.ledger.verify import verify_row
from tests.support.crash_host import HOST, ledger_of, serving, verdicts


@pytest.fixture(scope="module")
def other():
    """A second fork server: each waits for one run at a time."""
    yield from serving()


def wait_for_output(run, text: str) -> None:
    end_s = time.monotonic() + 30
    while text not in run.output:
        assert time.monotonic() < end_s, run.output
        time.sleep(0.01)


def test_the_second_run_says_who_is_under_way_and_follows_the_first(host, server, other):
    first = server.start("pytest", host.argv(), CRASH_PAUSE_AT="begun")
    assert first.wait_for("begun"), first.output
    second = other.start("pytest", host.argv())
    wait_for_output(second, "waiting for it")
    assert f"another run of {HOST} is under way (pid {first.pid} on " in second.output
    assert second.told.of("begun") is None
    assert len(host.journals()) == 1
    first.resume()
    assert server.wait(first).status == 1
    assert other.wait(second).status == 1, second.output
    assert second.output.count("waiting for it") == 1
    earlier, later = ledger_of(host, first.told.run_id), ledger_of(host, second.told.run_id)
    assert earlier is not None
    assert later is not None
    assert [one.run["end"] for one in (earlier, later)] == ["complete", "complete"]
    assert later.row["previous"] == {
        "file": Path(earlier.file).name,
        "digest": earlier.row["digest"],
    }
    assert verdicts(earlier) == verdicts(later)
    assert verify_row(host.store()).wrong == []
    assert later.row["notices"] == []  # the first one's journal was not taken for a crash's


def test_a_wait_that_is_too_long_ends_with_who_holds_the_folder(host, server, other):
    first = server.start("pytest", host.argv(), CRASH_PAUSE_AT="begun")
    assert first.wait_for("begun"), first.output
    second, end = other.complete("pytest", host.argv(), CRASH_WAIT_S="0.5")
    assert end.status == 4, second.output
    assert "Traceback" not in second.output
    shown = " ".join(second.output.split())
    assert f"another run of {HOST} is still under way (pid {first.pid} on " in shown
    assert shown.count("is still under way") == 1
    assert "Wait for it or stop it; or use another --ledger-dir" in shown
    assert host.store().ledgers() == []
    first.resume()
    assert server.wait(first).status == 1, first.output
    assert len(host.store().ledgers()) == 1
    assert verify_row(host.store()).wrong == []


def test_show_and_verify_during_a_run_do_not_disturb_it(host, server, other):
    _, end = server.complete("pytest", host.argv())
    assert end.status == 1
    run = server.start("pytest", host.argv(), CRASH_PAUSE_AT="begun")
    assert run.wait_for("begun"), run.output
    (journal,) = host.journals()
    before = journal.read_bytes()
    folder = ["--ledger-dir", str(host.ledgers)]
    shown, end = other.complete("cli", ["show", HOST, *folder])
    assert end.status == 1, shown.output
    assert f"a run of {HOST} is under way; what follows is older" in shown.output
    verified, end = other.complete("cli", ["verify", HOST, *folder])
    assert end.status == 0, verified.output
    assert journal.read_bytes() == before
    run.resume()
    assert server.wait(run).status == 1, run.output
    ledger = ledger_of(host, run.told.run_id)
    assert ledger is not None
    assert ledger.run["end"] == "complete"
    assert verdicts(ledger) == run.told.found
    assert verify_row(host.store()).wrong == []


@pytest.mark.slow
def test_many_runs_at_once_make_one_row(host, server, other):
    pairs = [(one, one.start("pytest", host.argv())) for one in (server, other) * 4]
    # a server reaps one run at a time and counts the others among what it left behind
    for _, run in pairs:
        assert run.wait_for("finished", timeout_s=60), run.output
    for one in (server, other):
        mine = [run for owner, run in pairs if owner is one]
        one.wait(mine[0], orphans_s=10)
        for run in mine[1:]:
            run.drain()
    assert len(host.store().ledgers()) == 8
    assert not host.journals()
    assert verify_row(host.store()).wrong == []
    ends = [ledger_of(host, run.told.run_id).run["end"] for _, run in pairs]
    assert ends == ["complete"] * 8
