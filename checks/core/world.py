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
count for nothing), `ledger_folder` (path), `adjtimex_status` (the bits of `struct timex`).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from checks.core.codec import CodecError, decode
from checks.core.errors import Problem, ProfileError
from checks.core.facts import Access, Blind, Unseen

LARGEST_READ_BYTES = 1_000_000
RECORDED = "recorded.json"
LARGEST_NUMBER = 1e300
"""json reads NaN, Infinity and integers beyond every float; none of them is a time."""
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


class World:
    """Reads files, clocks and sizes; judges nothing, changes nothing."""

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

    def read(self, path: str) -> str | Unseen:
        """Read a small text file; NUL bytes and bad UTF-8 are kept visible, not refused."""
        raw = self.raw(path)
        return raw if isinstance(raw, Unseen) else raw.decode("utf-8", "backslashreplace")

    def raw(self, path: str) -> bytes | Unseen:
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
            while len(raw) < LARGEST_READ_BYTES:
                chunk = os.read(descriptor, 65_536)
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

    def _number(self, key: str) -> float | Unseen:
        return _as_number((self.recorded or {}).get(key), key)


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
    links = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1]
            continue
        try:
            target = os.readlink(root.joinpath(*done, part))  # noqa: PTH115 - may be any text
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
    shape = {"environ": dict, "statvfs": dict, "modified_s": dict, "uname": dict}
    if not isinstance(data, dict):
        raise ProfileError(Problem(file=str(path), found="not an object", wanted=wanted))
    for key, kind in shape.items():
        if not isinstance(data.get(key, kind()), kind):
            raise ProfileError(
                Problem(file=str(path), key=key, found="not an object", wanted=wanted)
            )
    return data
