"""Reads how much fits into a folder, and whether files can be created there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.core.facts import Access, Blind, Unseen
from checks.core.profile import Profile
from checks.core.registry import probe
from checks.core.world import World, blind
from checks.machine.facts import (
    Folder,
)
from checks.machine.hub import declared_caches, hub_cache, is_hub_model


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
