"""The judges of the processor, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, Bounds, Expectation, NotDeclared
from checks.core.facts import Blind, Unseen
from checks.core.profile import Hardware, Profile
from checks.core.registry import REGISTRY, Measure
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import Identity, Processor, Scaling
from checks.machine.judge import processor as judge
from tests.support.judging import UNSEEN, expected, same_text, stopped_without

ABSENT = Unseen(Blind.ABSENT, "the kernel counts no throttling here")
ROW = Scaling(driver="intel_pstate", governor="powersave", governed_cpus=8, lowest_max_ratio=1.0)
SEEN = Processor(
    sockets_count=2,
    cores_count=4,
    online_cpus=8,
    present_cpus=8,
    smt="on",
    kernel_words=(),
    features=("avx2", "avx512f", "sse4_2"),
    scaling=(ROW,),
    scaling_unread_cpus=0,
    throttles_count=0,
    up_s=36_000.0,
)


def exactly(count: float) -> Bounds:
    return Bounds(value=count, lower=count, upper=count)


def cases(check: str, hardware: Hardware | None = None, *numbers: Expectation):
    profile = Profile(schema=1, hardware=hardware or Hardware())
    return tuple(REGISTRY.checks[check].cases(expected(profile, *numbers)))


# model


def identity(model: object) -> Identity:
    fields = dict.fromkeys(Identity.__dataclass_fields__, "planted") | {"evidence": ()}
    return Identity(**(fields | {"cpu_model": model}))


@pytest.mark.parametrize(
    ("seen", "wanted", "verdict"),
    [
        ("Xeon 8480+", "Xeon 8480+", Verdict.PASS),
        ("Xeon   CPU E5  @ 2.40GHz", "Xeon CPU E5 @ 2.40GHz", Verdict.PASS),
        ("Xeon 8480+", "Xeon 8480C", Verdict.FAIL),
        ("Xeon 8480", "Xeon 8481", Verdict.FAIL),
        ("Xeon 8481", "Xeon 8480", Verdict.FAIL),
        (UNSEEN, "Xeon 8480+", Verdict.UNKNOWN),
    ],
)
def test_the_model_is_compared_word_for_word(seen, wanted, verdict):
    said = judge.cpu_model_as_declared(identity(seen), same_text(wanted))
    assert said.verdict is verdict
    assert said.says.startswith("cpu model ")


# count


@pytest.mark.parametrize(
    ("wanted", "cause"),
    [(7, "more-cpus-than-declared"), (8, ""), (9, "cpus-missing"), (800, "cpus-missing")],
)
def test_cpus_are_counted_exactly(wanted, cause):
    said = judge.all_cpus_online(SEEN, exactly(wanted))
    assert said.cause == cause
    assert said.says == f"8 logical CPUs online, {wanted} wanted"
    assert said.observed == {"online_cpus": 8}
    assert said.expected == {"online_cpus": wanted}
    assert said.evidence == (
        "sockets: 2",
        "cores: 4",
        "CPUs present: 8",
        "multithreading: on",
    )


def test_large_counts_are_compared_by_value():
    many = replace(SEEN, online_cpus=int("700"))
    assert judge.all_cpus_online(many, exactly(int("700"))).verdict is Verdict.PASS


def test_a_side_of_a_measured_count_may_be_open():
    open_above = Bounds(value=4, lower=4, upper=None)
    assert judge.all_cpus_online(SEEN, open_above).verdict is Verdict.PASS
    open_below = Bounds(value=16, lower=None, upper=16)
    assert judge.all_cpus_online(SEEN, open_below).verdict is Verdict.PASS


def test_cpus_that_cannot_be_counted_are_unknown():
    said = judge.all_cpus_online(replace(SEEN, online_cpus=UNSEEN), exactly(8))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel_words": ("maxcpus=8", "nosmt")}, "take maxcpus=8 nosmt off the kernel's"),
        ({"kernel_words": ("clearcpuid=5", "nosmt")}, "take nosmt off the kernel's"),
        ({"kernel_words": ("arm64.nosve", "noxsave"), "smt": "off"}, "switch multithreading on"),
        ({"smt": "off", "present_cpus": 16}, "switch multithreading on"),
        ({"smt": "forceoff"}, "switch multithreading on"),
        ({"present_cpus": 9}, "bring the offline CPUs online"),
        ({"present_cpus": 8}, "look into firmware"),
        ({"present_cpus": 7}, "look into firmware"),
        ({"present_cpus": int("700"), "online_cpus": int("700")}, "look into firmware"),
        ({"present_cpus": UNSEEN, "kernel_words": UNSEEN, "smt": UNSEEN}, "look into firmware"),
    ],
)
def test_the_remedy_of_missing_cpus_names_what_took_them(changes, words):
    said = judge.all_cpus_online(replace(SEEN, **changes), exactly(1_000))
    assert said.cause == "cpus-missing"
    assert said.remedy.startswith(words)
    assert said.remedy.endswith("; rerun")


def test_what_could_not_be_read_is_left_out_of_the_evidence():
    seen = replace(SEEN, sockets_count=UNSEEN, kernel_words=("nosmt",), smt=UNSEEN)
    said = judge.all_cpus_online(seen, exactly(8))
    assert said.evidence == ("cores: 4", "CPUs present: 8", "kernel's command line: nosmt")
    seen = replace(SEEN, kernel_words=UNSEEN)
    assert "kernel's" not in "".join(judge.all_cpus_online(seen, exactly(8)).evidence)


def test_the_declared_count_comes_before_a_measured_one():
    measured = Expectation(
        check="machine.cpu.count", value=16.0, unit="1", lower_ratio=0.0, upper_ratio=0.0,
        basis="measured", source="a ledger",
    )  # fmt: skip
    (case,) = cases("machine.cpu.count", Hardware(cpus=8), measured)
    assert case.wanted.value == exactly(8)
    assert case.wanted.basis is Basis.DECLARED
    (case,) = cases("machine.cpu.count", None, measured)
    assert case.wanted.value == exactly(16)
    (case,) = cases("machine.cpu.count")
    assert case.wanted == NotDeclared(fact="not declared: hardware.cpus")
    assert judge.all_cpus_online(SEEN, exactly(8)).basis is None


def test_no_count_passes_without_a_number():
    compared = {"online_cpus", "lower", "upper"}
    assert stopped_without("machine.cpu.count", (SEEN,), exactly(8), compared) == compared


# instruction sets


def test_every_declared_instruction_set_must_be_there():
    said = judge.has_instructions(SEEN, ("avx2", "avx512f"))
    assert (said.verdict, said.says) == (Verdict.PASS, "every CPU has avx2, avx512f")
    said = judge.has_instructions(SEEN, ("avx2", "amx_tile", "avx512"))
    assert (said.cause, said.says) == (
        "feature-missing",
        "not every CPU has amx_tile, avx512",
    )
    assert said.observed == {"has": ["avx2"]}
    assert said.expected == {"has": ["avx2", "amx_tile", "avx512"]}
    assert said.evidence == ("flags: avx2 avx512f sse4_2",)
    assert "(clearcpuid=)" in said.remedy
    words = replace(SEEN, kernel_words=("maxcpus=4", "clearcpuid=514"))
    assert "(clearcpuid=514)" in judge.has_instructions(words, ("sve",)).remedy
    unread = replace(SEEN, kernel_words=UNSEEN)
    assert "(clearcpuid=)" in judge.has_instructions(unread, ("sve",)).remedy


def test_flags_that_cannot_be_read_are_unknown():
    said = judge.has_instructions(replace(SEEN, features=UNSEEN), ("avx2",))
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)


def test_instruction_sets_are_compared_where_they_are_declared_alone():
    (case,) = cases("machine.cpu.instructions")
    assert case.wanted == NotDeclared(fact="not declared: hardware.cpu_features")
    (case,) = cases("machine.cpu.instructions", Hardware(cpu_features=("amx_tile",)))
    assert case.wanted.value == ("amx_tile",)
    assert case.wanted.source == "h100-1.toml: hardware.cpu_features"


# governor


@pytest.mark.parametrize(
    ("driver", "governor", "noted"),
    [
        ("intel_pstate", "powersave", False),
        ("amd-pstate-epp", "powersave", False),
        ("amd_pstate_epp", "powersave", False),
        ("intel_cpufreq", "powersave", True),
        ("amd-pstate", "powersave", True),
        ("acpi-cpufreq", "powersave", True),
        ("cppc_cpufreq", "powersave", True),
        ("cpufreq-dt", "powersave", True),
        ("acpi-cpufreq", "schedutil", False),
        ("acpi-cpufreq", "performance", False),
    ],
)
def test_powersave_is_noted_where_it_keeps_cpus_slow(driver, governor, noted):
    row = replace(ROW, driver=same_text(driver), governor=same_text(governor))
    said = judge.governor_as_declared(replace(SEEN, scaling=(row,)), None)
    assert said.verdict is Verdict.PASS
    assert said.says == f"{governor} on 8 CPUs"
    assert (len(said.notes) == 1) is noted
    if noted:
        assert f"powersave under {driver} keeps 8 CPUs" in said.notes[0]
    said = judge.governor_as_declared(replace(SEEN, scaling=(row,)), same_text(governor))
    assert (said.verdict, said.notes) == (Verdict.PASS, ()), "what is declared needs no advice"


@pytest.mark.parametrize(
    ("ratio", "noted"), [(0.25, True), (0.8999, True), (0.9, False), (1.0, False), (UNSEEN, False)]
)
def test_an_upper_limit_well_below_the_hardwares_is_noted(ratio, noted):
    row = replace(ROW, lowest_max_ratio=ratio)
    said = judge.governor_as_declared(replace(SEEN, scaling=(ROW, row)), None)
    assert said.verdict is Verdict.PASS
    assert (len(said.notes) == 1) is noted
    if noted:
        assert f"at {ratio:.0%} of what the hardware can" in said.notes[0]


def test_one_cpu_with_another_governor_than_declared_fails():
    other = replace(ROW, governor="performance", governed_cpus=1, lowest_max_ratio=UNSEEN)
    seen = replace(SEEN, scaling=(replace(other, governed_cpus=7), replace(ROW, governed_cpus=1)))
    said = judge.governor_as_declared(seen, "performance")
    assert said.cause == "governor-not-as-declared"
    assert said.says == "performance on 7 CPUs, powersave on 1 CPUs; performance wanted"
    assert said.observed == {"governors": ["performance", "powersave"]}
    assert said.expected == {"governors": ["performance"]}
    assert "`cpupower frequency-set -g performance`" in said.remedy
    assert said.evidence == (
        "7 CPUs: intel_pstate, performance, upper limit at a part that was not read",
        "1 CPUs: intel_pstate, powersave, upper limit at 100% of the hardware's or more",
    )


def test_a_governor_that_sorts_before_the_declared_one_is_another_as_well():
    said = judge.governor_as_declared(SEEN, "schedutil")
    assert said.says == "powersave on 8 CPUs; schedutil wanted"


def test_a_kernel_that_scales_nothing_makes_it_not_applicable_unless_declared():
    none = replace(SEEN, scaling=())
    assert judge.governor_as_declared(none, None).verdict is Verdict.NOT_APPLICABLE
    said = judge.governor_as_declared(none, "performance")
    assert said.verdict is Verdict.UNKNOWN
    assert said.says.startswith("performance is declared")
    assert "hardware.cpu_governor" in said.remedy


def test_a_governor_that_cannot_be_read_is_no_pass():
    said = judge.governor_as_declared(replace(SEEN, scaling=UNSEEN), None)
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)
    said = judge.governor_as_declared(replace(SEEN, scaling_unread_cpus=1), "powersave")
    assert said.verdict is Verdict.UNKNOWN
    assert said.says == "powersave on 8 CPUs; of 1 CPUs it could not be read"
    said = judge.governor_as_declared(replace(SEEN, scaling_unread_cpus=1), "performance")
    assert said.verdict is Verdict.FAIL, "one that is seen to differ is enough"


def test_an_undeclared_governor_is_judged_by_what_holds_everywhere():
    (case,) = cases("machine.cpu.governor")
    assert (case.wanted.value, case.wanted.basis) == (None, Basis.INVARIANT)
    (case,) = cases("machine.cpu.governor", Hardware(cpu_governor="performance"))
    assert (case.wanted.value, case.wanted.basis) == ("performance", Basis.DECLARED)


# throttling

TEN_HOURS = 36_000.0
TWICE = Bounds(value=1, lower=None, upper=2)


@pytest.mark.parametrize(
    ("count", "up_s", "noted"),
    [
        (0, TEN_HOURS, False),
        (300, TEN_HOURS, False),
        (600, TEN_HOURS, False),
        (601, TEN_HOURS, True),
        (60, 1.0, False),
        (61, 1.0, True),
        (61, 3_600.0, True),
        (61, 3_660.0, False),
    ],
)
def test_throttling_is_a_rate_since_boot_of_at_least_an_hour(count, up_s, noted):
    seen = replace(SEEN, throttles_count=count, up_s=up_s)
    said = judge.seldom_throttled(seen, None)
    assert (said.verdict, bool(said.notes)) == (Verdict.PASS, noted)
    assert said.observed["throttles_count"] == count
    # what somebody measured and accepted makes the same a fail
    said = judge.seldom_throttled(seen, TWICE)
    assert (said.cause == "throttles-often") is noted
    assert said.expected == {"throttles_per_h": 1}
    assert said.notes == ()


def test_what_was_measured_may_be_often_as_well():
    seen = replace(SEEN, throttles_count=2_000, up_s=TEN_HOURS)
    measured = Bounds(value=100, lower=None, upper=200)
    assert judge.seldom_throttled(seen, measured).verdict is Verdict.PASS
    fewer = replace(seen, throttles_count=1_500)
    assert judge.seldom_throttled(fewer, measured).verdict is Verdict.PASS
    assert judge.seldom_throttled(replace(seen, throttles_count=2_001), measured).says == (
        "throttled 200.1 times an hour since boot, 100 when it was measured"
    )
    open_above = Bounds(value=100, lower=0, upper=None)
    assert judge.seldom_throttled(replace(seen, throttles_count=9_000), open_above).verdict is (
        Verdict.PASS
    )


def test_a_kernel_that_counts_nothing_makes_it_not_applicable():
    said = judge.seldom_throttled(replace(SEEN, throttles_count=ABSENT), None)
    assert (said.verdict, said.says) == (Verdict.NOT_APPLICABLE, ABSENT.detail)
    said = judge.seldom_throttled(replace(SEEN, throttles_count=UNSEEN), None)
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)
    said = judge.seldom_throttled(replace(SEEN, up_s=UNSEEN), None)
    assert said.verdict is Verdict.UNKNOWN


def test_a_measured_rate_is_what_it_is_compared_with():
    measured = Expectation(
        check="machine.cpu.throttling", value=1.0, unit="1/h", upper_ratio=1.0, basis="measured",
        source="a ledger",
    )  # fmt: skip
    other = replace(measured, value=5.0)
    (case,) = cases("machine.cpu.throttling", None, measured, other)
    assert case.wanted.value == TWICE
    assert [one.value.value for one in case.others] == [5.0]
    (case,) = cases("machine.cpu.throttling")
    assert (case.wanted.value, case.wanted.basis) == (None, Basis.INVARIANT)


def test_a_rate_is_told_to_a_thousandth():
    seen = replace(SEEN, throttles_count=1, up_s=3 * 3_600.0)
    assert judge.seldom_throttled(seen, None).observed["throttles_per_h"] == 0.333


def test_what_may_be_measured_keeps_a_count_the_same_and_a_rate_below_its_double():
    assert REGISTRY.checks["machine.cpu.count"].measures == Measure(
        quantity="online_cpus", unit="1", lower_ratio=0.0, upper_ratio=0.0
    )
    assert REGISTRY.checks["machine.cpu.throttling"].measures == Measure(
        quantity="throttles_per_h", unit="1/h", upper_ratio=1.0
    )
