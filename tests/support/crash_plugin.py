"""A pytest plugin (`-p tests.support.crash_plugin`) that tells a witness outside how far a run is.

It listens to the suite's own hooks and writes one line an event to the descriptor that
CRASH_WITNESS names. A line is shorter than PIPE_BUF, so it is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import resource
import time

import pytest

from tests.support import crash_points

_DESCRIPTOR = int(os.environ.get("CRASH_WITNESS", "-1"))
_PAUSE_AT = os.environ.get("CRASH_PAUSE_AT", "")


def tell(event: str, **fields: object) -> None:
    """Write one line, and wait at the event at which the test wants to do something first."""
    if _DESCRIPTOR < 0:
        return
    line = json.dumps({"event": event, "at_s": time.monotonic(), **fields}).encode() + b"\n"
    os.write(_DESCRIPTOR, line)
    if event == _PAUSE_AT:
        os.read(int(os.environ["CRASH_RESUME"]), 1)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if os.environ.get("CRASH_WAIT_S"):
        import checks.session

        checks.session.WAIT_S = float(os.environ["CRASH_WAIT_S"])
    if os.environ.get("CRASH_FILE_LIMIT"):
        limit = int(os.environ["CRASH_FILE_LIMIT"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    tell("configured")


def pytest_preflight_begun(session):
    tell("begun", run=session.journal.begin["run"]["id"])
    if os.environ.get("CRASH_DIE_IN") == "run":
        crash_points.arm(int(os.environ["CRASH_DIE_AT"]))


def pytest_preflight_finding(finding):
    tell("found", check=finding.check, subject=finding.subject, verdict=finding.verdict.value)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    tell("finishing")
    if os.environ.get("CRASH_DIE_IN") == "finish":
        crash_points.arm(int(os.environ["CRASH_DIE_AT"]))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure():
    # before the suite gives the signals back: from then on Python answers them as it always does
    tell("finished")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Drop a test without a report, as a plugin with a bug may do it."""
    drop = os.environ.get("CRASH_DROP")
    return True if drop and drop in item.nodeid else None
