"""Files of a folder that others may write too: written whole, never through a link; read as files only."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from checks.core.errors import StoreError

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens what is not there yet, and never what a link leads to."""
PREFIX = "journal-"
SUFFIX = ".jsonl"
"""Of the names of journals."""
_CHUNK_BYTES = 1 << 20


def store_error(folder: Path, error: OSError) -> StoreError:
    """Say what is wrong with a folder of ledgers, and what to do."""
    return StoreError(
        f"{folder}: ledgers cannot be written here ({error.strerror or error}).\n"
        "Earlier ledgers are untouched. Free some room or permit writing, or name another "
        "folder: --ledger-dir DIR"
    )


def fsync_folder(folder: Path) -> None:
    """Flush a folder, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_new(path: Path, mode: int) -> int:
    """Open a file that is not there yet; what an earlier process of this number left goes first."""
    try:
        return os.open(path, NEW_FILE, mode)
    except FileExistsError:
        path.unlink()
        return os.open(path, NEW_FILE, mode)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that it is there whole or not at all: write, flush, rename, flush the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = open_new(temporary, mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def journals(folder: Path) -> list[Path]:
    """List the journals that runs have left in a folder, oldest first."""
    # files alone: a pipe of that name would wait for ever, a device give bytes for ever
    # and no links: what they lead to may be secret, and its remains are readable by all
    found = [
        path
        for path in folder.glob(f"{PREFIX}*{SUFFIX}")
        if path.is_file() and not path.is_symlink()
    ]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Read a file that is a file of its own: a link is not followed, a pipe not waited for.

    Raises:
        OSError: it is not there, may not be read, is no plain file, or is larger than that.

    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no plain file", str(path))
        parts: list[bytes] = []
        left = most_bytes + 1  # it may grow while it is read
        while left and (part := os.read(descriptor, min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    if not left:
        raise OSError(errno.EFBIG, f"is larger than {most_bytes} bytes", str(path))
    return b"".join(parts)
