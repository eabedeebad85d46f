"""The lock of a host's folder: flock, and on a file system without locks a file with the holder's name."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from checks.core.errors import BusyError, StoreError
from checks.core.moment import utc_text
from checks.ledger.files import NEW_FILE, store_error

LOCK = ".lock"
"""Of the runs of a host."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)

_LOCKED: set[int] = set()
"""Descriptors of the locks that this process holds."""


def _let_go() -> None:
    """Leave the locks to the parent: a probe that nothing can end must not keep a folder."""
    while _LOCKED:
        os.close(_LOCKED.pop())


os.register_at_fork(after_in_child=_let_go)


class Lock:
    """A lock in a folder; it is given back when the process ends."""

    def __init__(self, folder: Path, name: str, *, who: str, host: str) -> None:
        """Name it; nothing is touched yet.

        Args:
            folder: where it lies.
            name: of its file; on a file system without locks, `<name>-held` says who holds it.
            who: what takes it, such as `run`, for the texts.
            host: whose folder it is, for the texts.

        """
        self.folder = folder
        self.file = folder / name
        self.held_file = folder / f"{name}-held"
        self.who = who
        self.host = host
        self._descriptor = -1
        self._held = False

    def take(self, *, wait_s: float = 0.0, waiting: Callable[[str], None] | None = None) -> None:
        """Take it for this process.

        Args:
            wait_s: how long to wait for another one.
            waiting: told once, with who holds it, if there is a wait.

        Raises:
            BusyError: another one holds it.
            StoreError: the folder cannot be written.

        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.file, flags, 0o644)
            _LOCKED.add(self._descriptor)
            plain = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise store_error(self.folder, error) from error
            plain = False
        if not plain:
            # somebody else's file behind a link must not be written to
            self.give_back()
            raise StoreError(f"{self.file}: is no plain file, so no lock; remove it")
        end_s = time.monotonic() + wait_s
        told = False
        while True:
            try:
                self._take()
            except BlockingIOError as error:
                note = self._holder()
                holder = f" ({note})" if note else ""  # it has not written it yet
                other = f"another {self.who} of {self.host}"
                if waiting and wait_s and not told:
                    waiting(f"{other} is under way{holder}; waiting for it")
                    told = True
                if time.monotonic() >= end_s:
                    self.give_back()
                    raise BusyError(
                        f"{self.folder}: {other} is still under way{holder}.\n"
                        f"Wait for it or stop it; or use another --ledger-dir{self._if_gone()}"
                    ) from error
                time.sleep(0.1)
            except OSError as error:
                raise store_error(self.folder, error) from error
            else:
                break
        with suppress(OSError):  # on a full disk the lock holds all the same; only its note is lost
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, _own_note().encode(), 0)

    def _take(self) -> None:
        """Take the lock or raise BlockingIOError.

        A file system without locks has names: who creates the file first has the folder.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            if _is_gone(self._holder()):
                self.held_file.unlink(missing_ok=True)
            try:
                descriptor = os.open(self.held_file, NEW_FILE, 0o644)
            except FileExistsError:
                raise BlockingIOError(errno.EAGAIN, "held") from None
            try:
                os.write(descriptor, _own_note().encode())
            finally:
                os.close(descriptor)
            self._held = True

    def _holder(self) -> str:
        """Say who holds it, as far as that is known."""
        with suppress(OSError):
            return self._holder_by_name()
        return os.pread(self._descriptor, 200, 0).decode("utf-8", "replace").strip()

    def _holder_by_name(self) -> str:
        return self.held_file.read_bytes()[:200].decode("utf-8", "replace").strip()

    def _if_gone(self) -> str:
        held = os.path.lexists(self.held_file)
        return f"; if that {self.who} is gone, remove {self.held_file}" if held else ""

    def is_taken(self) -> bool:
        """Whether somebody holds it just now; changes nothing on disk.

        Raises:
            OSError: the folder cannot be read.

        """
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self.file, flags)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            try:
                return not _is_gone(self._holder_by_name())
            except FileNotFoundError:
                return False
        finally:
            os.close(descriptor)
        return False

    def give_back(self) -> None:
        """Give it back."""
        if self._held:
            self._held = False
            with suppress(OSError):
                self.held_file.unlink(missing_ok=True)
        if self._descriptor in _LOCKED:
            _LOCKED.remove(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1


def _own_note() -> str:
    return f"pid {os.getpid()} on {os.uname().nodename}, since {utc_text(time.time())}"


def _is_gone(note: str) -> bool:
    """Whether the process that left this note ran on this box and runs no more."""
    found = re.fullmatch(r"pid ([0-9]{1,10}) on (\S*), since \S+", note)
    if found is None or found[2] != os.uname().nodename:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
