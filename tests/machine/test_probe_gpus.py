"""What is read of GPUs on the bus: who holds them, and what AMD's compute driver says."""

from __future__ import annotations

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.probe.devices import read_devices
from checks.machine.probe.gpus import read_gpus
from tests.support.boxes import (
    KFD,
    NVIDIA_VERSION,
    Box,
    add_gpu,
    amd_box,
    arm_board,
    h100_box,
    plain_box,
    with_driver,
    with_kfd_node,
    wsl_box,
)

PCI = "/sys/bus/pci/devices"
CARD = "0000:18:00.0"


def gpus(tmp_path, box: Box):
    return read_gpus(World(box.write(tmp_path / "tree")))


def one_card() -> Box:
    box = plain_box().put("/proc/driver/nvidia/version", NVIDIA_VERSION)
    return add_gpu(box, CARD, vendor="0x10de", device="0x2330", model="H100", uuid="GPU-1")


def test_cards_of_nvidia_are_read_with_driver_and_node(tmp_path):
    seen = gpus(tmp_path, h100_box())
    assert {(gpu.vendor, gpu.driver, gpu.driver_override) for gpu in seen.gpus} == {
        ("nvidia", "nvidia", "none")
    }
    assert [gpu.numa_node for gpu in seen.gpus] == ["0"] * 4 + ["1"] * 4
    assert seen.nvidia_listed == tuple(gpu.address for gpu in seen.gpus)
    assert (seen.modules, seen.cpu_nodes_count, seen.outside_pci) == (("nvidia",), 2, ())
    assert seen.gpus[7].uuid == "GPU-00000000-0000-4000-8000-000000000007"
    assert not any(gpu.integrated for gpu in seen.gpus)
    assert seen.kfd_gpus_count.reason is Blind.ABSENT


def test_cards_of_amd_are_read_with_their_instruction_set(tmp_path):
    seen = gpus(tmp_path, amd_box())
    assert {(gpu.driver, gpu.gfx) for gpu in seen.gpus} == {("amdgpu", "9.4.2")}
    assert [gpu.kfd_nodes for gpu in seen.gpus] == [("2",), ("3",), ("4",), ("5",)]
    assert seen.gpus[1].uuid == "GPU-5a00000000000001"
    assert seen.kfd_gpus_count == 4
    assert seen.nvidia_listed.reason is Blind.ABSENT


def test_a_card_that_no_driver_holds_is_told_from_one_that_cannot_be_seen(tmp_path):
    seen = gpus(tmp_path, with_driver(one_card(), CARD, ""))
    assert (seen.gpus[0].driver, seen.modules) == ("none", ("nvidia",))


@pytest.mark.parametrize(
    ("text", "name"),
    [("(null)\n", "none"), ("\n", "none"), ("vfio-pci\n", "vfio-pci"), ("a b\n", None)],
)
def test_an_override_of_the_driver_is_read(tmp_path, text, name):
    seen = gpus(tmp_path, one_card().put(f"{PCI}/{CARD}/driver_override", text))
    override = seen.gpus[0].driver_override
    assert override == name or (name is None and override.reason is Blind.MALFORMED)
    older = one_card().drop(f"{PCI}/{CARD}/driver_override")
    assert gpus(tmp_path / "b", older).gpus[0].driver_override == "none"


def test_what_a_card_lends_to_virtual_machines_is_no_gpu_of_the_box(tmp_path):
    box = one_card()
    for function in (4, 5):
        address = f"0000:18:00.{function}"
        add_gpu(box, address, vendor="0x10de", device="0x2330")
        with_driver(box, address, "").link(f"{PCI}/{address}/physfn", f"../{CARD}")
    assert [gpu.address for gpu in gpus(tmp_path, box).gpus] == [CARD]
    # nor a component, or the gate would close whenever one is made
    assert [device.slot for device in read_devices(World(box.write(tmp_path))).gpus] == [CARD]


def test_a_gpu_beside_the_security_processor_is_a_part_of_the_processor(tmp_path):
    box = one_card()
    for address, device in (("0000:0c:00.0", "0x164e"), ("0000:03:00.0", "0x744c")):
        add_gpu(box, address, vendor="0x1002", device=device)
    for name, vendor in (("0000:0c:00.1", "0x1002"), ("0000:0c:00.2", "0x1022")):
        box.put(f"{PCI}/{name}/vendor", f"{vendor}\n").put(f"{PCI}/{name}/class", "0x108000\n")
    box.put(f"{PCI}/0000:03:00.1/vendor", "0x1002\n").put(f"{PCI}/0000:03:00.1/class", "0x040300\n")
    seen = gpus(tmp_path, box)
    assert {gpu.address: gpu.integrated for gpu in seen.gpus} == {
        "0000:03:00.0": False,
        "0000:0c:00.0": True,
        CARD: False,
    }


def test_partitions_of_a_card_are_nodes_of_it(tmp_path):
    box = plain_box()
    add_gpu(box, "0001:05:00.0", vendor="0x1002", device="0x74a1")
    for part in range(8):
        with_kfd_node(box, 1 + part, "0001:05:00.0", gfx=90402)
        path = f"{KFD}/{1 + part}/properties"
        location = 0x500 | part << 28
        text = str(box.files[path]).replace("location_id 1280", f"location_id {location}")
        box.put(path, text)
    seen = gpus(tmp_path, box)
    assert seen.gpus[0].kfd_nodes == tuple(str(1 + part) for part in range(8))
    assert seen.kfd_gpus_count == 8


@pytest.mark.parametrize(
    ("version", "gfx"), [(110000, "11.0.0"), (120001, "12.0.1"), (90010, "9.0.10"), (100306, "10.3.6")]
)  # fmt: skip
def test_two_digits_stand_for_each_part_of_a_version(tmp_path, version, gfx):
    box = with_kfd_node(amd_box(), 2, "0000:05:00.0", gfx=version)
    assert gpus(tmp_path, box).gpus[0].gfx == gfx


def test_a_node_that_is_refused_or_makes_no_sense_leaves_no_list(tmp_path):
    box = amd_box().put(f"{KFD}/3/properties", "simd_count 304\n")
    seen = gpus(tmp_path, box)
    assert seen.kfd_gpus_count.reason is Blind.MALFORMED
    assert isinstance(seen.gpus[0].gfx, Unseen)
    older = amd_box()
    for node in range(2, 6):
        path = f"{KFD}/{node}/properties"
        older.put(path, str(older.files[path]).replace("gfx_target_version 90402\n", ""))
    seen = gpus(tmp_path / "b", older)
    assert (seen.kfd_gpus_count, seen.gpus[0].gfx.reason) == (4, Blind.ABSENT)


def test_gpus_that_no_bus_shows_are_named(tmp_path):
    seen = gpus(tmp_path, wsl_box())
    assert (seen.gpus, seen.outside_pci) == ((), ("/dev/dxg",))
    seen = gpus(tmp_path / "b", arm_board())
    assert (seen.gpus, seen.outside_pci) == ((), ())


def test_graphics_of_the_boards_controller_is_no_gpu(tmp_path):
    box = plain_box()
    for number, vendor in enumerate(("0x1a03", "0x102b", "0x1234", "0x8086")):
        folder = f"{PCI}/0000:0{number + 1}:00.0"
        box.put(f"{folder}/vendor", f"{vendor}\n").put(f"{folder}/class", "0x030000\n")
    assert gpus(tmp_path, box).gpus == ()
