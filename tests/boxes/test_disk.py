"""Room on real file systems: bytes, inodes, none of either, and a model that is there already."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import Box, another_user, plain_box

FREE = "machine.disk.free"
INODES = "machine.disk.inodes"
MODEL = "example-org/chat-8b"
GB = 10**9
SMALL = f'[[serve]]\nname = "chat"\nmodel = "{MODEL}"\nmodel_bytes = 1_000_000\n'


def can_mount() -> bool:
    return os.geteuid() == 0


@pytest.fixture
def small(tmp_path) -> Iterator[Path]:
    """A file system of 8 MiB and 200 inodes."""
    place = tmp_path / "small"
    place.mkdir()
    mount(place, "size=8m,nr_inodes=200")
    yield place
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)


def mount(place: Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "preflight-test", str(place)]
    subprocess.run(command, check=True, capture_output=True)


def fill(place: Path, leave_bytes: int) -> None:
    room = os.statvfs(place)
    size = room.f_frsize * room.f_bavail - leave_bytes
    (place / "filler").write_bytes(b"\0" * size)


@pytest.mark.root
@pytest.mark.skipif(not can_mount(), reason="needs root: to mount a small file system")
class TestRealFileSystems:
    def test_a_full_folder_for_temporary_files_fails(self, suite, tmp_path, small):
        fill(small, 4_096 * 3)
        run = suite.run(tmp_path, env={"TMPDIR": str(small)})
        found = run.finding(FREE, "tmp")
        assert (found["verdict"], found["cause"]) == ("fail", "no-room")
        assert str(small) in found["remedy"]
        assert run.finding(INODES, "tmp")["verdict"] == "pass"

    def test_no_inodes_fail_although_bytes_are_free(self, suite, tmp_path, small):
        with contextlib.suppress(OSError):
            for number in range(500):
                (small / f"{number}").touch()
        run = suite.run(tmp_path, env={"TMPDIR": str(small)})
        found = run.finding(INODES, "tmp")
        assert (found["verdict"], found["cause"]) == ("fail", "no-inodes")
        assert found["observed"]["inodes_free_count"] == 0
        assert "df -i" in found["remedy"]
        assert run.finding(FREE, "tmp")["blocked_by"] == f"{INODES} [tmp]"

    def test_the_same_file_system_with_room_passes(self, suite, tmp_path, small):
        run = suite.run(tmp_path, env={"TMPDIR": str(small)})
        assert run.finding(FREE, "tmp")["verdict"] == "pass"
        assert run.finding(INODES, "tmp")["verdict"] == "pass"

    def test_a_file_system_without_a_number_of_inodes_passes(self, suite, tmp_path):
        place = tmp_path / "endless"
        place.mkdir()
        mount(place, "size=8m,nr_inodes=0")
        try:
            run = suite.run(tmp_path, env={"TMPDIR": str(place)})
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)
        found = run.finding(INODES, "tmp")
        assert found["verdict"] == "pass"
        assert "no fixed number" in found["says"]

    def test_a_cache_that_is_full_of_the_very_model_passes_and_without_it_fails(
        self, suite, tmp_path, small
    ):
        blobs = small / "hub" / "models--example-org--chat-8b" / "blobs"
        blobs.mkdir(parents=True)
        (blobs / "a1b2").write_bytes(b"\0" * 5_000_000)
        (blobs / "c3d4.incomplete").write_bytes(b"\0" * 500_000)
        fill(small, 600_000)
        profile = f'[[serve]]\nname = "chat"\nmodel = "{MODEL}"\nmodel_bytes = 6_000_000\n'
        env = {"HF_HOME": str(small), "HF_HUB_CACHE": None}
        there = suite.run(tmp_path, profile=profile, env=env)
        found = there.finding(FREE, "model-cache")
        assert found["verdict"] == "pass", found["says"]
        assert found["basis"] == "declared"
        (blobs / "a1b2").rename(small / "hub" / "another")
        gone = suite.run(tmp_path, profile=profile, env=env)
        assert gone.finding(FREE, "model-cache")["cause"] == "no-room"


# Folders that take no files, for real


def folded(run, subject: str, cause: str) -> dict[str, Any]:
    """One fault gives one fail: the other check is explained by it."""
    found = run.finding(INODES, subject)
    assert (found["verdict"], found["cause"]) == ("fail", cause), found["says"]
    assert run.finding(FREE, subject)["blocked_by"] == f"{INODES} [{subject}]"
    return found


def test_a_folder_for_temporary_files_that_is_missing_fails(suite, tmp_path):
    missing = tmp_path / "not" / "there"
    found = folded(suite.run(tmp_path, env={"TMPDIR": str(missing)}), "tmp", "folder-missing")
    assert f"mkdir -p {missing}" in found["remedy"]
    missing.mkdir(parents=True)
    run = suite.run(tmp_path, env={"TMPDIR": str(missing)})
    assert run.finding(INODES, "tmp")["verdict"] == run.finding(FREE, "tmp")["verdict"] == "pass"


@pytest.mark.parametrize("below", ["", "/and/below"])
def test_a_file_in_the_place_of_a_folder_fails(suite, tmp_path, below):
    (tmp_path / "file").write_text("x")
    profile = f'[paths]\ntmp = "{tmp_path}/file{below}"\nmodel_cache = "{tmp_path}/file{below}"\n'
    run = suite.run(tmp_path, profile=profile + WANTED)
    for subject in ("tmp", "model-cache"):
        found = folded(run, subject, "not-a-folder")
        assert f"{tmp_path}/file" in found["says"]
    assert run.code == 1


def test_a_cache_behind_a_link_that_leads_nowhere_fails_and_one_that_is_not_made_yet_passes(
    suite, tmp_path
):
    """The disk that the link leads to is not mounted: the first download would end in an error."""
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "hub")
    profile = f'[paths]\nmodel_cache = "{tmp_path}/link"\n{SMALL}'
    folded(suite.run(tmp_path, profile=profile), "model-cache", "not-a-folder")
    profile = f'[paths]\nmodel_cache = "{tmp_path}/disk/hub"\n{SMALL}'
    run = suite.run(tmp_path, profile=profile)
    assert run.finding(INODES, "model-cache")["verdict"] == "pass"
    assert f"looked at {tmp_path})" in run.finding(INODES, "model-cache")["says"]


@pytest.mark.root
@pytest.mark.skipif(not can_mount(), reason="needs root: to mount a file system read-only")
def test_a_read_only_file_system_fails(suite, tmp_path):
    place = tmp_path / "ro"
    place.mkdir()
    mount(place, "ro,size=8m")
    profile = f'[paths]\ntmp = "{place}"\nmodel_cache = "{place}/hub"\n{SMALL}'
    try:
        run = suite.run(tmp_path, profile=profile)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, capture_output=True)
    for subject in ("tmp", "model-cache"):
        assert "remount,rw" in folded(run, subject, "read-only")["remedy"]


def test_a_folder_that_this_user_may_not_write_fails(suite, open_path):
    closed = open_path / "closed"
    closed.mkdir(mode=0o555)
    profile = f'[paths]\ntmp = "{closed}"\nmodel_cache = "{closed}/hub"\n{SMALL}'
    run = suite.run(open_path, profile=profile, uid=another_user())
    user = 65534 if os.geteuid() == 0 else os.getuid()
    for subject in ("tmp", "model-cache"):
        assert f"this user (uid {user})" in folded(run, subject, "not-writable")["says"]
    assert run.finding(INODES, "ledgers")["verdict"] == "pass"


@pytest.mark.root
@pytest.mark.skipif(not can_mount(), reason="needs root: to mount a small file system")
def test_a_cache_and_temporary_files_that_fit_alone_and_not_together_fail(suite, tmp_path, small):
    profile = (
        f'[paths]\ntmp = "{small}"\nmodel_cache = "{small}/hub"\n'
        "tmp_free_min_bytes = {tmp}\n" + SMALL.replace("1_000_000", "5_000_000")
    )
    run = suite.run(tmp_path, profile=profile.replace("{tmp}", "5_000_000"))
    found = run.finding(FREE, "model-cache")
    assert (found["verdict"], found["cause"]) == ("fail", "no-room"), found["says"]
    assert found["expected"] == {"free_min_bytes": 10_000_000}
    assert run.finding(FREE, "tmp")["verdict"] == "pass"
    run = suite.run(tmp_path, profile=profile.replace("{tmp}", "2_000_000"))
    assert run.finding(FREE, "model-cache")["verdict"] == "pass"
    away = profile.replace(f'tmp = "{small}"', f'tmp = "{tmp_path}"', 1)
    run = suite.run(tmp_path, profile=away.replace("{tmp}", "5_000_000"))
    assert run.finding(FREE, "model-cache")["verdict"] == "pass"


# Which folder is looked at, on recorded trees


OPEN = {
    "exists": True,
    "is_folder": True,
    "writable": True,
    "read_only": False,
    "device": "8:1",
    "user": "uid 1000",
}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({}, ""),
        ({"exists": False}, "folder-missing"),
        ({"is_folder": False}, "not-a-folder"),
        ({"read_only": True}, "read-only"),
        ({"writable": False}, "not-writable"),
    ],
)
def test_a_recorded_tree_may_say_whether_a_folder_takes_files(suite, tmp_path, change, cause):
    box = plain_box()
    box.recorded["statvfs"]["/tmp"] = room(20 * GB) | {"access": OPEN | change}
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"))
    assert run.finding(INODES, "tmp")["cause"] == cause
    assert run.finding(INODES, "tmp")["notes"] == []
    # nobody recorded it for the other folder, which a note says
    (note,) = run.finding(INODES, "ledgers")["notes"]
    assert "not recorded" in note.replace("-", " ")


@pytest.mark.parametrize("access", [None, [], {}, OPEN | {"writable": "yes"}, OPEN | {"user": 0}])
def test_a_recorded_access_that_makes_no_sense_is_noted_and_breaks_nothing(suite, tmp_path, access):
    box = plain_box()
    box.recorded["statvfs"]["/tmp"] = room(20 * GB) | {"access": access}
    found = suite.run(tmp_path, root=box.write(tmp_path / "tree")).finding(INODES, "tmp")
    assert found["verdict"] == "pass"
    assert "malformed: access of /tmp" in found["notes"][0]


def test_recorded_folders_with_one_device_are_added_up(suite, tmp_path):
    for other, verdict in (("8:1", "fail"), ("8:2", "pass")):
        box = box_with({"HOME": "/home/u"}, "/srv/models")
        box.recorded["statvfs"]["/srv/models"]["access"] = OPEN
        box.recorded["statvfs"]["/tmp"] = room(20 * GB) | {"access": OPEN | {"device": other}}
        profile = f'[paths]\nmodel_cache = "/srv/models"\ntmp_free_min_bytes = {8 * GB}\n{WANTED}'
        tree = box.write(tmp_path / verdict / "tree")
        found = suite.run(tmp_path / verdict, root=tree, profile=profile).finding(
            FREE, "model-cache"
        )
        assert found["verdict"] == verdict, found["says"]


def room(free_bytes: int, inodes: int = 10**6) -> dict[str, int]:
    return {
        "total_bytes": 100 * GB,
        "free_bytes": free_bytes,
        "inodes": inodes,
        "inodes_free": inodes,
    }


def box_with(environ: dict[str, str], where: str) -> Box:
    """A box with room nowhere but there."""
    box = plain_box()
    box.recorded["environ"] = environ
    box.recorded["statvfs"] = {"/": room(0), where: room(20 * GB)}
    return box


WANTED = f'[[serve]]\nname = "chat"\nmodel = "{MODEL}"\nmodel_bytes = {16 * GB}\n'
CACHES = {
    "the hub's default": ({"HOME": "/home/u"}, "/home/u/.cache/huggingface/hub", ""),
    "XDG_CACHE_HOME": ({"HOME": "/home/u", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub", ""),
    "HF_HOME": ({"HOME": "/home/u", "XDG_CACHE_HOME": "/x", "HF_HOME": "/hf"}, "/hf/hub", ""),
    "HF_HUB_CACHE": ({"HOME": "/home/u", "HF_HOME": "/hf", "HF_HUB_CACHE": "/hc"}, "/hc", ""),
    "the hub's older variable": (
        {"HOME": "/home/u", "HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"},
        "/old",
        "",
    ),
    "the server's environment": (
        {"HOME": "/home/u", "HF_HOME": "/hf"},
        "/served/hub",
        f'[[serve]]\nname = "a"\nmodel = "{MODEL}"\nenv = {{ HF_HOME = "/served" }}\n',
    ),
    "the server's command": (
        {"HOME": "/home/u", "HF_HOME": "/hf"},
        "/down",
        f'[[serve]]\nname = "a"\nmodel = "{MODEL}"\ncommand = "vllm serve m --download-dir /down"\n',
    ),
    "the profile": (
        {"HOME": "/home/u", "HF_HUB_CACHE": "/hc"},
        "/srv/models",
        '[paths]\nmodel_cache = "/srv/models"\n',
    ),
    "the profile with ~": (
        {"HOME": "/home/u"},
        "/home/u/models",
        '[paths]\nmodel_cache = "~/models"\n',
    ),
    "the nearest parent of a folder that is missing": (
        {"HOME": "/home/u"},
        "/srv",
        '[paths]\nmodel_cache = "/srv/not/made/yet"\n',
    ),
}


def test_models_that_go_to_different_folders_need_one_that_the_profile_names(suite, tmp_path):
    box = box_with({"HOME": "/home/u"}, "/srv")
    box.recorded["statvfs"] = {"/": room(40 * GB)}
    own = WANTED + 'env = { HF_HOME = "/small" }\n'
    other = own.replace("chat", "other").replace("/small", "/large")
    inside = own + 'where = "container:0123456789ab"\n'
    docker = WANTED + 'command = "docker run -e HF_HOME=/x vllm/vllm-openai --model m"\n'
    profiles = {"two": own + other, "inside": inside, "docker": docker}
    for name, profile in profiles.items():
        folder = tmp_path / name
        run = suite.run(folder, root=box.write(folder / "t"), profile=profile)
        for check in (FREE, INODES):
            found = run.finding(check, "model-cache")
            assert (found["verdict"], found["reason"]) == ("unknown", "no-expectation"), name
            assert "paths.model_cache" in found["remedy"]
        named = '[paths]\nmodel_cache = "/srv/models"\n' + profile
        run = suite.run(folder / "n", root=box.write(folder / "n" / "t"), profile=named)
        assert run.finding(FREE, "model-cache")["verdict"] == "pass", name


@pytest.mark.parametrize("name", CACHES)
def test_the_cache_is_looked_for_where_the_hub_would_put_it(suite, tmp_path, name):
    environ, where, paths = CACHES[name]
    box = box_with(environ, where)
    served = "" if "[[serve]]" in paths else WANTED
    profile = paths + (served or f"model_bytes = {16 * GB}\n")
    run = suite.run(tmp_path / "a", root=box.write(tmp_path / "a" / "t"), profile=profile)
    found = run.finding(FREE, "model-cache")
    assert found["verdict"] == "pass", found["says"]
    assert where in found["says"]
    box = box_with(environ, where)
    box.recorded["statvfs"][where] = room(15 * GB)
    run = suite.run(tmp_path / "b", root=box.write(tmp_path / "b" / "t"), profile=profile)
    found = run.finding(FREE, "model-cache")
    assert found["cause"] == "no-room", found["says"]
    assert "free 953.7 MiB" in found["remedy"]


def test_what_is_cached_counts_once_and_links_do_not_count(suite, tmp_path):
    cache = "/srv/models"
    box = box_with({"HOME": "/home/u"}, cache)
    box.recorded["statvfs"][cache] = room(10)
    blobs = f"{cache}/models--example-org--chat-8b/blobs"
    box.put(f"{blobs}/a", b"x" * 900).put(f"{blobs}/b", b"x" * 90)
    box.link(f"{cache}/models--example-org--chat-8b/snapshots/1/model.safetensors", "../../blobs/a")
    box.link(f"{blobs}/loop", "loop")
    profile = f'[paths]\nmodel_cache = "{cache}"\n[[serve]]\nname = "c"\nmodel = "{MODEL}"\n'
    tree = box.write(tmp_path / "tree")
    for size, verdict in ((1_000, "pass"), (1_005, "fail")):
        # 990 bytes lie there, a link is a few more, and 10 are free
        text = f"{profile}model_bytes = {size + 4 * (verdict == 'pass')}\n"
        found = suite.run(tmp_path, root=tree, profile=text).finding(FREE, "model-cache")
        assert found["verdict"] == verdict, found["says"]


def test_a_folder_that_nothing_names_is_unknown(suite, tmp_path):
    box = plain_box()
    box.recorded["environ"] = {}
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=WANTED)
    found = run.finding(FREE, "model-cache")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")


def test_a_tree_without_sizes_is_unknown_and_not_roomy(suite, tmp_path):
    for number, value in enumerate(({}, {"/": {}}, {"/": {"free_bytes": "many"}}, {"/": None})):
        box = plain_box()
        box.recorded["statvfs"] = value
        folder = tmp_path / str(number)
        run = suite.run(folder, root=box.write(folder / "tree"), profile=WANTED)
        for subject in ("model-cache", "tmp", "ledgers"):
            for check in (FREE, INODES):
                assert run.finding(check, subject)["verdict"] == "unknown"
        assert run.code == 10


def test_a_cache_that_may_not_be_read_is_unknown_and_not_empty(suite, open_path):
    """Taken for empty it would fail for want of room although the model is there."""
    blobs = open_path / "cache" / "models--example-org--chat-8b" / "blobs"
    blobs.mkdir(parents=True)
    blobs.chmod(0o000)
    profile = (
        f'[paths]\nmodel_cache = "{open_path}/cache"\n[[serve]]\nname = "c"\nmodel = "{MODEL}"\n'
    )
    run = suite.run(
        open_path,
        profile=f"{profile}model_bytes = {10**15}\n",
        uid=another_user(),
    )
    blobs.chmod(0o755)
    found = run.finding(FREE, "model-cache")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable"), found["says"]
    assert "root" in found["remedy"]
