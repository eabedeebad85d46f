"""Whether the kernel was started as declared, and has the declared drivers."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.codec import Json
from checks.core.expectation import Case, Expected, NotDeclared
from checks.core.facts import BOX, Unseen
from checks.core.finding import Judgement, fail, not_seen, ok, unknown
from checks.core.judging import of_hardware
from checks.core.redact import HIDDEN
from checks.core.registry import check
from checks.core.verdict import Reason
from checks.machine.facts import DRIVERS, Kernel


def _names(expected: Expected, key: str) -> Iterator[Case[tuple[str, ...]]]:
    declared = getattr(expected.profile.hardware, key)
    if declared:
        yield Case(subject=BOX, wanted=of_hardware(expected, key, declared))
    else:
        yield Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))


def _parts(parameter: str) -> tuple[str, str, str]:
    """Split a parameter; in its name the kernel takes `-` for `_`, and it takes quotes away."""
    name, equals, value = parameter.replace('"', "").partition("=")
    return name.replace("-", "_"), equals, value


@check(
    "machine.kernel.parameters",
    sees=Kernel,
    cases=lambda expected: _names(expected, "kernel_parameters"),
    premise=("settings",),
    causes={"parameter-missing": "the kernel was started without a parameter that this box needs"},
)
def kernel_parameters_as_declared(seen: Kernel, wanted: tuple[str, ...]) -> Judgement:
    """The kernel was started with the declared parameters.

    Looks at /proc/cmdline, as far as the kernel itself reads it. Fails where one of the profile's
    hardware.kernel_parameters is not on it, with the same value. A parameter that stands there twice
    with different values is noted: of most, the last one counts.
    What to do: add it to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub (or grub2-mkconfig,
    or grubby), reboot, and look at `cat /proc/cmdline`.
    """
    if isinstance(seen.parameters, Unseen):
        return not_seen("the kernel's command line was", seen.parameters)
    here = [_parts(word) for word in seen.parameters]
    # a value that is hidden because it may be a secret says nothing, also where both are
    missing = [text for text in wanted if HIDDEN in text or _parts(text) not in here]
    hidden = [
        text
        for text in missing
        if any(name == _parts(text)[0] and HIDDEN in value for name, _, value in here)
    ]
    evidence = (f"/proc/cmdline: {' '.join(seen.parameters)}",)
    observed: dict[str, Json] = {"parameters": [text for text in wanted if text not in missing]}
    expected: dict[str, Json] = {"parameters": list(wanted)}
    gone = [text for text in missing if text not in hidden]
    if gone:
        others = [
            f"{name}{equals}{value}"
            for name, equals, value in here
            if name in {_parts(text)[0] for text in gone}
        ]
        instead = f" (there is {', '.join(others)})" if others else ""
        return fail(
            "parameter-missing",
            f"not on the kernel's command line: {', '.join(gone)}{instead}",
            remedy=f"add `{' '.join(gone)}` to GRUB_CMDLINE_LINUX in /etc/default/grub, run "
            "update-grub (or grub2-mkconfig, or grubby --update-kernel=ALL --args=…), reboot, and rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    if hidden:
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"the values of {', '.join(_parts(text)[0] for text in hidden)} are hidden in what is kept",
            remedy="compare them with `cat /proc/cmdline` by hand",
            observed=observed,
            expected=expected,
        )
    parts = [_parts(text) for text in wanted]
    notes = tuple(
        f"{name} stands on the command line with other values as well: {', '.join(sorted(values))}"
        for name in dict.fromkeys(name for name, _, _ in parts)
        if (values := {part[2] for part in here if part[0] == name and part not in parts})
    )
    says = f"the kernel was started with {', '.join(wanted)}"
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


@check(
    "machine.kernel.modules",
    sees=Kernel,
    cases=lambda expected: _names(expected, "kernel_modules"),
    premise=("kernel", "driver"),
    causes={"module-missing": "a driver that this box needs is not loaded"},
)
def kernel_modules_loaded(seen: Kernel, wanted: tuple[str, ...]) -> Judgement:
    """The declared kernel modules are loaded.

    Looks at /sys/module, and at modules.builtin of the running kernel for those that are a part of it.
    Fails where one of the profile's hardware.kernel_modules is neither loaded nor built in. That
    nvidia and nouveau both hold devices is noted: a box may have an old card for its screen beside
    the ones that work.
    What to do: `modprobe NAME` as root and look at `dmesg`; after a new kernel, build the driver for
    it (`dkms status`); a name in /etc/modules-load.d loads it at every boot.
    """
    if isinstance(seen.modules, Unseen):
        return not_seen("the loaded modules were", seen.modules)
    built_in = () if isinstance(seen.built_in, Unseen) else seen.built_in
    here = {*seen.modules, *built_in}
    missing = [name for name in wanted if name.replace("-", "_") not in here]
    if isinstance(seen.built_in, Unseen):
        # these have parameters or a version, so sysfs lists them even where they are built in
        certain = [name for name in missing if DRIVERS.fullmatch(name.replace("-", "_"))]
    else:
        certain = missing
    evidence = tuple(
        f"{driver.name} {driver.version if isinstance(driver.version, str) else ''}".strip()
        + f": {driver.devices_count} devices"
        for driver in seen.drivers
    )
    observed: dict[str, Json] = {"modules": [name for name in wanted if name not in missing]}
    expected: dict[str, Json] = {"modules": list(wanted)}
    if certain:
        return fail(
            "module-missing",
            f"not loaded: {', '.join(certain)}",
            remedy=f"`modprobe {certain[0]}` as root and look at `dmesg`; if there is no such module, "
            "install the driver for this kernel (`dkms status`, `uname -r`); rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    if missing:
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{', '.join(missing)}: not loaded, and whether the kernel has it built in was not seen: "
            f"{seen.built_in}",
            remedy="run on the host itself, where /lib/modules is",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    holding = {
        driver.name
        for driver in seen.drivers
        if driver.devices_count and not isinstance(driver.devices_count, Unseen)
    }
    notes = (
        ("nouveau and nvidia both hold devices: a card that nouveau holds cannot compute",)
        if "nouveau" in holding and "nvidia" in holding
        else ()
    )
    says = f"loaded: {', '.join(wanted)}"
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)
