"""Joins everything to one run: profile, world, runner, journal, ledger. The suite's engine room."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from checks.core import about
from checks.core.codec import CodecError, Json, decode, encode
from checks.core.errors import LedgerError, UsageError
from checks.core.expectation import Expectation, Expected
from checks.core.facts import Blind, Facts, NotRecordedError, Unseen
from checks.core.finding import Finding
from checks.core.judging import cases_of
from checks.core.load import LOCAL_HOST, Loaded, Source, load_host
from checks.core.moment import utc_text
from checks.core.outcome import in_scope
from checks.core.paths import expected_folders, ledger_folder, user_path
from checks.core.redact import ENVIRONMENT_SECRETS, cap, redact_text
from checks.core.registry import Check, Registry, load_areas
from checks.core.runner import Runner
from checks.core.scope import ALL, AREAS, QUICK, SELECTION
from checks.core.signals import held
from checks.core.verdict import Verdict
from checks.core.world import World
from checks.ledger.diff import Difference, difference
from checks.ledger.document import (
    OTHER_BASELINE,
    OTHER_REPLAYED,
    Ending,
    Ledger,
    Row,
    assemble,
)
from checks.ledger.head import Head
from checks.ledger.journal import Journal
from checks.ledger.schema import read_ledger, whole
from checks.ledger.store import HostFolder
from checks.ledger.swap import Struck
from checks.machine.facts import Clock
from checks.machine.probe.clock import history_facts

NO_BASELINE = (
    "no baseline found: there is no earlier ledger of this host here; if it has been checked before "
    "(a new disk), pass --baseline with the ticket's file"
)
WAIT_S = 60.0
"""How long a run waits for another one of the same host."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for."""

    host: str
    """Empty in a replay: then the ledger says it."""
    ledger_dir: str | None = None
    expected: tuple[str, ...] = ()
    replay: str | None = None
    only: str | None = None
    quick: bool = False
    """Whether checks that load the box are left out."""
    allow_busy: bool = False
    """Whether they may run beside what the box is busy with."""
    controls: bool = True
    baseline: str | None = None
    label: str = ""
    ticket: str = ""
    root: str | None = None


@dataclass(kw_only=True)
class Session:
    """One run of the suite."""

    options: Options
    registry: Registry
    loaded: Loaded
    folder: HostFolder
    world: World
    replayed: Ledger | None
    baseline: Ledger | None
    notices: list[str] = field(default_factory=list)
    journal: Journal | None = None
    runner: Runner | None = None
    head: Head | None = None
    """As it was when this run began."""
    previous: Ledger | None = None
    earlier: Ledger | None = None
    """The newest complete one, to compare with."""
    scope: str = ALL
    """`all`, the one area that this run speaks of, `quick`, or `selection`."""
    ledger: Row | None = None
    path: Path | None = None
    """Where the ledger lies, once it is written."""
    _head_damaged: bool = False

    @property
    def kind(self) -> str:
        """`run`, `replay` of a ledger, or `rehearsal` on a recorded tree."""
        if self.replayed is not None:
            return "replay"
        return "run" if self.world.live else "rehearsal"

    @cached_property
    def left_out(self) -> dict[tuple[str, str], str]:
        """Give the checks and subjects that the replayed run did not run, each with its reason."""
        rows = [] if self.replayed is None else self.replayed.row["findings"]
        return {
            (row["check"], row["subject"]): row["says"]
            for row in rows
            if row["verdict"] == Verdict.NOT_RUN.value
        }

    def cases(self, check: Check) -> list[str]:
        """List the subjects of a check under this profile."""
        return [case.subject for case in cases_of(check, self.loaded.expected)]

    def outside(self, check: str) -> str:
        """Say which option leaves out a check; empty: none does."""
        load = self.registry.load_of(self.registry.checks[check])
        if not in_scope(check, self.options.only or ALL):
            return f"outside the scope --only {self.options.only}"
        if self.options.quick and not in_scope(check, QUICK, load=load):
            return f"left out by --quick: {load}"
        return ""

    @cached_property
    def newer(self) -> tuple[tuple[str, str], ...]:
        """List the checks and subjects that the replayed run did not know.

        Its ledger cannot hold what they see. Under other expectations (--expected) they are asked all
        the same, and say so.
        """
        if self.replayed is None or self.options.expected:
            return ()
        known = {(row["check"], row["subject"]) for row in self.replayed.row["findings"]}
        checks = {check for check, _ in known}
        return tuple(
            (check.name, subject)
            for check in self.registry.checks.values()
            for subject in self.cases(check)
            # the subjects that a check finds by looking are those of the finding, not of the profile
            if check.name not in checks or not (check.finds or (check.name, subject) in known)
        )

    def planned(self) -> list[tuple[str, str]]:
        """List every check and subject that applies to this host."""
        return [
            (check.name, subject)
            for check in self.registry.checks.values()
            for subject in self.cases(check)
            if (check.name, subject) not in self.newer
        ]

    def _newer_text(self) -> str:
        whole = {check for check, _ in self.newer} - {check for check, _ in self.planned()}
        names = (name if name in whole else f"{name} [{subject}]" for name, subject in self.newer)
        return ", ".join(dict.fromkeys(names))

    # a run, from its first line to its ledger

    def begin(self, waiting: Callable[[str], None], *, selection: bool = False) -> None:
        """Take the folder, recover what earlier runs left, and write the journal's first line.

        Args:
            waiting: told if another run has to be waited for.
            selection: whether the command line has picked out some of the checks.

        Raises:
            BusyError: another run of this host does not end.
            StoreError: the folder cannot be written.

        """
        before = ALL if self.replayed is None else str(self.replayed.run["scope"])
        asked = QUICK if self.options.quick else self.options.only
        # what no control vouches for opens no gate, as what was picked out does not
        unproven = self.replayed is None and not self.options.controls
        self.scope = SELECTION if selection or unproven else asked or before
        self.folder.prepare()
        self.folder.lock(wait_s=WAIT_S, waiting=waiting)
        try:
            self.folder.head()
        except LedgerError as error:
            aside = self.folder.set_head_aside()
            self._head_damaged = True
            self.notices.append(f"the head was damaged ({error.problems[0]}); kept as {aside.name}")
        for path, what in self.folder.recover(self.registry):
            self.notices.append(f"an earlier run was interrupted: {path.name} {what}")
        if self.kind == "run":
            self._find_previous()
        other = "" if self.baseline is None else str(self.baseline.row["host"])
        if other and other != self.options.host:
            self.notices.append(OTHER_BASELINE + other)
        recorded_of = "" if self.replayed is None else str(self.replayed.row["host"])
        if recorded_of and recorded_of != self.options.host and not self.options.expected:
            self.notices.append(OTHER_REPLAYED + recorded_of)
        if self.newer:
            self.notices.append(
                f"not judged, for the replayed run did not know them yet: {self._newer_text()}"
            )
        started_s = time.time()
        run_id = secrets.token_hex(8)
        begin = self._begin_row(run_id, started_s)
        replayed = self.replayed
        recorded = None if replayed is None else replayed.observations(self.registry)
        # a replay recalls it, and touches this machine for nothing
        supplied = {} if replayed is not None else {"machine.history": self._history()}
        with held():
            # a signal between these two would leave a journal that nobody finishes
            # what a replay loses in a crash, the next replay makes again
            self.journal = Journal(
                self.folder.journal_path(run_id), begin, durable=replayed is None
            )
            self.runner = Runner(
                registry=self.registry,
                expected=self.loaded.expected,
                recorder=self.journal,
                world=self.world,
                with_controls=self.options.controls,
                allow_busy=self.options.allow_busy,
                quick=self.options.quick or self.scope == QUICK,
                recorded=recorded,
                recorded_end="" if replayed is None else str(replayed.run["end"]),
                supplied=supplied,
            )

    def _find_previous(self) -> None:
        """Find the ledger that this run follows."""
        self.head = self.folder.head()
        try:
            self.previous = self.folder.newest()
            self.earlier = self.folder.comparable(self.scope)
        except LedgerError as error:
            self.notices.append(
                f"the newest ledger cannot be used: {error.problems[0]}; "
                f"`preflight verify {self.options.host}` tells more"
            )
        if self.head is None and not self.folder.ledgers() and self.baseline is None:
            if self.options.host != LOCAL_HOST:
                self.notices.append(NO_BASELINE)
        elif self.head is None and self.folder.ledgers():
            self.previous = self.earlier = self.folder.tip()
            follows = Path(self.previous.file).name if self.previous else "no other: a new row"
            lost = "" if self._head_damaged else "head.json was missing; "
            self.notices.append(f"{lost}this run follows {follows}")

    def _begin_row(self, run_id: str, started_s: float) -> Row:
        row = {
            "host": self.options.host,
            "run": {
                "id": run_id,
                "kind": self.kind,
                "label": _word(self.options.label),
                "ticket": _word(self.options.ticket),
                "scope": self.scope,
                "controls": self.options.controls,
                "allow_busy": self.options.allow_busy,
                "started_utc": utc_text(started_s),
                "user_id": os.getuid(),
            },
            "versions": about.versions(),
            "time": self._time(started_s) if self.replayed is None else self.replayed.row["time"],
            "profile": encode(self.loaded.profile),
            "expectations": encode(self.loaded.numbers),
            "previous": self._follows(),
            "replay_of": None if self.replayed is None else self.replayed.row["digest"],
            "planned": [list(key) for key in self.planned()],
            "notices": list(self.notices),
        }
        # a word of the command line, or a path, may hold bytes that are no UTF-8
        clean: Row = encode(row)  # type: ignore[assignment]
        return clean

    def _follows(self) -> Json:
        """Name the ledger before this one, with its digest."""
        if self.head is not None:
            return {"file": self.head.file, "digest": self.head.digest}
        if self.previous is not None:
            file = Path(self.previous.file).name
            return {"file": file, "digest": self.previous.row["digest"]}
        return None

    def _time(self, started_s: float) -> Row:
        up_s = self.world.boot_s()
        boot_id = self.world.line("/proc/sys/kernel/random/boot_id")
        now_s = self.world.now_s()
        blind = isinstance(up_s, Unseen) or isinstance(now_s, Unseen)
        if not self.world.live and not isinstance(now_s, Unseen):
            started_s = now_s  # of the recorded box: its ledgers follow each other by its own clock
        return {
            "started_s": round(started_s, 3),
            "boot_id": None if isinstance(boot_id, Unseen) else boot_id[:100],
            "up_s": None if isinstance(up_s, Unseen) else up_s,
            "boot_offset_s": None if blind else float(now_s) - float(up_s),  # type: ignore[arg-type]
            "synchronised": None,
        }

    def _history(self) -> Facts | Unseen:
        """Collect what earlier ledgers say about time: the head, or else the ledger to compare with."""
        nothing = Unseen(Blind.ABSENT, "there is no earlier ledger of this host")
        ledger = ""
        newest_s: float | Unseen = nothing
        boot_id: str | None = None
        offset_s: float | None = None
        before = self.previous or self.baseline
        if self.head is not None:
            ledger, newest_s = self.head.file, self.head.newest_s
            boot_id, offset_s = self.head.boot_id, self.head.boot_offset_s
        elif before is not None:
            ledger = Path(before.file).name
            newest_s = before.row["time"]["started_s"] + before.run["elapsed_s"]
            boot_id, offset_s = before.row["time"]["boot_id"], before.row["time"]["boot_offset_s"]
        return history_facts(
            ledger=ledger,
            newest_s=newest_s,
            boot_id=nothing if boot_id is None else boot_id,
            boot_offset_s=nothing if offset_s is None else offset_s,
            world=self.world,
        )

    def judge(self, check: str, subject: str) -> tuple[Finding, ...]:
        """Find out about one subject of one check: one finding, or one for each that it found."""
        assert self.runner is not None  # noqa: S101 - tests run after begin()
        return self.runner.judge_all(check, subject)

    def not_run(self, check: str, subject: str, why: str) -> None:
        """Record that a check will not run, and why; what does not apply here says that instead."""
        assert self.journal is not None  # noqa: S101 - as above
        assert self.runner is not None  # noqa: S101 - as above
        if self.runner.applies(check, subject):
            self.journal.not_run(check, subject, why)
        else:
            self.judge(check, subject)

    def unfound(self, keys: Iterable[tuple[str, str]], why: str) -> None:
        """Record of each check that has no finding yet that it will not run, and why."""
        assert self.runner is not None  # noqa: S101 - as above
        for key in keys:
            if key not in self.runner.answers:
                self.not_run(*key, why)

    def look(self) -> None:
        """Look at the components that no check asked for.

        Raises:
            StoreError: the journal cannot be written.

        """
        if self.runner is not None:
            self.runner.look_at_components()

    def finish(self, interrupted_by: str = "", *, pytest_code: int = 0) -> None:
        """Write the ledger.

        Args:
            interrupted_by: what stopped the run; empty where nothing did.
            pytest_code: exit code of pytest's own, where it comes before ours.

        Raises:
            StoreError: the ledger cannot be written; the journal stays.

        """
        journal = self.journal
        assert journal is not None  # noqa: S101 - as above
        elapsed_s = journal.elapsed_s()
        ending = Ending(
            end="interrupted" if interrupted_by else "complete",
            by=interrupted_by,
            elapsed_s=elapsed_s,
            ended_utc=utc_text(time.time()),
            pytest_code=pytest_code,
        )
        begin = {**journal.begin, "time": {**journal.begin["time"], **self._synchronised()}}
        if self.replayed is not None and self.replayed.run["end"] == "interrupted":
            begin["notices"] = [*begin["notices"], "the replayed run was interrupted"]
        compared = self._compared_with() if ending.end == "complete" else None
        ledger = assemble(
            self.registry,
            begin,
            journal.events,
            ending,
            before=compared,
            carried=self._carried(),
        )
        journal.close()
        self.path = self.folder.finish(journal.path, dict(ledger), aside=self.kind != "run")
        self.ledger = dict(ledger)
        self.folder.unlock()

    def _compared_with(self) -> Ledger | None:
        """Give the ledger to compare with, if this version can read it."""
        before = self.baseline or self.earlier
        try:
            return before if before and before.parts is not None and before.findings else None
        except LedgerError:
            return None

    def _carried(self) -> list[Struck]:
        """Collect what earlier runs have struck out, newest ledger first."""
        carried: list[Struck] = []
        for ledger in filter(None, (self.baseline, self.earlier)):
            with contextlib.suppress(LedgerError):
                carried += [] if ledger.since is None else ledger.since.struck_out
        return carried

    def _synchronised(self) -> Row:
        assert self.runner is not None  # noqa: S101 - as above
        for observation in self.runner.observations.values():
            if isinstance(observation.seen, Clock):
                with contextlib.suppress(NotRecordedError):
                    state = observation.seen.synchronised
                    return {"synchronised": None if isinstance(state, Unseen) else state}
        return {"synchronised": None}

    def abandon(self) -> None:
        """Let go of the folder without a ledger; the journal stays for recovery."""
        if self.journal is not None:
            self.journal.close()
            self.journal = None
        self.folder.unlock()

    def compared(self) -> tuple[str, Difference] | None:
        """Compare with the ledger before this one, or with the baseline; None if there is none."""
        before = self.baseline or self.earlier
        if before is None or self.ledger is None or self.path is None:
            return None
        after = Ledger(file=str(self.path), sha256="", row=self.ledger)
        try:
            return before.file, difference(before, after)
        except LedgerError:
            return None


def _word(text: str) -> str:
    return cap(redact_text(text, ENVIRONMENT_SECRETS), 200)


def open_session(options: Options) -> Session:
    """Load everything that a run needs; touches neither the box nor the ledger folder.

    Raises:
        UsageError: an option names something that does not exist.
        ProfileError: what is expected cannot be used as it is; all problems at once.
        LedgerError: a ledger that an option names cannot be used.

    """
    registry = load_areas()
    if options.only is not None and options.only not in AREAS:
        raise UsageError(f"--only {options.only}: this version has the areas {', '.join(AREAS)}")
    if options.only is not None and options.quick:
        raise UsageError("--only and --quick: a run has one scope; give one of them")
    replayed = whole(read_ledger(user_path(options.replay))) if options.replay else None
    if replayed is not None and not options.host:
        options = replace(options, host=str(replayed.row["host"]))
    baseline = whole(read_ledger(user_path(options.baseline))) if options.baseline else None
    root = user_path(options.root) if options.root else Path("/")
    folders = expected_folders(options.expected)
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder of expectations")
    if replayed is not None and not options.expected:
        loaded = _recorded_expectations(replayed)
    else:
        rehearsal = root != Path("/") if replayed is None else replayed.run["kind"] == "rehearsal"
        loaded = load_host(options.host, folders, registry.units(), rehearsal=rehearsal)
    ledgers = ledger_folder(options.ledger_dir)
    return Session(
        options=options,
        registry=registry,
        loaded=loaded,
        folder=HostFolder(ledgers, options.host),
        world=World(root, ledger_folder=str((ledgers / options.host).absolute())),
        replayed=replayed,
        baseline=baseline,
    )


def _recorded_expectations(ledger: Ledger) -> Loaded:
    """Take the expectations that the ledger carries."""
    numbers: list[Expectation] = []
    sources: list[Source] = []
    try:
        for index, row in enumerate(ledger.row["expectations"]):
            source = decode(tuple[Expectation, ...], row["content"], f"expectations[{index}]")
            numbers += source
            sources.append(Source(**row))
    except CodecError as error:
        raise ledger.wrong(error) from error
    profile = ledger.row["profile"]
    name = Path(profile["file"]).name or f"{ledger.row['host']} (no profile)"
    return Loaded(
        expected=Expected(profile=ledger.profile, profile_file=name, numbers=tuple(numbers)),
        profile=Source(**profile),
        numbers=tuple(sources),
    )
