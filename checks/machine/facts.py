"""What is seen of the machine: plain data, units in the names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.core.expectation import Bounds
from checks.core.facts import Access, Component, Facts, Field, Unseen


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
class MemoryLimit(Facts):
    """One limit of a cgroup, and what it leaves."""

    source: str
    """File that says so."""
    limit_bytes: int
    used_bytes: int
    file_bytes: int
    """What of it is cached files, which are given back when memory runs short."""

    @property
    def left_bytes(self) -> int:
        """What can still be had below the limit."""
        # the number first: max gives the second only where it is more, which nothing is than NaN
        return max(self.limit_bytes - max(self.used_bytes - self.file_bytes, 0), 0)


@dataclass(frozen=True, kw_only=True)
class MemoryGroups(Facts):
    """What limits the memory of the suite's own process, and of all that is started beside it."""

    limits: tuple[MemoryLimit, ...]
    """Every limit that was found, the one that leaves least first."""
    above_unseen: bool
    """Whether cgroups above the mounted root may limit further and cannot be seen from here."""


@dataclass(frozen=True, kw_only=True)
class Memory(Facts):
    """How much memory there is."""

    total_bytes: int
    """MemTotal: what the kernel manages, less than what is fitted."""
    available_bytes: int
    """MemAvailable: what can be had without swapping."""
    fitted_bytes: int | Unseen
    """Memory blocks times their size, as the kernel counts them in sysfs."""
    dimm_serials: Field
    groups: MemoryGroups | Unseen

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe."""
        fitted = self.fitted_bytes
        size = fitted if isinstance(fitted, Unseen) else f"{fitted / 2**30:.0f} GiB"
        yield Component(slot="memory", kind={"size": size}, identity={"serials": self.dimm_serials})


@dataclass(frozen=True, kw_only=True)
class MemoryWanted(Bounds):
    """How much memory there must be: bounds of MemTotal, and what is fitted."""

    fitted_bytes: int | None
    """Size of all modules together; None where what is wanted is no such size."""


@dataclass(frozen=True, kw_only=True)
class CpuLimit(Facts):
    """One thing that limits how many CPUs may be used at once."""

    source: str
    """File that says so."""
    text: str
    """What stands in it."""
    cpus: float


@dataclass(frozen=True, kw_only=True)
class Process(Facts):
    """One process, and what it was started with."""

    process: str
    """Number and name."""
    command: tuple[str, ...] | Unseen
    thread_environment: dict[str, str] | Unseen
    """Its environment variables that set thread counts."""
    same_limits: bool
    """Whether affinity and cgroups are those of the process that was looked at for the limits."""


@dataclass(frozen=True, kw_only=True)
class Cpu(Facts):
    """How many CPUs a place may use, and what runs there."""

    place: str
    """As the profile names it."""
    process: str
    """Number and name of the process that was looked at."""
    host_cpus: int
    """Logical CPUs of the host that are online."""
    host_cores: int
    """Physical cores of the host; the same as host_cpus where the kernel does not tell."""
    effective_cpus: float
    """min(affinity, cpuset, quota) over every cgroup up to the root, of the place; not rounded."""
    affinity_cpus: int
    limits: tuple[CpuLimit, ...]
    """Every limit that was found, the tightest first."""
    above_unseen: bool
    """Whether cgroups above the mounted root may limit further and cannot be seen from here."""
    throttled_ratio: float | None
    """Share of the periods in which the quota stopped the place; None where nobody counts."""
    command: tuple[str, ...] | Unseen
    """Command line of the process, where the place is a process of its own."""
    thread_environment: dict[str, str] | Unseen
    """Its environment variables that set thread counts."""
    others: tuple[Process, ...] | Unseen
    """Every other process of the unit or container; of another place, what descends from it."""
    others_left_out_count: int
    """How many of them were too many, or too long, to be kept."""


@dataclass(frozen=True, kw_only=True)
class Threads:
    """What the profile asks an engine to run with."""

    command: tuple[str, ...]
    env: dict[str, str]
    engine: str


@dataclass(frozen=True, kw_only=True)
class Folder(Facts):
    """How much fits into a folder."""

    path: str
    looked_at: str
    """The folder itself, or its nearest parent that is there."""
    total_bytes: int
    free_bytes: int
    """For an unprivileged user."""
    inodes: int
    """0 where the file system has no fixed number."""
    inodes_free: int
    cached_bytes: dict[str, int]
    """What of each model of the profile lies in it already, by hub id."""
    access: Access | Unseen
    beside: tuple[str, ...]
    """Which others of these folders lie on the same file system, where that was looked for."""


@dataclass(frozen=True, kw_only=True)
class RoomWanted:
    """What a folder must have room for."""

    free_bytes: int
    """Besides the models."""
    model_bytes: dict[str, int]
    """Size of each model by hub id; what is cached already needs no room."""
    inodes_free: int
    beside_bytes: dict[str, int]
    """What the other folders need, by their subjects, if they lie on the same file system."""
    named_by: str
    """What says where the folder lies."""
    made_when_needed: bool
    """Whether whoever writes there makes the folder first."""


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


@dataclass(frozen=True, kw_only=True)
class Scaling(Facts):
    """How the frequency of some of the CPUs is governed: those with the same driver and governor."""

    driver: str
    governor: str
    governed_cpus: int
    lowest_max_ratio: float | Unseen
    """The least of their upper limits (scaling_max_freq), as a ratio of what the hardware can."""


@dataclass(frozen=True, kw_only=True)
class Processor(Facts):
    """What the processor is and can."""

    sockets_count: int | Unseen
    cores_count: int | Unseen
    """Physical cores that have a CPU online."""
    online_cpus: int | Unseen
    """Logical CPUs that are online."""
    present_cpus: int | Unseen
    """Logical CPUs that are there, online or not."""
    smt: Field
    """State of simultaneous multithreading: on, off, forceoff, notsupported, notimplemented."""
    kernel_words: tuple[str, ...] | Unseen
    """Words of the kernel's command line that take CPUs or instruction sets away."""
    features: tuple[str, ...] | Unseen
    """Flags that every CPU of /proc/cpuinfo has."""
    scaling: tuple[Scaling, ...] | Unseen
    """Empty where the kernel scales no frequency: most virtual machines."""
    scaling_unread_cpus: int
    """CPUs online whose driver or governor could not be read."""
    throttles_count: int | Unseen
    """How often heat has throttled the CPU, or its package, that it did most often, since boot."""
    up_s: float | Unseen
    """Seconds since boot, suspended time included."""

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe: what does not change with load or settings."""
        counts = {"sockets": self.sockets_count, "present_cpus": self.present_cpus}
        kind: dict[str, Field] = {
            name: count if isinstance(count, Unseen) else str(count)
            for name, count in counts.items()
        }
        yield Component(slot="cpu", kind=kind, identity={})


@dataclass(frozen=True, kw_only=True)
class NumaNode(Facts):
    """One node: memory and CPUs that are near to one another."""

    node: str
    """Its number."""
    cpu_list: str
    """As the kernel writes it, such as 0-31,64-95; empty where it has no CPU."""
    near_cpus: int
    memory_bytes: int
    distances: Field
    """To each node, its own among them, as the kernel writes them: 10 21."""


@dataclass(frozen=True, kw_only=True)
class Numa(Facts):
    """How memory and CPUs are divided."""

    nodes: tuple[NumaNode, ...]
    """Empty where the kernel knows of no nodes: all is one."""
    balancing: Field
    """/proc/sys/kernel/numa_balancing: 0, 1 or 2."""


@dataclass(frozen=True, kw_only=True)
class Gpu(Facts):
    """One GPU on the PCI bus, and who holds it."""

    address: str
    vendor: str
    """nvidia or amd."""
    driver: Field
    """Of the kernel; `none` where none holds it."""
    driver_override: Field
    """The only driver that may take it, where somebody has set that; else `none`."""
    integrated: bool
    """Whether it is a part of an AMD processor: it shares its slot with devices of one."""
    numa_node: Field
    """-1 where the firmware does not tell."""
    uuid: Field
    """As the driver gives it: of NVIDIA GPU-…, of AMD the unique id, GPU- in front of it."""
    kfd_nodes: tuple[str, ...]
    """Numbers of its nodes in the topology of AMD's compute driver, one for each partition."""
    gfx: Field
    """Its instruction set by that driver, such as 9.4.2."""


@dataclass(frozen=True, kw_only=True)
class Gpus(Facts):
    """The GPUs on the PCI bus, without those that a GPU of the host lends to virtual machines."""

    gpus: tuple[Gpu, ...]
    modules: tuple[str, ...] | Unseen
    """Which drivers of GPUs the kernel has loaded: nvidia, nouveau, amdgpu, radeon."""
    nvidia_listed: tuple[str, ...] | Unseen
    """Addresses of the GPUs that NVIDIA's driver lists; in a container, of those that it was given."""
    kfd_gpus_count: int | Unseen
    """GPUs that AMD's compute driver lists, each partition by itself."""
    cpu_nodes_count: int | Unseen
    """NUMA nodes that have CPUs."""
    outside_pci: tuple[str, ...]
    """Device files of GPUs that no PCI bus shows: /dev/dxg of WSL, those of Tegra."""

    def of(self, vendor: str) -> tuple[Gpu, ...]:
        """Give the GPUs of one vendor."""
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)


@dataclass(frozen=True, kw_only=True)
class Leftover(Facts):
    """What the environment of one place says about GPUs and proxies."""

    place: str
    """`this`, or the name of what is served there."""
    source: str
    """Whose environment it is."""
    environment: dict[str, str] | Unseen
    """Its variables that hide GPUs or change what they are taken for."""
    libraries: tuple[str, ...]
    """Entries of LD_LIBRARY_PATH and LD_PRELOAD that name CUDA's stubs or compat libraries."""
    proxies: dict[str, str]
    """Each proxy variable that is set, and the host that it names."""
    nvidia_uuids: tuple[Field, ...] | Unseen
    """UUID of each GPU that NVIDIA's driver shows to the place."""


@dataclass(frozen=True, kw_only=True)
class Leftovers(Facts):
    """What was left over in the environments of all places."""

    places: tuple[Leftover, ...]


@dataclass(frozen=True, kw_only=True)
class VisibilityWanted:
    """Which place must see GPUs, and whether it can do without."""

    place: str
    needs_gpus: bool
    """Whether what is served there is hardly ever meant to run without one."""


@dataclass(frozen=True, kw_only=True)
class Mps(Facts):
    """Whether NVIDIA's Multi-Process Service runs."""

    processes: tuple[str, ...]
    """Number and name of each of its processes."""
    hidden_count: int
    """Processes whose names could not be read, and so may be others of it."""
    others_hidden: bool
    """Whether /proc shows this user, or this container, its own processes alone."""


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment(Facts):
    """Whether what is installed in a Python environment fits together, as pip or uv says."""

    path: str
    """Of the interpreter."""
    start: str
    """`ok`, `missing`, or how it did not start."""
    version: Field
    checker: str
    """What was asked: `pip check`, `uv pip check`; empty where nobody could be."""
    complaints: tuple[str, ...] | Unseen
    """Lines of the checker about requirements that are not met, as many as are kept."""
    complaints_left_out_count: int
    warnings: tuple[str, ...]
    """Other lines that it wrote, as many as are kept."""
