"""Where the report goes: a closed pipe, a full disk, an early end; the exit code stays the box's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.ledger.schema import read_ledger
from tests.support.runs import HERE, SUITE, clean_environment, command, pytest_run, the_ledger

OK = (0, 10)


def words(folder):
    return [sys.executable, "-m", "pytest", SUITE, "--host", "local", "--ledger-dir", folder]


def run_into(file, folder):
    done = subprocess.run(
        [*map(str, words(folder))],
        cwd=HERE,
        env=clean_environment(),
        stdout=file,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr.decode()


def test_a_pipe_that_nobody_reads_changes_neither_ledger_nor_exit_code(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        code, said = run_into(pipe, tmp_path)
    run = the_ledger(tmp_path)["run"]
    assert code in OK
    assert (run["end"], run["exit_code"]) == ("complete", code)
    assert said == ""


def test_a_report_that_finds_no_room_is_said_and_the_ledger_is_whole(tmp_path):
    with Path("/dev/full").open("wb") as full:
        code, said = run_into(full, tmp_path)
    run = the_ledger(tmp_path)["run"]
    assert code in OK
    assert (run["end"], run["exit_code"]) == ("complete", code)
    assert said == "preflight: the report could not be written (No space left on device)\n"


def test_settings_of_ones_own_are_refused_and_not_tried_for_ever(tmp_path):
    done = pytest_run("--host", "local", "--ledger-dir", tmp_path, "-c", "/dev/null", timeout_s=20)
    assert done.code == 4
    assert "need the suite's own pytest settings" in done.err


def test_python_without_docstrings_is_refused_in_one_line(tmp_path):
    done = command("-OO", "-m", "pytest", SUITE, "--host", "local", "--ledger-dir", tmp_path)
    assert done.code == 4
    assert done.both.strip().count("\n") == 0
    assert "python -OO" in done.err


def test_a_missing_package_is_one_error_that_says_how_to_get_it(tmp_path):
    # not tomli, which Python 3.10's pytest itself cannot do without
    (tmp_path / "rfc8785.py").write_text("raise ModuleNotFoundError(name='rfc8785')\n")
    env = clean_environment(PYTHONPATH=str(tmp_path))
    done = pytest_run("--host", "local", "--ledger-dir", tmp_path, env=env)
    assert done.code == 4
    assert "has no module rfc8785" in done.err
    assert "Traceback" not in done.both


SLOW_PROBE = """
import time
from pathlib import Path
from dataclasses import dataclass
from checks.core.facts import Facts
from checks.core.registry import probe

@dataclass(frozen=True, kw_only=True)
class Slow(Facts):
    size_bytes: int

@probe("test.slow", sees=Slow, deadline_s=30.0, always=True)
def read_slow(world, _):
    time.sleep(20)
    return Slow(size_bytes=1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_last_look_too(number, tmp_path):
    (tmp_path / "slow_probe.py").write_text(SLOW_PROBE)
    env = clean_environment(PYTHONPATH=f"{HERE}:{tmp_path}")
    line = [*map(str, words(tmp_path / "l")), "-p", "slow_probe"]
    run = subprocess.Popen(
        line,
        cwd=HERE,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(  # noqa: PLW1509 - no thread here; as on a terminal
            signal.SIGINT, signal.default_int_handler
        ),
    )
    end_s = time.monotonic() + 30
    journals = []
    while time.monotonic() < end_s:
        journals = list((tmp_path / "l").glob("*/journal-*.jsonl"))
        if journals and b"test.slow" in journals[0].read_bytes():
            break
        time.sleep(0.05)
    assert journals, "the last look never began"
    run.send_signal(number)
    shown = run.communicate(timeout=15)[0].decode()
    assert run.returncode == 2, shown
    (path,) = (tmp_path / "l" / "local").glob("*Z-*.json")
    ledger = read_ledger(path)
    assert (ledger.run["end"], ledger.run["interrupted_by"]) == ("interrupted", number.name)
    assert [name for name, _ in ledger.row["open_probes"]] == ["test.slow"]
    assert "!!!" not in shown
    assert "preflight.suite" not in shown


@pytest.mark.parametrize(
    ("words", "exported", "said"),
    [
        (["HOST=local"], "", False),
        (["HOST=h100-1"], "", False),
        ([], "", True),
        ([], "h100-1", True),
        (["host=h100-1"], "", True),
    ],
)
def test_make_says_that_no_host_was_named(words, exported, said):
    """A misspelt HOST= must not pass for a check of that host."""
    env = clean_environment(**({"HOST": exported} if exported else {}))
    line = ["make", "-n", "preflight", *words]
    done = subprocess.run(line, cwd=HERE, env=env, capture_output=True, text=True, check=True)
    assert ("no HOST=name on make's command line" in done.stdout) is said
