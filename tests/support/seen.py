"""What probes have seen of a healthy box, as data for the tests of judges."""

from __future__ import annotations

from checks.core.facts import Blind, Unseen
from checks.machine.facts import Gpu, Gpus, Identity

ABSENT = Unseen(Blind.ABSENT, "planted")
IDENTITY = Identity(
    **(
        dict.fromkeys(Identity.__dataclass_fields__, "planted")
        | {"hypervisor": "none", "container": "none", "evidence": ()}
    )
)
GPU = Gpu(
    address="0000:18:00.0",
    vendor="nvidia",
    driver="nvidia",
    driver_override="none",
    integrated=False,
    numa_node="0",
    uuid="GPU-00000000-0000-4000-8000-000000000000",
    kfd_nodes=(),
    gfx=ABSENT,
)
GPUS = Gpus(
    gpus=(GPU,),
    modules=("nvidia",),
    nvidia_listed=(GPU.address,),
    kfd_gpus_count=ABSENT,
    cpu_nodes_count=1,
    outside_pci=(),
)
