"""Lists what the kernel sees plugged in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.disks import NO_DISK, disk_slot
from checks.machine.facts import (
    Device,
    Devices,
)

_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3-D, other display controllers, and processing accelerators."""
_GPU_VENDORS = ("0x10de", "0x1002")


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


def _gpus(world: World) -> tuple[Device, ...] | Unseen:
    root = "/sys/bus/pci/devices"
    addresses = world.names(root)
    if isinstance(addresses, Unseen):
        if addresses.reason is Blind.ABSENT and not isinstance(world.names("/sys"), Unseen):
            return ()  # a machine without a PCI bus has no GPU on it
        return addresses
    found: list[Device] = []
    for address in addresses:
        vendor = world.line(f"{root}/{address}/vendor")
        kind = world.line(f"{root}/{address}/class")
        if vendor not in _GPU_VENDORS or str(kind)[:6] not in _DISPLAY_CLASSES:
            continue
        about = world.read(f"/proc/driver/nvidia/gpus/{address}/information")
        found.append(
            Device(
                # not a running number: with one card gone, all behind it would seem replaced
                slot=address,
                kind={
                    "vendor": vendor,
                    "device": world.line(f"{root}/{address}/device"),
                    "subsystem": world.line(f"{root}/{address}/subsystem_device"),
                    "model": _information(about, "Model", vendor),
                },
                identity={"uuid": _information(about, "GPU UUID", vendor)},
            )
        )
    return tuple(found)


def _information(text: str | Unseen, key: str, vendor: Field) -> Field:
    if vendor != "0x10de":
        return Unseen(Blind.UNSUPPORTED, "read by this version for NVIDIA only")
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
