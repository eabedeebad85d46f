"""Reads how the kernel was started, and which drivers are loaded."""

from __future__ import annotations

import re

from checks.core.facts import BOX, Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.cmdline import parameters
from checks.machine.facts import DRIVERS, Driver, Kernel

MOST_DRIVERS = 60
LONGEST_NAME = 64
"""Of a module, in characters (MODULE_NAME_LEN of linux/module.h)."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@probe(
    "machine.kernel",
    sees=Kernel,
    targets=lambda profile: {BOX: profile.hardware.kernel_modules},
    always=True,
)
def read_kernel(world: World, declared: tuple[str, ...]) -> Kernel:
    """Read how the kernel was started, and which drivers are loaded."""
    modules = world.names("/sys/module")
    if not isinstance(modules, Unseen):
        modules = tuple(name for name in modules if len(name) <= LONGEST_NAME)
    return Kernel(
        parameters=parameters(world),
        modules=modules,
        built_in=_built_in(world, {name.replace("-", "_") for name in declared}),
        drivers=_drivers(world, () if isinstance(modules, Unseen) else modules),
        iommus_count=_count(world, "/sys/class/iommu"),
        transparent_huge_pages=_transparent(world),
    )


def _built_in(world: World, declared: set[str]) -> tuple[str, ...] | Unseen:
    """Find which of the declared modules are part of the kernel itself."""
    if not declared:
        return ()
    uname = world.uname()
    if isinstance(uname, Unseen):
        return uname
    text = world.read(f"/lib/modules/{uname.release}/modules.builtin")
    if isinstance(text, Unseen):
        return text
    # lines such as kernel/fs/ext4/ext4.ko
    names = {name.replace("-", "_") for name in re.findall(r"([^/\s]+)\.ko\b", text)}
    return tuple(sorted(names & declared))


def _drivers(world: World, modules: tuple[str, ...]) -> tuple[Driver, ...]:
    return tuple(
        Driver(
            name=name,
            version=world.line(f"/sys/module/{name}/version"),
            devices_count=_devices(world, name),
        )
        for name in modules
        if DRIVERS.fullmatch(name)
    )[:MOST_DRIVERS]


def _devices(world: World, name: str) -> int | Unseen:
    """Count the devices on PCI that a driver holds; a module that is no such driver holds none."""
    # the module vfio_pci registers the driver vfio-pci, mlx5_core itself
    for driver in (name, name.replace("_", "-")):
        names = world.names(f"/sys/bus/pci/drivers/{driver}")
        if not isinstance(names, Unseen):
            return sum(1 for entry in names if _ADDRESS.fullmatch(entry))
        if names.reason is not Blind.ABSENT:
            return names
    return 0


def _count(world: World, path: str) -> int | Unseen:
    names = world.names(path)
    if isinstance(names, Unseen):
        # a kernel without support for them has no such class
        return 0 if names.reason is Blind.ABSENT and world.exists("/sys/class") else names
    return len(names)


def _transparent(world: World) -> Field:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    chosen = re.search(r"\[([a-z]{1,20})\]", text)
    return chosen[1] if chosen else Unseen(Blind.MALFORMED, f"{path}: {text[:60]!r}")
