"""Reads the clocks, and what on this box has a date."""

from __future__ import annotations

import calendar
import re

from checks.core.facts import Blind, Facts, Unseen
from checks.core.registry import probe, supplied
from checks.core.world import World
from checks.machine.basic_facts import (
    Clock,
    Discipline,
    HardwareClock,
    History,
    Moment,
    Timekeeping,
    TimeZone,
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


def _synchronised(world: World) -> bool | Unseen:
    timex = world.adjtimex()
    return timex if isinstance(timex, Unseen) else not timex.status & _STA_UNSYNC


_TRACES = (
    # pid files and sockets, where the packages of the distributions put them
    ("chrony", ("/run/chrony/chronyd.pid", "/run/chronyd.pid", "/run/chrony/chronyd.sock")),
    ("systemd-timesyncd", ("/run/systemd/timesync",)),
    ("ntpd", ("/run/ntpd.pid", "/run/ntp.pid", "/run/ntpd/ntpd.pid", "/run/ntpd.sock")),
    ("ptp4l", ("/run/ptp4l", "/run/linuxptp")),
)
_ZONES = "/usr/share/zoneinfo"
_RULE = re.compile(r"(<[A-Za-z0-9+-]{3,}>|[A-Za-z]{3,})[+-]?[0-9].*|UTC|GMT", re.ASCII)
"""A zone that TZ spells out itself (POSIX), or that needs no file."""


@probe("machine.timekeeping", sees=Timekeeping)
def read_timekeeping(world: World, _: None = None) -> Timekeeping:
    """Read who keeps the clocks right."""
    return Timekeeping(
        discipline=_discipline(world),
        services=tuple(
            name for name, paths in _TRACES if any(world.exists(path) for path in paths)
        ),
        rtc=_rtc(world),
        zone=_zone(world),
    )


def _discipline(world: World) -> Discipline | Unseen:
    timex = world.adjtimex()
    if isinstance(timex, Unseen):
        return timex
    return Discipline(
        synchronised=not timex.status & _STA_UNSYNC,
        status=f"{timex.status:#x}",
        maxerror_s=timex.maxerror_s,
        esterror_s=timex.esterror_s,
    )


def _rtc(world: World) -> HardwareClock | Unseen:
    """Read the clock that set the system's at boot; where none did, the first."""
    root = "/sys/class/rtc"
    names = world.names(root)
    if isinstance(names, Unseen):
        if names.reason is Blind.ABSENT and not world.exists("/sys/class"):
            return Unseen(Blind.UNSUPPORTED, "sysfs is not mounted, which shows hardware clocks")
        return names
    clocks = [name for name in names if re.fullmatch(r"rtc[0-9]{1,3}", name, re.ASCII)]
    if not clocks:
        return Unseen(Blind.ABSENT, f"{root} is empty")
    name = next((one for one in clocks if world.line(f"{root}/{one}/hctosys") == "1"), clocks[0])
    text = world.line(f"{root}/{name}/since_epoch")
    if isinstance(text, Unseen):
        return text
    now_s = world.now_s()
    if isinstance(now_s, Unseen):
        return now_s
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        return Unseen(Blind.MALFORMED, f"{root}/{name}/since_epoch: {text[:40]!r}")
    used = world.line(f"{root}/{name}/hctosys")
    return HardwareClock(
        name=name,
        at_s=float(text),
        system_at_s=now_s,
        set_the_system=used if isinstance(used, Unseen) else used == "1",
    )


def _zone(world: World) -> TimeZone:
    variable = world.environ.get("TZ", "")
    localtime, timezone = world.link("/etc/localtime"), world.line("/etc/timezone")
    missing = []
    if variable and not _RULE.fullmatch(variable.removeprefix(":")):
        path = variable.removeprefix(":")
        if not world.exists(path if path.startswith("/") else f"{_ZONES}/{path}"):
            missing.append(f"TZ={variable}")
    if isinstance(localtime, str) and not world.exists("/etc/localtime"):
        missing.append(f"/etc/localtime -> {localtime}")
    return TimeZone(
        variable=variable, localtime=localtime, timezone=timezone, missing=tuple(missing)
    )


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
