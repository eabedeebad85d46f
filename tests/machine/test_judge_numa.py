"""The judge of NUMA nodes, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, Bounds
from checks.core.profile import Hardware, Profile
from checks.core.registry import REGISTRY, Measure
from checks.core.verdict import Verdict
from checks.machine.facts import Numa, NumaNode
from checks.machine.judge import numa as judge
from tests.support.judging import GIB, MIB, UNSEEN, expected
from tests.support.seen import IDENTITY

VM = replace(IDENTITY, hypervisor="kvm")


def numa(*sizes: tuple[int, float]) -> Numa:
    """Make nodes of a number of CPUs and a size in GiB each."""
    return Numa(
        nodes=tuple(
            NumaNode(
                node=str(number),
                cpu_list=f"0-{cpus - 1}" if cpus else "",
                near_cpus=cpus,
                memory_bytes=int(size * GIB),
                distances=UNSEEN,
            )
            for number, (cpus, size) in enumerate(sizes)
        ),
        balancing="0",
    )


def exactly(count: float) -> Bounds:
    return Bounds(value=count, lower=count, upper=count)


@pytest.mark.parametrize(("wanted", "fails"), [(1, True), (2, False), (3, True)])
def test_nodes_are_counted_exactly(wanted, fails):
    said = judge.numa_nodes_as_declared(numa((8, 64), (8, 64)), IDENTITY, exactly(wanted))
    assert (said.cause == "other-number-of-nodes") is fails
    assert said.observed == {"nodes_count": 2}
    assert said.expected == {"nodes_count": wanted}
    assert said.says == ("NUMA nodes: 2" if not fails else f"NUMA nodes: 2, {wanted} wanted")
    assert said.evidence == ("node 0: CPUs 0-7, 64.0 GiB", "node 1: CPUs 0-7, 64.0 GiB")


def test_a_side_of_a_measured_number_may_be_open():
    for bounds in (Bounds(value=1, lower=1, upper=None), Bounds(value=4, lower=None, upper=4)):
        said = judge.numa_nodes_as_declared(numa((8, 64), (8, 64)), IDENTITY, bounds)
        assert said.verdict is Verdict.PASS


def test_a_kernel_without_nodes_has_one():
    assert judge.numa_nodes_as_declared(numa(), IDENTITY, exactly(1)).verdict is Verdict.PASS
    said = judge.numa_nodes_as_declared(numa(), IDENTITY, None)
    assert (said.says, said.notes, said.expected) == ("NUMA nodes: 1", (), {})
    many = numa(*[(1, 64)] * 300)
    assert judge.numa_nodes_as_declared(many, IDENTITY, exactly(int("300"))).verdict is Verdict.PASS


def test_cpus_without_memory_are_noted_on_bare_metal_alone():
    seen = numa((8, 64), (8, 0))
    (note,) = judge.numa_nodes_as_declared(seen, IDENTITY, None).notes
    assert note.startswith("node 1 has CPUs and no memory")
    for hypervisor in ("kvm", "wsl", UNSEEN):
        box = replace(IDENTITY, hypervisor=hypervisor)
        assert judge.numa_nodes_as_declared(seen, box, None).notes == ()
    assert judge.numa_nodes_as_declared(seen, IDENTITY, exactly(2)).verdict is Verdict.PASS
    assert judge.numa_nodes_as_declared(numa((8, 0)), IDENTITY, None).notes != ()


def test_memory_without_cpus_is_normal():
    """As of GH200 and GB200, whose GPUs are nodes, and of CXL devices."""
    seen = numa((72, 480), (0, 96), (0, 0), (0, 0))
    assert judge.numa_nodes_as_declared(seen, IDENTITY, None).notes == ()


@pytest.mark.parametrize(
    ("other", "noted"),
    [(80 * GIB, False), (80 * GIB + 1, True), (64 * GIB, False), (51 * GIB, True)],
)
def test_memory_that_is_spread_unevenly_is_noted(other, noted):
    said = judge.numa_nodes_as_declared(numa((8, 64), (8, other / GIB)), IDENTITY, None)
    assert said.verdict is Verdict.PASS
    assert bool(said.notes) is noted
    if noted:
        assert "modules are missing on one socket" in said.notes[0]


@pytest.mark.parametrize(("more", "noted"), [(600 * MIB, False), (600 * MIB + 1, True)])
def test_what_the_kernel_keeps_of_a_small_node_is_not_noted(more, noted):
    for least in (GIB, 600 * MIB):
        seen = numa((2, least / GIB), (2, (least + more) / GIB))
        assert bool(judge.numa_nodes_as_declared(seen, VM, None).notes) is noted


def test_a_note_names_the_larger_and_the_smaller_node():
    said = judge.numa_nodes_as_declared(numa((8, 32), (8, 64), (8, 48)), IDENTITY, None)
    assert said.notes[0].startswith("node 1 has 64.0 GiB and node 0 has 32.0 GiB")


def test_nodes_that_nobody_declared_are_judged_by_what_holds_everywhere():
    of = REGISTRY.checks["machine.numa.nodes"].cases
    (case,) = of(expected(Profile(schema=1)))
    assert (case.wanted.value, case.wanted.basis) == (None, Basis.INVARIANT)
    (case,) = of(expected(Profile(schema=1, hardware=Hardware(numa_nodes=2))))
    assert (case.wanted.value, case.wanted.basis) == (exactly(2), Basis.DECLARED)


def test_a_measured_number_has_to_be_the_same_again():
    measures = REGISTRY.checks["machine.numa.nodes"].measures
    assert measures == Measure(quantity="nodes_count", unit="1", lower_ratio=0.0, upper_ratio=0.0)
