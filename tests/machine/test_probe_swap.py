"""Swap and huge pages, read from trees as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.core.facts import Blind
from checks.core.world import World
from checks.machine.facts import HugePageSize, SwapDevice
from checks.machine.probe.memory import read_memory
from checks.machine.probe.swap import read_swap
from tests.support.boxes import SWAPS, Box, _with_memory, huge_pages, plain_box

KIB = 1_024


def swap_of(tmp_path: Path, box: Box):
    return read_swap(World(box.write(tmp_path)))


def test_swap_is_read_with_what_it_is_made_of(tmp_path):
    box = _with_memory(plain_box(), swap_kib=3_000)
    rows = (
        "/dev/zram0                              partition\t1000\t\t10\t\t100\n"
        "/swap.img\\040(deleted)                  file\t\t1500\t\t0\t\t-2\n"
        "/dev/nvme0n1p3                          partition\t500\t\t500\t\t-3\n"
    )
    seen = swap_of(tmp_path, box.put("/proc/swaps", SWAPS + rows))
    assert (seen.total_bytes, seen.free_bytes) == (3_000 * KIB, 3_000 * KIB)
    assert seen.memory_total_bytes == 527_935_488 * KIB
    assert [(one.kind, one.size_bytes, one.used_bytes) for one in seen.devices] == [
        ("zram", 1_000 * KIB, 10 * KIB),
        ("file", 1_500 * KIB, 0),
        ("partition", 500 * KIB, 500 * KIB),
    ]
    assert seen.devices[0].name == "/dev/zram0"
    assert seen.zswap is False


def test_a_box_without_swap_has_none(tmp_path):
    seen = swap_of(tmp_path, plain_box().drop("/proc/swaps").put("/proc/swaps", SWAPS))
    assert (seen.total_bytes, seen.devices) == (0, ())


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "/dev/sda2 disk 10 0 -1",
        "/dev/sda2 partition ten 0 -1",
        "/dev/sda2 partition 10 11 -1",
        "/dev/sda2 partition ٣ 0 -1",
        f"/dev/sda2 partition {'9' * 15} 0 -1",
        "/dev/sda2 partition 10 0",
    ],
)
def test_a_line_of_swap_that_makes_no_sense_hides_what_swap_is_made_of_and_no_more(tmp_path, line):
    seen = swap_of(tmp_path, plain_box().put("/proc/swaps", f"{SWAPS}{line}\n"))
    assert seen.devices.reason is Blind.MALFORMED
    assert seen.total_bytes == 0


def test_swap_without_its_list_is_still_measured(tmp_path):
    seen = swap_of(tmp_path, plain_box().drop("/proc/swaps"))
    assert (seen.total_bytes, seen.devices.reason) == (0, Blind.ABSENT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SwapTotal:      0 kB\n", ""),
        ("SwapTotal:      0 kB", "SwapTotal:      many kB"),
        ("SwapFree:       0 kB", "SwapFree:       1 kB"),
        ("SwapTotal:      0 kB", f"SwapTotal:      {'9' * 13} kB"),
        ("MemTotal:       527935488 kB", "MemTotal:       0 kB"),
    ],
)
def test_numbers_of_swap_that_make_no_sense_are_unseen(tmp_path, old, new):
    box = plain_box()
    text = str(box.files["/proc/meminfo"])
    assert old in text
    seen = swap_of(tmp_path, box.put("/proc/meminfo", text.replace(old, new)))
    assert seen.reason is Blind.MALFORMED


@pytest.mark.parametrize(("text", "on"), [("Y\n", True), ("N\n", False), (None, False)])
def test_whether_zswap_is_on_is_read(tmp_path, text, on):
    path = "/sys/module/zswap/parameters/enabled"
    box = plain_box().drop(path)
    if text is not None:
        box.put(path, text)
    assert swap_of(tmp_path, box).zswap is on


def test_a_zswap_that_says_neither_is_unseen(tmp_path):
    box = plain_box().put("/sys/module/zswap/parameters/enabled", "maybe\n")
    assert swap_of(tmp_path, box).zswap.reason is Blind.MALFORMED


def test_only_so_many_swap_devices_are_kept(tmp_path):
    rows = "".join(f"/dev/sd{n} partition 10 0 -1\n" for n in range(50))
    assert len(swap_of(tmp_path, plain_box().put("/proc/swaps", SWAPS + rows)).devices) == 32
    name = SwapDevice(name="x", kind="file", size_bytes=1, used_bytes=0)
    long = plain_box().put("/proc/swaps", f"{SWAPS}/{'x' * 900} file 1 0 -1\n")
    assert len(swap_of(tmp_path / "long", long).devices[0].name) == 100 + len(name.name) - 1


# Huge pages


def pages_of(tmp_path: Path, box: Box):
    return read_memory(World(box.write(tmp_path))).huge_pages


def test_huge_pages_of_every_size_are_read(tmp_path):
    box = huge_pages(plain_box(), 2_048, total=100, free=60, promised=10)
    seen = pages_of(tmp_path, huge_pages(box, 1_048_576, total=2))
    assert seen.sizes == (
        HugePageSize(size_bytes=2**30, total_count=2, free_count=2, promised_count=0),
        HugePageSize(size_bytes=2**21, total_count=100, free_count=60, promised_count=10),
    )
    assert seen.unused_bytes == 2 * 2**30 + 50 * 2**21


def test_a_kernel_without_huge_pages_has_none(tmp_path):
    seen = pages_of(tmp_path, plain_box().drop("/sys/kernel/mm"))
    assert seen.sizes == ()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("nr_hugepages", ""),
        ("nr_hugepages", "-1"),
        ("nr_hugepages", "٣"),
        ("free_hugepages", "9" * 13),
        ("free_hugepages", "1"),  # more than there are
        ("nr_hugepages", "999999999"),  # more than the memory
        ("resv_hugepages", "x"),
    ],
)
def test_huge_pages_that_make_no_sense_are_unseen_and_leave_the_memory(tmp_path, file, text):
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB"
    box = plain_box().put(f"{folder}/{file}", f"{text}\n")
    assert pages_of(tmp_path, box).reason is Blind.MALFORMED
    assert read_memory(World(tmp_path)).total_bytes == 527_935_488 * KIB


def test_this_machine_is_read():
    assert read_swap(World()).memory_total_bytes == read_memory(World()).total_bytes
