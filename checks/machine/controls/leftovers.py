"""Environments that name GPUs that are there, and the nearest that do not."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.gpus import GPU, GPUS
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Leftover,
    Leftovers,
    Mps,
    VisibilityWanted,
)

_NONE = Unseen(Blind.ABSENT, "planted")


def _left(**environment: str) -> Leftovers:
    place = Leftover(
        place="this",
        source="planted",
        environment=environment,
        libraries=(),
        proxies={},
        nvidia_uuids=_NONE,
    )
    return Leftovers(places=(place,))


_SEES = "machine.leftovers.visibility"
_CASUAL = VisibilityWanted(place="this", needs_gpus=False)
control(_SEES, (_left(CUDA_VISIBLE_DEVICES="0,1"), GPUS), _CASUAL, passes=True)
control(_SEES, (_left(CUDA_VISIBLE_DEVICES="0,2"), GPUS), _CASUAL, fails="no-such-gpu")
_NEEDS = replace(_CASUAL, needs_gpus=True)
control(_SEES, (_left(CUDA_VISIBLE_DEVICES="0"), GPUS), _NEEDS, passes=True)
control(_SEES, (_left(CUDA_VISIBLE_DEVICES=""), GPUS), _NEEDS, fails="all-hidden")

_RX9070 = replace(GPU, vendor="amd", driver="amdgpu", kfd_nodes=("1",), gfx="12.0.1")
_AMD = replace(GPUS, gpus=(_RX9070,), modules=("amdgpu",), kfd_gpus_count=1)
_IS = "machine.leftovers.gfx-override"
control(_IS, (_AMD, _left(HSA_OVERRIDE_GFX_VERSION="12.0.0")), passes=True)
control(_IS, (_AMD, _left(HSA_OVERRIDE_GFX_VERSION="11.0.0")), fails="amd-hsa-override")

_IDLE = Mps(processes=(), hidden_count=0, others_hidden=False)
_BUSY = replace(_IDLE, processes=("900 nvidia-cuda-mps",))
for _seen, _wanted, _fails in (
    (_IDLE, False, ""),
    (_BUSY, True, ""),
    (_BUSY, False, "mps-running"),
    (_IDLE, True, "mps-not-running"),
):
    control(
        "machine.leftovers.mps",
        (_seen, GPUS, IDENTITY),
        _wanted,
        fails=_fails,
        passes=not _fails,
    )
