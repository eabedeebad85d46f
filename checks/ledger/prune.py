"""Removes old ledgers and leaves a trace that `verify` accepts."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from checks.core.errors import PreflightError, StoreError
from checks.ledger.document import Ledger
from checks.ledger.files import fsync_folder, store_error, write_whole
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder
from checks.ledger.verify import PRUNED, verify_row

_FULL = (errno.ENOSPC, errno.EDQUOT)


def prune(folder: HostFolder, keep: int) -> list[str]:
    """Keep the newest `keep` ledgers of the row; give the names of those removed.

    Takes the lock. The trace is on disk before the first file goes, and by then the head speaks of
    none of them any more.

    Raises:
        BusyError: a run holds the folder.
        PreflightError: the row does not verify: nothing is removed then.
        StoreError: the folder cannot be written.

    """
    try:
        folder.lock()
        return _prune(folder, keep)
    except OSError as error:
        raise _store_error(folder, error) from error
    except StoreError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL:
            raise _store_error(folder, error.__cause__) from error
        raise
    finally:
        folder.unlock()


def _store_error(folder: HostFolder, error: OSError) -> StoreError:
    """Say what is wrong with the folder; that it is full is why somebody prunes."""
    if error.errno not in _FULL:
        return store_error(folder.path, error)
    return StoreError(
        f"{folder.path}: cannot be pruned ({error.strerror or error}).\n"
        "prune first notes what it is about to remove, and needs a few kB for that: remove "
        "something else on this file system, then prune again"
    )


def _prune(folder: HostFolder, keep: int) -> list[str]:
    report = verify_row(folder)
    if report.wrong:
        first = f"{folder.path}: this row is damaged; mend that before pruning:"
        raise PreflightError("\n".join([first, *report.wrong, report.notes[-1]]))
    row = _row(folder)
    if not row:
        return []
    old = row[keep:]
    if old:
        _leave_trace(folder, old)
    folder.narrow_head({Path(ledger.file).name for ledger in row[:keep]})
    for ledger in reversed(old):
        Path(ledger.file).unlink()
    fsync_folder(folder.path)
    return [Path(ledger.file).name for ledger in reversed(old)]


def _leave_trace(folder: HostFolder, old: list[Ledger]) -> None:
    """Add a line for each ledger that goes: the whole trace or none of it, also on a full disk."""
    path = folder.path / PRUNED
    known = path.read_bytes().splitlines() if path.exists() else []
    lines = [
        json.dumps(
            {
                "file": Path(ledger.file).name,
                "digest": ledger.row["digest"],
                "previous": ledger.row["previous"],
                "verdict": ledger.run["verdict"],
            },
            sort_keys=True,
        ).encode()
        for ledger in reversed(old)
    ]
    # one that was cut off after its trace names the same ledgers again
    added = [line for line in lines if line not in known]
    write_whole(path, b"".join(line + b"\n" for line in [*known, *added]))


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
