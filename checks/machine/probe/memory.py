"""Reads how much memory there is and is free."""

from __future__ import annotations

import re

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.cmdline import limiting_parameters
from checks.machine.facts import (
    HugePages,
    HugePageSize,
    Memory,
    MemoryGroups,
)
from checks.machine.memory_cgroups import memory_groups


@probe("machine.memory", sees=Memory, always=True)
def read_memory(world: World, _: None = None) -> Memory | Unseen:
    """Read how much memory there is and is free."""
    text = world.read("/proc/meminfo")
    if isinstance(text, Unseen):
        return text
    total = kib(text, "MemTotal")
    available = kib(text, "MemAvailable")
    if total is None or total <= 0:
        return Unseen(Blind.MALFORMED, "/proc/meminfo has no MemTotal")
    if available is None:
        return Unseen(Blind.MALFORMED, "/proc/meminfo has no MemAvailable (a kernel before 3.14)")
    if available > total:
        return Unseen(Blind.MALFORMED, "/proc/meminfo: MemAvailable is more than MemTotal")
    return Memory(
        total_bytes=total,
        available_bytes=available,
        fitted_bytes=_fitted(world),
        dimm_serials=_dimm_serials(world),
        groups=_memory_groups(world),
        huge_pages=_huge_pages(world, total),
        limited_by=limiting_parameters(world),
    )


def _memory_groups(world: World) -> MemoryGroups | Unseen:
    pid = world.pid()
    return pid if isinstance(pid, Unseen) else memory_groups(world, str(pid))


def kib(text: str, key: str) -> int | None:
    """Read a number of /proc/meminfo, in bytes; None where it is not there."""
    found = re.search(rf"^{key}:\s+([0-9]{{1,12}}) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


_HUGE_PAGES = "/sys/kernel/mm/hugepages"
"""Format: Documentation/admin-guide/mm/hugetlbpage.rst of the kernel."""


def _huge_pages(world: World, memory_bytes: int) -> HugePages | Unseen:
    names = world.names(_HUGE_PAGES)
    if isinstance(names, Unseen):
        if names.reason is not Blind.ABSENT:
            return names
        names = ()  # a kernel without them
    sizes = []
    for name in names:
        size = re.fullmatch(r"hugepages-([0-9]{1,9})kB", name, re.ASCII)
        if not size:
            continue
        counts = []
        for file in ("nr_hugepages", "free_hugepages", "resv_hugepages"):
            text = world.line(f"{_HUGE_PAGES}/{name}/{file}")
            if isinstance(text, Unseen):
                return text
            if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
                return Unseen(Blind.MALFORMED, f"{_HUGE_PAGES}/{name}/{file}: {text[:40]!r}")
            counts.append(int(text))
        total, free, promised = counts
        if free > total or total * int(size[1]) * 1024 > memory_bytes:
            what = f"{_HUGE_PAGES}/{name}: {free} of {total} pages free, in less memory than that"
            return Unseen(Blind.MALFORMED, what)
        sizes.append(
            HugePageSize(
                size_bytes=int(size[1]) * 1024,
                total_count=total,
                free_count=free,
                promised_count=promised,
            )
        )
    return HugePages(sizes=tuple(sizes))


def _fitted(world: World) -> int | Unseen:
    root = "/sys/devices/system/memory"
    size = world.line(f"{root}/block_size_bytes")
    names = world.names(root)
    if isinstance(size, Unseen):
        return size
    if isinstance(names, Unseen):
        return names
    if not re.fullmatch(r"[0-9a-f]{1,12}", size):
        return Unseen(Blind.MALFORMED, f"{root}/block_size_bytes: {size[:40]}")
    blocks = sum(1 for name in names if re.fullmatch(r"memory\d+", name))
    return blocks * int(size, 16)


_SERIAL_OFFSET = 0x18
"""SMBIOS 3.7, section 7.18: the serial number's string index in a memory device (type 17)."""


def _dimm_serials(world: World) -> Field:
    root = "/sys/firmware/dmi/entries"
    names = world.names(root)
    if isinstance(names, Unseen):
        return names
    serials = []
    for name in names:
        if not name.startswith("17-"):
            continue
        raw = world.raw(f"{root}/{name}/raw")
        if isinstance(raw, Unseen):
            return raw
        serial = _smbios_string(raw, _SERIAL_OFFSET)
        if serial:
            serials.append(serial)
    return " ".join(serials) or Unseen(Blind.MALFORMED, "no memory device has a serial number")


def _smbios_string(raw: bytes, offset: int) -> str:
    raw = raw[:4096]
    if len(raw) <= offset or len(raw) < raw[1]:
        return ""
    texts = raw[raw[1] :].split(b"\x00")
    index = raw[offset]
    text = texts[index - 1] if 0 < index <= len(texts) else b""
    return text.decode("ascii", "backslashreplace").strip()
