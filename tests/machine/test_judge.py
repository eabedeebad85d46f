"""The judges of the machine, with data alone: nearest values on both sides, texts and sources."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from checks.core.codec import decode, encode
from checks.core.expectation import (
    Basis,
    Case,
    Expectation,
    Expected,
    Missing,
    NotDeclared,
    Wanted,
)
from checks.core.facts import BOX, Access, Blind, Unseen
from checks.core.finding import Judgement
from checks.core.profile import LOCAL, Checks, Hardware, Paths, Profile, Serve
from checks.core.units import bytes_text
from checks.core.verdict import Reason, Verdict
from checks.machine import judge
from checks.machine.facts import (
    Clock,
    Cpu,
    CpuLimit,
    Folder,
    History,
    Identity,
    Memory,
    MemoryGroups,
    MemoryLimit,
    MemoryWanted,
    Moment,
    Process,
    RoomWanted,
    Threads,
)

MIB = 1_048_576
GIB = 1_073_741_824
UNSEEN = Unseen(Blind.PERMISSION, "planted", "run as root to see it")
NOT_ASKED = Unseen(Blind.NOT_ASKED, "planted")


def expected(profile: Profile = LOCAL, *numbers: Expectation) -> Expected:
    return Expected(profile=profile, profile_file="h100-1.toml", numbers=numbers)


def same_text(text: str) -> str:
    """Make an equal text that is another object: `is` must not do for `==`."""
    return "".join(list(text))


# Constants that remedies and docstrings speak of


def test_the_tolerances_are_those_that_the_texts_promise():
    assert judge.MIB == 1_048_576
    assert judge.CLOCK_SLACK_S == 60.0
    assert judge.MEMORY_TOLERANCE_RATIO == 0.03
    assert judge.KERNEL_RESERVE_BYTES == 629_145_600
    assert judge.RUN_BYTES == 4_194_304
    assert judge.USABLE_BYTES == 1_048_576
    assert judge.USABLE_INODES == 64
    assert judge.FITTED_TOLERANCE_RATIO == 0.005
    assert judge.FITTED_TOLERANCE_BYTES == 4_294_967_296
    assert judge.memory_total_as_declared.__doc__.count("3 % and at least 600 MiB") == 1
    assert judge.memory_total_as_declared.__doc__.count("0.5 % and at least 4 GiB") == 1
    assert "fewer than 64 inodes" in judge.room_for_files.__doc__
    assert "more than a minute" in judge.clock_not_in_the_past.__doc__


# Identity


def identity(**changes: object) -> Identity:
    fields = dict.fromkeys(Identity.__dataclass_fields__, "planted") | {"evidence": ()}
    return Identity(**(fields | changes))


IDENTITY_CHECKS = [
    (judge.architecture_as_declared, "architecture", "architecture"),
    (judge.product_as_declared, "product_name", "product"),
    (judge.virtualization_as_declared, "hypervisor", "virtualization"),
    (judge.container_as_declared, "container", "container"),
]
named = pytest.mark.parametrize(
    ("judged", "field", "what"), IDENTITY_CHECKS, ids=[row[2] for row in IDENTITY_CHECKS]
)


@named
def test_the_declared_text_passes(judged, field, what):
    said = judged(identity(**{field: "kvm"}), same_text("kvm"))
    assert said.verdict is Verdict.PASS
    assert said.says == f"{what} is kvm"
    assert said.observed == {"name": "kvm"}
    assert said.expected == {"name": "kvm"}
    assert (said.cause, said.reason, said.remedy) == ("", None, "")


@named
@pytest.mark.parametrize("wanted", ["aaa", "zzz", "kv", "kvmm", "KVM", " kvm"])
def test_any_other_text_fails_and_both_are_named(judged, field, what, wanted):
    said = judged(identity(**{field: "kvm"}), wanted)
    assert said.verdict is Verdict.FAIL
    assert said.cause == "not-as-declared"
    assert said.says == f"{what} is kvm, declared is {wanted}"
    assert said.observed == {"name": "kvm"}
    assert said.expected == {"name": wanted}
    assert "--host" in said.remedy
    assert f"see {what} pass" in said.remedy


@named
def test_a_text_that_could_not_be_read_is_unknown_even_where_nothing_else_would_fit(
    judged, field, what
):
    for wanted in ("kvm", "vm", "any", "none"):
        said = judged(identity(**{field: UNSEEN}), wanted)
        assert said.verdict is Verdict.UNKNOWN
        assert said.reason is Reason.NOT_OBSERVABLE
        assert said.says == f"{what} not seen: permission: planted"
        assert said.remedy == "run as root to see it"


@pytest.mark.parametrize(
    ("judged", "field", "wild"),
    [
        (judge.virtualization_as_declared, "hypervisor", "vm"),
        (judge.container_as_declared, "container", "any"),
    ],
)
@pytest.mark.parametrize("here", ["aaa", "kvm", "zzz"])
def test_the_general_word_fits_every_kind_but_none(judged, field, wild, here):
    assert judged(identity(**{field: here}), same_text(wild)).verdict is Verdict.PASS
    bare = judged(identity(**{field: same_text("none")}), same_text(wild))
    assert bare.verdict is Verdict.FAIL
    assert bare.says.endswith(f"is none, declared is {wild}")
    # none is a word like any other: it fits bare metal alone
    assert judged(identity(**{field: here}), "none").verdict is Verdict.FAIL
    assert judged(identity(**{field: "none"}), same_text("none")).verdict is Verdict.PASS
    # and a word on either side of the general one in the alphabet is no general one
    for other in (wild[:-1], f"{wild}z"):
        assert judged(identity(**{field: here}), other).verdict is Verdict.FAIL


@pytest.mark.parametrize("key", ["architecture", "product_name", "virtualization", "container"])
def test_what_the_profile_says_of_identity_is_compared_once(key):
    cases = list(judge._declared(expected(Profile(schema=1, hardware=Hardware(**{key: "x"}))), key))
    assert cases == [
        Case(
            subject=BOX,
            wanted=Wanted(value="x", basis=Basis.DECLARED, source=f"h100-1.toml: hardware.{key}"),
        )
    ]


@pytest.mark.parametrize("key", ["architecture", "product_name", "virtualization", "container"])
def test_what_the_profile_does_not_say_of_identity_is_not_applicable(key):
    assert list(judge._declared(expected(), key)) == [
        Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
    ]


def test_a_key_that_nobody_has_declared_yet_is_assumed_and_no_other_is():
    hardware = Hardware(architecture="x86_64", container="none", assumed=("architecture",))
    whole = expected(Profile(schema=1, hardware=hardware))
    (assumed,) = judge._declared(whole, "architecture")
    (declared,) = judge._declared(whole, "container")
    assert assumed.wanted.basis is Basis.ASSUMED
    assert declared.wanted.basis is Basis.DECLARED
    assert not assumed.wanted.basis.confirms


@pytest.mark.parametrize(
    ("check", "key"),
    [
        ("machine.identity.architecture", "architecture"),
        ("machine.identity.product", "product_name"),
        ("machine.identity.virtualization", "virtualization"),
        ("machine.identity.container", "container"),
    ],
)
def test_each_identity_check_asks_for_its_own_key(check, key):
    from checks.core.registry import REGISTRY

    (case,) = REGISTRY.checks[check].cases(expected())
    assert case.wanted == NotDeclared(fact=f"not declared: hardware.{key}")


# Memory


def memory(total: int = 1_000, available: int = 500) -> Memory:
    return Memory(
        total_bytes=total,
        available_bytes=available,
        fitted_bytes=UNSEEN,
        dimm_serials=UNSEEN,
        groups=MemoryGroups(limits=(), above_unseen=False),
    )


def wanted_memory(
    total: float, lower: float | None, upper: float | None, fitted: int | None = None
) -> MemoryWanted:
    """Make bounds from what may be missing and what may be too much."""
    return MemoryWanted(
        value=total,
        lower=None if lower is None else total - lower,
        upper=None if upper is None else total + upper,
        fitted_bytes=fitted,
    )


def judged_total(seen: Memory, wanted: MemoryWanted, hypervisor: object = "none") -> Judgement:
    return judge.memory_total_as_declared(seen, identity(hypervisor=hypervisor), wanted)


@pytest.mark.parametrize(
    ("total", "verdict", "cause"),
    [
        (1, Verdict.FAIL, "less-memory-than-declared"),
        (969, Verdict.FAIL, "less-memory-than-declared"),
        (970, Verdict.PASS, ""),
        (971, Verdict.PASS, ""),
        (1_000, Verdict.PASS, ""),
        (1_019, Verdict.PASS, ""),
        (1_020, Verdict.PASS, ""),
        (1_021, Verdict.FAIL, "more-memory-than-declared"),
        (9_999, Verdict.FAIL, "more-memory-than-declared"),
    ],
)
def test_memory_is_judged_on_both_sides_of_its_tolerance(total, verdict, cause):
    said = judged_total(memory(total), wanted_memory(1_000, 30, 20))
    assert (said.verdict, said.cause) == (verdict, cause)
    assert said.observed == {"memory_total_bytes": total}
    assert said.expected == {
        "memory_total_bytes": 1_000,
        "memory_min_bytes": 970,
        "memory_max_bytes": 1_020,
    }


def test_numbers_beyond_small_integers_are_compared_by_value():
    total = 64 * GIB
    at_limit = judged_total(memory(total - 5_000), wanted_memory(total, 5_000, 0))
    assert at_limit.verdict is Verdict.PASS
    over = judged_total(memory(total + 7_000), wanted_memory(total, 0, 7_000))
    assert over.verdict is Verdict.PASS
    assert judge.memory_available(memory(available=5_000), int("5000")).verdict is Verdict.PASS


def test_a_missing_module_is_said_in_numbers_and_what_to_do():
    said = judged_total(memory(192 * GIB), wanted_memory(256 * GIB, GIB, GIB))
    assert said.says == "192.0 GiB of memory, 256.0 GiB wanted"
    assert "reseat or replace it" in said.remedy
    assert "dmidecode -t memory" in said.remedy


FITTED = [
    # what is declared, fitted and given as MemTotal, in GiB
    ("one module of 96 is missing", 6_144, 6_080, 6_080 * 0.984, "less-memory-than-declared"),
    ("one module of 48 is missing", 3_072, 3_008, 3_008 * 0.992, "less-memory-than-declared"),
    ("one module of 64 is missing", 2_048, 2_016, 2_016 * 0.988, "less-memory-than-declared"),
    ("a block more than is allowed", 512, 506, 500, "less-memory-than-declared"),
    ("as much less as is allowed", 512, 508, 500, ""),
    ("a hole below 4 GiB makes a block more", 512, 514, 503.5, ""),
    ("firmware keeps a table of page owners", 2_048, 2_038, 2_006, ""),
    ("memory of GPUs is counted too", 512, 608, 503.5, ""),
    ("a small board", 8, 7.875, 7.7, ""),
]


@pytest.mark.parametrize(
    ("declared", "fitted", "total", "cause"),
    [row[1:] for row in FITTED],
    ids=[r[0] for r in FITTED],
)
def test_a_missing_module_of_many_is_seen_in_the_memory_blocks(declared, fitted, total, cause):
    value = memory_case(Hardware(memory_total_bytes=declared * GIB)).wanted.value
    seen = replace(memory(int(total * GIB)), fitted_bytes=int(fitted * GIB))
    said = judged_total(seen, value)
    assert (said.verdict is Verdict.PASS, said.cause) == (not cause, cause), said.says
    assert said.observed["memory_fitted_bytes"] == fitted * GIB
    least = min(declared * 0.995, declared - 4) * GIB
    assert said.expected["memory_fitted_min_bytes"] == pytest.approx(least, abs=1)
    if cause:
        here, wanted = bytes_text(fitted * GIB), bytes_text(declared * GIB)
        assert said.says == f"{here} of memory fitted, {wanted} wanted"
        # a virtual machine has what it is given; a tolerance of one's own and a measured number
        # say what is right; and what nobody could count is not compared
        for hypervisor in ("kvm", UNSEEN):
            assert judged_total(seen, value, hypervisor).verdict is Verdict.PASS
        own = Hardware(memory_total_bytes=declared * GIB, memory_tolerance_ratio=0.05)
        assert judged_total(seen, memory_case(own).wanted.value).verdict is Verdict.PASS
        uncounted = replace(seen, fitted_bytes=UNSEEN)
        said = judged_total(uncounted, value)
        assert said.verdict is Verdict.PASS
        assert "memory_fitted_bytes" not in said.observed


def test_memory_blocks_do_not_excuse_a_small_memtotal():
    value = memory_case(Hardware(memory_total_bytes=512 * GIB)).wanted.value
    seen = replace(memory(480 * GIB), fitted_bytes=512 * GIB)
    said = judged_total(seen, value)
    assert said.cause == "less-memory-than-declared"
    assert said.says == "480.0 GiB of memory, 512.0 GiB wanted"


def test_too_much_memory_sends_to_the_profile():
    said = judged_total(memory(512 * GIB), wanted_memory(256 * GIB, GIB, GIB))
    assert said.says == "512.0 GiB of memory, 256.0 GiB wanted"
    assert "correct hardware.memory_total_bytes" in said.remedy
    fine = judged_total(memory(256 * GIB), wanted_memory(256 * GIB, GIB, GIB))
    assert fine.says == "256.0 GiB of memory, 256.0 GiB wanted"


def memory_case(hardware: Hardware, *numbers: Expectation) -> Case:
    (case,) = judge._memory_total(expected(Profile(schema=1, hardware=hardware), *numbers))
    assert case.subject == BOX
    return case


def test_declared_memory_may_be_off_by_3_percent():
    case = memory_case(Hardware(memory_total_bytes=256 * GIB))
    bounds = case.wanted.value
    assert bounds.fitted_bytes == 256 * GIB
    assert bounds.value == 256 * GIB
    assert bounds.lower == pytest.approx(0.97 * 256 * GIB, abs=1)
    assert bounds.upper == pytest.approx(1.03 * 256 * GIB, abs=1)
    assert case.wanted.basis is Basis.DECLARED
    assert case.wanted.source == "h100-1.toml: hardware.memory_total_bytes"


def test_declared_memory_of_a_small_machine_may_be_off_by_600_mib():
    case = memory_case(Hardware(memory_total_bytes=4 * GIB))
    assert case.wanted.value == wanted_memory(4 * GIB, 600 * MIB, 600 * MIB, 4 * GIB)


def test_a_declared_tolerance_replaces_both():
    hardware = Hardware(memory_total_bytes=4 * GIB, memory_tolerance_ratio=0.25)
    assert memory_case(hardware).wanted.value == wanted_memory(4 * GIB, GIB, GIB)
    exact = Hardware(memory_total_bytes=4 * GIB, memory_tolerance_ratio=0.0)
    assert memory_case(exact).wanted.value == wanted_memory(4 * GIB, 0, 0)


def test_detected_memory_is_assumed():
    hardware = Hardware(memory_total_bytes=4 * GIB, assumed=("memory_total_bytes",))
    assert memory_case(hardware).wanted.basis is Basis.ASSUMED


def number(**changes: object) -> Expectation:
    fields = {
        "check": "machine.memory.total",
        "subject": BOX,
        "value": 1_000_000.0,
        "unit": "By",
        "lower_ratio": -0.03,
        "upper_ratio": 0.02,
        "basis": "measured",
        "source": "sha256:1234",
        "measured_at": "2026-01-31",
        "runs": 1,
        "premise": {"memory": {"size": "1 MB"}},
    }
    return Expectation(**(fields | changes))


def test_a_measured_number_brings_its_tolerance_basis_source_and_premise():
    wanted = memory_case(Hardware(), number()).wanted
    assert wanted.value == wanted_memory(1_000_000.0, 30_000.0, 20_000.0)
    assert wanted.basis is Basis.MEASURED
    assert wanted.source == "sha256:1234 2026-01-31"
    assert wanted.premise == {"memory": {"size": "1 MB"}}
    assert memory_case(Hardware(), number(measured_at="")).wanted.source == "sha256:1234"
    assumed = memory_case(Hardware(), number(basis="assumed")).wanted
    assert assumed.basis is Basis.ASSUMED


def test_an_open_side_allows_everything_and_the_other_side_does_not():
    below = memory_case(Hardware(), number(lower_ratio=None)).wanted.value
    assert judged_total(memory(1), below).verdict is Verdict.PASS
    assert judged_total(memory(1_020_000), below).verdict is Verdict.PASS
    assert judged_total(memory(1_020_001), below).verdict is Verdict.FAIL
    above = memory_case(Hardware(), number(upper_ratio=None)).wanted.value
    assert judged_total(memory(2**52), above).verdict is Verdict.PASS
    assert judged_total(memory(970_000), above).verdict is Verdict.PASS
    assert judged_total(memory(969_999), above).verdict is Verdict.FAIL


@pytest.mark.parametrize("sides", [{"lower_ratio": None}, {"upper_ratio": None}, {}])
def test_what_is_said_of_any_side_can_be_recorded(sides):
    wanted = memory_case(Hardware(), number(**sides)).wanted.value
    for total in (1, 1_000_000, 2**52):
        said = encode(judged_total(memory(total), wanted))
        assert said["observed"]["memory_total_bytes"] == total


def test_a_tolerance_of_nothing_is_nothing():
    exact = memory_case(Hardware(), number(lower_ratio=0.0, upper_ratio=0.0)).wanted.value
    assert (exact.lower, exact.upper) == (1_000_000.0, 1_000_000.0)


def test_the_profile_wins_over_a_measured_number():
    case = memory_case(Hardware(memory_total_bytes=4 * GIB), number())
    assert case.wanted.value.value == 4 * GIB


def test_a_number_of_another_check_or_subject_is_not_taken():
    others = (number(check="machine.memory.available"), number(subject="other"))
    assert memory_case(Hardware(), *others).wanted == NotDeclared(
        fact="not declared: hardware.memory_total_bytes"
    )


@pytest.mark.parametrize(
    ("available", "verdict"),
    [(0, Verdict.FAIL), (499, Verdict.FAIL), (500, Verdict.PASS), (501, Verdict.PASS)],
)
def test_available_memory_is_judged_at_its_limit(available, verdict):
    said = judge.memory_available(memory(available=available), 500)
    assert said.verdict is verdict
    assert said.cause == ("memory-in-use" if verdict is Verdict.FAIL else "")
    assert said.observed == {"memory_available_bytes": available}
    assert said.expected == {"memory_available_min_bytes": 500}
    assert ("stop it" in said.remedy) is (verdict is Verdict.FAIL)
    assert said.says == f"{available} B available, 500 B wanted"


def limited(*limits: tuple[int, int, int], above: bool = False) -> Memory:
    """Make memory of which 500 are available, in cgroups with limit, use and files."""
    rows = tuple(
        MemoryLimit(source=f"/sys/{n}/memory.max", limit_bytes=a, used_bytes=b, file_bytes=c)
        for n, (a, b, c) in enumerate(limits)
    )
    return replace(memory(), groups=MemoryGroups(limits=rows, above_unseen=above))


@pytest.mark.parametrize(
    ("limit", "left"),
    [((300, 0, 0), 300), ((400, 150, 50), 300), ((300, 50, 90), 300), ((300, 500, 10), 0)],
)
def test_what_a_cgroup_leaves_is_judged_at_its_limit(limit, left):
    good = judge.memory_available(limited(limit), left)
    assert (good.verdict, good.notes) == (Verdict.PASS, ())
    bad = judge.memory_available(limited(limit), left + 1)
    assert (bad.verdict, bad.cause) == (Verdict.FAIL, "memory-limited")
    assert bad.says == f"{left} B left by /sys/0/memory.max, {left + 1} B wanted"
    assert "raise the limit /sys/0/memory.max" in bad.remedy
    for said in (good, bad):
        assert said.observed == {"memory_available_bytes": 500, "memory_group_left_bytes": left}
        assert said.evidence == (
            f"/sys/0/memory.max: {limit[0]} B, {limit[1]} B used, {limit[2]} B of it cached files",
        )


def test_of_the_whole_box_and_a_cgroup_the_smaller_counts():
    assert judge.memory_available(limited((900, 0, 0)), 501).cause == "memory-in-use"
    assert judge.memory_available(limited((900, 0, 0)), 500).verdict is Verdict.PASS
    assert judge.memory_available(limited(), 500).verdict is Verdict.PASS
    two = limited((300, 0, 0), (400, 0, 0))  # the probe puts the one that leaves least first
    assert judge.memory_available(two, 301).says == "300 B left by /sys/0/memory.max, 301 B wanted"


def test_cgroups_that_cannot_be_seen_from_here_are_noted_on_a_pass_and_on_a_fail():
    for wanted in (300, 301):
        (note,) = judge.memory_available(limited((300, 0, 0), above=True), wanted).notes
        assert "may limit further" in note


def test_cgroups_that_were_not_seen_are_unknown_and_those_of_an_older_ledger_are_noted():
    unseen = replace(memory(), groups=UNSEEN)
    said = judge.memory_available(unseen, 500)
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    assert judge.memory_available(unseen, 501).cause == "memory-in-use"
    for reason in set(Blind) - {Blind.NOT_RECORDED}:
        other = replace(memory(), groups=Unseen(reason, "planted"))
        assert judge.memory_available(other, 500).verdict is Verdict.UNKNOWN, reason
    kept = encode(memory())
    del kept["groups"]
    said = judge.memory_available(decode(Memory, kept), 500)
    assert said.verdict is Verdict.PASS
    assert said.notes == (
        "whether a cgroup limits memory was not seen: not-recorded: Memory.groups was not recorded",
    )


def test_available_memory_is_asked_for_where_the_profile_says_so():
    hardware = Hardware(memory_available_min_bytes=5, assumed=("memory_available_min_bytes",))
    (case,) = judge._memory_available(expected(Profile(schema=1, hardware=hardware)))
    assert case.wanted == Wanted(
        value=5, basis=Basis.ASSUMED, source="h100-1.toml: hardware.memory_available_min_bytes"
    )
    (none,) = judge._memory_available(expected())
    assert none == Case(
        subject=BOX, wanted=NotDeclared(fact="not declared: hardware.memory_available_min_bytes")
    )


# Threads


NOT_ASKED = Unseen(Blind.NOT_ASKED, "planted")


def cpu(effective: float = 4.0, **changes: object) -> Cpu:
    limits = (
        CpuLimit(source="/sys/fs/cgroup/a/cpu.max", text="200000 100000", cpus=effective),
        CpuLimit(source="affinity", text="0-7", cpus=8.0),
    )
    fields = {
        "place": "container:0123456789ab",
        "process": "42 llama-server",
        "host_cpus": 16,
        "host_cores": 8,
        "effective_cpus": effective,
        "affinity_cpus": 6,
        "limits": limits,
        "above_unseen": False,
        "throttled_ratio": None,
        "command": NOT_ASKED,
        "thread_environment": NOT_ASKED,
        "others": (),
        "others_left_out_count": 0,
    }
    return Cpu(**(fields | changes))


def asks(*command: str, **env: str) -> Threads:
    return Threads(command=command, env=env, engine="llama.cpp")


@pytest.mark.parametrize(
    ("effective", "threads", "verdict"),
    [
        (4.0, 3, Verdict.PASS),
        (4.0, 4, Verdict.PASS),
        (3.999, 4, Verdict.FAIL),
        (4.0, 5, Verdict.FAIL),
        (0.5, 1, Verdict.FAIL),
        (1_000.0, 1_000, Verdict.PASS),
    ],
)
def test_threads_are_judged_at_the_limit_of_their_place(effective, threads, verdict):
    said = judge.threads_within_cpus(cpu(effective), asks("llama-server", "-t", str(threads)))
    assert said.verdict is verdict
    assert said.cause == ("more-threads-than-cpus" if verdict is Verdict.FAIL else "")
    assert said.expected == {"threads_count": threads}
    assert said.observed == {
        "effective_cpus": effective,
        "affinity_cpus": 6,
        "host_cpus": 16,
        "host_cores": 8,
    }
    assert said.says == (
        f"{threads} threads (-t {threads}) on {effective:.2f} CPUs (/sys/fs/cgroup/a/cpu.max)"
    )
    assert said.evidence == (
        "looked at 42 llama-server (container:0123456789ab)",
        "/sys/fs/cgroup/a/cpu.max: 200000 100000",
        "affinity: 0-7",
    )


@pytest.mark.parametrize(
    ("effective", "fits"), [(0.5, 1), (1.0, 1), (1.99, 1), (2.0, 2), (3.99, 3), (7.0, 7)]
)
def test_the_remedy_names_the_whole_number_below_the_limit(effective, fits):
    said = judge.threads_within_cpus(cpu(effective), asks("-t", "8"))
    remedy = said.remedy.replace(";", " ").replace(")", " ").replace(",", " ")
    assert f"{fits} thread{'s' if fits > 1 else ''} " in remedy
    assert f"-t {fits} " in remedy
    assert f"OMP_NUM_THREADS={fits} " in remedy
    assert "/sys/fs/cgroup/a/cpu.max" in remedy


def test_an_engine_that_is_not_told_takes_the_cores_of_the_host():
    said = judge.threads_within_cpus(cpu(7.99), asks("llama-server"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.expected == {"threads_count": 8}
    assert said.says.startswith("8 threads (no number given, so the host's cores) on 7.99 CPUs")
    assert judge.threads_within_cpus(cpu(8.0), asks("llama-server")).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "wanted",
    [
        Threads(command=(), env={}, engine=""),
        Threads(command=("start-chat.sh",), env={}, engine=""),
        Threads(command=(), env={}, engine="somebodys-own"),
    ],
)
def test_the_default_of_what_nobody_knows_can_fail_and_never_passes(wanted):
    for enough in (8.0, 8.01, 64.0):
        said = judge.threads_within_cpus(cpu(enough), wanted)
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert "nobody can see how many threads" in said.says
    assert "-t or OMP_NUM_THREADS" in said.remedy
    fewer = judge.threads_within_cpus(cpu(7.99), wanted)
    assert (fewer.verdict, fewer.cause) == (Verdict.FAIL, "default-exceeds-cpus")


def test_a_number_for_prompts_alone_leaves_generation_at_the_cores_of_the_host():
    said = judge.threads_within_cpus(cpu(7.99), asks("llama-server", "-tb", "4"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.says.startswith("8 threads (-tb 4; no number for generation, so the host's cores)")
    enough = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "4"))
    assert (enough.verdict, enough.basis) == (Verdict.PASS, Basis.ASSUMED)
    more = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "9"))
    assert (more.verdict, more.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    as_many = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "8"))
    assert (as_many.verdict, as_many.basis) == (Verdict.PASS, None)


def test_what_llama_cpp_python_does_with_prompts_leaves_a_pass_unconfirmed():
    wanted = asks("python3", "-m", "llama_cpp.server", "--n_threads", "4")
    said = judge.threads_within_cpus(cpu(4.0), wanted)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert any("n_threads_batch, which is not told and takes 16" in note for note in said.notes)
    for enough in (16.0, 32.0):
        roomy = judge.threads_within_cpus(cpu(enough), wanted)
        assert (roomy.verdict, roomy.basis, roomy.notes) == (Verdict.PASS, None, ())
    over = judge.threads_within_cpus(cpu(3.0), wanted)
    assert (over.verdict, over.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    running = family(wanted.command)
    assert judge.threads_within_cpus(running, asks()).basis is Basis.ASSUMED


def test_vllm_on_several_gpus_passes_unconfirmed_whatever_the_host_has():
    wanted = asks("vllm", "serve", "m", "-tp", "8")
    said = judge.threads_within_cpus(cpu(2.0, host_cores=96), wanted)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert said.says.startswith("1 threads (one in each of its worker processes)")


def test_nproc_follows_the_affinity_and_not_the_quota():
    said = judge.threads_within_cpus(cpu(5.99), asks("llama-server", "-t", "$(nproc)"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    assert said.expected == {"threads_count": 6}
    assert "6 threads (-t $(nproc))" in said.says
    enough = judge.threads_within_cpus(cpu(6.0), asks("llama-server", "-t", "$(nproc)"))
    assert enough.verdict is Verdict.PASS


@pytest.mark.parametrize(("number", "threads"), [("1", 6), ("5", 6), ("6", 6), ("7", 7)])
def test_of_nproc_and_a_number_the_larger_runs(number, threads):
    said = judge.threads_within_cpus(cpu(8.0), asks("-t", number, "-tb", "$(nproc)"))
    assert said.expected == {"threads_count": threads}


def test_a_number_that_cannot_be_read_is_unknown():
    for place in (cpu(64.0), cpu(1.0)):
        said = judge.threads_within_cpus(place, asks("llama-server", "-t", "$CORES"))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
        assert said.says == "cannot read a number of threads from `-t $CORES`"
        assert "write the number" in said.remedy


def test_what_runs_counts_before_what_the_profile_says():
    running = cpu(4.0, command=("llama-server", "-t", "5"), thread_environment={})
    assert judge.threads_within_cpus(running, asks("-t", "2")).verdict is Verdict.FAIL
    fine = cpu(4.0, command=("llama-server", "-t", "2"), thread_environment={})
    assert judge.threads_within_cpus(fine, asks("-t", "5")).verdict is Verdict.PASS


def test_the_environment_of_what_runs_counts_too():
    running = cpu(4.0, command=("llama-server",), thread_environment={"LLAMA_ARG_THREADS": "5"})
    said = judge.threads_within_cpus(running, asks("-t", "2"))
    assert said.verdict is Verdict.FAIL
    assert "LLAMA_ARG_THREADS=5" in said.says


@pytest.mark.parametrize("other", ["/bin/cat", "/bin/sleep", "llama-serve", "llama-server2"])
def test_the_profile_counts_where_something_else_runs_and_says_nothing(other):
    silent = cpu(4.0, command=(other, "x"), thread_environment={})
    declared = asks("llama-server", "-t", "5")
    assert judge.threads_within_cpus(silent, declared).expected == {"threads_count": 5}
    fits = judge.threads_within_cpus(silent, asks("llama-server", "-t", "4"))
    assert (fits.verdict, fits.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert any("does not say how many" in note for note in fits.notes)
    by_env = Threads(command=(), env={"OMP_NUM_THREADS": "3"}, engine="")
    assert judge.threads_within_cpus(silent, by_env).expected == {"threads_count": 3}
    nothing = judge.threads_within_cpus(silent, asks())
    assert (nothing.verdict, nothing.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert "none of it is known to be the engine" in nothing.says
    assert "`where`" in nothing.remedy


def process(number: int, *command: str, **changes: object) -> Process:
    fields = {
        "process": f"{number} {command[0].rpartition('/')[2]}",
        "command": command,
        "thread_environment": {},
        "same_limits": True,
    }
    return Process(**(fields | changes))


def family(leader: tuple[str, ...], *others: Process, **changes: object) -> Cpu:
    fields = {"command": leader, "thread_environment": {}, "others": others}
    return cpu(4.0, process=f"process 42 {leader[0]}", **(fields | changes))


ENTRY = ("bash", "entry.sh")


def test_behind_an_entrypoint_the_server_counts():
    for count, verdict in (("4", Verdict.PASS), ("5", Verdict.FAIL)):
        for server in (
            process(43, "server.py", "-t", count),
            process(43, "llama-server", "-t", count),
        ):
            said = judge.threads_within_cpus(family(ENTRY, server), asks("llama-server", "-t", "1"))
            assert said.verdict is verdict
            assert said.expected == {"threads_count": int(count)}
            assert said.evidence[0] == "looked at process 42 bash (container:0123456789ab)"
            assert said.evidence[1] == f"also there: {server.process}"


def test_of_all_the_engines_of_a_place_the_largest_number_counts():
    seen = family(
        ("llama-server", "-t", "2"),
        process(43, "llama-server", "-t", "64"),
        process(44, "llama-server", "-t", "3"),
    )
    assert judge.threads_within_cpus(seen, asks()).expected == {"threads_count": 64}


def test_a_helpers_options_and_environment_are_not_the_engines():
    helper = process(43, "exporter", "-t", "30", thread_environment={"LLAMA_ARG_THREADS": "64"})
    other = process(44, "sort", "-t", ",")
    engine = process(45, "llama-server", "-t", "4")
    for seen in (family(ENTRY, helper, other, engine), family(engine.command, helper, other)):
        said = judge.threads_within_cpus(seen, asks("llama-server", "-t", "1"))
        assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 4})


def test_a_process_that_is_given_an_engines_name_is_no_engine():
    helper = process(43, "tail", "-f", "x", "llama-server")
    said = judge.threads_within_cpus(
        family(ENTRY, helper, process(44, "server.py", "-t", "2")), asks("run.sh")
    )
    assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 2})


def test_the_environment_counts_of_what_leads_a_place_and_not_of_its_helpers():
    variables = {"OMP_NUM_THREADS": "3"}
    wanted = Threads(command=("run.sh",), env={}, engine="")
    helper = process(43, "exporter", thread_environment={"OMP_NUM_THREADS": "64"})
    leads = family(("server.py",), helper, thread_environment=variables)
    said = judge.threads_within_cpus(leads, wanted)
    assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 3})
    behind = process(43, "server.py", thread_environment=variables)
    for seen in (family(ENTRY, behind), family(("exporter",), behind)):
        said = judge.threads_within_cpus(seen, wanted)
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)


def test_the_environment_of_a_wrapper_says_nothing_about_what_it_started():
    seen = family(ENTRY, process(43, "server.py"), thread_environment={"LLAMA_ARG_THREADS": "2"})
    said = judge.threads_within_cpus(seen, asks())
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert said.evidence[:2] == (
        "looked at process 42 bash (container:0123456789ab)",
        "also there: 43 server.py",
    )


@pytest.mark.parametrize(
    "wrapper",
    [("tini", "--", "llama-server", "-t", "2"), ("-bash",), ("docker", "run", "x", "-t", "2"),
     ("python3", "/usr/bin/supervisord"), ("sh", "-c", "llama-server -t 2")],
)  # fmt: skip
def test_a_wrapper_alone_is_no_engine(wrapper):
    said = judge.threads_within_cpus(family(wrapper), asks())
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    said = judge.threads_within_cpus(family(wrapper), asks("llama-server", "-t", "2"))
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)


def test_an_engine_behind_an_entrypoint_that_is_not_told_takes_the_cores():
    said = judge.threads_within_cpus(family(ENTRY, process(43, "llama-server")), asks())
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    # the profile's own program is the engine too, whatever its name
    mine = family(ENTRY, process(43, "python3", "-u", "/srv/mine.py"))
    said = judge.threads_within_cpus(mine, asks("/opt/mine.py", "-t", "2"))
    assert said.cause == "default-exceeds-cpus"


def test_an_engine_under_limits_of_its_own_is_not_compared_with_those_of_its_place():
    for count in ("2", "64"):
        server = process(43, "llama-server", "-t", count, same_limits=False)
        said = judge.threads_within_cpus(family(ENTRY, server), asks("llama-server", "-t", "1"))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
        assert "pid:43" in said.remedy
    untold = process(43, "llama-server", same_limits=False)
    assert judge.threads_within_cpus(family(ENTRY, untold), asks()).verdict is Verdict.UNKNOWN
    stranger = process(43, "server.py", "-t", "2", same_limits=False)
    assert judge.threads_within_cpus(family(ENTRY, stranger), asks()).verdict is Verdict.UNKNOWN


def test_a_command_that_cannot_be_read_is_undecided_and_never_the_profiles():
    hidden = family(ENTRY, command=UNSEEN)
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == "run as root to see it"
    child = family(ENTRY, process(43, "x", command=UNSEEN), process(44, "server.py", "-t", "2"))
    assert judge.threads_within_cpus(child, asks()).verdict is Verdict.UNKNOWN
    over = family(ENTRY, process(43, "x", command=UNSEEN), process(44, "server.py", "-t", "5"))
    said = judge.threads_within_cpus(over, asks())
    assert (said.verdict, said.basis) == (Verdict.FAIL, None)


@pytest.mark.parametrize("reason", sorted(set(Blind) - {Blind.NOT_ASKED}))
def test_only_a_command_that_nobody_asked_for_leaves_the_profiles(reason):
    hidden = family(ENTRY, command=Unseen(reason, "planted"))
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)


def test_what_is_in_doubt_fails_no_place_that_is_below_one_cpu():
    for lacking in (
        asks("docker", "run", "img", "llama-server"),
        asks("llama-server", "-t", "$CORES"),
    ):
        assert judge.threads_within_cpus(cpu(0.5), lacking).verdict is Verdict.UNKNOWN
    for seen in (
        family(ENTRY, command=UNSEEN),
        family(ENTRY, process(43, "server.py")),
        family(ENTRY, process(43, "llama-server", same_limits=False)),
    ):
        said = judge.threads_within_cpus(replace(seen, effective_cpus=0.5), asks())
        assert said.verdict is Verdict.UNKNOWN


def test_of_two_engines_with_as_many_threads_the_one_that_nobody_told_is_named():
    two = family(("llama-server", "-t", "8"), process(43, "llama-server"))
    for seen in (two, replace(two, others=(), command=("llama-server",))):
        assert judge.threads_within_cpus(seen, asks()).cause == "default-exceeds-cpus"
    told = family(("llama-server", "-t", "9"), process(43, "llama-server"))
    assert judge.threads_within_cpus(told, asks()).cause == "more-threads-than-cpus"


def test_the_profiles_engine_is_known_by_its_command_and_without_one_by_its_name():
    unknown_script = Threads(command=("start-chat.sh",), env={}, engine="vllm")
    assert judge.threads_within_cpus(cpu(8.0), unknown_script).verdict is Verdict.UNKNOWN
    by_command = Threads(command=("vllm", "serve"), env={}, engine="somebodys-own")
    assert judge.threads_within_cpus(cpu(8.0), by_command).verdict is Verdict.PASS
    by_name = Threads(command=(), env={}, engine="vllm")
    assert judge.threads_within_cpus(cpu(8.0), by_name).verdict is Verdict.PASS


@pytest.mark.parametrize("changes", [{"others_left_out_count": 1}, {"others": UNSEEN}])
def test_processes_that_nobody_looked_at_leave_it_open_unless_the_engine_was_seen(changes):
    strange = family(("server.py", "-t", "2"), **changes)
    assert judge.threads_within_cpus(strange, asks()).verdict is Verdict.UNKNOWN
    over = family(("server.py", "-t", "5"), **changes)
    assert judge.threads_within_cpus(over, asks()).verdict is Verdict.FAIL
    engine = family(("llama-server", "-t", "2"), **changes)
    said = judge.threads_within_cpus(engine, asks())
    assert said.verdict is Verdict.PASS
    assert ("1 more" in said.evidence[1]) or ("permission: planted" in said.evidence[1])


def test_evidence_names_a_handful_of_processes_and_counts_the_rest():
    many = [process(number, "worker") for number in range(100, 112)]
    said = judge.threads_within_cpus(family(("llama-server", "-t", "2"), *many), asks())
    assert said.evidence[1].startswith("also there: 100 worker, 101 worker, ")
    assert said.evidence[1].endswith("107 worker, 4 more")
    eight = judge.threads_within_cpus(family(("llama-server", "-t", "2"), *many[:8]), asks())
    assert eight.evidence[1].endswith("107 worker")
    nine = family(("llama-server", "-t", "2"), *many[:9], others_left_out_count=3)
    said = judge.threads_within_cpus(nine, asks())
    assert said.evidence[1].endswith("107 worker, 4 more")


def test_a_line_that_was_cut_or_hidden_never_passes():
    mark = f"sh -c {'x' * 50} […5000 bytes, sha256:{'0' * 64}]"
    for line in (mark, f"llama-server -t 2 {mark}", "llama-server -t 1 --header Cookie:[redacted]"):
        said = judge.threads_within_cpus(cpu(4.0), asks("bash", "-c", line))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE), line
        assert "hidden or cut off" in said.says
    over = judge.threads_within_cpus(cpu(4.0), asks("bash", "-c", f"llama-server -t 64 {mark}"))
    assert over.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "line",
    [
        "docker run --cpus=2 img llama-server -t 4",
        "docker run --cpuset-cpus 0-1 img llama-server -t 4",
        "docker run -i -t img:latest llama-server -t 4",
        "taskset -c 0,1 llama-server -t 4",
        "systemd-run --scope -p CPUQuota=200% llama-server -t 4",
        "sudo -E podman run img -t 4",
    ],
)
def test_a_command_that_brings_its_own_limits_is_not_judged_by_the_suites(line):
    for place in (cpu(4.0), cpu(1.0)):
        said = judge.threads_within_cpus(place, asks(*line.split()))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
        assert "limits that are not those of the suite's own process" in said.says
        for where in ("container:ID", "unit:NAME", "port:N", "pid:N"):
            assert where in said.remedy
    running = family(("llama-server", "-t", "4"))
    assert judge.threads_within_cpus(running, asks(*line.split())).verdict is Verdict.PASS


def test_a_pass_that_rests_on_an_assumption_says_so():
    told, untold = asks("llama-server", "-t", "4"), asks("llama-server")
    assert judge.threads_within_cpus(cpu(8.0), told).basis is None
    above = cpu(8.0, above_unseen=True)
    assert judge.threads_within_cpus(above, told).basis is Basis.ASSUMED
    assert judge.threads_within_cpus(cpu(8.0), untold).basis is Basis.ASSUMED
    assert judge.threads_within_cpus(cpu(2.0), untold).basis is Basis.ASSUMED
    # limits further up can only make it worse
    assert judge.threads_within_cpus(cpu(2.0, above_unseen=True), told).basis is None
    # one engine that is told does not vouch for one that is not
    two = family(("llama-server", "-t", "4"), process(43, "llama-server"), host_cores=4)
    said = judge.threads_within_cpus(two, told)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)


@pytest.mark.parametrize("running", ["llama-server", "/opt/llama/bin/llama-server"])
@pytest.mark.parametrize("declared", ["llama-server", "/usr/bin/llama-server"])
def test_an_engine_that_runs_without_the_declared_number_takes_the_cores(running, declared):
    silent = cpu(4.0, command=(running, "-m", "chat.gguf"), thread_environment={})
    said = judge.threads_within_cpus(silent, asks(declared, "-t", "2"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.expected == {"threads_count": 8}


def test_an_environment_that_cannot_be_read_leaves_a_silent_command_undecided():
    hidden = cpu(4.0, command=("llama-server",), thread_environment=UNSEEN)
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "42 llama-server" in said.says
    assert "permission: planted" in said.says
    assert said.remedy == "run as root to see it"
    told = cpu(4.0, command=("llama-server", "-t", "3"), thread_environment=UNSEEN)
    assert judge.threads_within_cpus(told, asks("-t", "2")).expected == {"threads_count": 3}


@pytest.mark.parametrize(
    ("effective", "both"), [(0.5, True), (0.99, True), (1.0, False), (1.5, False)]
)
def test_below_one_cpu_no_number_of_threads_fits_and_the_remedy_says_so(effective, both):
    said = judge.threads_within_cpus(cpu(effective), asks("-t", "2"))
    assert ("and widen to one CPU or more" in said.remedy) is both
    assert ("or widen what limits it" in said.remedy) is not both


def test_the_engine_says_what_a_short_option_means():
    vllm = Threads(command=("vllm", "serve", "-t", "99"), env={}, engine="vllm")
    said = judge.threads_within_cpus(cpu(8.0), vllm)
    assert said.verdict is Verdict.PASS
    assert said.expected == {"threads_count": 8}
    running = cpu(8.0, command=("vllm", "serve", "-t", "99"), thread_environment={})
    assert judge.threads_within_cpus(running, vllm).verdict is Verdict.PASS


def test_the_notes_say_what_stays_unseen():
    quiet = judge.threads_within_cpus(cpu(8.0, throttled_ratio=0.0), asks("-t", "4"))
    assert quiet.notes == ()
    loud = judge.threads_within_cpus(
        cpu(2.0, above_unseen=True, throttled_ratio=0.5), asks("-t", "4")
    )
    assert len(loud.notes) == 2
    assert "above the mounted root" in loud.notes[0]
    assert "stopped it in 50% of the periods" in loud.notes[1]


def test_a_place_that_is_often_stopped_although_its_threads_fit_gets_something_to_do():
    def note(ratio: float, threads: str) -> str:
        said = judge.threads_within_cpus(cpu(4.0, throttled_ratio=ratio), asks("-t", threads))
        return said.notes[0]

    assert "something else uses the same quota" in note(0.51, "4")
    assert "something else uses the same quota" in note(0.51, "3")
    assert note(0.5, "4") == "the quota stopped it in 50% of the periods so far"
    assert note(0.49, "4") == "the quota stopped it in 49% of the periods so far"
    assert note(0.51, "5") == "the quota stopped it in 51% of the periods so far"


@pytest.mark.parametrize(
    ("threads", "noted"), [(3, False), (4, False), (5, True), (8, True), (9, False)]
)
def test_a_note_tells_cores_from_hardware_threads(threads, noted):
    # 8 of 16 hardware threads are 4 of 8 cores
    said = judge.threads_within_cpus(cpu(8.0), asks("-t", str(threads)))
    notes = [note for note in said.notes if "about 4.0 cores" in note]
    assert len(notes) == noted
    assert len(said.notes) == noted


def test_each_served_model_is_a_subject_with_its_own_threads():
    serve = (
        Serve(name="chat", engine="llama.cpp", command="llama-server -t 8", env={"A": "b"}),
        Serve(name="embed", command=("serve", "-x")),
    )
    cases = list(judge._threads(expected(Profile(schema=1, serve=serve))))
    assert [case.subject for case in cases] == ["chat", "embed"]
    first, second = (case.wanted for case in cases)
    assert first.value == Threads(
        command=("llama-server", "-t", "8"), env={"A": "b"}, engine="llama.cpp"
    )
    assert second.value == Threads(command=("serve", "-x"), env={}, engine="")
    assert (first.basis, second.basis) == (Basis.INVARIANT, Basis.INVARIANT)
    assert first.source == "h100-1.toml: serve[0]; more threads than CPUs never help"
    assert second.source == "h100-1.toml: serve[1]; more threads than CPUs never help"


def test_a_profile_that_serves_nothing_asks_for_no_threads():
    assert list(judge._threads(expected())) == [
        Case(subject=BOX, wanted=NotDeclared(fact="not declared: no [[serve]]"))
    ]


def test_half_a_core_is_said():
    (note,) = judge.threads_within_cpus(cpu(5.0), asks("-t", "3")).notes
    assert "about 2.5 cores" in note


# Room


def folder(free: int = 100, inodes: int = 1_000, inodes_free: int = 64, **cached: int) -> Folder:
    return Folder(
        path="/srv/models",
        looked_at="/srv",
        total_bytes=1_000,
        free_bytes=free,
        inodes=inodes,
        inodes_free=inodes_free,
        cached_bytes=cached,
        access=ACCESS,
        beside=(),
    )


ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 7"
)


def room(free: int = 0, inodes: int = 64, **models: int) -> RoomWanted:
    return RoomWanted(
        free_bytes=free,
        model_bytes=models,
        inodes_free=inodes,
        beside_bytes={},
        named_by="TMPDIR",
        made_when_needed=False,
    )


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, Verdict.FAIL), (99, Verdict.FAIL), (100, Verdict.PASS), (101, Verdict.PASS)],
)
def test_free_room_is_judged_at_what_is_needed(free, verdict):
    said = judge.room_for_bytes(folder(free, a=30), room(10, a=100, b=20))
    assert said.verdict is verdict
    assert said.cause == ("no-room" if verdict is Verdict.FAIL else "")
    assert said.observed == {"free_bytes": free, "total_bytes": 1_000}
    assert said.expected == {"free_min_bytes": 100}
    assert (
        said.says == f"{free} B free in /srv/models (not there yet; looked at /srv), 100 B needed"
    )
    assert said.evidence == ("a: 70 B still to download", "b: 20 B still to download")


def test_a_folder_that_is_there_needs_no_second_name():
    there = replace(folder(7), looked_at=str(Path("/srv") / "models"))
    assert judge.room_for_bytes(there, room(0)).says == "7 B free in /srv/models, 0 B needed"


@pytest.mark.parametrize("looked_at", ["/", "/srv", "/zfs/models"])
def test_where_it_looked_is_said_when_it_is_somewhere_else(looked_at):
    said = judge.room_for_bytes(replace(folder(7), looked_at=looked_at), room(0)).says
    assert f"in /srv/models (not there yet; looked at {looked_at})" in said


def test_the_remedy_says_how_much_to_free_and_where():
    said = judge.room_for_bytes(folder(30), room(100))
    assert said.remedy.startswith("free 70 B on the file system of /srv/models, or move")


def test_a_model_that_is_in_the_cache_needs_no_room_and_gives_none():
    needs = judge.room_for_bytes(folder(10, a=500), room(10, a=100)).expected
    assert needs == {"free_min_bytes": 10}
    whole = judge.room_for_bytes(folder(0, a=100), room(0, a=100))
    assert whole.verdict is Verdict.PASS
    assert whole.expected == {"free_min_bytes": 0}


def test_large_numbers_of_bytes_are_compared_by_value():
    assert judge.room_for_bytes(folder(5_000), room(int("5000"))).verdict is Verdict.PASS
    said = judge.room_for_files(folder(inodes=9_999, inodes_free=5_000), room(inodes=int("5000")))
    assert said.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, Verdict.FAIL), (63, Verdict.FAIL), (64, Verdict.PASS), (65, Verdict.PASS)],
)
def test_inodes_are_judged_at_their_limit(free, verdict):
    said = judge.room_for_files(folder(inodes_free=free), room())
    assert said.verdict is verdict
    assert said.cause == ("no-inodes" if verdict is Verdict.FAIL else "")
    assert said.observed == {"inodes_free_count": free, "inodes_count": 1_000}
    assert said.expected == {"inodes_free_min_count": 64}
    assert (
        said.says == f"{free} inodes free in /srv/models (not there yet; looked at /srv), 64 needed"
    )
    assert ("file system of /srv/models" in said.remedy) is (verdict is Verdict.FAIL)


def test_a_file_system_without_a_fixed_number_of_inodes_passes_and_one_with_a_single_one_does_not():
    said = judge.room_for_files(folder(inodes=0, inodes_free=0), room())
    assert (said.verdict, said.says) == (
        Verdict.PASS,
        "no fixed number of inodes in /srv/models (not there yet; looked at /srv)",
    )
    for inodes in (-1, 1, 2):
        some = judge.room_for_files(folder(inodes=inodes, inodes_free=0), room())
        assert some.verdict is Verdict.FAIL


CLOSED = {
    # cause: what is seen of the folder, and what is said
    "not-a-folder": ({"is_folder": False}, "/srv/models is no folder"),
    "folder-missing": ({"exists": False}, "/srv/models is missing; /srv is there"),
    "read-only": ({"read_only": True, "writable": False}, "is mounted read-only"),
    "not-writable": ({"writable": False}, "this user (uid 7) may not write in /srv/models"),
}


@pytest.mark.parametrize("inodes", [0, 1_000])
@pytest.mark.parametrize("cause", CLOSED)
def test_a_folder_that_takes_no_files_fails_whatever_room_there_is(cause, inodes):
    changes, says = CLOSED[cause]
    closed = replace(folder(inodes=inodes), access=replace(ACCESS, **changes))
    said = judge.room_for_files(closed, room())
    assert (said.verdict, said.cause) == (Verdict.FAIL, cause)
    assert says in said.says
    assert "name another folder (TMPDIR); rerun" in said.remedy
    made = judge.room_for_files(closed, replace(room(), made_when_needed=True))
    assert (made.verdict is Verdict.PASS) is (cause == "folder-missing")


def test_a_missing_folder_that_is_made_when_needed_has_to_have_a_parent_that_may_be_written():
    missing = replace(folder(), access=replace(ACCESS, exists=False, writable=False))
    said = judge.room_for_files(missing, replace(room(), made_when_needed=True))
    assert said.cause == "not-writable"
    assert "give this user write permission in /srv," in said.remedy


@pytest.mark.parametrize("changes", [{"read_only": True, "writable": False}, {"writable": False}])
def test_a_cache_that_holds_all_models_need_not_be_writable(changes):
    closed = replace(folder(a=100, b=20), access=replace(ACCESS, **changes))
    said = judge.room_for_files(closed, room(a=100, b=20))
    assert said.verdict is Verdict.PASS
    assert said.notes == (
        "nothing more can be stored here, and all models of the profile are here",
    )
    for more in ({"a": 101, "b": 20}, {"a": 100, "b": 21}, {}):
        assert judge.room_for_files(closed, room(**more)).verdict is Verdict.FAIL


def test_a_missing_folder_is_told_how_to_be_made():
    missing = replace(folder(), access=replace(ACCESS, exists=False))
    remedy = judge.room_for_files(missing, room()).remedy
    assert "`mkdir -p /srv/models`" in remedy
    assert "`chmod 1777 /srv/models`" in remedy


def test_what_earlier_versions_did_not_record_of_a_folder_leaves_the_rest_judged_with_a_note():
    kept = encode(folder())
    del kept["access"], kept["beside"]
    older = decode(Folder, kept)
    for seen in (older, replace(folder(), access=UNSEEN)):
        said = judge.room_for_files(seen, room())
        assert said.verdict is Verdict.PASS
        (note,) = said.notes
        assert note.startswith("whether this user may create files there was not seen: ")
        assert judge.room_for_bytes(seen, room()).verdict is Verdict.PASS
    full = judge.room_for_files(replace(folder(inodes_free=63), access=UNSEEN), room())
    assert (full.cause, len(full.notes)) == ("no-inodes", 1)
    assert judge.room_for_files(folder(), room()).notes == ()


@pytest.mark.parametrize(
    ("free", "verdict", "notes"),
    [
        (119, Verdict.FAIL, 0),
        (120, Verdict.FAIL, 1),
        (149, Verdict.FAIL, 1),
        (150, Verdict.PASS, 0),
    ],
)
def test_what_has_to_go_on_one_file_system_is_added_up(free, verdict, notes):
    wanted = replace(room(20, a=100), beside_bytes={"tmp": 30, "ledgers": 4})
    said = judge.room_for_bytes(replace(folder(free), beside=("tmp", "other")), wanted)
    assert said.verdict is verdict
    assert said.expected == {"free_min_bytes": 150}
    assert said.evidence[-1] == "tmp: 30 B on the same file system"
    assert len(said.notes) == notes
    alone = judge.room_for_bytes(folder(120), wanted)
    assert (alone.verdict, alone.expected) == (Verdict.PASS, {"free_min_bytes": 120})


@pytest.mark.parametrize(
    ("free", "noted"), [(39, False), (40, True), (99, True), (100, False), (101, False)]
)
def test_a_pass_that_leans_on_what_is_cached_says_that_it_may_be_of_another_revision(free, noted):
    said = judge.room_for_bytes(folder(free, a=60), room(a=100))
    assert said.verdict is (Verdict.FAIL if free < 40 else Verdict.PASS)
    assert ["if it is of another revision, 100 B are needed" in note for note in said.notes] == [
        True
    ] * noted


def test_models_that_go_to_several_folders_or_into_a_container_have_nothing_to_be_compared_with():
    def serve(name: str, folder: str, where: str = "this", size: int | None = 5) -> Serve:
        environ = {"HF_HUB_CACHE": folder}
        return Serve(name=name, model=f"org/{name}", model_bytes=size, env=environ, where=where)

    inside = serve("c", "/c", "container:0123456789ab")
    for served in ((serve("a", "/a"), serve("b", "/b")), (inside,)):
        wanted = rooms(Profile(schema=1, serve=served))["model-cache"]
        assert isinstance(wanted, Missing)
        assert "paths.model_cache" in wanted.remedy
        named = Profile(schema=1, serve=served, paths=Paths(model_cache="/srv"))
        assert isinstance(rooms(named)["model-cache"], Wanted)
    one = rooms(Profile(schema=1, serve=(serve("a", "/a"),)))["model-cache"]
    assert isinstance(one, Wanted)
    unsized = (serve("a", "/a", size=None), serve("b", "/b", size=None))
    assert isinstance(rooms(Profile(schema=1, serve=unsized))["model-cache"], NotDeclared)


def rooms(profile: Profile) -> dict[str, object]:
    cases = list(judge._folders(expected(profile)))
    assert [case.subject for case in cases] == ["model-cache", "tmp", "ledgers"]
    return {case.subject: case.wanted for case in cases}


def test_without_declarations_a_temporary_file_and_a_run_must_fit():
    wanted = rooms(LOCAL)
    fact = "not declared: no [[serve]] with a hub model and model_bytes"
    assert wanted["model-cache"] == NotDeclared(fact=fact)
    assert wanted["tmp"] == Wanted(
        value=replace(room(MIB), named_by="TMPDIR or paths.tmp"),
        basis=Basis.INVARIANT,
        source="a folder for temporary files takes a file",
    )
    assert wanted["ledgers"] == Wanted(
        value=replace(room(4 * MIB), named_by="--ledger-dir"),
        basis=Basis.INVARIANT,
        source="what one run writes",
    )


def test_files_must_fit_wherever_bytes_must_and_need_no_declaration():
    serve = (Serve(name="a", model="org/a", model_bytes=5),)
    cases = {
        case.subject: case.wanted
        for case in judge._inodes(expected(Profile(schema=1, serve=serve)))
    }
    assert list(cases) == ["model-cache", "tmp", "ledgers"]
    assert {wanted.basis for wanted in cases.values()} == {Basis.INVARIANT}
    assert cases["model-cache"].value.inodes_free == 64
    undeclared = {case.subject: case.wanted for case in judge._inodes(expected())}
    assert isinstance(undeclared["model-cache"], NotDeclared)
    assert isinstance(undeclared["tmp"], Wanted)


def test_declared_room_for_temporary_files_is_wanted():
    wanted = rooms(Profile(schema=1, paths=Paths(tmp_free_min_bytes=7)))["tmp"]
    assert wanted == Wanted(
        value=replace(room(7), named_by="TMPDIR or paths.tmp"),
        basis=Basis.DECLARED,
        source="h100-1.toml: paths.tmp_free_min_bytes",
    )


def test_every_hub_model_with_a_size_must_fit_and_no_other():
    serve = (
        Serve(name="a", model="org/a", model_bytes=5),
        Serve(name="b", model="org/b", model_bytes=6),
        Serve(name="path", model="/srv/c", model_bytes=7),
        Serve(name="home", model="~/c", model_bytes=7),
        Serve(name="here", model="./c", model_bytes=7),
        Serve(name="unsized", model="org/d"),
        Serve(name="unnamed", model_bytes=8),
    )
    wanted = rooms(Profile(schema=1, serve=serve, checks=Checks()))["model-cache"]
    assert wanted == Wanted(
        value=RoomWanted(
            free_bytes=0,
            model_bytes={"org/a": 5, "org/b": 6},
            inodes_free=64,
            beside_bytes={"tmp": MIB, "ledgers": 4 * MIB},
            named_by="paths.model_cache, or HF_HUB_CACHE or HF_HOME of the server",
            made_when_needed=True,
        ),
        basis=Basis.DECLARED,
        source="h100-1.toml: serve[].model_bytes",
    )


@pytest.mark.parametrize("sizes", [(9, 1), (1, 9)])
def test_of_a_model_that_is_served_twice_the_larger_size_is_wanted(sizes):
    serve = tuple(Serve(name=f"s{n}", model="org/a", model_bytes=n) for n in sizes)
    profile = Profile(schema=1, serve=serve, paths=Paths(tmp_free_min_bytes=7))
    value = rooms(profile)["model-cache"].value
    assert value.model_bytes == {"org/a": 9}
    assert value.beside_bytes == {"tmp": 7, "ledgers": 4 * MIB}


# Clock

NOW_S = 1_750_000_000.0
UP_S = 1_000.0
BOOT_S = NOW_S - UP_S


def clock(**changes: object) -> Clock:
    fields = {
        "now_s": NOW_S,
        "up_s": UP_S,
        "boot_s": BOOT_S,
        "boot_id": "one",
        "synchronised": True,
        "kernel_built": Moment(what="the kernel's build", at_s=NOW_S - 9_000.0),
        "packages_installed": Moment(what="/var/lib/dpkg/status", at_s=NOW_S - 8_000.0),
    }
    return Clock(**(fields | changes))


def history(**changes: object) -> History:
    fields = {
        "ledger": "before.json",
        "newest_s": NOW_S - 5_000.0,
        "boot_id": "one",
        "boot_offset_s": BOOT_S,
        "run_boot_offset_s": BOOT_S,
    }
    return History(**(fields | changes))


def past(seen: Clock, earlier: History):
    return judge.clock_not_in_the_past(seen, earlier)


@pytest.mark.parametrize("ahead_s", [-1.0, 0.0, 59.0, 60.0])
@pytest.mark.parametrize("which", ["kernel_built", "packages_installed", "newest_s"])
def test_a_clock_within_a_minute_of_what_has_happened_passes(which, ahead_s):
    said = past(*ahead(which, ahead_s))
    assert said.verdict is Verdict.PASS
    assert said.cause == ""
    assert said.expected == {"now_min_s": NOW_S + ahead_s}


@pytest.mark.parametrize("ahead_s", [60.001, 61.0, 1e6, 1e12])
@pytest.mark.parametrize("which", ["kernel_built", "packages_installed", "newest_s"])
def test_a_clock_more_than_a_minute_behind_what_has_happened_fails(which, ahead_s):
    said = past(*ahead(which, ahead_s))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "clock-in-the-past")
    assert said.observed == {"now_s": NOW_S}
    assert said.expected == {"now_min_s": NOW_S + ahead_s}


def ahead(which: str, ahead_s: float) -> tuple[Clock, History]:
    if which == "newest_s":
        return clock(), history(newest_s=NOW_S + ahead_s)
    moment = Moment(what="a moment ahead", at_s=NOW_S + ahead_s)
    return clock(**{which: moment}), history()


def test_a_clock_in_the_past_is_said_with_both_times_and_the_distance():
    said = past(clock(), history(newest_s=NOW_S + 86_400.0 * 3))
    assert said.says == (
        "the clock is 3 d behind: the clock says 2025-06-15 15:06:40Z; "
        "the latest moment in the ledgers up to before.json is of 2025-06-18 15:06:40Z"
    )
    assert "hwclock -w" in said.remedy
    assert said.evidence == (
        "the kernel's build: 2025-06-15 12:36:40Z",
        "/var/lib/dpkg/status: 2025-06-15 12:53:20Z",
        "the latest moment in the ledgers up to before.json: 2025-06-18 15:06:40Z",
    )


def test_the_remedy_blames_no_ledger_that_may_have_been_written_with_the_right_clock():
    """The newest ledger hands on the latest moment of those before it."""
    remedy = past(clock(), history(newest_s=NOW_S + 86_400.0)).remedy
    assert "before.json" not in remedy
    assert "whose names begin with a date that is still to come" in remedy
    assert "head.json" in remedy
    package = Moment(what="/var/lib/dpkg/status", at_s=NOW_S + 86_400.0)
    remedy = past(clock(packages_installed=package), history()).remedy
    assert "/var/lib/dpkg/status was written while it was ahead" in remedy
    assert "ledgers" not in remedy


def test_a_clock_that_fell_back_to_1970_says_how_far():
    said = past(clock(now_s=1_000.0), history(newest_s=UNSEEN))
    assert said.says.startswith("the clock is 20254 d 12 h behind: the clock says 1970-01-01")


def test_a_clock_that_is_right_says_against_what():
    said = past(clock(), history())
    assert said.says == (
        "the clock says 2025-06-15 15:06:40Z; the latest moment in the ledgers up to before.json "
        "is of 2025-06-15 13:43:20Z"
    )
    assert len(said.evidence) == 3


@pytest.mark.parametrize("now_s", [NOW_S, NOW_S - 90_000.0])
def test_a_clock_that_nothing_disciplines_is_noted(now_s):
    assert past(clock(now_s=now_s, synchronised=True), history()).notes == ()
    assert past(clock(now_s=now_s, synchronised=UNSEEN), history()).notes == ()
    (note,) = past(clock(now_s=now_s, synchronised=False), history()).notes
    assert "nothing disciplines this clock" in note


def test_what_could_not_be_seen_is_left_out():
    seen = clock(kernel_built=UNSEEN, packages_installed=UNSEEN)
    said = past(seen, history())
    assert said.evidence == (
        "the latest moment in the ledgers up to before.json: 2025-06-15 13:43:20Z",
    )
    only_kernel = past(clock(packages_installed=UNSEEN), history(newest_s=UNSEEN))
    assert only_kernel.expected == {"now_min_s": NOW_S - 9_000.0}


def test_without_anything_to_compare_with_the_clock_is_unknown():
    seen = clock(kernel_built=UNSEEN, packages_installed=UNSEEN)
    said = past(seen, history(newest_s=UNSEEN))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.observed == {"now_s": NOW_S}
    assert "date -u" in said.remedy


def test_a_moment_that_no_calendar_holds_is_said_in_seconds():
    assert past(clock(), history(newest_s=1e300)).says.endswith("s since 1970")
    assert past(clock(now_s=-1e300), history()).verdict is Verdict.FAIL


def jump(seen: Clock, earlier: History):
    return judge.clock_runs_evenly(seen, earlier)


@pytest.mark.parametrize("step_s", [-60.0, -59.0, 0.0, 59.0, 60.0])
def test_a_clock_within_a_minute_of_the_time_since_boot_passes(step_s):
    for seen, earlier in (
        (clock(), history(run_boot_offset_s=BOOT_S + step_s)),
        (clock(boot_s=BOOT_S + step_s), history()),
        (clock(), history(boot_offset_s=BOOT_S + step_s)),
    ):
        said = jump(seen, earlier)
        assert said.verdict is Verdict.PASS
        assert said.says == "clock and time since boot run evenly"
        assert said.notes == ()


@pytest.mark.parametrize("step_s", [-7_200.0, -61.0, -60.5, 60.5, 61.0, 7_200.0])
def test_a_clock_that_is_set_during_the_run_fails_both_ways(step_s):
    said = jump(clock(), history(run_boot_offset_s=BOOT_S - step_s))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "jumped-during-the-run")
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": step_s}
    assert said.remedy.startswith("rerun")
    if abs(step_s) == 7_200.0:
        assert said.says == "the clock moved by 2 h while the suite ran"


@pytest.mark.parametrize("step_s", [-7_200.0, -61.0, -60.5, 60.5, 61.0, 7_200.0])
def test_a_boot_time_that_does_not_add_up_fails_both_ways(step_s):
    said = jump(clock(boot_s=BOOT_S + step_s), history())
    assert (said.verdict, said.cause) == (Verdict.FAIL, "boot-time-off")
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0}
    if step_s == 7_200.0:
        assert said.says == (
            "booted at 2025-06-15 16:50:00Z by /proc/stat, 2025-06-15 14:50:00Z by clock and uptime"
        )


def test_a_clock_that_was_set_back_since_the_last_run_of_this_boot_fails():
    for step_s in (60.5, 61.0, 7_200.0):
        said = jump(clock(), history(boot_offset_s=BOOT_S + step_s))
        assert (said.verdict, said.cause) == (Verdict.FAIL, "jumped-back")
        assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0, "step_s": -step_s}
    assert said.says == "the clock was set back by 2 h since before.json"


def test_a_clock_that_was_put_forward_passes_with_a_note():
    for step_s in (60.5, 61.0, 7_200.0):
        said = jump(clock(), history(boot_offset_s=BOOT_S - step_s))
        assert said.verdict is Verdict.PASS
        assert said.observed["step_s"] == step_s
        assert len(said.notes) == 1
    assert said.notes[0].startswith("the clock was put forward by 2 h since before.json")
    still = jump(clock(), history())
    assert still.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0, "step_s": 0.0}


def test_the_last_run_counts_only_within_the_same_boot():
    back = history(boot_offset_s=BOOT_S + 7_200.0)
    for seen, earlier in (
        (clock(boot_id="two"), back),
        (clock(boot_id="aaa"), back),
        (clock(), replace(back, boot_id=UNSEEN)),
        (clock(boot_id=UNSEEN), replace(back, boot_id=UNSEEN)),
        (clock(), history(boot_offset_s=UNSEEN)),
    ):
        said = jump(seen, earlier)
        assert said.verdict is Verdict.PASS
        assert "step_s" not in said.observed
    same = jump(clock(boot_id=same_text("one")), back)
    assert same.cause == "jumped-back"


def test_an_unread_boot_time_is_not_compared():
    assert jump(clock(boot_s=UNSEEN), history()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "earlier",
    [history(boot_id=UNSEEN), history(boot_id="two"), history(boot_offset_s=UNSEEN)],
    ids=["unread", "another boot", "no earlier run"],
)
def test_a_clock_that_only_this_run_could_watch_is_unknown(earlier):
    said = jump(clock(boot_s=UNSEEN), earlier)
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.observed == {"boot_offset_s": BOOT_S, "run_step_s": 0.0}
    assert "rerun before the next boot" in said.remedy
    moved = jump(clock(boot_s=UNSEEN), replace(earlier, run_boot_offset_s=BOOT_S + 61.0))
    assert moved.cause == "jumped-during-the-run"
    assert jump(clock(), earlier).verdict is Verdict.PASS


# No number is no pass

MEMORY = replace(limited((900, 100, 50)), fitted_bytes=1_000)
CLOCKS = (clock(), history())
COMPARED = {
    # check: what it sees, what is wanted, and the numbers that its verdict rests on
    "machine.memory.total": (
        (MEMORY, identity(hypervisor="none")),
        wanted_memory(1_000, 30, 20, 1_000),
        {"total_bytes", "fitted_bytes", "lower", "upper"},
    ),
    "machine.memory.available": (
        (MEMORY,),
        300,
        {"available_bytes", "limit_bytes", "used_bytes", "file_bytes", "wanted"},
    ),
    "machine.disk.free": (
        (replace(folder(900, a=30), beside=("tmp",)),),
        replace(room(10, a=100), beside_bytes={"tmp": 7}),
        {"free_bytes", "cached_bytes", "model_bytes", "beside_bytes"},
    ),
    "machine.disk.inodes": ((folder(),), room(), {"inodes_free"}),
    "machine.clock.past": (CLOCKS, None, {"now_s", "at_s", "newest_s"}),
    "machine.clock.jump": (
        CLOCKS,
        None,
        {"now_s", "up_s", "boot_s", "boot_offset_s", "run_boot_offset_s"},
    ),
}


def with_nan(value: object) -> Iterator[tuple[str, object]]:
    """Give copies of a value, each with one of its numbers replaced by NaN, and its name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield "", math.nan
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for name, copy in with_nan(item):
                yield name, (*value[:index], copy, *value[index + 1 :])
    elif isinstance(value, dict):
        for key, item in value.items():
            for name, copy in with_nan(item):
                yield name, value | {key: copy}
    elif is_dataclass(value):
        for field in fields(value):
            for name, copy in with_nan(getattr(value, field.name)):
                yield name or field.name, replace(value, **{field.name: copy})


@pytest.mark.parametrize("name", COMPARED)
def test_what_is_no_number_passes_nowhere(name):
    from checks.core.registry import REGISTRY

    seen, wanted, compared = COMPARED[name]
    judged = REGISTRY.checks[name].judge
    assert judged(*seen, wanted).verdict is Verdict.PASS
    tried = set()
    for field, copy in with_nan((*seen, wanted)):
        if (field or "wanted") in compared:
            tried.add(field or "wanted")
            with contextlib.suppress(ValueError):  # such a number may have no text
                assert judged(*copy).verdict is not Verdict.PASS, field
    assert tried == compared


@pytest.mark.parametrize("check", ["machine.clock.past", "machine.clock.jump"])
def test_the_clock_is_judged_on_every_box(check):
    from checks.core.registry import REGISTRY

    (case,) = REGISTRY.checks[check].cases(expected())
    assert case.subject == BOX
    assert case.wanted.value is None
    assert case.wanted.basis is Basis.INVARIANT
    rule = "time only passes" if check.endswith("past") else "one second lasts one second"
    assert case.wanted.source == rule
