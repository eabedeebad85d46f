"""Just enough room, and a little less."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Access, Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Folder,
    Locks,
    MemoryBehind,
    MemoryGroups,
    MemoryLimit,
    Mounted,
    RoomWanted,
)

_ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 1000"
)
_MOUNTED = Mounted(
    kind="ext4",
    mounted_from="/dev/planted",
    point="/",
    options=("rw", "relatime"),
    turned_read_only=False,
)
_FOLDER = Folder(
    path="/planted",
    looked_at="/planted",
    total_bytes=1_000,
    free_bytes=100,
    inodes=1_000,
    inodes_free=64,
    cached_bytes={"org/a": 30},
    access=_ACCESS,
    beside=(),
    needed=True,
    mounted=_MOUNTED,
    disks=("disk[planted]",),
    memory=None,
)
_ROOM = RoomWanted(
    name="model-cache",
    free_bytes=10,
    model_bytes={"org/a": 100, "org/b": 20},
    inodes_free=64,
    beside_bytes={"tmp": 7},
    named_by="planted",
    made_when_needed=False,
    named=True,
)
control("machine.disk.free", _FOLDER, _ROOM, passes=True)
control("machine.disk.free", replace(_FOLDER, free_bytes=99), _ROOM, fails="no-room")
control("machine.disk.free", replace(_FOLDER, free_bytes=107, beside=("tmp",)), _ROOM, passes=True)
control(
    "machine.disk.free", replace(_FOLDER, free_bytes=106, beside=("tmp",)), _ROOM, fails="no-room"
)
control("machine.disk.inodes", _FOLDER, _ROOM, passes=True)
control("machine.disk.inodes", replace(_FOLDER, inodes=0, inodes_free=0), _ROOM, passes=True)
control("machine.disk.inodes", replace(_FOLDER, inodes_free=63), _ROOM, fails="no-inodes")
_MADE = replace(_ROOM, made_when_needed=True)
_MISSING = replace(_FOLDER, access=replace(_ACCESS, exists=False))
control("machine.disk.inodes", _MISSING, _MADE, passes=True)
control("machine.disk.inodes", _MISSING, _ROOM, fails="folder-missing")
for _wanted in (_ROOM, _MADE):
    for _cause, _closed in (
        ("not-a-folder", replace(_ACCESS, is_folder=False)),
        ("read-only", replace(_ACCESS, read_only=True, writable=False)),
        ("not-writable", replace(_ACCESS, writable=False)),
    ):
        control("machine.disk.inodes", replace(_FOLDER, access=_closed), _wanted, fails=_cause)
_READ_ONLY = replace(_FOLDER, access=replace(_ACCESS, read_only=True, writable=False))
_COMPLETE = replace(_READ_ONLY, cached_bytes={"org/a": 100, "org/b": 20})
control("machine.disk.inodes", _COMPLETE, _MADE, passes=True)
_ALMOST = replace(_COMPLETE, cached_bytes={"org/a": 100, "org/b": 19})
control("machine.disk.inodes", _ALMOST, _MADE, fails="read-only")
_CONTAINERS = replace(_ROOM, name="containers", model_bytes={}, named=False, made_when_needed=True)
_SEALED = replace(_FOLDER, access=replace(_ACCESS, read_only=True, writable=False))
control(
    "machine.disk.inodes",
    replace(_FOLDER, access=replace(_ACCESS, writable=False)),
    _CONTAINERS,
    passes=True,
)
control(
    "machine.disk.inodes",
    replace(_SEALED, mounted=replace(_MOUNTED, turned_read_only=True)),
    _CONTAINERS,
    fails="read-only",
)
control("machine.disk.inodes", _SEALED, replace(_CONTAINERS, named=True), fails="read-only")

# 120 bytes of models, of which 30 are there, and 10 besides
_BEHIND = MemoryBehind(
    memory_total_bytes=110,
    memory_available_bytes=70,
    swap_total_bytes=10,
    swap_free_bytes=30,
    groups=MemoryGroups(limits=(), above_unseen=False),
)
_TMPFS = replace(_FOLDER, mounted=replace(_MOUNTED, kind="tmpfs"), disks=(), memory=_BEHIND)
_LIMIT = MemoryLimit(source="memory.max", limit_bytes=110, used_bytes=60, file_bytes=20)
for _memory, _cause in (
    (_BEHIND, ""),
    (replace(_BEHIND, memory_total_bytes=109), "exceeds-memory"),
    (replace(_BEHIND, memory_available_bytes=69), "exceeds-memory"),
    (replace(_BEHIND, groups=MemoryGroups(limits=(_LIMIT,), above_unseen=False)), ""),
    (
        replace(
            _BEHIND,
            groups=MemoryGroups(limits=(replace(_LIMIT, used_bytes=61),), above_unseen=False),
        ),
        "exceeds-memory",
    ),
):
    control(
        "machine.disk.filesystem",
        (replace(_TMPFS, memory=_memory), IDENTITY),
        _ROOM,
        fails=_cause,
        passes=not _cause,
    )
control("machine.disk.filesystem", (_FOLDER, IDENTITY), _ROOM, passes=True)

_LOCKS = Locks(path="/planted", outcome="ok", waited_s=0.0, kind="nfs4")
control("machine.disk.locks", _LOCKS, passes=True)
control("machine.disk.locks", replace(_LOCKS, outcome="ENOSYS"), passes=True)
for _error in ("ENOLCK", "EOPNOTSUPP"):
    control("machine.disk.locks", replace(_LOCKS, outcome=_error), fails="locks-unsupported")
control(
    "machine.disk.locks",
    replace(_LOCKS, outcome=Unseen(Blind.TIMED_OUT, "planted")),
    fails="locks-hang",
)
