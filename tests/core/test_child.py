"""Children with a deadline: whatever a probe does, the run goes on and nothing is left behind."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.core import child
from checks.core.child import LARGEST_ANSWER_BYTES, call_all
from checks.core.facts import Blind, Unseen
from tests.support.runs import HERE, clean_environment

SEEN = Unseen(Blind.ABSENT, "seen")


def one(function, deadline_s=10.0):
    before = children()  # servers of other tests
    started = time.monotonic()
    answer = dict(call_all({"x": (function, deadline_s)}))["x"]
    took_s = time.monotonic() - started
    assert set(children()) <= set(before), "a child is left behind"
    return answer.data, took_s


def state_of(pid):
    """Give state and parent of a process; None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def children():
    """List the processes whose parent this process is."""
    names = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
    states = {name: state_of(name) for name in names}
    return [name for name, state in states.items() if state and state[1] == os.getpid()]


def alive(pid):
    state = state_of(pid)
    return state is not None and state[0] != "Z"


def wait_until(true, within_s=5.0):
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return False


def reason_of(data):
    return data.reason if isinstance(data, Unseen) else Blind(data["unseen"])


def test_an_answer_comes_back():
    data, _ = one(lambda: SEEN)
    assert data == {"unseen": "absent", "detail": "seen", "remedy": ""}


def test_many_run_side_by_side_and_each_has_its_own_answer():
    def slow(number):
        def look():
            time.sleep(0.3)
            return Unseen(Blind.ABSENT, str(number))

        return look

    started = time.monotonic()
    answers = dict(call_all({str(n): (slow(n), 10.0) for n in range(12)}))
    assert time.monotonic() - started < 2.4, "12 times 0.3 s, one after the other, are 3.6 s"
    assert {name: answer.data["detail"] for name, answer in answers.items()} == {
        str(n): str(n) for n in range(12)
    }


def test_one_that_hangs_is_ended_at_its_deadline_and_the_others_answer():
    before = children()
    answers = dict(call_all({"hangs": (lambda: time.sleep(60), 0.3), "good": (lambda: SEEN, 10.0)}))
    assert answers["hangs"].data.reason is Blind.TIMED_OUT
    assert "0.3 s" in answers["hangs"].data.detail
    assert answers["good"].data["detail"] == "seen"
    assert set(children()) <= set(before)


def test_one_that_ignores_every_signal_it_can_is_ended_all_the_same():
    def deaf():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(60)

    data, took_s = one(deaf, 0.3)
    assert data.reason is Blind.TIMED_OUT
    assert took_s < 2


def test_its_own_children_are_ended_with_it(tmp_path):
    note = tmp_path / "pid"

    def mother():
        inner = subprocess.Popen(["sleep", "60"])
        note.write_text(str(inner.pid))
        time.sleep(60)

    data, _ = one(mother, 0.8)
    assert data.reason is Blind.TIMED_OUT
    assert wait_until(lambda: not alive(int(note.read_text())))


def test_children_that_a_probe_leaves_behind_are_ended_though_it_answered(tmp_path):
    note = tmp_path / "pid"

    def careless():
        inner = subprocess.Popen(["sleep", "60"])
        note.write_text(str(inner.pid))
        return SEEN

    # the child's child holds the pipe open unless it is closed on exec
    data, took_s = one(careless, 10.0)
    assert data["detail"] == "seen"
    assert took_s < 5
    assert wait_until(lambda: not alive(int(note.read_text())))


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "SIGTERM"),
        (lambda: os._exit(3), "ended with code 3"),
        (lambda: os._exit(0), "ended with code 0"),
        (lambda: sys.exit(5), "without an answer"),
    ],
    ids=["SIGKILL", "SIGSEGV", "SIGTERM", "exit 3", "exit 0", "sys.exit"],
)
def test_one_that_dies_is_lost_and_how_it_died_is_told(end, text, capfd):
    data, took_s = one(end)
    assert capfd.readouterr() == ("", ""), "no stack of ours reaches the terminal"
    assert reason_of(data) is Blind.LOST
    assert text in data.detail
    assert took_s < 5


@pytest.mark.parametrize(
    ("function", "reason", "text"),
    [
        (lambda: 1 / 0, Blind.LOST, "ZeroDivisionError"),
        (lambda: {}["x"], Blind.LOST, "at line"),
        (lambda: bytearray(1 << 62), Blind.LOST, "memory"),
        (lambda: 5, Blind.MALFORMED, "gave a int"),
        (lambda: None, Blind.MALFORMED, "gave a NoneType"),
        (lambda: {"unseen": "absent"}, Blind.MALFORMED, "gave a dict"),
        (lambda: Unseen(Blind.ABSENT, float("nan")), Blind.LOST, ""),
    ],
    ids=["raises", "raises far inside", "no memory", "a number", "nothing", "no facts", "no text"],
)
def test_nonsense_is_a_reason_and_never_an_exception(function, reason, text):
    data, _ = one(function)
    assert reason_of(data) is reason
    assert text in (data.detail if isinstance(data, Unseen) else data["detail"])


def test_an_answer_larger_than_a_pipe_comes_whole():
    data, _ = one(lambda: Unseen(Blind.ABSENT, "x" * 3_000_000))
    assert len(data["detail"]) == 3_000_000


def test_an_answer_without_end_is_cut_off():
    data, took_s = one(lambda: Unseen(Blind.ABSENT, "x" * (LARGEST_ANSWER_BYTES + 1_000_000)))
    assert reason_of(data) is Blind.LOST
    assert took_s < 8


def test_what_a_probe_prints_or_changes_stays_with_it(capfd, tmp_path):
    def loud():
        os.chdir(tmp_path)
        os.environ["PLANTED"] = "1"
        return SEEN

    here = os.getcwd()  # noqa: PTH109
    one(loud)
    assert os.getcwd() == here  # noqa: PTH109
    assert "PLANTED" not in os.environ


def test_without_a_descriptor_left_there_is_a_reason_and_no_exception(monkeypatch):
    def none_left():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", none_left)
    answers = dict(call_all({"a": (lambda: SEEN, 5.0), "b": (lambda: SEEN, 5.0)}))
    details = {answer.data.detail for answer in answers.values()}
    assert (len(answers), details) == (2, {"no process could be started: Too many open files"})


def test_of_very_many_some_wait_for_their_turn(monkeypatch):
    monkeypatch.setattr(child, "MOST_AT_ONCE", 3)
    starts, most = child._start, []

    def start(*words):
        most.append(len(list(Path("/proc/self/fd").iterdir())))
        return starts(*words)

    monkeypatch.setattr(child, "_start", start)
    before = len(list(Path("/proc/self/fd").iterdir()))
    answers = dict(call_all({str(n): (lambda: SEEN, 5.0) for n in range(20)}))
    assert {answer.data["detail"] for answer in answers.values()} == {"seen"}
    assert (len(answers), max(most) - before) == (20, 2)


def test_no_descriptor_is_left_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    dict(call_all({"warm": (lambda: SEEN, 5.0)}))
    before = count()
    work = {str(n): (lambda: SEEN, 5.0) for n in range(5)}
    dict(
        call_all(
            {**work, "hangs": (lambda: time.sleep(9), 0.1), "dies": (lambda: os._exit(1), 5.0)}
        )
    )
    assert count() == before


def test_more_children_than_select_could_watch(monkeypatch):
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_030)]
    try:
        data, _ = one(lambda: SEEN)
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert data["detail"] == "seen"


RUN = """
import os, signal, sys, time
from checks.core.child import call_all
def sleeper():
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
if "{handler}" == "python":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    dict(call_all({{"a": (sleeper, 60.0), "b": (sleeper, 60.0)}}))
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("number", "handler", "code"),
    [(signal.SIGINT, "default", 7), (signal.SIGTERM, "python", 7), (signal.SIGKILL, "default", -9)],
    ids=["Ctrl-C", "SIGTERM", "SIGKILL of the run"],
)
def test_no_child_outlives_the_run(number, handler, code):
    run = subprocess.Popen(
        [sys.executable, "-c", RUN.format(handler=handler)],
        cwd=HERE,
        env=clean_environment(),
        stdout=subprocess.PIPE,
    )
    pids = [int(run.stdout.readline()) for _ in range(2)]
    assert all(alive(pid) for pid in pids)
    run.send_signal(number)
    assert run.wait(timeout=10) == code
    run.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in pids))
