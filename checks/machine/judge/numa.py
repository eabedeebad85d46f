"""Whether memory and CPUs are divided as declared, and evenly."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.expectation import Bounds, Case, Expected
from checks.core.finding import Judgement, fail, ok
from checks.core.judging import count_case, or_always, stand_for
from checks.core.registry import Measure, check
from checks.core.units import bytes_text
from checks.machine.facts import (
    Identity,
    Numa,
    NumaNode,
)
from checks.machine.judge.memory import KERNEL_RESERVE_BYTES

UNEVEN_RATIO = 1.25
"""Between nodes that have CPUs, memory differs by less than this where the same modules are fitted:
one of five missing makes as much (assumed)."""


def _nodes(expected: Expected) -> Iterator[Case[Bounds | None]]:
    case = count_case(expected, "machine.numa.nodes", "numa_nodes")
    yield or_always(case, "any division into nodes works")


@check(
    "machine.numa.nodes",
    sees=(Numa, Identity),
    cases=_nodes,
    measures=Measure(quantity="nodes_count", unit="1", lower_ratio=0.0, upper_ratio=0.0),
    premise=("board", "cpu"),
    causes={
        "other-number-of-nodes": "memory and CPUs are divided into another number of nodes than "
        "declared: a socket is missing, or firmware divides sockets otherwise (NPS, SNC)",
    },
)
def numa_nodes_as_declared(seen: Numa, box: Identity, wanted: Bounds | None) -> Judgement:
    """Memory and CPUs are divided into the declared number of NUMA nodes.

    Looks at /sys/devices/system/node: nodes, their CPUs and their memory. Fails where their number
    is not the profile's hardware.numa_nodes, or not the one that somebody has measured: threads and
    GPUs are pinned to nodes by number. It says where a node with CPUs has no memory on bare metal,
    and where one has more than 1.25 times as much as another; a node without CPUs is the memory of
    a GPU (GH200, GB200) or of a CXL device.
    What to do: look into firmware (NPS on AMD, SNC or Cluster-on-Die on Intel, node interleaving),
    and for missing modules on one socket (`dmidecode -t memory` as root); rerun.
    """
    count = max(len(seen.nodes), 1)
    observed = {"nodes_count": count}
    expected = {} if wanted is None else {"nodes_count": wanted.value}
    evidence = tuple(
        f"node {node.node}: CPUs {node.cpu_list or 'none'}, {bytes_text(node.memory_bytes)}"
        for node in seen.nodes
    )
    says = f"NUMA nodes: {count}"
    if wanted is not None and not _within(count, wanted):
        return fail(
            "other-number-of-nodes",
            f"{says}, {wanted.value:.0f} wanted",
            remedy="look for a socket that is missing, and into firmware (NPS on AMD, SNC on Intel, "
            f"node interleaving); where it is to be so, {stand_for('numa_nodes')}; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    notes = tuple(_notes(seen.nodes, box))
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


def _within(count: int, wanted: Bounds) -> bool:
    return (wanted.lower is None or count >= wanted.lower) and (
        wanted.upper is None or count <= wanted.upper
    )


def _notes(nodes: tuple[NumaNode, ...], box: Identity) -> Iterator[str]:
    near = [node for node in nodes if node.near_cpus]
    filled = [node for node in near if node.memory_bytes]
    empty = [node.node for node in near if not node.memory_bytes]
    if empty and box.hypervisor == "none":
        yield (
            f"node {', '.join(empty)} has CPUs and no memory, so all that they read comes from "
            "another node: look for missing modules beside that socket (`dmidecode -t memory` as "
            "root), or at NPS in firmware"
        )
    if not filled:
        return
    least = min(filled, key=lambda node: node.memory_bytes)
    most = max(filled, key=lambda node: node.memory_bytes)
    # what the kernel keeps of one node makes small ones look uneven
    fair = max(least.memory_bytes * UNEVEN_RATIO, least.memory_bytes + KERNEL_RESERVE_BYTES)
    if most.memory_bytes > fair:
        yield (
            f"node {most.node} has {bytes_text(most.memory_bytes)} and node {least.node} has "
            f"{bytes_text(least.memory_bytes)}: modules are missing on one socket, or spread "
            "unevenly (`dmidecode -t memory` as root)"
        )
