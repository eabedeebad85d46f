"""What folders lie on: real mounts, recorded ones, and what comes of swapping a disk below them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import checks.core.world
from checks.core.profile import Paths, Profile, Serve
from checks.core.registry import REGISTRY, load_areas
from checks.core.world import World
from checks.machine.containers import container_folders
from checks.machine.facts import Folder
from tests.support.boxes import (
    DISK,
    PID,
    ROOT,
    V2,
    Box,
    Run,
    another_user,
    docker_box,
    plain_box,
)
from tests.support.runs import ledger_here, pytest_run, write_profile

load_areas()
FREE, INODES = "machine.disk.free", "machine.disk.inodes"
KIND, LOCKS = "machine.disk.filesystem", "machine.disk.locks"
MODEL = "example-org/chat-8b"
GB = 10**9
SMALL = f'[[serve]]\nname = "chat"\nmodel = "{MODEL}"\nmodel_bytes = 1_000_000\n'
SERVED = f'[[serve]]\nname = "chat"\nmodel = "{MODEL}"\nmodel_bytes = {16 * GB}\n'
needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount")


def seen_of(run: Run, subject: str, probe: str = "machine.folder") -> dict[str, Any]:
    return next(
        row["data"]
        for row in run.ledger["observations"]
        if (row["probe"], row["subject"]) == (probe, subject)
    )


def look(path: Path | str, name: str = "tmp") -> Folder:
    """Look at one folder of this machine."""
    probe = REGISTRY.probes["machine.folder"]
    profile = Profile(schema=1, paths=Paths(tmp=str(path), container_data=str(path)))
    seen = probe.read(World(), probe.targets(profile)[name])
    assert isinstance(seen, Folder), seen
    return seen


# Real mounts


@pytest.fixture
def mounted() -> Iterator[Any]:
    """Mount, and undo it all at the end."""
    points: list[Path] = []

    def mount(place: Path, *words: str) -> Path:
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", *words, str(place)], check=True, capture_output=True)
        points.append(place)
        return place

    yield mount
    for point in reversed(points):
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "-l", str(point)], check=True, capture_output=True)


def tmpfs(size: str = "8m", *more: str) -> tuple[str, ...]:
    return ("-t", "tmpfs", "-o", ",".join((f"size={size}", *more)), "preflight-test")


@pytest.mark.root
@needs_mounts
class TestRealMounts:
    def test_a_bind_mount_lies_on_what_it_binds(self, tmp_path, mounted):
        below = mounted(tmp_path / "below", *tmpfs())
        (below / "in").mkdir()
        bound = mounted(tmp_path / "bound", "--bind", str(below / "in"))
        seen = look(bound / "not" / "there")
        assert (seen.mounted.kind, seen.mounted.point, seen.disks) == ("tmpfs", str(bound), ())
        assert seen.memory.memory_total_bytes > seen.memory.memory_available_bytes > 0

    def test_what_is_mounted_over_a_mount_hides_it(self, tmp_path, mounted):
        outer = mounted(tmp_path / "outer", *tmpfs())
        mounted(outer / "inner", *tmpfs())
        assert look(outer / "inner").mounted.point == str(outer / "inner")
        over = mounted(tmp_path / "outer", *tmpfs("4m", "noexec"))
        seen = look(outer / "inner" / "x")
        assert seen.mounted.point == str(over)
        assert "noexec" in seen.mounted.options
        assert seen.total_bytes == 4 * 2**20

    def test_a_folder_behind_a_link_lies_where_the_link_leads(self, tmp_path, mounted):
        target = mounted(tmp_path / "my models", *tmpfs())
        (tmp_path / "hub").symlink_to(target / "hub")
        (target / "hub").mkdir()
        assert look(tmp_path / "hub").mounted.point == str(target)
        assert look(tmp_path).mounted.point != str(target)

    def test_a_file_system_that_turned_read_only_is_told_from_one_that_was_mounted_so(
        self, tmp_path, mounted
    ):
        place = mounted(tmp_path / "fs", *tmpfs())
        bound = mounted(tmp_path / "bound", "--bind", str(place))
        assert not look(bound).mounted.turned_read_only
        # what a kernel does after an error reaches the file system, and not its mounts
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert look(bound).mounted.turned_read_only
        assert not look(place).mounted.turned_read_only
        assert look(bound).access.read_only

    def test_containers_on_a_disk_that_turned_read_only_fail(self, suite, tmp_path, mounted):
        place = mounted(tmp_path / "fs", *tmpfs())
        bound = mounted(tmp_path / "bound", "--bind", str(place))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        run = suite.run(tmp_path, profile=f'[paths]\ncontainer_data = "{bound}"\n')
        found = run.finding(INODES, "containers")
        assert (found["verdict"], found["cause"]) == ("fail", "read-only")
        assert "after it had been mounted writable" in found["says"]
        assert run.finding(FREE, "containers")["reason"] == "blocked-by"

    def test_container_data_that_this_user_may_not_look_into_is_judged_by_its_file_system(
        self, suite, open_path, mounted
    ):
        place = mounted(open_path / "fs", *tmpfs())
        (place / "closed" / "docker").mkdir(parents=True)
        (place / "closed").chmod(0o700)
        profile = f'[paths]\ncontainer_data = "{place}/closed/docker"\n'
        for need, verdict in ((1, "pass"), (10**12, "fail")):
            text = f"{profile}container_data_free_min_bytes = {need}\n"
            run = suite.run(open_path, profile=text, uid=another_user())
            found = run.finding(FREE, "containers")
            assert found["verdict"] == verdict, found["says"]
            assert f"not open to this user; looked at {place}/closed" in found["says"]
            assert run.finding(INODES, "containers")["verdict"] == "pass"
        assert seen_of(run, "containers")["access"]["unseen"] == "permission"

    def test_another_mount_below_a_closed_folder_is_not_judged_by_its_parent(
        self, suite, open_path, mounted
    ):
        place = mounted(open_path / "fs", *tmpfs())
        (place / "closed").mkdir(mode=0o700)
        mounted(place / "closed" / "docker", *tmpfs("1m"))
        profile = f'[paths]\ncontainer_data = "{place}/closed/docker"\n'
        found = suite.run(open_path, profile=profile, uid=another_user()).finding(
            FREE, "containers"
        )
        assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
        assert "root" in found["remedy"]

    def test_a_cache_in_memory_that_memory_cannot_hold_fails_though_there_is_room(
        self, suite, tmp_path, mounted
    ):
        place = mounted(tmp_path / "cache", *tmpfs("900t"))
        profile = f'[paths]\nmodel_cache = "{place}"\n' + SERVED
        run = suite.run(tmp_path, profile=profile.replace(str(16 * GB), str(900 * 2**40 - 10**7)))
        assert run.finding(FREE, "model-cache")["verdict"] == "pass"
        found = run.finding(KIND, "model-cache")
        assert (found["verdict"], found["cause"]) == ("fail", "exceeds-memory")
        run = suite.run(tmp_path, profile=profile.replace(str(16 * GB), "1_000_000"))
        found = run.finding(KIND, "model-cache")
        assert found["verdict"] == "pass"
        assert any("lost with" in note for note in found["notes"])


def test_the_folders_of_this_machine_lie_on_something(suite, tmp_path):
    run = suite.run(tmp_path, profile=f'[paths]\nmodel_cache = "{tmp_path}/hub"\n{SMALL}')
    for subject in ("model-cache", "tmp", "ledgers"):
        assert run.finding(KIND, subject)["verdict"] == "pass", run.finding(KIND, subject)
    assert run.finding(LOCKS, "model-cache")["verdict"] == "pass"
    assert not (tmp_path / "hub").exists()
    assert [path.name for path in tmp_path.iterdir() if "preflight" in path.name] == []


def test_a_cache_that_this_user_may_not_write_has_no_lock_tried(suite, open_path):
    cache = open_path / "hub"
    blobs = cache / "models--example-org--chat-8b" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_bytes(b"\0" * 1_000_000)
    cache.chmod(0o555)
    profile = f'[paths]\nmodel_cache = "{cache}"\n{SMALL}'
    run = suite.run(open_path, profile=profile, uid=another_user())
    assert run.finding(INODES, "model-cache")["verdict"] == "pass"
    found = run.finding(LOCKS, "model-cache")
    assert found["verdict"] == "not-applicable", found["says"]
    (blobs / "a").write_bytes(b"")
    run = suite.run(open_path, profile=profile, uid=another_user())
    assert run.finding(LOCKS, "model-cache")["reason"] == "blocked-by"


def test_a_lock_that_hangs_is_told_from_a_folder_that_hangs(tmp_path, monkeypatch):
    """The probe itself ends in time, so the judge gets to see what hung."""
    probe = REGISTRY.probes["machine.locks"]
    assert probe.deadline_s > checks.core.world.LOCK_S + 2.0
    monkeypatch.setattr(checks.core.world, "LOCK_S", 0.2)
    monkeypatch.setattr(checks.core.world.fcntl, "flock", lambda *_: __import__("time").sleep(30))
    profile = Profile(
        schema=1,
        paths=Paths(model_cache=str(tmp_path)),
        serve=(Serve(name="a", model="a/b"),),
    )
    (target,) = probe.targets(profile).values()
    said = REGISTRY.checks[LOCKS].judge(probe.read(World(), target), None)
    assert said.cause == "locks-hang"


# Recorded trees


def room(free_bytes: int, inodes: int = 10**6) -> dict[str, int]:
    return {
        "total_bytes": 100 * GB,
        "free_bytes": free_bytes,
        "inodes": inodes,
        "inodes_free": inodes,
    }


def access(**changes: object) -> dict[str, object]:
    return {
        "exists": True,
        "is_folder": True,
        "writable": True,
        "read_only": False,
        "device": "8:1",
        "user": "uid 1000",
    } | changes


def cached_on(line: str, box: Box | None = None) -> Box:
    """A box whose model cache lies on a mount of its own."""
    box = box or plain_box()
    text = str(box.files[f"/proc/{PID}/mountinfo"])
    box.put(f"/proc/{PID}/mountinfo", text + line)
    box.recorded["statvfs"]["/srv/hub"] = room(900 * GB) | {"access": access()}
    return box


CACHE = '[paths]\nmodel_cache = "/srv/hub"\n' + SERVED
NFS = (
    "60 23 0:61 / /srv/hub rw,relatime shared:9 - nfs filer:/models "
    "rw,vers=3,hard,proto=tcp,addr=192.0.2.9\n"
)
TMPFS = "60 23 0:61 / /srv/hub rw,relatime shared:9 - tmpfs tmpfs rw,size=900000000k\n"


@pytest.mark.parametrize(
    ("outcome", "verdict", "cause"),
    [
        ("ok", "pass", ""),
        ("ENOLCK", "fail", "locks-unsupported"),
        ("EOPNOTSUPP", "fail", "locks-unsupported"),
        ("hang", "fail", "locks-hang"),
        ("ENOSYS", "pass", ""),
        ("ESTALE", "unknown", ""),
    ],
)
def test_a_cache_on_nfs_passes_where_locks_work_and_fails_where_not(
    suite, tmp_path, outcome, verdict, cause
):
    box = cached_on(NFS)
    box.recorded["locks"] = {"/": "ok", "/srv/hub": outcome}
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=CACHE)
    found = run.finding(LOCKS, "model-cache")
    assert (found["verdict"], found["cause"]) == (verdict, cause), found["says"]
    assert "/srv/hub (nfs)" in found["says"]
    kind = run.finding(KIND, "model-cache")
    assert kind["verdict"] == "pass"
    assert any("over the network" in note for note in kind["notes"])
    assert kind["premise"] == []


@pytest.mark.parametrize(
    ("memory_kib", "swap_kib", "verdict"),
    [(15_000_000, 0, "fail"), (16_000_000, 0, "pass"), (10_000_000, 6_000_000, "pass")],
)
def test_a_cache_in_memory_needs_memory_that_is_there(
    suite, tmp_path, memory_kib, swap_kib, verdict
):
    box = cached_on(TMPFS).put(
        "/proc/meminfo",
        f"MemTotal: {memory_kib} kB\nMemAvailable: {memory_kib} kB\n"
        f"SwapTotal: {swap_kib} kB\nSwapFree: {swap_kib} kB\n",
    )
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=CACHE)
    found = run.finding(KIND, "model-cache")
    assert found["verdict"] == verdict, found["says"]
    assert found["cause"] == ("exceeds-memory" if verdict == "fail" else "")
    assert run.finding(FREE, "model-cache")["verdict"] == "pass"


def test_a_cache_in_the_memory_of_a_pod_needs_what_its_limit_leaves(suite, tmp_path):
    for limit_bytes, verdict in ((15 * GB, "fail"), (17 * GB, "pass")):
        box = cached_on(TMPFS)
        box.put("/sys/fs/cgroup/memory.max", f"{limit_bytes}\n")
        box.put("/sys/fs/cgroup/memory.current", "0\n").put("/sys/fs/cgroup/memory.stat", "")
        folder = tmp_path / verdict
        found = suite.run(folder, root=box.write(folder / "t"), profile=CACHE).finding(
            KIND, "model-cache"
        )
        assert found["verdict"] == verdict, found["says"]


def test_memory_behind_a_cache_that_is_not_told_is_unknown(suite, tmp_path):
    box = cached_on(TMPFS).put(
        "/proc/meminfo", "MemTotal: 5 kB\nMemAvailable: 5 kB\nSwapTotal: x\n"
    )
    found = suite.run(tmp_path, root=box.write(tmp_path / "t"), profile=CACHE).finding(
        KIND, "model-cache"
    )
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "SwapTotal" in found["says"]


def test_a_cache_on_the_overlay_of_a_container_is_noted_and_a_volume_is_not(suite, tmp_path):
    box = docker_box()
    run = suite.run(tmp_path / "a", root=box.write(tmp_path / "a" / "t"), profile=SERVED)
    found = run.finding(KIND, "model-cache")
    assert found["verdict"] == "pass"
    assert "lost with the container" in found["notes"][0]
    # no disk can be told, so all of them count
    assert found["premise"] == ["disk"]
    assert "lowerdir" not in str(found)
    volume = "60 23 259:2 /models /srv/hub rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
    run = suite.run(
        tmp_path / "b",
        root=cached_on(volume, docker_box()).write(tmp_path / "b" / "t"),
        profile=CACHE,
    )
    found = run.finding(KIND, "model-cache")
    assert (found["verdict"], found["notes"], found["premise"]) == ("pass", [], [DISK])


def test_a_tree_without_a_list_of_mounts_is_unknown_and_the_rest_is_judged(suite, tmp_path):
    box = plain_box()
    box.put(f"/proc/{PID}/mountinfo", V2)
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"))
    found = run.finding(KIND, "tmp")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert run.finding(FREE, "tmp")["verdict"] == "pass"
    assert run.finding(FREE, "tmp")["premise"] == ["disk"]


def test_options_that_name_people_and_layers_are_left_out(suite, tmp_path):
    options = "rw,vers=3.0,username=mallory,domain=CORP,password=x,lowerdir=/a:/b,uid=0"
    box = cached_on(f"60 23 0:61 / /srv/hub rw,noexec - cifs //filer/m {options}\n")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=CACHE)
    seen = seen_of(run, "model-cache")["mounted"]
    assert seen["options"] == ["rw", "noexec", "vers=3.0", "uid=0"]
    assert seen["mounted_from"] == "//filer/m"
    assert run.ledger_path is not None
    assert "mallory" not in run.ledger_path.read_text()


def test_a_very_long_list_of_options_is_kept_short(suite, tmp_path):
    options = ",".join(f"o{n}={'x' * 300}" for n in range(400))
    box = cached_on(f"60 23 0:61 / /srv/hub rw - fuse.mergerfs a:b {options}\n")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=CACHE)
    assert run.finding(KIND, "model-cache")["verdict"] == "pass"
    assert len(str(seen_of(run, "model-cache")["mounted"])) < 12_000


# Containers


def with_docker(box: Box | None = None) -> Box:
    box = box or plain_box()
    return box.put("/var/lib/docker/engine-id", "x")


def test_a_box_without_a_container_runtime_is_not_judged_for_one(suite, tmp_path):
    run = suite.run(tmp_path, root=plain_box().write(tmp_path / "tree"))
    for check in (FREE, INODES, KIND):
        assert run.finding(check, "containers")["verdict"] == "not-applicable"
    assert run.code == 0, run.out


@pytest.mark.parametrize(
    ("change", "check", "cause"),
    [
        ({}, INODES, ""),
        ({"free_bytes": 2**20}, FREE, ""),
        ({"free_bytes": 2**20 - 1}, FREE, "no-room"),
        ({"inodes_free": 64}, INODES, ""),
        ({"inodes_free": 63}, INODES, "no-inodes"),
        ({"access": access(writable=False)}, INODES, ""),
        ({"access": access(is_folder=False)}, INODES, "not-a-folder"),
    ],
)
def test_container_data_takes_files_or_fails(suite, tmp_path, change, check, cause):
    box = with_docker()
    box.recorded["statvfs"]["/var/lib/docker"] = room(GB) | change
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"))
    found = run.finding(check, "containers")
    assert found["cause"] == cause, found["says"]
    assert found["verdict"] == ("fail" if cause else "pass")
    assert "/var/lib/docker" in found["says"]
    assert run.finding(check, "tmp")["verdict"] == "pass"


def test_images_need_the_room_that_is_declared(suite, tmp_path):
    for free, verdict in ((50 * GB, "pass"), (50 * GB - 1, "fail")):
        box = with_docker()
        box.recorded["statvfs"]["/var/lib/docker"] = room(free)
        profile = f"[paths]\ncontainer_data_free_min_bytes = {50 * GB}\n"
        folder = tmp_path / verdict
        found = suite.run(folder, root=box.write(folder / "t"), profile=profile).finding(
            FREE, "containers"
        )
        assert (found["verdict"], found["basis"]) == (verdict, "declared")


def test_read_only_container_data_is_a_fault_only_where_it_turned_so_or_is_declared(
    suite, tmp_path
):
    line = "60 23 259:2 / /var/lib/docker {} shared:9 - ext4 /dev/nvme0n1p2 {}\n"
    declared = '[paths]\ncontainer_data = "/var/lib/docker"\n'
    for name, mount, of_all, profile, verdict in (
        ("on purpose", "ro", "ro", "", "not-applicable"),
        ("turned", "rw", "ro,errors=remount-ro", "", "fail"),
        ("declared", "ro", "ro", declared, "fail"),
    ):
        box = with_docker()
        box.put(f"/proc/{PID}/mountinfo", ROOT + line.format(mount, of_all) + V2)
        closed = access(read_only=True, writable=False)
        box.recorded["statvfs"]["/var/lib/docker"] = room(GB) | {"access": closed}
        run = suite.run(tmp_path / name, root=box.write(tmp_path / name / "t"), profile=profile)
        found = run.finding(INODES, "containers")
        assert found["verdict"] == verdict, (name, found["says"])


NAMED = {
    "docker": ("/etc/docker/daemon.json", '{"data-root": "/data/docker/"}', "/data/docker"),
    "an old docker": ("/etc/docker/daemon.json", '{"graph": "/data/graph"}', "/data/graph"),
    "containerd": (
        "/etc/containerd/config.toml",
        'version = 2\nroot = "/data/containerd"\n[plugins]\nroot = "/not"\n',
        "/data/containerd",
    ),
    "podman": (
        "/etc/containers/storage.conf",
        '[storage]\ndriver = "overlay"\ngraphroot = "/data/podman"\n',
        "/data/podman",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_runtime_may_name_its_own_folder(tmp_path, name):
    path, text, folder = NAMED[name]
    box = plain_box().put(path, text).put(f"{folder}/x", "x")
    assert container_folders(World(box.write(tmp_path / "a"))) == (folder,)
    # and one that is not there is none
    assert container_folders(World(plain_box().put(path, text).write(tmp_path / "b"))) == ()


@pytest.mark.parametrize(
    "folder", ["/var/lib/docker", "/var/lib/containerd", "/var/lib/containers/storage"]
)
def test_a_runtime_that_names_nothing_has_its_default(tmp_path, folder):
    box = plain_box().put("/etc/docker/daemon.json", "").put("/etc/containerd/config.toml", "")
    box.put("/etc/containers/storage.conf", "[storage]\n").put(f"{folder}/x", "x")
    assert container_folders(World(box.write(tmp_path))) == (folder,)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/docker/daemon.json", "{"),
        ("/etc/docker/daemon.json", "[]"),
        ("/etc/docker/daemon.json", '{"data-root": "relative"}'),
        ("/etc/docker/daemon.json", '{"data-root": 5}'),
        ("/etc/docker/daemon.json", "[" * 100_000),
        ("/etc/containerd/config.toml", "root ="),
        ("/etc/containers/storage.conf", "storage = 5"),
    ],
)
def test_a_file_of_a_runtime_that_makes_no_sense_is_unknown_and_says_what_to_do(
    suite, tmp_path, path, text
):
    box = with_docker().put(path, text)
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"))
    found = run.finding(FREE, "containers")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert path in found["says"]
    assert "paths.container_data" in found["remedy"]
    named = '[paths]\ncontainer_data = "/var/lib/docker"\n'
    run = suite.run(tmp_path / "n", root=tmp_path / "tree", profile=named)
    assert run.finding(FREE, "containers")["verdict"] == "pass"


def test_of_several_runtimes_the_one_with_the_least_room_is_judged(suite, tmp_path):
    box = with_docker().put("/var/lib/containerd/x", "x")
    box.recorded["statvfs"] |= {"/var/lib/docker": room(9 * GB), "/var/lib/containerd": room(5)}
    found = suite.run(tmp_path, root=box.write(tmp_path / "t")).finding(FREE, "containers")
    assert (found["verdict"], found["cause"]) == ("fail", "no-room")
    assert "/var/lib/containerd" in found["says"]


def test_models_and_images_on_one_file_system_are_added_up(suite, tmp_path):
    for need, verdict in ((4 * GB, "pass"), (4 * GB + 1, "fail")):
        box = with_docker(cached_on(""))
        shared = room(20 * GB) | {"access": access()}
        box.recorded["statvfs"] |= {"/srv/hub": shared, "/var/lib/docker": shared}
        profile = CACHE.replace(
            "[[serve]]", f"container_data_free_min_bytes = {need}\n[[serve]]", 1
        )
        folder = tmp_path / verdict
        found = suite.run(folder, root=box.write(folder / "t"), profile=profile).finding(
            FREE, "model-cache"
        )
        assert found["verdict"] == verdict, found["says"]


# The disks below


PCI = "/sys/devices/pci0000:00/0000:00:1d.0"
SLOTS = {"nvme1n1": "0000:02:00.0", "nvme2n1": "0000:03:00.0", "nvme3n1": "0000:04:00.0"}


def layered_box() -> Box:
    """Models on an encrypted mirror of two disks, temporary files on a third, the rest elsewhere."""
    box = plain_box()
    for number, (name, slot) in enumerate(SLOTS.items(), 1):
        box.disk(
            name,
            f"259:{10 * number}",
            f"{PCI}/{slot}/nvme/nvme{number}",
            parts={f"{name}p1": f"259:{10 * number + 1}"},
            size="7501476528",
            wwid=f"eui.{number}",
        )
    virtual = "/sys/devices/virtual/block"
    box.disk("md0", "9:0", virtual, slaves=("nvme1n1p1", "nvme2n1p1"))
    box.disk("dm-0", "253:0", virtual, slaves=("md0",))
    box.mounts(
        "60 23 253:0 / /srv/hub rw - xfs /dev/mapper/models rw\n"
        "61 23 259:31 / /scratch rw - ext4 /dev/nvme3n1p1 rw\n" + V2
    )
    box.recorded["statvfs"]["/srv/hub"] = room(900 * GB)
    box.link("/home/user/hub", "/srv/hub")
    return box


LAYERED = '[paths]\nmodel_cache = "/home/user/hub"\ntmp = "/scratch/tmp"\n' + SERVED


def test_a_verdict_rests_on_the_disks_that_the_folder_lies_on(suite, tmp_path):
    run = suite.run(tmp_path, root=layered_box().write(tmp_path / "t"), profile=LAYERED)
    mirror = [f"disk[{SLOTS[name]} n1]" for name in ("nvme1n1", "nvme2n1")]
    for check in (FREE, INODES, KIND):
        assert run.finding(check, "model-cache")["premise"] == mirror
        assert run.finding(check, "tmp")["premise"] == [f"disk[{SLOTS['nvme3n1']} n1]"]
        assert run.finding(check, "ledgers")["premise"] == [DISK]
    assert set(mirror) < set(run.ledger["fingerprint"])


@pytest.mark.parametrize(
    ("swapped", "struck"),
    [("nvme1n1", "model-cache"), ("nvme2n1", "model-cache"), ("nvme3n1", "tmp")],
)
def test_a_swapped_disk_strikes_out_only_what_lay_on_it(suite, tmp_path, swapped, struck):
    write_profile(tmp_path / "e", "box", LAYERED)
    expected = (str(tmp_path / "e"),)
    before = ledger_here(
        tmp_path / "l", "box", expected=expected, root=str(layered_box().write(tmp_path / "a"))
    )
    box = layered_box()
    number = list(SLOTS).index(swapped) + 1
    box.put(f"{PCI}/{SLOTS[swapped]}/nvme/nvme{number}/{swapped}/wwid", "eui.another\n")
    after = ledger_here(
        tmp_path / "l", "box", expected=expected, root=str(box.write(tmp_path / "b"))
    )
    from checks.ledger.diff import Move, difference

    moved = {
        (change.check, change.subject)
        for change in difference(before, after).findings
        if change.move is Move.STRUCK_OUT
    }
    assert moved == {(check, struck) for check in (FREE, INODES, KIND)}


# What the cache holds, in the fingerprint


def cache_parts(run: Run) -> dict[str, Any]:
    return {
        slot: part["kind"]
        for slot, part in run.ledger["fingerprint"].items()
        if slot.startswith(("cache", "model["))
    }


def test_the_cache_and_the_revisions_in_it_are_components(suite, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    box = layered_box()
    box.put("/srv/hub/models--example-org--chat-8b/refs/main", commit)
    run = suite.run(tmp_path / "a", root=box.write(tmp_path / "a" / "t"), profile=LAYERED)
    mirror = " ".join(f"disk[{SLOTS[name]} n1]" for name in ("nvme1n1", "nvme2n1"))
    assert cache_parts(run) == {
        "cache": {"filesystem": "xfs", "mounted_from": mirror},
        f"model[{MODEL}]": {"revision": commit},
    }
    box = cached_on(NFS)
    run = suite.run(tmp_path / "b", root=box.write(tmp_path / "b" / "t"), profile=CACHE)
    assert cache_parts(run) == {"cache": {"filesystem": "nfs", "mounted_from": "filer:/models"}}
    box.put("/srv/hub/models--example-org--chat-8b/refs/main", "../../etc/passwd\n")
    run = suite.run(tmp_path / "c", root=box.write(tmp_path / "c" / "t"), profile=CACHE)
    assert cache_parts(run)[f"model[{MODEL}]"] == {"revision": None}


@pytest.mark.parametrize(
    "profile",
    [
        "",
        '[[serve]]\nname = "a"\nmodel = "/srv/a"\n',
        SERVED + 'where = "container:0123456789ab"\nenv = { HF_HOME = "/x" }\n',
    ],
)
def test_without_a_model_of_the_hub_on_this_box_there_is_no_cache_in_it(suite, tmp_path, profile):
    run = suite.run(tmp_path, root=plain_box().write(tmp_path / "t"), profile=profile)
    assert cache_parts(run) == {}


def test_a_server_that_mounts_from_is_not_named_in_a_copy_for_strangers(tmp_path):
    write_profile(tmp_path / "e", "box", CACHE)
    ledger = ledger_here(
        tmp_path / "l",
        "box",
        expected=(str(tmp_path / "e"),),
        root=str(cached_on(NFS).write(tmp_path / "t")),
    )
    from checks.ledger.anonymous import anonymous

    assert "filer" in str(ledger.row)
    assert "filer" not in str(anonymous(ledger))
    assert "192.0.2.9" not in str(anonymous(ledger))


def test_an_earlier_ledger_is_not_asked_for_folders_that_it_did_not_know(tmp_path):
    """A new subject of an old check would else make an old pass unknown."""
    write_profile(tmp_path / "e", "box", "")
    expected = (str(tmp_path / "e"),)
    root = str(plain_box().write(tmp_path / "t"))
    made = ledger_here(tmp_path / "l", "box", expected=expected, root=root)
    row = made.row
    row["findings"] = [one for one in row["findings"] if one["subject"] != "containers"]
    row["observations"] = [one for one in row["observations"] if one["subject"] != "containers"]
    from checks.ledger.canonical import ledger_digest, pretty
    from checks.ledger.schema import read_ledger

    row["digest"] = ledger_digest(row)
    old = tmp_path / "old.json"
    old.write_bytes(pretty(row))
    run = pytest_run("--replay", old, "--ledger-dir", tmp_path / "r")
    (path,) = (tmp_path / "r" / "box" / "replays").glob("*Z-*.json")
    again = read_ledger(path)
    assert run.code == made.run["exit_code"], run.out
    assert "containers" not in {finding.subject for finding in again.findings}
    (notice,) = [line for line in again.row["notices"] if "did not know them" in line]
    assert "machine.disk.free [containers]" in notice
