"""The judges of GPUs on the bus, with data alone: nearest cases on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, Bounds
from checks.core.profile import Hardware, Profile
from checks.core.registry import REGISTRY, Measure
from checks.core.verdict import Verdict
from checks.machine.facts import Gpu, Gpus
from checks.machine.judge import gpus as judge
from tests.support.judging import UNSEEN, expected
from tests.support.seen import ABSENT, GPU, GPUS, IDENTITY

DOCKER = replace(IDENTITY, container="docker")


def gpu(number: int, driver: object = "nvidia", **changes: object) -> Gpu:
    return replace(GPU, address=f"0000:{number:02x}:00.0", driver=driver, **changes)


def amd(number: int, driver: object = "amdgpu", **changes: object) -> Gpu:
    return gpu(number, driver, vendor="amd", **changes)


def box(*gpus: Gpu, modules: object = ("nvidia", "amdgpu"), **changes: object) -> Gpus:
    held = tuple(one.address for one in gpus if one.driver == "nvidia")
    return replace(
        GPUS, **{"gpus": gpus, "modules": modules, "nvidia_listed": held or ABSENT, **changes}
    )


def driver_of(seen: Gpus, wanted: int | None = None):
    """Judge all, and give what is said of the last one."""
    said = judge.driver_holds_each_gpu(seen, wanted)
    assert list(said) == [one.address for one in seen.gpus]
    for address, judgement in said.items():
        assert judgement.premise == (f"gpu[{address}]", "driver")
    return list(said.values())[-1]


@pytest.mark.parametrize("driver", ["nvidia", "amdgpu", "radeon", "gim"])
def test_a_gpu_that_a_driver_holds_passes(driver):
    for wanted in (None, 1):
        said = driver_of(box(gpu(1, driver)), wanted)
        assert (said.verdict, said.says, said.notes) == (Verdict.PASS, f"held by {driver}", ())
        assert said.observed == {"driver": driver}


@pytest.mark.parametrize(("make", "module"), [(gpu, "nvidia"), (amd, "amdgpu")])
def test_a_gpu_that_its_loaded_driver_does_not_hold_fails(make, module):
    seen = box(*(make(number) for number in range(7)), make(7, "none"), modules=(module,))
    said = driver_of(seen)
    assert (said.cause, said.says) == (
        "no-driver",
        f"no driver holds it, though {module} is loaded",
    )
    assert "dmesg" in said.remedy
    assert ("nvrm" in said.remedy) is (module == "nvidia")
    assert driver_of(seen, 8).cause == "no-driver"
    assert driver_of(replace(seen, modules=("radeon", "nouveau"))).cause == ""
    others = list(judge.driver_holds_each_gpu(seen, None).values())[:-1]
    assert {one.verdict for one in others} == {Verdict.PASS}


def test_a_gpu_beyond_the_declared_ones_may_be_unused():
    said = driver_of(box(gpu(0), gpu(1), gpu(2, "none")), 2)
    assert said.verdict is Verdict.PASS
    assert "though nvidia is loaded" in said.notes[0]
    assert driver_of(box(gpu(0), gpu(1), gpu(2, "none")), 3).cause == "no-driver"
    many = box(*(gpu(number) for number in range(300)), gpu(300, "none"))
    for wanted in (int("299"), int("300")):
        assert driver_of(replace(many, modules=()), wanted).verdict is Verdict.PASS
    assert driver_of(replace(many, modules=()), 301).cause == "no-module"


def test_an_integrated_gpu_beside_cards_may_be_unused():
    own = amd(9, "none", integrated=True)
    for wanted in (None, 1, 2):
        assert driver_of(box(amd(1), own), wanted).verdict is Verdict.PASS
        assert driver_of(box(gpu(1), own, modules=("nvidia",)), wanted).verdict is Verdict.PASS
    # alone, it is what the box has
    assert driver_of(box(own)).cause == "no-driver"
    assert driver_of(box(own, modules=()), 1).cause == "no-module"


def test_a_driver_that_is_not_loaded_is_missed_where_gpus_are_declared():
    seen = box(gpu(0, "none"), gpu(1, "none"), modules=())
    said = driver_of(seen)
    assert said.verdict is Verdict.PASS
    assert said.notes[0].startswith("no driver holds it (nvidia is not loaded)")
    said = driver_of(seen, 1)
    assert (said.cause, said.says) == ("no-module", "no driver holds it: nvidia is not loaded")
    assert "`modprobe nvidia`" in said.remedy
    assert driver_of(box(gpu(0), amd(1, "none"), modules=("nvidia",)), 1).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "driver",
    ["vfio-pci", "mlx5_vfio_pci", "nvgrace_gpu_vfio_pci", "pci-stub", "pciback", "xen-pciback"],
)
def test_a_gpu_that_is_kept_for_a_virtual_machine_passes_with_a_note(driver):
    for seen in (
        box(gpu(0), gpu(1, driver)),
        box(gpu(0), gpu(1, "none", driver_override=driver)),
    ):
        for wanted in (None, 2):
            said = driver_of(seen, wanted)
            assert said.verdict is Verdict.PASS
            assert said.notes == (
                f"kept for a virtual machine by {driver}: nothing of this host can use it",
            )


def test_a_driver_override_that_keeps_nothing_is_no_excuse():
    for driver in ("amdgpu", "radeon"):
        assert (
            driver_of(box(amd(1, driver, driver_override="vfio-pci"))).says == f"held by {driver}"
        )
    assert driver_of(box(gpu(0), gpu(1, "none", driver_override="nvidia"))).cause == "no-driver"
    assert driver_of(box(gpu(0), gpu(1, "none", driver_override=UNSEEN))).cause == "no-driver"


def test_nouveau_fails_where_gpus_are_declared():
    seen = box(gpu(0, "nouveau"), modules=("nouveau",))
    said = driver_of(seen)
    assert said.verdict is Verdict.PASS
    assert "cannot compute" in said.notes[0]
    said = driver_of(seen, 1)
    assert said.cause == "nouveau-holds"
    assert "blacklist nouveau" in said.remedy
    # one that shows pictures beside those that compute
    assert driver_of(box(gpu(1), gpu(0, "nouveau")), 1).verdict is Verdict.PASS


def test_what_cannot_be_read_of_a_driver_is_unknown():
    said = driver_of(box(gpu(0, UNSEEN)))
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)
    said = driver_of(box(gpu(0, "none"), modules=UNSEEN))
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)


@pytest.mark.parametrize(
    ("node", "nodes", "noted"),
    [
        ("-1", 2, True),
        ("-1", 1, False),
        ("-1", 0, False),
        ("-1", UNSEEN, False),
        ("0", 2, False),
        (UNSEEN, 2, False),
    ],
)
def test_a_gpu_whose_node_nobody_tells_is_noted_on_a_box_with_several(node, nodes, noted):
    said = driver_of(box(gpu(0, numa_node=node), cpu_nodes_count=nodes))
    assert (said.verdict, bool(said.notes)) == (Verdict.PASS, noted)
    said = driver_of(box(gpu(0, "nouveau", numa_node=node), cpu_nodes_count=nodes))
    assert len(said.notes) == 1 + noted


def test_a_driver_is_judged_by_what_holds_everywhere_and_by_the_declared_number():
    of = REGISTRY.checks["machine.devices.driver"].cases
    for count in (None, 0):
        (case,) = of(expected(Profile(schema=1, hardware=Hardware(gpus=count))))
        assert (case.wanted.value, case.wanted.basis) == (None, Basis.INVARIANT)
    # whoever stands for their number, that a driver holds one is good
    for assumed in ((), ("gpus",)):
        (case,) = of(expected(Profile(schema=1, hardware=Hardware(gpus=8, assumed=assumed))))
        assert (case.wanted.value, case.wanted.basis) == (8, Basis.INVARIANT)
        assert "hardware.gpus" in case.wanted.source


# their number


def exactly(count: float) -> Bounds:
    return Bounds(value=count, lower=count, upper=count)


@pytest.mark.parametrize(
    ("wanted", "cause"), [(1, "more-gpus-than-declared"), (2, ""), (3, "gpus-missing")]
)
def test_gpus_are_counted_exactly(wanted, cause):
    said = judge.all_gpus_there(box(gpu(0), gpu(1)), IDENTITY, exactly(wanted))
    assert said.cause == cause
    assert said.says == f"2 GPUs on the PCI bus, {wanted} wanted"
    assert said.observed == {"gpus_count": 2}
    assert said.expected == {"gpus_count": wanted}
    assert said.evidence == (
        "0000:00:00.0: nvidia, driver nvidia",
        "0000:01:00.0: nvidia, driver nvidia",
    )
    assert said.notes == ()


def test_a_side_of_a_measured_number_may_be_open():
    for bounds in (Bounds(value=1, lower=1, upper=None), Bounds(value=4, lower=None, upper=4)):
        said = judge.all_gpus_there(box(gpu(0), gpu(1)), IDENTITY, bounds)
        assert (said.verdict, said.notes) == (Verdict.PASS, ())


def test_large_numbers_are_compared_by_value():
    many = box(*(gpu(number) for number in range(0, 600, 2)))
    assert judge.all_gpus_there(many, IDENTITY, exactly(int("300"))).verdict is Verdict.PASS


@pytest.mark.parametrize("driver", ["nvidia", "none"])
def test_a_gpu_that_its_driver_does_not_list_is_missing_on_the_host(driver):
    listed = ("0000:00:00.0", "0000:02:00.0")
    seen = box(gpu(0), gpu(1, driver), gpu(2), nvidia_listed=listed)
    said = judge.all_gpus_there(seen, IDENTITY, exactly(3))
    assert said.cause == "gpus-missing"
    assert said.says == "2 of the 3 GPUs on the PCI bus are in use by their driver, 3 wanted"
    assert said.observed == {"gpus_count": 3, "usable_count": 2}
    assert "does not list 0000:01:00.0" in said.remedy
    # of a container, the list holds what it was given
    said = judge.all_gpus_there(seen, DOCKER, exactly(3))
    assert said.verdict is Verdict.PASS
    assert "may have been given fewer" in said.notes[0]
    unseen = replace(IDENTITY, container=UNSEEN)
    assert judge.all_gpus_there(seen, unseen, exactly(3)).verdict is Verdict.PASS


def test_what_virtual_machines_use_or_another_driver_holds_need_not_be_listed():
    for other in (
        amd(1, "none"),
        gpu(1, "vfio-pci"),
        gpu(1, "none", driver_override="vfio-pci"),
        amd(1),
    ):
        seen = box(gpu(0), other)
        assert judge.all_gpus_there(seen, IDENTITY, exactly(2)).verdict is Verdict.PASS
    for listed in (ABSENT, UNSEEN):
        seen = box(gpu(0), gpu(1), nvidia_listed=listed)
        assert judge.all_gpus_there(seen, IDENTITY, exactly(2)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "spare", [amd(9, integrated=True), gpu(9, "none"), gpu(9, "nouveau")]
)  # fmt: skip
def test_one_that_is_integrated_or_unused_may_be_left_out_of_the_number(spare):
    seen = box(gpu(0), gpu(1), spare)
    said = judge.all_gpus_there(seen, IDENTITY, exactly(2))
    assert said.verdict is Verdict.PASS
    assert said.notes == (
        "not counted, for they are integrated or unused: 0000:09:00.0",
    )  # fmt: skip
    assert judge.all_gpus_there(seen, IDENTITY, exactly(1)).cause == "more-gpus-than-declared"
    assert judge.all_gpus_there(seen, IDENTITY, exactly(4)).cause == "gpus-missing"


def test_an_integrated_one_may_be_counted():
    seen = box(amd(9, integrated=True))
    assert judge.all_gpus_there(seen, IDENTITY, exactly(1)).verdict is Verdict.PASS
    assert judge.all_gpus_there(seen, IDENTITY, exactly(2)).cause == "gpus-missing"


def test_gpus_that_no_bus_shows_cannot_be_counted():
    seen = box(outside_pci=("/dev/dxg", "/dev/nvgpu"))
    said = judge.all_gpus_there(seen, IDENTITY, exactly(1))
    assert said.verdict is Verdict.UNKNOWN
    assert "/dev/dxg stands for others" in said.says
    assert judge.all_gpus_there(seen, IDENTITY, exactly(0)).verdict is Verdict.PASS
    assert judge.all_gpus_there(box(), IDENTITY, exactly(1)).cause == "gpus-missing"


def test_a_measured_number_has_to_be_the_same_again():
    measures = REGISTRY.checks["machine.devices.gpus"].measures
    assert measures == Measure(quantity="gpus_count", unit="1", lower_ratio=0.0, upper_ratio=0.0)
