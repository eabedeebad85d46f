"""A box as declared, and another one."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.facts import (
    Identity,
)

_NONE = Unseen(Blind.ABSENT, "planted")

IDENTITY = Identity(
    host_name="planted",
    architecture="x86_64",
    kernel_release="6.8.0",
    os_name="planted",
    machine_id=_NONE,
    product_vendor="planted",
    product_name="PowerEdge XE9680",
    board_name="planted",
    board_serial=_NONE,
    product_uuid=_NONE,
    cpu_model="planted",
    hypervisor="none",
    container="none",
    evidence=(),
)

_AS_DECLARED = (
    ("machine.identity.architecture", "x86_64", "aarch64"),
    ("machine.identity.product", "PowerEdge XE9680", "PowerEdge XE9640"),
    ("machine.identity.virtualization", "none", "kvm"),
    ("machine.identity.container", "none", "docker"),
)
for _name, _same, _other in _AS_DECLARED:
    control(_name, IDENTITY, _same, passes=True)
    control(_name, IDENTITY, _other, fails="not-as-declared")
VM = replace(IDENTITY, hypervisor="kvm", container="docker")
control("machine.identity.virtualization", VM, "vm", passes=True)
control("machine.identity.virtualization", IDENTITY, "vm", fails="not-as-declared")
control("machine.identity.container", VM, "any", passes=True)
control("machine.identity.container", IDENTITY, "any", fails="not-as-declared")
