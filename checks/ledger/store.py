"""One host's folder of ledgers: the lock, the row of ledgers, the head, and recovery."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from checks.core.codec import Json, encode
from checks.core.errors import LedgerError, Problem
from checks.core.moment import utc_text
from checks.core.outcome import WAIVER_CHECK
from checks.core.profile import LOCAL
from checks.core.registry import Registry
from checks.core.scope import ALL, SELECTION, area_of
from checks.core.verdict import Excuse, ExitEffect, RunVerdict, Verdict
from checks.ledger.canonical import ledger_digest, pretty, readable
from checks.ledger.document import Ending, Ledger, Row, assemble
from checks.ledger.files import (
    PREFIX,
    SUFFIX,
    fsync_folder,
    journals,
    open_new,
    store_error,
    write_whole,
)
from checks.ledger.head import HEAD, Head, parse_head
from checks.ledger.journal import Remains, read_journal
from checks.ledger.lock import LOCK, Lock
from checks.ledger.schema import problems, read_ledger

LARGEST_JOURNAL_BYTES = 64_000_000
"""Of a larger one the beginning is recovered."""
LONGEST_NAME = 200
ROOM_BYTES = 4_000_000
"""A journal, a ledger under 1 MB, and the copy before the rename."""
_LEDGER_NAME = re.compile(r"\d{8}T\d{6}Z-.*\.json")


def scope_entry(ledger: Row, name: str, sha256: str) -> Row:
    """Give what a head says of the newest complete ledger of a scope."""
    areas = _areas(ledger)
    return {
        "file": name,
        "sha256": sha256,
        "digest": ledger["digest"],
        "verdict": ledger["run"]["verdict"],
        "exit_code": ledger["run"]["exit_code"],
        "ended_utc": ledger["run"]["ended_utc"],
        "unconfirmed": ledger["counts"]["unconfirmed"],
        "unconfirmed_required": sum(part["unconfirmed"] for part in areas.values()),
        "areas": areas,
    }


def _areas(ledger: Row) -> dict[str, Row]:
    """Say of each area that a run spoke of how that part of it came out.

    A waiver that fails does so in the area of the check that it covers.
    """
    rows: dict[str, list[Row]] = {}
    for row in ledger["findings"]:
        if row["excused"] == Excuse.SCOPE or row["verdict"] == Verdict.NOT_APPLICABLE:
            continue
        about = row["subject"] if row["check"] == WAIVER_CHECK else row["check"]
        rows.setdefault(area_of(about), []).append(row)
    optional = _optional(ledger)
    return {area: _part(found, optional) for area, found in rows.items()}


def _part(rows: Iterable[Row], optional: Iterable[str]) -> Row:
    rows, names = list(rows), set(optional)
    effects = {row["effect"] for row in rows}
    verdict = RunVerdict.PASS
    if ExitEffect.FAILS in effects:
        verdict = RunVerdict.FAIL
    elif ExitEffect.INCOMPLETE in effects or not any(row["confirmed"] for row in rows):
        verdict = RunVerdict.INCOMPLETE
    unconfirmed = sum(
        row["verdict"] == Verdict.PASS and not row["confirmed"] and row["check"] not in names
        for row in rows
    )
    return {"verdict": verdict.value, "unconfirmed": unconfirmed}


def _optional(ledger: Row) -> Iterable[str]:
    """Name the checks that the profile makes optional; none where it is no profile of ours."""
    part: Json = ledger["profile"]["content"]
    for name in ("checks", "optional"):
        part = part.get(name) if isinstance(part, dict) else None
    return part if isinstance(part, dict) else ()


def head_fields(ledger: Row, name: str, sha256: str) -> Row:
    """Give what a head says of the newest ledger, all of which follows from that ledger."""
    entry = scope_entry(ledger, name, sha256)
    return {
        **{key: entry[key] for key in entry if key in Head.__dataclass_fields__},
        "scope": ledger["run"]["scope"],
        "boot_id": ledger["time"]["boot_id"],
        "boot_offset_s": ledger["time"]["boot_offset_s"],
        "fingerprint": {
            slot: {"kind": part["kind"], "identity": part["identity"]}
            for slot, part in ledger["fingerprint"].items()
        },
        "previous": ledger["previous"],
    }


def unsettles(ledger: Row) -> bool:
    """Whether only a complete run of everything settles what a run has left open."""
    run = ledger["run"]
    failed = run["scope"] == SELECTION and run["verdict"] == RunVerdict.FAIL
    return bool(failed or run["end"] != "complete")


def settles(ledger: Row) -> bool:
    """Whether a run is a complete one of everything."""
    return bool(ledger["run"]["scope"] == ALL and ledger["run"]["end"] == "complete")


def _unsettled(old: Head | None, ledger: Row, entry: Row) -> dict[str, Row] | None:
    if settles(ledger):
        return {}
    before = {} if old is None else old.unsettled
    if before is None or not unsettles(ledger):
        return before
    return {**before, ledger["run"]["verdict"]: entry}


def _of_files(entries: dict[str, Row], files: set[str]) -> dict[str, Row]:
    return {name: entry for name, entry in entries.items() if entry["file"] in files}


def ended_s(ledger: Row) -> float:
    """Give the moment at which a run ended, in seconds since 1970 by its own clock."""
    return float(ledger["time"]["started_s"]) + float(ledger["run"]["elapsed_s"])


class HostFolder:
    """The folder `<ledgers>/<host>/`."""

    def __init__(self, folder: Path, host: str) -> None:
        """Name the folder; nothing is touched yet."""
        self.path = folder / host
        self.host = host
        self._lock = Lock(self.path, LOCK, who="run", host=host)

    # the lock

    def prepare(self) -> None:
        """Make the folder and see that a run's worth fits into it.

        Raises:
            StoreError: it cannot be made or written, or it is full.

        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".write-{os.getpid()}"
            descriptor = open_new(probe, 0o644)
            try:
                os.write(descriptor, b"x")
            finally:
                os.close(descriptor)
                probe.unlink()
            room = os.statvfs(self.path)
        except OSError as error:
            raise store_error(self.path, error) from error
        if room.f_frsize * room.f_bavail < ROOM_BYTES:
            full = OSError(errno.ENOSPC, f"less than {ROOM_BYTES // 1_000_000} MB are free")
            raise store_error(self.path, full)

    def lock(self, *, wait_s: float = 0.0, waiting: Callable[[str], None] | None = None) -> None:
        """Take the folder for this process; it is given back when the process ends.

        Args:
            wait_s: how long to wait for another run.
            waiting: told once, with who holds it, if there is a wait.

        Raises:
            BusyError: another run holds it.
            StoreError: the folder cannot be written.

        """
        self._lock.take(wait_s=wait_s, waiting=waiting)

    def unlock(self) -> None:
        """Give the folder back."""
        self._lock.give_back()

    # reading

    def ledgers(self) -> list[Path]:
        """List the files that are named as ledgers of this host."""
        try:
            names = sorted(path.name for path in self.path.iterdir())
        except OSError:
            return []
        return [self.path / name for name in names if _LEDGER_NAME.fullmatch(name)]

    def head(self) -> Head | None:
        """Read the head; None where there is none.

        Raises:
            LedgerError: it is damaged.

        """
        path = self.path / HEAD
        if not path.exists():
            return None
        return parse_head(readable(path), str(path))

    def tip(self) -> Ledger | None:
        """Find the newest ledger without a head: the one that no other follows; None if unclear."""
        row: dict[str, Ledger] = {}
        followed = set()
        for path in self.ledgers():
            try:
                ledger = read_ledger(path)
            except LedgerError:
                continue
            row[str(ledger.row["digest"])] = ledger
            if ledger.row["previous"] is not None:
                followed.add(str(ledger.row["previous"]["digest"]))
        tips = [ledger for digest, ledger in row.items() if digest not in followed]
        return tips[0] if len(tips) == 1 else None

    def set_head_aside(self) -> Path:
        """Keep a damaged head under another name, so that nothing of it is lost.

        Raises:
            StoreError: the folder cannot be written.

        """
        aside = self.path / f"{HEAD}.damaged"
        try:
            (self.path / HEAD).replace(aside)
        except OSError as error:
            raise store_error(self.path, error) from error
        return aside

    def newest(self) -> Ledger | None:
        """Read the ledger that the head names; None where there is no head.

        Raises:
            LedgerError: head or ledger is damaged, altered or missing.

        """
        head = self.head()
        return None if head is None else self.checked(head.file, head.sha256)

    def comparable(self, scope: str) -> Ledger | None:
        """Read the newest complete ledger of a scope or of everything; None where there is none.

        Raises:
            LedgerError: it is damaged, altered or missing.

        """
        head = self.head()
        scopes = {} if head is None else head.scopes
        found = [scopes[name] for name in dict.fromkeys((scope, ALL)) if name in scopes]
        entry = max(found, key=lambda entry: str(entry["ended_utc"]), default=None)
        return None if entry is None else self.checked(str(entry["file"]), str(entry["sha256"]))

    def checked(self, file: str, sha256: str) -> Ledger:
        """Read a ledger of this folder whose bytes are known by their digest.

        Raises:
            LedgerError: it is damaged, altered or missing.

        """
        path = self.path / file
        ledger = read_ledger(path)
        if ledger.sha256 != sha256:
            raise LedgerError(
                Problem(
                    file=str(path),
                    found="its bytes are not those that head.json names",
                    wanted=f"run `preflight verify {self.host}` to see what was altered",
                )
            )
        return ledger

    # writing

    def journal_path(self, run_id: str) -> Path:
        """Name the journal of a run."""
        return self.path / f"{PREFIX}{run_id}{SUFFIX}"

    def finish(self, journal: Path, ledger: Row, *, aside: bool = False) -> Path:
        """Write a ledger, make it the head, and remove its journal; each step whole or not at all.

        Args:
            journal: of this run.
            ledger: complete, with its digest.
            aside: for replays and rehearsals, which never become head.

        Raises:
            StoreError: the disk is full, or gone; the journal is still there then.
            LedgerError: the ledger is against its own schema (a bug; the journal is kept).

        """
        # a replay is no evidence, and made by the same steps: it saves its user the time
        replay = ledger["run"]["kind"] == "replay"
        wrong = [] if replay else problems(ledger, "the ledger of this run")
        if wrong:
            raise LedgerError(*wrong)
        name = ledger_name(ledger)
        data = pretty(ledger)
        try:
            folder = self.path / f"{ledger['run']['kind']}s" if aside else self.path
            folder.mkdir(exist_ok=True)
            path = _free_name(folder, name, str(ledger["run"]["id"]))
            write_whole(path, data)
            if not aside:
                self.set_head(ledger, path.name, data)
            journal.unlink(missing_ok=True)
            fsync_folder(self.path)
        except OSError as error:
            raise store_error(self.path, error) from error
        return path

    def set_head(self, ledger: Row, name: str, data: bytes) -> None:
        """Replace the head, by rename."""
        try:
            old = self.head()
        except LedgerError:
            old = None  # a damaged head is what this replaces; the run has said so already
        sha256 = hashlib.sha256(data).hexdigest()
        scope = ledger["run"]["scope"]
        complete = ledger["run"]["end"] == "complete"
        entry = scope_entry(ledger, name, sha256)
        scopes = old.scopes if old else {}
        head = Head(
            **head_fields(ledger, name, sha256),
            host=self.host,
            scopes={**scopes, scope: entry} if complete else scopes,
            unsettled=_unsettled(old, ledger, entry),
            newest_s=max(old.newest_s if old else 0.0, ended_s(ledger)),
        )
        write_whole(self.path / HEAD, pretty(head.to_json()))

    def narrow_head(self, files: set[str]) -> None:
        """Let the head speak of no other ledgers than these: nothing is compared with what is gone.

        Raises:
            LedgerError: the head is damaged.
            OSError: it cannot be written.

        """
        head = self.head()
        if head is None:
            return
        narrow = replace(
            head,
            scopes=_of_files(head.scopes, files),
            unsettled=None if head.unsettled is None else _of_files(head.unsettled, files),
        )
        if narrow != head:
            write_whole(self.path / HEAD, pretty(narrow.to_json()))

    # recovery

    def journals(self) -> list[Path]:
        """List the journals that runs have left behind, oldest first."""
        return journals(self.path)

    def recover(self, registry: Registry) -> list[tuple[Path, str]]:
        """Turn every journal that was left behind into an `interrupted` ledger.

        Call with the lock held. Gives each ledger's path and what happened.

        Raises:
            StoreError: the folder cannot be read or written.

        """
        try:
            for left in self.path.glob(".*.tmp"):
                if left.is_symlink() or not left.is_dir():  # a folder is none of ours
                    left.unlink(missing_ok=True)  # a write that a crash cut off before its rename
            return [self._recover(registry, path) for path in self.journals()]
        except OSError as error:
            raise store_error(self.path, error) from error

    def _recover(self, registry: Registry, path: Path) -> tuple[Path, str]:
        with path.open("rb") as file:
            raw = file.read(LARGEST_JOURNAL_BYTES)
            more = bool(file.read(1))
        remains = read_journal(raw, path.name)
        run_id = _id(path.name.removeprefix(PREFIX).removesuffix(SUFFIX))
        modified_s = path.stat().st_mtime
        finished = self._written(remains, run_id, modified_s)
        if finished is not None:
            return self._adopt(path, finished)
        ledger = rebuild(registry, remains, host=self.host, run_id=run_id, modified_s=modified_s)
        kind = ledger["run"]["kind"]
        if kind == "run":
            ledger = self._rechain(ledger)
        kept = path.with_name(path.name[:LONGEST_NAME] + ".damaged")
        if more:
            path.replace(kept)  # too large to copy
        elif remains.damage:
            write_whole(kept, raw, mode=path.stat().st_mode & 0o777)
        made = self.finish(path, ledger, aside=kind != "run")
        probes = (
            ", ".join(f"{name} [{subject}]" for name, subject in ledger["open_probes"]) or "none"
        )
        return made, f"recovered from its journal; probes that were open: {probes}"

    def _rechain(self, ledger: Row) -> Row:
        """Put a recovered run behind the ledger that is the newest now."""
        try:
            head = self.head()
        except LedgerError:
            return ledger
        if head is not None:
            ledger["previous"] = {"file": head.file, "digest": head.digest}
            ledger["digest"] = ledger_digest(ledger)
        return ledger

    def _written(self, remains: Remains, run_id: str, modified_s: float) -> Ledger | None:
        """Find the finished ledger of a run, or of a recovery, that died before its last step."""
        # what `rebuild` makes of a journal whose first line is lost is named after the file
        ids, stamps = {run_id}, {_stamp(utc_text(modified_s))}
        if remains.begin is not None:
            with suppress(KeyError, TypeError, AttributeError):
                run = remains.begin["run"]
                ids.add(str(run["id"]))
                stamps.add(_stamp(run["started_utc"]))
        folders = [self.path, self.path / "replays", self.path / "rehearsals"]
        for folder in filter(Path.is_dir, folders):
            for path in sorted(folder.iterdir()):
                if path.suffix != ".json" or path.name.partition("-")[0] not in stamps:
                    continue
                try:
                    ledger = read_ledger(path)
                except LedgerError:
                    continue
                if ledger.run["id"] in ids:
                    return ledger
        return None

    def _adopt(self, journal: Path, ledger: Ledger) -> tuple[Path, str]:
        """Take the steps that were left: head, then the journal's end."""
        path = Path(ledger.file)
        head = self.head()
        previous = ledger.row["previous"]
        # A journal that was put back with a copy of the folder is of a run that others follow by
        # now: its ledger must not become the newest again.
        follows = head is None or (previous is not None and previous["digest"] == head.digest)
        said = "its ledger was whole already"
        if ledger.run["kind"] == "run" and follows:
            self.set_head(ledger.row, path.name, path.read_bytes())
            said += "; the head was set"
        journal.unlink(missing_ok=True)
        fsync_folder(self.path)
        return path, said


def _id(text: str) -> str:
    """Make an id of what stands in the name of a journal, whoever named it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:64] or "unknown"


def _stamp(utc: str) -> str:
    """Basic ISO 8601, safe on every file system: 20261202T064500Z."""
    return utc[:19].replace("-", "").replace(":", "") + "Z"


def ledger_name(ledger: Row) -> str:
    """Name the file of a ledger."""
    run = ledger["run"]
    slots = [slot for slot in ledger["fingerprint"] if slot.startswith("gpu[")]
    sku = "cpu"
    if slots:
        kind = ledger["fingerprint"][slots[0]]["kind"]
        numbers = [str(kind.get(name) or "").removeprefix("0x") for name in ("vendor", "device")]
        model = str(kind.get("model") or "").removeprefix("NVIDIA ")
        sku = model or "-".join(filter(None, numbers)) or "gpu"
    parts = [_stamp(run["started_utc"]), ledger["host"], run["label"], run["ticket"]]
    parts += [f"{len(slots)}gpu", sku.lower(), run["verdict"]]
    return "-".join(_safe(part) for part in parts if part) + ".json"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60] or "x"


def _free_name(folder: Path, name: str, run_id: str) -> Path:
    """Give the path, with the run's id where a ledger of that name exists already."""
    path = first = folder / name
    number = 0
    while path.exists():
        number += 1
        path = first.with_name(
            f"{first.stem}-{run_id[:8]}{f'-{number}' if number > 1 else ''}.json"
        )
    return path


def rebuild(
    registry: Registry, remains: Remains, *, host: str, run_id: str, modified_s: float
) -> Row:
    """Make the `interrupted` ledger of a journal, whatever is left of it."""
    begin = remains.begin
    notices = []
    if remains.damage:
        notices.append(f"the journal is damaged: {remains.damage}; what stood behind it is lost")
    if begin is not None:
        try:
            return _rebuild(registry, begin, remains, notices)
        except Exception as error:  # noqa: BLE001 - whatever it holds, the host must not be stuck
            notices.append(f"the journal holds what no run writes: {type(error).__name__} {error}")
    else:
        notices.append("the journal's first line is not whole: no probe had started")
    empty = empty_begin(host=host, run_id=run_id, started_s=modified_s)
    bare = Remains(begin=empty, events=(), at_s=0.0, damage=remains.damage)
    return _rebuild(registry, empty, bare, notices)


def _rebuild(registry: Registry, begin: Row, remains: Remains, notices: list[str]) -> Row:
    started_s = float(begin["time"]["started_s"])
    ending = Ending(
        end="interrupted",
        by="its process ended without finishing: killed, crashed, a full disk, or a power cut",
        elapsed_s=remains.at_s,
        ended_utc=utc_text(started_s + remains.at_s),
    )
    begin = {**begin, "notices": [*begin["notices"], *notices]}
    ledger = assemble(registry, begin, remains.events, ending)
    wrong = problems(ledger, "the recovered ledger")
    if wrong:
        raise ValueError(str(wrong[0]))
    return dict(ledger)


def empty_begin(*, host: str, run_id: str, started_s: float) -> Row:
    """Give the first line of a run of which nothing is known."""
    return {
        "host": host,
        "run": {
            "id": _id(run_id),
            "kind": "run",
            "label": "",
            "ticket": "",
            "scope": "all",
            "controls": True,
            "started_utc": utc_text(started_s),
            "user_id": os.getuid(),
        },
        "versions": {
            "preflight": "",
            "commit": None,
            "source_sha256": "",
            "python": "",
            "packages": {},
        },
        "time": {
            "started_s": started_s,
            "boot_id": None,
            "up_s": None,
            "boot_offset_s": None,
            "synchronised": None,
        },
        "profile": {"file": "", "sha256": "", "content": encode(LOCAL)},
        "expectations": [],
        "previous": None,
        "planned": [],
        "notices": [],
    }
