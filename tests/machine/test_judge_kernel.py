"""The judges of the kernel, with data alone."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, NotDeclared
from checks.core.facts import Unseen
from checks.core.profile import LOCAL, Hardware, Profile
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import Driver, Kernel
from checks.machine.judge import kernel as judge
from tests.support.judging import UNSEEN, expected


def kernel(*parameters: str, modules: tuple[str, ...] = (), **changes: object) -> Kernel:
    fields = {
        "parameters": parameters,
        "modules": modules,
        "built_in": (),
        "drivers": (),
        "iommus_count": 0,
        "transparent_huge_pages": "madvise",
    }
    return Kernel(**(fields | changes))


@pytest.mark.parametrize("key", ["kernel_parameters", "kernel_modules"])
def test_what_is_declared_is_wanted_and_nothing_else(key):
    (case,) = judge._names(expected(LOCAL), key)
    assert case.subject == "box"
    assert case.wanted == NotDeclared(fact=f"not declared: hardware.{key}")
    (case,) = judge._names(expected(Profile(schema=1, hardware=Hardware(**{key: ("a",)}))), key)
    assert case.subject == "box"
    assert case.wanted.value == ("a",)
    assert case.wanted.basis is Basis.DECLARED
    assert case.wanted.source == f"h100-1.toml: hardware.{key}"


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ("iommu=pt", "iommu=pt"),
        ("quiet", "quiet"),
        ("nvidia-drm.modeset=1", "nvidia_drm.modeset=1"),
        ("nvidia_drm.modeset=1", "nvidia-drm.modeset=1"),
        ('dyndbg="file a.c +p"', 'dyndbg="file a.c +p"'),
        ("a=x y", '"a=x y"'),
        ("empty=", "empty="),
    ],
)
def test_a_parameter_that_is_there_passes(wanted, there):
    said = judge.kernel_parameters_as_declared(kernel("ro", there), (wanted,))
    assert said.verdict is Verdict.PASS, said.says
    assert said.says == f"the kernel was started with {wanted}"
    assert said.observed == said.expected == {"parameters": [wanted]}
    assert said.evidence == (f"/proc/cmdline: ro {there}",)
    assert said.notes == ()


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        ("iommu=pt", "iommu=on"),
        ("iommu=pt", "iommu=ptx"),
        ("iommu=pt", "amd_iommu=pt"),
        ("iommu=pt", "iommu"),
        ("iommu", "iommu=pt"),
        ("pci=no-aer", "pci=no_aer"),
        ("quiet", "Quiet"),
        ("quiet", ""),
        ("empty=", "empty"),
    ],
)
def test_a_parameter_that_is_not_there_fails(wanted, there):
    said = judge.kernel_parameters_as_declared(kernel("ro", there), ("ro", wanted))
    assert said.cause == "parameter-missing"
    assert said.says.startswith(f"not on the kernel's command line: {wanted}")
    assert said.observed == {"parameters": ["ro"]}
    assert said.expected == {"parameters": ["ro", wanted]}
    assert f"add `{wanted}`" in said.remedy
    assert said.evidence == (f"/proc/cmdline: ro {there}",)


def test_what_stands_there_instead_is_said():
    said = judge.kernel_parameters_as_declared(kernel("ro", "iommu=on", "x"), ("iommu=pt", "y"))
    assert said.says == "not on the kernel's command line: iommu=pt, y (there is iommu=on)"


def test_a_parameter_that_stands_there_twice_with_other_values_is_noted():
    seen = kernel("iommu=pt", "hugepages=4", "iommu=off", "iommu=a")
    said = judge.kernel_parameters_as_declared(seen, ("iommu=pt", "hugepages=4"))
    assert said.verdict is Verdict.PASS
    assert said.notes == ("iommu stands on the command line with other values as well: a, off",)
    both = judge.kernel_parameters_as_declared(seen, ("iommu=pt", "iommu=off", "iommu=a"))
    assert both.notes == ()


def test_a_value_that_is_hidden_is_unknown_and_never_missing():
    seen = kernel("ro", "x.key=[redacted]")
    said = judge.kernel_parameters_as_declared(seen, ("ro", "x.key=1"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "x.key" in said.says
    assert "x.key=1" not in said.says
    assert "/proc/cmdline" in said.remedy
    assert said.observed == {"parameters": ["ro"]}
    assert said.expected == {"parameters": ["ro", "x.key=1"]}
    said = judge.kernel_parameters_as_declared(seen, ("x.key=1", "quiet"))
    assert said.cause == "parameter-missing"
    assert said.says == "not on the kernel's command line: quiet"
    said = judge.kernel_parameters_as_declared(kernel("a.key=[redacted]"), ("x.key=1",))
    assert said.cause == "parameter-missing", "another one is hidden"
    # two values that are both hidden need not be the same
    both = judge.kernel_parameters_as_declared(seen, ("x.key=[redacted]",))
    assert both.verdict is Verdict.UNKNOWN
    gone = judge.kernel_parameters_as_declared(kernel("ro"), ("x.key=[redacted]",))
    assert gone.cause == "parameter-missing"


def test_a_command_line_that_cannot_be_read_is_unknown():
    said = judge.kernel_parameters_as_declared(kernel(parameters=UNSEEN), ("a",))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert str(UNSEEN) in said.says
    assert said.remedy == UNSEEN.remedy


NVIDIA = Driver(name="nvidia", version="570.133.20", devices_count=8)
NOUVEAU = Driver(name="nouveau", version=UNSEEN, devices_count=1)


@pytest.mark.parametrize("name", ["nvidia_peermem", "nvidia-peermem"])
def test_a_loaded_module_passes_by_either_spelling(name):
    seen = kernel(modules=("nvidia", "nvidia_peermem"), drivers=(NVIDIA, NOUVEAU))
    said = judge.kernel_modules_loaded(replace(seen, drivers=(NVIDIA,)), (name,))
    assert said.verdict is Verdict.PASS
    assert said.says == f"loaded: {name}"
    assert said.observed == said.expected == {"modules": [name]}
    assert said.evidence == ("nvidia 570.133.20: 8 devices",)
    assert said.notes == ()


def test_a_module_that_is_not_loaded_fails():
    said = judge.kernel_modules_loaded(
        kernel(modules=("nvidia",), drivers=(NVIDIA,)), ("nvidia", "nvidia-peermem", "fuse")
    )
    assert said.cause == "module-missing"
    assert said.says == "not loaded: nvidia-peermem, fuse"
    assert said.observed == {"modules": ["nvidia"]}
    assert said.expected == {"modules": ["nvidia", "nvidia-peermem", "fuse"]}
    assert said.remedy.startswith("`modprobe nvidia-peermem`")
    assert said.evidence == ("nvidia 570.133.20: 8 devices",)


def test_a_module_that_is_a_part_of_the_kernel_passes():
    assert (
        judge.kernel_modules_loaded(kernel(built_in=("fuse",)), ("fuse",)).verdict is Verdict.PASS
    )


def test_whether_a_module_is_built_in_and_cannot_be_seen_is_unknown_but_not_of_a_gpus_driver():
    hidden = kernel(modules=("a",), built_in=UNSEEN)
    said = judge.kernel_modules_loaded(hidden, ("a", "fuse"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.says.startswith("fuse: not loaded")
    assert str(UNSEEN) in said.says
    assert "/lib/modules" in said.remedy
    assert said.observed == {"modules": ["a"]}
    assert said.expected == {"modules": ["a", "fuse"]}
    for name in ("nvidia", "nvidia-peermem", "amdgpu", "ib_core", "mlx5_core", "vfio-pci"):
        said = judge.kernel_modules_loaded(hidden, ("fuse", name))
        assert said.cause == "module-missing", name
        assert said.says == f"not loaded: {name}"


def test_modules_that_cannot_be_listed_are_unknown():
    said = judge.kernel_modules_loaded(kernel(modules=UNSEEN), ("a",))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    assert str(UNSEEN) in said.says


@pytest.mark.parametrize(
    ("drivers", "noted"),
    [
        ((NVIDIA, NOUVEAU), True),
        ((NVIDIA, replace(NVIDIA, name="amdgpu"), NOUVEAU), True),
        ((NVIDIA,), False),
        ((NOUVEAU,), False),
        ((NVIDIA, replace(NOUVEAU, devices_count=0)), False),
        ((replace(NVIDIA, devices_count=0), NOUVEAU), False),
        ((NVIDIA, replace(NOUVEAU, devices_count=UNSEEN)), False),
    ],
)
def test_two_drivers_that_both_hold_devices_are_noted(drivers, noted):
    seen = kernel(modules=("nvidia", "nouveau"), drivers=drivers)
    said = judge.kernel_modules_loaded(seen, ("nvidia",))
    assert said.verdict is Verdict.PASS
    assert ["nouveau and nvidia both hold devices" in note for note in said.notes] == [True] * noted


def test_a_driver_without_a_version_is_evidence_too():
    seen = kernel(modules=("amdgpu",), drivers=(replace(NVIDIA, name="amdgpu", version=UNSEEN),))
    assert judge.kernel_modules_loaded(seen, ("amdgpu",)).evidence == ("amdgpu: 8 devices",)
    unseen = replace(NVIDIA, devices_count=Unseen(UNSEEN.reason, "planted"))
    (line,) = judge.kernel_modules_loaded(replace(seen, drivers=(unseen,)), ("amdgpu",)).evidence
    assert line == "nvidia 570.133.20: permission: planted devices"
