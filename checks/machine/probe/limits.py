"""Reads what a place may lock, open, start and hold, besides CPUs."""

from __future__ import annotations

import re

from checks.core.codec import LARGEST_INT
from checks.core.facts import Blind, Unseen
from checks.core.place import THIS, Place
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.cgroups import folders_with
from checks.machine.cpulist import cpus_of
from checks.machine.facts import (
    Killed,
    Limits,
    ResourceLimits,
    Rights,
    SharedMemory,
    TaskGroups,
    TaskLimit,
)
from checks.machine.memory_cgroups import memory_groups
from checks.machine.places import companions, find_process, places_of


@probe("machine.limits", sees=Limits, targets=places_of)
def read_limits(world: World, place: Place) -> Limits | Unseen:
    """Read what a place may lock, open, start and hold, besides CPUs."""
    found = find_process(world, place)
    if isinstance(found, Unseen):
        return found
    status = world.read(f"/proc/{found.pid}/status")
    if isinstance(status, Unseen):
        return status
    folders = folders_with(world, found.pid, "memory")
    inside: list[str] = []
    if place.kind != THIS:
        others = companions(world, place, found)
        texts = (
            world.read(f"/proc/{pid}/status")
            for pid in ([] if isinstance(others, Unseen) else others)
        )
        inside = [status, *(text for text in texts if isinstance(text, str))]
    return Limits(
        place=str(place),
        process=found.text,
        resources=_resources(world, found.pid),
        rights=_rights(world, found.pid, status),
        affinity_cpus=_affinity_cpus(world, found.pid, status),
        tasks=_tasks(world, found.pid),
        own_tasks_count=sum(_field(text, "Threads", 10) or 1 for text in inside),
        memory=memory_groups(world, found.pid),
        own_memory_bytes=_own_memory(found.pid, inside),
        killed=folders if isinstance(folders, Unseen) else _killed(world, folders.folders),
        shm=_shm(world, place, found.pid),
        rdma_openable=_rdma_openable(world, place, found.pid),
    )


def _field(status: str, name: str, digits: int) -> int | None:
    found = re.search(rf"^{name}:\s+([0-9]{{1,{digits}}})(?: kB)?$", status, re.MULTILINE)
    return int(found[1]) if found else None


_LIMIT = r"(unlimited|[0-9]{1,20})"


def _resources(world: World, pid: str) -> ResourceLimits | Unseen:
    path = f"/proc/{pid}/limits"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    found: dict[str, tuple[int | None, int | None]] = {}
    for name in ("Max locked memory", "Max open files", "Max processes"):
        line = re.search(rf"^{name} +{_LIMIT} +{_LIMIT}(?: .*)?$", text, re.MULTILINE)
        if not line:
            return Unseen(Blind.MALFORMED, f"{path} has no line `{name}` with two limits")
        found[name] = (_limit(line[1]), _limit(line[2]))
    locked, files = found["Max locked memory"], found["Max open files"]
    return ResourceLimits(
        locked_soft_bytes=locked[0],
        locked_hard_bytes=locked[1],
        open_files_soft_count=files[0],
        open_files_hard_count=files[1],
        processes_soft_count=found["Max processes"][0],
    )


def _limit(text: str) -> int | None:
    # beyond what a ledger can hold is beyond what any box has
    return None if text == "unlimited" or int(text) > LARGEST_INT else int(text)


_LIFTING = {14: "ipc_lock", 21: "sys_admin", 24: "sys_resource"}
"""Numbers of capabilities (include/uapi/linux/capability.h)."""
_ALL_USERS = ("0", "0", "4294967295")
"""The map of the first user namespace (user_namespaces(7))."""


def _rights(world: World, pid: str, status: str) -> Rights | Unseen:
    bits = re.search(r"^CapEff:\s+([0-9a-f]{16})$", status, re.MULTILINE)
    user = re.search(r"^Uid:\s+([0-9]{1,10})\s", status, re.MULTILINE)
    if not bits or not user:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/status has no CapEff or no Uid")
    return Rights(
        capabilities=tuple(
            name for number, name in _LIFTING.items() if int(bits[1], 16) >> number & 1
        ),
        root=int(user[1]) == 0,
        own_users=_own_users(world, pid),
    )


def _own_users(world: World, pid: str) -> bool | Unseen:
    text = world.read(f"/proc/{pid}/uid_map")
    if isinstance(text, Unseen):
        # a kernel without user namespaces
        return False if text.reason is Blind.ABSENT else text
    # a namespace whose map is not written yet has an empty one
    return tuple(text.split()) != _ALL_USERS


def _affinity_cpus(world: World, pid: str, status: str) -> int | Unseen:
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    cpus = cpus_of(allowed[1]) if allowed else None
    if not cpus:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/status has no Cpus_allowed_list")
    online = world.line("/sys/devices/system/cpu/online")
    there = None if isinstance(online, Unseen) else cpus_of(online)
    # the mask may name CPUs that are possible and not there
    return len(cpus & there if there else cpus) or len(cpus)


def _tasks(world: World, pid: str) -> TaskGroups | Unseen:
    """Read what limits processes and threads, at every level that can be seen.

    Formats: Documentation/admin-guide/cgroup-v1/pids.rst of the kernel; version 2 has the same.
    """
    found = folders_with(world, pid, "pids")
    if isinstance(found, Unseen):
        return found
    limits: list[TaskLimit] = []
    for folder in found.folders:
        limit = _count(world, f"{folder}/pids.max")
        if limit is None or (isinstance(limit, Unseen) and limit.reason is Blind.ABSENT):
            continue
        used = _count(world, f"{folder}/pids.current")
        if isinstance(limit, Unseen):
            return limit
        if isinstance(used, Unseen):
            return used
        if used is None:
            return Unseen(Blind.MALFORMED, f"{folder}/pids.current is no number")
        source = f"{folder}/pids.max"
        limits.append(TaskLimit(source=source, limit_count=limit, used_count=used))
    limits.sort(key=lambda limit: limit.limit_count - limit.used_count)
    return TaskGroups(limits=tuple(limits), above_unseen=found.above_unseen)


def _count(world: World, path: str) -> int | Unseen | None:
    """Read a number; None for `max`."""
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    if text == "max":
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text):
        return Unseen(Blind.MALFORMED, f"{path}: {text[:60]!r}")
    return int(text)


def _own_memory(pid: str, inside: list[str]) -> int | Unseen:
    """Add up what processes hold that no file backs: what maps a file is given back at need."""
    total = 0
    for status in inside:
        parts = [_field(status, name, 12) for name in ("RssAnon", "RssShmem")]
        if None in parts:
            return Unseen(
                Blind.UNSUPPORTED,
                f"/proc/{pid}/status has no RssAnon (a kernel before 4.5)",
                "look before the engine is started, then rerun",
            )
        total += sum(part or 0 for part in parts) * 1024
    return total


def _killed(world: World, folders: tuple[str, ...]) -> Killed | Unseen:
    """Read how often the kernel has killed in the innermost cgroup (version 2: and below it)."""
    if not folders:
        return Unseen(Blind.UNSUPPORTED, "the place is in no cgroup of memory")
    for name in ("memory.events", "memory.oom_control"):
        path = f"{folders[0]}/{name}"
        text = world.read(path)
        if isinstance(text, Unseen):
            continue
        kills = re.search(r"^oom_kill ([0-9]{1,15})$", text, re.MULTILINE)
        if kills:
            return Killed(source=path, kills_count=int(kills[1]), up_s=world.boot_s())
    return Unseen(Blind.UNSUPPORTED, f"{folders[0]} does not count what was killed there")


def _inside(place: Place, pid: str, path: str) -> str:
    """Give a path as the place sees it."""
    return path if place.kind == THIS else f"/proc/{pid}/root{path}"


def _shm(world: World, place: Place, pid: str) -> SharedMemory | Unseen:
    path = _inside(place, pid, "/dev/shm")  # noqa: S108 - it is what the engine will use
    room = world.room_at(path)
    if isinstance(room, Unseen):
        return room
    return SharedMemory(total_bytes=room.total_bytes, free_bytes=room.free_bytes)


def _rdma_openable(world: World, place: Place, pid: str) -> bool | Unseen:
    folder = _inside(place, pid, "/dev/infiniband")
    names = world.names(folder)
    if not isinstance(names, Unseen):
        return any(re.fullmatch(r"uverbs[0-9]+", name) for name in names)
    if names.reason is not Blind.ABSENT:
        return names
    if not world.exists(_inside(place, pid, "/dev")):
        return Unseen(Blind.NOT_RECORDED, f"{folder} is not recorded")
    return False
