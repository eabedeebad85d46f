"""Reads how many CPUs a place may use, and what runs there."""

from __future__ import annotations

import re

from checks.core.facts import Blind, Unseen
from checks.core.place import THIS, Place
from checks.core.registry import probe
from checks.core.world import LARGEST_READ_BYTES, World
from checks.engines.threads import VARIABLES
from checks.machine.cgroups import quota_limits, throttled_ratio
from checks.machine.cpulist import count_cpus, cpus_of
from checks.machine.facts import (
    Cpu,
    CpuLimit,
    Process,
)
from checks.machine.places import Found, companions, find_process, places_of, process_text


@probe("machine.cpu", sees=Cpu, targets=places_of)
def read_cpu(world: World, place: Place) -> Cpu | Unseen:
    """Read how many CPUs a place may use, and what runs there."""
    found = find_process(world, place)
    if isinstance(found, Unseen):
        return found
    status = world.read(f"/proc/{found.pid}/status")
    if isinstance(status, Unseen):
        return status
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    cpus = cpus_of(allowed[1]) if allowed else None
    if not allowed or not cpus:
        return Unseen(Blind.MALFORMED, f"/proc/{found.pid}/status has no Cpus_allowed_list")
    host = host_cpus(world)
    if isinstance(host, Unseen):
        return host
    # The mask may name CPUs that are possible and not there: a virtual machine's empty slots.
    online = world.line("/sys/devices/system/cpu/online")
    there = None if isinstance(online, Unseen) else cpus_of(online)
    affinity = len(cpus & there) if there else min(len(cpus), host)
    if not affinity:
        what = f"Cpus_allowed_list {allowed[1][:40]} has no CPU that is online"
        return Unseen(Blind.MALFORMED, f"/proc/{found.pid}/status: {what}")
    text = f"Cpus_allowed_list {allowed[1]}"
    if affinity < len(cpus):
        text += f", of which {affinity} are online"
    quotas = quota_limits(world, found.pid)
    if isinstance(quotas, Unseen):
        return quotas
    limits = [
        CpuLimit(
            source="affinity",
            text=text,
            cpus=affinity,
        ),
        *quotas.limits,
    ]
    limits.sort(key=lambda limit: limit.cpus)
    others, left_out = _others(world, place, found)
    return Cpu(
        place=str(place),
        process=found.text,
        host_cpus=host,
        host_cores=host_cores(world) or host,
        effective_cpus=limits[0].cpus,
        affinity_cpus=affinity,
        limits=tuple(limits),
        above_unseen=quotas.above_unseen,
        throttled_ratio=throttled_ratio(world, quotas.folders),
        command=_command(world, place, found.pid),
        thread_environment=_thread_environment(world, place, found.pid),
        others=others,
        others_left_out_count=left_out,
    )


def host_cpus(world: World) -> int | Unseen:
    """Count the logical CPUs that are online."""
    online = world.line("/sys/devices/system/cpu/online")
    if isinstance(online, Unseen):
        text = world.read("/proc/cpuinfo")
        count = (
            0
            if isinstance(text, Unseen)
            else len(re.findall(r"^processor\s*:", text, re.MULTILINE))
        )
        return count or online
    return count_cpus(online) or Unseen(Blind.MALFORMED, f"cpu/online: {online[:40]}")


def host_cores(world: World) -> int | None:
    """Count physical cores: groups of CPUs that share one."""
    root = "/sys/devices/system/cpu"
    names = world.names(root)
    if isinstance(names, Unseen):
        return None
    groups = set()
    for name in names:
        if re.fullmatch(r"cpu\d+", name):
            siblings = world.line(f"{root}/{name}/topology/thread_siblings_list")
            if not isinstance(siblings, Unseen):
                groups.add(siblings)
    return len(groups) or None


MOST_WORDS = 500
"""Words of a command line that are kept."""
MOST_COMMAND_BYTES = 32_768
"""Of the command line of a place's process, and of all its others together: a ledger stays small."""
MOST_PROCESSES = 64
"""Processes of a place that are kept beside the one that leads."""
LONGEST_VALUE = 100
"""Characters of a variable that are kept; a number, or a list that begins with it, is shorter."""
_NO_PROCESS = Unseen(Blind.NOT_ASKED, "the place is the suite's own process, not the engine's")
_TOO_LONG = "put its long arguments into files, start it anew, and rerun"


def _command(world: World, place: Place, pid: str) -> tuple[str, ...] | Unseen:
    """Read a command line whole or not at all: the number of threads may stand at its end."""
    if place.kind == THIS:
        return _NO_PROCESS
    path = f"/proc/{pid}/cmdline"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    words = tuple(word for word in text.split("\x00") if word)
    if len(words) > MOST_WORDS:
        what = f"{path} has {len(words)} words; at most {MOST_WORDS} are kept"
        return Unseen(Blind.MALFORMED, what, _TOO_LONG)
    if len(text.encode()) > MOST_COMMAND_BYTES:
        what = f"{path} has more than the {MOST_COMMAND_BYTES} bytes that are kept"
        return Unseen(Blind.MALFORMED, what, _TOO_LONG)
    return words


def _thread_environment(world: World, place: Place, pid: str) -> dict[str, str] | Unseen:
    if place.kind == THIS:
        return _NO_PROCESS
    text = world.read(f"/proc/{pid}/environ")
    if isinstance(text, Unseen):
        return text
    if len(text.encode()) >= LARGEST_READ_BYTES:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/environ is longer than what is read of it")
    pairs = (line.partition("=") for line in text.split("\x00"))
    # only what sets threads: the rest of an environment is nobody's business
    return {name: value[:LONGEST_VALUE] for name, _, value in pairs if name in VARIABLES}


def _others(world: World, place: Place, found: Found) -> tuple[tuple[Process, ...] | Unseen, int]:
    """Read what the other processes of a place were started with, and how many were left out."""
    pids = companions(world, place, found)
    if isinstance(pids, Unseen):
        return pids, 0
    limits = _limits_text(world, found.pid) if pids else ""
    others: list[Process] = []
    room_bytes, left_out = MOST_COMMAND_BYTES, 0
    for pid in pids:
        command = _command(world, place, pid)
        if isinstance(command, Unseen) and command.reason is Blind.ABSENT:
            continue  # it has ended meanwhile
        needed_bytes = 0 if isinstance(command, Unseen) else len("".join(command).encode())
        if len(others) == MOST_PROCESSES or needed_bytes > room_bytes:
            left_out += 1
            continue
        room_bytes -= needed_bytes
        others.append(
            Process(
                process=process_text(world, pid),
                command=command,
                thread_environment=_thread_environment(world, place, pid),
                same_limits=_limits_text(world, pid) == limits != "",
            )
        )
    return tuple(others), left_out


def _limits_text(world: World, pid: str) -> str:
    """Affinity and cgroups of a process, as one text to compare; empty where they cannot be read."""
    status, groups = world.read(f"/proc/{pid}/status"), world.read(f"/proc/{pid}/cgroup")
    if isinstance(status, Unseen):
        return ""
    allowed = re.search(r"^Cpus_allowed_list:.*$", status, re.MULTILINE)
    if isinstance(groups, Unseen):
        groups = groups.reason.value  # a kernel without cgroups: affinity is all there is
    return f"{allowed[0]}\n{groups}" if allowed else ""
