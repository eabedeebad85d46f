"""What limits a place besides CPUs, read from trees and from real processes, mounts and cgroups."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.place import Place
from checks.core.world import World
from checks.machine.facts import (
    Killed,
    Limits,
    ResourceLimits,
    Rights,
    SharedMemory,
    TaskGroups,
    TaskLimit,
)
from checks.machine.probe.limits import read_limits
from checks.machine.probe.rdma import read_rdma
from tests.support.boxes import (
    DOCKER,
    ENGINE,
    EVERYTHING,
    ID,
    PID,
    Box,
    _with_limits,
    add_rdma,
    limits_text,
    plain_box,
    shared_memory,
)

CGROUP = "/sys/fs/cgroup"
GIB = 2**30
THIS = Place("this")
AT = Place("pid", str(ENGINE))


def look(tmp_path: Path, box: Box, place: Place = THIS) -> Limits:
    seen = read_limits(World(box.write(tmp_path)), place)
    assert isinstance(seen, Limits), seen
    return seen


def engine(cgroup: str = "0::/\n") -> Box:
    return plain_box().process(ENGINE, "/opt/llama-server", cgroup=cgroup)


# Resource limits


def test_limits_are_read_as_the_kernel_writes_them(tmp_path):
    text = limits_text("8388608", files="1024", processes="96363")
    seen = look(tmp_path, engine().put(f"/proc/{ENGINE}/limits", text), AT).resources
    assert seen == ResourceLimits(
        locked_soft_bytes=8_388_608,
        locked_hard_bytes=8_388_608,
        open_files_soft_count=1_024,
        open_files_hard_count=1_024,
        processes_soft_count=96_363,
    )


@pytest.mark.parametrize("text", ["unlimited", "9223372036854775807", "18446744073709551615"])
def test_a_limit_beyond_all_numbers_is_none(tmp_path, text):
    seen = look(tmp_path, engine().put(f"/proc/{ENGINE}/limits", limits_text(text)), AT).resources
    assert seen.locked_soft_bytes is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        limits_text("-1"),
        limits_text("8 MiB"),
        limits_text("٣٣"),
        limits_text("nan"),
        limits_text("9" * 21),
        limits_text(files=""),
        limits_text().replace("Max processes", "Max threads"),
    ],
)
def test_limits_that_make_no_sense_are_no_limits(tmp_path, text):
    seen = look(tmp_path, engine().put(f"/proc/{ENGINE}/limits", text), AT).resources
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.MALFORMED


def test_what_is_not_there_to_be_read_is_unseen_and_leaves_the_rest(tmp_path):
    seen = look(tmp_path, engine().drop(f"/proc/{ENGINE}/limits"), AT)
    assert seen.resources.reason is Blind.ABSENT
    assert seen.affinity_cpus == 8


@contextlib.contextmanager
def running(*argv: str) -> Iterator[int]:
    """Start a process that does nothing for a while."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def live(pid: int) -> Limits:
    seen = read_limits(World(), Place("pid", str(pid)))
    assert isinstance(seen, Limits), seen
    return seen


def test_the_limits_of_a_real_process_are_its_own():
    lower = "ulimit -S -l 64; ulimit -H -l 128; ulimit -S -n 77; ulimit -H -n 99"
    with running("sh", "-c", f"{lower}; echo ready; exec sleep 60") as pid:
        seen = live(pid).resources
    assert (seen.locked_soft_bytes, seen.locked_hard_bytes) == (65_536, 131_072)
    assert (seen.open_files_soft_count, seen.open_files_hard_count) == (77, 99)


# What lifts them


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        ("0000000000000000", ()),
        (EVERYTHING, ("ipc_lock", "sys_admin", "sys_resource")),
        (DOCKER, ()),
        ("0000000000004000", ("ipc_lock",)),
        ("0000000000008000", ()),
        ("0000000001000000", ("sys_resource",)),
    ],
)
def test_capabilities_that_lift_a_limit_are_read(tmp_path, bits, names):
    box = _with_limits(engine(), ENGINE, capabilities=bits)
    assert look(tmp_path, box, AT).rights == Rights(capabilities=names, root=False, own_users=False)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("         0          0 4294967295\n", False),
        ("         0     100000      65536\n", True),
        ("         0       1000          1\n         1     100000      65536\n", True),
        ("", True),
        (None, False),
    ],
)
def test_a_user_namespace_of_its_own_is_seen(tmp_path, text, own):
    box = engine().drop(f"/proc/{ENGINE}/uid_map")
    if text is not None:
        box.put(f"/proc/{ENGINE}/uid_map", text)
    assert look(tmp_path, box, AT).rights.own_users is own


def test_root_is_the_user_number_0_and_a_status_without_users_is_unseen(tmp_path):
    assert look(tmp_path / "a", _with_limits(engine(), ENGINE, uid=0), AT).rights.root is True
    box = engine().put(f"/proc/{ENGINE}/status", "State:\tS\nCpus_allowed_list:\t0-7\n")
    assert look(tmp_path / "b", box, AT).rights.reason is Blind.MALFORMED


def test_the_rights_of_a_real_process_in_a_user_namespace_are_those_of_one():
    made = subprocess.run(["unshare", "--user", "--map-root-user", "true"], check=False)
    if made.returncode != 0:
        pytest.skip("needs user namespaces")
    shell = ("sh", "-c", "echo ready; exec sleep 60")
    with running("unshare", "--user", "--map-root-user", *shell) as pid:
        seen = live(pid).rights
    assert "ipc_lock" in seen.capabilities
    assert seen.own_users is True


# CPUs


@pytest.mark.parametrize(("allowed", "cpus"), [("0-7", 8), ("0-3", 4), ("0-127", 8), ("2", 1)])
def test_the_cpus_of_a_place_are_those_of_its_affinity_that_are_there(tmp_path, allowed, cpus):
    box = plain_box().process(ENGINE, "x", allowed=allowed)
    assert look(tmp_path, box, AT).affinity_cpus == cpus


# Processes and threads


def test_limits_of_processes_are_read_at_every_level_the_tightest_first(tmp_path):
    box = engine("0::/a/b\n").group(f"{CGROUP}/a", pids="100", pids_used="90")
    box.group(f"{CGROUP}/a/b", pids="4096", pids_used="5")
    assert look(tmp_path, box, AT).tasks == TaskGroups(
        limits=(
            TaskLimit(source=f"{CGROUP}/a/pids.max", limit_count=100, used_count=90),
            TaskLimit(source=f"{CGROUP}/a/b/pids.max", limit_count=4_096, used_count=5),
        ),
        above_unseen=False,
    )


def test_a_level_without_a_limit_limits_nothing(tmp_path):
    box = engine("0::/a\n").group(f"{CGROUP}/a", pids="max", pids_used="9")
    assert look(tmp_path, box, AT).tasks.limits == ()


def test_limits_of_processes_are_read_in_version_1(tmp_path):
    mount = "35 31 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    box = engine("8:pids:/docker/x\n3:cpu:/\n").drop(CGROUP).mounts(mount)
    box.put(f"{CGROUP}/pids/release_agent", "")
    box.group(f"{CGROUP}/pids/docker/x", pids="64", pids_used="3")
    seen = look(tmp_path, box, AT).tasks
    assert [(one.limit_count, one.used_count) for one in seen.limits] == [(64, 3)]
    assert seen.above_unseen is False


@pytest.mark.parametrize(
    ("most", "used"),
    [
        ("-1", "1"),
        ("ten", "1"),
        ("9" * 16, "1"),
        ("٣", "1"),
        ("10", "max"),
        ("10", "-1"),
        ("", "1"),
    ],
)
def test_numbers_of_processes_that_make_no_sense_are_unseen(tmp_path, most, used):
    box = engine("0::/a\n").group(f"{CGROUP}/a", pids=most, pids_used=used)
    assert look(tmp_path, box, AT).tasks.reason is Blind.MALFORMED


def test_a_cgroup_that_cannot_be_entered_is_unseen_with_its_reason(tmp_path):
    seen = look(tmp_path, engine("0::/../elsewhere\n"), AT)
    for part in (seen.tasks, seen.memory, seen.killed):
        assert part.reason is Blind.PERMISSION
        assert "lies outside what is mounted" in part.detail
        assert part.remedy


@pytest.fixture
def pids_group() -> Iterator[Path]:
    """Make a cgroup of 50 processes, of whichever version this machine has."""
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids")):
        folder = root / f"preflight-pids-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "pids.max").exists():
            (folder / "pids.max").write_text("50")
            break
        folder.rmdir()
    else:
        pytest.skip("needs root: cgroups with a limit of processes that this user may make")
    yield folder
    for _ in range(100):
        with contextlib.suppress(OSError):
            folder.rmdir()
            break
        time.sleep(0.02)


@pytest.mark.root
def test_the_limit_of_processes_of_a_real_cgroup_is_read(pids_group):
    line = f"echo $$ > {pids_group}/cgroup.procs; sleep 60 & echo ready; exec sleep 60"
    with running("sh", "-c", line) as pid:
        seen = live(pid)
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), 9)
    limit = seen.tasks.limits[0]
    assert (limit.source, limit.limit_count) == (f"{pids_group}/pids.max", 50)
    assert limit.used_count == 2
    assert seen.own_tasks_count == 2


# What runs in the place already


def test_what_runs_in_a_place_is_counted_with_its_threads_and_its_memory(tmp_path):
    path = f"/system.slice/docker-{ID}.scope"
    box = engine(f"0::{path}\n").group(f"{CGROUP}{path}")
    box.process(901, "worker", parent=ENGINE, cgroup=f"0::{path}\n")
    box.process(902, "other", cgroup="0::/\n")
    _with_limits(box, ENGINE, threads=3, anonymous_kib=10)
    _with_limits(box, 901, threads=40, anonymous_kib=500)
    seen = look(tmp_path, box, Place("container", ID[:12]))
    assert seen.own_tasks_count == 43
    assert seen.own_memory_bytes == 510 * 1_024
    own = read_limits(World(tmp_path), THIS)
    assert (own.own_tasks_count, own.own_memory_bytes) == (0, 0)


def test_memory_of_a_place_is_unseen_under_a_kernel_that_does_not_tell_it(tmp_path):
    status = "State:\tS\nVmRSS:\t 7 kB\nCpus_allowed_list:\t0-7\n"
    seen = look(tmp_path, engine().put(f"/proc/{ENGINE}/status", status), AT)
    assert seen.own_memory_bytes.reason is Blind.UNSUPPORTED
    assert seen.own_tasks_count == 1


# Kills


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("memory.events", "low 0\nhigh 2\nmax 9\noom 5\noom_kill 3\noom_group_kill 0\n"),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ],
)
def test_kills_for_want_of_memory_are_read_with_the_time_since_boot(tmp_path, file, text):
    box = engine("0::/a\n").group(f"{CGROUP}/a").put(f"{CGROUP}/a/{file}", text)
    seen = look(tmp_path, box, AT).killed
    assert seen == Killed(source=f"{CGROUP}/a/{file}", kills_count=3, up_s=90_061.0)


@pytest.mark.parametrize("text", ["", "oom 5\n", "oom_kill -1\n", "oom_kill ٣\n"])
def test_kills_that_nobody_counts_are_unseen(tmp_path, text):
    box = engine("0::/a\n").group(f"{CGROUP}/a").put(f"{CGROUP}/a/memory.events", text)
    assert look(tmp_path, box, AT).killed.reason is Blind.UNSUPPORTED
    none = engine().put(f"{CGROUP}/cgroup.controllers", "cpu\n")
    assert look(tmp_path / "none", none, AT).killed.reason is Blind.UNSUPPORTED


# Shared memory


def test_shared_memory_is_that_of_the_place(tmp_path):
    box = shared_memory(engine(), 64 * 2**20, pid=ENGINE)
    assert look(tmp_path, box, AT).shm == SharedMemory(total_bytes=2**26, free_bytes=2**26)
    assert read_limits(World(tmp_path), THIS).shm.total_bytes == 270 * 10**9


def test_shared_memory_that_is_not_recorded_is_not_that_of_the_root(tmp_path):
    assert look(tmp_path, engine(), AT).shm.reason is Blind.NOT_RECORDED


def test_a_folder_that_is_not_there_has_no_room_of_its_own(tmp_path):
    seen = World().room_at(str(tmp_path / "shm"))
    assert (seen.reason, seen.detail) == (Blind.ABSENT, f"{tmp_path}/shm is absent")
    assert World().room_at(str(tmp_path)).path == str(tmp_path)


@pytest.mark.root
def test_shared_memory_of_a_real_mount_namespace_is_read_from_outside():
    mount = "mount -t tmpfs -o size=5m none /dev/shm && head -c 1048576 /dev/zero > /dev/shm/x"
    shell = ("sh", "-c", f"{mount} && echo ready; exec sleep 60")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("needs root: a mount namespace")
    with running("unshare", "--mount", *shell) as pid:
        seen = live(pid).shm
    assert (seen.total_bytes, seen.free_bytes) == (5 * 2**20, 4 * 2**20)


# RDMA


def test_devices_are_read_with_their_ports_those_that_are_up_first(tmp_path):
    box = add_rdma(plain_box(), "mlx5_0", state="1: DOWN")
    add_rdma(box, "mlx5_1").put("/sys/class/infiniband/mlx5_1/ports/2/state", "2: INIT\n")
    box.put("/sys/class/infiniband/rxe0/node_type", "1: CA\n")
    seen = read_rdma(World(box.write(tmp_path)))
    assert [(one.name, one.port_states) for one in seen.devices] == [
        ("mlx5_1", ("4: ACTIVE", "2: INIT")),
        ("rxe0", ()),
        ("mlx5_0", ("1: DOWN",)),
    ]
    assert not any(one.under_synthetic for one in seen.devices)
    assert seen.left_out_count == 0


def test_a_box_without_rdma_has_none_and_hundreds_are_counted(tmp_path):
    assert read_rdma(World(plain_box().write(tmp_path / "a"))).devices == ()
    box = plain_box()
    for number in range(40):
        add_rdma(box, f"mlx5_{number}", state="4: ACTIVE" if number == 39 else "1: DOWN")
    seen = read_rdma(World(box.write(tmp_path / "b")))
    assert (len(seen.devices), seen.left_out_count) == (32, 8)
    assert seen.devices[0].name == "mlx5_39"
    odd = plain_box().put("/sys/class/infiniband", "a file")
    assert read_rdma(World(odd.write(tmp_path / "c"))).reason is Blind.MALFORMED


@pytest.mark.parametrize(("driver", "under"), [("hv_netvsc", True), ("bonding", False)])
def test_the_helper_of_a_synthetic_network_card_is_told_apart(tmp_path, driver, under):
    box = add_rdma(plain_box(), "mlx5_0")
    box.put("/sys/class/infiniband/mlx5_0/device/net/eth1/address", "02:00:00:00:00:02\n")
    box.put("/sys/class/net/eth1/address", "x\n").put("/sys/class/net/eth0/device/x", "\n")
    box.link("/sys/class/net/eth1/master", "../../../../../VMBUS:01/net/eth0")
    box.link("/sys/class/net/eth0/device/driver", f"../../../../bus/vmbus/drivers/{driver}")
    (device,) = read_rdma(World(box.write(tmp_path))).devices
    assert device.under_synthetic is under


def test_whether_a_place_has_a_device_file_is_seen(tmp_path):
    assert look(tmp_path / "a", add_rdma(plain_box(), "mlx5_0")).rdma_openable is True
    empty = plain_box().put("/dev/infiniband/rdma_cm", "")
    assert look(tmp_path / "b", empty).rdma_openable is False
    assert look(tmp_path / "c", plain_box().put("/dev/null", "")).rdma_openable is False
    bare = look(tmp_path / "d", plain_box().drop("/dev")).rdma_openable
    assert bare.reason is Blind.NOT_RECORDED
    other = engine().put(f"/proc/{ENGINE}/root/dev/infiniband/uverbs0", "")
    assert look(tmp_path / "e", other, AT).rdma_openable is True


def test_this_machine_is_read_without_a_gap():
    seen = read_limits(World(), THIS)
    assert isinstance(seen, Limits)
    assert seen.resources.open_files_soft_count == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert seen.affinity_cpus == len(os.sched_getaffinity(0))
    assert seen.rights.root is (os.getuid() == 0)
    assert str(PID) not in seen.process, sys.argv
