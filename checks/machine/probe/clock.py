"""Reads the clocks, and what on this box has a date."""

from __future__ import annotations

import calendar
import ctypes
import os
import re

from checks.core.facts import Blind, Facts, Unseen
from checks.core.registry import probe, supplied
from checks.core.world import World, blind
from checks.machine.facts import (
    Clock,
    History,
    Moment,
)

supplied("machine.history", sees=History)

_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_EAST_OF_UTC_S = 14 * 3_600
"""A kernel's build date names its zone by letters; no zone is further east than this."""
_STA_UNSYNC = 0x40
_PACKAGE_FILES = (
    "/var/lib/dpkg/status",
    "/var/lib/dpkg/info",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages",
    "/lib/apk/db/installed",
    "/usr/lib/apk/db/installed",
    "/var/lib/pacman/local",
    "/usr/lib/os-release",
    "/etc/os-release",
)


@probe("machine.clock", sees=Clock)
def read_clock(world: World, _: None = None) -> Clock | Unseen:
    """Read the clocks, and what on this box has a date."""
    now_s, up_s = world.now_s(), world.boot_s()
    if isinstance(now_s, Unseen):
        return now_s
    if isinstance(up_s, Unseen):
        return up_s
    return Clock(
        now_s=now_s,
        up_s=up_s,
        boot_s=_boot_s(world),
        boot_id=world.line("/proc/sys/kernel/random/boot_id"),
        synchronised=_synchronised(world),
        kernel_built=kernel_built(world),
        packages_installed=_packages_installed(world),
    )


def _boot_s(world: World) -> float | Unseen:
    text = world.read("/proc/stat")
    if isinstance(text, Unseen):
        return text
    found = re.search(r"^btime ([0-9]{1,12})$", text, re.MULTILINE)
    return float(found[1]) if found else Unseen(Blind.MALFORMED, "/proc/stat has no btime")


def kernel_built(world: World) -> Moment | Unseen:
    """Read when the running kernel was built; no clock of this box may be behind that."""
    text = world.line("/proc/version")
    if isinstance(text, Unseen):
        return text
    at_s = kernel_build_s(text)
    if at_s is None:
        return Unseen(Blind.MALFORMED, "/proc/version has no build date")
    return Moment(what="the kernel's build", at_s=at_s - _EAST_OF_UTC_S)


def kernel_build_s(version: str) -> float | None:
    """Find the build date in /proc/version, in seconds since 1970, its zone taken as UTC.

    Knows the form of the kernel's own build (`Tue May  7 13:42:10 UTC 2024`, also with the year
    last and the zone left out), Alpine's (`Fri, 17 May 2024 17:54:33 +0000`) and Debian's
    (`(2024-05-06)` at the end).
    """
    own = re.search(
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +([0-9]{1,2}) "
        r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?: [A-Z+0-9:-]{1,6})? ([0-9]{4})",
        version,
    )
    if own and own[1] in _MONTHS:
        day = (int(own[6]), _MONTHS[own[1]], int(own[2]))
        return _epoch_s(day, (int(own[3]), int(own[4]), int(own[5])))
    mail = re.search(
        r", ([0-9]{1,2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2})", version
    )
    if mail and mail[2] in _MONTHS:
        day = (int(mail[3]), _MONTHS[mail[2]], int(mail[1]))
        return _epoch_s(day, (int(mail[4]), int(mail[5]), int(mail[6])))
    debian = re.search(r"\(([0-9]{4})-([0-9]{2})-([0-9]{2})\)\s*$", version)
    if debian:
        return _epoch_s((int(debian[1]), int(debian[2]), int(debian[3])), (0, 0, 0))
    return None


def _epoch_s(day: tuple[int, int, int], hour: tuple[int, int, int]) -> float | None:
    try:
        return float(calendar.timegm((*day, *hour)))
    except (ValueError, OverflowError):
        return None


def _packages_installed(world: World) -> Moment | Unseen:
    found = [
        (seen, path)
        for path in _PACKAGE_FILES
        if not isinstance(seen := world.modified_s(path), Unseen)
    ]
    if not found:
        return Unseen(Blind.ABSENT, "no file of a package manager is there")
    at_s, path = max(found)
    return Moment(what=path, at_s=at_s)


class _Timex(ctypes.Structure):
    # struct timex of <sys/timex.h>; only `modes` and `status` are used, the rest is room for it
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _synchronised(world: World) -> bool | Unseen:
    if not world.live:
        kept = (world.recorded or {}).get("adjtimex_status")
        if isinstance(kept, int):
            return not kept & _STA_UNSYNC
        return Unseen(Blind.NOT_RECORDED, "adjtimex_status is not recorded")
    timex = _Timex()
    try:
        result = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError) as error:
        return Unseen(Blind.UNSUPPORTED, f"adjtimex: {error}")
    if result < 0:
        return blind(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())), "adjtimex")
    return not timex.status & _STA_UNSYNC


def history_facts(
    *,
    ledger: str,
    newest_s: float | Unseen,
    boot_id: str | Unseen,
    boot_offset_s: float | Unseen,
    world: World,
) -> Facts | Unseen:
    """Make the facts that a run hands over about its own past."""
    now_s, up_s = world.now_s(), world.boot_s()
    if isinstance(now_s, Unseen):
        return now_s
    if isinstance(up_s, Unseen):
        return up_s
    return History(
        ledger=ledger,
        newest_s=newest_s,
        boot_id=boot_id,
        boot_offset_s=boot_offset_s,
        run_boot_offset_s=now_s - up_s,
    )
