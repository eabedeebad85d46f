"""Reads how much fits into a folder, what it lies on, and whether files can be created there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.core.facts import Access, Blind, Field, Unseen
from checks.core.profile import Profile
from checks.core.registry import probe
from checks.core.world import LOCK_S, Room, World, blind
from checks.machine.containers import DOCKER, container_folders
from checks.machine.facts import (
    Folder,
    Locks,
    MemoryBehind,
    ModelCache,
    Mounted,
)
from checks.machine.filesystems import IN_MEMORY, MADE_READ_ONLY
from checks.machine.hub import ELSEWHERE, declared_caches, hub_cache, is_hub_model
from checks.machine.memory_cgroups import memory_groups
from checks.machine.mounts import Mount, disks_of, mount_of

_TOLD = re.compile(r"(lowerdir|upperdir|workdir|user|username|domain|passwd|password)\+?=")
"""Options that name layers of overlays, or people."""
MOST_OPTIONS = 40
LONGEST_OPTION = 200


@dataclass(frozen=True)
class FolderTarget:
    """A folder that the box needs room in."""

    name: str
    path: str | None
    """None where the box's own environment decides."""
    models: tuple[str, ...]
    others: Mapping[str, str | None]
    """Folders that may lie on the same file system, each with its path in the profile."""


def _hub_models(profile: Profile) -> tuple[str, ...]:
    return tuple(serve.model for serve in profile.serve if is_hub_model(serve.model))


def _folder_targets(profile: Profile) -> Mapping[str, FolderTarget]:
    paths = profile.paths
    targets = (
        FolderTarget(
            "model-cache",
            declared_caches(profile)[0],  # of several, no check judges any
            _hub_models(profile),
            {"tmp": paths.tmp, "ledgers": None, "containers": paths.container_data},
        ),
        FolderTarget("tmp", paths.tmp, (), {}),
        FolderTarget("ledgers", None, (), {}),
        FolderTarget("containers", paths.container_data, (), {}),
    )
    return {target.name: target for target in targets}


@probe("machine.folder", sees=Folder, targets=_folder_targets)
def read_folder(world: World, target: FolderTarget) -> Folder | Unseen:
    """Read how much fits into a folder, what it lies on, and what of the profile's models is there."""
    path = _where(world, target.name, target.path)
    if isinstance(path, Unseen):
        return path
    needed = bool(path)
    # a folder that nobody has is looked at all the same: the numbers are those of its parent
    path = path or DOCKER
    mount = mount_of(world, path)
    room = _room(world, path, mount)
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
        needed=needed,
        mounted=mount if isinstance(mount, Unseen) else _mounted(mount),
        disks=mount if isinstance(mount, Unseen) else disks_of(world, mount),
        memory=None if isinstance(mount, Unseen) else _memory_behind(world, mount),
    )


def _where(world: World, name: str, declared: str | None) -> str | Unseen:
    """Find where a folder lies; empty where nothing on this box needs it."""
    if name == "containers" and declared is None:
        return _fullest(world)
    path = _expand(world, declared or _default_folder(world, name))
    if not path.startswith("/"):
        return Unseen(Blind.ABSENT, f"the environment does not say where {name} lies")
    return path


def _fullest(world: World) -> str | Unseen:
    """Of the folders of several container runtimes, take one that is read-only, or has least room."""
    folders = container_folders(world)
    if isinstance(folders, Unseen):
        return folders
    left: dict[str, tuple[bool, int]] = {}
    for folder in folders:
        room = _room(world, folder, mount_of(world, folder))
        if isinstance(room, Unseen):
            return room
        closed = not isinstance(room.access, Unseen) and room.access.read_only
        left[folder] = (not closed, room.free_bytes)
    return min(left, key=lambda folder: left[folder], default="")


def _room(world: World, path: str, mount: Mount | Unseen) -> Room | Unseen:
    """Read how much fits into a folder; of one that this user may not reach, through its parents.

    A parent stands for it where both lie on the same mount, which a list of all mounts tells.
    """
    room = world.room(path)
    if not isinstance(room, Unseen) or room.reason is not Blind.PERMISSION:
        return room
    parent = path
    while parent != "/":
        parent = parent.rpartition("/")[0] or "/"
        above = world.room(parent)
        if not isinstance(above, Unseen):
            same = not isinstance(mount, Unseen) and mount_of(world, parent) == mount
            return Room(**(vars(above) | {"access": room})) if same else room
    return room


def _mounted(mount: Mount) -> Mounted:
    options = dict.fromkeys((*mount.options, *mount.of_all))
    return Mounted(
        kind=mount.kind,
        mounted_from=mount.source,
        point=mount.point,
        options=tuple(
            option[:LONGEST_OPTION] for option in options if option and not _TOLD.match(option)
        )[:MOST_OPTIONS],
        turned_read_only="rw" in mount.options
        and "ro" in mount.of_all
        and mount.kind not in MADE_READ_ONLY,
    )


def _memory_behind(world: World, mount: Mount) -> MemoryBehind | Unseen | None:
    if mount.kind not in IN_MEMORY:
        return None
    text = world.read("/proc/meminfo")
    if isinstance(text, Unseen):
        return text
    keys = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
    sizes = []
    for key in keys:
        found = re.search(rf"^{key}:\s+([0-9]{{1,12}}) kB$", text, re.MULTILINE)
        if not found and key.startswith("Swap") and key not in text:
            sizes.append(0)  # a kernel that does not even have the line has no swap
            continue
        if not found:
            return Unseen(Blind.MALFORMED, f"/proc/meminfo has no {key}")
        sizes.append(int(found[1]) * 1024)
    pid = world.pid()
    return MemoryBehind(
        memory_total_bytes=sizes[0],
        memory_available_bytes=sizes[1],
        swap_total_bytes=sizes[2],
        swap_free_bytes=sizes[3],
        groups=pid if isinstance(pid, Unseen) else memory_groups(world, str(pid)),
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
        if access.device == _device(world, _where(world, name, path))
    )


def _device(world: World, path: str | Unseen) -> str | None:
    room = world.room(path) if isinstance(path, str) and path else None
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
    path = f"{_model_folder(cache, model)}/blobs"
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


def _model_folder(cache: str, model: str) -> str:
    return f"{cache}/models--{model.replace('/', '--')}"


# The model cache


def _cache_target(name: str, profile: Profile) -> Mapping[str, FolderTarget]:
    """Look where the profile's models go, if it has any and they go to one folder of this box."""
    models = _hub_models(profile)
    caches = declared_caches(profile)
    target = FolderTarget("model-cache", caches[0], tuple(dict.fromkeys(models)), {})
    return {name: target} if models and not caches[1:] and ELSEWHERE not in caches else {}


@probe(
    "machine.locks",
    sees=Locks,
    targets=lambda profile: _cache_target("model-cache", profile),
    deadline_s=LOCK_S + 4.0,  # of which making a file and ending what hangs need a part
)
def try_locks(world: World, target: FolderTarget) -> Locks | Unseen:
    """Lock a new file in a folder, which is gone afterwards."""
    path = _where(world, target.name, target.path)
    if isinstance(path, Unseen):
        return path
    trial = world.try_lock(path)
    mount = mount_of(world, path)
    return Locks(
        path=path,
        outcome=trial if isinstance(trial, Unseen) else trial.outcome,
        waited_s=trial if isinstance(trial, Unseen) else trial.waited_s,
        kind=mount if isinstance(mount, Unseen) else mount.kind,
    )


@probe(
    "machine.cache",
    sees=ModelCache,
    targets=lambda profile: _cache_target("box", profile),
    always=True,
)
def read_cache(world: World, target: FolderTarget) -> ModelCache | Unseen:
    """Read what the model cache lies on, and which revisions it holds."""
    path = _where(world, target.name, target.path)
    if isinstance(path, Unseen):
        return path
    mount = mount_of(world, path)
    return ModelCache(
        kind=mount if isinstance(mount, Unseen) else mount.kind,
        mounted_from=mount if isinstance(mount, Unseen) else _origin(world, mount),
        revisions={
            model: revision
            for model in target.models
            if not (
                isinstance(revision := _revision(world, path, model), Unseen)
                and revision.reason is Blind.ABSENT  # not downloaded yet
            )
        },
    )


def _origin(world: World, mount: Mount) -> Field:
    disks = disks_of(world, mount)
    if isinstance(disks, Unseen) and mount.source.startswith("/dev/"):
        return disks  # the kernel's own names change, and would seem another disk
    return " ".join(disks) if disks and not isinstance(disks, Unseen) else mount.source


def _revision(world: World, cache: str, model: str) -> Field:
    path = f"{_model_folder(cache, model)}/refs/main"
    text = world.line(path)
    if isinstance(text, Unseen) or re.fullmatch(r"[0-9a-f]{40}", text):
        return text
    return Unseen(Blind.MALFORMED, f"{path} names no commit: {text[:60]!r}")
