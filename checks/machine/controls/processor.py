"""A processor as declared and whole, and one that is not."""

from __future__ import annotations

from dataclasses import replace

from checks.core.expectation import Bounds
from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Processor,
    Scaling,
)
from checks.machine.judge.processor import MANY_PER_HOUR

_NONE = Unseen(Blind.ABSENT, "planted")
_SCALING = Scaling(
    driver="intel_pstate", governor="performance", governed_cpus=8, lowest_max_ratio=1.0
)
_HOURS = 10
_PROCESSOR = Processor(
    sockets_count=1,
    cores_count=4,
    online_cpus=8,
    present_cpus=8,
    smt="on",
    kernel_words=(),
    features=("avx2", "avx512f"),
    scaling=(_SCALING,),
    scaling_unread_cpus=0,
    throttles_count=MANY_PER_HOUR * _HOURS,
    up_s=_HOURS * 3_600.0,
)

control("machine.cpu.model", IDENTITY, "planted", passes=True)
control("machine.cpu.model", IDENTITY, "planted 2", fails="not-as-declared")
for _cpus, _cause in ((8, ""), (9, "cpus-missing"), (7, "more-cpus-than-declared")):
    control(
        "machine.cpu.count",
        _PROCESSOR,
        Bounds(value=_cpus, lower=_cpus, upper=_cpus),
        fails=_cause,
        passes=not _cause,
    )
control("machine.cpu.instructions", _PROCESSOR, ("avx512f",), passes=True)
control("machine.cpu.instructions", _PROCESSOR, ("avx512f", "amx_tile"), fails="feature-missing")
control("machine.cpu.governor", _PROCESSOR, "performance", passes=True)
control(
    "machine.cpu.governor",
    replace(_PROCESSOR, scaling=(_SCALING, replace(_SCALING, governor="schedutil"))),
    "performance",
    fails="governor-not-as-declared",
)
_MEASURED = Bounds(value=1, lower=None, upper=2)
control("machine.cpu.throttling", _PROCESSOR, _MEASURED, passes=True)
control(
    "machine.cpu.throttling",
    replace(_PROCESSOR, throttles_count=MANY_PER_HOUR * _HOURS + 1),
    _MEASURED,
    fails="throttles-often",
)
