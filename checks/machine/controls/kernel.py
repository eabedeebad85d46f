"""A kernel with what is declared, and one that lacks the last of it."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.facts import Driver, Kernel

_KERNEL = Kernel(
    parameters=("quiet", "iommu=pt", "pci=realloc"),
    modules=("nvidia", "nvidia_peermem"),
    built_in=("ib_core",),
    drivers=(Driver(name="nvidia", version="570.133.20", devices_count=8),),
    iommus_count=4,
    transparent_huge_pages="madvise",
)
_LINE = ("iommu=pt", "quiet")
control("machine.kernel.parameters", _KERNEL, _LINE, passes=True)
for _parameters in (("quiet",), ("quiet", "iommu=on"), ("quiet", "iommu=pt2")):
    control(
        "machine.kernel.parameters",
        replace(_KERNEL, parameters=_parameters),
        _LINE,
        fails="parameter-missing",
    )
_MODULES = ("nvidia", "nvidia-peermem", "ib_core")
control("machine.kernel.modules", _KERNEL, _MODULES, passes=True)
control("machine.kernel.modules", replace(_KERNEL, built_in=()), _MODULES, fails="module-missing")
control(
    "machine.kernel.modules",
    replace(_KERNEL, modules=("nvidia",), built_in=Unseen(Blind.ABSENT, "planted")),
    ("nvidia_peermem",),
    fails="module-missing",
)
