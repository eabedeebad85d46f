"""When a host's gate was last opened with --commit: a small file beside the head."""

from __future__ import annotations

from pathlib import Path

from checks.core.errors import LedgerError, Problem
from checks.core.moment import utc_s, utc_text
from checks.ledger.canonical import parse, pretty
from checks.ledger.files import read_plain, write_whole

STATE = "gate.json"
STATE_SCHEMA = "preflight-gate/1"
_LARGEST_BYTES = 4_096


def last_opening_s(folder: Path) -> float | None:
    """Read when the gate was last opened, in seconds since 1970; None where it never was.

    Raises:
        LedgerError: the file is damaged, or may not be read.

    """
    path = folder / STATE
    wanted = "remove it: the gate then counts as never opened"
    try:
        raw = read_plain(path, _LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise LedgerError(Problem(file=str(path), found=found, wanted=wanted)) from error
    value = parse(raw, str(path))
    opened = value.get("opened_utc") if isinstance(value, dict) else None
    opened_s = utc_s(opened) if isinstance(opened, str) else None
    if opened_s is None or value != {"schema": STATE_SCHEMA, "opened_utc": opened}:
        found = "is no state that a gate writes"
        raise LedgerError(Problem(file=str(path), found=found, wanted=wanted))
    return opened_s


def record_opening(folder: Path, at_s: float) -> None:
    """Record an opening.

    Raises:
        OSError: the folder cannot be written.

    """
    state = {"schema": STATE_SCHEMA, "opened_utc": utc_text(at_s)}
    write_whole(folder / STATE, pretty({**state}))
