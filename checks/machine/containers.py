"""Where container runtimes keep images and containers, as their own files say."""

from __future__ import annotations

import json
import re

import tomli

from checks.core.facts import Blind, Unseen
from checks.core.world import World

DOCKER = "/var/lib/docker"
_IN_PROFILE = "name the folder in paths.container_data of the profile, or run as root; rerun"


def container_folders(world: World) -> tuple[str, ...] | Unseen:
    """List the data roots of docker, containerd and podman that are there.

    Of a runtime whose file says nothing else it is the default: `data-root` of dockerd(8), `root`
    of containerd-config.toml(5), `graphroot` of containers-storage.conf(5).
    """
    roots = []
    for named, default in (
        (_docker(world), DOCKER),
        (_containerd(world), "/var/lib/containerd"),
        (_podman(world), "/var/lib/containers/storage"),
    ):
        if isinstance(named, Unseen):
            return named
        path = named or default
        if path not in roots and _is_there(world, path):
            roots.append(path)
    return tuple(roots)


def _is_there(world: World, path: str) -> bool:
    if world.exists(path):
        return True
    room = world.room(path)
    return isinstance(room, Unseen) and room.reason is Blind.PERMISSION


def _docker(world: World) -> str | Unseen:
    path = "/etc/docker/daemon.json"
    text = world.read(path)
    if isinstance(text, Unseen):
        return _silent(text)
    try:
        data = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return _malformed(path, "is no JSON")
    # `graph` until Docker 17.05
    return _folder(path, data, ("data-root", "graph"))


def _containerd(world: World) -> str | Unseen:
    path = "/etc/containerd/config.toml"
    data = _toml(world, path)
    return data if isinstance(data, str | Unseen) else _folder(path, data, ("root",))


def _podman(world: World) -> str | Unseen:
    path = "/etc/containers/storage.conf"
    data = _toml(world, path)
    if isinstance(data, str | Unseen):
        return data
    return _folder(path, data.get("storage", {}), ("graphroot",))


def _toml(world: World, path: str) -> dict[str, object] | str | Unseen:
    text = world.read(path)
    if isinstance(text, Unseen):
        return _silent(text)
    try:
        return tomli.loads(text)
    except (tomli.TOMLDecodeError, RecursionError):
        return _malformed(path, "is no TOML")


def _silent(unread: Unseen) -> str | Unseen:
    """Say nothing for a file that is not there; a reason for one that may not be read."""
    if unread.reason is Blind.ABSENT:
        return ""
    return Unseen(unread.reason, unread.detail, _IN_PROFILE)


def _malformed(path: str, what: str) -> Unseen:
    return Unseen(Blind.MALFORMED, f"{path} {what}", f"correct it, or {_IN_PROFILE}")


def _folder(path: str, data: object, keys: tuple[str, ...]) -> str | Unseen:
    if not isinstance(data, dict):
        return _malformed(path, "is no table of settings")
    for key in keys:
        value = data.get(key, "")
        if value:
            if isinstance(value, str) and re.match("/", value):
                return value.rstrip("/") or "/"
            return _malformed(path, f"names no absolute path in {key}")
    return ""
