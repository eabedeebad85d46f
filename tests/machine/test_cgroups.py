"""Reading of cgroups, file by file. How whole boxes come out is in tests/boxes."""

from __future__ import annotations

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.cgroups import quota_limits, throttled_ratio
from tests.support.boxes import ENGINE, V2, docker_box, plain_box
from tests.support.layouts import CGROUP, UNIFIED, V1_CPU, V1_CPUSET, engine, lines_1, v1


def limits(tmp_path, box, pid=ENGINE):
    return quota_limits(World(box.write(tmp_path / "tree")), str(pid))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("400000 100000", 4.0),
        ("400000", 4.0),
        ("1000 100000", 0.01),
        ("765000 100000", 7.65),
        ("250000 1000000", 0.25),
        ("max 100000", None),
        ("max", None),
    ],
)
def test_a_quota_of_version_2(tmp_path, text, cpus):
    box = engine(plain_box().group(f"{CGROUP}/a", cpu_max=text), "0::/a\n")
    seen = limits(tmp_path, box)
    quotas = [limit.cpus for limit in seen.limits if limit.source.endswith("cpu.max")]
    assert quotas == ([] if cpus is None else [pytest.approx(cpus)])


@pytest.mark.parametrize(
    "text",
    [
        "-1 100000",
        "4.5 100000",
        "400000 0",
        "400000 -5",
        "max max",
        "400000 100000 3",
        "1e5 1e5",
        "x",
    ],
)
def test_a_quota_of_version_2_that_makes_no_sense_is_unseen(tmp_path, text):
    box = engine(plain_box().group(f"{CGROUP}/a", cpu_max=text), "0::/a\n")
    seen = limits(tmp_path, box)
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.MALFORMED
    assert "/a/cpu.max" in seen.detail


@pytest.mark.parametrize(
    ("quota", "period", "cpus"),
    [(200_000, 100_000, 2.0), (-1, 100_000, None), (0, 100_000, None), (50_000, 20_000, 2.5)],
)
def test_a_quota_of_version_1(tmp_path, quota, period, cpus):
    box = engine(v1().group_1(f"{CGROUP}/cpu,cpuacct/a", quota, period), lines_1("/a", "/"))
    seen = limits(tmp_path, box)
    quotas = [limit.cpus for limit in seen.limits if limit.source.endswith("quota_us")]
    assert quotas == ([] if cpus is None else [pytest.approx(cpus)])


@pytest.mark.parametrize("period", ["0", "-1", "", "many"])
def test_a_quota_of_version_1_without_a_period_is_unseen(tmp_path, period):
    box = engine(
        v1().group(f"{CGROUP}/cpu,cpuacct/a", quota="200000", period=period), lines_1("/a", "/")
    )
    assert isinstance(limits(tmp_path, box), Unseen)


@pytest.mark.parametrize(
    ("text", "count"),
    [("0-3", 4), ("0,2-3,7", 4), ("5", 1), ("0-1,1-2", 3)],
)
def test_a_set_of_cpus(tmp_path, text, count):
    box = engine(plain_box().group(f"{CGROUP}/a", cpuset=text), "0::/a\n")
    seen = limits(tmp_path, box)
    assert [limit.cpus for limit in seen.limits if "/a/" in limit.source] == [count]


@pytest.mark.parametrize("text", ["3-1", "0-", "a", "0,,1", "0-99999999", "-1", "0 1"])
def test_a_set_of_cpus_that_makes_no_sense_is_unseen(tmp_path, text):
    box = engine(plain_box().group(f"{CGROUP}/a", cpuset=text), "0::/a\n")
    assert isinstance(limits(tmp_path, box), Unseen)


def test_an_empty_set_of_cpus_is_that_of_the_parent(tmp_path):
    box = engine(plain_box().group(f"{CGROUP}/a", cpuset="", effective=""), "0::/a\n")
    assert [limit.source for limit in limits(tmp_path, box).limits] == [
        f"{CGROUP}/cpuset.cpus.effective"
    ]


def test_the_limits_of_all_levels_are_kept_for_the_report(tmp_path):
    box = plain_box().group(f"{CGROUP}/a", cpu_max="600000 100000")
    box.group(f"{CGROUP}/a/b", cpu_max="300000 100000", effective="0-3")
    seen = limits(tmp_path, engine(box, "0::/a/b\n"))
    assert sorted(limit.cpus for limit in seen.limits) == [3.0, 4.0, 6.0, 8.0]
    assert seen.folders == (f"{CGROUP}/a/b", f"{CGROUP}/a", CGROUP)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("", Blind.MALFORMED),
        ("garbage\n", Blind.MALFORMED),
        ("0::a\n", Blind.MALFORMED),
        ("0::/../outside\n", Blind.PERMISSION),
        ("0::/gone\n", Blind.ABSENT),
        ("0::/a (deleted)\n", Blind.ABSENT),
    ],
)
def test_a_cgroup_that_cannot_be_entered_is_unseen(tmp_path, lines, reason):
    seen = limits(tmp_path, engine(plain_box().group(f"{CGROUP}/a"), lines))
    assert isinstance(seen, Unseen)
    assert seen.reason is reason


def test_a_file_where_the_folder_of_a_cgroup_should_be_is_no_freedom_from_limits(tmp_path):
    seen = limits(tmp_path, engine(plain_box().put(f"{CGROUP}/a", "x"), "0::/a\n"))
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.MALFORMED


@pytest.mark.parametrize("root", ["/..", "/../.."])
def test_a_mount_from_outside_of_the_cgroup_namespace_does_not_show_the_own_limits(tmp_path, root):
    box = plain_box().mounts(V2.replace(" / /sys", f" {root} /sys"))
    seen = limits(tmp_path, engine(box, "0::/\n"))
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.PERMISSION


def test_a_mount_of_another_branch_alone_does_not_show_the_own_limits(tmp_path):
    box = plain_box().mounts(V2.replace(" / /sys", " /other /sys"))
    seen = limits(tmp_path, engine(box.group(f"{CGROUP}/a"), "0::/a\n"))
    assert isinstance(seen, Unseen)
    assert seen.remedy


def test_the_unified_tree_counts_where_version_1_has_no_cpu_controller(tmp_path):
    """Named hierarchies alone are mounted as version 1; quota and cpuset are in version 2."""
    box = plain_box().mounts(
        V2 + "40 31 0:40 / /sys/fs/cgroup/x rw - cgroup none rw,name=systemd\n"
    )
    box.group(f"{CGROUP}/a", cpu_max="200000 100000")
    seen = limits(tmp_path, engine(box, "1:name=systemd:/a\n0::/a\n"))
    assert 2.0 in [limit.cpus for limit in seen.limits]
    gone = limits(tmp_path / "b", engine(box, "1:name=systemd:/a\n0::/gone\n"))
    assert isinstance(gone, Unseen)


def test_both_versions_are_read_where_both_show_the_process(tmp_path):
    box = v1(UNIFIED).put(f"{CGROUP}/unified/cgroup.controllers", "\n")
    box.group(f"{CGROUP}/unified/a").group_1(f"{CGROUP}/cpu,cpuacct/a", 200_000)
    seen = limits(tmp_path, engine(box, lines_1("/a", "/") + "0::/a\n"))
    assert f"{CGROUP}/unified/a" in seen.folders
    assert min(limit.cpus for limit in seen.limits) == 2.0


@pytest.mark.parametrize("name", ["cpu,cpuacct", "cpuset"])
def test_version_1_without_one_of_its_mounts_is_unseen(tmp_path, name):
    box = v1().mounts(V1_CPU if name == "cpuset" else V1_CPUSET)
    box.group_1(f"{CGROUP}/cpu,cpuacct/a", 200_000)
    seen = limits(tmp_path, engine(box, lines_1("/a", "/")))
    assert isinstance(seen, Unseen)
    assert seen.remedy


def test_whether_more_limits_may_lie_above_is_told_in_both_versions(tmp_path):
    whole_2 = limits(tmp_path / "a", engine(plain_box(), "0::/\n"))
    whole_1 = limits(tmp_path / "b", engine(v1(), lines_1("/", "/")))
    assert not whole_2.above_unseen
    assert not whole_1.above_unseen
    inside_2 = limits(tmp_path / "c", engine(docker_box(), "0::/\n"))
    # a private namespace of version 1: the path is `/` and the root of the mount too
    box = v1().drop(f"{CGROUP}/cpu,cpuacct/release_agent", f"{CGROUP}/cpuset/release_agent")
    inside_1 = limits(tmp_path / "d", engine(box, lines_1("/", "/")))
    assert inside_2.above_unseen
    assert inside_1.above_unseen


@pytest.mark.parametrize("hidden", ["cpu,cpuacct", "cpuset"])
def test_what_one_hierarchy_hides_another_does_not_make_good(tmp_path, hidden):
    """Whichever of the two is read last."""
    box = v1().drop(f"{CGROUP}/{hidden}/release_agent")
    assert limits(tmp_path, engine(box, lines_1("/", "/"))).above_unseen


@pytest.mark.parametrize(
    ("texts", "ratio"),
    [
        (["nr_periods 4567\nnr_throttled 3115"], 3115 / 4567),
        (["nr_periods 10\nnr_throttled 1", "nr_periods 10\nnr_throttled 5"], 0.5),
        (["nr_periods 10\nnr_throttled 5", "nr_periods 10\nnr_throttled 1"], 0.5),
        (["nr_periods 0\nnr_throttled 0"], None),
        (["usage_usec 5"], None),
        (["nr_periods 10\nnr_throttled 50"], 1.0),
        (["garbage"], None),
        ([], None),
    ],
)
def test_how_often_the_quota_stopped_a_place(tmp_path, texts, ratio):
    box = plain_box()
    for number, text in enumerate(texts):
        box.group(f"{CGROUP}/{number}", cpu_stat=text)
    folders = tuple(f"{CGROUP}/{number}" for number in range(max(1, len(texts))))
    seen = throttled_ratio(World(box.write(tmp_path / "tree")), folders)
    assert seen == (None if ratio is None else pytest.approx(ratio))
