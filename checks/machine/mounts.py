"""What is mounted where, and on which disks a mounted file system lies.

Formats: proc_pid_mountinfo(5); Documentation/ABI/stable/sysfs-block of the kernel (partition, slaves);
/sys/fs/btrfs/<UUID>/devices of fs/btrfs/sysfs.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.disks import NO_DISK, disk_slot
from checks.machine.filesystems import IN_MEMORY, REMOTE, SHARED

_MOUNT_FIELDS, _SOURCE_FIELDS = 5, 3
"""Fields of a line of mountinfo before and after its ` - ` that are read."""
_OF_MEMORY = re.compile(r"(ram|zram)[0-9]")
_OF_NETWORK = re.compile(r"(nbd|rbd)[0-9]")
_DEEPEST = 16
"""Layers of device mapper and RAID that are followed."""


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo."""

    number: str
    parent: str
    device: str
    """Major and minor number: `259:2`; of file systems without a device of their own `0:31`."""
    root: str
    point: str
    options: tuple[str, ...]
    """Of the mount."""
    kind: str
    source: str
    of_all: tuple[str, ...]
    """Options of the file system, wherever it is mounted."""


def read_mounts(world: World) -> list[Mount] | Unseen:
    """List what is mounted, as this process sees it."""
    pid = world.pid()
    if isinstance(pid, Unseen):
        return pid
    text = world.read(f"/proc/{'self' if world.live else pid}/mountinfo")
    if isinstance(text, Unseen):
        return text
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, source = before.split(" "), after.split(" ")
        if not dash or len(fields) < _MOUNT_FIELDS or len(source) < _SOURCE_FIELDS:
            continue
        number, parent, device, root, point, *rest = fields
        kind, origin, of_all = source[:_SOURCE_FIELDS]
        mounts.append(
            Mount(
                number=number,
                parent=parent,
                device=device,
                root=_unescape(root),
                point=_unescape(point),
                options=tuple(rest[0].split(",")) if rest else (),
                kind=kind,
                source=_unescape(origin),
                of_all=tuple(of_all.split(",")),
            )
        )
    return mounts


def _unescape(text: str) -> str:
    """Undo the octal escapes that mountinfo uses for blanks."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def mount_of(world: World, path: str) -> Mount | Unseen:
    """Find what a path lies on, its symbolic links followed.

    Goes down the path as the kernel does: a mount hides all that was mounted at or below its point
    before, so the longest point is not always the right one.
    """
    place = world.resolved(path)
    if isinstance(place, Unseen):
        return place
    mounts = read_mounts(world)
    if isinstance(mounts, Unseen):
        return mounts
    numbers = {mount.number for mount in mounts}
    tops = [
        mount
        for mount in mounts
        if mount.point == "/" and (mount.parent not in numbers or mount.parent == mount.number)
    ]
    if not tops:
        what = f"nothing that is mounted at / is listed (a chroot), so not what {path} lies on"
        return Unseen(Blind.ABSENT, what, "run the suite outside of the chroot")
    by_place = {(mount.parent, mount.point): mount for mount in mounts}
    here = tops[-1]
    for point in _points(place):
        # several may lie on one another
        while (above := by_place.pop((here.number, point), None)) is not None:
            here = above
    return here


def _points(place: str) -> Iterable[str]:
    yield "/"
    parts = [part for part in place.split("/") if part]
    for depth in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:depth])


def disks_of(world: World, mount: Mount) -> tuple[str, ...] | Unseen:
    """Find the slots of the disks that a file system lies on; none for one that lies on no disk.

    Partitions are followed to their disk, and device mapper, RAID, LVM and bcache down to what they
    are made of.
    """
    if mount.kind in (*IN_MEMORY, *REMOTE, *SHARED):
        return ()
    folders = _devices(world, mount)
    if isinstance(folders, Unseen):
        return folders
    return _all_below(world, folders, _DEEPEST)


def _devices(world: World, mount: Mount) -> list[str] | Unseen:
    """Find the folders in sysfs of the devices that hold a file system."""
    if not re.fullmatch(r"[0-9]{1,7}:[0-9]{1,7}", mount.device):
        return Unseen(Blind.MALFORMED, f"device number {mount.device[:20]!r} of {mount.point}")
    if not mount.device.startswith("0:"):
        path = f"/sys/dev/block/{mount.device}"
        place = world.resolved(path)
        if isinstance(place, Unseen):
            return place
        return [place] if world.exists(place) else Unseen(Blind.ABSENT, f"{path} is absent")
    names = []
    # of bcachefs, all of its devices with a colon between them
    for source in re.split(r":(?=/dev/)", mount.source):
        device = world.resolved(source) if source.startswith("/dev/") else ""
        if isinstance(device, Unseen):
            return device
        names.append(device.rpartition("/")[2])
    if not all(name and world.exists(_folder(world, name)) for name in names):
        what = f"a file system of the kind {mount.kind[:40]} does not say which devices it lies on"
        return Unseen(Blind.UNSUPPORTED, what)
    if mount.kind == "btrfs":
        return _pool(world, names[0])
    return [_folder(world, name) for name in names]


def _pool(world: World, name: str) -> list[str] | Unseen:
    """Find all devices of a btrfs; its source is whichever was named when it was mounted."""
    root = "/sys/fs/btrfs"
    pools = world.names(root)
    for pool in () if isinstance(pools, Unseen) else pools:
        members = world.names(f"{root}/{pool}/devices")
        if not isinstance(members, Unseen) and name in members:
            return [_folder(world, member) for member in members]
    return Unseen(Blind.ABSENT, f"{root} does not list the devices that go with {name}")


def _folder(world: World, name: str) -> str:
    """Name the folder of a disk or partition in sysfs."""
    place = world.resolved(f"/sys/class/block/{name}")
    if isinstance(place, Unseen) or not world.exists(place):
        return f"/sys/block/{name}"
    return place


def _all_below(world: World, folders: Iterable[str], depth: int) -> tuple[str, ...] | Unseen:
    found: set[str] = set()
    for folder in folders:
        below = _below(world, folder, depth)
        if isinstance(below, Unseen):
            return below
        found |= set(below)
    return tuple(sorted(found))


def _below(world: World, folder: str, depth: int) -> tuple[str, ...] | Unseen:
    """Find the disks that one device lies on."""
    if world.exists(f"{folder}/partition"):
        folder = folder.rpartition("/")[0]
    name = folder.rpartition("/")[2]
    slaves = world.names(f"{folder}/slaves")
    if isinstance(slaves, Unseen):
        if slaves.reason is not Blind.ABSENT:
            return slaves
        slaves = ()
    if slaves:
        if depth == 0:
            return Unseen(Blind.MALFORMED, f"{name} lies on more layers than anybody stacks")
        return _all_below(world, (_slave(world, folder, one) for one in slaves), depth - 1)
    if _OF_MEMORY.match(name) or _OF_NETWORK.match(name):
        return ()
    if NO_DISK.match(name):
        return Unseen(Blind.UNSUPPORTED, f"{name} does not say which disks it lies on")
    if not world.exists(f"/sys/block/{name}"):
        return Unseen(Blind.ABSENT, f"/sys/block/{name} is absent")
    return (f"disk[{disk_slot(world, name)}]",)


def _slave(world: World, folder: str, name: str) -> str:
    path = f"{folder}/slaves/{name}"
    if isinstance(world.link(path), Unseen):
        return _folder(world, name)
    place = world.resolved(path)
    return place if isinstance(place, str) and world.exists(place) else _folder(world, name)
