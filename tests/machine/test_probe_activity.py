"""What the box is busy with: GPUs that are held open, and threads that run."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from checks.core.facts import Blind
from checks.core.world import World
from checks.machine.facts import BUSY_RATIO, Activity, Holder
from checks.machine.probe.activity import read_activity
from tests.support.boxes import PID, Box, another_user, plain_box
from tests.support.judging import UNSEEN


def activity(tmp_path: Path, box: Box) -> Activity:
    seen = read_activity(World(box.write(tmp_path)))
    assert isinstance(seen, Activity), seen
    return seen


def holding(*devices: str, name: str = "python3", pid: int = 812) -> Box:
    box = plain_box().process(pid, f"/usr/bin/{name}", name=name[:15])
    box.link(f"/proc/{pid}/fd/0", "/dev/null").link(f"/proc/{pid}/fd/1", "socket:[7]")
    for number, device in enumerate(devices, 20):
        box.link(f"/proc/{pid}/fd/{number}", device)
    return box


@pytest.mark.parametrize(
    "device", ["/dev/nvidia0", "/dev/nvidia15", "/dev/kfd", "/dev/dri/renderD128"]
)
def test_a_process_that_holds_a_gpu_keeps_the_box_busy(tmp_path, device):
    seen = activity(tmp_path, holding("/dev/nvidiactl", device))
    assert seen.holders == (Holder(process="812 python3", device=device),)
    assert seen.busy() == f"pid 812 python3 holds {device}"


@pytest.mark.parametrize(
    "device",
    ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/dri/card0", "/dev/nvidia0x"],
)
def test_what_every_tool_opens_keeps_nothing_busy(tmp_path, device):
    seen = activity(tmp_path, holding(device))
    assert (seen.holders, seen.busy()) == ((), "")


@pytest.mark.parametrize(
    "name",
    [
        *("Xorg", "Xwayland", "gnome-shell", "nvidia-persistenced", "nvidia-smi", "nv-hostengine"),
        *("dcgm-exporter", "nv-fabricmanager", "nvidia_gpu_exporter", "telegraf", "nvtop"),
    ],
)
def test_who_only_draws_or_looks_keeps_nothing_busy(tmp_path, name):
    seen = activity(tmp_path, holding("/dev/nvidia0", name=name))
    assert (seen.holders, seen.busy()) == ((), "")


def test_the_suite_itself_keeps_nothing_busy(tmp_path):
    seen = activity(tmp_path, plain_box().link(f"/proc/{PID}/fd/9", "/dev/nvidia0"))
    assert (seen.holders, seen.running_count, seen.busy()) == ((), 0, "")


@pytest.mark.parametrize(
    ("loadavg", "running", "busy"),
    [
        ("0.00 0.00 0.00 1/100 7", 0, ""),
        ("9.00 9.00 9.00 1/100 7", 0, ""),  # of what has ended
        ("0.00 0.00 0.00 3/100 7", 2, ""),
        ("0.00 0.00 0.00 4/100 7", 3, "3 threads run on 8 CPUs"),
        ("0.00 0.00 0.00 0/100 7", 0, ""),
    ],
)
def test_threads_that_run_keep_the_box_busy_beyond_a_quarter_of_its_cpus(
    tmp_path, loadavg, running, busy
):
    assert BUSY_RATIO == 0.25
    seen = activity(tmp_path, plain_box().put("/proc/loadavg", f"{loadavg}\n"))
    assert (seen.running_count, seen.host_cpus, seen.busy()) == (running, 8, busy)


@pytest.mark.parametrize(
    "text", ["", "0.00 0.00 0.00", "1 2 3 x/9 1", "1 2 3 ٣/9 1", "a b c 1/2 3 4"]
)
def test_a_load_that_makes_no_sense_is_unseen(tmp_path, text):
    seen = activity(tmp_path, plain_box().put("/proc/loadavg", text))
    assert seen.running_count.reason is Blind.MALFORMED
    assert seen.busy() == ""


def facts(**changes: object) -> Activity:
    fields = {
        "holders": (),
        "holders_left_out_count": 0,
        "unlooked_count": 0,
        "running_count": 0,
        "host_cpus": 8,
    }
    return Activity(**(fields | changes))


def test_of_many_holders_the_first_are_named():
    four = tuple(Holder(process=f"{n} python3", device="/dev/nvidia0") for n in range(4))
    assert facts(holders=four, running_count=8).busy() == (
        "pid 0 python3 holds /dev/nvidia0; pid 1 python3 holds /dev/nvidia0; pid 2 python3 holds "
        "/dev/nvidia0; 1 more such processes; 8 threads run on 8 CPUs"
    )
    assert "6 more" in facts(holders=four, holders_left_out_count=5).busy()
    assert facts(holders=UNSEEN).busy().startswith("who holds the GPUs cannot be seen")
    assert facts(unlooked_count=9).busy() == ""
    assert facts(running_count=UNSEEN, host_cpus=UNSEEN).busy() == ""


def test_many_holders_are_counted(tmp_path):
    box = plain_box()
    for pid in range(1_000, 1_040):
        box.process(pid, "worker").link(f"/proc/{pid}/fd/3", "/dev/nvidia1")
    seen = activity(tmp_path, box)
    assert (len(seen.holders), seen.holders_left_out_count) == (32, 8)


def test_a_real_process_that_holds_a_device_is_found_and_let_go(tmp_path):
    """Which link it is does not matter: the target of the descriptor is what counts."""
    device = tmp_path / "device"
    device.touch()
    world = World()
    real = world.link

    def link(path: str):
        seen = real(path)
        return "/dev/nvidia3" if seen == str(device) else seen

    world.link = link
    with device.open() as held, subprocess.Popen(["sleep", "60"], stdin=held) as process:
        time.sleep(0.05)
        seen = read_activity(world)
        process.kill()
    mine = [one for one in seen.holders if one.process.startswith(f"{process.pid} ")]
    assert mine == [Holder(process=f"{process.pid} sleep", device="/dev/nvidia3")]
    assert not any(one.process.startswith(f"{os.getpid()} ") for one in seen.holders)


@pytest.mark.root
def test_processes_of_others_are_counted_and_an_engine_among_them_is_named(tmp_path):
    user = another_user()
    if not user:
        pytest.skip("needs root: a process of another user")
    box = plain_box().process(900, "/opt/llama-server", "-t", "4").process(901, "/usr/sbin/sshd")
    box.process(902, "VLLM::EngineCore").process(2, "", name="kthreadd").put("/proc/2/cmdline", "")
    for pid in (900, 901, 902, 2):
        box.link(f"/proc/{pid}/fd/3", "/dev/nvidia0")
    tmp_path.chmod(0o755)
    root = box.write(tmp_path / "tree")
    for pid in (900, 901, 902, 2):
        (root / f"proc/{pid}/fd").chmod(0o700)
    for parent in [root, *root.parents]:
        if parent.stat().st_uid == 0 and parent.is_relative_to("/tmp/pytest-of-root"):
            parent.chmod(0o755)
    os.seteuid(user)
    try:
        seen = read_activity(World(root))
    finally:
        os.seteuid(0)
    assert seen.unlooked_count == 3
    assert {one.process for one in seen.holders} == {"900 llama-server", "902 VLLM::EngineCor"}
    assert "pid 900 llama-server is an engine" in seen.busy()


def test_this_machine_is_looked_at_quickly():
    started = time.monotonic()
    seen = read_activity(World())
    assert isinstance(seen, Activity)
    assert seen.host_cpus == os.cpu_count()
    assert isinstance(seen.running_count, int)
    assert time.monotonic() - started < 2.0
