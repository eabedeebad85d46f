"""Reading of memory limits of cgroups, file by file. Whole boxes are in tests/boxes."""

from __future__ import annotations

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.facts import MemoryLimit
from checks.machine.memory_cgroups import memory_groups
from tests.support.boxes import PID, V2, Box, docker_box, plain_box
from tests.support.layouts import CGROUP, UNIFIED, V1_CPU, V1_CPUSET, lines_1, v1

NONE_1 = "9223372036854771712"
"""What version 1 shows where there is no limit."""


def seen(tmp_path, box):
    return memory_groups(World(box.write(tmp_path / "tree")), str(PID))


def fill(box: Box, path: str, **texts: str) -> Box:
    """Write files of a cgroup: `current="5"` becomes memory.current."""
    for name, text in texts.items():
        box.put(f"{path}/memory.{name}", f"{text}\n")
    return box.put(f"{path}/cgroup.procs", "")


def v2_box(path: str, **texts: str) -> Box:
    box = plain_box().process(PID, "pytest", cgroup=f"0::{path}\n")
    return fill(box, f"{CGROUP}{path}", **texts)


def test_a_limit_of_version_2_leaves_what_is_not_used_but_for_cached_files(tmp_path):
    stat = "anon 70\ninactive_file 20\nactive_file 5\nslab 3\nworkingset_refault_file 900"
    groups = seen(tmp_path, v2_box("/a", max="1000", current="100", stat=stat))
    (limit,) = groups.limits
    source = f"{CGROUP}/a/memory.max"
    assert limit == MemoryLimit(source=source, limit_bytes=1000, used_bytes=100, file_bytes=25)
    assert limit.left_bytes == 925
    assert groups.above_unseen is False


def test_the_tightest_level_comes_first_and_memory_high_is_a_limit_too(tmp_path):
    box = v2_box("/a/b/c", max="max", high="max", current="10", stat="inactive_file 0")
    fill(box, f"{CGROUP}/a/b", max="900", high="500", current="100", stat="inactive_file 0")
    fill(box, f"{CGROUP}/a", max="800", high="max", current="600", stat="inactive_file 50")
    limits = seen(tmp_path, box).limits
    assert [(row.source.removeprefix(CGROUP), row.left_bytes) for row in limits] == [
        ("/a/memory.max", 250),
        ("/a/b/memory.high", 400),
        ("/a/b/memory.max", 800),
    ]


def v1_box(path: str, **texts: str) -> Box:
    box = v1().process(PID, "pytest", cgroup=lines_1(path, "/"))
    fill(box, f"{CGROUP}/memory", limit_in_bytes=NONE_1, usage_in_bytes="7", stat="cache 1")
    return fill(box, f"{CGROUP}/memory{path}", **texts)


def test_a_limit_of_version_1_counts_the_files_of_the_levels_below(tmp_path):
    stat = "inactive_file 1\nactive_file 1\ntotal_inactive_file 20\ntotal_active_file 5"
    box = v1_box("/a", limit_in_bytes="1000", usage_in_bytes="100", stat=stat)
    (limit,) = seen(tmp_path, box).limits
    assert limit.source == f"{CGROUP}/memory/a/memory.limit_in_bytes"
    assert limit.left_bytes == 925


def test_version_1_without_a_limit_has_none(tmp_path):
    for number, text in enumerate((NONE_1, "9223372036854710272")):
        box = v1_box("/a", limit_in_bytes=text, usage_in_bytes="1", stat="")
        assert seen(tmp_path / str(number), box).limits == ()


def test_on_a_hybrid_box_version_1_counts(tmp_path):
    box = v1(UNIFIED)
    box.process(PID, "pytest", cgroup=lines_1("/a", "/") + "0::/a\n")
    fill(box, f"{CGROUP}/unified/a", max="1", current="1", stat="")
    fill(box, f"{CGROUP}/memory/a", limit_in_bytes="50", usage_in_bytes="1", stat="")
    (limit,) = seen(tmp_path, box).limits
    assert limit.limit_bytes == 50


NOWHERE = {
    "switched off, version 2": lambda: plain_box().put(
        f"{CGROUP}/cgroup.controllers", "cpuset cpu io pids\n"
    ),
    "no controllers at all": lambda: plain_box().put(f"{CGROUP}/cgroup.controllers", ""),
    "switched off, version 1": lambda: v1().process(
        PID, "pytest", cgroup="12:cpuset:/\n4:cpu,cpuacct:/\n"
    ),
    "a kernel without cgroups": lambda: plain_box().drop(f"/proc/{PID}/cgroup"),
    "no limit anywhere": plain_box,
}


@pytest.mark.parametrize("name", NOWHERE)
def test_where_nothing_can_limit_there_is_no_limit(tmp_path, name):
    groups = seen(tmp_path, NOWHERE[name]())
    assert groups.limits == ()
    assert groups.above_unseen is False


UNREAD = {
    "not mounted": lambda: plain_box().drop(CGROUP).mounts(""),
    "version 1 mounted without memory": lambda: v1().mounts(V1_CPU + V1_CPUSET),
    "outside of what is mounted": lambda: plain_box().process(PID, "x", cgroup="0::/../a\n"),
    "a line that is none": lambda: plain_box().process(PID, "x", cgroup="nonsense\n"),
    "an empty file": lambda: plain_box().put(f"/proc/{PID}/cgroup", ""),
    "controllers unread": lambda: plain_box().drop(f"{CGROUP}/").put("/sys/fs/x", "").mounts(V2),
    "garbage in the limit": lambda: v2_box("/a", max="many", current="1", stat=""),
    "an empty limit": lambda: v2_box("/a", max="", current="1", stat=""),
    "a limit below nothing": lambda: v2_box("/a", max="-1", current="1", stat=""),
    "no use": lambda: v2_box("/a", max="5", stat=""),
    "garbage in the use": lambda: v2_box("/a", max="5", current="x", stat=""),
    "use without a number": lambda: v2_box("/a", max="5", current="max", stat=""),
    "no statistics": lambda: v2_box("/a", max="5", current="1"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_read_is_unseen_and_not_unlimited(tmp_path, name):
    assert isinstance(seen(tmp_path, UNREAD[name]()), Unseen)


def test_statistics_that_name_no_files_count_none(tmp_path):
    (limit,) = seen(tmp_path, v2_box("/a", max="50", current="10", stat="anon 3\n")).limits
    assert limit.left_bytes == 40


def test_a_container_sees_its_own_limit_and_says_that_there_may_be_more(tmp_path):
    box = fill(docker_box(), CGROUP, max="1000", current="100", stat="inactive_file 0")
    groups = seen(tmp_path, box)
    assert [limit.left_bytes for limit in groups.limits] == [900]
    assert groups.above_unseen is True


def test_without_a_process_of_its_own_a_tree_shows_no_cgroups(tmp_path):
    from checks.machine.probe.memory import read_memory

    box = plain_box()
    del box.recorded["pid"]
    memory = read_memory(World(box.write(tmp_path)))
    assert memory.groups.reason is Blind.NOT_RECORDED
