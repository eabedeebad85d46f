"""What is read of the processor and of NUMA nodes, on trees of many makes and on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks.core.codec import LARGEST_INT
from checks.core.facts import Blind, Unseen
from checks.core.world import LARGEST_READ_BYTES, World
from checks.machine.probe.numa import read_numa
from checks.machine.probe.processor import read_processor
from tests.support.boxes import (
    CPUS,
    FEATURES,
    NODES,
    UP_S,
    arm_board,
    cloud_vm,
    h100_box,
    plain_box,
    with_node,
    with_nodes,
)


def processor(tmp_path, box):
    return read_processor(World(box.write(tmp_path / "tree")))


def numa(tmp_path, box):
    return read_numa(World(box.write(tmp_path / "tree")))


def test_a_box_of_bare_metal_is_read_whole(tmp_path):
    seen = processor(tmp_path, plain_box())
    assert (seen.sockets_count, seen.cores_count) == (1, 4)
    assert (seen.online_cpus, seen.present_cpus, seen.smt) == (8, 8, "on")
    assert seen.kernel_words == ()
    assert set(seen.features) >= set(FEATURES.split())
    (row,) = seen.scaling
    assert (row.driver, row.governor, row.governed_cpus) == ("intel_pstate", "powersave", 8)
    assert (row.lowest_max_ratio, seen.scaling_unread_cpus) == (1.0, 0)
    assert (seen.throttles_count, seen.up_s) == (3, UP_S)
    # counts are no kind: with a dead socket it is the same processor, of which some is missing
    assert list(seen.components()) == []


def test_an_arm_board_has_features_of_its_own(tmp_path):
    seen = processor(tmp_path, arm_board())
    assert "asimddp" in seen.features
    assert seen.scaling[0].driver == "cpufreq-dt"
    assert seen.throttles_count.reason is Blind.ABSENT


def test_a_virtual_machine_scales_and_counts_nothing(tmp_path):
    seen = processor(tmp_path, cloud_vm())
    assert (seen.scaling, seen.scaling_unread_cpus) == ((), 0)
    assert seen.throttles_count.reason is Blind.ABSENT


def test_a_feature_counts_only_where_every_cpu_has_it(tmp_path):
    box = plain_box()
    info = str(box.files["/proc/cpuinfo"])
    head, last = info.rsplit(" amx_tile", 1)
    seen = processor(tmp_path, box.put("/proc/cpuinfo", head + last))
    assert "amx_tile" not in seen.features
    assert "amx_int8" in seen.features


def test_a_cpu_of_which_only_a_part_was_read_takes_no_feature_away(tmp_path):
    """/proc/cpuinfo of a box with hundreds of CPUs is longer than what is read of a file."""
    one = f"processor\t: 0\nflags\t\t: {'fill ' * 380}avx512f amx_tile\npower management:\n\n"
    for shift in (0, 30, 1_500, 1_940):
        count = LARGEST_READ_BYTES // len(one) + 200
        text = f"model name\t: {'x' * shift}\n" + one * count
        box = plain_box().put("/proc/cpuinfo", text)
        assert {"avx512f", "amx_tile"} <= set(processor(tmp_path / str(shift), box).features)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("processor\t: 0\nisa\t\t: rv64imafdc\n", Blind.UNSUPPORTED),
        ("flags\t\t:\n", Blind.MALFORMED),
        ("flags\t\t: \x1b[2J \x07\n", Blind.MALFORMED),
        ("flags\t\t: " + " ".join(f"f{n}" for n in range(501)) + "\n", Blind.MALFORMED),
    ],
)
def test_flags_that_are_none_are_no_features(tmp_path, text, reason):
    seen = processor(tmp_path, plain_box().put("/proc/cpuinfo", text))
    assert seen.features.reason is reason


def test_words_that_take_cpus_away_are_kept_and_no_others(tmp_path):
    line = (
        "root=UUID=1 maxcpus=4 nosmt mitigations=auto,nosmt clearcpuid=514 token=abc isolcpus=3\n"
    )
    seen = processor(tmp_path, plain_box().put("/proc/cmdline", line))
    assert seen.kernel_words == ("maxcpus=4", "nosmt", "mitigations=auto,nosmt", "clearcpuid=514")


@pytest.mark.parametrize(
    "word", ["mitigations=off", "mitigations=auto", "mitigations=auto,x_nosmt"]
)
def test_mitigations_take_cpus_away_only_with_nosmt(tmp_path, word):
    seen = processor(tmp_path, plain_box().put("/proc/cmdline", f"quiet {word}\n"))
    assert seen.kernel_words == ()


def test_cpus_are_grouped_by_driver_and_governor(tmp_path):
    box = plain_box()
    box.put(f"{CPUS}/cpu3/cpufreq/scaling_governor", "performance\n")
    box.put(f"{CPUS}/cpu3/cpufreq/scaling_max_freq", "garbage\n")
    box.put(f"{CPUS}/cpu4/cpufreq/scaling_max_freq", "1900000\n")
    box.put(f"{CPUS}/cpu5/cpufreq/scaling_governor", "")
    box.put(f"{CPUS}/cpu1/cpufreq/scaling_driver", "-1\n")
    box.put(f"{CPUS}/cpu6/cpufreq/cpuinfo_max_freq", "0\n")
    seen = processor(tmp_path, box)
    first, second = seen.scaling
    assert (first.governor, first.governed_cpus) == ("performance", 1)
    assert first.lowest_max_ratio.reason is Blind.MALFORMED
    assert (second.governor, second.governed_cpus) == ("powersave", 5)
    assert second.lowest_max_ratio == 0.5
    assert seen.scaling_unread_cpus == 2


def test_a_governor_that_can_be_read_of_no_cpu_is_a_reason(tmp_path):
    box = plain_box()
    for cpu in range(8):
        box.put(f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor", "every\x01thing\n")
    seen = processor(tmp_path, box)
    assert seen.scaling.reason is Blind.MALFORMED
    assert seen.scaling_unread_cpus == 8


def test_cpus_that_are_offline_are_not_asked(tmp_path):
    box = plain_box().put(f"{CPUS}/online", "0-5\n")
    for cpu in (6, 7):
        box.drop(f"{CPUS}/cpu{cpu}/")
    seen = processor(tmp_path, box)
    assert (seen.online_cpus, seen.present_cpus) == (6, 8)
    assert (seen.scaling[0].governed_cpus, seen.scaling_unread_cpus) == (6, 0)


def test_the_largest_of_all_throttle_counters_counts(tmp_path):
    box = plain_box()
    box.put(f"{CPUS}/cpu2/thermal_throttle/core_throttle_count", "70\n")
    box.put(f"{CPUS}/cpu7/thermal_throttle/package_throttle_count", "900\n")
    assert processor(tmp_path, box).throttles_count == 900


@pytest.mark.parametrize("text", ["-1\n", "9" * 16 + "\n", "٣\n", "", "1.5\n"])
def test_a_counter_that_is_no_number_is_no_count(tmp_path, text):
    box = plain_box().put(f"{CPUS}/cpu2/thermal_throttle/core_throttle_count", text)
    assert isinstance(processor(tmp_path, box).throttles_count, Unseen)
    box = plain_box().put(f"{CPUS}/cpu2/thermal_throttle/core_throttle_count", "9" * 15 + "\n")
    assert 0 < processor(tmp_path / "b", box).throttles_count <= LARGEST_INT


def test_sockets_without_a_number_are_not_counted(tmp_path):
    box = plain_box().put(f"{CPUS}/cpu1/topology/physical_package_id", "-1\n")
    assert processor(tmp_path, box).sockets_count.reason is Blind.UNSUPPORTED
    box = plain_box().put(f"{CPUS}/cpu1/topology/physical_package_id", "36\n")
    assert processor(tmp_path / "b", box).sockets_count == 2


def test_an_old_kernel_without_a_state_of_smt_is_a_reason(tmp_path):
    box = plain_box().drop(f"{CPUS}/smt/")
    assert processor(tmp_path, box).smt.reason is Blind.ABSENT
    box = plain_box().put(f"{CPUS}/smt/control", "perhaps\n")
    assert processor(tmp_path / "b", box).smt.reason is Blind.MALFORMED


def test_this_machine_is_read_as_its_own_tools_read_it():
    seen = read_processor(World())
    assert seen.online_cpus == os.sysconf("SC_NPROCESSORS_ONLN")
    text = Path("/proc/cpuinfo").read_text("utf-8")
    assert not isinstance(seen.features, Unseen) or "flags" not in text
    assert isinstance(seen.up_s, float)


# NUMA


def test_nodes_are_read_with_their_cpus_and_memory(tmp_path):
    seen = numa(tmp_path, h100_box())
    assert [(node.node, node.cpu_list, node.near_cpus) for node in seen.nodes] == [
        ("0", "0-3,8-11", 8),
        ("1", "4-7,12-15", 8),
    ]
    assert {node.memory_bytes for node in seen.nodes} == {263_967_744 * 1024}
    assert seen.nodes[0].distances == "10 21"
    assert seen.balancing == "0"


def test_nodes_without_cpus_and_without_memory_are_nodes(tmp_path):
    """GH200: the GPU's memory, and nodes kept for its partitions; numbers may leave some out."""
    box = with_nodes(plain_box(72), "0-71")
    with_node(box, 1, "", 97_000_000)
    for node in (2, 10):
        with_node(box, node, "", 0)
    seen = numa(tmp_path, box)
    assert [(node.node, node.near_cpus, node.memory_bytes > 0) for node in seen.nodes] == [
        ("0", 72, True),
        ("1", 0, True),
        ("2", 0, False),
        ("10", 0, False),
    ]


def test_a_kernel_without_nodes_gives_none(tmp_path):
    assert numa(tmp_path, plain_box().drop(NODES)).nodes == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cpulist", "0-x\n"),
        ("cpulist", "7-0\n"),
        ("meminfo", ""),
        ("meminfo", "Node 0 MemTotal: many kB\n"),
        ("meminfo", f"Node 0 MemTotal: {'9' * 13} kB\n"),
    ],
)
def test_a_node_that_makes_no_sense_is_a_reason(tmp_path, name, text):
    seen = numa(tmp_path, plain_box().put(f"{NODES}/node0/{name}", text))
    assert seen.reason is Blind.MALFORMED


def test_this_machines_nodes_hold_its_cpus():
    seen = read_numa(World())
    if isinstance(seen, Unseen) or not seen.nodes:
        pytest.skip("needs root: this machine shows no NUMA nodes to this user")
    assert sum(node.near_cpus for node in seen.nodes) >= 1
