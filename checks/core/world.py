"""The outermost edge: the machine, or a recorded tree of another one.

A recorded tree is a folder with `proc/`, `sys/`, `etc/`, `dev/` and so on, and beside them
`recorded.json` for what no file shows (the wall clock, free room, the environment):

    {"now_s": 1764657351.0, "boot_s": 489.1, "pid": 4242, "environ": {"TMPDIR": "/tmp"},
     "uname": {"machine": "x86_64", "release": "6.8.0", "node": "h100-1"},
     "statvfs": {"/tmp": {"total_bytes": 0, "free_bytes": 0, "inodes": 0, "inodes_free": 0}}}

A row of `statvfs` may also hold `access`, with the fields of checks.core.facts.Access. Further keys:
`pip_check` (path of an interpreter = `code` and `output` of its `pip check`; 127 where there is
none, 126 where it does not start),
`modified_s` (path = when it was changed, seconds since 1970; with this table, the files' own dates
count for nothing), `ledger_folder` (path), `adjtimex` (status, maxerror and esterror of `struct timex`; or
`adjtimex_status`, the first alone), `locks` (path = `ok`, the name of the error, such as `ENOLCK`, or `hang`).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from checks.core.child import call_all
from checks.core.codec import LARGEST_INT, CodecError, decode
from checks.core.errors import Problem, ProfileError
from checks.core.facts import Access, Blind, Facts, Unseen

LARGEST_READ_BYTES = 1_000_000
RECORDED = "recorded.json"
LARGEST_NUMBER = 1e300
"""json reads NaN, Infinity and integers beyond every float; none of them is a time."""
LARGEST_RECORD_BYTES = 8_192
"""Of /dev/kmsg: a smaller buffer is refused (PRINTK_MESSAGE_MAX 2048, CONSOLE_EXT_LOG_MAX 8192)."""
LOCK_S = 4.0
"""How long a lock may take. A local one takes microseconds, one over a network milliseconds."""
MOST_LINKS = 40
"""As many symbolic links as the kernel follows in one path (MAXSYMLINKS of linux/namei.h)."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much fits on a file system, for this user."""

    path: str
    """What was looked at: the folder, or its nearest parent that is there."""
    total_bytes: int
    free_bytes: int
    inodes: int
    """0 where the file system has no fixed number of them."""
    inodes_free: int
    access: Access | Unseen


@dataclass(frozen=True, kw_only=True)
class Uname:
    """What the kernel calls itself and the machine."""

    machine: str
    release: str
    node: str


@dataclass(frozen=True, kw_only=True)
class Timex:
    """What the kernel says of the discipline of its clock (adjtimex(2))."""

    status: int
    """STA_* bits of <sys/timex.h>."""
    maxerror_s: float | Unseen
    """How far the clock may be off at most, as far as whoever disciplines it knows."""
    esterror_s: float | Unseen
    """How far it is estimated to be off."""


@dataclass(frozen=True, kw_only=True)
class LockTrial(Facts):
    """What came of locking a new file (flock(2))."""

    outcome: str
    """`ok`, or the name of the error."""
    waited_s: float


class World:
    """Reads files, clocks and sizes; judges nothing, and leaves everything as it was."""

    def __init__(self, root: Path = Path("/"), *, ledger_folder: str = "") -> None:
        """Look at the machine itself (`/`), or at a recorded tree.

        Args:
            root: top of the tree.
            ledger_folder: where this run writes; part of what is looked at.

        Raises:
            ProfileError: the tree has no readable `recorded.json`.

        """
        self.root = root
        self.ledger_folder = ledger_folder
        self.recorded: dict[str, Any] | None = None
        if root != Path("/"):
            self.recorded = _read_recorded(root / RECORDED)
            self.ledger_folder = str(self.recorded.get("ledger_folder", ""))

    @property
    def live(self) -> bool:
        """Whether this is the machine itself."""
        return self.recorded is None

    def path(self, path: str) -> Path:
        """Where a path of the box lies.

        Raises:
            OSError: the links of a recorded tree lead nowhere.

        """
        return Path(path) if self.live else _inside(self.root, path)

    def read(self, path: str, first_bytes: int = LARGEST_READ_BYTES) -> str | Unseen:
        """Read a small text file; NUL bytes and bad UTF-8 are kept visible, not refused.

        Args:
            path: of the file.
            first_bytes: how much of its beginning is enough.

        """
        raw = self.raw(path, first_bytes)
        return raw if isinstance(raw, Unseen) else raw.decode("utf-8", "backslashreplace")

    def raw(self, path: str, first_bytes: int = LARGEST_READ_BYTES) -> bytes | Unseen:
        """Read a small file; of a larger one its beginning."""
        try:
            # Not Path.open: a FIFO or a device in a recorded tree would block without O_NONBLOCK.
            descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            return blind(error, path)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                return Unseen(Blind.MALFORMED, f"{path} is not a file")
            raw = b""
            while len(raw) < first_bytes:
                chunk = os.read(descriptor, min(65_536, first_bytes))
                if not chunk:
                    break
                raw += chunk
        except OSError as error:
            return blind(error, path)
        finally:
            os.close(descriptor)
        return raw

    def line(self, path: str) -> str | Unseen:
        """Read a file of one value, stripped; an empty one is malformed, never a value."""
        text = self.read(path)
        if isinstance(text, Unseen):
            return text
        value = text.replace("\x00", "").strip()
        return value or Unseen(Blind.MALFORMED, f"{path} is empty")

    def names(self, path: str) -> tuple[str, ...] | Unseen:
        """List a folder, sorted."""
        try:
            return tuple(sorted(entry.name for entry in self.path(path).iterdir()))
        except NotADirectoryError as error:
            if self.exists(path):
                return Unseen(Blind.MALFORMED, f"{path} is not a folder")
            return blind(error, path)
        except (OSError, ValueError) as error:
            return blind(error, path)

    def link(self, path: str) -> str | Unseen:
        """Read where a symbolic link points."""
        try:
            folder, _, name = path.rpartition("/")
            return os.readlink(self.path(folder) / name)  # noqa: PTH115 - raw, also `socket:[1]`
        except (OSError, ValueError) as error:
            return blind(error, path)

    def resolved(self, path: str) -> str | Unseen:
        """Follow all symbolic links of a path, as far as it is there."""
        try:
            place = _inside(self.root, path)
        except (OSError, ValueError) as error:
            return blind(error, path)
        return "/" + str(place.relative_to(self.root)).removeprefix(".")

    def exists(self, path: str) -> bool:
        """Whether something is there (and this user can see it)."""
        try:
            return self.path(path).exists()
        except (OSError, ValueError):
            return False

    def modified_s(self, path: str) -> float | Unseen:
        """When a file was last changed, in seconds since 1970."""
        if self.recorded is not None and "modified_s" in self.recorded:
            # a copy of the tree dates its files anew, so this table then speaks for all of them
            if path not in self.recorded["modified_s"]:
                return Unseen(Blind.NOT_RECORDED, f"modified_s of {path}")
            return _as_number(self.recorded["modified_s"][path], f"modified_s of {path}")
        try:
            return self.path(path).stat().st_mtime
        except (OSError, ValueError) as error:
            return blind(error, path)

    def now_s(self) -> float | Unseen:
        """Wall clock, in seconds since 1970 (UTC)."""
        return time.time() if self.live else self._number("now_s")

    def boot_s(self) -> float | Unseen:
        """Seconds since boot, suspended time included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if self.live else self._number("boot_s")

    def adjtimex(self) -> Timex | Unseen:
        """What the kernel says of the discipline of its clock."""
        if not self.live:
            return _recorded_timex(self.recorded or {})
        kept = _KernelTimex()
        try:
            result = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(kept))
        except (OSError, AttributeError) as error:
            return Unseen(Blind.UNSUPPORTED, f"adjtimex: {error}")
        if result < 0:
            number = ctypes.get_errno()
            return blind(OSError(number, os.strerror(number)), "adjtimex")
        return Timex(
            status=kept.status,
            maxerror_s=kept.maxerror / _TIMEX_PER_S,
            esterror_s=kept.esterror / _TIMEX_PER_S,
        )

    def kernel_records(self) -> Iterator[str | Unseen]:
        """Give the records of the kernel's log (/dev/kmsg), oldest first; at the end perhaps a reason.

        Those that are overwritten while they are read are left out.
        """
        if not self.live:
            text = self.read("/dev/kmsg")
            yield from [text] if isinstance(text, Unseen) else text.splitlines()
            return
        try:
            descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            yield blind(error, "/dev/kmsg")
            return
        try:
            while True:
                try:
                    record = os.read(descriptor, LARGEST_RECORD_BYTES)
                except BlockingIOError:
                    return  # all that there is so far
                except BrokenPipeError:
                    continue  # overwritten meanwhile; the next read goes on behind the gap
                except OSError as error:
                    yield blind(error, "/dev/kmsg")
                    return
                if not record:
                    return
                yield record.decode("utf-8", "backslashreplace")
        finally:
            os.close(descriptor)

    def try_lock(self, path: str) -> LockTrial | Unseen:
        """Lock a new file in a folder, or in its nearest parent that is there; nothing of it stays.

        Not where this user may not write, and not in what is mounted read-only.
        """
        if not self.live:
            return self._recorded_lock(path)
        room = self.room(path)
        if isinstance(room, Unseen):
            return room
        if isinstance(room.access, Unseen):
            return room.access
        if room.access.read_only:
            return Unseen(Blind.UNSUPPORTED, f"{room.path} is mounted read-only")
        if not room.access.is_folder or not room.access.writable:
            return Unseen(Blind.PERMISSION, f"this user may not write in {room.path}")
        try:
            descriptor = _nameless_file(room.path)
        except OSError as error:
            return blind(error, f"a new file in {room.path}")
        try:
            # in a process of its own: a lock that hangs is told from a folder that does
            ((_, answer),) = call_all({"": (partial(_lock, descriptor), LOCK_S)})
        finally:
            os.close(descriptor)
        if isinstance(answer.data, Unseen):
            return answer.data
        return decode(LockTrial, answer.data)

    def pid(self) -> int | Unseen:
        """Number of the process whose place is `this`."""
        if self.live:
            return os.getpid()
        number = self._number("pid")
        return number if isinstance(number, Unseen) else int(number)

    def uname(self) -> Uname | Unseen:
        """What the kernel calls itself."""
        if self.live:
            seen = os.uname()
            return Uname(machine=seen.machine, release=seen.release, node=seen.nodename)
        recorded = (self.recorded or {}).get("uname")
        if not isinstance(recorded, dict):
            return Unseen(Blind.NOT_RECORDED, f"uname is not in {RECORDED}")
        text = {key: str(recorded.get(key, "")) for key in ("machine", "release", "node")}
        return Uname(**text)

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """Environment of this process, or the recorded one."""
        if self.live:
            return os.environ
        recorded = (self.recorded or {}).get("environ", {})
        return {str(key): str(value) for key, value in recorded.items()}

    def room(self, path: str) -> Room | Unseen:
        """How much fits below a path; of its nearest parent that exists."""
        if not self.live:
            return self._recorded_room(path)
        place = Path(path)
        dangling = False
        while True:
            try:
                seen = os.statvfs(place)
                status = place.stat()
            except (FileNotFoundError, NotADirectoryError):
                if place == place.parent:
                    return Unseen(Blind.ABSENT, f"{path} and all its parents are absent")
                # nobody can make a folder where a link stands, wherever the link leads
                dangling = dangling or place.is_symlink()
                place = place.parent
            except (OSError, ValueError) as error:
                return blind(error, path)
            else:
                return Room(
                    path=str(place),
                    total_bytes=seen.f_frsize * seen.f_blocks,
                    free_bytes=seen.f_frsize * seen.f_bavail,
                    inodes=seen.f_files,
                    inodes_free=seen.f_favail,
                    access=Access(
                        exists=place == Path(path),
                        is_folder=stat.S_ISDIR(status.st_mode) and not dangling,
                        # what is created in a folder also has to be found there, which is `x`
                        writable=os.access(place, os.W_OK | os.X_OK),
                        read_only=bool(seen.f_flag & os.ST_RDONLY),
                        device=f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}",
                        user=f"uid {os.getuid()}",
                    ),
                )

    def room_at(self, path: str) -> Room | Unseen:
        """How much fits on the file system of a folder that is there; of no parent of it."""
        if self.recorded is not None and path not in self.recorded.get("statvfs", {}):
            return Unseen(Blind.NOT_RECORDED, f"statvfs of {path} is not in {RECORDED}")
        room = self.room(path)
        if isinstance(room, Room) and room.path != path:
            return Unseen(Blind.ABSENT, f"{path} is absent")
        return room

    def _recorded_room(self, path: str) -> Room | Unseen:
        recorded = (self.recorded or {}).get("statvfs", {})
        place = path.rstrip("/") or "/"
        while place not in recorded and place not in ("/", ""):
            place = place.rpartition("/")[0] or "/"
        row = recorded.get(place)
        try:
            return Room(
                path=path,
                total_bytes=int(row["total_bytes"]),
                free_bytes=int(row["free_bytes"]),
                inodes=int(row["inodes"]),
                inodes_free=int(row["inodes_free"]),
                # that of a parent says nothing of the folder
                access=_access(row, path) if place == path else _no_access(path),
            )
        except (TypeError, KeyError, ValueError, OverflowError):
            return Unseen(Blind.NOT_RECORDED, f"statvfs of {path} is not in {RECORDED}")

    def _recorded_lock(self, path: str) -> LockTrial | Unseen:
        locks = (self.recorded or {}).get("locks", {})
        place = path.rstrip("/") or "/"
        while place not in locks and place != "/":
            place = place.rpartition("/")[0] or "/"
        outcome = locks.get(place)
        if outcome == "hang":
            return Unseen(Blind.TIMED_OUT, "recorded: no answer")
        if not isinstance(outcome, str) or not outcome:
            return Unseen(Blind.NOT_RECORDED, f"locks of {path} are not in {RECORDED}")
        return LockTrial(outcome=outcome, waited_s=0.0)

    def _number(self, key: str) -> float | Unseen:
        return _as_number((self.recorded or {}).get(key), key)


_TIMEX_PER_S = 1_000_000
"""struct timex counts errors in microseconds."""


class _KernelTimex(ctypes.Structure):
    # struct timex of <sys/timex.h>; the rest is room for what is not read
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _recorded_timex(recorded: Mapping[str, Any]) -> Timex | Unseen:
    row = recorded.get("adjtimex")
    if row is None and "adjtimex_status" in recorded:
        row = {"status": recorded["adjtimex_status"]}
    if row is None:
        return Unseen(Blind.NOT_RECORDED, f"adjtimex is not in {RECORDED}")
    if not isinstance(row, dict) or not _is_count(row.get("status")):
        return Unseen(Blind.MALFORMED, f"adjtimex in {RECORDED} has no status")
    maxerror_s, esterror_s = (
        row[name] / _TIMEX_PER_S
        if _is_count(row.get(name))
        else Unseen(Blind.NOT_RECORDED, f"{name} of adjtimex is not in {RECORDED}")
        for name in ("maxerror", "esterror")
    )
    return Timex(status=row["status"], maxerror_s=maxerror_s, esterror_s=esterror_s)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_INT


def _nameless_file(folder: str) -> int:
    """Make a file that has no name, or none any more: nothing is left behind whatever happens.

    Raises:
        OSError: no file can be made there.

    """
    flags = os.O_RDWR | os.O_CLOEXEC
    with suppress(OSError):  # many file systems have no O_TMPFILE (NFS, FUSE), nor had old kernels
        return os.open(folder, flags | os.O_TMPFILE, 0o600)
    path = f"{folder}/.preflight-{secrets.token_hex(8)}"
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.unlink(path)  # noqa: PTH108 - beside os.open
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int) -> LockTrial:
    started_s = time.monotonic()
    outcome = "ok"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        outcome = errno.errorcode.get(error.errno or 0, str(error.errno))
    return LockTrial(outcome=outcome, waited_s=round(time.monotonic() - started_s, 6))


def _access(row: dict[str, Any], path: str) -> Access | Unseen:
    if "access" not in row:
        return _no_access(path)
    try:
        return decode(Access, row["access"])
    except CodecError as error:
        return Unseen(Blind.MALFORMED, f"access of {path} in {RECORDED}: {error}")


def _no_access(path: str) -> Unseen:
    return Unseen(Blind.NOT_RECORDED, f"access of {path} is not in {RECORDED}")


def _as_number(value: object, what: str) -> float | Unseen:
    if value is None:
        return Unseen(Blind.NOT_RECORDED, f"{what} is not in {RECORDED}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) < LARGEST_NUMBER:  # type: ignore[arg-type]
        return Unseen(Blind.MALFORMED, f"{what} is no number in {RECORDED}")
    return float(value)  # type: ignore[arg-type]


def _inside(root: Path, path: str) -> Path:
    """Follow a path as the recorded box would: its absolute links lead into the tree, not out of it.

    Else the run would read this machine's files, and take them for the other box's.
    """
    ahead = path.split("/")[::-1]
    done: list[str] = []
    top = str(root)
    links = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1]
            continue
        try:
            # texts, not paths: this runs for each folder of each path that is read
            target = os.readlink("/".join((top, *done, part)))  # noqa: PTH115
        except (OSError, ValueError):
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            done = []
        ahead += target.split("/")[::-1]
    return root.joinpath(*done)


def blind(error: Exception, path: str) -> Unseen:
    """Turn an error of the operating system into a reason."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
        return Unseen(Blind.ABSENT, f"{path} is absent")
    if number in (errno.EACCES, errno.EPERM):
        remedy = (
            "run as root to see it"
            if os.geteuid()
            else "run on the host itself: this container, or a lock-down of the kernel, forbids it"
        )
        return Unseen(Blind.PERMISSION, f"{path} may not be read", remedy)
    return Unseen(Blind.MALFORMED, f"{path}: {getattr(error, 'strerror', None) or error}")


def _read_recorded(path: Path) -> dict[str, Any]:
    wanted = (
        "a recorded tree holds recorded.json with now_s, boot_s, uname, … (see checks.core.world)"
    )
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ProfileError(Problem(file=str(path), found=str(error), wanted=wanted)) from error
    shape = {"environ": dict, "statvfs": dict, "modified_s": dict, "uname": dict, "locks": dict}
    if not isinstance(data, dict):
        raise ProfileError(Problem(file=str(path), found="not an object", wanted=wanted))
    for key, kind in shape.items():
        if not isinstance(data.get(key, kind()), kind):
            raise ProfileError(
                Problem(file=str(path), key=key, found="not an object", wanted=wanted)
            )
    return data
