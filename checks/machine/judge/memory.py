"""Whether all the memory is there, and enough of it free."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.core.expectation import Case, Expectation, Expected, NotDeclared
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.judging import hardware_case, if_recorded, of_hardware, stand_for
from checks.core.registry import Measure, check
from checks.core.units import bytes_text
from checks.core.verdict import Reason
from checks.machine.facts import (
    Identity,
    Memory,
    MemoryAvailableWanted,
    MemoryGroups,
    MemoryWanted,
)

MEMORY_TOLERANCE_RATIO = 0.03
MEASURED_TOLERANCE_RATIO = 0.015
"""Between kernels, and with other reservations on its command line, MemTotal of the same modules
differs by less than this (assumed)."""
KERNEL_RESERVE_BYTES = 600 * 2**20
"""What a kernel may keep of a small machine's memory; no memory module is this small (assumed)."""
_TAKES_MEMORY = re.compile(r"(mem|memmap|crashkernel)=").match
FITTED_TOLERANCE_RATIO = 0.005
"""What firmware may keep for itself; the most that is known is 16 bytes for each 4 KiB, the table
of page owners of AMD's SEV-SNP (AMD64 Architecture Programmer's Manual, volume 2, 15.36.3)."""
FITTED_TOLERANCE_BYTES = 4 * 2**30
"""Two of the largest memory blocks of x86 (2 GiB, MAX_BLOCK_SIZE of arch/x86/mm/init_64.c)."""


GIVE_BACK = (
    "give them back (`sysctl vm.nr_hugepages=0` as root, for other sizes write 0 to nr_hugepages in "
    "/sys/kernel/mm/hugepages/; take `hugepages=` out of the kernel command line)"
)
ABOVE_UNSEEN = "cgroups above the mounted root may limit further; they cannot be seen here"


def group_lines(groups: MemoryGroups) -> tuple[str, ...]:
    """Show what each level of the cgroups says."""
    return tuple(
        f"{limit.source}: {bytes_text(limit.limit_bytes)}, {bytes_text(limit.used_bytes)} used, "
        f"{bytes_text(limit.file_bytes)} of it cached files"
        for limit in groups.limits
    )


def _memory_total(expected: Expected) -> Iterator[Case[MemoryWanted]]:
    ratio = expected.profile.hardware.memory_tolerance_ratio

    def declared(total: int) -> MemoryWanted:
        nominal = max(total * MEMORY_TOLERANCE_RATIO, KERNEL_RESERVE_BYTES)
        slack = nominal if ratio is None else total * ratio
        return MemoryWanted(
            value=total,
            lower=total - slack,
            upper=total + slack,
            # who gives a tolerance has a reason, which holds of the modules as well
            fitted_bytes=total if ratio is None else None,
        )

    def measured(entry: Expectation) -> MemoryWanted:
        bounds = entry.bounds
        return MemoryWanted(
            value=bounds.value, lower=bounds.lower, upper=bounds.upper, fitted_bytes=None
        )

    name = "machine.memory.total"
    yield hardware_case(expected, name, "memory_total_bytes", declared, measured)


@check(
    "machine.memory.total",
    sees=(Memory, Identity),
    cases=_memory_total,
    measures=Measure(
        quantity="memory_total_bytes",
        unit="By",
        lower_ratio=-MEASURED_TOLERANCE_RATIO,
        upper_ratio=MEASURED_TOLERANCE_RATIO,
        bound="memory_fitted_bytes",
    ),
    premise=("memory",),
    causes={
        "less-memory-than-declared": "memory is missing: a module that is dead, unseated, or left "
        "out, or a limit in firmware or on the kernel command line",
        "more-memory-than-declared": "the box has more memory than was declared or measured",
    },
)
def memory_total_as_declared(seen: Memory, box: Identity, wanted: MemoryWanted) -> Judgement:
    """All the memory that is declared is there.

    Looks at MemTotal of /proc/meminfo and at the kernel's memory blocks in sysfs. Fails where
    MemTotal is off the profile's hardware.memory_total_bytes, or off a measured number, by more
    than the tolerance: hardware.memory_tolerance_ratio, or 3 % and at least 600 MiB, since the
    kernel keeps some back. It keeps none of the memory blocks back: on bare metal these may fall
    short by 0.5 % and at least 4 GiB, so that one module of many is missed as well.
    What of the kernel's command line takes memory away (mem=, memmap=, crashkernel=) is named.
    What to do: look for the missing module in the board's own log (`ipmitool sel list`,
    `dmidecode -t memory` as root), reseat or replace it, rerun.
    """
    observed = {"memory_total_bytes": seen.total_bytes}
    expected = {
        "memory_total_bytes": wanted.value,
        "memory_min_bytes": wanted.lower,
        "memory_max_bytes": wanted.upper,
    }
    says = f"{bytes_text(seen.total_bytes)} of memory, {bytes_text(wanted.value)} wanted"
    missing = wanted.lower is not None and not seen.total_bytes >= wanted.lower
    nominal = wanted.fitted_bytes
    # a hypervisor gives what it likes, and not always all that a price list says
    if nominal is not None and not missing and box.hypervisor == "none":
        fitted = seen.fitted_bytes
        if not isinstance(fitted, Unseen):
            slack = max(nominal * FITTED_TOLERANCE_RATIO, FITTED_TOLERANCE_BYTES)
            observed["memory_fitted_bytes"] = fitted
            expected["memory_fitted_min_bytes"] = nominal - slack
            if not fitted >= nominal - slack:
                missing = True
                says = f"{bytes_text(fitted)} of memory fitted, {bytes_text(nominal)} wanted"
    if missing:
        return fail(
            "less-memory-than-declared",
            says,
            remedy="find the missing module (`dmidecode -t memory` as root, the board's event "
            "log), reseat or replace it (on a virtual machine: what the hypervisor gives it); where "
            f"it was taken out on purpose, {stand_for('memory_total_bytes')}; rerun",
            observed=observed,
            expected=expected,
            notes=_reserved(seen),
            evidence=_limited_by(seen),
        )
    if wanted.upper is not None and not seen.total_bytes <= wanted.upper:
        return fail(
            "more-memory-than-declared",
            says,
            remedy="check that this is the box that --host names; where it was put in on purpose, "
            f"{stand_for('memory_total_bytes')}; rerun",
            observed=observed,
            expected=expected,
        )
    return ok(says, observed=observed, expected=expected)


UNUSED_RATIO = 0.1
"""Share of the memory that may lie unused in huge pages without a note (assumed)."""


def _limited_by(seen: Memory) -> tuple[str, ...]:
    words = if_recorded(lambda: seen.limited_by)
    return () if isinstance(words, Unseen) or not words else (f"/proc/cmdline: {' '.join(words)}",)


def _reserved(seen: Memory) -> tuple[str, ...]:
    """Say what of the kernel's command line takes memory away."""
    words = if_recorded(lambda: seen.limited_by)
    taking = () if isinstance(words, Unseen) else tuple(filter(_TAKES_MEMORY, words))
    if not taking:
        return ()
    note = (
        f"{' '.join(taking)} on the kernel's command line leaves memory unused; if that is not "
        "wanted, take it out in /etc/default/grub, run update-grub, reboot"
    )
    return (note,)


def _memory_available(expected: Expected) -> Iterator[Case[MemoryAvailableWanted]]:
    key = "memory_available_min_bytes"
    value = getattr(expected.profile.hardware, key)
    if value is None:
        yield Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
        return
    reserved = expected.profile.reserved.memory_bytes
    wanted = MemoryAvailableWanted(min_bytes=value, reserved_bytes=reserved)
    yield Case(subject=BOX, wanted=of_hardware(expected, key, wanted))


@check(
    "machine.memory.available",
    sees=Memory,
    cases=_memory_available,
    blocked_by=("machine.memory.total",),
    causes={
        "memory-in-use": "something holds memory that this box's work needs",
        "memory-in-huge-pages": "memory that this box's work needs is set aside as huge pages, which "
        "nobody uses and which serve for nothing else",
        "memory-reserved": "enough is free for this box's work, but not beside what its profile keeps "
        "for others",
        "memory-limited": "a cgroup leaves the suite, and what is started from where it runs, less "
        "memory than this box's work needs",
    },
)
def memory_available(seen: Memory, wanted: MemoryAvailableWanted) -> Judgement:
    """Enough memory is free for what the box is for.

    Looks at MemAvailable of /proc/meminfo: what can be had without swapping; at the huge pages that
    are set aside and unused, which it does not count; and at the memory limits of the cgroups that
    the suite runs in, less what is used there and is no cached file.
    Fails where MemAvailable, less the profile's reserved.memory_bytes, or one of these cgroups is
    below the profile's hardware.memory_available_min_bytes.
    What to do: find what holds it (`ps aux --sort -rss | head`) and stop it, give back huge pages
    that nobody uses (`sysctl vm.nr_hugepages=0` as root), or raise the limit of the container or
    unit; rerun.
    """
    least, reserved = wanted.min_bytes, wanted.reserved_bytes
    needed = least + reserved
    says = f"{bytes_text(seen.available_bytes)} available, {bytes_text(least)} wanted"
    observed = {"memory_available_bytes": seen.available_bytes}
    expected = {"memory_available_min_bytes": least}
    if reserved:
        says += f" beside {bytes_text(reserved)} kept for others"
        expected["memory_reserved_bytes"] = reserved
    pages = if_recorded(lambda: seen.huge_pages)
    idle = 0 if isinstance(pages, Unseen) else pages.unused_bytes
    set_aside = f"{bytes_text(idle)} are set aside as huge pages that nobody uses"
    if idle:
        observed["memory_unused_huge_pages_bytes"] = idle
    if not seen.available_bytes >= needed:
        cause, remedy = "memory-in-use", "find what holds it (`ps aux --sort -rss | head`), stop it"
        if seen.available_bytes + idle >= needed:
            cause, remedy = "memory-in-huge-pages", GIVE_BACK
            says += f"; {set_aside}"
        elif seen.available_bytes >= least:
            cause = "memory-reserved"
            remedy += ", or lower reserved.memory_bytes in the profile if it is in use by those "
            remedy += "that it is kept for"
        return fail(cause, says, remedy=f"{remedy}; rerun", observed=observed, expected=expected)
    notes: tuple[str, ...] = ()
    if idle > seen.total_bytes * UNUSED_RATIO:
        notes = (f"{set_aside}; if nothing will, {GIVE_BACK}",)
    groups = if_recorded(lambda: seen.groups)
    if isinstance(groups, Unseen):
        if groups.reason is Blind.NOT_RECORDED:
            note = f"whether a cgroup limits memory was not seen: {groups}"
            return ok(says, observed=observed, expected=expected, notes=(*notes, note))
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{says}; whether a cgroup leaves less was not seen: {groups}",
            remedy=groups.remedy,
            observed=observed,
            expected=expected,
            unseen=groups,
        )
    evidence = group_lines(groups)
    if groups.above_unseen:
        notes += (ABOVE_UNSEEN,)
    if groups.limits:
        tight = groups.limits[0]
        observed["memory_group_left_bytes"] = tight.left_bytes
        if not tight.left_bytes >= least:
            return fail(
                "memory-limited",
                f"{bytes_text(tight.left_bytes)} left by {tight.source}, {bytes_text(least)} wanted",
                remedy=f"raise the limit {tight.source} (`docker run --memory`, `resources.limits` "
                "of the pod, `MemoryMax=` of the unit), stop what else uses memory in that cgroup, "
                "or run the suite where the work will run; rerun",
                observed=observed,
                expected=expected,
                notes=notes,
                evidence=evidence,
            )
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)
