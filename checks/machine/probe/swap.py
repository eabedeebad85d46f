"""Reads how much swap there is, what it is made of, and how much lies in it."""

from __future__ import annotations

import re

from checks.core.codec import LARGEST_INT
from checks.core.facts import Blind, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.facts import Swap, SwapDevice
from checks.machine.probe.memory import kib

MOST_DEVICES = 32
"""As many as the kernel takes (MAX_SWAPFILES of include/linux/swap.h), and a few more."""
LONGEST_NAME = 100


@probe("machine.swap", sees=Swap)
def read_swap(world: World, _: None = None) -> Swap | Unseen:
    """Read how much swap there is, what it is made of, and how much lies in it."""
    path = "/proc/meminfo"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    sizes = []
    for key in ("SwapTotal", "SwapFree", "MemTotal"):
        size = kib(text, key)
        if size is None:
            return Unseen(Blind.MALFORMED, f"{path} has no {key}")
        sizes.append(size)
    total, free, memory = sizes
    if free > total:
        return Unseen(Blind.MALFORMED, f"{path}: SwapFree is more than SwapTotal")
    if memory <= 0:
        return Unseen(Blind.MALFORMED, f"{path}: MemTotal is 0")
    return Swap(
        total_bytes=total,
        free_bytes=free,
        memory_total_bytes=memory,
        devices=_devices(world),
        zswap=_zswap(world),
    )


def _devices(world: World) -> tuple[SwapDevice, ...] | Unseen:
    """Read /proc/swaps: a line of titles, then name, kind, size and use in KiB, priority."""
    path = "/proc/swaps"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    devices = []
    for line in text.splitlines()[1 : MOST_DEVICES + 1]:
        found = re.fullmatch(
            r"(\S+)\s+(partition|file)\s+([0-9]{1,15})\s+([0-9]{1,15})\s+-?[0-9]{1,9}",
            line.strip(),
            re.ASCII,
        )
        if not found:
            return Unseen(Blind.MALFORMED, f"{path}: {line[:80]!r}")
        size, used = int(found[3]) * 1024, int(found[4]) * 1024
        if size > LARGEST_INT or used > size:
            return Unseen(Blind.MALFORMED, f"{path}: {line[:80]!r}")
        compressed = re.fullmatch(r"(?:/dev/)?zram[0-9]+", found[1])
        devices.append(
            SwapDevice(
                name=found[1][:LONGEST_NAME],
                kind="zram" if compressed else found[2],
                size_bytes=size,
                used_bytes=used,
            )
        )
    return tuple(devices)


def _zswap(world: World) -> bool | Unseen:
    path = "/sys/module/zswap/parameters/enabled"
    text = world.line(path)
    if isinstance(text, Unseen):
        # a kernel that is built without it
        return False if text.reason is Blind.ABSENT else text
    if text not in ("Y", "N"):
        return Unseen(Blind.MALFORMED, f"{path}: {text[:40]!r}")
    return text == "Y"
