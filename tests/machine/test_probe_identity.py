"""What a machine is called: hypervisors, containers, devices, memory, on trees of many makes."""

from __future__ import annotations

import os

import pytest

from checks.core.codec import encode
from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.probe.devices import read_devices
from checks.machine.probe.identity import read_identity
from checks.machine.probe.memory import read_memory
from checks.machine.probe.parts import read_parts, usb_controllers
from tests.support.boxes import ID, PID, add_gpu, arm_board, h100_box, plain_box, wsl_box

DMI = "/sys/class/dmi/id"


def world(tmp_path, box) -> World:
    return World(box.write(tmp_path / "tree"))


def dmi(vendor: str, product: str, *, flag: bool = True, bios: str = ""):
    box = (
        plain_box()
        .put(f"{DMI}/sys_vendor", f"{vendor}\n")
        .put(f"{DMI}/product_name", f"{product}\n")
    )
    if bios:
        box.put(f"{DMI}/bios_vendor", f"{bios}\n")
    if flag:
        info = str(box.files["/proc/cpuinfo"]).replace("apic sep", "apic sep hypervisor")
        box.put("/proc/cpuinfo", info)
    return box


HYPERVISORS = {
    "KVM of Red Hat": (dmi("Red Hat", "KVM"), "kvm"),
    "QEMU": (dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), "qemu"),
    "OpenStack": (dmi("OpenStack Foundation", "OpenStack Nova"), "kvm"),
    "Amazon": (dmi("Amazon EC2", "p5.48xlarge"), "amazon"),
    "Amazon, bare metal": (dmi("Amazon EC2", "m7i.metal-24xl", flag=False), "none"),
    "Google": (dmi("Google", "Google Compute Engine"), "google"),
    "Azure": (dmi("Microsoft Corporation", "Virtual Machine"), "microsoft"),
    "Microsoft's own hardware": (dmi("Microsoft Corporation", "C2030", flag=False), "none"),
    "VMware": (dmi("VMware, Inc.", "VMware Virtual Platform"), "vmware"),
    "VirtualBox": (dmi("innotek GmbH", "VirtualBox"), "oracle"),
    "Oracle's cloud": (dmi("QEMU", "Standard PC", bios="x"), "qemu"),
    "one that hides its name": (dmi("To Be Filled", "By O.E.M."), "vm"),
    "bare metal": (plain_box(), "none"),
    "Xen by /sys": (plain_box().put("/sys/hypervisor/type", "xen\n"), "xen"),
    "WSL": (wsl_box(), "wsl"),
    "Arm board": (arm_board(), "none"),
    "Arm guest by its device tree": (
        arm_board().put("/proc/device-tree/hypervisor/compatible", "linux,kvm\0"),
        "linux,kvm",
    ),
    "Arm instance of Amazon": (
        arm_board()
        .drop("/proc/device-tree")
        .put(f"{DMI}/sys_vendor", "Amazon EC2\n")
        .put(f"{DMI}/product_name", "g5g.xlarge\n"),
        "amazon",
    ),
    "Arm instance of Amazon, bare metal": (
        arm_board()
        .drop("/proc/device-tree")
        .put(f"{DMI}/sys_vendor", "Amazon EC2\n")
        .put(f"{DMI}/product_name", "g5g.metal\n"),
        "none",
    ),
}


@pytest.mark.parametrize("name", HYPERVISORS)
def test_the_hypervisor_is_told_by_what_cannot_be_on_bare_metal(tmp_path, name):
    box, wanted = HYPERVISORS[name]
    assert read_identity(world(tmp_path, box)).hypervisor == wanted


def test_a_box_that_shows_neither_flags_nor_names_is_not_called_bare_metal(tmp_path):
    box = arm_board().drop("/proc/device-tree")
    seen = read_identity(world(tmp_path, box)).hypervisor
    assert isinstance(seen, Unseen)


def contained(cgroup: str):
    return plain_box().process(PID, "pytest", cgroup=cgroup)


CONTAINERS = {
    "the host": (plain_box(), "none"),
    "Docker by its file": (plain_box().put("/.dockerenv", ""), "docker"),
    "Podman by its file": (plain_box().put("/run/.containerenv", ""), "podman"),
    "nspawn by systemd's file": (
        plain_box().put("/run/systemd/container", "systemd-nspawn\n"),
        "systemd-nspawn",
    ),
    "Docker by its cgroup": (contained(f"0::/system.slice/docker-{ID}.scope\n"), "docker"),
    "Kubernetes by its cgroup": (
        contained(f"0::/kubepods.slice/cri-containerd-{ID}.scope\n"),
        "kubernetes",
    ),
    "LXC by its cgroup": (contained("4:cpu:/lxc/c1\n"), "lxc"),
    "Podman by its cgroup": (contained(f"0::/machine.slice/libpod-{ID}.scope\n"), "podman"),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_container_is_told_by_files_environment_and_cgroup(tmp_path, name):
    box, wanted = CONTAINERS[name]
    assert read_identity(world(tmp_path, box)).container == wanted


def test_the_environment_tells_of_containers_too(tmp_path):
    for variable, value, wanted in (
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1", "kubernetes"),
        ("container", "oci", "oci"),
    ):
        box = plain_box()
        box.recorded["environ"][variable] = value
        assert read_identity(world(tmp_path / variable, box)).container == wanted


def test_a_container_that_cannot_be_told_is_unseen_and_not_none(tmp_path):
    seen = read_identity(world(tmp_path, plain_box().drop(f"/proc/{PID}/cgroup"))).container
    assert isinstance(seen, Unseen)


def test_gpus_are_listed_by_address_and_nothing_else_is_one(tmp_path):
    box = h100_box()
    root = "/sys/bus/pci/devices"
    for address, vendor, kind in (
        ("0000:01:00.0", "0x1a03", "0x030000"),  # the board's own display
        ("0000:02:00.0", "0x10de", "0x068000"),  # an NVSwitch
        ("0000:03:00.0", "0x10de", "0x040300"),  # the sound of a GPU
        ("0000:04:00.0", "0x1002", "0x060400"),
    ):
        box.put(f"{root}/{address}/vendor", f"{vendor}\n").put(
            f"{root}/{address}/class", f"{kind}\n"
        )
    add_gpu(box, "0000:f0:00.0", vendor="0x1002", device="0x74a1")
    add_gpu(box, "0000:f1:00.0", vendor="0x10de", device="0x2330")  # the driver does not know it
    gpus = read_devices(world(tmp_path, box)).gpus
    assert [gpu.kind["vendor"] for gpu in gpus] == ["0x10de"] * 8 + ["0x1002", "0x10de"]
    assert [gpu.slot for gpu in gpus][7:] == ["0000:8f:00.0", "0000:f0:00.0", "0000:f1:00.0"]
    assert gpus[0].identity["uuid"] == "GPU-00000000-0000-4000-8000-000000000000"
    assert isinstance(gpus[9].identity["uuid"], Unseen)


@pytest.mark.parametrize(
    "text", ["", "Model: ?\nGPU UUID: GPU-????????-????\n", "\0\0", "Model:\n"]
)
def test_a_uuid_that_the_driver_does_not_give_is_unseen(tmp_path, text):
    box = add_gpu(plain_box(), "0000:18:00.0", vendor="0x10de", device="0x2330")
    box.put("/proc/driver/nvidia/gpus/0000:18:00.0/information", text)
    (gpu,) = read_devices(world(tmp_path, box)).gpus
    assert isinstance(gpu.identity["uuid"], Unseen)


def test_a_box_without_pci_has_no_gpu_and_a_bus_that_cannot_be_listed_is_unseen(tmp_path):
    assert read_devices(world(tmp_path / "a", arm_board())).gpus == ()
    strange = plain_box().drop("/sys/bus/pci").put("/sys/bus/pci/devices", "a file")
    assert isinstance(read_devices(world(tmp_path / "b", strange)).gpus, Unseen)
    nothing = plain_box().drop("/sys/")
    assert isinstance(read_devices(world(tmp_path / "c", nothing)).gpus, Unseen)


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Wed Jun\n", "535.183.06"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release\n",
            "570.133.20",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95  x\n", "580.95"),
        ("", None),
        ("garbage\n", None),
    ],
)
def test_the_driver_by_its_own_file(tmp_path, text, driver):
    box = plain_box().put("/proc/driver/nvidia/version", text)
    seen = read_devices(world(tmp_path, box)).nvidia_driver
    assert isinstance(seen, Unseen) if driver is None else seen == driver


def test_memory_total_free_fitted_and_serials(tmp_path):
    box = plain_box().put("/sys/devices/system/memory/block_size_bytes", "80000000\n")
    for number in range(3):
        box.put(f"/sys/devices/system/memory/memory{number}/state", "online\n")
    raw = bytearray(0x28)
    raw[0], raw[1], raw[0x18] = 17, 0x28, 2
    box.put("/sys/firmware/dmi/entries/17-0/raw", bytes(raw) + b"Samsung\0" + b"S1\0\0")
    box.put("/sys/firmware/dmi/entries/17-1/raw", bytes(raw) + b"Samsung\0" + b"S2\0\0")
    seen = read_memory(world(tmp_path, box))
    assert seen.total_bytes == 527_935_488 * 1_024
    assert seen.available_bytes == 500_000_000 * 1_024
    assert seen.fitted_bytes == 3 * 2**31
    assert seen.dimm_serials == "S1 S2"


@pytest.mark.parametrize(
    "raw", [b"", b"\x11", b"\x11\xff", b"\x11\x28" + b"\xff" * 38, b"\x11\x28" + b"\0" * 38]
)
def test_a_table_of_the_firmware_that_is_cut_off_gives_no_serial(tmp_path, raw):
    box = plain_box().put("/sys/firmware/dmi/entries/17-0/raw", raw)
    assert isinstance(read_memory(world(tmp_path, box)).dimm_serials, Unseen)


def test_the_machine_that_the_tests_run_on_is_read_without_a_complaint():
    here = World()
    identity = read_identity(here)
    assert identity.architecture == os.uname().machine
    assert not isinstance(read_memory(here), Unseen)
    encode(identity)
    encode(read_devices(here))
    for value in (identity.host_name, identity.kernel_release, identity.cpu_model):
        assert not isinstance(value, Unseen) or value.reason is not Blind.LOST


# reading no more than is needed


@pytest.mark.parametrize(
    ("box", "model", "reads"),
    [
        (plain_box(512), "Intel(R) Xeon(R) Platinum 8480+", 1),
        (arm_board(), "Raspberry Pi 5 Model B Rev 1.0", 2),
    ],
    ids=["512 threads", "Arm board"],
)
def test_of_an_x86_cpu_the_first_block_is_enough(tmp_path, monkeypatch, box, model, reads):
    here = world(tmp_path, box)
    read, asked = World.raw, []

    def counted(self, path, *most):
        raw = read(self, path, *most)
        if path == "/proc/cpuinfo":
            asked.append(len(raw))
        return raw

    monkeypatch.setattr(World, "raw", counted)
    assert read_identity(here).cpu_model == model
    assert len(asked) == reads
    assert asked[0] <= 16_384
    assert asked[-1] < len(str(box.files["/proc/cpuinfo"])) or reads == 2


def test_a_first_block_that_is_cut_off_is_not_taken_for_all_of_it(tmp_path):
    flags = " ".join(f"flag{number}" for number in range(4_000))
    text = f"processor\t: 0\nmodel name\t: Long\nflags\t\t: {flags} hypervisor\n\n"
    box = plain_box().put("/proc/cpuinfo", text).put(f"{DMI}/sys_vendor", "QEMU\n")
    assert read_identity(world(tmp_path, box)).hypervisor == "qemu"


def test_virtual_functions_of_a_network_card_are_no_cards(tmp_path):
    box = plain_box().put("/sys/class/net/eno1v0/device/modalias", "pci:v00008086d00001889\n")
    box.put("/sys/class/net/eno1v0/address", "02:00:00:00:00:77\n")
    assert [nic.slot for nic in read_devices(world(tmp_path / "a", box)).nics] == ["eno1", "eno1v0"]
    box.link("/sys/class/net/eno1v0/device/physfn", "../../eno1/device")
    assert [nic.slot for nic in read_devices(world(tmp_path / "b", box)).nics] == ["eno1"]


def test_usb_controllers_are_told_by_their_class(tmp_path):
    box = plain_box().put("/sys/bus/pci/devices/0000:00:14.0/class", "0x0c0330\n")
    here = world(tmp_path, box)
    asked = ("0000:00:14.0", "0000:00:00.0", "0000:99:00.0")
    assert usb_controllers(here, asked) == {"0000:00:14.0"}


def test_the_parts_that_are_cheap_to_read_are_those_of_a_run(tmp_path):
    from tests.support.runs import run_here

    tree = h100_box().write(tmp_path / "tree")
    row = run_here(tmp_path / "ledgers", root=str(tree)).ledger
    parts = read_parts(World(tree))
    assert set(row["fingerprint"]) - set(parts) == {"memory", "settings"}
    for slot, part in parts.items():
        # other probes of a run may know more of a slot, which then cannot be compared
        assert part.kind.items() <= row["fingerprint"][slot]["kind"].items()
        assert part.identity == row["fingerprint"][slot]["identity"]
