"""As many nodes as declared, and others."""

from __future__ import annotations

from checks.core.expectation import Bounds
from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import (
    Numa,
    NumaNode,
)

_NONE = Unseen(Blind.ABSENT, "planted")
_NUMA = Numa(
    nodes=tuple(
        NumaNode(node=node, cpu_list=node, near_cpus=1, memory_bytes=2**35, distances=_NONE)
        for node in ("0", "1")
    ),
    balancing=_NONE,
)
for _count, _fails in ((2, ""), (1, "other-number-of-nodes"), (3, "other-number-of-nodes")):
    control(
        "machine.numa.nodes",
        (_NUMA, IDENTITY),
        Bounds(value=_count, lower=_count, upper=_count),
        fails=_fails,
        passes=not _fails,
    )
