"""Files of expectations that verbs write: whole or not at all, one writer at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from checks.core.errors import PreflightError
from checks.ledger.store import write_whole


class RefusedError(Exception):
    """Nothing is written; its text says why, and the way out."""


@contextmanager
def held(folder: Path, *, write: bool) -> Iterator[None]:
    """Let nobody else write to a folder of expectations; a file system without locks does without."""
    if not write:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> PreflightError:
    return PreflightError(
        f"{path}: cannot be written ({error.strerror or error}); permit it, or name a folder of "
        "your own with --expected DIR"
    )


def content(path: Path) -> bytes | None:
    """Read a file whole; None where there is none.

    Raises:
        PreflightError: it cannot be read.

    """
    try:
        return path.read_bytes() if os.path.lexists(path) else None
    except OSError as error:
        raise PreflightError(f"{path}: cannot be read ({error.strerror or error})") from error


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace a file, unless somebody has written to it meanwhile.

    Raises:
        RefusedError: somebody has.
        PreflightError: it cannot be written.

    """
    if content(path) != before:
        raise RefusedError(f"{path}: somebody has changed it meanwhile; try again")
    try:
        mode = 0o644 if before is None else path.stat().st_mode & 0o777
        # behind a link, the file that it leads to
        write_whole(path.resolve(), after, mode=mode)
    except OSError as error:
        raise _unwritable(path, error) from error


def put_back(path: Path, before: bytes | None) -> None:
    """Give a file the content that it had."""
    if before is None:
        path.unlink(missing_ok=True)
    else:
        write_whole(path.resolve(), before, mode=path.stat().st_mode & 0o777)
