"""Reads how memory and CPUs are divided into nodes."""

from __future__ import annotations

import re

from checks.core.facts import Blind, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.cpulist import count_cpus
from checks.machine.facts import (
    Numa,
    NumaNode,
)

NODES = "/sys/devices/system/node"


@probe("machine.numa", sees=Numa)
def read_numa(world: World, _: None = None) -> Numa | Unseen:
    """Read how memory and CPUs are divided into nodes."""
    names = world.names(NODES)
    if isinstance(names, Unseen):
        if names.reason is not Blind.ABSENT or isinstance(world.names("/sys"), Unseen):
            return names
        names = ()  # a kernel that knows of no nodes
    numbers = sorted(
        int(found[1]) for name in names if (found := re.fullmatch(r"node([0-9]{1,4})", name))
    )
    nodes = []
    for number in numbers:
        node = _node(world, str(number))
        if isinstance(node, Unseen):
            return node
        nodes.append(node)
    return Numa(nodes=tuple(nodes), balancing=world.line("/proc/sys/kernel/numa_balancing"))


def _node(world: World, number: str) -> NumaNode | Unseen:
    folder = f"{NODES}/node{number}"
    text, memory = world.read(f"{folder}/cpulist"), world.read(f"{folder}/meminfo")
    if isinstance(text, Unseen):
        return text
    if isinstance(memory, Unseen):
        return memory
    cpus = text.strip()
    count = count_cpus(cpus) if cpus else 0
    if count is None:
        return Unseen(Blind.MALFORMED, f"{folder}/cpulist: {cpus[:40]}")
    total = re.search(r"^Node [0-9]{1,4} MemTotal:\s+([0-9]{1,12}) kB$", memory, re.MULTILINE)
    if not total:
        return Unseen(Blind.MALFORMED, f"{folder}/meminfo has no MemTotal")
    return NumaNode(
        node=number,
        cpu_list=cpus,
        near_cpus=count,
        memory_bytes=int(total[1]) * 1024,
        distances=world.line(f"{folder}/distance"),
    )
