"""Memory limits of a process in its cgroups, version 1 and 2, at every level up to the root.

Formats: Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high, memory.current,
memory.stat) and cgroup-v1/memory.rst (memory.limit_in_bytes, memory.usage_in_bytes, memory.stat) of
the kernel.
"""

from __future__ import annotations

import re

from checks.core.codec import LARGEST_INT
from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.cgroups import folders_with
from checks.machine.facts import MemoryGroups, MemoryLimit

_LIMITS = (
    # limit, usage, and the words of memory.stat for the pages of files below this level.
    # memory.high is none that kills, but beyond it a process is slowed down until it stands still.
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    ("memory.high", "memory.current", ("inactive_file", "active_file")),
    (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


def memory_groups(world: World, pid: str) -> MemoryGroups | Unseen:
    """Read what the memory cgroups of a process still leave it, at every level that can be seen."""
    found = folders_with(world, pid, "memory")
    if isinstance(found, Unseen):
        return found
    limits: list[MemoryLimit] = []
    for folder in found.folders:
        for limit_name, usage_name, file_names in _LIMITS:
            limit = _limit(world, folder, limit_name, usage_name, file_names)
            if isinstance(limit, Unseen):
                return limit
            if limit is not None:
                limits.append(limit)
    limits.sort(key=lambda limit: limit.left_bytes)
    return MemoryGroups(limits=tuple(limits), above_unseen=found.above_unseen)


def _limit(
    world: World, folder: str, limit_name: str, usage_name: str, file_names: tuple[str, ...]
) -> MemoryLimit | Unseen | None:
    """Read one limit; None where there is none at this level."""
    source = f"{folder}/{limit_name}"
    limit = _number(world, source)
    if isinstance(limit, Unseen):
        return None if limit.reason is Blind.ABSENT else limit
    if limit is None:
        return None
    usage = _number(world, f"{folder}/{usage_name}")
    if isinstance(usage, Unseen):
        return usage
    if usage is None:
        return Unseen(Blind.MALFORMED, f"{folder}/{usage_name} is no number of bytes")
    stat = world.read(f"{folder}/memory.stat")
    if isinstance(stat, Unseen):
        return stat
    counts = [re.search(rf"^{name} ([0-9]{{1,15}})$", stat, re.MULTILINE) for name in file_names]
    return MemoryLimit(
        source=source,
        limit_bytes=limit,
        used_bytes=usage,
        # given back when memory runs short, as MemAvailable counts them
        file_bytes=sum(int(count[1]) for count in counts if count),
    )


def _number(world: World, path: str) -> int | Unseen | None:
    """Read a count of bytes; None for `max`, and for what version 1 writes instead."""
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    if text == "max":
        return None
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return Unseen(Blind.MALFORMED, f"{path}: {text[:60]!r}")
    # version 1 writes the largest number of whole pages, 2^63 - 4096 or - 65536
    return int(text) if int(text) <= LARGEST_INT else None
