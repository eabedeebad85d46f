"""SIGKILL at any moment of a run: what is recovered is what the witness was told, and never green."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from checks.ledger.verify import verify_ledger, verify_row
from tests.support.crash_host import (
    GREEN,
    HOST,
    Host,
    Server,
    Told,
    assert_interrupted,
    ledger_of,
    opened_and_seen,
    phase,
    verdicts,
)
from tests.support.soak import times

KILLS = times(500, 200)
LANES = 2
"""Hosts that are killed side by side; all kills of a lane go into one folder of ledgers."""


def begun_to_renamed_s(host: Host, server: Server) -> float:
    """Run to the end, and measure the seconds from `begun` to the rename of the ledger."""
    before = len(host.store().ledgers())
    run = server.start("pytest", host.argv())
    assert run.wait_for("begun"), run.output
    start_s = time.monotonic()
    while len(host.store().ledgers()) == before:
        time.sleep(0.001)
        assert time.monotonic() < start_s + 60, run.output
    took_s = time.monotonic() - start_s
    assert server.wait(run).status == 1, run.output
    return took_s


def planned_of(host: Host, server: Server) -> set[tuple[str, str]]:
    """Run to the end: what is planned under this profile."""
    begun_to_renamed_s(host, server)
    newest = host.store().newest()
    assert newest is not None
    assert GREEN in verdicts(newest).values()
    return set(verdicts(newest))


@dataclass
class Killed:
    """One kill, and what was there right after it."""

    told: Told
    journal: bytes


@dataclass
class Lane:
    """One host whose runs are killed, one after the other."""

    folder: Path
    seed: int
    kills: int
    counts: Counter = field(default_factory=Counter)
    waiting: list[Killed] = field(default_factory=list)

    def go(self) -> Counter:
        """Kill until enough kills have landed between the first line and the rename."""
        host = Host(self.folder)
        server = Server()
        try:
            planned = planned_of(host, server)
            dice = random.Random(self.seed)
            took_s = 0.0
            for number in range(3 * self.kills):
                if number % 25 == 0:  # the machine is not always equally busy
                    took_s = begun_to_renamed_s(host, server)
                    self._check(host, planned, newest=False)
                self._one(host, server, planned, dice.uniform(0.0, took_s))
                if self.counts["before the rename"] >= self.kills:
                    break
            self._recover(host, server, "recover")
            self._check(host, planned)
        finally:
            server.close()
        report = verify_row(host.store())
        assert report.wrong == []
        assert not host.journals()
        assert [p for p in host.own.iterdir() if p.suffix == ".tmp"] == []
        self.counts["ledgers in the row"] = len(host.store().ledgers())
        return self.counts

    def _one(self, host: Host, server: Server, planned: set, delay_s: float) -> None:
        run = server.start("pytest", host.argv())
        assert run.wait_for("begun"), run.output
        # what the kill before this one left, this run has recovered by now
        self._check(host, planned)
        time.sleep(delay_s)
        run.kill()
        end = server.wait(run)
        assert not end.survivors, "a process of the run outlived it"
        assert end.status in (-9, 1), run.output
        self.counts["descendants that died with it"] += end.orphans
        journals = host.journals()
        assert len(journals) <= 1
        if not journals:
            # it had finished: head, ledger and all
            assert ledger_of(host, run.told.run_id).run["end"] == "complete"
            self.counts["after the end"] += 1
            return
        journal = journals[0].read_bytes()
        written = ledger_of(host, run.told.run_id)
        if written is None:
            self.counts["before the rename"] += 1
            self.counts[phase(journal)] += 1
        else:
            assert written.run["end"] == "complete"
            self.counts["after the rename"] += 1
        self.waiting.append(Killed(run.told, journal))
        turn = sum(self.counts[key] for key in ("before the rename", "after the rename"))
        how = "next run" if turn % 4 == 0 else "show" if turn % 25 == 1 else "recover"
        self._recover(host, server, how)
        if how != "next run":
            self._check(host, planned)

    def _recover(self, host: Host, server: Server, how: str) -> None:
        """Recover as `preflight show` does it, or leave it to the next run."""
        if how == "next run":
            return
        if how == "show":
            argv = ["show", HOST, "--ledger-dir", str(host.ledgers)]
            run, end = server.complete("cli", argv)
            newest = host.store().newest()
            assert newest is not None
            expected = 1 if newest.run["end"] == "complete" else 10  # never "yes, it passed"
            assert end.status == expected, run.output
            assert "Traceback" not in run.output
        else:
            host.recover()
        self.counts[f"recovered by {how}"] += 1

    def _check(self, host: Host, planned: set, *, newest: bool = True) -> None:
        while self.waiting:
            killed = self.waiting.pop()
            ledger = ledger_of(host, killed.told.run_id)
            assert ledger is not None
            head = host.store().head()
            assert head is not None
            assert (head.file == Path(ledger.file).name) is newest
            if ledger.run["end"] == "complete":
                # it had been renamed before the kill: then it is the whole truth
                assert verify_ledger(Path(ledger.file))[1] == []
                assert len(killed.told.found) == len(planned)
                assert verdicts(ledger) == killed.told.found
                continue
            assert_interrupted(ledger, killed.told, planned)
            rows = [json.loads(line.partition(b" ")[2]) for line in killed.journal.splitlines()]
            opened, seen = opened_and_seen(rows)
            assert {(probe, subject) for probe, subject in ledger.row["open_probes"]} == (
                opened - seen
            )
            on_disk = killed.journal.count(b'"event": "found"')
            assert len(killed.told.found) <= on_disk <= len(killed.told.found) + 1
            self.counts["findings witnessed"] += len(killed.told.found)
            self.counts["findings on disk, not yet told"] += on_disk - len(killed.told.found)
            self.counts["passes recovered"] += list(verdicts(ledger).values()).count(GREEN)


@pytest.mark.slow
def test_kills_recover_to_what_the_witness_was_told(tmp_path, record_property):
    started_s = time.monotonic()
    lanes = [
        Lane(tmp_path / f"lane-{number}", seed=number, kills=KILLS // LANES)
        for number in range(LANES)
    ]
    with ThreadPoolExecutor(LANES) as pool:
        total = sum((counts for counts in pool.map(Lane.go, lanes)), Counter())
    record_property("kills", dict(total))
    print(f"{time.monotonic() - started_s:.0f} s: {dict(total)}")
    assert total["before the rename"] >= KILLS
    for where in ("open", "between"):
        assert total[where] >= 10, total
    # a few hundredths of the time, so a few of the kills; each change in it has a test of its own below
    assert total["finalisation"] >= 1, total
    assert total["recovered by show"] >= KILLS // 50
    assert total["passes recovered"] >= KILLS


@pytest.mark.slow
def test_a_run_that_dies_at_any_change_of_its_final_steps_is_recovered(
    host, server, record_property
):
    planned = planned_of(host, server)
    outcomes = Counter()
    point = 0
    while True:
        run, end = server.complete(
            "pytest", host.argv(), CRASH_DIE_IN="finish", CRASH_DIE_AT=str(point)
        )
        if end.status != -9:
            break
        before = host.store().head()
        host.recover()
        ledger = ledger_of(host, run.told.run_id)
        assert ledger is not None
        head = host.store().head()
        assert head is not None
        assert head.file == Path(ledger.file).name
        if ledger.run["end"] == "complete":
            assert verdicts(ledger) == run.told.found
            outcomes["head was set already" if head == before else "complete"] += 1
        else:
            assert_interrupted(ledger, run.told, planned)
            assert run.told.found.keys() == planned
            outcomes["interrupted"] += 1
        assert not host.journals()
        point += 1
    assert end.status == 1, run.output
    report = verify_row(host.store())
    assert report.wrong == []
    left = {p.name for p in host.own.iterdir() if not p.name.endswith(".json")}
    assert left <= {".lock"} | {name for name in left if name.endswith(".damaged")}
    record_property("points", dict(outcomes))
    print(f"{point} points: {dict(outcomes)}")
    # the temporary file, its rename, head, and the end of the journal: each is such a point
    assert min(outcomes[key] for key in ("interrupted", "complete", "head was set already")) >= 1
