"""The journal: one line, flushed to disk, before a probe starts and when it ends.

A line is `{"crc": …, "at_s": …, "event": …, …}`; the checksum tells a torn or altered line.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from checks.core.codec import Json, encode
from checks.core.errors import LedgerError, Problem
from checks.core.facts import Observation
from checks.core.finding import Finding
from checks.core.runner import ControlOutcome
from checks.core.signals import held
from checks.ledger.canonical import parse
from checks.ledger.document import Row, write_observation
from checks.ledger.files import fsync_folder, store_error

EVENTS = ("begin", "open", "seen", "control", "found", "not-run")


def _line(row: Row) -> bytes:
    body = json.dumps(row, ensure_ascii=False, allow_nan=False, sort_keys=True).encode("utf-8")
    return b"%08x %s\n" % (zlib.crc32(body), body)


class Journal:
    """Appends events to a file, each flushed to disk before the call returns, and keeps them."""

    def __init__(self, path: Path, begin: Row, *, durable: bool = True) -> None:
        """Create the journal with its first line; only a durable one waits for the disk.

        Raises:
            StoreError: the folder cannot be written.

        """
        self.path = path
        self.begin = begin
        self.durable = durable
        self.events: list[Row] = []
        self.started_s = time.monotonic()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o644)
            self._append({"event": "begin", "at_s": 0.0, **begin})
            fsync_folder(path.parent)
        except OSError as error:
            raise store_error(path.parent, error) from error

    def elapsed_s(self) -> float:
        """Monotonic seconds since the journal was begun."""
        return round(time.monotonic() - self.started_s, 6)

    def _append(self, row: Row) -> None:
        data = _line(row)
        while data:
            data = data[os.write(self._descriptor, data) :]
        if self.durable:
            os.fsync(self._descriptor)

    def add(self, event: str, **fields: Json) -> None:
        """Write one event.

        Raises:
            StoreError: the disk is full, or gone.

        """
        row: Row = {"event": event, "at_s": self.elapsed_s(), **fields}
        # A signal between the two would give a ledger that knows less than its journal, or half a
        # line; the disk keeps it waiting no longer than it would have anyway.
        with held():
            try:
                self._append(row)
            except OSError as error:
                raise store_error(self.path.parent, error) from error
            self.events.append(row)

    # what the runner calls (core.runner.Recorder)

    def opened(self, probe: str, subjects: Iterable[str]) -> None:
        """Record that a probe is about to start."""
        self.add("open", probe=probe, subjects=list(subjects))

    def seen(self, observation: Observation) -> None:
        """Record what a probe saw."""
        self.add("seen", observation=write_observation(observation))

    def controlled(self, outcome: ControlOutcome) -> None:
        """Record how the controls of a check came out."""
        self.add("control", outcome=encode(outcome))

    def found(self, finding: Finding, elapsed_s: float, *, answers: str = "") -> None:
        """Record a finding, and the planned subject that it completes."""
        row = finding.to_json()
        self.add("found", finding=row, elapsed_s=round(elapsed_s, 6), answers=answers)

    def not_run(self, check: str, subject: str, why: str) -> None:
        """Record that a check will not run."""
        self.add("not-run", check=check, subject=subject, why=why)

    def close(self) -> None:
        """Close the file; it stays until the ledger is written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True, kw_only=True)
class Remains:
    """What a journal holds, up to its first line that is torn or altered."""

    begin: Row | None
    """None where not even the first line is whole: then no probe had started."""
    events: tuple[Row, ...]
    at_s: float
    """Moment of the last whole line, in seconds since the start."""
    damage: str
    """What is wrong with the rest; empty where every line is whole."""


def read_journal(raw: bytes, name: str) -> Remains:
    """Read as much of a journal as is whole. Takes any bytes; raises nothing."""
    begin: Row | None = None
    events: list[Row] = []
    at_s = 0.0
    damage = ""
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line:
            continue
        try:
            row = _parse_line(line, f"{name}:{number}", first=begin is None)
        except LedgerError as error:
            damage = f"line {number} is torn or altered ({error.problems[0].found})"
            break
        at_s = max(at_s, float(row["at_s"]))
        if begin is None:
            begin = row
        else:
            events.append(row)
    return Remains(begin=begin, events=tuple(events), at_s=at_s, damage=damage)


def _parse_line(line: bytes, name: str, *, first: bool) -> Row:
    def complain(found: str) -> LedgerError:
        return LedgerError(Problem(file=name, found=found, wanted="a line as it was written"))

    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        raise complain("its checksum does not fit")
    row = parse(body, name)
    if not isinstance(row, dict) or row.get("event") not in EVENTS:
        raise complain("it is no event")
    if not isinstance(row.get("at_s"), int | float):
        raise complain("it has no time")
    if (row["event"] == "begin") is not first:
        raise complain("it is out of order")
    return row
