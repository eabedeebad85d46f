"""GPUs that a driver holds, and one that none does."""

from __future__ import annotations

from dataclasses import replace

from checks.core.expectation import Bounds
from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Gpu,
    Gpus,
)

_NONE = Unseen(Blind.ABSENT, "planted")
GPU = Gpu(
    address="0000:18:00.0",
    vendor="nvidia",
    driver="nvidia",
    driver_override="none",
    integrated=False,
    numa_node="0",
    uuid="GPU-00000000-0000-4000-8000-000000000000",
    kfd_nodes=(),
    gfx=_NONE,
)
_OTHER = replace(GPU, address="0000:29:00.0")
GPUS = Gpus(
    gpus=(GPU, _OTHER),
    modules=("nvidia",),
    nvidia_listed=(GPU.address, _OTHER.address),
    kfd_gpus_count=_NONE,
    cpu_nodes_count=1,
    outside_pci=(),
)

_UNHELD = replace(GPUS, gpus=(GPU, replace(_OTHER, driver="none")))
control("machine.devices.driver", GPUS, None, passes=True)
control("machine.devices.driver", _UNHELD, None, fails="no-driver")
control("machine.devices.driver", replace(_UNHELD, modules=()), None, passes=True)
control("machine.devices.driver", replace(_UNHELD, modules=()), 2, fails="no-module")
_NOUVEAU = replace(GPUS, gpus=(GPU, replace(_OTHER, driver="nouveau")))
control("machine.devices.driver", _NOUVEAU, 1, passes=True)
control("machine.devices.driver", _NOUVEAU, 2, fails="nouveau-holds")
for _count, _cause in ((2, ""), (3, "gpus-missing"), (1, "more-gpus-than-declared")):
    control(
        "machine.devices.gpus",
        (GPUS, IDENTITY),
        Bounds(value=_count, lower=_count, upper=_count),
        fails=_cause,
        passes=not _cause,
    )
