"""Whether this is the machine that the profile means."""

from __future__ import annotations

from checks.core.facts import Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.judging import stand_for, text_case
from checks.core.registry import Measure, check
from checks.core.verdict import Reason
from checks.machine.facts import (
    Identity,
)

NAME = Measure(quantity="name", unit="")
"""A name that was seen may be accepted; it has to be the same again."""


def same_text(what: str, seen: str | Unseen, wanted: str, *, same: bool) -> Judgement:
    """Judge a name that has to be the same."""
    if isinstance(seen, Unseen):
        says = f"{what} not seen: {seen}"
        return unknown(Reason.NOT_OBSERVABLE, says, remedy=seen.remedy, unseen=seen)
    if same:
        return ok(f"{what} is {seen}", observed={"name": seen}, expected={"name": wanted})
    return fail(
        "not-as-declared",
        f"{what} is {seen}, expected is {wanted}",
        remedy=f"if this is the right box, {stand_for()}; if not, run with "
        f"--host of the box that you are on; rerun and see {what} pass",
        observed={"name": seen},
        expected={"name": wanted},
    )


@check(
    "machine.identity.architecture",
    sees=Identity,
    cases=lambda expected: text_case(expected, "machine.identity.architecture", "architecture"),
    measures=NAME,
    premise=("board",),
    causes={"not-as-declared": "the box has another processor architecture than its profile says"},
)
def architecture_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The processor architecture is the declared one.

    Looks at `uname -m`. Fails where the profile's hardware.architecture names another.
    What to do: check that you are on the box that --host names.
    """
    here = seen.architecture
    return same_text("architecture", here, wanted, same=here == wanted)


@check(
    "machine.identity.product",
    sees=Identity,
    cases=lambda expected: text_case(expected, "machine.identity.product", "product_name"),
    measures=NAME,
    premise=("board",),
    causes={
        "not-as-declared": "the system board calls itself something else than the profile says"
    },
)
def product_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The system board is the declared product.

    Looks at /sys/class/dmi/id/product_name (no root needed). Fails where the profile's
    hardware.product_name is another. What to do: check that you are on the box that --host names;
    after a planned swap of the board, correct the profile.
    """
    here = seen.product_name
    return same_text("product", here, wanted, same=here == wanted)


@check(
    "machine.identity.virtualization",
    sees=Identity,
    cases=lambda expected: text_case(expected, "machine.identity.virtualization", "virtualization"),
    measures=NAME,
    premise=("board",),
    causes={"not-as-declared": "the box runs on another hypervisor, or on none, than declared"},
)
def virtualization_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The box is the declared kind of machine: bare metal, or a virtual machine.

    Looks at the CPU's hypervisor flag, DMI names and /sys/hypervisor. `vm` in the profile's
    hardware.virtualization fits every hypervisor, `none` fits bare metal alone. Fails where they
    differ: numbers measured on bare metal mean nothing in a virtual machine.
    What to do: check that you are on the box that --host names.
    """
    here = seen.hypervisor
    any_vm = wanted == "vm" and here != "none"
    return same_text("virtualization", here, wanted, same=here == wanted or any_vm)


@check(
    "machine.identity.container",
    sees=Identity,
    cases=lambda expected: text_case(expected, "machine.identity.container", "container"),
    measures=NAME,
    premise=("container",),
    causes={"not-as-declared": "the suite runs in another kind of container, or in none"},
)
def container_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The suite runs in the declared kind of container, or in none.

    Looks at /.dockerenv, /run/.containerenv, the environment and the cgroup paths. `any` in the
    profile's hardware.container fits every kind, `none` fits only the host itself. Fails where
    they differ: limits that are read inside a container are not the host's.
    What to do: run the suite where the profile says, or correct hardware.container.
    """
    here = seen.container
    any_kind = wanted == "any" and here != "none"
    return same_text("container", here, wanted, same=here == wanted or any_kind)
