"""The kernel's way to write sets of CPUs: `0-3,8,10-11`."""

from __future__ import annotations

import re

LARGEST_CPU = 65_535


def count_cpus(text: str) -> int | None:
    """Count the CPUs of a list; None if it is empty or is not one."""
    cpus = cpus_of(text)
    return None if cpus is None else len(cpus)


def cpus_of(text: str) -> set[int] | None:
    """Give the CPUs of a list; None if it is empty or is not one."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if not found:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last > LARGEST_CPU:
            return None
        cpus.update(range(first, last + 1))
    return cpus or None
