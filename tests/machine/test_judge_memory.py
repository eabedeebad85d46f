"""The judges of memory, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.codec import decode, encode
from checks.core.expectation import (
    Basis,
    Case,
    Expectation,
    NotDeclared,
    Wanted,
)
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement
from checks.core.profile import Hardware, Profile, Reserved
from checks.core.units import bytes_text
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    HugePages,
    HugePageSize,
    Identity,
    Memory,
    MemoryAvailableWanted,
    MemoryGroups,
    MemoryLimit,
    MemoryWanted,
)
from checks.machine.judge import memory as judge
from tests.support.judging import GIB, MIB, UNSEEN, expected, stopped_without


def test_the_tolerances_are_those_that_the_texts_promise():
    assert judge.MEMORY_TOLERANCE_RATIO == 0.03
    assert judge.KERNEL_RESERVE_BYTES == 629_145_600
    assert judge.FITTED_TOLERANCE_RATIO == 0.005
    assert judge.FITTED_TOLERANCE_BYTES == 4_294_967_296
    assert judge.memory_total_as_declared.__doc__.count("3 % and at least 600 MiB") == 1
    assert judge.memory_total_as_declared.__doc__.count("0.5 % and at least 4 GiB") == 1


def identity(**changes: object) -> Identity:
    planted = dict.fromkeys(Identity.__dataclass_fields__, "planted") | {"evidence": ()}
    return Identity(**{**planted, **changes})


def memory(total: int = 1_000, available: int = 500) -> Memory:
    return Memory(
        total_bytes=total,
        available_bytes=available,
        fitted_bytes=UNSEEN,
        dimm_serials=UNSEEN,
        groups=MemoryGroups(limits=(), above_unseen=False),
        huge_pages=HugePages(sizes=()),
        limited_by=(),
    )


def room(seen: Memory, least: int, reserved: int = 0) -> Judgement:
    wanted = MemoryAvailableWanted(min_bytes=least, reserved_bytes=reserved)
    return judge.memory_available(seen, wanted)


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


def test_missing_memory_is_explained_by_the_kernels_command_line():
    wanted = wanted_memory(1_000, 30, 30)
    short = replace(memory(900), limited_by=("mem=64G", "crashkernel=1G", "maxcpus=4"))
    said = judged_total(short, wanted)
    assert said.cause == "less-memory-than-declared"
    assert said.evidence == ("/proc/cmdline: mem=64G crashkernel=1G maxcpus=4",)
    (note,) = said.notes
    assert note.startswith("mem=64G crashkernel=1G on the kernel's command line")
    said = judged_total(replace(short, limited_by=("maxcpus=4", "isolcpus=2-3")), wanted)
    assert said.evidence == ("/proc/cmdline: maxcpus=4 isolcpus=2-3",)
    assert said.notes == ()
    for nothing in (UNSEEN, ()):
        said = judged_total(replace(short, limited_by=nothing), wanted)
        assert (said.cause, said.notes, said.evidence) == ("less-memory-than-declared", (), ())
    enough = judged_total(replace(short, total_bytes=1_000), wanted)
    assert (enough.verdict, enough.notes, enough.evidence) == (Verdict.PASS, (), ())


def test_a_ledger_that_knew_nothing_of_the_command_line_fails_as_before():
    row = encode(memory(900))
    del row["limited_by"]
    said = judged_total(decode(Memory, row), wanted_memory(1_000, 30, 30))
    assert (said.cause, said.notes, said.evidence) == ("less-memory-than-declared", (), ())


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
    assert room(memory(available=5_000), int("5000")).verdict is Verdict.PASS


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
    assert "set hardware.memory_total_bytes in the profile" in said.remedy
    assert "`assumed`" in said.remedy
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
    said = room(memory(available=available), 500)
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
    good = room(limited(limit), left)
    assert (good.verdict, good.notes) == (Verdict.PASS, ())
    bad = room(limited(limit), left + 1)
    assert (bad.verdict, bad.cause) == (Verdict.FAIL, "memory-limited")
    assert bad.says == f"{left} B left by /sys/0/memory.max, {left + 1} B wanted"
    assert "raise the limit /sys/0/memory.max" in bad.remedy
    for said in (good, bad):
        assert said.observed == {"memory_available_bytes": 500, "memory_group_left_bytes": left}
        assert said.evidence == (
            f"/sys/0/memory.max: {limit[0]} B, {limit[1]} B used, {limit[2]} B of it cached files",
        )


def test_of_the_whole_box_and_a_cgroup_the_smaller_counts():
    assert room(limited((900, 0, 0)), 501).cause == "memory-in-use"
    assert room(limited((900, 0, 0)), 500).verdict is Verdict.PASS
    assert room(limited(), 500).verdict is Verdict.PASS
    two = limited((300, 0, 0), (400, 0, 0))  # the probe puts the one that leaves least first
    assert room(two, 301).says == "300 B left by /sys/0/memory.max, 301 B wanted"


def test_cgroups_that_cannot_be_seen_from_here_are_noted_on_a_pass_and_on_a_fail():
    for wanted in (300, 301):
        (note,) = room(limited((300, 0, 0), above=True), wanted).notes
        assert "may limit further" in note


def test_cgroups_that_were_not_seen_are_unknown_and_those_of_an_older_ledger_are_noted():
    unseen = replace(memory(), groups=UNSEEN)
    said = room(unseen, 500)
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert (said.remedy, said.blind) == (UNSEEN.remedy, UNSEEN.reason)
    assert room(unseen, 501).cause == "memory-in-use"
    for reason in set(Blind) - {Blind.NOT_RECORDED}:
        other = replace(memory(), groups=Unseen(reason, "planted"))
        assert room(other, 500).verdict is Verdict.UNKNOWN, reason
    kept = encode(memory())
    del kept["groups"]
    said = room(decode(Memory, kept), 500)
    assert said.verdict is Verdict.PASS
    assert said.notes == (
        "whether a cgroup limits memory was not seen: not-recorded: Memory.groups was not recorded",
    )


def with_pages(*sizes: tuple[int, int, int, int], memory_bytes: int = 1_000) -> Memory:
    """Make memory of which 500 are available, with huge pages: size, number, free, promised."""
    rows = tuple(
        HugePageSize(size_bytes=size, total_count=total, free_count=free, promised_count=promised)
        for size, total, free, promised in sizes
    )
    seen = memory(total=memory_bytes)
    return replace(seen, huge_pages=HugePages(sizes=rows))


@pytest.mark.parametrize(
    ("least", "cause"),
    [
        (500, ""),
        (501, "memory-in-huge-pages"),
        (550, "memory-in-huge-pages"),
        (551, "memory-in-use"),
    ],
)
def test_memory_that_would_be_enough_with_unused_huge_pages_is_said_to_be_in_them(least, cause):
    seen = with_pages((10, 9, 5, 2), (20, 1, 1, 0))
    said = room(seen, least)
    assert said.cause == cause
    assert said.observed == {"memory_available_bytes": 500, "memory_unused_huge_pages_bytes": 50}
    if cause == "memory-in-huge-pages":
        assert said.says.endswith("wanted; 50 B are set aside as huge pages that nobody uses")
        assert "vm.nr_hugepages=0" in said.remedy
        assert "hugepages=" in said.remedy


def test_huge_pages_that_are_used_or_promised_are_no_memory_to_be_had():
    for used in ((10, 9, 0, 0), (10, 9, 3, 3), (10, 9, 3, 8)):
        said = room(with_pages(used), 501)
        assert said.cause == "memory-in-use"
        assert said.observed == {"memory_available_bytes": 500}


@pytest.mark.parametrize(("free", "noted"), [(10, False), (11, True)])
def test_many_unused_huge_pages_are_noted_on_a_pass(free, noted):
    said = room(with_pages((10, 20, free, 0)), 500)
    assert said.verdict is Verdict.PASS
    assert [note.startswith(f"{free * 10} B are set aside") for note in said.notes] == [
        True
    ] * noted
    unseen = replace(with_pages((10, 20, free, 0)), groups=Unseen(Blind.NOT_RECORDED, "x"))
    assert len(room(unseen, 500).notes) == 1 + noted


def test_a_ledger_from_before_huge_pages_were_looked_at_is_judged_as_it_was():
    kept = encode(memory())
    del kept["huge_pages"]
    for least in (500, 501):
        assert room(decode(Memory, kept), least) == room(memory(), least)
    assert room(replace(memory(), huge_pages=UNSEEN), 501).cause == "memory-in-use"


@pytest.mark.parametrize(
    ("least", "reserved", "cause"),
    [
        (400, 100, ""),
        (400, 101, "memory-reserved"),
        (500, 1, "memory-reserved"),
        (501, 0, "memory-in-use"),
        (501, 1, "memory-in-use"),
    ],
)
def test_what_is_kept_for_others_is_not_counted_as_available(least, reserved, cause):
    said = room(memory(), least, reserved)
    assert said.cause == cause
    assert ("reserved.memory_bytes" in said.remedy) is (cause == "memory-reserved")
    assert (f"beside {reserved} B kept for others" in said.says) is (reserved > 0)
    expected = {"memory_available_min_bytes": least}
    assert said.expected == (
        expected | {"memory_reserved_bytes": reserved} if reserved else expected
    )
    assert said.remedy.endswith("; rerun") is bool(cause)


def test_huge_pages_are_named_before_what_is_kept_for_others():
    seen = with_pages((10, 9, 5, 0))
    assert room(seen, 500, 50).cause == "memory-in-huge-pages"
    assert room(seen, 500, 51).cause == "memory-reserved"


def test_what_is_kept_for_others_is_not_counted_off_what_a_cgroup_leaves():
    assert room(limited((300, 0, 0)), 300, 200).verdict is Verdict.PASS
    assert room(limited((300, 0, 0)), 301, 199).cause == "memory-limited"


def test_the_profile_says_what_is_kept_for_others():
    profile = Profile(
        schema=1,
        hardware=Hardware(memory_available_min_bytes=5),
        reserved=Reserved(memory_bytes=3),
    )
    (case,) = judge._memory_available(expected(profile))
    assert case.wanted.value == MemoryAvailableWanted(min_bytes=5, reserved_bytes=3)


def test_available_memory_is_asked_for_where_the_profile_says_so():
    hardware = Hardware(memory_available_min_bytes=5, assumed=("memory_available_min_bytes",))
    (case,) = judge._memory_available(expected(Profile(schema=1, hardware=hardware)))
    assert case.wanted == Wanted(
        value=MemoryAvailableWanted(min_bytes=5, reserved_bytes=0),
        basis=Basis.ASSUMED,
        source="h100-1.toml: hardware.memory_available_min_bytes",
    )
    (none,) = judge._memory_available(expected())
    assert none == Case(
        subject=BOX, wanted=NotDeclared(fact="not declared: hardware.memory_available_min_bytes")
    )


# No number is no pass


@pytest.mark.parametrize(
    ("check", "seen", "wanted", "compared"),
    [
        (
            "machine.memory.total",
            (replace(memory(), fitted_bytes=1_000), identity(hypervisor="none")),
            wanted_memory(1_000, 30, 20, 1_000),
            {"total_bytes", "fitted_bytes", "lower", "upper"},
        ),
        (
            "machine.memory.available",
            (limited((900, 100, 50)),),
            MemoryAvailableWanted(min_bytes=200, reserved_bytes=100),
            {
                *("available_bytes", "limit_bytes", "used_bytes", "file_bytes"),
                *("min_bytes", "reserved_bytes"),
            },
        ),
    ],
)
def test_what_is_no_number_passes_nowhere(check, seen, wanted, compared):
    assert stopped_without(check, seen, wanted, compared) == compared
