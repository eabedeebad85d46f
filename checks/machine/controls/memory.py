"""Just enough memory, and a little less."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY, VM
from checks.machine.facts import (
    HugePages,
    HugePageSize,
    Memory,
    MemoryAvailableWanted,
    MemoryGroups,
    MemoryLimit,
    MemoryWanted,
)
from checks.machine.judge.memory import FITTED_TOLERANCE_RATIO

_NONE = Unseen(Blind.ABSENT, "planted")
_MEMORY = Memory(
    total_bytes=1_000,
    available_bytes=500,
    fitted_bytes=_NONE,
    dimm_serials=_NONE,
    groups=MemoryGroups(limits=(), above_unseen=False),
    huge_pages=HugePages(sizes=()),
    limited_by=(),
)
_MEMORY_WANTED = MemoryWanted(value=1_000, lower=970, upper=1_020, fitted_bytes=None)
for _total, _cause in (
    (970, ""),
    (1_020, ""),
    (969, "less-memory-than-declared"),
    (1_021, "more-memory-than-declared"),
):
    control(
        "machine.memory.total",
        (replace(_MEMORY, total_bytes=_total), IDENTITY),
        _MEMORY_WANTED,
        fails=_cause,
        passes=not _cause,
    )
_TIB = 2**40
_LARGE = MemoryWanted(value=_TIB, lower=0.97 * _TIB, upper=1.03 * _TIB, fitted_bytes=_TIB)
_LEAST = int(_TIB * (1 - FITTED_TOLERANCE_RATIO)) + 1
_ALL = replace(_MEMORY, total_bytes=int(0.985 * _TIB), fitted_bytes=_LEAST)
_ONE_LESS = replace(_ALL, fitted_bytes=_LEAST - 1)
control("machine.memory.total", (_ALL, IDENTITY), _LARGE, passes=True)
control("machine.memory.total", (_ONE_LESS, IDENTITY), _LARGE, fails="less-memory-than-declared")
control("machine.memory.total", (_ONE_LESS, VM), _LARGE, passes=True)


def _room(min_bytes: int, reserved_bytes: int = 0) -> MemoryAvailableWanted:
    return MemoryAvailableWanted(min_bytes=min_bytes, reserved_bytes=reserved_bytes)


_PAGES = HugePageSize(size_bytes=10, total_count=9, free_count=5, promised_count=2)
_SET_ASIDE = replace(_MEMORY, huge_pages=HugePages(sizes=(_PAGES,)))
for _seen, _wanted, _cause in (
    (_MEMORY, _room(500), ""),
    (_MEMORY, _room(501), "memory-in-use"),
    (_MEMORY, _room(400, reserved_bytes=100), ""),
    (_MEMORY, _room(400, reserved_bytes=101), "memory-reserved"),
    (_SET_ASIDE, _room(500), ""),
    (_SET_ASIDE, _room(530), "memory-in-huge-pages"),
    (_SET_ASIDE, _room(531), "memory-in-use"),
):
    control("machine.memory.available", _seen, _wanted, fails=_cause, passes=not _cause)
for _used, _cause in ((100, ""), (101, "memory-limited")):
    _limit = MemoryLimit(source="memory.max", limit_bytes=500, used_bytes=_used, file_bytes=40)
    control(
        "machine.memory.available",
        replace(_MEMORY, groups=MemoryGroups(limits=(_limit,), above_unseen=False)),
        _room(440),
        fails=_cause,
        passes=not _cause,
    )
