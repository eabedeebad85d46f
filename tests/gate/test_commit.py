"""--commit: records an opening, once for all gates that ask at once."""

import errno
import fcntl
import json
import os
import subprocess
import sys

import pytest

from checks.cli import main
from checks.ledger.lock import Lock
from checks.ledger.opening import last_opening_s
from checks.ledger.store import HostFolder
from tests.support.boxes import another_user
from tests.support.gates import HOST
from tests.support.runs import HERE, clean_environment

COMMIT = ("--commit", "--min-interval", "2h")


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_an_opening_is_recorded_with_commit_alone_and_the_interval_counts_from_it(host):
    host.ran("pass")
    assert host.ask("--min-interval", "2h").code == 0
    assert last_opening_s(host.folder.path) is None
    assert host.ask(*COMMIT).code == 0
    assert last_opening_s(host.folder.path) == host.now_s
    assert host.ask(*COMMIT).code == 11
    assert host.ask("--min-interval", "2h").code == 11
    assert host.ask().code == 0
    assert last_opening_s(host.folder.path) == host.now_s


def test_without_an_interval_each_commit_is_recorded(host):
    host.ran("pass")
    assert host.ask("--commit").code == 0
    (host.folder.path / "gate.json").unlink()
    assert host.ask("--commit").code == 0
    assert last_opening_s(host.folder.path) == host.now_s


@pytest.mark.parametrize(("verdict", "code"), [("fail", 1), ("incomplete", 10)])
def test_a_gate_that_stays_closed_records_nothing(host, verdict, code):
    host.ran(verdict)
    before = host.files()
    assert host.ask(*COMMIT).code == code
    assert host.files() == before


def test_outside_the_window_nothing_is_recorded(host):
    host.ran("pass")
    before = host.files()
    assert host.ask(*COMMIT, "--window", "01:00-02:00").code == 11
    assert host.files() == before


def at_once(host, count):
    words = [sys.executable, "-m", "checks.cli", *host.words(*COMMIT)]
    env = clean_environment(TZ="UTC")
    started = [
        subprocess.Popen(words, cwd=HERE, env=env, stdout=subprocess.PIPE) for _ in range(count)
    ]
    return [(gate.communicate(timeout=60)[0], gate.returncode) for gate in started]


def test_of_gates_that_ask_at_once_one_opens(host):
    host.ran("pass")
    for _ in range(3):
        answers = at_once(host, 4)
        assert sorted(code for _, code in answers) == [0, 11, 11, 11], answers
        state = json.loads((host.folder.path / "gate.json").read_bytes())
        assert set(state) == {"schema", "opened_utc"}
        (host.folder.path / "gate.json").unlink()


def test_a_gate_looks_again_once_it_has_the_lock(host, monkeypatch):
    host.ran("pass")
    take, codes = Lock.take, []

    def late(self, **how):
        monkeypatch.setattr(Lock, "take", take)
        codes.append(main(host.words(*COMMIT)))  # another, between our look and our lock
        take(self, **how)

    monkeypatch.setattr(Lock, "take", late)
    codes.append(main(host.words(*COMMIT)))
    assert codes == [0, 11]


@pytest.mark.usefixtures("no_locks")
def test_on_a_file_system_without_locks_a_held_lock_keeps_the_gate_closed(host, monkeypatch):
    host.ran("pass")
    assert host.ask(*COMMIT).code == 0
    host.later(3 * 3_600)
    monkeypatch.setattr("checks.verbs.gate.WAIT_S", 0.2)
    other = Lock(host.folder.path, ".gate.lock", who="gate", host="h100-1")
    host.tree.rename(host.top / "old")
    other.take()
    said = host.ask(*COMMIT)
    assert said.code == 10
    assert "another gate does not let go of" in said.out
    other.give_back()
    assert host.ask(*COMMIT).code == 0


def test_a_run_under_way_keeps_neither_the_gate_closed_nor_its_state_from_it(host):
    host.ran("pass")
    (host.folder.path / "journal-0123.jsonl").write_bytes(b"")
    assert host.ask().code == 10
    host.folder.lock()
    assert host.ask(*COMMIT).code == 0
    host.folder.unlock()
    assert host.ask().code == 10


def code_as(user, words):
    """Ask in a child that has no right to anything; 0 is this user, who has none."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        code = main(words)
    finally:
        os._exit(code)


def test_a_folder_that_may_not_be_written_closes_with_commit_alone(host, open_path):
    user = another_user()
    host.ledgers, host.tree = open_path / "ledgers", open_path / "box"
    host.folder = HostFolder(host.ledgers, HOST)
    host.ran("pass")
    host.folder.path.chmod(0o555)
    try:
        assert code_as(user, host.words()) == 0
        assert code_as(user, host.words("--commit")) == 10
        assert code_as(user, host.words("--commit", "--window", "01:00-02:00")) == 10
        assert not (host.folder.path / "gate.json").exists()
    finally:
        host.folder.path.chmod(0o755)
    if user:
        host.folder.path.chmod(0o777)
        assert code_as(user, host.words("--commit")) == 0
