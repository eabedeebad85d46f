"""Whatever is left of a journal recovers: to an interrupted ledger, with nothing green made up."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import zlib
from collections import Counter
from itertools import pairwise

import pytest

from checks.core.registry import load_areas
from checks.ledger.canonical import ledger_digest
from checks.ledger.journal import Journal, read_journal
from checks.ledger.schema import problems, read_ledger
from checks.ledger.store import rebuild
from checks.ledger.verify import verify_row
from tests.support.crash_host import GREEN, HOST, Host, Server
from tests.support.soak import times


@pytest.fixture(scope="module")
def left(tmp_path_factory, server: Server):
    """A host with one complete ledger, and the journal of a run that was killed at its end."""
    host = Host(tmp_path_factory.mktemp("left"))
    server.complete("pytest", host.argv())
    run = server.start("pytest", host.argv())
    assert run.wait_for("finishing"), run.output
    run.kill()
    assert server.wait(run).status == -9
    return host


@pytest.fixture(scope="module")
def raw(left: Host) -> bytes:
    (journal,) = left.journals()
    data = journal.read_bytes()
    assert data.count(b'"verdict": "pass"') >= 8
    return data


@pytest.fixture
def copy(left: Host, tmp_path) -> Host:
    """The same folder again, to be damaged."""
    host = Host(tmp_path)
    shutil.copytree(left.own, host.own)
    return host


def whole_lines(raw: bytes) -> list[bytes]:
    return raw.splitlines(keepends=True)


def greens(ledger: dict) -> set[tuple[str, str]]:
    return {(row["check"], row["subject"]) for row in ledger["findings"] if row["verdict"] == GREEN}


def greens_in(raw: bytes) -> set[tuple[str, str]]:
    """What the whole lines of a journal found green."""
    rows = [row["finding"] for row in read_journal(raw, "j").events if row["event"] == "found"]
    return {(row["check"], row["subject"]) for row in rows if row["verdict"] == GREEN}


def of_another_run(raw: bytes, run_id: str) -> bytes:
    """Give the journal that another run would have left: its id, and the checksums to it."""
    own = run_id_of(raw)
    assert len(run_id) == len(own)
    lines = []
    for line in raw.replace(own.encode(), run_id.encode()).splitlines():
        body = line.partition(b" ")[2]
        lines.append(b"%08x %s\n" % (zlib.crc32(body), body))
    return b"".join(lines)


def run_id_of(raw: bytes) -> str:
    remains = read_journal(raw, "j")
    assert remains.begin is not None
    return remains.begin["run"]["id"]


def rebuilt(remains) -> dict:
    ledger = rebuild(load_areas(), remains, host=HOST, run_id="0" * 16, modified_s=1.7e9)
    assert problems(ledger, "recovered") == []
    assert ledger["digest"] == ledger_digest(ledger)
    run = ledger["run"]
    assert (run["end"], run["verdict"], run["exit_code"]) == ("interrupted", "interrupted", 2)
    return ledger


def recovered(host: Host) -> dict:
    """Recover through the file system, and check the whole row."""
    ((path, _),) = host.recover()
    assert host.journals() == []
    report = verify_row(host.store())
    assert report.wrong == []
    ledger = read_ledger(path)
    assert ledger.run["end"] == "interrupted"
    assert ledger.run["exit_code"] == 2
    return ledger.row


@pytest.mark.slow
def test_prefixes_recover_to_what_their_whole_lines_say(raw):
    seen = {}
    ends = [len(b"".join(whole_lines(raw)[:n])) for n in range(raw.count(b"\n") + 1)]
    # Each prefix is read from its start, so all of them cost the square of the journal's length: a
    # share is every byte of each tenth line, and the edges of the others.
    sizes = {len(raw), *(end + by for end in ends for by in (-2, -1, 0, 1, 2))}
    for start, end in list(pairwise(ends))[:: times(1, 10)]:
        sizes.update(range(start, end))
    tried = sorted(size for size in sizes if 0 <= size <= len(raw))
    for size in tried:
        remains = read_journal(raw[:size], "j")
        # a line counts once its last byte is there; the newline adds nothing
        whole = sum(end - 1 <= size for end in ends[1:])
        assert (remains.begin is not None) is (whole >= 1)
        assert len(remains.events) == max(0, whole - 1)
        torn = size not in ends and size + 1 not in ends
        assert bool(remains.damage) is torn
        # the ledger depends on nothing but this
        key = (remains.begin is None, len(remains.events), remains.damage)
        if key not in seen:
            ledger = rebuilt(remains)
            seen[key] = greens(ledger)
            assert seen[key] == greens_in(raw[:size])
    print(f"{len(tried)} prefixes, {len(seen)} different ledgers")
    assert len(seen) >= 2 * raw.count(b"\n")
    assert len(seen[False, raw.count(b"\n") - 1, ""]) >= 8


@pytest.mark.slow
def test_prefixes_recover_in_a_folder_of_ledgers(raw, left, tmp_path):
    lines = whole_lines(raw)
    ends = [len(b"".join(lines[:n])) for n in range(len(lines) + 1)]
    edges = {0, 1, 8, 9, *ends, *(end - 1 for end in ends[1:]), *range(5, len(raw), 801)}
    sizes = sorted(edges)[:: times(1, 4)]
    for first in range(0, len(sizes), 12):
        host = Host(tmp_path / str(first))
        shutil.copytree(left.own, host.own)
        (journal,) = host.journals()
        journal.unlink()
        for number, size in enumerate(sizes[first : first + 12]):
            run_id = f"{number:08x}00000000"
            path = host.own / f"journal-{run_id}.jsonl"
            path.write_bytes(of_another_run(raw, run_id)[:size])
            ((made, _),) = host.recover()
            ledger = read_ledger(made)
            assert ledger.run["end"] == "interrupted"
            assert greens(ledger.row) == greens_in(raw[:size])
            head = host.store().head()
            assert head is not None
            assert head.file == made.name
        assert verify_row(host.store()).wrong == []
        assert len(host.store().ledgers()) == number + 2


@pytest.mark.slow
def test_one_altered_byte_costs_its_line_and_what_follows_it(raw):
    dice = random.Random(1)
    lines = whole_lines(raw)
    outcomes = Counter()
    # every place of each line's head and tail, and a sample of the rest
    places = set(dice.sample(range(len(raw)), 2_500))
    start = 0
    for line in lines:
        places |= {start + n for n in (*range(12), len(line) - 1, len(line) - 2)}
        start += len(line)
    seen = {}
    for place in sorted(places):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << dice.randrange(8)
        remains = read_journal(bytes(flipped), "j")
        intact = raw[:place].count(b"\n")
        assert len(remains.events) <= max(0, intact)
        outcomes[bool(remains.damage)] += 1
        key = (remains.begin is None, len(remains.events), remains.damage)
        if key not in seen:
            seen[key] = greens(rebuilt(remains))
            assert seen[key] <= greens_in(b"".join(lines[: intact + 1]))
    print(f"{len(places)} flips: {dict(outcomes)}, {len(seen)} different ledgers")
    assert outcomes[True] >= 0.99 * len(places)


@pytest.mark.parametrize("how", ["duplicated", "swapped", "dropped"])
def test_lines_that_are_moved_never_make_green(raw, how):
    lines = whole_lines(raw)
    everything = greens_in(raw)
    for number in range(len(lines)):
        changed = list(lines)
        if how == "duplicated":
            changed.insert(number, lines[number])
        elif how == "swapped":
            other = (number * 7 + 3) % len(lines)
            changed[number], changed[other] = changed[other], changed[number]
        else:
            del changed[number]
        ledger = rebuilt(read_journal(b"".join(changed), "j"))
        assert greens(ledger) <= everything
        if how == "dropped" and b'"event": "found"' in lines[number]:
            assert len(greens(ledger)) == len(greens_in(b"".join(changed)))


def test_a_journal_without_a_byte_recovers(copy):
    (journal,) = copy.journals()
    journal.write_bytes(b"")
    ledger = recovered(copy)
    assert greens(ledger) == set()
    assert any("no probe had started" in text for text in ledger["notices"])


def test_the_bytes_of_a_damaged_journal_are_kept(copy, raw):
    (journal,) = copy.journals()
    journal.write_bytes(raw[:-30])
    ledger = recovered(copy)
    assert any("damaged" in text for text in ledger["notices"])
    assert (journal.with_name(journal.name + ".damaged")).read_bytes() == raw[:-30]


def test_three_journals_that_were_left_behind_recover_into_one_row(copy, raw):
    # the same name but for the last digit: neither may take the other's place
    other = run_id_of(raw)[:-1] + ("0" if run_id_of(raw)[-1] != "0" else "1")
    path = copy.own / f"journal-{other}.jsonl"
    path.write_bytes(of_another_run(raw, other))
    third = copy.own / f"journal-{other[:-1]}x.jsonl"
    third.write_bytes(of_another_run(raw, f"{other[:-1]}x"))
    os.utime(path, ns=(1, 1))
    made = copy.recover()
    assert len({made_path for made_path, _ in made}) == 3
    assert copy.journals() == []
    assert verify_row(copy.store()).wrong == []
    assert [read_ledger(p).run["end"] for p, _ in made] == ["interrupted"] * 3
    assert len(copy.store().ledgers()) == 4


@pytest.mark.parametrize("state", ["whole", "torn", "empty"])
def test_a_recovery_that_dies_at_any_of_its_changes_is_finished_by_the_next(
    left, raw, server, tmp_path, state
):
    outcomes = Counter()
    for point in range(100):
        host = Host(tmp_path / str(point))
        shutil.copytree(left.own, host.own)
        (journal,) = host.journals()
        keep = {"whole": len(raw), "torn": len(raw) // 2, "empty": 0}[state]
        journal.write_bytes(raw[:keep])
        run, end = server.complete(
            "recover",
            [str(host.ledgers), HOST],
            CRASH_DIE_IN="recovery",
            CRASH_DIE_AT=str(point),
        )
        outcomes[end.status] += 1
        if end.status != -9:
            assert end.status == 0, run.output
            break
        host.recover()
        assert host.journals() == []
        report = verify_row(host.store())
        assert report.wrong == []
        assert len(host.store().ledgers()) == 2
        newest = host.store().newest()
        assert newest is not None
        assert newest.run["end"] == "interrupted"
        assert greens(newest.row) == (greens_in(raw[:keep]))
    print(f"{state}: {dict(outcomes)}")
    assert outcomes[0] == 1
    assert outcomes[-9] >= 8


@pytest.mark.slow
def test_50_recoveries_that_are_killed_at_random_moments(left, raw, server, tmp_path):
    host = Host(tmp_path)
    shutil.copytree(left.own, host.own)
    (journal,) = host.journals()
    journal.unlink()
    dice = random.Random(2)

    def plant(number: int) -> None:
        run_id = f"{number:08x}00000000"
        (host.own / f"journal-{run_id}.jsonl").write_bytes(of_another_run(raw, run_id))

    def recovery(delay_s: float | None) -> tuple[int, float]:
        run = server.start("recover", [str(host.ledgers), HOST])
        assert run.wait_for("begun"), run.output
        start_s = time.monotonic()
        if delay_s is not None:
            time.sleep(delay_s)
            run.kill()
        end = server.wait(run)
        return end.status, time.monotonic() - start_s

    plant(1)
    status, took_s = recovery(None)
    assert status == 0
    killed = number = 0
    while killed < 50 and number < 200:
        number += 1
        plant(number + 1)
        # the same journal may be interrupted several times before it is recovered
        while host.journals() and killed < 50:
            status, _ = recovery(dice.uniform(0, took_s))
            killed += status == -9
        host.recover()
    assert killed == 50
    report = verify_row(host.store())
    assert report.wrong == []
    assert len(host.store().ledgers()) == number + 2
    assert not list(host.own.glob(".*.tmp"))
    print(f"50 kills over {number} journals")


def test_a_signal_while_a_line_goes_to_disk_leaves_no_line_that_the_run_does_not_know(
    tmp_path, monkeypatch
):
    """What is on disk is what the interrupted ledger is made from."""

    def stop(*_):
        raise KeyboardInterrupt

    def interrupted_fsync(descriptor, *, real=os.fsync):
        signal.raise_signal(signal.SIGTERM)  # to this thread: a test worker has others
        real(descriptor)

    journal = Journal(tmp_path / "journal-1.jsonl", {"run": {"id": "1"}})
    before = signal.signal(signal.SIGTERM, stop)
    try:
        monkeypatch.setattr(os, "fsync", interrupted_fsync)
        with pytest.raises(KeyboardInterrupt):
            journal.opened("test.slow", ["box"])
    finally:
        monkeypatch.undo()
        signal.signal(signal.SIGTERM, before)
        journal.close()
    written = read_journal((tmp_path / "journal-1.jsonl").read_bytes(), "j")
    assert not written.damage
    assert [row["probe"] for row in written.events] == ["test.slow"]
    assert list(written.events) == journal.events
