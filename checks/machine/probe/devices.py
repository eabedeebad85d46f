"""Lists what the kernel sees plugged in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.basic_facts import (
    Device,
    Devices,
)
from checks.machine.disks import NO_DISK, disk_slot

_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3-D, other display controllers, and processing accelerators."""
NVIDIA = "0x10de"
_GPU_VENDORS = (NVIDIA, "0x1002")
PCI = "/sys/bus/pci/devices"
NVIDIA_GPUS = "/proc/driver/nvidia/gpus"


@probe("machine.devices", sees=Devices, always=True)
def read_devices(world: World, _: None = None) -> Devices:
    """List what the kernel sees plugged in."""
    return Devices(
        gpus=_gpus(world),
        disks=_disks(world),
        nics=_nics(world),
        nvidia_driver=_nvidia_driver(world),
        resolver=_resolver(world),
    )


def gpus_on_the_bus(world: World) -> list[tuple[str, str]] | Unseen:
    """List the address and the vendor of each GPU on the PCI bus.

    Without virtual functions (SR-IOV), which a GPU of the host shows for virtual machines: they come
    and go, and nothing of the host computes on them.
    """
    addresses = world.names(PCI)
    if isinstance(addresses, Unseen):
        if addresses.reason is Blind.ABSENT and not isinstance(world.names("/sys"), Unseen):
            return []  # a machine without a PCI bus has no GPU on it
        return addresses
    found = []
    for address in addresses:
        vendor = world.line(f"{PCI}/{address}/vendor")
        kind = world.line(f"{PCI}/{address}/class")
        virtual = world.exists(f"{PCI}/{address}/physfn")
        if vendor in _GPU_VENDORS and str(kind)[:6] in _DISPLAY_CLASSES and not virtual:
            found.append((address, str(vendor)))
    return found


def _gpus(world: World) -> tuple[Device, ...] | Unseen:
    found = gpus_on_the_bus(world)
    if isinstance(found, Unseen):
        return found
    return tuple(
        Device(
            # not a running number: with one card gone, all behind it would seem replaced
            slot=address,
            kind={
                "vendor": vendor,
                "device": world.line(f"{PCI}/{address}/device"),
                "subsystem": world.line(f"{PCI}/{address}/subsystem_device"),
                "model": _information(world, address, "Model", vendor),
            },
            identity={"uuid": _information(world, address, "GPU UUID", vendor)},
        )
        for address, vendor in found
    )


def _information(world: World, address: str, key: str, vendor: str) -> Field:
    if vendor != NVIDIA:
        return Unseen(Blind.UNSUPPORTED, "read by this version for NVIDIA only")
    return nvidia_information(world, address, key)


def nvidia_information(world: World, address: str, key: str, *, root: str = NVIDIA_GPUS) -> Field:
    """Read what NVIDIA's driver says of one of its GPUs."""
    text = world.read(f"{root}/{address}/information")
    if isinstance(text, Unseen):
        return text
    found = re.search(rf"^{key}\s*:\s*(\S.*)$", text, re.MULTILINE)
    if not found or "?" in found[1]:
        return Unseen(Blind.MALFORMED, f"the driver gives no {key}")
    return found[1].strip()


def _disks(world: World) -> tuple[Device, ...] | Unseen:
    names = world.names("/sys/block")
    if isinstance(names, Unseen):
        return names
    return tuple(
        Device(
            slot=disk_slot(world, name),
            kind={
                "model": _first(world, f"/sys/block/{name}", ("device/model", "device/type")),
                "sectors": world.line(f"/sys/block/{name}/size"),
            },
            identity={
                "serial": _first(
                    world, f"/sys/block/{name}", ("wwid", "device/wwid", "device/serial", "serial")
                )
            },
        )
        for name in names
        if not NO_DISK.match(name)
    )


def _first(world: World, folder: str, names: Iterable[str]) -> Field:
    found: Field = Unseen(Blind.ABSENT, f"{folder} has none of the known files")
    for name in names:
        value = world.line(f"{folder}/{name}")
        if not isinstance(value, Unseen):
            return value
        if value.reason is not Blind.ABSENT:
            found = value
    return found


def _nics(world: World) -> tuple[Device, ...] | Unseen:
    root = "/sys/class/net"
    names = world.names(root)
    if isinstance(names, Unseen):
        return names
    return tuple(
        Device(
            slot=name,
            kind={"device": _first(world, f"{root}/{name}/device", ("modalias",))},
            identity={"address": world.line(f"{root}/{name}/address")},
        )
        for name in names
        # virtual ones (bridges, veth, lo) have no device behind them, virtual functions of a card
        # (SR-IOV) are handed to guests and containers: both come and go
        if world.exists(f"{root}/{name}/device")
        and not world.exists(f"{root}/{name}/device/physfn")
    )


def _nvidia_driver(world: World) -> Field:
    text = world.read("/proc/driver/nvidia/version")
    if isinstance(text, Unseen):
        if text.reason is Blind.ABSENT:
            return "none"
        return text
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    return found[1] if found else Unseen(Blind.MALFORMED, "/proc/driver/nvidia/version: no number")


def _resolver(world: World) -> Field:
    text = world.read("/etc/resolv.conf")
    if isinstance(text, Unseen):
        return text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "; ".join(line for line in lines if line and line[0] not in "#;") or "empty"
