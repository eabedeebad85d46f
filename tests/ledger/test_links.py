"""A folder of ledgers that others may write: nothing is written through a link, nothing read into one."""

import os

import pytest

from checks.core.errors import StoreError
from checks.core.registry import load_areas
from checks.ledger import store
from checks.ledger.files import PREFIX, SUFFIX, write_whole
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder
from tests.support.runs import run_here


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "l" / "local").mkdir(parents=True)
    return HostFolder(tmp_path / "l", "local")


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("not for others")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_a_lock_that_is_no_plain_file_is_refused_by_name_and_not_written_to(folder, secret, kind):
    lock = folder.path / ".lock"
    if kind == "link":
        lock.symlink_to(secret)
    elif kind == "dangling link":
        lock.symlink_to(folder.path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    with pytest.raises(StoreError, match=r"\.lock: is no plain file, so no lock; remove it"):
        run_here(folder.path.parent)
    assert secret.read_text() == "not for others"
    assert not (folder.path / "nowhere").exists()


def test_files_are_written_beside_a_link_and_never_through_it(folder, secret):
    path = folder.path / "x.json"
    (folder.path / f".x.json.{os.getpid()}.tmp").symlink_to(secret)
    (folder.path / f".write-{os.getpid()}").symlink_to(secret)
    folder.prepare()
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert secret.read_text() == "not for others"


def test_a_journal_that_is_a_link_is_left_alone(folder, secret):
    link = folder.path / f"{PREFIX}abc{SUFFIX}"
    link.symlink_to(secret)
    assert folder.recover(load_areas()) == []
    assert link.is_symlink()
    assert sorted(path.name for path in folder.path.iterdir()) == [link.name]


def test_what_is_kept_of_a_damaged_journal_is_as_private_as_it_was(folder):
    journal = folder.path / f"{PREFIX}abc{SUFFIX}"
    journal.write_bytes(b"no journal\n" * 9)
    journal.chmod(0o600)
    folder.recover(load_areas())
    kept = folder.path / f"{journal.name}.damaged"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_journal_without_end_is_kept_and_its_beginning_recovered(folder, monkeypatch):
    monkeypatch.setattr(store, "LARGEST_JOURNAL_BYTES", 1_000)
    journal = folder.path / f"{PREFIX}abc{SUFFIX}"
    journal.write_bytes(b"x" * 5_000)
    ((made, _),) = folder.recover(load_areas())
    assert read_ledger(made).run["end"] == "interrupted"
    assert (folder.path / f"{journal.name}.damaged").stat().st_size == 5_000


def test_folders_and_long_names_of_others_do_not_block_a_host(folder):
    (folder.path / ".x.tmp").mkdir()
    (folder.path / f"{PREFIX}{'a' * 230}{SUFFIX}").write_bytes(b"no journal\n" * 9)
    session = run_here(folder.path.parent)
    assert session.path is not None
    assert (folder.path / ".x.tmp").is_dir()
