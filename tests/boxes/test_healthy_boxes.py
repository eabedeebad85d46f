"""Healthy boxes of other makes: nothing fails, nothing is unknown, and they are called what they are."""

from __future__ import annotations

import pytest

from tests.support.boxes import (
    amd_box,
    arm_board,
    cloud_vm,
    docker_box,
    h100_box,
    plain_box,
    pod_box,
    wsl_box,
)

GIB = 2**30
COMMON = f"""
[hardware]
memory_total_bytes = {512 * GIB}
memory_available_min_bytes = {400 * GIB}
"""
SERVE = """
[[serve]]
name = "chat"
engine = "llama.cpp"
command = "llama-server -t 4"
model = "example-org/chat-8b"
model_bytes = 16_000_000_000
"""
BOXES = {
    # box: hypervisor, container, name of the GPU and how many, architecture, more of [hardware]
    "bare metal with H100": (
        h100_box,
        ("none", "none", 8, "8gpu-h100-80gb-hbm3", "x86_64"),
        'product_name = "PowerEdge XE9680"\nvirtualization = "none"\n',
    ),
    "bare metal without a GPU": (
        plain_box,
        ("none", "none", 0, "0gpu-cpu", "x86_64"),
        'virtualization = "none"\ncontainer = "none"\n',
    ),
    "virtual machine of a cloud": (
        cloud_vm,
        ("amazon", "none", 1, "1gpu-l4", "x86_64"),
        'virtualization = "vm"\n',
    ),
    "container of Docker with a quota": (
        docker_box,
        ("none", "docker", 0, "0gpu-cpu", "x86_64"),
        'container = "docker"\n',
    ),
    "pod of Kubernetes": (
        pod_box,
        ("none", "kubernetes", 0, "0gpu-cpu", "x86_64"),
        'container = "any"\n',
    ),
    "Arm board": (
        arm_board,
        ("none", "none", 0, "0gpu-cpu", "aarch64"),
        'architecture = "aarch64"\nproduct_name = "Raspberry Pi 5 Model B Rev 1.0"\n',
    ),
    "WSL": (wsl_box, ("wsl", "none", 0, "0gpu-cpu", "x86_64"), 'virtualization = "vm"\n'),
    "bare metal with MI300X": (
        amd_box,
        ("none", "none", 4, "4gpu-1002-74a1", "x86_64"),
        'container = "none"\n',
    ),
}


def seen(run, probe: str) -> dict:
    rows = [row for row in run.ledger["observations"] if row["probe"] == probe]
    return rows[0]["data"]


@pytest.mark.parametrize("name", BOXES)
def test_a_healthy_box_passes_and_is_called_what_it_is(suite, tmp_path, name):
    make, (hypervisor, container, gpus, sku, machine), hardware = BOXES[name]
    run = suite.run(
        tmp_path, root=make().write(tmp_path / "tree"), profile=f"{COMMON}{hardware}{SERVE}"
    )
    assert run.with_verdict("fail", "unknown") == []
    assert run.code == 0, run.out
    identity = seen(run, "machine.identity")
    assert (identity["hypervisor"], identity["container"]) == (hypervisor, container)
    assert identity["architecture"] == machine
    devices = seen(run, "machine.devices")["gpus"]
    assert len(devices) == gpus
    assert run.ledger_path is not None
    assert run.ledger_path.name.endswith(f"-planted-{sku}-pass.json")
    slots = [slot for slot in run.ledger["fingerprint"] if slot.startswith("gpu[")]
    assert len(slots) == gpus


@pytest.mark.parametrize("name", BOXES)
def test_the_same_box_under_a_profile_of_another_fails(suite, tmp_path, name):
    """The healthy twin's opposite: what passed above can also fail, each by its own check."""
    make, (_, container, _, _, machine), _ = BOXES[name]
    other = "x86_64" if machine == "aarch64" else "aarch64"
    profile = (
        f'[hardware]\narchitecture = "{other}"\nproduct_name = "another"\n'
        f'virtualization = "vmware"\ncontainer = "{"podman" if container == "none" else "none"}"\n'
        f"memory_total_bytes = {1024 * GIB}\nmemory_available_min_bytes = {600 * GIB}\n"
    )
    run = suite.run(tmp_path, root=make().write(tmp_path / "tree"), profile=profile)
    for check in ("architecture", "virtualization", "container"):
        assert run.finding(f"machine.identity.{check}")["cause"] == "not-as-declared", check
    product = run.finding("machine.identity.product")
    # Windows shows no product name to its Linux: that cannot be told, and is not a pass
    assert product["verdict"] == ("unknown" if name == "WSL" else "fail")
    assert run.finding("machine.memory.total")["cause"] == "less-memory-than-declared"
    available = run.finding("machine.memory.available")
    assert (available["reason"], available["blocked_by"]) == (
        "blocked-by",
        "machine.memory.total [box]",
    )
    assert run.code == 1
    # a box of the right size, on which something holds the memory
    profile = f"[hardware]\nmemory_available_min_bytes = {600 * GIB}\n"
    run = suite.run(tmp_path, root=tmp_path / "tree", profile=profile)
    assert run.finding("machine.memory.available")["cause"] == "memory-in-use"
    assert run.code == 1


def test_identical_gpus_keep_their_own_identities(suite, tmp_path):
    run = suite.run(tmp_path, root=h100_box().write(tmp_path / "tree"))
    parts = [part for slot, part in run.ledger["fingerprint"].items() if slot.startswith("gpu[")]
    assert len({str(part["kind"]) for part in parts}) == 1
    assert len({str(part["identity"]) for part in parts}) == 8


def test_a_recorded_tree_with_absolute_links_is_read_inside_of_itself(suite, tmp_path):
    """Else the run would take files of the machine that it runs on for those of the other box."""
    box = plain_box().drop("/etc/os-release", "/etc/machine-id", "/proc/meminfo")
    box.put("/usr/lib/os-release-of-the-box", 'PRETTY_NAME="Planted OS"\n')
    box.link("/etc/os-release", "/usr/lib/os-release-of-the-box")
    box.link("/etc/machine-id", "../../../../../../../../etc/hostname")
    box.link("/proc/meminfo", "/proc/meminfo-of-nobody")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=COMMON)
    identity = seen(run, "machine.identity")
    assert identity["os_name"] == "Planted OS"
    assert identity["machine_id"]["unseen"] == "absent"
    assert run.finding("machine.memory.total")["verdict"] == "unknown"
