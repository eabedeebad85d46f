"""What the kernel sees: the journal is on disk before a probe starts, and the end is in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.crash_host import HERE, Host

_CALLS = (
    "openat,write,fsync,fdatasync,clone,clone3,fork,vfork,rename,renameat,renameat2,unlink,unlinkat"
)
FORKS = {"clone", "clone3", "fork", "vfork"}


def _why_not() -> str:
    if shutil.which("strace") is None:
        return "needs root: to install strace (Debian package strace)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return "needs root: ptrace is not permitted to this user" if tried.returncode else ""


WHY_NOT = _why_not()


@dataclass(frozen=True)
class Call:
    """One finished system call of the run's main process."""

    name: str
    arguments: str
    result: int
    began: int
    """Line of the trace at which it was entered."""
    ended: int
    """Line at which it returned."""


def parse(trace: str) -> list[Call]:
    """Read the calls of the process that was traced first, in the order in which they ended."""
    lines = trace.splitlines()
    main = lines[0].split()[0]
    calls = []
    entered: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(lines):
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if pid != main or rest.startswith(("+++", "---")):
            continue
        resumed = re.match(r"<\.\.\. (\w+) resumed>(.*)", rest)
        began = number
        if rest.endswith("<unfinished ...>"):
            name = rest.partition("(")[0]
            entered[name] = (rest.removesuffix("<unfinished ...>"), number)
            continue
        if resumed:
            before, began = entered.pop(resumed[1])
            rest = before + resumed[2]
        if re.search(r"\)\s+= \? ERESTART", rest):
            continue  # a signal came in between; the kernel begins it again, on a line of its own
        found = re.fullmatch(r"(\w+)\((.*)\)\s+= (-?\d+).*", rest)
        assert found, rest
        calls.append(Call(found[1], found[2], int(found[3]), began, number))
    return calls


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    host = Host(tmp_path_factory.mktemp("traced"))
    out = host.folder / "trace"
    command = ["strace", "-f", "-y", "-s", "600", "-o", str(out), "-e", f"trace={_CALLS}"]
    argv = [word for word in host.argv() if word != "tests.support.crash_plugin"]
    argv.remove("-p")
    run = subprocess.run(
        [*command, sys.executable, "-m", "pytest", *argv],
        cwd=HERE,
        env={**os.environ, "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    newest = host.store().newest()
    assert newest is not None
    return host, newest, parse(out.read_text())


def written(call: Call, word: str) -> bool:
    return call.name == "write" and f'\\"event\\": \\"{word}\\"' in call.arguments


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "needs root:")
def test_each_probe_starts_after_its_line_is_on_disk(traced):
    _, ledger, calls = traced
    targets = Counter(
        row["probe"] for row in ledger.row["observations"] if row["probe"] != "machine.history"
    )
    forks: Counter = Counter()
    probe, flushed = "", -1
    opened = set()
    for call in calls:
        journal = "/journal-" in call.arguments
        if written(call, "open") and journal:
            found = re.search(r'\\"probe\\": \\"([a-z.-]+)\\"', call.arguments)
            assert found
            probe, flushed = found[1], -1
            opened.add(probe)
        elif call.name == "fsync" and journal:
            assert call.result == 0
            flushed = call.ended
        elif written(call, "seen") and journal:
            probe = ""
        elif call.name in FORKS and "CLONE_THREAD" not in call.arguments:
            assert probe, "a process is started outside of every probe"
            assert 0 <= flushed < call.began, f"{probe} starts before its line is on disk"
            forks[probe] += 1
    print(f"forks by probe: {dict(forks)}")
    assert forks == targets
    assert sum(targets.values()) >= 6
    assert opened == {row["probe"] for row in ledger.row["observations"]}


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "needs root:")
def test_each_line_of_the_journal_is_on_disk_before_the_next(traced):
    _, ledger, calls = traced
    lines = waiting = 0
    for call in calls:
        if "/journal-" not in call.arguments:
            continue
        if call.name == "write":
            assert waiting == 0, "a line is written while the one before it is not on disk"
            waiting += 1
            lines += 1
        elif call.name == "fsync":
            waiting = 0
        elif call.name == "unlink":
            break
    assert waiting == 0
    assert lines > 2 * len(ledger.row["observations"]) + len(ledger.findings)


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "needs root:")
def test_the_ledger_then_the_head_then_the_end_of_the_journal(traced):
    host, ledger, calls = traced
    own = str(host.own)
    name = Path(ledger.file).name
    last = max(n for n, call in enumerate(calls) if written(call, "found"))
    steps = []
    for call in calls[last:]:
        if own not in call.arguments or "O_RDONLY" in call.arguments:
            continue
        what = call.arguments
        # what is renamed is named twice, so the temporary name is asked for first
        if "/journal-" in what:
            place = "journal"
        elif f"/.{name}." in what:
            place = "ledger"
        elif "/.head.json." in what:
            place = "head"
        elif f"<{own}>" in what:
            place = "folder"
        else:
            raise AssertionError(f"an unexpected change: {call}")
        verb = "rename" if call.name.startswith("rename") else call.name
        if steps[-1:] != [(verb, place)]:
            steps.append((verb, place))
        if verb == "rename":
            assert name in what if place == "ledger" else '/head.json"' in what
    start = steps.index(("openat", "ledger"))
    assert set(steps[:start]) <= {("write", "journal"), ("fsync", "journal")}
    assert steps[start:] == [
        ("openat", "ledger"),
        ("write", "ledger"),
        ("fsync", "ledger"),
        ("rename", "ledger"),
        ("fsync", "folder"),
        ("openat", "head"),
        ("write", "head"),
        ("fsync", "head"),
        ("rename", "head"),
        ("fsync", "folder"),
        ("unlink", "journal"),
        ("fsync", "folder"),
    ]
