"""A full disk or a read-only folder: one clear error, and nothing that was there is harmed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.ledger.store import HostFolder
from checks.ledger.verify import verify_row
from tests.support.crash_host import HOST, Host, Server, ledger_of, verdicts

EXIT_USAGE = 4
PAGE = os.sysconf("SC_PAGE_SIZE")


def _namespace() -> tuple[str, ...] | None:
    """How to get a mount namespace: as anybody, where the kernel lets anybody; else as root."""
    for words in (("unshare", "-rm"), ("unshare", "-m")):
        if shutil.which("unshare") is None:
            return None
        trial = [*words, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return words
    return None


NAMESPACE = _namespace()
needs_mounts = pytest.mark.skipif(
    NAMESPACE is None, reason="needs root: or user namespaces, to mount a small file system"
)


def mounted(script: str, folder: Path) -> Server:
    """Start a fork server that sees a file system of its own at a folder (`$0` in the script)."""
    assert NAMESPACE is not None
    return Server((*NAMESPACE, "sh", "-c", f'{script} && exec "$@"', str(folder)))


@dataclass
class Small:
    """A host whose ledgers lie on a file system that holds little."""

    host: Host
    server: Server

    @property
    def seen(self) -> HostFolder:
        """The folder of ledgers, as it looks from here."""
        return HostFolder(self.server.root / str(self.host.ledgers).lstrip("/"), HOST)

    def fill(self, leave_bytes: int = 0) -> None:
        """Take up all room but this much."""
        filler = self.seen.path.parent / "filler"
        with filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * PAGE)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop has no other end
            file.truncate(max(0, file.seek(0, os.SEEK_END) // PAGE * PAGE - leave_bytes))

    def make_room(self) -> None:
        """Give it back."""
        (self.seen.path.parent / "filler").unlink()

    def snapshot(self) -> dict[str, bytes]:
        """Every ledger and the head, by name."""
        return {path.name: path.read_bytes() for path in self.seen.path.glob("*.json")}


@pytest.fixture
def small(tmp_path):
    host = Host(tmp_path, serves=1)
    host.ledgers.mkdir()
    server = mounted('mount -t tmpfs -o size=8m tmpfs "$0"', host.ledgers)
    try:
        yield Small(host, server)
    finally:
        server.close()


def assert_one_clear_error(shown: str, folder: Path) -> None:
    """One text that names the folder and what to do."""
    assert "Traceback" not in shown, shown
    assert 'File "' not in shown, shown
    flat = " ".join(shown.split())
    assert flat.count("ledgers cannot be written here") == 1, shown
    assert str(folder) in shown
    assert "--ledger-dir DIR" in shown
    assert "Earlier ledgers are untouched" in shown


@needs_mounts
def test_a_disk_that_is_full_at_the_start(small):
    _, end = small.server.complete("pytest", small.host.argv())
    assert end.status == 1
    before = small.snapshot()
    for leave_bytes in (0, 2_000_000):
        small.fill(leave_bytes)
        run, end = small.server.complete("pytest", small.host.argv())
        assert end.status == EXIT_USAGE, run.output
        assert_one_clear_error(run.output, small.host.own)
        assert run.told.of("begun") is None
        assert small.snapshot() == before
        assert small.seen.journals() == []
        assert verify_row(small.seen).wrong == []
        small.make_room()
    run, end = small.server.complete("pytest", small.host.argv())
    assert end.status == 1, run.output
    assert verify_row(small.seen).wrong == []


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize("when", ["begun", "found", "finishing"])
def test_a_disk_that_fills_while_the_run_goes_on(small, when):
    outcomes: Counter = Counter()
    _, end = small.server.complete("pytest", small.host.argv())
    assert end.status == 1
    # at the end, one of these has room for the ledger and none for the head
    [first] = small.seen.ledgers()
    full = first.stat().st_size // PAGE
    pages = (0, 1, *range(full - 2, full + 6)) if when == "finishing" else (0, 1, 2)
    for left in pages:
        before = small.snapshot()
        run = small.server.start("pytest", small.host.argv(), CRASH_PAUSE_AT=when)
        assert run.wait_for(when), run.output
        small.fill(left * PAGE)
        run.resume()
        if when == "found":
            for _ in verdicts(small.seen.newest()):
                run.resume()
        end = small.server.wait(run)
        if end.status == 1:
            assert when == "finishing", run.output
            outcomes["there was room enough"] += 1
            small.make_room()
            continue
        assert end.status == EXIT_USAGE, run.output
        assert_one_clear_error(run.output, small.host.own)
        after = small.snapshot()
        assert {name: after.get(name) for name in before} == before
        outcomes["a new ledger" if after.keys() - before.keys() else "no new ledger"] += 1
        journals = small.seen.journals()
        assert len(journals) == 1
        small.make_room()
        next_run, end = small.server.complete("pytest", small.host.argv())
        assert end.status == 1, next_run.output
        assert small.seen.journals() == []
        assert verify_row(small.seen).wrong == []
        recovered = next(
            ledger
            for ledger in map(_read, small.seen.ledgers())
            if ledger.run["id"] == run.told.run_id
        )
        shown = verdicts(recovered)
        assert {key: shown[key] for key in run.told.found} == run.told.found
        if not after.keys() - before.keys():
            assert recovered.run["end"] == "interrupted"
            green = {key for key, verdict in shown.items() if verdict == "pass"}
            assert len(green - run.told.found.keys()) <= 1
    print(f"{when}: {dict(outcomes)}")
    assert outcomes["no new ledger"] >= 1
    if when == "finishing":
        assert outcomes["a new ledger"] >= 1
        assert outcomes["there was room enough"] >= 1


def _read(path: Path):
    from checks.ledger.schema import read_ledger

    return read_ledger(path)


def leave_a_journal(host: Host, server: Server) -> None:
    """Make one complete ledger, and the journal of a run that was killed."""
    _, end = server.complete("pytest", host.argv())
    assert end.status == 1
    run = server.start("pytest", host.argv())
    assert run.wait_for("found")
    run.kill()
    server.wait(run)
    assert len(host.journals()) == 1


def assert_readable_and_unchanged(host: Host, other: Server) -> None:
    """A run is refused with one error; reading works; nothing is changed."""
    before = {path.name: path.read_bytes() for path in host.own.iterdir()}
    run, end = other.complete("pytest", host.argv())
    assert end.status == EXIT_USAGE, run.output
    assert_one_clear_error(run.output, host.own)
    run, end = other.complete("cli", ["show", HOST, "--ledger-dir", str(host.ledgers)])
    assert end.status == 1, run.output  # the newest complete ledger has one fail
    assert "Traceback" not in run.output
    assert "disk.free" in run.output
    assert "cannot be written here" in run.output  # why the journal is not in what is shown
    run, end = other.complete("cli", ["verify", HOST, "--ledger-dir", str(host.ledgers)])
    assert end.status == 0, run.output
    assert "a journal is waiting" in run.output
    assert {path.name: path.read_bytes() for path in host.own.iterdir()} == before


@needs_mounts
def test_a_folder_that_is_mounted_read_only(host, server):
    leave_a_journal(host, server)
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    other = mounted(script, host.ledgers)
    try:
        assert_readable_and_unchanged(host, other)
    finally:
        other.close()
    host.recover()
    assert verify_row(host.store()).wrong == []


def test_a_folder_that_this_user_may_not_write(host, server):
    leave_a_journal(host, server)
    # root may write everywhere; without its capabilities it is a user like any other
    plain = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    for path in host.own.iterdir():
        path.chmod(0o444)
    host.own.chmod(0o555)
    other = Server(plain)
    try:
        assert_readable_and_unchanged(host, other)
    finally:
        other.close()
        host.own.chmod(0o755)
        for path in host.own.iterdir():
            path.chmod(0o644)
    host.recover()
    assert verify_row(host.store()).wrong == []


def test_a_ledger_folder_that_cannot_be_made(host, server):
    file = host.folder / "file"
    file.write_text("not a folder")
    run, end = server.complete("pytest", host.argv(ledgers=file))
    assert end.status == EXIT_USAGE, run.output
    assert_one_clear_error(run.output, file)
    assert ledger_of(host, "") is None


def test_a_journal_that_cannot_go_on_before_the_first_test(host, server):
    """The lines between the first one and the first test say which checks are not selected."""
    argv = host.argv("-k", "clock")
    run = server.start("pytest", argv, CRASH_PAUSE_AT="begun")
    assert run.wait_for("begun"), run.output
    (journal,) = host.journals()
    first, *others = journal.read_bytes().splitlines(keepends=True)
    assert len(others) >= 8
    assert b'"event": "not-run"' in others[0]
    run.resume()
    assert server.wait(run).status in (2, 10), run.output
    for more in (0, 1, len(others[0]), 3 * len(others[0])):
        limit = str(len(first) + more)
        run, end = server.complete("pytest", argv, CRASH_FILE_LIMIT=limit)
        assert end.status == EXIT_USAGE, run.output
        assert_one_clear_error(run.output, host.own)
        assert len(host.journals()) == 1
        ((path, _),) = host.recover()
        assert _read(path).run["end"] == "interrupted"
    assert verify_row(host.store()).wrong == []
