"""What the crash tests share: a fork server, a host with a profile, and what must hold after a kill."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.core.registry import load_areas
from checks.core.verdict import ExitEffect
from checks.ledger.document import Ledger
from checks.ledger.journal import read_journal
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder
from checks.ledger.verify import verify_ledger

HERE = Path(__file__).resolve().parents[2]
CONFIG = HERE / "preflight" / "pytest.toml"
HOST = "crash"
GREEN = "pass"

_PROFILE = """\
schema = 1
description = "the machine that the tests run on, and one wish that it cannot fulfil"

[hardware]
architecture = "{machine}"
memory_total_bytes = {memory_total_bytes}
memory_tolerance_ratio = 0.5
memory_available_min_bytes = 1_048_576

[paths]
model_cache = "{cache}"
tmp = "{cache}"
"""
_WISH = "tmp_free_min_bytes = 4_000_000_000_000_000\n"
_SERVE = """
[[serve]]
name = "chat-{number}"
engine = "llama.cpp"
command = "llama-server -t 1"
where = "{where}"
"""


@dataclass
class Host:
    """A host with a profile under which many checks pass and one fails, and its folders."""

    folder: Path
    serves: int = 3
    wish: bool = True
    """Whether the profile asks for what no machine has, so that one check fails."""
    run_ids: dict[str, str] = field(default_factory=dict)
    """Ledger's file name = id of its run, of those read so far: ledgers do not change."""

    def __post_init__(self) -> None:
        memory = Path("/proc/meminfo").read_text().split()[1]
        hosts = self.folder / "expected" / "hosts"
        hosts.mkdir(parents=True)
        text = _PROFILE.format(
            machine=os.uname().machine,
            memory_total_bytes=int(memory) * 1024,
            cache=self.folder,
        )
        text += _WISH if self.wish else ""
        for number in range(self.serves):
            where = "this" if number % 2 == 0 else f"pid:{os.getpid()}"
            text += _SERVE.format(number=number, where=where)
        (hosts / f"{HOST}.toml").write_text(text)

    @property
    def ledgers(self) -> Path:
        """The folder of all hosts' ledgers."""
        return self.folder / "ledgers"

    @property
    def own(self) -> Path:
        """The folder of this host's ledgers."""
        return self.ledgers / HOST

    def store(self) -> HostFolder:
        """The same as the product sees it."""
        return HostFolder(self.ledgers, HOST)

    def argv(self, *more: str, ledgers: Path | None = None) -> list[str]:
        """Arguments of pytest for a run."""
        return [
            "-c",
            str(CONFIG),
            f"--rootdir={CONFIG.parent}",
            str(CONFIG.parent),
            "-p",
            "tests.support.crash_plugin",
            "-p",
            "no:hypothesispytest",  # the developers' own; no user of the suite has it
            "--host",
            HOST,
            "--expected",
            str(self.folder / "expected"),
            "--ledger-dir",
            str(ledgers or self.ledgers),
            *more,
        ]

    def journals(self) -> list[Path]:
        """Journals that wait for recovery."""
        return sorted(self.own.glob("journal-*.jsonl"))

    def recover(self) -> list[tuple[Path, str]]:
        """Recover as the next run and `preflight show` do it."""
        store = self.store()
        store.lock(wait_s=10)
        try:
            return store.recover(load_areas())
        finally:
            store.unlock()


@dataclass
class Told:
    """What the witness was told."""

    events: list[dict] = field(default_factory=list)

    @property
    def found(self) -> dict[tuple[str, str], str]:
        """Check and subject = verdict, of every finding that was told."""
        rows = [row for row in self.events if row["event"] == "found"]
        return {(row["check"], row["subject"]): row["verdict"] for row in rows}

    def of(self, event: str) -> dict | None:
        """The first event of that name."""
        return next((row for row in self.events if row["event"] == event), None)

    @property
    def run_id(self) -> str:
        """Id of the run, once it has begun."""
        begun = self.of("begun")
        return begun["run"] if begun else ""


class Run:
    """A job under way, and the pipe on which it tells how far it is."""

    def __init__(self, witness: int, output: Path, resume: int) -> None:
        self.pid = 0
        self.killed_s = 0.0
        self.told = Told()
        self._witness = witness
        self._raw = b""
        self._output = output
        self._resume = resume

    def wait_for(self, event: str, timeout_s: float = 30.0) -> bool:
        """Read what the witness is told, up to an event; False if the run ends before."""
        end_s = time.monotonic() + timeout_s
        while self.told.of(event) is None:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([self._witness], [], [], left_s)[0]:
                raise TimeoutError(f"no {event!r} within {timeout_s:g} s:\n{self.output}")
            if not self._read():
                return False
        return True

    def over(self) -> bool:
        """Whether the run is past its last step, as far as the witness was told by now."""
        while select.select([self._witness], [], [], 0)[0] and self._read():
            pass
        return self.told.of("finished") is not None

    def _read(self) -> bool:
        chunk = os.read(self._witness, 65_536)
        self._raw += chunk
        *lines, self._raw = self._raw.split(b"\n")
        self.told.events += [json.loads(line) for line in lines if line]
        return bool(chunk)

    def drain(self) -> None:
        """Read all that the witness is told until the run and its children are gone."""
        while self._read():
            pass
        os.close(self._witness)
        os.close(self._resume)

    def resume(self) -> None:
        """Let a run go on that waits where CRASH_PAUSE_AT says."""
        os.write(self._resume, b"x")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the run's main process."""
        self.killed_s = time.monotonic()
        os.kill(self.pid, number)

    @property
    def output(self) -> str:
        """Its standard output and error."""
        return self._output.read_text("utf-8", "replace")


@dataclass(frozen=True)
class End:
    """How a job ended."""

    status: int
    """Exit code, or minus the signal's number."""
    survivors: bool
    """Whether a descendant was alive still, a second later."""
    orphans: int
    """How many descendants were alive when it ended."""


class Server:
    """The client's side of `crash_server`."""

    def __init__(self, before: tuple[str, ...] = ()) -> None:
        """Start it.

        Args:
            before: words of a command that runs the rest of its line, such as `unshare -rm`.

        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs_number = theirs.fileno()
        # A process that is started once, with one descriptor at a fixed number.
        script = HERE / "tests" / "support" / "crash_server.py"
        launch = f"exec {{python}} -I {{script}} 3<&{theirs_number} {theirs_number}<&-"
        command = launch.format(python='"$0"', script='"$1"')
        if theirs_number == 3:
            command = 'exec "$0" -I "$1"'
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PREFLIGHT"))}
        self._process = subprocess.Popen(
            [*before, "bash", "-c", command, sys.executable, str(script)],
            pass_fds=[theirs_number],
            stdin=subprocess.DEVNULL,
            env=env | {"TERM": "dumb", "NO_COLOR": "1"},
            cwd=HERE,
        )
        theirs.close()
        self._link = ours
        self._link.settimeout(120)
        self._scratch = tempfile.TemporaryDirectory(prefix="crash-")
        self._runs = 0
        if not self._link.recv(100):
            raise RuntimeError("the fork server did not start")

    @property
    def root(self) -> Path:
        """The file system as the server sees it, in a mount namespace of its own."""
        return Path(f"/proc/{self._process.pid}/root")

    def start(self, job: str, argv: list[str], **env: str) -> Run:
        """Fork a job."""
        self._runs += 1
        output = Path(self._scratch.name) / f"output-{self._runs % 200}"
        witness, witness_end = os.pipe()
        resume_end, resume = os.pipe()
        run = Run(witness, output, resume)
        with output.open("wb") as out:
            unset = [name for name in ("CRASH_DIE_AT", "CRASH_DIE_IN") if name not in env]
            request = {"do": "fork", "job": job, "argv": argv, "env": env, "unset": unset}
            descriptors = [out.fileno(), witness_end, resume_end]
            socket.send_fds(self._link, [json.dumps(request).encode()], descriptors)
            run.pid = json.loads(self._link.recv(1_000))["pid"]
        os.close(witness_end)
        os.close(resume_end)
        return run

    def wait(self, run: Run, timeout_s: float = 60.0, orphans_s: float = 1.0) -> End:
        """Wait for the end of a job and of all its descendants."""
        request = {"do": "wait", "pid": run.pid, "timeout_s": timeout_s, "orphans_s": orphans_s}
        self._link.send(json.dumps(request).encode())
        answer = json.loads(self._link.recv(1_000))
        if answer["status"] is None:
            raise TimeoutError(f"the run did not end within {timeout_s:g} s:\n{run.output}")
        if not answer["survivors"]:
            run.drain()
        return End(answer["status"], answer["survivors"], answer["orphans"])

    def complete(self, job: str, argv: list[str], **env: str) -> tuple[Run, End]:
        """Fork a job and wait for its end."""
        run = self.start(job, argv, **env)
        return run, self.wait(run)

    def close(self) -> None:
        """End the server."""
        self._link.close()
        self._process.wait(10)
        self._scratch.cleanup()


def serving() -> Iterator[Server]:
    """Body of a fixture."""
    server = Server()
    try:
        yield server
    finally:
        server.close()


def ledger_of(host: Host, run_id: str) -> Ledger | None:
    """Find the ledger of a run; there must not be two."""
    known = host.run_ids
    for path in host.store().ledgers():
        if path.name not in known:
            known[path.name] = json.loads(path.read_bytes())["run"]["id"]
    names = [name for name, one in known.items() if one == run_id]
    assert len(names) <= 1, f"two ledgers of one run: {names}"
    return read_ledger(host.own / names[0]) if names else None


def verdicts(ledger: Ledger) -> dict[tuple[str, str], str]:
    """Check and subject = verdict."""
    return {finding.key: finding.verdict.value for finding in ledger.findings}


def opened_and_seen(
    events: Iterable[Mapping[str, Any]],
) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Probe and subject of all that a journal says was begun, and of all that was seen."""
    opened = {
        (row["probe"], subject)
        for row in events
        if row["event"] == "open"
        for subject in row["subjects"]
    }
    seen = {
        (row["observation"]["probe"], row["observation"]["subject"])
        for row in events
        if row["event"] == "seen"
    }
    return opened, seen


def missing(ledger: Ledger) -> set[tuple[str, str]]:
    """What keeps a run from being complete."""
    return {f.key for f in ledger.findings if f.effect is ExitEffect.INCOMPLETE}


def phase(journal: bytes) -> str:
    """Where a run was when it stopped: `open` (a probe), `between`, or `finalisation`."""
    remains = read_journal(journal, "journal")
    assert remains.begin is not None
    opened, seen = opened_and_seen(remains.events)
    found = sum(row["event"] == "found" for row in remains.events)
    if found >= len(remains.begin["planned"]):
        return "finalisation"
    return "open" if opened - seen else "between"


def assert_interrupted(ledger: Ledger, told: Told, planned: set[tuple[str, str]]) -> None:
    """Check a recovered ledger against what the witness was told."""
    read, wrong = verify_ledger(Path(ledger.file))
    assert wrong == []
    assert read is not None
    run = ledger.run
    assert (run["end"], run["verdict"], run["exit_code"]) == ("interrupted", "interrupted", 2)
    assert run["interrupted_by"]
    shown = verdicts(ledger)
    assert set(shown) == planned
    told_of = told.found
    assert {key: shown[key] for key in told_of} == told_of
    untold = planned - set(told_of)
    waiting = {
        finding.key
        for finding in ledger.findings
        if finding.reason is not None and finding.reason.value == "interrupted"
    }
    assert not waiting & set(told_of)
    # at most the one that was on disk and not told yet
    assert len(untold - waiting) <= 1, untold - waiting
    for finding in ledger.findings:
        if finding.key in waiting:
            assert finding.verdict.value == "unknown"
            for probe, subject in ledger.row["open_probes"]:
                assert f"{probe} [{subject}]" in finding.says
    assert waiting <= missing(ledger)
