"""What is seen of the machine: plain data, units in the names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.core.expectation import Bounds
from checks.core.facts import Access, Component, Facts, Field, Unseen
from checks.machine.basic_facts import (
    Clock as Clock,
    Device as Device,
    Devices as Devices,
    Discipline as Discipline,
    HardwareClock as HardwareClock,
    History as History,
    Identity as Identity,
    Moment as Moment,
    Timekeeping as Timekeeping,
    TimeZone as TimeZone,
)


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
class HugePageSize:
    """Huge pages of one size, which are set aside and serve for nothing else."""

    size_bytes: int
    total_count: int
    free_count: int
    promised_count: int
    """What of the free ones some process has been promised (resv_hugepages)."""

    @property
    def unused_bytes(self) -> int:
        """Memory that is set aside and that nobody has asked for."""
        # the number first: max gives the second only where it is more, which nothing is than NaN
        return max(self.free_count - self.promised_count, 0) * self.size_bytes


@dataclass(frozen=True, kw_only=True)
class HugePages:
    """What is set aside as huge pages, of every size."""

    sizes: tuple[HugePageSize, ...]

    @property
    def unused_bytes(self) -> int:
        """Memory that is set aside in pages of any size and that nobody has asked for."""
        return sum(size.unused_bytes for size in self.sizes)


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
    huge_pages: HugePages | Unseen
    limited_by: tuple[str, ...] | Unseen
    """Parameters of the kernel's command line that take memory or CPUs away."""

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
class MemoryAvailableWanted:
    """How much memory must be available, and what of the box is kept for others."""

    min_bytes: int
    reserved_bytes: int


@dataclass(frozen=True, kw_only=True)
class SwapDevice:
    """One partition, file or compressed piece of memory that the kernel swaps to."""

    name: str
    kind: str
    """`zram` (compressed memory, no disk), `partition` or `file`."""
    size_bytes: int
    used_bytes: int


@dataclass(frozen=True, kw_only=True)
class Swap(Facts):
    """How much swap there is, and how much lies in it."""

    total_bytes: int
    free_bytes: int
    memory_total_bytes: int
    devices: tuple[SwapDevice, ...] | Unseen
    zswap: bool | Unseen
    """Whether pages on their way to swap are first kept, compressed, in memory."""


@dataclass(frozen=True, kw_only=True)
class ResourceLimits:
    """Limits of a process (getrlimit(2)); None: unlimited."""

    locked_soft_bytes: int | None
    locked_hard_bytes: int | None
    open_files_soft_count: int | None
    open_files_hard_count: int | None
    processes_soft_count: int | None


@dataclass(frozen=True, kw_only=True)
class Rights:
    """What lifts limits of a process."""

    capabilities: tuple[str, ...]
    """Those of its effective ones that lift a limit: ipc_lock, sys_admin, sys_resource."""
    root: bool
    """Whether its real user is number 0."""
    own_users: bool | Unseen
    """Whether it lives in a user namespace of its own, whose rights count for nothing outside."""


@dataclass(frozen=True, kw_only=True)
class TaskLimit:
    """How many processes and threads one cgroup allows, and has."""

    source: str
    """File that says so."""
    limit_count: int
    used_count: int


@dataclass(frozen=True, kw_only=True)
class TaskGroups:
    """What limits the number of processes and threads of a place."""

    limits: tuple[TaskLimit, ...]
    """Every limit that was found, the one that leaves least first."""
    above_unseen: bool
    """Whether cgroups above the mounted root may limit further and cannot be seen from here."""


@dataclass(frozen=True, kw_only=True)
class SharedMemory:
    """The file system of /dev/shm."""

    total_bytes: int
    """0: it has no limit of its own."""
    free_bytes: int


@dataclass(frozen=True, kw_only=True)
class RdmaDevice:
    """One RDMA device of the box."""

    name: str
    port_states: tuple[str, ...]
    """As the kernel writes them, such as `4: ACTIVE`; none where it shows no port."""
    under_synthetic: bool
    """Whether it only speeds up the virtual network card of a Hyper-V machine."""

    @property
    def active(self) -> bool:
        """Whether a port is up; one that shows no port may have one."""
        return not self.port_states or any("ACTIVE" in state for state in self.port_states)


@dataclass(frozen=True, kw_only=True)
class Rdma(Facts):
    """What RDMA devices the box has."""

    devices: tuple[RdmaDevice, ...]
    """Those with an active port come first."""
    left_out_count: int
    """How many of them were too many to be kept."""


@dataclass(frozen=True, kw_only=True)
class Killed:
    """Processes of a cgroup that the kernel has killed for want of memory, since it was made."""

    source: str
    """File that says so."""
    kills_count: int
    up_s: float | Unseen
    """How long the box has been up: the longest that the cgroup can have been there."""


@dataclass(frozen=True, kw_only=True)
class Limits(Facts):
    """What a place may lock, open, start and hold, besides CPUs."""

    place: str
    """As the profile names it."""
    process: str
    """Number and name of the process that was looked at."""
    resources: ResourceLimits | Unseen
    rights: Rights | Unseen
    affinity_cpus: int | Unseen
    tasks: TaskGroups | Unseen
    own_tasks_count: int
    """Processes and threads that run in the place already; of the suite's own place, 0."""
    memory: MemoryGroups | Unseen
    own_memory_bytes: int | Unseen
    """Memory that they hold and that no file backs."""
    killed: Killed | Unseen
    shm: SharedMemory | Unseen
    rdma_openable: bool | Unseen
    """Whether the place has a device file to reach an RDMA device by."""


@dataclass(frozen=True, kw_only=True)
class LimitsWanted:
    """What a place must leave to what is started there."""

    least: int | None
    """Bytes or number, as the profile declares it; None where it does not."""
    command: tuple[str, ...]
    env: dict[str, str]
    engine: str


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that works on a GPU, or most likely does."""

    process: str
    """Number and name."""
    device: str
    """Its file, such as /dev/nvidia0; empty where only the process's name tells."""


BUSY_RATIO = 0.25
"""Share of the CPUs that may be busy beside a load test without changing what it measures (assumed)."""
MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Activity(Facts):
    """What runs on the box beside the suite."""

    holders: tuple[Holder, ...] | Unseen
    holders_left_out_count: int
    unlooked_count: int
    """Processes of other users whose open files could not be looked at."""
    running_count: int | Unseen
    """Threads that run or wait for a CPU, less the one that counted them."""
    host_cpus: int | Unseen

    def busy(self) -> str:
        """Say what the box is busy with that a load would compete with; empty: nothing."""
        said = []
        if isinstance(self.holders, Unseen):
            said.append(f"who holds the GPUs cannot be seen ({self.holders})")
        else:
            said += [
                f"pid {one.process} {f'holds {one.device}' if one.device else 'is an engine'}"
                for one in self.holders[:MOST_NAMED]
            ]
            more = len(self.holders[MOST_NAMED:]) + self.holders_left_out_count
            said += [f"{more} more such processes"] if more else []
        running, cpus = self.running_count, self.host_cpus
        if isinstance(running, Unseen) or isinstance(cpus, Unseen):
            return "; ".join(said)
        if running > cpus * BUSY_RATIO:
            said.append(f"{running} threads run on {cpus} CPUs")
        return "; ".join(said)


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
    reserved_cpus: float = 0.0
    """CPUs of the host that are kept for others."""


@dataclass(frozen=True, kw_only=True)
class Mounted(Facts):
    """The file system that a folder lies on, as it is mounted."""

    kind: str
    """ext4, xfs, nfs4, overlay, tmpfs, …"""
    mounted_from: str
    """Device, or what else it is called by: `server:/export`, `tmpfs`."""
    point: str
    options: tuple[str, ...]
    """Of the mount, then those of the file system; without users' names and layers of overlays."""
    turned_read_only: bool
    """Whether it was mounted writable and is read-only now: so a kernel leaves it after an error."""


@dataclass(frozen=True, kw_only=True)
class MemoryBehind(Facts):
    """The memory that a file system in memory takes its room from."""

    memory_total_bytes: int
    memory_available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int
    groups: MemoryGroups | Unseen


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
    needed: bool
    """Whether anything on this box may put something there; False where no container runtime is."""
    mounted: Mounted | Unseen
    disks: tuple[str, ...] | Unseen
    """Slots of the disks that it lies on; none for a file system that lies on no disk of this box."""
    memory: MemoryBehind | Unseen | None
    """None for a file system that is not kept in memory."""


@dataclass(frozen=True, kw_only=True)
class RoomWanted:
    """What a folder must have room for."""

    name: str
    """`model-cache`, `tmp`, `ledgers` or `containers`; the last is written by a runtime, as root."""
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
    named: bool
    """Whether the profile or the run says that something goes there, or it was only found."""


@dataclass(frozen=True, kw_only=True)
class Locks(Facts):
    """Whether files in a folder can be locked."""

    path: str
    outcome: str | Unseen
    """`ok`, or the name of the error that flock(2) gave; timed out where it gave no answer."""
    waited_s: float | Unseen
    kind: Field
    """Of the file system."""


@dataclass(frozen=True, kw_only=True)
class ModelCache(Facts):
    """Where the profile's models are cached, and which revisions of them."""

    kind: Field
    """Of the file system."""
    mounted_from: Field
    """What it is mounted from; of disks their slots, for the kernel's names change between boots."""
    revisions: dict[str, Field]
    """Commit that the branch `main` named when a model was downloaded, by hub id."""

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe."""
        kind = {"filesystem": self.kind, "mounted_from": self.mounted_from}
        yield Component(slot="cache", kind=kind, identity={})
        for model, revision in self.revisions.items():
            yield Component(slot=f"model[{model}]", kind={"revision": revision}, identity={})


@dataclass(frozen=True, kw_only=True)
class LogSpan(Facts):
    """What of a log can be read; none of what stands in it."""

    records_count: int
    """Of a journal: in its current file, of all sources."""
    lost_count: int | None
    """Records of this boot that are overwritten; None where nobody counts."""
    first_s: float | None
    """When the first one was written, in seconds since boot, before it negative; None without one."""
    last_s: float | None
    complete: bool
    """Whether it was read to its end."""


@dataclass(frozen=True, kw_only=True)
class KernelLog(Facts):
    """Whether the kernel's log can be read, by each way that there is."""

    kmsg: LogSpan | Unseen
    journal: LogSpan | Unseen


DRIVERS = re.compile(r"nvidia\w*|nouveau|nova_core|amdgpu|ib_\w+|mlx[45]_\w+|rdma_cm|vfio_pci")
"""Drivers of GPUs and RDMA cards, and what hands devices to virtual machines."""


@dataclass(frozen=True, kw_only=True)
class Driver(Facts):
    """One loaded driver of a GPU or of an RDMA card."""

    name: str
    version: Field
    devices_count: int | Unseen
    """Devices on PCI that it holds."""


FROM_WHERE = (
    "BOOT_IMAGE",
    "initrd",
    "root",
    "resume",
    "resume_offset",
    "ostree",
    "systemd.machine_id",
)
"""Parameters that say where a system lies, and not how it runs."""


@dataclass(frozen=True, kw_only=True)
class Kernel(Facts):
    """How the kernel was started, and what is loaded."""

    parameters: tuple[str, ...] | Unseen
    """Of its command line; without what is for the first process."""
    modules: tuple[str, ...] | Unseen
    """Names of all that are loaded, and of those built in that sysfs lists."""
    built_in: tuple[str, ...] | Unseen
    """Which of the declared ones are a part of the kernel itself."""
    drivers: tuple[Driver, ...]
    iommus_count: int | Unseen
    """IOMMUs that are in use; 0: none."""
    transparent_huge_pages: Field
    """`always`, `madvise` or `never`."""

    def components(self) -> Iterator[Component]:
        """Give the parts that these facts describe."""
        words = self.parameters
        line = (
            words
            if isinstance(words, Unseen)
            else " ".join(word for word in words if word.partition("=")[0] not in FROM_WHERE)
        )
        kind = {
            "kernel_parameters": line,
            "transparent_huge_pages": self.transparent_huge_pages,
        }
        yield Component(slot="settings", kind=kind, identity={})


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

    @property
    def lent(self) -> bool:
        """Whether it is kept for a virtual machine: by vfio-pci and its likes, pci-stub, pciback."""
        driver = self.driver if self.driver != "none" else self.driver_override
        name = "" if isinstance(driver, Unseen) else driver.replace("_", "-")
        return "vfio" in name or name in ("pci-stub", "pciback", "xen-pciback")


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
