"""Whether the processor is the declared one, whole, and may run as fast as it can."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.codec import Json
from checks.core.expectation import Bounds, Case, Expected, NotDeclared
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, not_applicable, not_seen, ok, unknown
from checks.core.judging import (
    always,
    count_case,
    hardware_case,
    measured_wants,
    of_hardware,
    or_always,
    stand_for,
    text_case,
)
from checks.core.registry import Measure, check
from checks.core.verdict import Reason
from checks.machine.facts import (
    Identity,
    Processor,
    Scaling,
)
from checks.machine.judge.identity import NAME, same_text

SELF_SCALING = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers under which the governor `powersave` scales as well: the processor decides by itself
(Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst)."""
LOW_MAX_RATIO = 0.9
"""An upper limit below this ratio of what the hardware can is worth a word (assumed)."""
MANY_PER_HOUR = 60
"""Throttle events: one a minute, on average since boot (assumed)."""
_HOUR_S = 3_600
_TAKES_FLAGS = ("clearcpuid", "noxsave", "arm64.no")
"""Words of the kernel's command line that take instructions away; all others that are kept take CPUs."""


@check(
    "machine.cpu.model",
    sees=Identity,
    cases=lambda expected: text_case(expected, "machine.cpu.model", "cpu_model"),
    measures=NAME,
    premise=("cpu",),
    causes={"not-as-declared": "the processor is another model than the profile says"},
)
def cpu_model_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The processor is the declared model.

    Looks at `model name` of /proc/cpuinfo (on Arm boards `Model`, or implementer and part). Fails
    where the profile's hardware.cpu_model is another; how many spaces stand in it does not matter.
    What to do: check that you are on the box that --host names; after a planned swap of the
    processor, or of the type of virtual machine, correct the profile.
    """
    here = seen.cpu_model
    same = not isinstance(here, Unseen) and here.split() == wanted.split()
    return same_text("cpu model", here, wanted, same=same)


@check(
    "machine.cpu.count",
    sees=Processor,
    cases=lambda expected: (count_case(expected, "machine.cpu.count", "cpus"),),
    measures=Measure(quantity="online_cpus", unit="1", lower_ratio=0.0, upper_ratio=0.0),
    premise=("cpu",),
    causes={
        "cpus-missing": "fewer logical CPUs are online than declared: some are offline, left out by "
        "the kernel's command line or by firmware, or multithreading is off",
        "more-cpus-than-declared": "more logical CPUs are online than were declared or measured",
    },
)
def all_cpus_online(seen: Processor, wanted: Bounds) -> Judgement:
    """All the logical CPUs that are declared are online.

    Looks at /sys/devices/system/cpu/online, and for the cause at present, smt/control and the
    kernel's command line. Fails where more or fewer are online than the profile's hardware.cpus, or
    than somebody has measured.
    What to do: bring CPUs online (`chcpu -e LIST` as root), take maxcpus=, nr_cpus= or nosmt off the
    kernel's command line, or switch multithreading on in firmware; rerun.
    """
    here = seen.online_cpus
    if isinstance(here, Unseen):
        return not_seen("CPUs", here)
    observed = {"online_cpus": here}
    expected = {"online_cpus": wanted.value}
    says = f"{here} logical CPUs online, {wanted.value:.0f} wanted"
    evidence = _about_counts(seen)
    if wanted.lower is not None and not here >= wanted.lower:
        return fail(
            "cpus-missing",
            says,
            remedy=f"{_bring_back(seen, here)}; where it is to be so, {stand_for('cpus')}; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    if wanted.upper is not None and not here <= wanted.upper:
        return fail(
            "more-cpus-than-declared",
            says,
            remedy="check that this is the box that --host names, and whether multithreading is to be "
            f"on (two for each core); where it is to be so, {stand_for('cpus')}; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, evidence=evidence)


def _about_counts(seen: Processor) -> tuple[str, ...]:
    facts = {
        "sockets": seen.sockets_count,
        "cores": seen.cores_count,
        "CPUs present": seen.present_cpus,
        "multithreading": seen.smt,
        "kernel's command line": seen.kernel_words
        if isinstance(seen.kernel_words, Unseen)
        else " ".join(seen.kernel_words),
    }
    return tuple(
        f"{name}: {fact}" for name, fact in facts.items() if fact and not isinstance(fact, Unseen)
    )


def _words(seen: Processor, *, takes_cpus: bool) -> str:
    """Give the words of the kernel's command line that take CPUs away, or else instructions."""
    if isinstance(seen.kernel_words, Unseen):
        return ""
    return " ".join(
        word for word in seen.kernel_words if word.startswith(_TAKES_FLAGS) is not takes_cpus
    )


def _bring_back(seen: Processor, online: int) -> str:
    """Say what brings the missing CPUs back, as far as what was seen tells."""
    words = _words(seen, takes_cpus=True)
    if words:
        return f"take {words} off the kernel's command line and reboot"
    if seen.smt in ("off", "forceoff"):
        return "switch multithreading on (`echo on > /sys/devices/system/cpu/smt/control` as root, or firmware)"
    if not isinstance(seen.present_cpus, Unseen) and seen.present_cpus > online:
        return "bring the offline CPUs online (`lscpu -e` shows them; `chcpu -e LIST` as root)"
    return (
        "look into firmware for disabled sockets, cores or multithreading (on a virtual machine: at "
        "what the hypervisor gives it)"
    )


def _features(expected: Expected) -> Iterator[Case[tuple[str, ...]]]:
    key = "cpu_features"
    value = expected.profile.hardware.cpu_features
    if value is None:
        yield Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
        return
    yield Case(subject=BOX, wanted=of_hardware(expected, key, value))


@check(
    "machine.cpu.instructions",
    sees=Processor,
    cases=_features,
    premise=("cpu",),
    causes={
        "feature-missing": "the kernel shows no such instruction set on every CPU: the hypervisor's "
        "CPU model hides it, firmware or the kernel's command line switches it off, or the "
        "processor has none",
    },
)
def has_instructions(seen: Processor, wanted: tuple[str, ...]) -> Judgement:
    """Every CPU has the instruction sets that are declared.

    Looks at `flags` (on Arm `Features`) of /proc/cpuinfo. Fails where one CPU lacks one of the
    profile's hardware.cpu_features: an engine that was built for it dies with SIGILL, and one that
    was not runs many times slower.
    What to do: give the virtual machine the host's CPU model (host-passthrough), look into firmware
    and for clearcpuid= on the kernel's command line, or update a kernel that is older than the
    instructions; rerun.
    """
    here = seen.features
    if isinstance(here, Unseen):
        return not_seen("instruction sets", here)
    missing = [name for name in wanted if name not in here]
    observed: dict[str, Json] = {"has": [name for name in wanted if name in here]}
    expected: dict[str, Json] = {"has": [*wanted]}
    if not missing:
        return ok(f"every CPU has {', '.join(wanted)}", observed=observed, expected=expected)
    words = _words(seen, takes_cpus=False)
    return fail(
        "feature-missing",
        f"not every CPU has {', '.join(missing)}",
        remedy="on a virtual machine, let the hypervisor pass the host's CPU model through; on bare "
        f"metal, look into firmware, at the kernel's command line ({words or 'clearcpuid='}) and "
        "whether the kernel is older than these instructions; rerun",
        observed=observed,
        expected=expected,
        evidence=(f"flags: {' '.join(here)}",),
    )


def _governor(expected: Expected) -> Iterator[Case[str | None]]:
    case = hardware_case(expected, "machine.cpu.governor", "cpu_governor", str, str)
    yield or_always(case, "no setting has to keep a CPU slow")


@check(
    "machine.cpu.governor",
    sees=Processor,
    cases=_governor,
    premise=("cpu", "kernel"),
    causes={
        "governor-not-as-declared": "the frequency of CPUs is governed otherwise than declared"
    },
)
def governor_as_declared(seen: Processor, wanted: str | None) -> Judgement:
    """The frequency of the CPUs is governed as declared.

    Looks at scaling_driver, scaling_governor, scaling_max_freq and cpuinfo_max_freq of every CPU
    online. Fails where one has another governor than the profile's hardware.cpu_governor. With none
    declared it says where a governor, or an upper limit below 90 % of what the hardware can, keeps
    CPUs slow. `powersave` does so under acpi-cpufreq and cppc_cpufreq, and not where the processor
    scales by itself (intel_pstate, amd-pstate-epp).
    What to do: `cpupower frequency-set -g GOVERNOR` as root, and have it set at boot (tuned, or a
    unit); rerun.
    """
    scaling = seen.scaling
    if isinstance(scaling, Unseen):
        return not_seen("governors", scaling)
    unread = seen.scaling_unread_cpus
    evidence = tuple(
        f"{row.governed_cpus} CPUs: {row.driver}, {row.governor}, upper limit at "
        + (
            "a part that was not read"
            if isinstance(row.lowest_max_ratio, Unseen)
            else f"{row.lowest_max_ratio:.0%} of the hardware's or more"
        )
        for row in scaling
    )
    if not scaling:
        if isinstance(seen.online_cpus, Unseen):
            return not_seen("CPUs", seen.online_cpus)
        if wanted is None:
            return not_applicable("the kernel scales no frequency here")
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{wanted} is declared, and the kernel scales no frequency here",
            remedy="take hardware.cpu_governor out of the profile of a virtual machine; on bare "
            "metal load the driver (acpi_cpufreq), or let firmware leave scaling to the kernel; rerun",
        )
    observed: dict[str, Json] = {"governors": [*sorted({row.governor for row in scaling})]}
    expected: dict[str, Json] = {} if wanted is None else {"governors": [wanted]}
    says = ", ".join(f"{row.governor} on {row.governed_cpus} CPUs" for row in scaling)
    if wanted is not None and any(row.governor != wanted for row in scaling):
        return fail(
            "governor-not-as-declared",
            f"{says}; {wanted} wanted",
            remedy=f"`cpupower frequency-set -g {wanted}` as root, have it set at boot as well "
            "(tuned, or a unit), and rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    if unread:
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{says}; of {unread} CPUs it could not be read",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    notes = tuple(note for row in scaling for note in _slow(row, wanted))
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


def _slow(row: Scaling, wanted: str | None) -> Iterator[str]:
    """Say what keeps CPUs slow that nobody has declared."""
    if row.governor == "powersave" and row.driver not in SELF_SCALING and wanted is None:
        yield (
            f"powersave under {row.driver} keeps {row.governed_cpus} CPUs at their lowest frequency; "
            "`cpupower frequency-set -g performance` (or schedutil) as root lets them run"
        )
    ratio = row.lowest_max_ratio
    if not isinstance(ratio, Unseen) and ratio < LOW_MAX_RATIO:
        yield (
            f"a CPU may run at {ratio:.0%} of what the hardware can at most: look at "
            "scaling_max_freq, at what sets it (tuned, cpupower, firmware's power limit), and at "
            "cooling"
        )


def _throttling(expected: Expected) -> Iterator[Case[Bounds | None]]:
    measured = measured_wants(expected, "machine.cpu.throttling", lambda entry: entry.bounds)
    if measured:
        yield Case(subject=BOX, wanted=measured[0], others=tuple(measured[1:]))
    else:
        yield Case(subject=BOX, wanted=always("how often is too often, nobody has measured here"))


@check(
    "machine.cpu.throttling",
    sees=Processor,
    cases=_throttling,
    measures=Measure(quantity="throttles_per_h", unit="1/h", upper_ratio=1.0),
    premise=("cpu", "board"),
    causes={
        "throttles-often": "heat slows the processor down more often than it did when somebody "
        "measured it",
    },
)
def seldom_throttled(seen: Processor, wanted: Bounds | None) -> Judgement:
    """Heat does not slow the processor down all the time.

    Looks at the counters of x86 (thermal_throttle/*_throttle_count) of the CPU that counts most,
    for each hour since boot and of at least one. Fails where that is more than the double of what
    was measured and accepted, and more than 60; without a measurement it says so above 60.
    What to do: look at fans, air flow, heat sinks and the temperature of the room (`ipmitool sdr`,
    `sensors`), and at power limits in firmware; reboot, which sets the counters back, and rerun.
    """
    count, up_s = seen.throttles_count, seen.up_s
    if isinstance(count, Unseen):
        if count.reason is Blind.ABSENT and not isinstance(seen.online_cpus, Unseen):
            return not_applicable(count.detail)
        return not_seen("throttling", count)
    if isinstance(up_s, Unseen):
        return not_seen("time since boot", up_s)
    # a burst in the first minutes is no rate
    per_h = round(count / max(up_s / _HOUR_S, 1.0), 3)
    says = f"throttled {per_h:g} times an hour since boot"
    observed = {"throttles_per_h": per_h, "throttles_count": count}
    expected = {} if wanted is None else {"throttles_per_h": wanted.value}
    if per_h <= MANY_PER_HOUR:
        return ok(says, observed=observed, expected=expected)
    if wanted is not None and wanted.upper is not None and not per_h <= wanted.upper:
        return fail(
            "throttles-often",
            f"{says}, {wanted.value:g} when it was measured",
            remedy="look at fans, air flow, heat sinks and the room (`ipmitool sdr`, `sensors`), "
            "and at power limits in firmware; reboot, which sets the counters back, and rerun",
            observed=observed,
            expected=expected,
        )
    note = (
        f"heat slows this processor down {per_h:.0f} times an hour: look at fans, air flow and "
        "power limits in firmware"
    )
    notes = (note,) if wanted is None else ()
    return ok(says, observed=observed, expected=expected, notes=notes)
