"""The outermost edge, against what the operating system would answer."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

import checks.core.world
from checks.core.facts import Access, Blind, Unseen
from checks.core.world import Timex, World
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


# Links


def test_links_are_resolved_as_the_kernel_does_it_and_what_is_not_there_stays(tmp_path):
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/in")
    (tmp_path / "far").symlink_to(tmp_path / "gone" / "away")
    for path in ("link/x", "link/../y", "link/./x//z", "far/x", "real"):
        assert HERE.resolved(f"{tmp_path}/{path}") == os.path.realpath(tmp_path / path), path
    assert HERE.resolved("/") == "/"


def test_a_ring_of_links_is_a_reason(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert isinstance(HERE.resolved(f"{tmp_path}/a"), Unseen)


def test_links_of_a_recorded_tree_stay_inside(tmp_path):
    world = World(plain_box().link("/data", "/mnt/x").write(tmp_path))
    assert world.resolved("/data/y") == "/mnt/x/y"
    assert world.resolved("/../..") == "/"


# Locks


def test_a_lock_is_tried_and_leaves_nothing(tmp_path):
    for folder in (tmp_path, tmp_path / "not" / "there"):
        trial = HERE.try_lock(str(folder))
        assert trial.outcome == "ok"
        assert trial.waited_s < 1.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("nameless", [True, False])
def test_a_lock_is_taken_on_a_file_that_has_no_name(tmp_path, monkeypatch, nameless):
    """So nothing can be left behind, whoever kills the run meanwhile."""
    if not nameless:
        monkeypatch.setattr(os, "O_TMPFILE", 0)  # a folder cannot be opened for writing

    def flock(descriptor: int, _: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink or list(tmp_path.iterdir()):
            raise OSError(errno.EIO, "a file with a name")

    monkeypatch.setattr(checks.core.world.fcntl, "flock", flock)
    assert HERE.try_lock(str(tmp_path)).outcome == "ok"


def test_no_file_is_made_where_a_name_cannot_be_taken_away(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "O_TMPFILE", 0)

    def unlink(path: str) -> None:
        Path(path).rename(tmp_path / "kept")
        raise OSError(errno.EPERM, "planted")

    monkeypatch.setattr(os, "unlink", unlink)
    assert HERE.try_lock(str(tmp_path)).reason is Blind.PERMISSION


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_the_error_of_a_lock_is_handed_over(tmp_path, monkeypatch, number):
    def flock(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checks.core.world.fcntl, "flock", flock)
    assert HERE.try_lock(str(tmp_path)).outcome == errno.errorcode[number]


def test_a_lock_that_hangs_is_given_up_and_its_process_ended(tmp_path, monkeypatch):
    note = tmp_path / "pid"

    def flock(*_: int) -> None:
        note.write_text(str(os.getpid()))
        time.sleep(60)

    monkeypatch.setattr(checks.core.world.fcntl, "flock", flock)
    monkeypatch.setattr(checks.core.world, "LOCK_S", 0.5)
    started_s = time.monotonic()
    seen = HERE.try_lock(str(tmp_path))
    assert time.monotonic() - started_s < 10
    assert seen.reason is Blind.TIMED_OUT
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_no_lock_is_tried_where_nothing_may_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(checks.core.world.fcntl, "flock", None)
    assert HERE.try_lock(f"{tmp_path}/file").reason is Blind.PERMISSION
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert HERE.try_lock(str(tmp_path)).reason is Blind.PERMISSION
    monkeypatch.setattr(os, "statvfs", lambda _: statvfs(os.ST_RDONLY))
    assert HERE.try_lock(str(tmp_path)).reason is Blind.UNSUPPORTED


def test_recorded_locks_are_those_of_the_nearest_folder(tmp_path):
    box = plain_box()
    box.recorded["locks"] = {"/": "ok", "/srv": "ENOLCK", "/srv/hub": "hang", "/odd": 5}
    world = World(box.write(tmp_path))
    assert world.try_lock("/home/user/").outcome == "ok"
    assert world.try_lock("/srv/models").outcome == "ENOLCK"
    assert world.try_lock("/srv/hub/x").reason is Blind.TIMED_OUT
    assert world.try_lock("/odd").reason is Blind.NOT_RECORDED
    box.recorded["locks"] = {"/srv": "ok"}
    assert World(box.write(tmp_path / "b")).try_lock("/home").reason is Blind.NOT_RECORDED


# The discipline of the clock


def test_the_kernel_says_how_its_clock_is_disciplined():
    seen = HERE.adjtimex()
    if isinstance(seen, Unseen):
        assert seen.reason is Blind.PERMISSION  # as some containers forbid it
        return
    assert 0 <= seen.status < 0x10000
    assert seen.esterror_s >= 0
    assert 0 <= seen.maxerror_s < 3_600


@pytest.mark.parametrize(
    ("recorded", "status", "maxerror_s"),
    [
        ({"adjtimex": {"status": 64, "maxerror": 16_000_000, "esterror": 5}}, 64, 16.0),
        ({"adjtimex": {"status": 64}}, 64, None),
        ({"adjtimex": {"status": 64, "maxerror": -1}}, 64, None),
        ({"adjtimex": {"status": 64, "maxerror": True}}, 64, None),
        ({"adjtimex_status": 64}, 64, None),
        ({"adjtimex_status": 1, "adjtimex": {"status": 64}}, 64, None),
    ],
)
def test_a_recorded_discipline_is_read_in_both_forms(tmp_path, recorded, status, maxerror_s):
    box = plain_box()
    del box.recorded["adjtimex"]
    box.recorded |= recorded
    seen = World(box.write(tmp_path)).adjtimex()
    assert isinstance(seen, Timex)
    assert seen.status == status
    assert (None if isinstance(seen.maxerror_s, Unseen) else seen.maxerror_s) == maxerror_s


@pytest.mark.parametrize("row", [[], "x", {}, {"status": "64"}, {"status": 1e300}, {"status": -1}])
def test_a_recorded_discipline_that_makes_no_sense_is_a_reason(tmp_path, row):
    box = plain_box()
    box.recorded["adjtimex"] = row
    assert World(box.write(tmp_path)).adjtimex().reason is Blind.MALFORMED
    del box.recorded["adjtimex"]
    assert World(box.write(tmp_path / "b")).adjtimex().reason is Blind.NOT_RECORDED
