"""Just enough room, and a little less."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Access
from checks.core.registry import control
from checks.machine.facts import (
    Folder,
    RoomWanted,
)

_ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 1000"
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
)
_ROOM = RoomWanted(
    free_bytes=10,
    model_bytes={"org/a": 100, "org/b": 20},
    inodes_free=64,
    beside_bytes={"tmp": 7},
    named_by="planted",
    made_when_needed=False,
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
