"""Files of a folder that others may write too, and its lock."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from checks.ledger.files import read_plain
from checks.ledger.lock import Lock
from tests.support.fuzz import watchdog
from tests.support.runs import HERE, clean_environment


def test_a_plain_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100)
    assert read_plain(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="is larger than 99 bytes") as caught:
        read_plain(path, 99)
    assert caught.value.errno == errno.EFBIG
    path.write_bytes(b"")
    assert read_plain(path, 99) == b""
    path.write_bytes(b"x" * 3_000_000)
    assert len(read_plain(path, 3_000_000)) == 3_000_000


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_what_is_no_plain_file_is_an_error_at_once(tmp_path, kind):
    path = tmp_path / "x"
    (tmp_path / "other").write_bytes(b"other")
    if kind == "link":
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with watchdog(), pytest.raises(OSError) as caught:  # noqa: PT011 - which one is asserted below
        read_plain(path, 99)
    wanted = {"link": errno.ELOOP, "nothing": errno.ENOENT}.get(kind, errno.EINVAL)
    assert caught.value.errno == wanted


def lock(folder):
    return Lock(folder, ".lock", who="run", host="h")


@pytest.fixture(params=["locks", "no locks"])
def file_system(request, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "no locks":
        monkeypatch.setattr(fcntl, "flock", refuse)
    return request.param


@pytest.mark.usefixtures("file_system")
def test_whether_a_lock_is_taken_is_seen_without_touching_it(tmp_path):
    assert not lock(tmp_path).is_taken()
    assert list(tmp_path.iterdir()) == []
    held = lock(tmp_path)
    held.take()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert lock(tmp_path).is_taken()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    held.give_back()
    assert not lock(tmp_path).is_taken()


def test_a_lock_whose_holder_died_is_not_taken(tmp_path, monkeypatch):
    script = (
        "import errno, fcntl, os, pathlib, sys\n"
        "from checks.ledger.lock import Lock\n"
        "def refuse(*_):\n"
        "    raise OSError(errno.ENOLCK, 'No locks available')\n"
        "if sys.argv[2] == 'no locks':\n"
        "    fcntl.flock = refuse\n"
        "Lock(pathlib.Path(sys.argv[1]), '.lock', who='run', host='h').take()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    for kind in ("locks", "no locks"):
        words = [sys.executable, "-c", script, str(tmp_path), kind]
        env = clean_environment(PYTHONPATH=str(HERE))
        assert subprocess.run(words, cwd=HERE, env=env, check=False).returncode == -9
        assert (tmp_path / ".lock-held").exists() is (kind == "no locks")
        if kind == "no locks":

            def refuse(*_):
                raise OSError(errno.ENOLCK, "No locks available")

            monkeypatch.setattr(fcntl, "flock", refuse)
        assert not lock(tmp_path).is_taken()
