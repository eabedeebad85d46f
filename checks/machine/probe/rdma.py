"""Reads what RDMA devices the box has."""

from __future__ import annotations

from checks.core.facts import Blind, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.facts import Rdma, RdmaDevice

MOST_DEVICES = 32
"""Devices that are kept; a card can be split into hundreds."""
MOST_PORTS = 4
LONGEST_STATE = 40
_RDMA = "/sys/class/infiniband"


@probe("machine.rdma", sees=Rdma)
def read_rdma(world: World, _: None = None) -> Rdma | Unseen:
    """Read what RDMA devices the box has."""
    names = world.names(_RDMA)
    if isinstance(names, Unseen):
        if names.reason is not Blind.ABSENT:
            return names
        names = ()  # a kernel that has no driver of any
    devices = [
        RdmaDevice(
            name=name,
            port_states=_port_states(world, name),
            under_synthetic=_under_synthetic(world, name),
        )
        for name in names
    ]
    devices.sort(key=lambda device: not device.active)
    return Rdma(devices=tuple(devices[:MOST_DEVICES]), left_out_count=len(devices[MOST_DEVICES:]))


def _port_states(world: World, name: str) -> tuple[str, ...]:
    ports = world.names(f"{_RDMA}/{name}/ports")
    lines = (
        world.line(f"{_RDMA}/{name}/ports/{port}/state")
        for port in (() if isinstance(ports, Unseen) else ports[:MOST_PORTS])
    )
    return tuple(line[:LONGEST_STATE] for line in lines if isinstance(line, str))


def _under_synthetic(world: World, name: str) -> bool:
    """Whether its network card is led by a synthetic one: accelerated networking of Hyper-V.

    That carries the machine's ordinary traffic (Documentation/networking/device_drivers/ethernet/
    microsoft/netvsc.rst of the kernel); nothing reaches another box by RDMA over it.
    """
    cards = world.names(f"{_RDMA}/{name}/device/net")
    for card in () if isinstance(cards, Unseen) else cards:
        leads = world.link(f"/sys/class/net/{card}/master")
        if isinstance(leads, str):
            driver = world.link(f"/sys/class/net/{leads.rpartition('/')[2]}/device/driver")
            if isinstance(driver, str) and driver.rpartition("/")[2] == "hv_netvsc":
                return True
    return False
