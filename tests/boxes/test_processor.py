"""Processors and NUMA nodes of planted boxes: each fault, and its healthy twin."""

from __future__ import annotations

import pytest

from tests.support.boxes import (
    CPUS,
    NODES,
    UP_S,
    arm_board,
    cloud_vm,
    h100_box,
    plain_box,
    with_node,
    with_nodes,
    with_processor,
)

HOUR_S = 3_600


def judged(suite, folder, box, check, hardware=""):
    profile = f"[hardware]\n{hardware}\n" if hardware else None
    run = suite.run(folder, root=box.write(folder / "tree"), profile=profile)
    return run, run.finding(check)


def test_the_declared_processor_passes_and_another_fails(suite, tmp_path):
    check = "machine.cpu.model"
    same = 'cpu_model = "Intel(R) Xeon(R) Platinum 8480+"'
    assert judged(suite, tmp_path / "a", plain_box(), check, same)[1]["verdict"] == "pass"
    _, found = judged(suite, tmp_path / "b", plain_box(), check, same.replace("+", "C"))
    assert found["cause"] == "not-as-declared"
    assert found["premise"] == ["cpu"]


def offline(box):
    box.put(f"{CPUS}/online", "0-5\n")
    return box.drop(f"{CPUS}/cpu6/", f"{CPUS}/cpu7/")


def limited(box):
    box.put(f"{CPUS}/present", "0-5\n").put("/proc/cmdline", "root=/dev/sda1 maxcpus=6\n")
    return offline(box)


def without_threads(box):
    box.cpus(4, smt=1)
    with_processor(box, 4)
    return box.put(f"{CPUS}/smt/control", "off\n")


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (offline, "bring the offline CPUs online"),
        (limited, "take maxcpus=6 off the kernel's command line"),
        (without_threads, "switch multithreading on"),
    ],
)
def test_a_box_with_cpus_missing_fails_and_says_what_took_them(suite, tmp_path, fault, remedy):
    check = "machine.cpu.count"
    run, found = judged(suite, tmp_path, fault(plain_box()), check, "cpus = 8")
    assert (found["cause"], run.code) == ("cpus-missing", 1)
    assert found["remedy"].startswith(remedy)
    _, found = judged(suite, tmp_path / "b", plain_box(), check, "cpus = 8")
    assert found["verdict"] == "pass"
    _, found = judged(suite, tmp_path / "c", plain_box(), check, "cpus = 4")
    assert found["cause"] == "more-cpus-than-declared"


def test_an_instruction_set_that_the_hypervisor_hides_fails(suite, tmp_path):
    check, wanted = "machine.cpu.instructions", 'cpu_features = ["avx512f", "amx_tile"]'
    box = plain_box()
    assert judged(suite, tmp_path / "a", box, check, wanted)[1]["verdict"] == "pass"
    info = str(box.files["/proc/cpuinfo"]).replace(" amx_tile", "", 1)
    run, found = judged(suite, tmp_path / "b", box.put("/proc/cpuinfo", info), check, wanted)
    assert (found["cause"], run.code) == ("feature-missing", 1)
    assert found["says"] == "not every CPU has amx_tile"
    _, found = judged(suite, tmp_path / "c", arm_board(), check, 'cpu_features = ["asimddp"]')
    assert found["verdict"] == "pass"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("avx512vnni", "avx512_vnni"),
        ("AVX512F", "avx512f"),
        ("neon", "asimd"),
        ("sse4.2", "sse4_2"),
    ],
)
def test_an_instruction_set_in_a_spelling_that_no_kernel_uses_is_an_error(
    suite, tmp_path, name, meant
):
    run = suite.run(tmp_path, profile=f'[hardware]\ncpu_features = ["{name}"]\n')
    assert run.code == 4
    assert f"{meant} for {name}" in run.out


def test_a_governor_is_judged_where_it_is_declared_and_noted_where_it_slows(suite, tmp_path):
    check, wanted = "machine.cpu.governor", 'cpu_governor = "performance"'
    box = plain_box()
    _, found = judged(suite, tmp_path / "a", box, check)
    assert (found["verdict"], found["notes"]) == ("pass", []), "normal under intel_pstate"
    _, found = judged(suite, tmp_path / "b", box, check, wanted)
    assert found["cause"] == "governor-not-as-declared"
    for cpu in range(8):
        box.put(f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor", "performance\n")
    assert judged(suite, tmp_path / "c", box, check, wanted)[1]["verdict"] == "pass"
    slow = with_processor(plain_box(), 8, driver="acpi-cpufreq")
    run, found = judged(suite, tmp_path / "d", slow, check)
    assert (found["verdict"], run.code) == ("pass", 0)
    assert "powersave under acpi-cpufreq keeps 8 CPUs" in found["notes"][0]
    assert "powersave under acpi-cpufreq" in " ".join(run.out.split())
    _, found = judged(suite, tmp_path / "e", cloud_vm(), check)
    assert found["verdict"] == "not-applicable"


@pytest.mark.parametrize(("more", "noted"), [(0, False), (1, True)])
def test_throttling_is_noted_as_a_rate_and_never_as_a_count(suite, tmp_path, more, noted):
    box = plain_box()
    count = int(60 * UP_S / HOUR_S) + more
    box.put(f"{CPUS}/cpu3/thermal_throttle/package_throttle_count", f"{count}\n")
    run, found = judged(suite, tmp_path, box, "machine.cpu.throttling")
    assert (found["verdict"], bool(found["notes"]), run.code) == ("pass", noted, 0)


MEASURED = """schema = 1
[[expectation]]
check = "machine.cpu.throttling"
value = 50.0
unit = "1/h"
upper_ratio = 1.0
basis = "measured"
source = "a ledger"
measured_at = "2026-01-01"
"""


@pytest.mark.parametrize(("per_h", "cause"), [(99, ""), (101, "throttles-often")])
def test_throttling_fails_where_a_measured_rate_is_exceeded(suite, tmp_path, per_h, cause):
    measured = tmp_path / "expected" / "measured"
    measured.mkdir(parents=True)
    (measured / "planted.toml").write_text(MEASURED)
    box = plain_box()
    count = int(per_h * UP_S / HOUR_S)
    box.put(f"{CPUS}/cpu3/thermal_throttle/core_throttle_count", f"{count}\n")
    _, found = judged(suite, tmp_path, box, "machine.cpu.throttling")
    assert (found["cause"], found["basis"]) == (cause, "measured"), found["says"]


# NUMA


def test_nodes_are_counted_as_declared(suite, tmp_path):
    check = "machine.numa.nodes"
    assert judged(suite, tmp_path / "a", h100_box(), check, "numa_nodes = 2")[1]["confirmed"]
    run, found = judged(suite, tmp_path / "b", h100_box(), check, "numa_nodes = 8")
    assert (found["cause"], run.code) == ("other-number-of-nodes", 1)
    bare = plain_box().drop(NODES)
    assert judged(suite, tmp_path / "c", bare, check, "numa_nodes = 1")[1]["verdict"] == "pass"


def gh200():
    box = with_nodes(plain_box(8), "0-7")
    with_node(box, 1, "", 97_000_000)
    return with_node(box, 2, "", 0)


def without_memory():
    return with_node(with_nodes(plain_box(8), "0-3", "4-7"), 1, "4-7", 0)


def uneven():
    return with_node(with_nodes(plain_box(8), "0-3", "4-7"), 1, "4-7", 131_983_872)


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (h100_box, ""),
        (gh200, ""),
        (without_memory, "node 1 has CPUs and no memory"),
        (uneven, "node 0 has 251.7 GiB and node 1 has 125.9 GiB"),
    ],
)
def test_nodes_without_their_share_of_memory_are_noted(suite, tmp_path, make, note):
    run, found = judged(suite, tmp_path, make(), "machine.numa.nodes")
    assert (found["verdict"], run.code) == ("pass", 0)
    assert [text[: len(note)] for text in found["notes"]] == ([note] if note else [])


def test_the_processor_is_a_part_of_the_fingerprint(suite, tmp_path):
    run, _ = judged(suite, tmp_path, plain_box(), "machine.cpu.model")
    assert run.ledger["fingerprint"]["cpu"]["kind"] == {
        "model": "Intel(R) Xeon(R) Platinum 8480+",
    }
