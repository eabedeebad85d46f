"""Which parts of the box are no longer those that a ledger's verdicts rest on. Pure.

For `preflight gate`, which must see a swap and must not cry wolf. Compared are board, CPU, kernel,
driver, container, GPUs, disks and network cards, by kind and identity, and whether a GPU, a disk or
a network card was added or removed. A field that only one side could read is no change: root reads
more than a user, and a card whose driver is not loaded hides its UUID. Left out is what changes by
itself on a box that is as it was:

- the resolver: each lease of DHCP, and each VPN, writes resolv.conf anew;
- network cards and disks on USB: sticks, and the virtual media and cards of a board's management
  controller, come and go;
- the place of a disk: the kernel counts SCSI hosts, and names disks, in the order in which it finds
  them, so a disk that is found elsewhere with the same serial number has not changed;
- where disks have PCI addresses, disks without one: these are network volumes.

Memory, engines and settings are not read here, since that is not cheap; a run compares them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from checks.core.fingerprint import Change, Part, compare, family

_ALONE = ("board", "cpu", "kernel", "driver", "container")
_LISTED = ("gpu", "disk", "nic")
_LISTS_READ = "driver"
"""Comes from the same probe as the lists: without it nobody listed anything."""
_CHANGES = (Change.CHANGED, Change.ADDED, Change.REMOVED)

Parts = dict[str, Part]


@dataclass(frozen=True, kw_only=True)
class Swap:
    """A slot whose part is another one."""

    slot: str
    change: Change


def pci_address(slot: str) -> str:
    """Give the PCI address in `disk[0000:01:00.0 n1]`; empty where the slot names none."""
    found = re.search(r"\[([0-9a-f]{4,8}(?::[0-9a-f]{2}){2}\.[0-9])", slot)
    return found[1] if found else ""


def swaps(
    before: Mapping[str, Part], now: Mapping[str, Part], usb_controllers: Collection[str]
) -> tuple[Swap, ...]:
    """Compare the parts that a ledger recorded with those of the box as it is.

    Args:
        before: of the ledger.
        now: as read from the box.
        usb_controllers: PCI addresses of those that any slot names.

    """
    old, new = _fixed(before, usb_controllers), _fixed(now, usb_controllers)
    families = [name for name in _ALONE if name in old and name in new]
    if _LISTS_READ in families:
        families += _LISTED
    old, new = _of(old, families), _of(new, families)
    if any(map(pci_address, _disks(old))):
        old, new = _placed(old), _placed(new)
    old, new = _without_moved(old, new)
    found = []
    for part in compare(old, new):
        change = next((c for c in (part.kind, part.identity) if c in _CHANGES), None)
        if change is not None:
            found.append(Swap(slot=part.slot, change=change))
    return tuple(found)


def _disks(parts: Parts) -> list[str]:
    return [slot for slot in parts if slot.startswith("disk[")]


def _fixed(parts: Mapping[str, Part], usb_controllers: Collection[str]) -> Parts:
    """Leave out what hangs on USB."""
    return {
        slot: part
        for slot, part in parts.items()
        if pci_address(slot) not in usb_controllers
        and not (part.kind.get("device") or "").startswith("usb:")
    }


def _of(parts: Parts, families: Collection[str]) -> Parts:
    return {slot: part for slot, part in parts.items() if family(slot) in families}


def _placed(parts: Parts) -> Parts:
    return {
        slot: part
        for slot, part in parts.items()
        if not slot.startswith("disk[") or pci_address(slot)
    }


def _without_moved(old: Parts, new: Parts) -> tuple[Parts, Parts]:
    """Leave out the disks that are on both sides, in the same place or in another."""
    before, after = _names(old), _names(new)
    stayed = {slot for slot, name in before.items() if after.get(slot) == name}
    before, after = (
        {slot: name for slot, name in side.items() if slot not in stayed}
        for side in (before, after)
    )
    moved = Counter(before.values()) & Counter(after.values())
    return (
        _less(old, stayed | _first(before, moved)),
        _less(new, stayed | _first(after, moved)),
    )


_Name = tuple[tuple[tuple[str, str | None], ...], ...]


def _names(parts: Parts) -> dict[str, _Name]:
    """Give what tells each disk from all others; not of those that show nothing of the kind."""
    return {
        slot: tuple(
            tuple(sorted(side.items())) for side in (parts[slot].kind, parts[slot].identity)
        )
        for slot in _disks(parts)
        if any(parts[slot].identity.values())
    }


def _first(names: Mapping[str, _Name], counts: Counter[_Name]) -> set[str]:
    """Give so many slots of each name."""
    left = Counter(counts)
    found = set()
    for slot, name in names.items():
        if left[name]:
            left[name] -= 1
            found.add(slot)
    return found


def _less(parts: Parts, gone: Collection[str]) -> Parts:
    return {slot: part for slot, part in parts.items() if slot not in gone}
