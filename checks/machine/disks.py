"""How a disk is called: after where it is plugged in."""

from __future__ import annotations

import re

from checks.core.facts import Unseen
from checks.core.world import World

NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)")
"""Block devices that are made of others, or have no medium of their own."""


def disk_slot(world: World, name: str) -> str:
    """Name where a disk is plugged in; the kernel's own names change places between boots."""
    link = world.link(f"/sys/block/{name}")
    if isinstance(link, Unseen):
        return name
    parts = link.split("/")
    at = [
        n
        for n, part in enumerate(parts)
        if re.fullmatch(r"[0-9a-f]{4,8}(:[0-9a-f]{2}){2}\.\d", part)
    ]
    if not at:
        return name
    # behind one controller: SCSI address, NVMe namespace, or nothing more
    unit = next((part for part in parts[at[-1] :] if re.fullmatch(r"\d+(:\d+){3}", part)), "")
    space = re.fullmatch(r"nvme\d+(n\d+)", name)
    return " ".join(filter(None, (parts[at[-1]], unit or (space[1] if space else ""))))
