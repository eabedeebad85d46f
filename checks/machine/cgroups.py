"""CPU limits of a process in its cgroups, version 1 and 2, at every level up to the root.

Formats: Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpuset.cpus.effective, cpu.stat) and
cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst (cpu.cfs_quota_us, cpu.cfs_period_us) of the kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.cpulist import count_cpus
from checks.machine.facts import CpuLimit
from checks.machine.mounts import read_mounts


@dataclass(frozen=True)
class Mount:
    """Where a hierarchy of cgroups is mounted."""

    point: str
    root: str
    """Path of the cgroup that is mounted there; `/` unless this is a container's view."""
    controllers: frozenset[str]
    """Version 1: cpu, cpuset, …; version 2: empty."""


@dataclass(frozen=True)
class Quotas:
    """What the cgroups of a process allow."""

    limits: tuple[CpuLimit, ...]
    folders: tuple[str, ...]
    """Folders of the process's cgroups, innermost first."""
    above_unseen: bool


def quota_limits(world: World, pid: str) -> Quotas | Unseen:
    """Read quota and cpuset of a process at every level that can be seen.

    A machine without cgroups has no such limit; a process whose cgroups are there and cannot be
    entered is unseen.
    """
    text = world.read(f"/proc/{pid}/cgroup")
    if isinstance(text, Unseen):
        if text.reason is Blind.ABSENT and world.exists(f"/proc/{pid}/status"):
            return Quotas((), (), above_unseen=False)  # a kernel built without cgroups
        return text
    mounts = _mounts(world)
    if isinstance(mounts, Unseen):
        return mounts
    limits: list[CpuLimit] = []
    folders: list[str] = []
    above = False
    lines: list[tuple[frozenset[str], str]] = []
    for line in text.splitlines():
        found = re.fullmatch(r"[0-9]+:([^:]*):(/.*)", line)
        if not found:
            return Unseen(Blind.MALFORMED, f"/proc/{pid}/cgroup: {line[:80]!r}")
        lines.append((frozenset(name for name in found[1].split(",") if name), found[2]))
    if not lines:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/cgroup is empty")
    in_version_1 = any("cpu" in controllers for controllers, _ in lines)
    for controllers, path in lines:
        if controllers and not controllers & {"cpu", "cpuset"}:
            continue
        chain = _chain(world, mounts, controllers, path)
        if isinstance(chain, Unseen):
            if controllers or _version_2_counts(world, mounts, in_version_1=in_version_1):
                return chain
            continue
        above = above or chain.above_unseen
        folders += chain.folders
        for folder in chain.folders:
            level = _level(world, folder)
            if isinstance(level, Unseen):
                return level
            limits += level
    return Quotas(tuple(limits), tuple(folders), above_unseen=above)


def _version_2_counts(world: World, mounts: list[Mount], *, in_version_1: bool) -> bool:
    """Whether the unified hierarchy has the CPU controllers (on hybrid boxes version 1 has)."""
    if in_version_1:
        return False  # a controller lives in one hierarchy
    for mount in mounts:
        if not mount.controllers:
            names = world.line(f"{mount.point}/cgroup.controllers")
            return isinstance(names, Unseen) or bool({"cpu", "cpuset"} & set(names.split()))
    return True  # it is nowhere else, and what cannot be seen may limit


def _mounts(world: World) -> list[Mount] | Unseen:
    mounts = read_mounts(world)
    if isinstance(mounts, Unseen):
        return mounts
    return [
        Mount(one.point, one.root, frozenset(one.of_all if one.kind == "cgroup" else ()))
        for one in mounts
        if one.kind in ("cgroup", "cgroup2")
    ]


@dataclass(frozen=True)
class _Chain:
    folders: list[str]
    above_unseen: bool


def _chain(
    world: World, mounts: list[Mount], controllers: frozenset[str], path: str
) -> _Chain | Unseen:
    """List the folders of a cgroup and of all its parents up to the mount, innermost first."""
    fitting = [
        mount
        for mount in mounts
        if (controllers & mount.controllers if controllers else not mount.controllers)
    ]
    if not fitting:
        name = ",".join(sorted(controllers)) or "cgroup2"
        return Unseen(
            Blind.ABSENT,
            f"the {name} hierarchy is not mounted here",
            "mount it (`mount -t cgroup2 none /sys/fs/cgroup`), or run the suite on the host",
        )
    # Mounts of one branch may lie beside that of the whole; the whole shows the most.
    fitting.sort(key=lambda mount: mount.root != "/")
    mount, inside = next(
        ((mount, found) for mount in fitting if (found := _inside(mount, path)) is not None),
        (fitting[0], None),
    )
    if inside is None:
        return Unseen(
            Blind.PERMISSION,
            f"cgroup {path} lies outside what is mounted at {mount.point}",
            "run the suite on the host, or in the place itself",
        )
    parts = [part for part in inside.split("/") if part]
    folders = [
        "/".join([mount.point.rstrip("/"), *parts[:depth]]) for depth in range(len(parts), -1, -1)
    ]
    files = world.names(folders[0])
    if isinstance(files, Unseen):
        return Unseen(
            files.reason,
            f"cgroup folder {files.detail}",
            files.remedy
            or "look whether the process is still there, then rerun; in a container, "
            "run the suite on the host",
        )
    return _Chain(folders, above_unseen=mount.root != "/" or not _is_top(world, mount))


def _inside(mount: Mount, path: str) -> str | None:
    """Turn a path of /proc/PID/cgroup into one below the mount point; None if it lies outside."""
    # `..` in the mount's root: it was mounted outside of this cgroup namespace, which hides the names
    # of the folders in between.
    if ".." in PurePosixPath(path).parts or ".." in PurePosixPath(mount.root).parts:
        return None
    if mount.root == "/":
        return path
    if path == mount.root or path.startswith(mount.root.rstrip("/") + "/"):
        return path[len(mount.root.rstrip("/")) :]
    # In a cgroup namespace of its own, the path is `/` and the mount shows just that cgroup.
    return "/" if path == "/" else None


def _is_top(world: World, mount: Mount) -> bool:
    """Whether the mount shows the real root: that one has no limits of its own."""
    if mount.controllers:
        # these two exist in the root of a hierarchy of version 1 and nowhere else
        names = ("release_agent", "cgroup.sane_behavior")
        return any(world.exists(f"{mount.point}/{name}") for name in names)
    # cgroup.type exists in every cgroup of version 2 but the root
    return not world.exists(f"{mount.point}/cgroup.type")


def _level(world: World, folder: str) -> list[CpuLimit] | Unseen:
    """Read what one cgroup allows. Files that are absent set no limit; garbage is unseen."""
    limits: list[CpuLimit] = []
    for reader in (_quota_2, _quota_1, _cpuset):
        limit = reader(world, folder)
        if isinstance(limit, Unseen):
            if limit.reason is Blind.ABSENT:
                continue
            return limit
        if limit is not None:
            limits.append(limit)
    return limits


def _quota_2(world: World, folder: str) -> CpuLimit | Unseen | None:
    path = f"{folder}/cpu.max"
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    found = re.fullmatch(r"(max|[0-9]{1,15})(?: ([0-9]{1,15}))?", text)
    period = int(found[2] or 100_000) if found else 0
    if not found or period == 0:
        return Unseen(Blind.MALFORMED, f"{path}: {text[:60]!r}")
    if found[1] == "max":
        return None
    return CpuLimit(source=path, text=text, cpus=int(found[1]) / period)


def _quota_1(world: World, folder: str) -> CpuLimit | Unseen | None:
    path = f"{folder}/cpu.cfs_quota_us"
    quota, period = world.line(path), world.line(f"{folder}/cpu.cfs_period_us")
    if isinstance(quota, Unseen):
        return quota
    if isinstance(period, Unseen):
        return Unseen(Blind.MALFORMED, f"{path} without its period: {period.detail}")
    good = re.fullmatch(r"-?[0-9]{1,15}", quota) and re.fullmatch(r"[1-9][0-9]{0,14}", period)
    if not good:
        return Unseen(Blind.MALFORMED, f"{path}: {quota[:40]!r} / {period[:40]!r}")
    if int(quota) <= 0:
        return None  # -1: no quota
    return CpuLimit(source=path, text=f"{quota} / {period}", cpus=int(quota) / int(period))


def _cpuset(world: World, folder: str) -> CpuLimit | Unseen | None:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        text = world.line(f"{folder}/{name}")
        if isinstance(text, Unseen):
            if text.reason is Blind.MALFORMED:
                continue  # empty: this level sets nothing of its own
            if text.reason is not Blind.ABSENT:
                return text
            continue
        count = count_cpus(text)
        if count is None:
            return Unseen(Blind.MALFORMED, f"{folder}/{name}: {text[:60]!r}")
        return CpuLimit(source=f"{folder}/{name}", text=text, cpus=float(count))
    return None


def throttled_ratio(world: World, folders: tuple[str, ...]) -> float | None:
    """Give the share of periods in which the quota stopped the process; the worst level counts."""
    worst = None
    for folder in folders:
        text = world.read(f"{folder}/cpu.stat")
        if isinstance(text, Unseen):
            continue
        periods = re.search(r"^nr_periods ([0-9]{1,15})$", text, re.MULTILINE)
        throttled = re.search(r"^nr_throttled ([0-9]{1,15})$", text, re.MULTILINE)
        if periods and throttled and int(periods[1]) > 0:
            ratio = min(1.0, int(throttled[1]) / int(periods[1]))
            worst = ratio if worst is None else max(worst, ratio)
    return worst


@dataclass(frozen=True)
class Folders:
    """Where the files of one controller lie for a process, innermost first."""

    folders: tuple[str, ...]
    above_unseen: bool


def folders_with(world: World, pid: str, controller: str) -> Folders | Unseen:
    """Find the cgroups of a process that have a controller; none where the kernel has it nowhere."""
    text = world.read(f"/proc/{pid}/cgroup")
    if isinstance(text, Unseen):
        if text.reason is Blind.ABSENT and world.exists(f"/proc/{pid}/status"):
            return Folders((), above_unseen=False)  # a kernel built without cgroups
        return text
    mounts = _mounts(world)
    if isinstance(mounts, Unseen):
        return mounts
    found = re.findall(r"^[0-9]+:([^:\n]*):(/.*)$", text, re.MULTILINE)
    if not found:
        return Unseen(Blind.MALFORMED, f"/proc/{pid}/cgroup: {text[:80]!r}")
    paths = {frozenset(filter(None, names.split(","))): path for names, path in found}
    # a controller lives in one hierarchy: in that of version 1 that names it, or in version 2
    controllers = next((names for names in paths if controller in names), frozenset())
    if controllers not in paths or (not controllers and _absent_2(world, mounts, controller)):
        return Folders((), above_unseen=False)
    chain = _chain(world, mounts, controllers, paths[controllers])
    if isinstance(chain, Unseen):
        return chain
    return Folders(tuple(chain.folders), above_unseen=chain.above_unseen)


def _absent_2(world: World, mounts: list[Mount], controller: str) -> bool:
    """Whether version 2 is mounted and says that it does not have a controller."""
    for mount in mounts:
        if not mount.controllers:
            names = world.line(f"{mount.point}/cgroup.controllers")
            if isinstance(names, Unseen):
                # an empty file says that there is none; any other reason says nothing
                return world.read(f"{mount.point}/cgroup.controllers") == ""
            return controller not in names.split()
    return False
