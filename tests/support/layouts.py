"""Ways in which a limit of CPUs reaches a process: each gives a box, the place, and the limit.

The limit is what a person would compute by hand; the tests compare what the suite says with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.boxes import ENGINE, ID, PID, V2, Box, docker_box, plain_box

CGROUP = "/sys/fs/cgroup"
V1_CPU = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
V1_CPUSET = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset\n"
V1_NAMED = (
    "35 31 0:32 / /sys/fs/cgroup/systemd rw,nosuid - cgroup cgroup rw,xattr,name=systemd\n"
    "36 31 0:33 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
)
UNIFIED = "37 31 0:34 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n"
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d.slice"


@dataclass(frozen=True)
class Layout:
    """A box, whose limits are looked at, and how many CPUs that place may use."""

    box: Box
    where: str
    cpus: float


Maker = Callable[[], Layout]
LAYOUTS: dict[str, Maker] = {}


def layout(make: Maker) -> Maker:
    LAYOUTS[make.__name__] = make
    return make


def engine(box: Box, cgroup: str, *, allowed: str = "0-7", pid: int = ENGINE) -> Box:
    return box.process(pid, "/opt/engine/worker", cgroup=cgroup, allowed=allowed)


def v2(cpus: int = 8) -> Box:
    return plain_box(cpus)


def v1(extra: str = "") -> Box:
    """A box with version 1 alone; its own process in the roots."""
    box = plain_box(8).drop(CGROUP).mounts(V1_CPU + V1_CPUSET + V1_NAMED + extra)
    for name in ("cpu,cpuacct", "cpuset", "memory", "systemd"):
        box.put(f"{CGROUP}/{name}/release_agent", "\n")
    box.group_1(f"{CGROUP}/cpu,cpuacct").group(f"{CGROUP}/cpuset", cpuset="0-7", effective_1="0-7")
    return box.process(PID, "pytest", cgroup=lines_1("/", "/"))


def lines_1(cpu: str, cpuset: str) -> str:
    return f"12:cpuset:{cpuset}\n4:cpu,cpuacct:{cpu}\n3:memory:{cpu}\n1:name=systemd:{cpu}\n"


# version 2


@layout
def v2_innermost_level() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="max 100000")
    box.group(f"{CGROUP}/a/b", cpu_max="400000 100000")
    return Layout(engine(box, "0::/a/b\n"), f"pid:{ENGINE}", 4.0)


@layout
def v2_ancestor_only() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="300000 100000").group(f"{CGROUP}/a/b")
    box.group(f"{CGROUP}/a/b/c", cpu_max="max 100000")
    return Layout(engine(box, "0::/a/b/c\n"), f"pid:{ENGINE}", 3.0)


@layout
def v2_both_and_the_ancestor_is_tighter() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.group(f"{CGROUP}/a/b", cpu_max="600000 100000")
    return Layout(engine(box, "0::/a/b\n"), f"pid:{ENGINE}", 2.0)


@layout
def v2_both_and_the_innermost_is_tighter() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="600000 100000")
    box.group(f"{CGROUP}/a/b", cpu_max="200000 100000")
    return Layout(engine(box, "0::/a/b\n"), f"pid:{ENGINE}", 2.0)


@layout
def v2_without_any_quota() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="max 100000", effective="0-7")
    return Layout(engine(box, "0::/a\n"), f"pid:{ENGINE}", 8.0)


@layout
def v2_seven_and_a_bit() -> Layout:
    box = v2(96).group(f"{CGROUP}/a", cpu_max="765000 100000")
    return Layout(engine(box, "0::/a\n", allowed="0-95"), f"pid:{ENGINE}", 7.65)


@layout
def v2_a_hair_below_four() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="399000 100000")
    return Layout(engine(box, "0::/a\n"), f"pid:{ENGINE}", 3.99)


@layout
def v2_another_period() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="50000 25000")
    return Layout(engine(box, "0::/a\n"), f"pid:{ENGINE}", 2.0)


@layout
def v2_cpuset_narrower_than_quota() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="600000 100000", effective="0,2-3")
    return Layout(engine(box, "0::/a\n", allowed="0-7"), f"pid:{ENGINE}", 3.0)


@layout
def v2_affinity_narrower_than_both() -> Layout:
    box = v2().group(f"{CGROUP}/a", cpu_max="600000 100000", effective="0-3")
    return Layout(engine(box, "0::/a\n", allowed="1,3"), f"pid:{ENGINE}", 2.0)


@layout
def v2_on_a_mount_point_with_a_blank() -> Layout:
    box = v2().drop(CGROUP).mounts(V2.replace("/sys/fs/cgroup", "/mnt/control\\040groups"))
    root = "/mnt/control groups"
    box.put(f"{root}/cgroup.controllers", "cpuset cpu\n")
    box.group(f"{root}/a", cpu_max="200000 100000")
    return Layout(engine(box, "0::/a\n"), f"pid:{ENGINE}", 2.0)


@layout
def v2_with_a_branch_mounted_beside_the_whole() -> Layout:
    branch = "30 23 0:28 /p/a /run/branch rw - cgroup2 cgroup2 rw\n"
    box = v2().mounts(branch + V2)
    for root in (f"{CGROUP}/p/a", "/run/branch"):
        box.group(root, cpu_max="600000 100000", type="domain")
        box.group(f"{root}/b", cpu_max="max 100000")
    box.group(f"{CGROUP}/p", cpu_max="200000 100000")
    return Layout(engine(box, "0::/p/a/b\n"), f"pid:{ENGINE}", 2.0)


@layout
def v2_with_another_branch_mounted_before_the_whole() -> Layout:
    branch = "30 23 0:28 /other /run/other rw - cgroup2 cgroup2 rw\n"
    box = v2().mounts(branch + V2).group("/run/other")
    box.group(f"{CGROUP}/a", cpu_max="200000 100000")
    return Layout(engine(box, "0::/a\n"), f"pid:{ENGINE}", 2.0)


# version 1


@layout
def v1_innermost_level() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/a").group_1(f"{CGROUP}/cpu,cpuacct/a/b", 400_000)
    box.group(f"{CGROUP}/cpuset/a", effective_1="0-7")
    return Layout(engine(box, lines_1("/a/b", "/a")), f"pid:{ENGINE}", 4.0)


@layout
def v1_ancestor_only() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/a", 150_000, 50_000)
    box.group_1(f"{CGROUP}/cpu,cpuacct/a/b")
    return Layout(engine(box, lines_1("/a/b", "/")), f"pid:{ENGINE}", 3.0)


@layout
def v1_without_any_quota() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/a")
    return Layout(engine(box, lines_1("/a", "/")), f"pid:{ENGINE}", 8.0)


@layout
def v1_cpuset_in_a_hierarchy_of_its_own() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/a", 700_000)
    box.group(f"{CGROUP}/cpuset/b", cpuset="4-5", effective_1="4-5")
    return Layout(engine(box, lines_1("/a", "/b")), f"pid:{ENGINE}", 2.0)


# hybrid


@layout
def hybrid_where_the_unified_tree_has_no_cpu_controller() -> Layout:
    box = v1(UNIFIED).put(f"{CGROUP}/unified/cgroup.controllers", "hugetlb\n")
    box.group_1(f"{CGROUP}/cpu,cpuacct/a", 200_000)
    return Layout(engine(box, lines_1("/a", "/") + "0::/gone\n"), f"pid:{ENGINE}", 2.0)


@layout
def hybrid_where_the_unified_tree_is_not_mounted() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/a", 200_000)
    return Layout(engine(box, lines_1("/a", "/") + "0::/a\n"), f"pid:{ENGINE}", 2.0)


@layout
def hybrid_where_the_controllers_of_the_unified_tree_cannot_be_read() -> Layout:
    box = v1(UNIFIED).group_1(f"{CGROUP}/cpu,cpuacct/a", 200_000)
    return Layout(engine(box, lines_1("/a", "/") + "0::/gone\n"), f"pid:{ENGINE}", 2.0)


# Docker


@layout
def docker_from_inside_with_a_cgroup_namespace() -> Layout:
    return Layout(docker_box("400000 100000"), "this", 4.0)


@layout
def docker_from_inside_another_process_of_the_container() -> Layout:
    box = docker_box("300000 100000")
    return Layout(engine(box, "0::/\n", allowed="0-11"), f"pid:{ENGINE}", 3.0)


@layout
def docker_from_inside_without_a_cgroup_namespace() -> Layout:
    path = f"/docker/{ID}"
    mounts = (V1_CPU + V1_CPUSET).replace(" / /sys", f" {path} /sys")
    box = plain_box(8).drop(CGROUP).mounts(mounts).put("/.dockerenv", "")
    box.group_1(f"{CGROUP}/cpu,cpuacct", 250_000).group(f"{CGROUP}/cpuset", effective_1="0-7")
    return Layout(box.process(PID, "pytest", cgroup=lines_1(path, path)), "this", 2.5)


@layout
def docker_from_inside_version_2_without_a_cgroup_namespace() -> Layout:
    path = f"/system.slice/docker-{ID}.scope"
    box = plain_box(8).mounts(V2.replace(" / /sys", f" {path} /sys"))
    box.group(CGROUP, cpu_max="200000 100000", type="domain", effective="0-7")
    return Layout(box.process(PID, "pytest", cgroup=f"0::{path}\n"), "this", 2.0)


@layout
def docker_from_the_host() -> Layout:
    path = f"/system.slice/docker-{ID}.scope"
    box = v2().group(f"{CGROUP}/system.slice", cpu_max="max 100000")
    box.group(f"{CGROUP}{path}", cpu_max="200000 100000")
    return Layout(engine(box, f"0::{path}\n"), f"container:{ID[:12]}", 2.0)


@layout
def docker_from_the_host_version_1() -> Layout:
    box = v1().group_1(f"{CGROUP}/cpu,cpuacct/docker")
    box.group_1(f"{CGROUP}/cpu,cpuacct/docker/{ID}", 200_000)
    box.group(f"{CGROUP}/cpuset/docker/{ID}", effective_1="0-7")
    path = f"/docker/{ID}"
    return Layout(engine(box, lines_1(path, path)), f"container:{ID}", 2.0)


@layout
def podman_from_the_host_beside_its_monitor() -> Layout:
    monitor, inside = (
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/machine.slice/libpod-{ID}.scope",
    )
    box = v2().group(f"{CGROUP}{monitor}").group(f"{CGROUP}{inside}", cpu_max="200000 100000")
    box.group(f"{CGROUP}{inside}/container")
    box.process(800, "/usr/bin/conmon", cgroup=f"0::{monitor}\n")
    box.process(ENGINE, "/opt/engine/worker", parent=800, cgroup=f"0::{inside}/container\n")
    return Layout(box, f"container:{ID[:12]}", 2.0)


# Kubernetes


@layout
def pod_from_the_host() -> Layout:
    path = f"/{POD}/cri-containerd-{ID}.scope"
    box = v2().group(f"{CGROUP}/kubepods.slice", cpu_max="max 100000")
    box.group(f"{CGROUP}/{POD}", cpu_max="max 100000")
    box.group(f"{CGROUP}{path}", cpu_max="400000 100000")
    return Layout(engine(box, f"0::{path}\n"), f"container:{ID[:12]}", 4.0)


@layout
def pod_from_the_host_with_the_limit_on_the_pod() -> Layout:
    path = f"/{POD}/cri-containerd-{ID}.scope"
    box = v2().group(f"{CGROUP}/{POD}", cpu_max="250000 100000")
    box.group(f"{CGROUP}{path}", cpu_max="max 100000")
    return Layout(engine(box, f"0::{path}\n"), f"container:{ID[:12]}", 2.5)


@layout
def pod_from_inside() -> Layout:
    box = docker_box("150000 50000")
    box.recorded["environ"]["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    return Layout(box, "this", 3.0)


@layout
def pod_from_inside_version_1() -> Layout:
    path = f"/kubepods/burstable/pod0a1b2c3d/{ID}"
    mounts = (V1_CPU + V1_CPUSET).replace(" / /sys", f" {path} /sys")
    box = plain_box(8).drop(CGROUP).mounts(mounts)
    box.group_1(f"{CGROUP}/cpu,cpuacct", 300_000).group(f"{CGROUP}/cpuset", effective_1="0-7")
    return Layout(box.process(PID, "pytest", cgroup=lines_1(path, path)), "this", 3.0)


# systemd and LXC


@layout
def unit_with_a_quota() -> Layout:
    path = "/system.slice/llama.service"
    box = v2().group(f"{CGROUP}{path}", cpu_max="200000 100000")
    return Layout(engine(box, f"0::{path}\n"), "unit:llama", 2.0)


@layout
def unit_in_a_slice_with_a_quota() -> Layout:
    path = "/serving.slice/serving-llm.slice/llama@1.service"
    box = v2().group(f"{CGROUP}/serving.slice", cpu_max="300000 100000")
    box.group(f"{CGROUP}/serving.slice/serving-llm.slice").group(f"{CGROUP}{path}/payload")
    return Layout(engine(box, f"0::{path}/payload\n"), "unit:llama@1.service", 3.0)


@layout
def lxc_from_the_host() -> Layout:
    path = "/lxc.payload.c1/system.slice/llama.service"
    box = v2().group(f"{CGROUP}/lxc.payload.c1", cpu_max="200000 100000", effective="0-5")
    box.group(f"{CGROUP}{path}")
    return Layout(engine(box, f"0::{path}\n"), f"pid:{ENGINE}", 2.0)


@layout
def lxc_from_inside() -> Layout:
    box = docker_box("200000 100000").drop("/.dockerenv")
    box.put("/run/systemd/container", "lxc\n")
    box.group(f"{CGROUP}/system.slice/llama.service", cpu_max="max 100000")
    return Layout(engine(box, "0::/system.slice/llama.service\n"), "unit:llama", 2.0)


@layout
def a_kernel_without_cgroups() -> Layout:
    box = v2().drop(CGROUP).mounts("")
    engine(box, "", allowed="0-2")
    return Layout(box.drop(f"/proc/{ENGINE}/cgroup"), f"pid:{ENGINE}", 3.0)
