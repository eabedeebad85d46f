"""Whether all GPUs are there, and a driver holds each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from checks.core.expectation import Basis, Bounds, Case, Expected, Wanted
from checks.core.facts import BOX, Unseen
from checks.core.finding import Judgement, fail, not_seen, ok, unknown
from checks.core.judging import count_case, stand_for
from checks.core.registry import Measure, check
from checks.core.verdict import Reason
from checks.machine.facts import (
    Gpu,
    Gpus,
    Identity,
)

MODULES = {"nvidia": "nvidia", "amd": "amdgpu"}
"""Which driver a vendor's GPUs work with."""
_SPEAKS_AS = {"nvidia": "nvrm", "amd": "amdgpu"}
"""How the lines of that driver in the kernel's log begin."""


def _held(gpu: Gpu) -> bool:
    """Whether something uses it that it is good for: its own driver, or a virtual machine."""
    return gpu.lent or gpu.driver not in ("none", "nouveau")


def _drivers(expected: Expected) -> Iterator[Case[int | None]]:
    rule = "a GPU whose driver is loaded is held by it"
    count = expected.profile.hardware.gpus or None
    if count:
        rule += f", and so are those of {expected.profile_file}: hardware.gpus"
    # that a driver holds a GPU is good whoever stands for their number
    wanted: Wanted[int | None] = Wanted(value=count, basis=Basis.INVARIANT, source=rule)
    yield Case(subject=BOX, wanted=wanted)


@check(
    "machine.devices.driver",
    sees=Gpus,
    cases=_drivers,
    premise=("gpu", "driver"),
    finds="no GPU of NVIDIA or AMD on the PCI bus",
    causes={
        "no-driver": "the vendor's driver is loaded and does not hold this GPU: it failed when the "
        "driver took it up, and no list of the driver's shows it",
        "no-module": "the profile declares GPUs, and the driver of this one is not loaded",
        "nouveau-holds": "the profile declares GPUs, and nouveau holds this one: it cannot compute",
    },
)
def driver_holds_each_gpu(seen: Gpus, wanted: int | None) -> dict[str, Judgement]:
    """A driver holds each GPU on the PCI bus.

    Looks at /sys/bus/pci/devices/ADDRESS/driver and at the modules that the kernel has loaded.
    Fails where none holds a GPU although the vendor's module is loaded: that GPU is in no list, and
    raises no error that a tool would show. Where the profile declares hardware.gpus, and too few
    are held, it fails as well where the module is not loaded, or nouveau holds the GPU. One that is
    kept for a virtual machine (vfio-pci), or integrated into the processor, only gets a note.
    What to do: read what the driver said (`dmesg | grep -iE 'nvrm|nvidia|amdgpu'` as root), reseat
    the card and its power, or load the driver (`modprobe nvidia`); rerun.
    """
    short = wanted is not None and sum(map(_held, seen.gpus)) < wanted
    enough = wanted is not None and not short
    integrated_only = all(gpu.integrated for gpu in seen.gpus)
    return {
        gpu.address: replace(
            _driver(
                seen, gpu, short=short, spare=enough or (gpu.integrated and not integrated_only)
            ),
            premise=(f"gpu[{gpu.address}]", "driver"),
        )
        for gpu in seen.gpus
    }


def _driver(seen: Gpus, gpu: Gpu, *, short: bool, spare: bool) -> Judgement:
    driver, module = gpu.driver, MODULES[gpu.vendor]
    if isinstance(driver, Unseen):
        return not_seen("driver", driver)
    observed = {"driver": driver}
    expected = {"driver": module}
    look = f"`dmesg | grep -i {_SPEAKS_AS[gpu.vendor]}` as root"
    notes = tuple(_numa_notes(seen, gpu))
    if gpu.lent:
        keeper = driver if driver != "none" else gpu.driver_override
        notes = (f"kept for a virtual machine by {keeper}: nothing of this host can use it",)
        return ok(f"kept for a virtual machine by {keeper}", observed=observed, notes=notes)
    if driver == "nouveau":
        if short:
            return fail(
                "nouveau-holds",
                "held by nouveau, with which it cannot compute",
                remedy="install NVIDIA's driver, keep nouveau away (`blacklist nouveau` in "
                "/etc/modprobe.d, new initramfs), reboot, and rerun",
                observed=observed,
                expected=expected,
            )
        notes = ("nouveau holds it, with which it shows pictures and cannot compute", *notes)
    if driver != "none":
        return ok(f"held by {driver}", observed=observed, notes=notes)
    if isinstance(seen.modules, Unseen):
        what = "no driver holds it, and whether one is loaded was"
        return not_seen(what, seen.modules, observed=observed)
    loaded = module in seen.modules
    if loaded and not spare:
        return fail(
            "no-driver",
            f"no driver holds it, though {module} is loaded",
            remedy=f"read what the driver said of it ({look}); reseat the card and its power, update "
            "its firmware or the driver, or replace it; reboot, and rerun",
            observed=observed,
            expected=expected,
        )
    if not loaded and short and not spare:
        return fail(
            "no-module",
            f"no driver holds it: {module} is not loaded",
            remedy=f"`modprobe {module}` as root, and read what it says ({look}); where it is not "
            "there, install the driver for the running kernel (`dkms status`); rerun",
            observed=observed,
            expected=expected,
        )
    why = f"though {module} is loaded" if loaded else f"{module} is not loaded"
    note = f"no driver holds it ({why}), so nothing can use it; that is right if nothing has to"
    return ok("no driver holds it", observed=observed, notes=(note, *notes))


def _numa_notes(seen: Gpus, gpu: Gpu) -> Iterator[str]:
    nodes = seen.cpu_nodes_count
    if gpu.numa_node == "-1" and not isinstance(nodes, Unseen) and nodes > 1:
        yield (
            f"firmware does not say which of the {nodes} NUMA nodes it is near to, so what is pinned "
            "by that is pinned anywhere; update it, or pin by hand (`nvidia-smi topo -m`)"
        )


@check(
    "machine.devices.gpus",
    sees=(Gpus, Identity),
    cases=lambda expected: (count_case(expected, "machine.devices.gpus", "gpus"),),
    measures=Measure(quantity="gpus_count", unit="1", lower_ratio=0.0, upper_ratio=0.0),
    # not on the cards: one that is gone must be missed, and is no other premise
    premise=("board",),
    causes={
        "gpus-missing": "fewer GPUs than declared are on the PCI bus, or in the list of their driver",
        "more-gpus-than-declared": "the box has more GPUs than were declared or measured",
    },
)
def all_gpus_there(seen: Gpus, box: Identity, wanted: Bounds) -> Judgement:
    """All the GPUs that are declared are there.

    Looks at the PCI bus, which shows a container all GPUs of its host, and on the host itself at
    the list of NVIDIA's driver (/proc/driver/nvidia/gpus). Fails where either has fewer than the
    profile's hardware.gpus, or than somebody has measured, or where more are in use. One that is
    integrated into the processor, or that no driver holds, may be left out of the number. WSL and
    Tegra show their GPUs on no bus: that cannot be told here.
    What to do: look for it with `lspci -d 10de:` (or 1002:) and in the board's log (`ipmitool sel
    list`); reseat the card, its riser and its power; reboot, and rerun.
    """
    count = len(seen.gpus)
    observed = {"gpus_count": count}
    expected = {"gpus_count": wanted.value}
    evidence = tuple(f"{gpu.address}: {gpu.vendor}, driver {gpu.driver}" for gpu in seen.gpus)
    says = f"{count} GPUs on the PCI bus, {wanted.value:.0f} wanted"
    if wanted.lower is not None and not count >= wanted.lower:
        if seen.outside_pci:
            return unknown(
                Reason.NOT_OBSERVABLE,
                f"{says}; {seen.outside_pci[0]} stands for others, which no bus shows",
                remedy="count them with the vendor's own tool (WSL: nvidia-smi; Tegra: tegrastats), "
                "and take hardware.gpus out of the profile",
                observed=observed,
                expected=expected,
            )
        return fail(
            "gpus-missing",
            says,
            remedy="look for it with `lspci -d 10de:` (AMD: 1002:) and in the board's log (`ipmitool "
            "sel list`); reseat the card, its riser and its power (on a virtual machine: look at "
            "what the hypervisor passes through) and reboot; where it was taken out on purpose, "
            f"{stand_for('gpus')}; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    inside = box.container != "none"
    unlisted = () if inside else _unlisted(seen)
    usable = count - len(unlisted)
    if wanted.lower is not None and not usable >= wanted.lower:
        return fail(
            "gpus-missing",
            f"{usable} of the {count} GPUs on the PCI bus are in use by their driver, "
            f"{wanted.value:.0f} wanted",
            remedy=f"NVIDIA's driver does not list {', '.join(unlisted)}: read what it said "
            "(`dmesg | grep -i nvrm` as root), see machine.devices.driver, mend that, and rerun",
            observed={**observed, "usable_count": usable},
            expected=expected,
            evidence=evidence,
        )
    sure = sum(_held(gpu) and not gpu.integrated for gpu in seen.gpus)
    if wanted.upper is not None and not sure <= wanted.upper:
        return fail(
            "more-gpus-than-declared",
            says,
            remedy="check that this is the box that --host names; where it was put in on purpose, "
            f"{stand_for('gpus')}; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    notes: tuple[str, ...] = ()
    if wanted.upper is not None and count > wanted.upper:
        spare = [gpu.address for gpu in seen.gpus if gpu.integrated or not _held(gpu)]
        notes = (f"not counted, for they are integrated or unused: {', '.join(spare)}",)
    if inside:
        notes += ("these are the GPUs of the host; this container may have been given fewer",)
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


def _unlisted(seen: Gpus) -> tuple[str, ...]:
    """Find what NVIDIA's driver, where it is loaded, does not list although it should."""
    if isinstance(seen.nvidia_listed, Unseen):
        return ()
    return tuple(
        gpu.address
        for gpu in seen.of("nvidia")
        if gpu.driver in ("nvidia", "none")
        and not gpu.lent
        and gpu.address not in seen.nvidia_listed
    )
