"""Reads who the machine says it is."""

from __future__ import annotations

import re

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.basic_facts import (
    Identity,
)

DMI = "/sys/class/dmi/id"
_FIRST_BLOCK_BYTES = 16_384
"""A block has 1.5 kB of text with all the flags of today."""

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


@probe("machine.identity", sees=Identity, always=True)
def read_identity(world: World, _: None = None) -> Identity:
    """Read who the machine says it is."""
    uname = world.uname()
    info = _cpu_info(world)
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
        cpu_model=_cpu_model(info),
        hypervisor=_hypervisor(world, info, evidence),
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


def _cpu_info(world: World) -> str | Unseen:
    """Read /proc/cpuinfo; of an x86 CPU its first block, which says of all what is asked here.

    The kernel makes this text when it is read, a block a thread, which takes its time on a box with
    hundreds of them. Others name the board at the end.
    """
    begin = world.read("/proc/cpuinfo", _FIRST_BLOCK_BYTES)
    if isinstance(begin, Unseen):
        return begin
    block, end, _ = begin.partition("\n\n")
    if end and all(
        re.search(rf"^{key}\s*:", block, re.MULTILINE) for key in ("model name", "flags")
    ):
        return block
    return world.read("/proc/cpuinfo")


def _cpu_model(text: str | Unseen) -> Field:
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


def _hypervisor(world: World, info: str | Unseen, evidence: list[str]) -> Field:
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
