"""What a path lies on, and which disks that lies on: trees as the kernel shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.world import World
from checks.machine.mounts import disks_of, mount_of, read_mounts
from tests.support.boxes import DISK, NVME, PID, ROOT, Box, plain_box

PCI = "/sys/devices/pci0000:00/0000:00:1d.0"
SATA = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block"
VIRTUAL = "/sys/devices/virtual/block"


def line(number: int, parent: int, device: str, point: str, kind: str, source: str) -> str:
    return f"{number} {parent} {device} / {point} rw,relatime shared:1 - {kind} {source} rw\n"


def world_of(box: Box, folder: Path, *lines: str) -> World:
    box.put(f"/proc/{PID}/mountinfo", ROOT + "".join(lines))
    return World(box.write(folder))


def on(world: World, path: str) -> tuple[str, ...] | Unseen:
    mount = mount_of(world, path)
    assert not isinstance(mount, Unseen), mount
    return disks_of(world, mount)


# What a path lies on


def found(world: World, path: str) -> str:
    mount = mount_of(world, path)
    assert not isinstance(mount, Unseen), mount
    return mount.source


def test_the_mount_with_the_longest_fitting_path_is_taken_by_whole_names(tmp_path):
    world = world_of(
        plain_box(),
        tmp_path,
        line(40, 23, "8:1", "/srv", "xfs", "/dev/srv"),
        line(41, 40, "8:2", "/srv/models", "xfs", "/dev/models"),
        line(42, 23, "8:3", "/sr", "xfs", "/dev/sr"),
    )
    for path, source in {
        "/srv/models/hub": "/dev/models",
        "/srv/models": "/dev/models",
        "/srv/models2": "/dev/srv",
        "/srv": "/dev/srv",
        "/srvx": "/dev/nvme0n1p2",
        "/": "/dev/nvme0n1p2",
        "/srv/../sr/x": "/dev/sr",
    }.items():
        assert found(world, path) == source, path


def test_what_is_mounted_over_a_place_hides_all_that_was_there_before(tmp_path):
    world = world_of(
        plain_box(),
        tmp_path,
        line(40, 23, "8:1", "/srv", "xfs", "/dev/below"),
        line(41, 40, "8:2", "/srv/models", "xfs", "/dev/hidden"),
        line(42, 40, "0:50", "/srv", "tmpfs", "above"),
        line(43, 42, "0:51", "/srv/x", "tmpfs", "inside"),
    )
    assert found(world, "/srv") == "above"
    assert found(world, "/srv/models") == "above"
    assert found(world, "/srv/x/y") == "inside"


def test_the_same_place_mounted_three_times_is_the_last(tmp_path):
    world = world_of(
        plain_box(),
        tmp_path,
        line(52, 51, "8:3", "/srv", "xfs", "/dev/third"),
        line(50, 23, "8:1", "/srv", "xfs", "/dev/first"),
        line(51, 50, "8:2", "/srv", "xfs", "/dev/second"),
    )
    assert found(world, "/srv/a") == "/dev/third"


def test_links_are_followed_to_where_the_folder_really_lies(tmp_path):
    box = plain_box().link("/home/user/hub", "/data/hub").link("/data/hub", "../mnt/big/hub")
    world = world_of(box, tmp_path, line(40, 23, "8:1", "/mnt/big", "xfs", "/dev/big"))
    assert found(world, "/home/user/hub/models--a") == "/dev/big"


def test_a_loop_of_links_is_a_reason(tmp_path):
    world = world_of(plain_box().link("/a", "/b").link("/b", "/a"), tmp_path)
    seen = mount_of(world, "/a/x")
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.MALFORMED


def test_blanks_in_names_are_read(tmp_path):
    point = r"/mnt/my\040models\011\134"
    world = world_of(plain_box(), tmp_path, line(40, 23, "8:1", point, "cifs", r"//box/a\040b"))
    mount = mount_of(world, "/mnt/my models\t\\/x")
    assert mount.point == "/mnt/my models\t\\"
    assert mount.source == "//box/a b"


def test_a_root_that_lies_on_an_initial_one_is_the_one_above(tmp_path):
    box = plain_box().put(
        f"/proc/{PID}/mountinfo",
        line(1, 1, "0:2", "/", "rootfs", "rootfs") + line(23, 1, "8:1", "/", "ext4", "/dev/sda1"),
    )
    assert found(World(box.write(tmp_path)), "/tmp") == "/dev/sda1"


@pytest.mark.parametrize(
    "text", ["", "garbage\n", line(40, 23, "8:1", "/srv", "xfs", "/dev/srv"), "1 1 8:1 / /\n"]
)
def test_where_nothing_is_listed_for_a_path_that_is_a_reason_and_no_guess(tmp_path, text):
    box = plain_box().put(f"/proc/{PID}/mountinfo", text)
    seen = mount_of(World(box.write(tmp_path)), "/srv/x")
    assert isinstance(seen, Unseen)
    assert "/srv/x" in seen.detail


def test_mounts_that_name_one_another_as_parents_end(tmp_path):
    world = world_of(
        plain_box(),
        tmp_path,
        line(40, 41, "8:1", "/srv", "xfs", "/dev/a"),
        line(41, 40, "8:2", "/srv", "xfs", "/dev/b"),
        line(40, 23, "8:3", "/srv", "xfs", "/dev/c"),
    )
    assert found(world, "/srv").startswith("/dev/")


def test_the_fields_behind_a_varying_number_of_others_are_found(tmp_path):
    text = "23 1 8:1 /sub / rw,noexec master:1 propagate_from:2 - ext4 /dev/sda1 ro,errors=x\n"
    box = plain_box().put(f"/proc/{PID}/mountinfo", text)
    (mount,) = read_mounts(World(box.write(tmp_path)))
    assert (mount.root, mount.point, mount.kind) == ("/sub", "/", "ext4")
    assert mount.options == ("rw", "noexec")
    assert mount.of_all == ("ro", "errors=x")


# Which disks


def four_disks() -> Box:
    """Two NVMe disks in a mirror with an encrypted volume on it, and two SATA disks."""
    box = plain_box()
    box.disk("nvme1n1", "259:3", f"{PCI}/0000:02:00.0/nvme/nvme1", parts={"nvme1n1p1": "259:4"})
    box.disk("nvme2n1", "259:5", f"{PCI}/0000:03:00.0/nvme/nvme2", parts={"nvme2n1p1": "259:6"})
    box.disk("sda", "8:0", SATA, parts={"sda1": "8:1"})
    box.disk("sdb", "8:16", SATA.replace("0:0:0", "1:0:0"), parts={"sdb1": "8:17"})
    box.disk("md0", "9:0", VIRTUAL, slaves=("nvme1n1p1", "nvme2n1p1"))
    box.disk("dm-0", "253:0", VIRTUAL, slaves=("md0",), dm__name="luks-models")
    box.link("/dev/mapper/luks-models", "../dm-0")
    return box


MIRROR = ("disk[0000:02:00.0 n1]", "disk[0000:03:00.0 n1]")
SDA, SDB = "disk[0000:00:17.0 0:0:0:0]", "disk[0000:00:17.0 1:0:0:0]"


def test_a_partition_lies_on_its_disk(tmp_path):
    assert on(world_of(four_disks(), tmp_path), "/") == (DISK,)


def test_an_encrypted_volume_on_a_mirror_lies_on_both_of_its_disks(tmp_path):
    world = world_of(
        four_disks(), tmp_path, line(40, 23, "253:0", "/srv", "xfs", "/dev/mapper/luks-models")
    )
    assert on(world, "/srv/models") == MIRROR
    assert on(world, "/home") == (DISK,)


def test_a_cached_disk_lies_on_the_disk_and_on_its_cache(tmp_path):
    box = four_disks().disk("bcache0", "252:0", VIRTUAL, slaves=("sda1", "nvme1n1p1"))
    world = world_of(box, tmp_path, line(40, 23, "252:0", "/srv", "ext4", "/dev/bcache0"))
    assert on(world, "/srv") == (SDA, MIRROR[0])


def test_a_partition_of_a_raid_lies_on_the_raids_disks(tmp_path):
    box = four_disks().disk(
        "md1", "9:1", VIRTUAL, parts={"md1p1": "259:9"}, slaves=("sda1", "sdb1")
    )
    world = world_of(box, tmp_path, line(40, 23, "259:9", "/srv", "ext4", "/dev/md1p1"))
    assert on(world, "/srv") == (SDA, SDB)


def test_a_whole_disk_needs_no_partition(tmp_path):
    world = world_of(four_disks(), tmp_path, line(40, 23, "8:16", "/srv", "ext4", "/dev/sdb"))
    assert on(world, "/srv") == (SDB,)


def test_of_btrfs_all_devices_count_and_not_only_the_one_that_was_mounted(tmp_path):
    box = four_disks()
    for device in ("sda1", "sdb1"):
        box.put(f"/sys/fs/btrfs/8f2f8f6e/devices/{device}/size", "1\n")
    box.put("/sys/fs/btrfs/other/devices/nvme1n1p1/size", "1\n").put("/sys/fs/btrfs/features/x", "")
    mounted = line(40, 23, "0:44", "/srv", "btrfs", "/dev/sdb1")
    assert on(world_of(box, tmp_path / "a", mounted), "/srv") == (SDA, SDB)
    seen = on(world_of(box.drop("/sys/fs/btrfs"), tmp_path / "b", mounted), "/srv")
    assert isinstance(seen, Unseen), "one of several disks would be a false answer"


def test_btrfs_on_an_encrypted_volume_is_found_by_the_name_that_device_mapper_gave(tmp_path):
    box = four_disks().put("/sys/fs/btrfs/8f2f8f6e/devices/dm-0/size", "1\n")
    mounted = line(40, 23, "0:44", "/srv", "btrfs", "/dev/mapper/luks-models")
    assert on(world_of(box, tmp_path, mounted), "/srv") == MIRROR


def test_another_file_system_without_a_number_of_its_own_is_found_by_its_source(tmp_path):
    mounted = line(40, 23, "0:44", "/srv", "f2fs", "/dev/sda1")
    assert on(world_of(four_disks(), tmp_path, mounted), "/srv") == (SDA,)


def test_of_bcachefs_all_devices_are_in_its_source(tmp_path):
    mounted = line(40, 23, "0:44", "/srv", "bcachefs", "/dev/sda1:/dev/sdb1")
    assert on(world_of(four_disks(), tmp_path, mounted), "/srv") == (SDA, SDB)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("nfs4", "filer:/export/models"),
        ("cifs", "//filer/models"),
        ("fuse.sshfs", "me@filer:/models"),
        ("lustre", "10.0.0.1@tcp:/scratch"),
        ("tmpfs", "tmpfs"),
        ("ramfs", "none"),
        ("9p", "drvfs"),
        ("virtiofs", "models"),
    ],
)
def test_what_is_kept_in_memory_or_elsewhere_lies_on_no_disk(tmp_path, kind, source):
    mounted = line(40, 23, "0:44", "/srv", kind, source)
    assert on(world_of(four_disks(), tmp_path, mounted), "/srv") == ()


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("zfs", "tank/models"),
        ("overlay", "overlay"),
        ("fuse.mergerfs", "a:b"),
        ("btrfs", "/dev/gone1"),
        ("btrfs", "/dev/"),
        ("bcachefs", "/dev/sda1:/dev/gone1"),
    ],
)
def test_what_does_not_say_where_it_lies_is_a_reason(tmp_path, kind, source):
    seen = on(world_of(four_disks(), tmp_path, line(40, 23, "0:44", "/srv", kind, source)), "/srv")
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.UNSUPPORTED
    assert kind in seen.detail


@pytest.mark.parametrize(
    ("name", "number", "disks"),
    [("zram0", "252:1", ()), ("ram3", "1:3", ()), ("nbd0", "43:0", ()), ("rbd0", "251:0", ())],
)
def test_devices_in_memory_or_over_the_network_are_no_disk(tmp_path, name, number, disks):
    box = four_disks().disk(name, number, VIRTUAL)
    world = world_of(box, tmp_path, line(40, 23, number, "/srv", "ext4", f"/dev/{name}"))
    assert on(world, "/srv") == disks


@pytest.mark.parametrize(("name", "number"), [("loop0", "7:0"), ("dm-7", "253:7"), ("md7", "9:7")])
def test_a_device_that_names_nothing_below_it_is_a_reason(tmp_path, name, number):
    box = four_disks().disk(name, number, VIRTUAL)
    seen = on(world_of(box, tmp_path, line(40, 23, number, "/srv", "ext4", f"/dev/{name}")), "/srv")
    assert isinstance(seen, Unseen)
    assert name in seen.detail


@pytest.mark.parametrize("number", ["8:99", "x:1", "8", "8:1:2", "-8:1", "8:" + "9" * 50])
def test_a_number_that_no_device_has_is_a_reason(tmp_path, number):
    seen = on(
        world_of(four_disks(), tmp_path, line(40, 23, number, "/srv", "ext4", "/dev/x")), "/srv"
    )
    assert isinstance(seen, Unseen)


def test_one_member_that_cannot_be_followed_leaves_all_unknown(tmp_path):
    box = four_disks()
    box.disk("md1", "9:1", VIRTUAL, slaves=("sda1",)).link(
        f"{VIRTUAL}/md1/slaves/sdz1", "/sys/class/block/sdz1"
    )
    world = world_of(box, tmp_path, line(40, 23, "9:1", "/srv", "ext4", "/dev/md1"))
    assert isinstance(on(world, "/srv"), Unseen)


def test_devices_that_are_made_of_one_another_end(tmp_path):
    box = plain_box().disk("dm-1", "253:1", VIRTUAL, slaves=("dm-2",))
    box.disk("dm-2", "253:2", VIRTUAL, slaves=("dm-1",))
    seen = on(world_of(box, tmp_path, line(40, 23, "253:1", "/srv", "ext4", "/dev/dm-1")), "/srv")
    assert isinstance(seen, Unseen)
    assert "layers" in seen.detail


def test_a_board_without_a_bus_calls_its_disks_by_name(tmp_path):
    box = plain_box().disk(
        "mmcblk0", "179:0", "/sys/devices/platform/mmc0", parts={"mmcblk0p1": "179:1"}
    )
    world = world_of(box, tmp_path, line(40, 23, "179:1", "/srv", "ext4", "/dev/mmcblk0p1"))
    assert on(world, "/srv") == ("disk[mmcblk0]",)


def test_folders_of_sysfs_that_are_no_links_are_followed_too(tmp_path):
    """As a copy of a tree without its links may have them."""
    box = plain_box().drop("/sys/class/block", "/sys/dev/block", "/sys/block", NVME)
    box.put("/sys/block/sda/size", "8\n").put("/sys/block/dm-0/slaves/sda/size", "8\n")
    box.link("/sys/dev/block/253:0", "../../block/dm-0")
    world = world_of(box, tmp_path, line(40, 23, "253:0", "/srv", "xfs", "/dev/dm-0"))
    assert on(world, "/srv") == ("disk[sda]",)
