"""Lists the GPUs on the PCI bus, and which driver holds each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.cpulist import count_cpus
from checks.machine.facts import (
    Gpu,
    Gpus,
)
from checks.machine.probe.devices import (
    NVIDIA,
    NVIDIA_GPUS,
    PCI,
    gpus_on_the_bus,
    nvidia_information,
)
from checks.machine.probe.numa import NODES

_MODULES = ("nvidia", "nouveau", "amdgpu", "radeon")
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_PROCESSOR_VENDOR = "0x1022"
"""AMD's for all that is no GPU: beside one in a slot, such as the security processor, it tells that
both are parts of a processor."""
_OUTSIDE_PCI = ("/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu")
"""WSL's way to the GPUs of Windows; and the GPU of NVIDIA's Tegra, which is on no PCI bus."""


@dataclass(frozen=True)
class _KfdNode:
    """One GPU, or one partition of it, as AMD's compute driver lists it."""

    number: str
    address: str
    gfx: Field


@probe("machine.gpus", sees=Gpus)
def read_gpus(world: World, _: None = None) -> Gpus | Unseen:
    """List the GPUs on the PCI bus, and which driver holds each."""
    found = gpus_on_the_bus(world)
    if isinstance(found, Unseen):
        return found
    nodes = _kfd_nodes(world)
    known = () if isinstance(nodes, Unseen) else nodes
    return Gpus(
        gpus=tuple(
            _gpu(world, address, vendor, [node for node in known if node.address == address])
            for address, vendor in found
        ),
        modules=_modules(world),
        nvidia_listed=world.names(NVIDIA_GPUS),
        kfd_gpus_count=nodes if isinstance(nodes, Unseen) else len(nodes),
        cpu_nodes_count=_cpu_nodes(world),
        outside_pci=tuple(path for path in _OUTSIDE_PCI if world.exists(path)),
    )


def _gpu(world: World, address: str, vendor: str, nodes: list[_KfdNode]) -> Gpu:
    folder = f"{PCI}/{address}"
    return Gpu(
        address=address,
        vendor="nvidia" if vendor == NVIDIA else "amd",
        driver=_driver(world, folder),
        driver_override=_driver_override(world, folder),
        integrated=vendor != NVIDIA and _beside_a_processor(world, address),
        numa_node=world.line(f"{folder}/numa_node"),
        uuid=_uuid(world, address, vendor),
        kfd_nodes=tuple(node.number for node in nodes),
        gfx=nodes[0].gfx if nodes else Unseen(Blind.ABSENT, f"{_KFD} does not list it"),
    )


def _driver(world: World, folder: str) -> Field:
    link = world.link(f"{folder}/driver")
    if isinstance(link, Unseen):
        return "none" if link.reason is Blind.ABSENT else link
    return link.rpartition("/")[2] or Unseen(Blind.MALFORMED, f"{folder}/driver: {link[:40]}")


def _driver_override(world: World, folder: str) -> Field:
    text = world.read(f"{folder}/driver_override")
    if isinstance(text, Unseen):
        return "none" if text.reason is Blind.ABSENT else text
    name = text.strip()
    if name in ("", "(null)"):
        return "none"
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        return name
    return Unseen(Blind.MALFORMED, f"{folder}/driver_override: {name[:40]}")


def _beside_a_processor(world: World, address: str) -> bool:
    slot = address.rpartition(".")[0]
    return any(
        world.line(f"{PCI}/{slot}.{function}/vendor") == _PROCESSOR_VENDOR
        for function in range(1, 8)
    )


def _uuid(world: World, address: str, vendor: str) -> Field:
    if vendor == NVIDIA:
        return nvidia_information(world, address, "GPU UUID")
    number = world.line(f"{PCI}/{address}/unique_id")
    if isinstance(number, Unseen):
        return number
    if not re.fullmatch(r"[0-9a-f]{1,16}", number):
        return Unseen(Blind.MALFORMED, f"{PCI}/{address}/unique_id: {number[:40]}")
    return f"GPU-{number}"


def _modules(world: World) -> tuple[str, ...] | Unseen:
    names = world.names("/sys/module")
    if isinstance(names, Unseen):
        if names.reason is Blind.ABSENT and not isinstance(world.names("/sys"), Unseen):
            return ()  # a kernel that loads none
        return names
    return tuple(name for name in _MODULES if name in names)


def _cpu_nodes(world: World) -> int | Unseen:
    path = f"{NODES}/has_cpu"
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    return count_cpus(text) or Unseen(Blind.MALFORMED, f"{path}: {text[:40]}")


def _kfd_nodes(world: World) -> tuple[_KfdNode, ...] | Unseen:
    """List GPUs as AMD's compute driver does; one that it refuses makes the list none."""
    names = world.names(_KFD)
    if isinstance(names, Unseen):
        return names
    nodes = []
    for number in sorted(int(name) for name in names if re.fullmatch(r"[0-9]{1,4}", name)):
        text = world.read(f"{_KFD}/{number}/properties")
        if isinstance(text, Unseen):
            return text
        values = _numbers(text, ("simd_count", "location_id", "domain", "gfx_target_version"))
        if not values.get("simd_count"):
            continue  # of the processor
        if "location_id" not in values:
            return Unseen(Blind.MALFORMED, f"{_KFD}/{number}/properties has no location_id")
        nodes.append(
            _KfdNode(
                number=str(number),
                address=_address(values.get("domain", 0), values["location_id"]),
                gfx=_gfx(values.get("gfx_target_version", 0)),
            )
        )
    return tuple(nodes)


def _numbers(text: str, names: Iterable[str]) -> dict[str, int]:
    found = re.findall(r"^([a-z_]+) ([0-9]{1,15})$", text, re.MULTILINE)
    return {name: int(number) for name, number in found if name in names}


def _address(domain: int, location: int) -> str:
    # of a partition, the highest bits hold its number (drivers/gpu/drm/amd/amdkfd/kfd_topology.c)
    bus, slot, function = (location >> 8) & 0xFF, (location >> 3) & 0x1F, location & 0x7
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"


def _gfx(version: int) -> Field:
    """Read 90402 as 9.4.2: two decimal digits for each of the last two parts."""
    if not version:
        return Unseen(Blind.ABSENT, "its driver does not tell gfx_target_version")
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"
