"""Whole runs on boxes whose places lock, share, open, start or hold too little, and on their healthy twins."""

from __future__ import annotations

import sys

import pytest

from tests.support.boxes import (
    DOCKER,
    ENGINE,
    EVERYTHING,
    ID,
    PID,
    PREFLIGHT,
    SWAPS,
    Box,
    _with_limits,
    _with_memory,
    add_rdma,
    docker_box,
    h100_box,
    huge_pages,
    limits_text,
    plain_box,
    shared_memory,
)
from tests.support.runs import command, the_ledger

CGROUP = "/sys/fs/cgroup"
MIB, GIB = 2**20, 2**30
SCOPE = f"/system.slice/docker-{ID}.scope"


def serve(command: str = "llama-server -t 4", *more: str, where: str = "this") -> str:
    lines = (f'name = "chat"\nwhere = "{where}"\ncommand = "{command}"', *more)
    return "[[serve]]\n" + "\n".join(lines) + "\n"


def judged(suite, tmp_path, box: Box, check: str, subject: str = "this", profile: str = ""):
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    return run.finding(check, subject)


def in_container(**limits: object) -> Box:
    """A box with an engine in a container of Docker, as the host sees it."""
    box = plain_box().process(ENGINE, "/usr/bin/vllm", "serve", "m", cgroup=f"0::{SCOPE}\n")
    box.group(f"{CGROUP}/system.slice").group(f"{CGROUP}{SCOPE}")
    _with_limits(box, ENGINE, **{"uid": 0, "capabilities": DOCKER, **limits})
    return shared_memory(box, 64 * MIB, pid=ENGINE)


# Locked memory

MEMLOCK = "machine.limits.memlock"


@pytest.mark.parametrize(
    ("locked", "rights", "rdma", "verdict"),
    [
        ("8388608", {}, True, "fail"),
        ("65536", {}, True, "fail"),
        ("unlimited", {}, True, "pass"),
        ("68719476736", {}, True, "pass"),
        ("8388608", {}, False, "not-applicable"),
        ("8388608", {"capabilities": EVERYTHING, "uid": 0}, True, "pass"),
        ("8388608", {"capabilities": DOCKER, "uid": 0}, True, "fail"),
    ],
)
def test_rdma_needs_locked_memory(suite, tmp_path, locked, rights, rdma, verdict):
    box = _with_limits(plain_box(), PID, limits=limits_text(locked), **rights)
    if rdma:
        add_rdma(box, "mlx5_0")
    found = judged(suite, tmp_path, box, MEMLOCK)
    assert found["verdict"] == verdict, found["says"]
    assert bool(found["notes"]) is (locked == "68719476736")
    if verdict == "fail":
        assert found["cause"] == "locked-memory-limited"
        assert "--ulimit memlock=-1" in found["remedy"]


def test_the_public_report_of_8_mib_with_rdma_in_sysfs_alone_fails(suite, tmp_path):
    box = _with_limits(plain_box(), PID, limits=limits_text("8388608")).drop("/dev")
    box.put("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    assert judged(suite, tmp_path, box, MEMLOCK)["cause"] == "locked-memory-limited"


def test_rights_of_a_user_namespace_do_not_lift_the_limit_of_locked_memory(suite, tmp_path):
    box = add_rdma(_with_limits(plain_box(), PID, capabilities=EVERYTHING, uid=0), "mlx5_0")
    box.put(f"/proc/{PID}/uid_map", "         0     100000      65536\n")
    assert judged(suite, tmp_path, box, MEMLOCK)["verdict"] == "fail"


@pytest.mark.parametrize("kind", ["no port is up", "no device file", "accelerated networking"])
def test_rdma_that_nobody_can_use_asks_for_no_locked_memory(suite, tmp_path, kind):
    box = add_rdma(
        plain_box(), "mlx5_0", state="1: DOWN" if kind == "no port is up" else "4: ACTIVE"
    )
    if kind == "no device file":
        box.drop("/dev/infiniband").put("/dev/null", "")
    if kind == "accelerated networking":
        box.put("/sys/class/infiniband/mlx5_0/device/net/eth1/x", "")
        box.put("/sys/class/net/eth0/device/x", "").put("/sys/class/net/eth1/x", "")
        box.link("/sys/class/net/eth1/master", "../eth0")
        box.link("/sys/class/net/eth0/device/driver", "../../../bus/vmbus/drivers/hv_netvsc")
    assert judged(suite, tmp_path, box, MEMLOCK)["verdict"] == "not-applicable"


def test_of_suite_and_container_each_has_its_own_limit_of_locked_memory(suite, tmp_path):
    box = add_rdma(in_container(limits=limits_text("8388608")), "mlx5_0")
    box.put(f"/proc/{ENGINE}/root/dev/infiniband/uverbs0", "")
    _with_limits(box, PID, limits=limits_text())
    run = suite.run(
        tmp_path,
        root=box.write(tmp_path / "tree"),
        profile=serve(where=f"container:{ID[:12]}"),
    )
    assert run.finding(MEMLOCK, "this")["verdict"] == "pass"
    found = run.finding(MEMLOCK, "chat")
    assert found["verdict"] == "fail"
    assert f"looked at process {ENGINE} vllm" in found["evidence"][0]


# Shared memory

SHM = "machine.limits.shm"


@pytest.mark.parametrize(
    ("size", "command", "verdict"),
    [
        (64 * MIB, "vllm serve m --tensor-parallel-size 2", "fail"),
        (64 * MIB + 1, "vllm serve m -tp 2", "pass"),
        (64 * MIB, "vllm serve m", "not-applicable"),
        (16 * GIB, "python3 -m sglang.launch_server --tp-size 2", "pass"),
        (64 * MIB, "python3 -m sglang.launch_server --tp 2", "fail"),
        (0, "vllm serve m -tp 8", "pass"),
    ],
)
def test_several_gpus_share_more_memory_than_a_container_gets_by_default(
    suite, tmp_path, size, command, verdict
):
    box = shared_memory(docker_box(), size)
    found = judged(suite, tmp_path, box, SHM, "chat", serve(command))
    assert found["verdict"] == verdict, found["says"]
    if verdict == "fail":
        assert found["cause"] == "shm-too-small"


def test_the_shared_memory_of_a_running_container_is_its_own(suite, tmp_path):
    profile = serve("vllm serve m -tp 2", where=f"container:{ID[:12]}")
    found = judged(suite, tmp_path, in_container(), SHM, "chat", profile)
    assert found["cause"] == "shm-too-small"
    large = shared_memory(in_container(), 16 * GIB, free_bytes=0, pid=ENGINE)
    assert judged(suite, tmp_path / "large", large, SHM, "chat", profile)["verdict"] == "pass"


@pytest.mark.parametrize(("least", "verdict"), [(GIB, "pass"), (GIB + 1, "fail")])
def test_declared_shared_memory_is_wanted(suite, tmp_path, least, verdict):
    box = shared_memory(plain_box(), GIB)
    profile = serve("vllm serve m", f"shm_min_bytes = {least}")
    found = judged(suite, tmp_path, box, SHM, "chat", profile)
    assert (found["verdict"], found["basis"]) == (verdict, "declared")


def test_shared_memory_that_is_full_before_the_engine_starts_fails(suite, tmp_path):
    box = shared_memory(plain_box(), 16 * GIB, free_bytes=MIB)
    found = judged(suite, tmp_path, box, SHM, "chat", serve("vllm serve m -tp 2"))
    assert found["cause"] == "shm-full"


# Open files


@pytest.mark.parametrize(("files", "verdict"), [("1024", "fail"), ("65536", "pass")])
def test_declared_open_files_are_wanted(suite, tmp_path, files, verdict):
    box = _with_limits(plain_box(), PID, limits=limits_text(files=files))
    profile = serve("vllm serve m", "open_files_min_count = 65536")
    found = judged(suite, tmp_path, box, "machine.limits.nofile", "chat", profile)
    assert found["verdict"] == verdict


# Processes and threads

PIDS = "machine.limits.pids"


@pytest.mark.parametrize(
    ("most", "command", "verdict"),
    [
        ("max", "llama-server -t 200", "pass"),
        ("4096", "llama-server -t 200", "pass"),
        ("206", "llama-server -t 200", "fail"),
        ("207", "llama-server -t 200", "pass"),
        ("30", "llama-server -t 2", "fail"),
        ("39", "llama-server -t 2", "pass"),
    ],
)
def test_as_many_threads_can_be_started_as_are_asked_for(suite, tmp_path, most, command, verdict):
    box = docker_box("max 100000").group(CGROUP, pids=most, pids_used="7")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=serve(command))
    assert run.finding(PIDS, "chat")["verdict"] == verdict
    assert run.finding(PIDS, "this")["verdict"] == ("fail" if most == "30" else "pass")


def test_a_level_above_the_place_limits_it_too(suite, tmp_path):
    box = in_container().group(f"{CGROUP}/system.slice", pids="40", pids_used="30")
    box.group(f"{CGROUP}{SCOPE}", pids="4096", pids_used="1")
    profile = serve("vllm serve m", where=f"container:{ID[:12]}")
    found = judged(suite, tmp_path, box, PIDS, "chat", profile)
    assert found["cause"] == "too-few-tasks-left"
    assert "system.slice/pids.max" in found["says"]


def test_threads_of_an_engine_that_runs_already_are_not_missing(suite, tmp_path):
    box = in_container(threads=90).group(f"{CGROUP}{SCOPE}", pids="100", pids_used="90")
    profile = serve("vllm serve m -t 80", where=f"container:{ID[:12]}")
    assert judged(suite, tmp_path, box, PIDS, "chat", profile)["verdict"] == "pass"


@pytest.mark.parametrize(("uid", "verdict"), [(1000, "fail"), (0, "pass")])
def test_the_limit_of_a_users_processes_is_compared_and_root_has_none(
    suite, tmp_path, uid, verdict
):
    box = _with_limits(plain_box(), PID, limits=limits_text(processes="20"), uid=uid)
    found = judged(suite, tmp_path, box, PIDS)
    assert found["verdict"] == verdict
    if uid:
        assert found["cause"] == "processes-limited"


# Memory

LIMIT = "machine.memory.limit"


def memory_group(box: Box, path: str, limit: str, used: int = 0, kills: int = 0) -> Box:
    root = f"{CGROUP}{path}"
    box.put(f"{root}/memory.max", f"{limit}\n").put(f"{root}/memory.current", f"{used}\n")
    return box.put(f"{root}/memory.stat", "inactive_file 0\nactive_file 0\n").put(
        f"{root}/memory.events", f"oom {kills}\noom_kill {kills}\n"
    )


@pytest.mark.parametrize(("limit", "verdict"), [(8 * GIB, "pass"), (8 * GIB - 1, "fail")])
def test_the_cgroups_of_a_place_leave_what_its_engine_needs(suite, tmp_path, limit, verdict):
    box = memory_group(in_container(), SCOPE, str(limit), kills=4)
    profile = serve("x", f"host_memory_min_bytes = {8 * GIB}", where=f"container:{ID[:12]}")
    found = judged(suite, tmp_path, box, LIMIT, "chat", profile)
    assert found["verdict"] == verdict
    assert f"{CGROUP}{SCOPE}/memory.max" in found["evidence"][1]
    assert "killed 4 processes" in found["notes"][0]


def test_memory_that_the_engine_holds_itself_is_not_missing(suite, tmp_path):
    held = 6 * GIB
    box = memory_group(in_container(anonymous_kib=held // 1024), SCOPE, str(8 * GIB), used=held)
    profile = serve("x", f"host_memory_min_bytes = {8 * GIB}", where=f"container:{ID[:12]}")
    assert judged(suite, tmp_path, box, LIMIT, "chat", profile)["verdict"] == "pass"
    idle = memory_group(in_container(), SCOPE, str(8 * GIB), used=held)
    assert judged(suite, tmp_path / "b", idle, LIMIT, "chat", profile)["verdict"] == "fail"


@pytest.mark.parametrize("kind", ["unreadable", "not in this mount"])
def test_a_place_whose_cgroups_cannot_be_entered_is_unknown(suite, tmp_path, kind):
    box = in_container()
    if kind == "unreadable":
        box.put(f"/proc/{ENGINE}/cgroup", "garbage\n")
        where = f"pid:{ENGINE}"
    else:
        box.drop(f"{CGROUP}{SCOPE}")
        where = f"container:{ID[:12]}"
    profile = serve("x", f"host_memory_min_bytes = {GIB}", where=where)
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    for check in (LIMIT, PIDS):
        found = run.finding(check, "chat")
        assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
        assert found["remedy"]


# Swap, huge pages, and what is kept for others


@pytest.mark.parametrize(
    ("swap_kib", "declared", "verdict"),
    [(0, "0", "pass"), (1, "0", "fail"), (8, "8192", "pass"), (9, "8192", "fail"), (9, "", "pass")],
)
def test_swap_is_compared_with_what_is_declared(suite, tmp_path, swap_kib, declared, verdict):
    box = _with_memory(plain_box(), swap_kib=swap_kib)
    box.put("/proc/swaps", f"{SWAPS}/dev/zram0 partition {swap_kib} 0 100\n" if swap_kib else SWAPS)
    profile = f"[hardware]\nswap_max_bytes = {declared}\n" if declared else ""
    found = judged(suite, tmp_path, box, "machine.memory.swap", "box", profile)
    assert found["verdict"] == verdict
    assert ("zram" in found["says"]) is bool(swap_kib)


def test_swapped_out_weights_are_noted_and_the_box_passes(suite, tmp_path):
    box = _with_memory(plain_box(), swap_kib=100_000_000)
    text = str(box.files["/proc/meminfo"]).replace("SwapFree:       100000000", "SwapFree: 4")
    found = judged(suite, tmp_path, box.put("/proc/meminfo", text), "machine.memory.swap", "box")
    assert found["verdict"] == "pass"
    assert "swapped out" in found["notes"][0]


@pytest.mark.parametrize(
    ("free", "promised", "cause"),
    [
        (52_428, 0, "memory-in-huge-pages"),
        (52_428, 52_428, "memory-in-use"),
        (10, 0, "memory-in-use"),
    ],
)
def test_memory_that_lies_unused_in_huge_pages_is_named(suite, tmp_path, free, promised, cause):
    box = huge_pages(plain_box(), total=52_428, free=free, promised=promised)
    box.put("/proc/meminfo", "MemTotal: 527935488 kB\nMemAvailable:   400000000 kB\n")
    profile = f"[hardware]\nmemory_available_min_bytes = {450_000_000 * 1024}\n"
    found = judged(suite, tmp_path, box, "machine.memory.available", "box", profile)
    assert found["cause"] == cause, found["says"]


@pytest.mark.parametrize(("kept", "verdict"), [(10**9, "pass"), (500 * 10**9, "fail")])
def test_memory_that_is_kept_for_others_is_counted_off(suite, tmp_path, kept, verdict):
    profile = (
        f"[hardware]\nmemory_available_min_bytes = {10**10}\n[reserved]\nmemory_bytes = {kept}\n"
    )
    box = plain_box().put("/proc/meminfo", "MemTotal: 500000000 kB\nMemAvailable: 490000000 kB\n")
    found = judged(suite, tmp_path, box, "machine.memory.available", "box", profile)
    assert found["verdict"] == verdict
    assert found["cause"] == ("memory-reserved" if verdict == "fail" else "")


@pytest.mark.parametrize(("threads", "verdict"), [(6, "pass"), (7, "fail")])
def test_cpus_that_are_kept_for_others_are_counted_off(suite, tmp_path, threads, verdict):
    profile = f"[reserved]\ncpus = 2\n{serve(f'llama-server -t {threads}')}"
    found = judged(suite, tmp_path, plain_box(), "machine.cpu.threads", "chat", profile)
    assert found["verdict"] == verdict
    if verdict == "fail":
        assert found["cause"] == "threads-on-reserved-cpus"
        assert "reserved.cpus" in found["says"]


# Healthy boxes, and a real one


@pytest.mark.parametrize("make", [h100_box, plain_box, docker_box])
def test_a_healthy_box_has_limits_to_live_with(suite, tmp_path, make):
    run = suite.run(tmp_path, root=make().write(tmp_path / "tree"), host="local")
    assert run.with_verdict("fail", "unknown") == []
    assert (run.code, run.ledger["counts"]["unconfirmed"]) == (0, 0)
    assert run.finding("machine.limits.pids", "this")["verdict"] == "pass"
    assert run.finding("machine.memory.swap")["verdict"] == "pass"


@pytest.mark.slow
def test_a_real_run_under_a_real_limit_of_open_files_fails_and_one_above_passes(tmp_path):
    hosts = tmp_path / "expected" / "hosts"
    hosts.mkdir(parents=True)
    text = f"schema = 1\n{serve('llama-server -t 1', 'open_files_min_count = 400')}"
    verdicts = {}
    for most in (399, 400):
        host = f"planted-{most}"
        (hosts / f"{host}.toml").write_text(text)
        words = ("--host", host, "--expected", tmp_path / "expected", "--ledger-dir", tmp_path)
        line = f'ulimit -n {most}; exec "$@"'
        suite = (sys.executable, "-m", "pytest", PREFLIGHT, *words)
        done = command("-c", line, "sh", *suite, python="sh")
        row = the_ledger(tmp_path, host)
        found = next(one for one in row["findings"] if one["check"] == "machine.limits.nofile")
        verdicts[most] = found["verdict"], found["observed"]["open_files_max_count"]
        assert "Traceback" not in done.both
    assert verdicts == {399: ("fail", 399), 400: ("pass", 400)}
