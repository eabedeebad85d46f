"""Reads what environments say about GPUs and proxies, and whether NVIDIA's MPS runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.core.facts import BOX, Blind, Field, Unseen
from checks.core.place import THIS, Place
from checks.core.profile import Profile
from checks.core.registry import probe
from checks.core.world import World
from checks.machine.facts import (
    Leftover,
    Leftovers,
    Mps,
)
from checks.machine.places import find_process, places_of, process_text
from checks.machine.probe.devices import NVIDIA_GPUS, nvidia_information

_VARIABLES = re.compile(
    r"CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES"
    r"|GPU_DEVICE_ORDINAL|CUDA_DEVICE_ORDER|HSA_OVERRIDE_GFX_VERSION(?:_[0-9]{1,4})?"
    r"|CUDA_MPS_PIPE_DIRECTORY|SLURM_JOB_ID"
)
_LIBRARIES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_NO_DRIVER = re.compile(r"(?i)cuda.*(?:/stubs|/compat)(?:/|$)")
_PROXIES = re.compile(r"(?:https?|all|no)_proxy|(?:HTTPS?|ALL|NO)_PROXY")
_PROXY_HOST = re.compile(
    r"(?:([a-z][a-z0-9+.-]{0,15})://)?(?:[^@/\s]*@)?([^/@\s]{1,200})", re.IGNORECASE
)
_LONGEST_VALUE = 2_000
"""Characters: 40 for each of the UUIDs of the most GPUs that any box has, and room."""
_MOST_ENTRIES = 20
_MOST_PROCESSES = 20
_MPS = "nvidia-cuda-mps"
"""How the names of MPS's daemon and server begin; the kernel keeps 15 characters of a name."""


@dataclass(frozen=True)
class Surroundings:
    """A place, and the environment that the profile gives it."""

    name: str
    place: Place
    env: Mapping[str, str]


def _surroundings(profile: Profile) -> Mapping[str, tuple[Surroundings, ...]]:
    env: dict[str, Mapping[str, str]] = {serve.name: serve.env for serve in profile.serve}
    places = places_of(profile).items()
    return {BOX: tuple(Surroundings(name, place, env.get(name, {})) for name, place in places)}


@probe("machine.leftovers", sees=Leftovers, targets=_surroundings)
def read_leftovers(world: World, places: tuple[Surroundings, ...]) -> Leftovers:
    """Read what the environment of each place says about GPUs and proxies."""
    return Leftovers(places=tuple(_leftover(world, each) for each in places))


def _leftover(world: World, at: Surroundings) -> Leftover:
    found = find_process(world, at.place)
    pid = "self" if at.place.kind == THIS or isinstance(found, Unseen) else found.pid
    environ: Mapping[str, str] | Unseen
    if at.place.kind == THIS:
        environ, source = {**world.environ, **at.env}, "the suite's own environment"
        if at.env:
            source += ", and env of the profile"
    else:
        environ = found if isinstance(found, Unseen) else _environ(world, found.pid)
        source = "nobody's" if isinstance(found, Unseen) else f"the environment of {found.text}"
        if isinstance(environ, Unseen) and any(_VARIABLES.fullmatch(name) for name in at.env):
            source = f"env of the profile, for its process was not read ({environ})"
            environ = at.env
    known = {} if isinstance(environ, Unseen) else environ
    return Leftover(
        place=at.name,
        source=source,
        environment=environ if isinstance(environ, Unseen) else _chosen(environ),
        libraries=tuple(
            f"{name}: {entry[:_LONGEST_VALUE]}"
            for name in _LIBRARIES
            for entry in re.split(r"[:\s]+", known.get(name, ""))
            if _NO_DRIVER.search(entry)
        )[:_MOST_ENTRIES],
        proxies={
            name: _proxy_host(name, value)
            for name, value in known.items()
            if value and _PROXIES.fullmatch(name)
        },
        nvidia_uuids=_nvidia_uuids(world, pid),
    )


def _environ(world: World, pid: str) -> Mapping[str, str] | Unseen:
    """Read the environment that a process was started with."""
    path = f"/proc/{pid}/environ"
    text = world.read(path)
    if isinstance(text, Unseen):
        return text
    entries = [entry for entry in text.split("\x00") if entry]
    if text and (not entries or any(not re.match(r"[^=]+=", entry) for entry in entries)):
        # a process that writes its title writes it over its environment
        return Unseen(Blind.MALFORMED, f"{path} was overwritten by the process itself")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def _chosen(environ: Mapping[str, str]) -> dict[str, str] | Unseen:
    """Choose what matters: the rest of an environment is nobody's business."""
    chosen = {name: environ[name] for name in sorted(environ) if _VARIABLES.fullmatch(name)}
    for name, value in chosen.items():
        if len(value) > _LONGEST_VALUE:
            # half of a list would name other cards than the whole
            return Unseen(Blind.MALFORMED, f"{name} is longer than the {_LONGEST_VALUE} kept of it")
    return chosen


def _proxy_host(name: str, value: str) -> str:
    """Give the host of a proxy without user and password; of `no_proxy`, that it is set."""
    found = None if name.lower() == "no_proxy" else _PROXY_HOST.match(value.strip())
    return f"{(found[1] or 'http').lower()}://{found[2]}" if found else "set"


def _nvidia_uuids(world: World, pid: str) -> tuple[Field, ...] | Unseen:
    """List the UUIDs of the GPUs that NVIDIA's driver shows to a process: a container's are fewer."""
    root = NVIDIA_GPUS if pid == "self" else f"/proc/{pid}/root{NVIDIA_GPUS}"
    addresses = world.names(root)
    if isinstance(addresses, Unseen):
        root, addresses = NVIDIA_GPUS, world.names(NVIDIA_GPUS)
    if isinstance(addresses, Unseen):
        return addresses
    return tuple(nvidia_information(world, each, "GPU UUID", root=root) for each in addresses)


@probe("machine.mps", sees=Mps)
def read_mps(world: World, _: None = None) -> Mps | Unseen:
    """Look for the processes of NVIDIA's Multi-Process Service."""
    names = world.names("/proc")
    if isinstance(names, Unseen):
        return names
    processes, hidden = [], 0
    for pid in names:
        if not (pid.isascii() and pid.isdigit()):
            continue
        name = world.line(f"/proc/{pid}/comm")
        if isinstance(name, Unseen):
            hidden += name.reason is Blind.PERMISSION
        elif name.startswith(_MPS):
            processes.append(process_text(world, pid))
    return Mps(
        processes=tuple(processes[:_MOST_PROCESSES]),
        hidden_count=hidden,
        others_hidden="1" not in names,
    )
