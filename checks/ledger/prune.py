"""Removes old ledgers and leaves a trace that `verify` accepts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from checks.core.errors import LedgerError, Problem
from checks.ledger.document import Ledger
from checks.ledger.journal import fsync_folder, store_error
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder
from checks.ledger.verify import PRUNED, verify_row


def prune(folder: HostFolder, keep: int) -> list[str]:
    """Keep the newest `keep` ledgers of the row; give the names of those removed.

    Call with the lock held. The trace is on disk before the first file goes.

    Raises:
        LedgerError: the row does not verify: nothing is removed then.
        StoreError: the folder cannot be written.

    """
    report = verify_row(folder)
    if report.wrong:
        raise LedgerError(
            *(
                Problem(file=str(folder.path), found=wrong, wanted="mend that before pruning")
                for wrong in report.wrong
            )
        )
    row = _row(folder)
    old = row[keep:]
    if not old:
        return []
    try:
        with (folder.path / PRUNED).open("ab") as trace:
            for ledger in reversed(old):
                line = {
                    "file": Path(ledger.file).name,
                    "digest": ledger.row["digest"],
                    "previous": ledger.row["previous"],
                    "verdict": ledger.run["verdict"],
                }
                trace.write(json.dumps(line, sort_keys=True).encode() + b"\n")
            trace.flush()
            os.fsync(trace.fileno())
        for ledger in reversed(old):
            Path(ledger.file).unlink()
        fsync_folder(folder.path)
    except OSError as error:
        raise store_error(folder.path, error) from error
    return [Path(ledger.file).name for ledger in reversed(old)]


def _row(folder: HostFolder) -> list[Ledger]:
    """List the row of ledgers, newest first."""
    head = folder.head()
    by_name = {path.name: path for path in folder.ledgers()}
    row: list[Ledger] = []
    name = head.file if head else None
    while name in by_name:
        ledger = read_ledger(by_name[str(name)])
        row.append(ledger)
        name = ledger.row["previous"]["file"] if ledger.row["previous"] else None
    return row
