"""The outermost edge, against what the operating system would answer."""

import os
import time
from pathlib import Path

import pytest

from checks.core.facts import Access
from checks.core.world import World
from tests.support.boxes import plain_box

HERE = World()


def statvfs(flags: int = 0) -> os.statvfs_result:
    """Give an answer in which every number is another."""
    names = ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail")
    numbers = dict(zip(names, (8_192, 4_096, 1_000, 500, 300, 900, 80, 70), strict=True))
    return os.statvfs_result((*numbers.values(), flags, 255))


def test_room_is_what_a_user_without_privileges_may_fill(monkeypatch, tmp_path):
    """Root has the reserved blocks and inodes besides; what is checked is rarely run by root."""
    monkeypatch.setattr(os, "statvfs", lambda _: statvfs())
    room = HERE.room(str(tmp_path))
    assert room.total_bytes == 4_096 * 1_000
    assert room.free_bytes == 4_096 * 300
    assert (room.inodes, room.inodes_free) == (900, 70)


def test_the_time_since_boot_counts_while_the_box_is_suspended(monkeypatch):
    clocks = {time.CLOCK_BOOTTIME: 900.0, time.CLOCK_MONOTONIC: 300.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    assert HERE.boot_s() == 900.0


def test_an_open_folder_is_seen_as_one(tmp_path):
    room = HERE.room(str(tmp_path))
    device = tmp_path.stat().st_dev
    assert room.path == str(tmp_path)
    assert room.access == Access(
        exists=True,
        is_folder=True,
        writable=True,
        read_only=False,
        device=f"{os.major(device)}:{os.minor(device)}",
        user=f"uid {os.getuid()}",
    )


def test_of_a_missing_folder_the_nearest_parent_is_looked_at(tmp_path):
    room = HERE.room(f"{tmp_path}/not/there")
    assert room.path == str(tmp_path)
    assert (room.access.exists, room.access.is_folder) == (False, True)


@pytest.mark.parametrize("name", ["file", "file/below", "file/below/that"])
def test_a_file_is_no_folder(tmp_path, name):
    (tmp_path / "file").write_text("x")
    room = HERE.room(f"{tmp_path}/{name}")
    assert room.path == f"{tmp_path}/file"
    assert room.access.exists is (name == "file")
    assert room.access.is_folder is False


@pytest.mark.parametrize("name", ["link", "link/below"])
def test_a_link_that_leads_nowhere_is_no_folder_and_one_that_leads_to_a_folder_is(tmp_path, name):
    (tmp_path / "link").symlink_to("away")
    room = HERE.room(f"{tmp_path}/{name}")
    assert room.path == str(tmp_path)
    assert room.access.is_folder is False
    (tmp_path / "away").mkdir()
    assert HERE.room(f"{tmp_path}/{name}").access.is_folder is True


def test_what_is_created_in_a_folder_also_has_to_be_found_there(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(os, "access", lambda path, wanted: asked.append((path, wanted)))
    HERE.room(str(tmp_path))
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]


@pytest.mark.parametrize(("flags", "read_only"), [(0, False), (os.ST_NOSUID, False), (1, True)])
def test_a_file_system_that_is_mounted_read_only_says_so(monkeypatch, tmp_path, flags, read_only):
    monkeypatch.setattr(os, "statvfs", lambda _: statvfs(flags))
    assert HERE.room(str(tmp_path)).access.read_only is read_only


def test_the_access_of_a_recorded_parent_says_nothing_of_the_folder(tmp_path):
    box = plain_box()
    access = {
        "exists": True,
        "is_folder": True,
        "writable": True,
        "read_only": False,
        "device": "8:1",
        "user": "uid 0",
    }
    row = {"total_bytes": 1, "free_bytes": 1, "inodes": 1, "inodes_free": 1, "access": access}
    box.recorded["statvfs"] = {"/srv": row}
    world = World(Path(box.write(tmp_path)))
    assert world.room("/srv").access == Access(**access)
    assert world.room("/srv/models").access.reason.value == "not-recorded"
