"""Who the machine is, what is plugged in, and what its clocks say.

Apart from the other facts, for the gate needs these alone, and each class takes its time to load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.core.facts import Component, Facts, Field, Unseen


@dataclass(frozen=True, kw_only=True)
class Identity(Facts):
    """Which machine this is, and what it runs in."""

    host_name: Field
    architecture: Field
    """As `uname -m` prints it."""
    kernel_release: Field
    os_name: Field
    machine_id: Field
    """/etc/machine-id; cloned images share it, so it never identifies a box by itself."""
    product_vendor: Field
    product_name: Field
    board_name: Field
    board_serial: Field
    product_uuid: Field
    cpu_model: Field
    hypervisor: Field
    """`none` on bare metal, or kvm, vmware, microsoft, xen, amazon, …; `vm` if it hides its name."""
    container: Field
    """`none`, or docker, podman, kubernetes, lxc, systemd-nspawn, …"""
    evidence: tuple[str, ...]
    """The lines that hypervisor and container were read from."""

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe."""
        yield Component(
            slot="board",
            kind={
                "vendor": self.product_vendor,
                "product": self.product_name,
                "board": self.board_name,
                "hypervisor": self.hypervisor,
            },
            identity={"serial": self.board_serial, "uuid": self.product_uuid},
        )
        yield Component(slot="cpu", kind={"model": self.cpu_model}, identity={})
        yield Component(slot="kernel", kind={"release": self.kernel_release}, identity={})
        yield Component(slot="container", kind={"container": self.container}, identity={})


@dataclass(frozen=True, kw_only=True)
class Device(Facts):
    """One device in its slot."""

    slot: str
    """Number, or the kernel's name of it."""
    kind: dict[str, Field]
    identity: dict[str, Field]


@dataclass(frozen=True, kw_only=True)
class Devices(Facts):
    """What is plugged in, as the kernel lists it without any vendor's tool."""

    gpus: tuple[Device, ...] | Unseen
    """NVIDIA (10de) and AMD (1002) display and 3-D controllers on PCI, by address."""
    disks: tuple[Device, ...] | Unseen
    nics: tuple[Device, ...] | Unseen
    nvidia_driver: Field
    resolver: Field
    """The lines of /etc/resolv.conf that count."""

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe."""
        for name, devices in (("gpu", self.gpus), ("disk", self.disks), ("nic", self.nics)):
            if isinstance(devices, Unseen):
                yield Component(slot=name, kind={"list": devices}, identity={"list": devices})
                continue
            for device in devices:
                slot = f"{name}[{device.slot}]"
                yield Component(slot=slot, kind=device.kind, identity=device.identity)
        yield Component(slot="driver", kind={"nvidia": self.nvidia_driver}, identity={})
        yield Component(slot="resolver", kind={"resolv_conf": self.resolver}, identity={})


@dataclass(frozen=True, kw_only=True)
class Moment(Facts):
    """A moment that has passed on this box, if its clock and its files are right."""

    what: str
    at_s: float
    """Seconds since 1970, UTC."""


@dataclass(frozen=True, kw_only=True)
class Clock(Facts):
    """What the clocks say."""

    now_s: float
    """Wall clock, seconds since 1970, UTC."""
    up_s: float
    """Seconds since boot, suspended time included."""
    boot_s: float | Unseen
    """Moment of boot as the kernel counts it back from its wall clock (btime of /proc/stat)."""
    boot_id: str | Unseen
    synchronised: bool | Unseen
    """Whether the kernel says that something disciplines its clock (adjtimex)."""
    kernel_built: Moment | Unseen
    packages_installed: Moment | Unseen
    """The newest file that a package manager installed or wrote."""


@dataclass(frozen=True, kw_only=True)
class Discipline(Facts):
    """What the kernel says of who keeps its clock right (adjtimex)."""

    synchronised: bool
    status: str
    """All STA_* bits of <sys/timex.h>, hexadecimal."""
    maxerror_s: float | Unseen
    """How far the clock may be off at most, as far as whoever disciplines it knows."""
    esterror_s: float | Unseen


@dataclass(frozen=True, kw_only=True)
class HardwareClock(Facts):
    """The clock of the board, which runs while the box is off."""

    name: str
    at_s: float
    """What it says, taken for UTC; seconds since 1970."""
    system_at_s: float
    """What the system's clock said then."""
    set_the_system: bool | Unseen
    """Whether the kernel set its own clock by it at boot."""


@dataclass(frozen=True, kw_only=True)
class TimeZone(Facts):
    """Which time zone programs use."""

    variable: str
    """TZ of the environment; empty where it is not set."""
    localtime: Field
    """Where /etc/localtime leads."""
    timezone: Field
    """What /etc/timezone says."""
    missing: tuple[str, ...]
    """What of these names a zone that is not on this box."""


@dataclass(frozen=True, kw_only=True)
class Timekeeping(Facts):
    """Who keeps the clocks right."""

    discipline: Discipline | Unseen
    services: tuple[str, ...]
    """Time services that have left a trace of running."""
    rtc: HardwareClock | Unseen
    zone: TimeZone


@dataclass(frozen=True, kw_only=True)
class History(Facts):
    """What the earlier ledgers of this host say about time."""

    ledger: str
    """File of the newest one; empty if there is none."""
    newest_s: float | Unseen
    """The latest moment that any of them records, seconds since 1970, UTC."""
    boot_id: str | Unseen
    boot_offset_s: float | Unseen
    """Wall clock minus time since boot, in that run."""
    run_boot_offset_s: float
    """The same at the start of this run."""
