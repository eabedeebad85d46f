"""GPUs on the bus of planted boxes: held, lent, lost, and none of ours."""

from __future__ import annotations

import pytest

from tests.support.boxes import (
    NVIDIA_VERSION,
    Box,
    add_gpu,
    amd_box,
    arm_board,
    cloud_vm,
    docker_box,
    h100_box,
    plain_box,
    with_driver,
    wsl_box,
)

DRIVER, COUNT = "machine.devices.driver", "machine.devices.gpus"
LAST = "0000:8f:00.0"
PCI = "/sys/bus/pci/devices"
LISTED = "/proc/driver/nvidia/gpus"


def judged(suite, folder, box: Box, hardware=""):
    profile = f"[hardware]\n{hardware}\n" if hardware else None
    return suite.run(folder, root=box.write(folder / "tree"), profile=profile)


def lost() -> Box:
    """The driver failed to take up the last card: it holds seven, and lists seven."""
    return with_driver(h100_box(), LAST, "").drop(f"{LISTED}/{LAST}/")


def test_a_card_that_failed_when_the_driver_took_it_up_fails(suite, tmp_path):
    run = judged(suite, tmp_path, lost())
    found = run.finding(DRIVER, LAST)
    assert (found["cause"], run.code) == ("no-driver", 1)
    assert found["premise"] == [f"gpu[{LAST}]", "driver"]
    assert run.finding(DRIVER, "0000:18:00.0")["verdict"] == "pass"
    assert len(run.with_verdict("fail")) == 1
    run = judged(suite, tmp_path / "b", lost(), "gpus = 8")
    assert run.finding(COUNT)["cause"] == "gpus-missing"
    assert judged(suite, tmp_path / "c", h100_box(), "gpus = 8").code == 0


def test_a_card_that_has_left_the_bus_is_missed_where_gpus_are_declared(suite, tmp_path):
    box = h100_box().drop(f"{PCI}/{LAST}/", f"{LISTED}/{LAST}/")
    run = judged(suite, tmp_path, box, "gpus = 8")
    found = run.finding(COUNT)
    assert (found["cause"], found["says"]) == (
        "gpus-missing",
        "7 GPUs on the PCI bus, 8 wanted",
    )
    assert judged(suite, tmp_path / "b", box, "gpus = 7").code == 0
    assert judged(suite, tmp_path / "c", box, "gpus = 6").finding(COUNT)["cause"] == (
        "more-gpus-than-declared"
    )


def proxmox() -> Box:
    """All cards are passed through to guests; the host's own driver is not even there."""
    box = plain_box()
    for number in range(2):
        address = f"0000:{number + 1:02x}:00.0"
        add_gpu(box, address, vendor="0x10de", device="0x2330")
        with_driver(box, address, "vfio-pci")
    return box.drop("/sys/module/nvidia")


def workstation() -> Box:
    """Cards of NVIDIA, and the processor's own GPU, whose driver nobody has loaded."""
    box = plain_box().put("/proc/driver/nvidia/version", NVIDIA_VERSION)
    add_gpu(box, "0000:01:00.0", vendor="0x10de", device="0x2684", model="RTX 4090", uuid="GPU-1")
    add_gpu(box, "0000:0c:00.0", vendor="0x1002", device="0x164e")
    box.put(f"{PCI}/0000:0c:00.2/vendor", "0x1022\n").put(f"{PCI}/0000:0c:00.2/class", "0x108000\n")
    return with_driver(box, "0000:0c:00.0", "").drop("/sys/module/amdgpu")


def with_controller() -> Box:
    """The graphics of the board's management controller, and no GPU."""
    box = plain_box().put(f"{PCI}/0000:02:00.0/vendor", "0x1a03\n")
    return box.put(f"{PCI}/0000:02:00.0/class", "0x030000\n")


def in_docker() -> Box:
    """A container that was given two of eight GPUs: the bus is the host's."""
    box = h100_box()
    box.put("/.dockerenv", "")
    return box.drop(*(f"{LISTED}/0000:{0x18 + 0x11 * n:02x}:00.0/" for n in range(2, 8)))


@pytest.mark.parametrize(
    ("make", "count"),
    [(proxmox, 2), (workstation, 1), (workstation, 2), (with_controller, 0), (in_docker, 8)],
)
def test_a_healthy_box_with_gpus_of_all_kinds_passes(suite, tmp_path, make, count):
    run = judged(suite, tmp_path, make())
    assert run.with_verdict("fail", "unknown") == []
    assert run.code == 0
    run = judged(suite, tmp_path / "b", make(), f"gpus = {count}")
    assert run.with_verdict("fail", "unknown") == []
    assert run.code == 0


def test_a_card_kept_for_a_virtual_machine_is_noted(suite, tmp_path):
    run = judged(suite, tmp_path, proxmox())
    assert "kept for a virtual machine by vfio-pci" in " ".join(run.out.split())


@pytest.mark.parametrize(("driver", "cause"), [("", "no-module"), ("nouveau", "nouveau-holds")])
def test_a_driver_that_cannot_compute_fails_where_gpus_are_declared(suite, tmp_path, driver, cause):
    box = cloud_vm().drop("/proc/driver/nvidia", "/sys/module/nvidia")
    with_driver(box, "0000:31:00.0", driver)
    run = judged(suite, tmp_path, box, "gpus = 1")
    assert run.finding(DRIVER, "0000:31:00.0")["cause"] == cause
    run = judged(suite, tmp_path / "b", box)
    assert (run.code, run.with_verdict("fail", "unknown")) == (0, [])
    assert run.finding(DRIVER, "0000:31:00.0")["notes"]


def test_a_board_without_a_bus_has_no_gpu_on_it(suite, tmp_path):
    run = judged(suite, tmp_path, arm_board())
    assert run.finding(DRIVER)["says"] == "no GPU of NVIDIA or AMD on the PCI bus"
    assert judged(suite, tmp_path / "b", docker_box(), "gpus = 1").finding(COUNT)["cause"] == (
        "gpus-missing"
    )


def test_gpus_that_windows_keeps_cannot_be_counted(suite, tmp_path):
    run = judged(suite, tmp_path, wsl_box(), "gpus = 1")
    found = run.finding(COUNT)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "/dev/dxg" in found["says"]


def test_a_box_with_several_nodes_whose_firmware_tells_nothing_is_noted(suite, tmp_path):
    box = amd_box().put(f"{PCI}/0000:05:00.0/numa_node", "-1\n")
    run = judged(suite, tmp_path, box)
    assert (
        "firmware does not say which of the 2 NUMA nodes"
        in (run.finding(DRIVER, "0000:05:00.0")["notes"][0])
    )
    assert run.finding(DRIVER, "0000:06:00.0")["notes"] == []
    assert run.code == 0
