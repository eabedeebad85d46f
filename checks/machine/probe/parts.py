"""Reads the parts of the box that cost next to nothing to read, without a run around it."""

from __future__ import annotations

from collections.abc import Iterable

from checks.core.facts import BOX, Observation, Unseen
from checks.core.fingerprint import Part, fingerprint
from checks.core.world import World
from checks.machine.probe.devices import read_devices
from checks.machine.probe.identity import read_identity

_USB_CONTROLLER = "0x0c03"
"""Class of a PCI function that controls a USB bus."""


def read_parts(world: World) -> dict[str, Part]:
    """Read board, CPU, kernel, driver, container, GPUs, disks, network cards and resolver."""
    seen = (read_identity(world, None), read_devices(world, None))
    return fingerprint(
        Observation(probe="", subject=BOX, seen=facts, elapsed_s=0.0) for facts in seen
    )


def usb_controllers(world: World, addresses: Iterable[str]) -> frozenset[str]:
    """Tell which PCI addresses are those of USB controllers."""
    found = set()
    for address in addresses:
        kind = world.line(f"/sys/bus/pci/devices/{address}/class")
        if not isinstance(kind, Unseen) and kind.startswith(_USB_CONTROLLER):
            found.add(address)
    return frozenset(found)
