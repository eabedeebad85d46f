"""Finds the process that a place names, through /proc alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.core.facts import Blind, Unseen
from checks.core.place import THIS, Place, PlaceError, parse_place
from checks.core.profile import Profile
from checks.core.world import World

_LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp (TCP_LISTEN of include/net/tcp_states.h)."""
_INODE = 9
"""Column of the socket's inode in /proc/net/tcp (proc(5))."""
_FORWARDERS = ("docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "conmon")
"""Hold a port outside of a container for a process inside, whose limits are not theirs."""
_MONITOR = re.compile(r"(?:libpod|crio)-conmon-")
"""Podman's and CRI-O's monitor of a container: named after it, and in a cgroup without its limits."""
_AS_ROOT = "run the suite as root, or as the user that the process belongs to"


@dataclass(frozen=True)
class Found:
    """A process."""

    pid: str
    """Number, or `self`."""
    text: str
    """Number and name, for people."""


def places_of(profile: Profile) -> Mapping[str, Place]:
    """List the places that a profile speaks of: where the suite runs, and where each model does."""
    return {THIS: Place(THIS)} | {serve.name: _place(serve.where) for serve in profile.serve}


def _place(text: str) -> Place:
    try:
        return parse_place(text)
    except PlaceError:
        # refused in a profile; a ledger may say anything, and a replay looks at no place
        return Place("unreadable", text)


def find_process(world: World, place: Place) -> Found | Unseen:
    """Find the process of a place; of several in one container or unit, the one that leads."""
    if place.kind == THIS:
        pid = world.pid()
        if isinstance(pid, Unseen):
            return pid
        return Found("self" if world.live else str(pid), "this process")
    if place.kind == "pid":
        pids: list[str] | Unseen = [place.name] if world.exists(f"/proc/{place.name}") else []
    elif place.kind == "port":
        pids = _listening(world, place.name)
    else:
        pids = _matching(world, place)
    if isinstance(pids, Unseen):
        return pids
    pids = [pid for pid in pids if _runs(world, pid)]
    if not pids:
        return Unseen(
            Blind.ABSENT,
            f"no process for {place}",
            "start it, or correct `where` in the profile; then rerun",
        )
    return _leader(world, pids, place)


def companions(world: World, place: Place, found: Found) -> list[str] | Unseen:
    """List the other processes of a place: all of a unit or container, else what descends from it."""
    if place.kind == THIS:
        return []
    processes = _processes(world)
    if isinstance(processes, Unseen):
        return processes
    if place.kind in ("unit", "container"):
        inside = [pid for pid in processes if _matches(world, pid, place)]
    else:
        parents = {pid: _parent(world, pid) for pid in processes}
        inside = [pid for pid in processes if found.pid in _ancestors(pid, parents)]
    return [pid for pid in inside if pid != found.pid and _runs(world, pid)]


def _ancestors(pid: str, parents: dict[str, str]) -> set[str]:
    above: set[str] = set()
    # a number may be given anew while all are read, which makes a ring
    while (pid := parents.get(pid, "")) and pid not in above:
        above.add(pid)
    return above


def process_text(world: World, pid: str) -> str:
    """Number and name of a process, for people."""
    return f"{pid} {_name(world, pid)}".strip()


def _runs(world: World, pid: str) -> bool:
    """Whether a process still runs: one that has ended and was not reaped has left its cgroups."""
    text = world.read(f"/proc/{pid}/status")
    return isinstance(text, Unseen) or not re.search(r"^State:\s*[ZX]", text, re.MULTILINE)


def _processes(world: World) -> list[str] | Unseen:
    names = world.names("/proc")
    if isinstance(names, Unseen):
        return names
    return sorted((name for name in names if name.isascii() and name.isdigit()), key=int)


def _matching(world: World, place: Place) -> list[str] | Unseen:
    processes = _processes(world)
    if isinstance(processes, Unseen):
        return processes
    return [pid for pid in processes if _matches(world, pid, place)]


def _matches(world: World, pid: str, place: Place) -> bool:
    if place.kind == "process":
        return place.name in (_name(world, pid), _program(world, pid))
    return bool(_group(world, pid, place))


def _group(world: World, pid: str, place: Place) -> str:
    """Give the path of the unit's or container's own cgroup that a process is in; or nothing."""
    groups = world.read(f"/proc/{pid}/cgroup")
    if isinstance(groups, Unseen):
        return ""
    for line in groups.splitlines():
        parts = line.split(":", 2)[-1].split("/")
        for depth, part in enumerate(parts, 1):
            if _names(place, part):
                return "/".join(parts[:depth])
    return ""


def _names(place: Place, part: str) -> bool:
    """Whether a folder's name among the cgroups is that of the unit or the container."""
    if place.kind == "unit":
        return part in (place.name, place.name if "." in place.name else f"{place.name}.service")
    # container runtimes write ID, docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope
    return bool(re.search(rf"(^|-){place.name}", part)) and not _MONITOR.match(part)


def _name(world: World, pid: str) -> str:
    name = world.line(f"/proc/{pid}/comm")
    return "" if isinstance(name, Unseen) else name


def _program(world: World, pid: str) -> str:
    text = world.read(f"/proc/{pid}/cmdline")
    return "" if isinstance(text, Unseen) else text.split("\x00")[0].rpartition("/")[2]


def _parent(world: World, pid: str) -> str:
    text = world.read(f"/proc/{pid}/status")
    found = None if isinstance(text, Unseen) else re.search(r"^PPid:\s*(\d+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _leader(world: World, pids: list[str], place: Place) -> Found | Unseen:
    """Of processes that descend from one another, take the oldest; several families are too many."""
    inside = set(pids)
    leaders = [pid for pid in pids if _parent(world, pid) not in inside]
    groups = {_group(world, pid, place) for pid in leaders}
    if place.kind in ("unit", "container") and len(groups) == 1:
        # all of them share the cgroup, so any of the leaders has its limits
        leaders = leaders[:1]
    if len(leaders) != 1:
        shown = ", ".join(f"{pid} {_name(world, pid)}" for pid in leaders[:4])
        return Unseen(
            Blind.AMBIGUOUS,
            f"{place} fits {len(leaders)} processes: {shown}",
            "name one in the profile: `pid:N`, `port:N`, `unit:NAME` or `container:ID`",
        )
    pid = leaders[0]
    name = _name(world, pid)
    if place.kind == "port" and name in _FORWARDERS:
        return Unseen(
            Blind.AMBIGUOUS,
            f"{place} is held by {name}, which forwards to a process in a container",
            'name the container in the profile: `where = "container:ID"`',
        )
    return Found(pid, f"process {process_text(world, pid)}")


def _listening(world: World, port: str) -> list[str] | Unseen:
    """Find who listens on a TCP port: the socket's inode among the descriptors of all processes."""
    inodes: set[str] = set()
    tables = [world.read(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    if all(isinstance(table, Unseen) for table in tables):
        return tables[0] if isinstance(tables[0], Unseen) else []
    for table in tables:
        if isinstance(table, Unseen):
            continue
        for line in table.splitlines()[1:]:
            fields = line.split()
            if (
                len(fields) > _INODE
                and fields[3] == _LISTEN
                and fields[1].endswith(f":{int(port):04X}")
            ):
                inodes.add(fields[_INODE])
    if not inodes:
        return []
    processes = _processes(world)
    if isinstance(processes, Unseen):
        return processes
    wanted = {f"socket:[{inode}]" for inode in inodes}
    pids, refused = [], 0
    for pid in processes:
        descriptors = world.names(f"/proc/{pid}/fd")
        if isinstance(descriptors, Unseen):
            refused += descriptors.reason is Blind.PERMISSION
            continue
        if any(world.link(f"/proc/{pid}/fd/{number}") in wanted for number in descriptors):
            pids.append(pid)
    if not pids and refused:
        what = f"port {port} is open; {refused} processes of other users could not be looked into"
        return Unseen(Blind.PERMISSION, what, _AS_ROOT)
    if not pids:
        what = f"port {port} is open, and no process that can be seen here holds it"
        return Unseen(Blind.ABSENT, what, "name it as `pid:N` or `container:ID`")
    return pids
