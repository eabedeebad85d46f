"""Memory that a cgroup limits: recorded boxes, and a run of the suite in a real cgroup."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boxes import HERE, PID, plain_box

CGROUP = "/sys/fs/cgroup"
MIB = 2**20
CHECK = "machine.memory.available"


@pytest.mark.parametrize(
    ("limit", "cause"), [(8 * 10**9 + 50 * MIB, ""), (8 * 10**9 + 50 * MIB - 1, "memory-limited")]
)
def test_a_box_whose_cgroup_leaves_too_little_fails(suite, tmp_path, limit, cause):
    stat = f"inactive_file {50 * MIB}"
    box = plain_box().process(PID, "pytest", cgroup="0::/a\n")
    box.put(f"{CGROUP}/a/memory.max", f"{limit}\n").put(f"{CGROUP}/a/memory.stat", stat)
    box.put(f"{CGROUP}/a/memory.current", f"{100 * MIB}\n")
    profile = "[hardware]\nmemory_available_min_bytes = 8_000_000_000\n"
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK)
    assert found["cause"] == cause, found["says"]
    if cause:
        assert f"{CGROUP}/a/memory.max" in found["says"]
        assert f"raise the limit {CGROUP}/a/memory.max" in found["remedy"]
    assert found["evidence"][0].startswith(f"{CGROUP}/a/memory.max: 7.5 GiB, 100.0 MiB used")


def test_a_box_whose_cgroups_cannot_be_seen_is_unknown(suite, tmp_path):
    box = plain_box().drop(CGROUP).mounts("")
    profile = "[hardware]\nmemory_available_min_bytes = 8_000_000_000\n"
    found = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile).finding(CHECK)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "mount" in found["remedy"]


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """Make a cgroup of 400 MiB, of whichever version this machine has."""
    folder = Path()
    for root, name in (
        (Path("/sys/fs/cgroup"), "memory.max"),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    ):
        folder = root / f"preflight-memory-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / name).exists():
            (folder / name).write_text(str(400 * MIB))
            break
        folder.rmdir()
    else:
        pytest.skip("needs root: cgroups with memory limits that this user may make")
    yield folder
    folder.rmdir()


@pytest.mark.root
@pytest.mark.slow
def test_the_suite_in_a_real_cgroup_sees_its_own_limit(tmp_path, limited_group):
    hosts = tmp_path / "expected" / "hosts"
    hosts.mkdir(parents=True)
    found = {}
    for name, wanted in (("much", 500 * MIB), ("little", 100 * MIB)):
        text = f"schema = 1\n[hardware]\nmemory_available_min_bytes = {wanted}\n"
        (hosts / f"{name}.toml").write_text(text)
        command = [
            *("sh", "-c", f"echo $$ > '{limited_group}/cgroup.procs' && exec \"$@\"", "sh"),
            *(sys.executable, "-m", "pytest", "preflight/", "--host", name),
            *("--expected", str(tmp_path / "expected"), "--ledger-dir", str(tmp_path / "ledgers")),
        ]
        done = subprocess.run(
            command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False
        )
        (path,) = (tmp_path / "ledgers" / name).glob("*Z-*.json")
        rows = json.loads(path.read_text())["findings"]
        found[name] = next(row for row in rows if row["check"] == CHECK), done.stdout
    assert found["much"][0]["cause"] == "memory-limited", found["much"]
    assert limited_group.name in found["much"][0]["says"]
    assert found["little"][0]["verdict"] == "pass", found["little"]


@pytest.mark.parametrize(("available_kb", "verdict"), [(2_000_000, "pass"), (2_000_001, "unknown")])
def test_more_memory_available_than_there_is_makes_no_sense(suite, tmp_path, available_kb, verdict):
    box = plain_box()
    box.put("/proc/meminfo", f"MemTotal:       2000000 kB\nMemAvailable:   {available_kb} kB\n")
    profile = "[hardware]\nmemory_available_min_bytes = 1_048_576\n"
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding("machine.memory.available")["verdict"] == verdict
