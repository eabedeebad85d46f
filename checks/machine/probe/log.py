"""Reads whether the kernel's log can be read, and how far back; none of what stands in it.

Formats: Documentation/ABI/testing/dev-kmsg of the kernel; "Journal File Format" of systemd.
"""

from __future__ import annotations

import re
import struct
import time

from checks.core.codec import LARGEST_INT
from checks.core.facts import Blind, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.facts import KernelLog, LogSpan

MOST_RECORDS = 50_000
MOST_S = 1.0
_RECORD = re.compile(r"[0-9]{1,10},([0-9]{1,19}),([0-9]{1,19}),[^;\n]{0,80};")
"""Level and facility, number since boot, microseconds since boot, flags; then the text."""
_PER_S = 1_000_000
_HEADER_BYTES = 208
_ENTRIES, _HEAD, _TAIL = 152, 184, 192
"""Where the header of a journal holds its number of entries and the times of first and last."""
_ARCHIVED = re.compile(r"system@[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{16})\.journal")
"""The time of its first entry, in microseconds since 1970, stands in the name."""


@probe("machine.log", sees=KernelLog)
def read_log(world: World, _: None = None) -> KernelLog:
    """Read whether the kernel's log can be read, and how far back."""
    return KernelLog(kmsg=_kmsg(world), journal=_journal(world))


def _kmsg(world: World) -> LogSpan | Unseen:
    count = 0
    seen: list[tuple[int, int]] = []
    end_s = time.monotonic() + MOST_S
    complete = True
    for record in world.kernel_records():
        if isinstance(record, Unseen):
            return record
        found = _RECORD.match(record)
        if not found:
            continue  # further lines of a record, in a recorded tree
        number, at_us = int(found[1]), int(found[2])
        if max(number, at_us) > LARGEST_INT:
            return Unseen(Blind.MALFORMED, f"/dev/kmsg: {record[:40]!r}")
        count += 1
        seen = [*seen[:1], (number, at_us)]
        if count >= MOST_RECORDS or time.monotonic() > end_s:
            complete = False
            break
    if not seen:
        return LogSpan(records_count=0, lost_count=0, first_s=None, last_s=None, complete=True)
    (_, first_us), (last, last_us) = seen[0], seen[-1]
    return LogSpan(
        records_count=count,
        lost_count=max(last + 1 - count, 0),
        first_s=first_us / _PER_S,
        last_s=last_us / _PER_S,
        complete=complete,
    )


def _journal(world: World) -> LogSpan | Unseen:
    """Read the header of the system's journal, in the first folder that has one."""
    machine = world.line("/etc/machine-id")
    if isinstance(machine, Unseen):
        return machine
    if not re.fullmatch(r"[0-9a-f]{32}", machine):
        return Unseen(Blind.MALFORMED, f"/etc/machine-id: {machine[:40]!r}")
    seen: LogSpan | Unseen = Unseen(Blind.ABSENT, "no journal of this system is there")
    for root in ("/var/log/journal", "/run/log/journal"):
        seen = _span(world, f"{root}/{machine}")
        if not (isinstance(seen, Unseen) and seen.reason is Blind.ABSENT):
            break
    return seen


def _span(world: World, folder: str) -> LogSpan | Unseen:
    path = f"{folder}/system.journal"
    head = world.raw(path, first_bytes=_HEADER_BYTES)
    if isinstance(head, Unseen):
        return head
    if len(head) < _HEADER_BYTES or not head.startswith(b"LPKSHHRH"):
        return Unseen(Blind.MALFORMED, f"{path} is no journal")
    entries, first_us, last_us = (
        struct.unpack_from("<Q", head, offset)[0] for offset in (_ENTRIES, _HEAD, _TAIL)
    )
    now_s, up_s = world.now_s(), world.boot_s()
    if isinstance(now_s, Unseen):
        return now_s
    if isinstance(up_s, Unseen):
        return up_s
    names = world.names(folder)
    for name in () if isinstance(names, Unseen) else names:
        archived = _ARCHIVED.fullmatch(name)
        if archived:
            first_us = min(first_us, int(archived[1], 16)) if entries else int(archived[1], 16)
    if max(entries, first_us, last_us) > LARGEST_INT:
        return Unseen(Blind.MALFORMED, f"{path}: numbers beyond all times")
    boot_s = now_s - up_s
    return LogSpan(
        records_count=entries,
        lost_count=None,
        first_s=round(first_us / _PER_S - boot_s, 6) if first_us else None,
        last_s=round(last_us / _PER_S - boot_s, 6) if last_us else None,
        complete=True,
    )
