"""As many threads as CPUs, and a little more."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.facts import (
    Cpu,
    CpuLimit,
    Process,
    Threads,
)

_NOT_ASKED = Unseen(Blind.NOT_ASKED, "planted")


def _cpu(effective_cpus: float, host: int = 8) -> Cpu:
    limit = CpuLimit(source="cpu.max", text="planted", cpus=effective_cpus)
    return Cpu(
        place="this",
        process="planted",
        host_cpus=host,
        host_cores=host,
        effective_cpus=effective_cpus,
        affinity_cpus=host,
        limits=(limit,),
        above_unseen=False,
        throttled_ratio=None,
        command=_NOT_ASKED,
        thread_environment=_NOT_ASKED,
        others=(),
        others_left_out_count=0,
    )


_FOUR = Threads(command=("llama-server", "-t", "4"), env={}, engine="llama.cpp")
_FOUR_BY_ENV = Threads(command=("serve",), env={"OMP_NUM_THREADS": "4"}, engine="")
_UNSAID = Threads(command=("llama-server",), env={}, engine="llama.cpp")
for _asked in (_FOUR, _FOUR_BY_ENV):
    control("machine.cpu.threads", _cpu(3.99), _asked, fails="more-threads-than-cpus")
    control("machine.cpu.threads", _cpu(4.0), _asked, passes=True)
control("machine.cpu.threads", _cpu(2.0, host=4), _UNSAID, fails="default-exceeds-cpus")
control("machine.cpu.threads", _cpu(4.0, host=4), _UNSAID, passes=True)
_RUNNING = replace(_cpu(2.0), command=("llama-server", "-t", "3"))
control(
    "machine.cpu.threads",
    _RUNNING,
    Threads(command=("llama-server", "-t", "2"), env={}, engine="llama.cpp"),
    fails="more-threads-than-cpus",
)

_ENTRY = replace(_cpu(2.0), command=("bash", "entry.sh"), thread_environment={})
for _count, _fails in (("3", "more-threads-than-cpus"), ("2", "")):
    _server = Process(
        process="planted",
        command=("server.py", "-t", _count),
        thread_environment={},
        same_limits=True,
    )
    control(
        "machine.cpu.threads",
        replace(_ENTRY, others=(_server,)),
        Threads(command=("llama-server", "-t", "1"), env={}, engine="llama.cpp"),
        fails=_fails,
        passes=not _fails,
    )

for _kept, _fails in ((4.0, ""), (4.01, "threads-on-reserved-cpus")):
    control(
        "machine.cpu.threads",
        _cpu(8.0),
        replace(_FOUR, reserved_cpus=_kept),
        fails=_fails,
        passes=not _fails,
    )
