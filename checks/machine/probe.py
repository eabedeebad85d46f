"""Looks at the machine: files of /proc, /sys and /etc, clocks, file systems. Judges nothing."""

from __future__ import annotations

import calendar
import ctypes
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checks.core.facts import Access, Blind, Facts, Field, Unseen
from checks.core.place import THIS, Place, PlaceError, parse_place
from checks.core.profile import Profile
from checks.core.registry import probe, supplied
from checks.core.world import LARGEST_READ_BYTES, World, blind
from checks.engines.threads import VARIABLES
from checks.machine.cgroups import quota_limits, throttled_ratio
from checks.machine.cpulist import count_cpus, cpus_of
from checks.machine.facts import (
    Clock,
    Cpu,
    CpuLimit,
    Device,
    Devices,
    Folder,
    History,
    Identity,
    Memory,
    MemoryGroups,
    Moment,
    Process,
)
from checks.machine.hub import declared_caches, hub_cache, is_hub_model
from checks.machine.memory_cgroups import memory_groups
from checks.machine.places import Found, companions, find_process, process_text

supplied("machine.history", sees=History)


# Identity

DMI = "/sys/class/dmi/id"

_HYPERVISORS = (
    # DMI names, as systemd's src/basic/virt.c and the vendors' own documentation give them
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("qemu", "qemu"),
    ("amazon ec2", "amazon"),
    ("google compute engine", "google"),
    ("vmware", "vmware"),
    ("innotek", "oracle"),
    ("virtualbox", "oracle"),
    ("oraclecloud", "oracle-cloud"),
    ("xen", "xen"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("apple virtualization", "apple"),
)

_CONTAINERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("/lxc", "lxc"),
    ("containerd", "containerd"),
    ("machine.slice/systemd-nspawn", "systemd-nspawn"),
)


@probe("machine.identity", sees=Identity)
def read_identity(world: World, _: None = None) -> Identity:
    """Read who the machine says it is."""
    uname = world.uname()
    evidence: list[str] = []
    return Identity(
        host_name=uname if isinstance(uname, Unseen) else uname.node or _nothing("host name"),
        architecture=uname if isinstance(uname, Unseen) else uname.machine or _nothing("machine"),
        kernel_release=uname if isinstance(uname, Unseen) else uname.release or _nothing("release"),
        os_name=_os_name(world),
        machine_id=world.line("/etc/machine-id"),
        product_vendor=world.line(f"{DMI}/sys_vendor"),
        product_name=_product(world),
        board_name=world.line(f"{DMI}/board_name"),
        board_serial=world.line(f"{DMI}/board_serial"),
        product_uuid=world.line(f"{DMI}/product_uuid"),
        cpu_model=_cpu_model(world),
        hypervisor=_hypervisor(world, evidence),
        container=_container(world, evidence),
        evidence=tuple(evidence),
    )


def _nothing(what: str) -> Unseen:
    return Unseen(Blind.MALFORMED, f"{what} is empty")


def _product(world: World) -> Field:
    """Product name from DMI, or from the device tree on boards that have no DMI."""
    name = world.line(f"{DMI}/product_name")
    if isinstance(name, Unseen) and name.reason is Blind.ABSENT:
        model = world.line("/proc/device-tree/model")
        return name if isinstance(model, Unseen) else model
    return name


def _os_name(world: World) -> Field:
    text = world.read("/etc/os-release")
    if isinstance(text, Unseen):
        text = world.read("/usr/lib/os-release")
    if isinstance(text, Unseen):
        return text
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
    return found[1] if found else Unseen(Blind.MALFORMED, "os-release has no PRETTY_NAME")


def _cpu_model(world: World) -> Field:
    text = world.read("/proc/cpuinfo")
    if isinstance(text, Unseen):
        return text
    for key in ("model name", "Model", "cpu model", "Hardware", "uarch"):
        found = re.search(rf"^{key}\s*:\s*(\S.*)$", text, re.MULTILINE)
        if found:
            return found[1].strip()
    arm = re.search(r"^CPU implementer\s*:\s*(\S+)", text, re.MULTILINE)
    part = re.search(r"^CPU part\s*:\s*(\S+)", text, re.MULTILINE)
    if arm and part:
        return f"arm implementer {arm[1]} part {part[1]}"
    return Unseen(Blind.MALFORMED, "/proc/cpuinfo names no model")


def _hypervisor(world: World, evidence: list[str]) -> Field:
    version = world.line("/proc/version")
    if not isinstance(version, Unseen) and "microsoft" in version.lower():
        evidence.append(f"/proc/version: {version}")
        return "wsl"
    kind = world.line("/sys/hypervisor/type")
    if not isinstance(kind, Unseen):
        evidence.append(f"/sys/hypervisor/type: {kind}")
        return kind
    names = [world.line(f"{DMI}/{name}") for name in ("sys_vendor", "product_name", "bios_vendor")]
    text = " ".join(name for name in names if not isinstance(name, Unseen))
    named = next((kind for word, kind in _HYPERVISORS if word in text.lower()), "")
    if "microsoft" in text.lower() and "virtual machine" in text.lower():
        named = "microsoft"
    info = world.read("/proc/cpuinfo")
    flags = "" if isinstance(info, Unseen) else info
    has_flags = re.search(r"^flags\s*:", flags, re.MULTILINE)
    flagged = re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE)
    tree = world.line("/proc/device-tree/hypervisor/compatible")
    if text:
        evidence.append(f"DMI: {text}")
    if flagged:
        evidence.append("/proc/cpuinfo: hypervisor flag")
    if not isinstance(tree, Unseen):
        return named or tree
    if has_flags:
        # An x86 CPU tells: cloud vendors put their names into DMI on bare metal too.
        return (named or "vm") if flagged else "none"
    if named and not text.lower().rstrip().endswith(".metal") and ".metal" not in text.lower():
        return named
    if text or not isinstance(world.line("/proc/device-tree/model"), Unseen):
        return "none"
    return Unseen(Blind.ABSENT, "neither CPU flags nor DMI nor a device tree tell")


def _container(world: World, evidence: list[str]) -> Field:
    if "KUBERNETES_SERVICE_HOST" in world.environ:
        evidence.append("environment: KUBERNETES_SERVICE_HOST")
        return "kubernetes"
    for path, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if world.exists(path):
            evidence.append(f"{path} is there")
            return kind
    named = world.line("/run/systemd/container")
    if isinstance(named, Unseen) and world.environ.get("container"):
        named = world.environ["container"]
    if not isinstance(named, Unseen):
        evidence.append(f"container={named}")
        return named
    groups = world.read("/proc/self/cgroup" if world.live else _self(world, "cgroup"))
    if isinstance(groups, Unseen):
        return groups
    for word, kind in _CONTAINERS:
        if word in groups:
            evidence.append(next(line for line in groups.splitlines() if word in line))
            return kind
    return "none"


def _self(world: World, name: str) -> str:
    pid = world.pid()
    return f"/proc/{'self' if world.live or isinstance(pid, Unseen) else pid}/{name}"


# Devices

_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3-D, other display controllers, and processing accelerators."""
_GPU_VENDORS = ("0x10de", "0x1002")
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)")


@probe("machine.devices", sees=Devices)
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
            slot=_disk_slot(world, name),
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
        if not _NO_DISK.match(name)
    )


def _disk_slot(world: World, name: str) -> str:
    """Name where a disk is plugged in; the kernel's own names change places between boots."""
    link = world.link(f"/sys/block/{name}")
    if isinstance(link, Unseen):
        return name
    parts = link.split("/")
    at = [
        n
        for n, part in enumerate(parts)
        if re.fullmatch(r"[0-9a-f]{4,8}(:[0-9a-f]{2}){2}\.\d", part)
    ]
    if not at:
        return name
    # behind one controller: SCSI address, NVMe namespace, or nothing more
    unit = next((part for part in parts[at[-1] :] if re.fullmatch(r"\d+(:\d+){3}", part)), "")
    space = re.fullmatch(r"nvme\d+(n\d+)", name)
    return " ".join(filter(None, (parts[at[-1]], unit or (space[1] if space else ""))))


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
        # virtual ones (bridges, veth, lo) have no device behind them and come and go
        if world.exists(f"{root}/{name}/device")
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


# Memory


@probe("machine.memory", sees=Memory)
def read_memory(world: World, _: None = None) -> Memory | Unseen:
    """Read how much memory there is and is free."""
    text = world.read("/proc/meminfo")
    if isinstance(text, Unseen):
        return text
    total = _kib(text, "MemTotal")
    available = _kib(text, "MemAvailable")
    if total is None or total <= 0:
        return Unseen(Blind.MALFORMED, "/proc/meminfo has no MemTotal")
    if available is None:
        return Unseen(Blind.MALFORMED, "/proc/meminfo has no MemAvailable (a kernel before 3.14)")
    if available > total:
        return Unseen(Blind.MALFORMED, "/proc/meminfo: MemAvailable is more than MemTotal")
    return Memory(
        total_bytes=total,
        available_bytes=available,
        fitted_bytes=_fitted(world),
        dimm_serials=_dimm_serials(world),
        groups=_memory_groups(world),
    )


def _memory_groups(world: World) -> MemoryGroups | Unseen:
    pid = world.pid()
    return pid if isinstance(pid, Unseen) else memory_groups(world, str(pid))


def _kib(text: str, key: str) -> int | None:
    found = re.search(rf"^{key}:\s+([0-9]{{1,12}}) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _fitted(world: World) -> int | Unseen:
    root = "/sys/devices/system/memory"
    size = world.line(f"{root}/block_size_bytes")
    names = world.names(root)
    if isinstance(size, Unseen):
        return size
    if isinstance(names, Unseen):
        return names
    if not re.fullmatch(r"[0-9a-f]{1,12}", size):
        return Unseen(Blind.MALFORMED, f"{root}/block_size_bytes: {size[:40]}")
    blocks = sum(1 for name in names if re.fullmatch(r"memory\d+", name))
    return blocks * int(size, 16)


_SERIAL_OFFSET = 0x18
"""SMBIOS 3.7, section 7.18: the serial number's string index in a memory device (type 17)."""


def _dimm_serials(world: World) -> Field:
    root = "/sys/firmware/dmi/entries"
    names = world.names(root)
    if isinstance(names, Unseen):
        return names
    serials = []
    for name in names:
        if not name.startswith("17-"):
            continue
        raw = world.raw(f"{root}/{name}/raw")
        if isinstance(raw, Unseen):
            return raw
        serial = _smbios_string(raw, _SERIAL_OFFSET)
        if serial:
            serials.append(serial)
    return " ".join(serials) or Unseen(Blind.MALFORMED, "no memory device has a serial number")


def _smbios_string(raw: bytes, offset: int) -> str:
    raw = raw[:4096]
    if len(raw) <= offset or len(raw) < raw[1]:
        return ""
    texts = raw[raw[1] :].split(b"\x00")
    index = raw[offset]
    text = texts[index - 1] if 0 < index <= len(texts) else b""
    return text.decode("ascii", "backslashreplace").strip()


# CPUs


def _places(profile: Profile) -> Mapping[str, Place]:
    return {THIS: Place(THIS)} | {serve.name: _place(serve.where) for serve in profile.serve}


def _place(text: str) -> Place:
    try:
        return parse_place(text)
    except PlaceError:
        # refused in a profile; a ledger may say anything, and a replay looks at no place
        return Place("unreadable", text)


@probe("machine.cpu", sees=Cpu, targets=_places)
def read_cpu(world: World, place: Place) -> Cpu | Unseen:
    """Read how many CPUs a place may use, and what runs there."""
    found = find_process(world, place)
    if isinstance(found, Unseen):
        return found
    status = world.read(f"/proc/{found.pid}/status")
    if isinstance(status, Unseen):
        return status
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    cpus = cpus_of(allowed[1]) if allowed else None
    if not allowed or not cpus:
        return Unseen(Blind.MALFORMED, f"/proc/{found.pid}/status has no Cpus_allowed_list")
    host = _host_cpus(world)
    if isinstance(host, Unseen):
        return host
    # The mask may name CPUs that are possible and not there: a virtual machine's empty slots.
    online = world.line("/sys/devices/system/cpu/online")
    there = None if isinstance(online, Unseen) else cpus_of(online)
    affinity = len(cpus & there) if there else min(len(cpus), host)
    if not affinity:
        what = f"Cpus_allowed_list {allowed[1][:40]} has no CPU that is online"
        return Unseen(Blind.MALFORMED, f"/proc/{found.pid}/status: {what}")
    text = f"Cpus_allowed_list {allowed[1]}"
    if affinity < len(cpus):
        text += f", of which {affinity} are online"
    quotas = quota_limits(world, found.pid)
    if isinstance(quotas, Unseen):
        return quotas
    limits = [
        CpuLimit(
            source="affinity",
            text=text,
            cpus=affinity,
        ),
        *quotas.limits,
    ]
    limits.sort(key=lambda limit: limit.cpus)
    others, left_out = _others(world, place, found)
    return Cpu(
        place=str(place),
        process=found.text,
        host_cpus=host,
        host_cores=_host_cores(world) or host,
        effective_cpus=limits[0].cpus,
        affinity_cpus=affinity,
        limits=tuple(limits),
        above_unseen=quotas.above_unseen,
        throttled_ratio=throttled_ratio(world, quotas.folders),
        command=_command(world, place, found.pid),
        thread_environment=_thread_environment(world, place, found.pid),
        others=others,
        others_left_out_count=left_out,
    )


def _host_cpus(world: World) -> int | Unseen:
    online = world.line("/sys/devices/system/cpu/online")
    if isinstance(online, Unseen):
        text = world.read("/proc/cpuinfo")
        count = (
            0
            if isinstance(text, Unseen)
            else len(re.findall(r"^processor\s*:", text, re.MULTILINE))
        )
        return count or online
    return count_cpus(online) or Unseen(Blind.MALFORMED, f"cpu/online: {online[:40]}")


def _host_cores(world: World) -> int | None:
    """Count physical cores: groups of CPUs that share one."""
    root = "/sys/devices/system/cpu"
    names = world.names(root)
    if isinstance(names, Unseen):
        return None
    groups = set()
    for name in names:
        if re.fullmatch(r"cpu\d+", name):
            siblings = world.line(f"{root}/{name}/topology/thread_siblings_list")
            if not isinstance(siblings, Unseen):
                groups.add(siblings)
    return len(groups) or None


MOST_WORDS = 500
"""Words of a command line that are kept."""
MOST_COMMAND_BYTES = 32_768
"""Of the command line of a place's process, and of all its others together: a ledger stays small."""
MOST_PROCESSES = 64
"""Processes of a place that are kept beside the one that leads."""
LONGEST_VALUE = 100
"""Characters of a variable that are kept; a number, or a list that begins with it, is shorter."""
_NO_PROCESS = Unseen(Blind.NOT_ASKED, "the place is the suite's own process, not the engine's")
_TOO_LONG = "put its long arguments into files, start it anew, and rerun"


def _command(world: World, place: Place, pid: str) -> tuple[str, ...] | Unseen:
    """Read a command line whole or not at all: the number of threads may stand at its end."""
    if place.kind == THIS:
        return _NO_PROCESS
    path = f"/proc/{pid}/cmdline"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    words = tuple(word for word in text.split("\x00") if word)
    if len(words) > MOST_WORDS:
        what = f"{path} has {len(words)} words; at most {MOST_WORDS} are kept"
        return Unseen(Blind.MALFORMED, what, _TOO_LONG)
    if len(text.encode()) > MOST_COMMAND_BYTES:
        what = f"{path} has more than the {MOST_COMMAND_BYTES} bytes that are kept"
        return Unseen(Blind.MALFORMED, what, _TOO_LONG)
    return words


def _thread_environment(world: World, place: Place, pid: str) -> dict[str, str] | Unseen:
    if place.kind == THIS:
        return _NO_PROCESS
    text = world.read(f"/proc/{pid}/environ")
    if isinstance(text, Unseen):
        return text
    if len(text.encode()) >= LARGEST_READ_BYTES:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/environ is longer than what is read of it")
    pairs = (line.partition("=") for line in text.split("\x00"))
    # only what sets threads: the rest of an environment is nobody's business
    return {name: value[:LONGEST_VALUE] for name, _, value in pairs if name in VARIABLES}


def _others(world: World, place: Place, found: Found) -> tuple[tuple[Process, ...] | Unseen, int]:
    """Read what the other processes of a place were started with, and how many were left out."""
    pids = companions(world, place, found)
    if isinstance(pids, Unseen):
        return pids, 0
    limits = _limits_text(world, found.pid) if pids else ""
    others: list[Process] = []
    room_bytes, left_out = MOST_COMMAND_BYTES, 0
    for pid in pids:
        command = _command(world, place, pid)
        if isinstance(command, Unseen) and command.reason is Blind.ABSENT:
            continue  # it has ended meanwhile
        needed_bytes = 0 if isinstance(command, Unseen) else len("".join(command).encode())
        if len(others) == MOST_PROCESSES or needed_bytes > room_bytes:
            left_out += 1
            continue
        room_bytes -= needed_bytes
        others.append(
            Process(
                process=process_text(world, pid),
                command=command,
                thread_environment=_thread_environment(world, place, pid),
                same_limits=_limits_text(world, pid) == limits != "",
            )
        )
    return tuple(others), left_out


def _limits_text(world: World, pid: str) -> str:
    """Affinity and cgroups of a process, as one text to compare; empty where they cannot be read."""
    status, groups = world.read(f"/proc/{pid}/status"), world.read(f"/proc/{pid}/cgroup")
    if isinstance(status, Unseen):
        return ""
    allowed = re.search(r"^Cpus_allowed_list:.*$", status, re.MULTILINE)
    if isinstance(groups, Unseen):
        groups = groups.reason.value  # a kernel without cgroups: affinity is all there is
    return f"{allowed[0]}\n{groups}" if allowed else ""


# Room


@dataclass(frozen=True)
class FolderTarget:
    """A folder that the box needs room in."""

    name: str
    path: str | None
    """None where the box's own environment decides."""
    models: tuple[str, ...]
    others: Mapping[str, str | None]
    """Folders that may lie on the same file system, each with its path in the profile."""


def _folder_targets(profile: Profile) -> Mapping[str, FolderTarget]:
    models = tuple(serve.model for serve in profile.serve if is_hub_model(serve.model))
    targets = (
        FolderTarget(
            "model-cache",
            declared_caches(profile)[0],  # of several, no check judges any
            models,
            {"tmp": profile.paths.tmp, "ledgers": None},
        ),
        FolderTarget("tmp", profile.paths.tmp, (), {}),
        FolderTarget("ledgers", None, (), {}),
    )
    return {target.name: target for target in targets}


@probe("machine.folder", sees=Folder, targets=_folder_targets)
def read_folder(world: World, target: FolderTarget) -> Folder | Unseen:
    """Read how much fits into a folder, and what of the profile's models is there."""
    path = _expand(world, target.path or _default_folder(world, target.name))
    if not path.startswith("/"):
        return Unseen(Blind.ABSENT, f"the environment does not say where {target.name} lies")
    room = world.room(path)
    if isinstance(room, Unseen):
        return room
    cached: dict[str, int] = {}
    for model in target.models:
        size = _cached_bytes(world, path, model)
        if isinstance(size, Unseen):
            return size
        cached[model] = size
    return Folder(
        path=path,
        looked_at=room.path,
        total_bytes=room.total_bytes,
        free_bytes=room.free_bytes,
        inodes=room.inodes,
        inodes_free=room.inodes_free,
        cached_bytes=cached,
        access=room.access,
        beside=_beside(world, room.access, target.others),
    )


def _beside(
    world: World, access: Access | Unseen, others: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Find the folders on the same file system, as far as its number tells.

    Subvolumes of btrfs and data sets of ZFS have numbers of their own although they share room.
    """
    if isinstance(access, Unseen):
        return ()
    return tuple(
        name
        for name, path in others.items()
        if access.device == _device(world, _expand(world, path or _default_folder(world, name)))
    )


def _device(world: World, path: str) -> str | None:
    room = world.room(path) if path.startswith("/") else None
    if room is None or isinstance(room, Unseen) or isinstance(room.access, Unseen):
        return None
    return room.access.device


def _expand(world: World, path: str) -> str:
    home = world.environ.get("HOME", "")
    return re.sub(r"^~(?=/|$)", home, path) if home else path


def _default_folder(world: World, name: str) -> str:
    """Where a folder lies if the profile does not say: as huggingface_hub and tempfile decide."""
    environ = world.environ
    if name == "ledgers":
        return world.ledger_folder
    if name == "tmp":
        return environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the system's default, only looked at
    return hub_cache(environ) or "~/.cache/huggingface/hub"


def _cached_bytes(world: World, cache: str, model: str) -> int | Unseen:
    """Add up what the hub's cache holds of a model, unfinished downloads included."""
    path = f"{cache}/models--{model.replace('/', '--')}/blobs"
    try:
        with os.scandir(world.path(path)) as entries:
            return sum(
                entry.stat(follow_symlinks=False).st_size
                for entry in entries
                if not entry.is_dir(follow_symlinks=False)
            )
    except (OSError, ValueError) as error:
        seen = blind(error, path)
        return 0 if seen.reason is Blind.ABSENT else seen


# Clock

_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_EAST_OF_UTC_S = 14 * 3_600
"""A kernel's build date names its zone by letters; no zone is further east than this."""
_STA_UNSYNC = 0x40
_PACKAGE_FILES = (
    "/var/lib/dpkg/status",
    "/var/lib/dpkg/info",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages",
    "/lib/apk/db/installed",
    "/usr/lib/apk/db/installed",
    "/var/lib/pacman/local",
    "/usr/lib/os-release",
    "/etc/os-release",
)


@probe("machine.clock", sees=Clock)
def read_clock(world: World, _: None = None) -> Clock | Unseen:
    """Read the clocks, and what on this box has a date."""
    now_s, up_s = world.now_s(), world.boot_s()
    if isinstance(now_s, Unseen):
        return now_s
    if isinstance(up_s, Unseen):
        return up_s
    return Clock(
        now_s=now_s,
        up_s=up_s,
        boot_s=_boot_s(world),
        boot_id=world.line("/proc/sys/kernel/random/boot_id"),
        synchronised=_synchronised(world),
        kernel_built=_kernel_built(world),
        packages_installed=_packages_installed(world),
    )


def _boot_s(world: World) -> float | Unseen:
    text = world.read("/proc/stat")
    if isinstance(text, Unseen):
        return text
    found = re.search(r"^btime ([0-9]{1,12})$", text, re.MULTILINE)
    return float(found[1]) if found else Unseen(Blind.MALFORMED, "/proc/stat has no btime")


def _kernel_built(world: World) -> Moment | Unseen:
    text = world.line("/proc/version")
    if isinstance(text, Unseen):
        return text
    at_s = kernel_build_s(text)
    if at_s is None:
        return Unseen(Blind.MALFORMED, "/proc/version has no build date")
    return Moment(what="the kernel's build", at_s=at_s - _EAST_OF_UTC_S)


def kernel_build_s(version: str) -> float | None:
    """Find the build date in /proc/version, in seconds since 1970, its zone taken as UTC.

    Knows the form of the kernel's own build (`Tue May  7 13:42:10 UTC 2024`, also with the year
    last and the zone left out), Alpine's (`Fri, 17 May 2024 17:54:33 +0000`) and Debian's
    (`(2024-05-06)` at the end).
    """
    own = re.search(
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +([0-9]{1,2}) "
        r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?: [A-Z+0-9:-]{1,6})? ([0-9]{4})",
        version,
    )
    if own and own[1] in _MONTHS:
        day = (int(own[6]), _MONTHS[own[1]], int(own[2]))
        return _epoch_s(day, (int(own[3]), int(own[4]), int(own[5])))
    mail = re.search(
        r", ([0-9]{1,2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2})", version
    )
    if mail and mail[2] in _MONTHS:
        day = (int(mail[3]), _MONTHS[mail[2]], int(mail[1]))
        return _epoch_s(day, (int(mail[4]), int(mail[5]), int(mail[6])))
    debian = re.search(r"\(([0-9]{4})-([0-9]{2})-([0-9]{2})\)\s*$", version)
    if debian:
        return _epoch_s((int(debian[1]), int(debian[2]), int(debian[3])), (0, 0, 0))
    return None


def _epoch_s(day: tuple[int, int, int], hour: tuple[int, int, int]) -> float | None:
    try:
        return float(calendar.timegm((*day, *hour)))
    except (ValueError, OverflowError):
        return None


def _packages_installed(world: World) -> Moment | Unseen:
    found = [
        (seen, path)
        for path in _PACKAGE_FILES
        if not isinstance(seen := world.modified_s(path), Unseen)
    ]
    if not found:
        return Unseen(Blind.ABSENT, "no file of a package manager is there")
    at_s, path = max(found)
    return Moment(what=path, at_s=at_s)


class _Timex(ctypes.Structure):
    # struct timex of <sys/timex.h>; only `modes` and `status` are used, the rest is room for it
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _synchronised(world: World) -> bool | Unseen:
    if not world.live:
        kept = (world.recorded or {}).get("adjtimex_status")
        if isinstance(kept, int):
            return not kept & _STA_UNSYNC
        return Unseen(Blind.NOT_RECORDED, "adjtimex_status is not recorded")
    timex = _Timex()
    try:
        result = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError) as error:
        return Unseen(Blind.UNSUPPORTED, f"adjtimex: {error}")
    if result < 0:
        return blind(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())), "adjtimex")
    return not timex.status & _STA_UNSYNC


def history_facts(
    *,
    ledger: str,
    newest_s: float | Unseen,
    boot_id: str | Unseen,
    boot_offset_s: float | Unseen,
    world: World,
) -> Facts | Unseen:
    """Make the facts that a run hands over about its own past."""
    now_s, up_s = world.now_s(), world.boot_s()
    if isinstance(now_s, Unseen):
        return now_s
    if isinstance(up_s, Unseen):
        return up_s
    return History(
        ledger=ledger,
        newest_s=newest_s,
        boot_id=boot_id,
        boot_offset_s=boot_offset_s,
        run_boot_offset_s=now_s - up_s,
    )
