"""Forks runs of the suite from one process that has everything imported.

Started as a script with a socket on descriptor 3. A request is one JSON message: `fork` starts a
job and gives its pid, `wait` reaps it and says which of its descendants outlived it. As a
subreaper this process becomes the parent of every orphan of a run, so no descendant can hide.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def _load() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # all but `preflight` itself, which each run loads for itself, as pytest does it
    for name in ("pytest", "checks.session", "checks.cli", "checks.report.terminal"):
        importlib.import_module(name)
    from checks.core.registry import load_areas
    from checks.ledger.schema import FILES, validator

    load_areas()
    for version in FILES:
        validator(version)


def _job(request: dict) -> int:
    os.environ.update(request["env"])
    for name in request["unset"]:
        os.environ.pop(name, None)
    if request["job"] == "pytest":
        import pytest

        return int(pytest.main(request["argv"]))
    if request["job"] == "cli":
        from checks.cli import main

        return main(request["argv"])
    if request["job"] == "recover":
        return _recover(*request["argv"])
    raise ValueError(request["job"])


def _recover(folder: str, host: str) -> int:
    from checks.core.registry import load_areas
    from checks.ledger.store import HostFolder
    from tests.support import crash_points

    ledgers = HostFolder(Path(folder), host)
    if os.environ.get("CRASH_DIE_IN") == "recovery":
        crash_points.arm(int(os.environ["CRASH_DIE_AT"]))
    os.write(int(os.environ["CRASH_WITNESS"]), b'{"event": "begun"}\n')
    ledgers.lock(wait_s=10)
    ledgers.recover(load_areas())
    return 0


def _fork(request: dict, output: int, extra: list[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        names = ("CRASH_WITNESS", "CRASH_RESUME")
        request["env"].update(zip(names, map(str, extra), strict=False))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
        os.close(3)
        code = _job(request)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does at its top
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        code = 1
    finally:
        os._exit(code)
    return 0


def _wait(pid: int, timeout_s: float, orphans_s: float) -> dict:
    """Reap a job, then all that it left behind, within a time."""
    status, orphans = None, 0
    started_s = time.monotonic()
    end_s = started_s + timeout_s
    gone_s = 0.0
    while True:
        try:
            found, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return {"status": status, "orphans": orphans, "survivors": False, "orphans_s": gone_s}
        if found == pid:
            status = os.waitstatus_to_exitcode(raw)
            end_s = time.monotonic() + orphans_s
        elif found:
            orphans += 1
            gone_s = round(time.monotonic() - started_s, 4)
        elif time.monotonic() > end_s:
            return {"status": status, "orphans": orphans, "survivors": True, "orphans_s": gone_s}
        else:
            time.sleep(0.0005)


def main() -> None:
    """Serve until the socket is closed."""
    _load()
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER)")
    link = socket.socket(fileno=3)
    link.send(json.dumps({"ready": True}).encode())
    while True:
        raw, descriptors, _, _ = socket.recv_fds(link, 1_000_000, 8)
        if not raw:
            return
        request = json.loads(raw)
        if request["do"] == "fork":
            pid = _fork(request, descriptors[0], descriptors[1:])
            answer = {"pid": pid}
        else:
            answer = _wait(request["pid"], request["timeout_s"], request["orphans_s"])
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
