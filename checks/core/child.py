"""Children with a deadline: whatever can hang runs here, in a process group that is ended whole.

A forked child, not a thread: a call that is stuck in the kernel or in a driver cannot be
interrupted, only abandoned. Not multiprocessing: its join waits without limit for a child in
state D.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from checks.core.codec import CodecError, Json, encode
from checks.core.facts import Blind, Facts, Unseen
from checks.core.signals import ENDING, held

LARGEST_ANSWER_BYTES = 16_000_000
MOST_AT_ONCE = 64
"""More children side by side would starve each other, and run out of descriptors."""
GRACE_S = 0.2
"""How long a killed child may take to be reaped before it is left behind (state D)."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back from a child."""

    data: Json | Unseen
    elapsed_s: float


@dataclass
class _Child:
    pid: int
    pipe: int
    started_s: float
    deadline_s: float
    raw: bytes = b""
    reaped: bool = False


def call_all(
    work: Mapping[str, tuple[Callable[[], object], float]],
) -> Iterator[tuple[str, Answer]]:
    """Run functions side by side, each in a child of its own with a deadline in seconds.

    The deadline counts from the start of its child: of many, some wait for their turn.
    Each function gives facts or a reason (`Unseen`), handed on as soon as it is there. A child
    that dies, hangs or answers nonsense gives a reason too; nothing is raised and nothing is waited
    for beyond its deadline.
    """
    children: dict[str, _Child] = {}
    try:
        waiting = list(work)[::-1]
        while waiting or children:
            while waiting and len(children) < MOST_AT_ONCE:
                name = waiting.pop()
                try:
                    children[name] = _start(*work[name])
                except OSError as error:  # no descriptor, process or memory left
                    why = Unseen(Blind.LOST, f"no process could be started: {error.strerror}")
                    yield name, Answer(data=why, elapsed_s=0.0)
            for name in _wait(children) if children else ():
                yield name, _finish(children.pop(name))
    finally:
        # also on SIGINT and SIGTERM: no child outlives the run
        for child in children.values():
            _end(child)


def _start(function: Callable[[], object], deadline_s: float) -> _Child:
    read_end, write_end = os.pipe()
    parent = os.getpid()
    # The answer of a signal that arrives between fork and the child's own handlers must not be
    # the parent's (it would write a second ledger): hold signals back until they are reset.
    with held():
        try:
            pid = os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            raise
        if pid == 0:
            os.close(read_end)
            _be_child(function, write_end, parent)
    os.close(write_end)
    return _Child(pid=pid, pipe=read_end, started_s=time.monotonic(), deadline_s=deadline_s)


def _be_child(function: Callable[[], object], pipe: int, parent: int) -> None:
    """Do the work and leave, without running anything of the parent's on the way out."""
    status = 1
    try:
        os.setsid()
        faulthandler.disable()  # pytest's: a probe that crashes is a finding, not a stack of ours
        _die_with(parent)
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        body = json.dumps(encode(_answer(function)), allow_nan=False).encode()
        view = memoryview(body)
        while view:
            view = view[os.write(pipe, view) :]
        status = 0
    finally:
        os._exit(status)


def _answer(function: Callable[[], object]) -> object:
    try:
        seen = function()
        if not isinstance(seen, Facts | Unseen):
            return Unseen(Blind.MALFORMED, f"the probe gave a {type(seen).__name__}")
        encode(seen)
    except CodecError as error:
        return Unseen(Blind.MALFORMED, str(error))
    except MemoryError:
        return Unseen(Blind.LOST, "the probe ran out of memory")
    except Exception as error:  # noqa: BLE001 - a bug in a probe must be seen, and must not end the run
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        line = f" at line {frame.tb_lineno}" if frame else ""
        return Unseen(Blind.LOST, f"the probe ended with {type(error).__name__}: {error}{line}")
    return seen


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before prctl
        os._exit(1)


def _wait(children: dict[str, _Child]) -> list[str]:
    """Wait until at least one child has finished or passed its deadline."""
    while True:
        now = time.monotonic()
        late = [n for n, c in children.items() if now - c.started_s >= c.deadline_s]
        if late:
            return late
        timeout = min(c.started_s + c.deadline_s - now for c in children.values())
        poll = select.poll()  # select() fails on descriptors above 1,023
        for child in children.values():
            poll.register(child.pipe, select.POLLIN | select.POLLHUP)
        ready = {descriptor for descriptor, _ in poll.poll(timeout * 1_000 + 1)}
        done = []
        for name, child in children.items():
            if child.pipe in ready:
                chunk = os.read(child.pipe, 65_536)
                child.raw += chunk
                if not chunk or len(child.raw) > LARGEST_ANSWER_BYTES:
                    done.append(name)
        if done:
            return done


def _finish(child: _Child) -> Answer:
    elapsed_s = time.monotonic() - child.started_s
    late = elapsed_s >= child.deadline_s
    # a child that closed its pipe is on its way out: its own status says more than our SIGKILL
    status = None if late else _reap(child)
    _end(child)
    if late:
        what = f"no answer within {child.deadline_s:g} s; its process was ended"
        return Answer(data=Unseen(Blind.TIMED_OUT, what), elapsed_s=elapsed_s)
    try:
        data: Json | Unseen = json.loads(child.raw)
    except ValueError:
        data = Unseen(Blind.LOST, f"the probe's process {_how(status)} without an answer")
    return Answer(data=data, elapsed_s=elapsed_s)


def _end(child: _Child) -> None:
    """End the child's whole group, close its pipe, and reap it if that is possible."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if not child.reaped:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    with suppress(OSError):
        os.close(child.pipe)
    _reap(child)


def _reap(child: _Child) -> int | None:
    """Wait a moment for the child's status; None if it does not end (state D) or is gone."""
    end_s = time.monotonic() + GRACE_S
    while not child.reaped:
        try:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
        except ChildProcessError:
            child.reaped = True
            return None
        if pid:
            child.reaped = True
            return status
        if time.monotonic() > end_s:
            return None
        time.sleep(0.001)
    return None


def _how(status: int | None) -> str:
    if status is None:
        return "did not end"
    if os.WIFSIGNALED(status):
        return f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with code {os.waitstatus_to_exitcode(status)}"
