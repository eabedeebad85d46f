"""The recipes: what cron, a systemd timer and a Slurm prolog start, started for real."""

import configparser
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.ledger.lock import Lock
from checks.ledger.store import HostFolder
from tests.support.runs import HERE, clean_environment, write_profile

SCRIPT = HERE / "tools" / "scheduled.sh"
RECIPES = HERE / "tools" / "recipes"
LARGE = "[hardware]\nmemory_total_bytes = 999_000_000_000_000\n"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def preflight(tmp_path):
    """Give the command, as an installed one would be."""
    here = shlex.quote(str(HERE))
    run = f'PYTHONPATH={here} exec {shlex.quote(sys.executable)} -m checks.cli "$@"'
    return program(tmp_path / "bin" / "preflight", run)


@pytest.fixture
def box(tmp_path, preflight):
    """Give a function that runs the script on this machine under a profile."""

    def run(profile="", *words, **env):
        write_profile(tmp_path / "e", "box", profile)
        return subprocess.run(
            [SCRIPT, "box", tmp_path / "l", "--expected", tmp_path / "e", *words],
            env=clean_environment(PREFLIGHT=str(preflight), **env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def ledgers(tmp_path):
    return HostFolder(tmp_path / "l", "box").ledgers()


def test_a_scheduled_run_speaks_when_something_changed_and_not_otherwise(box, tmp_path):
    first = box()
    assert "ledger" in first.stdout
    assert first.stderr == ""
    second = box()
    assert (second.returncode, second.stdout, second.stderr) == (first.returncode, "", "")
    worse = box(LARGE)
    assert worse.returncode == 1
    assert "machine.memory.total" in worse.stdout
    still = box(LARGE)
    assert (still.returncode, still.stdout, still.stderr) == (1, "", "")
    more = box(LARGE + '[[serve]]\nname = "chat"\ncommand = "llama-server -t 9999"\n')
    assert more.returncode == 1
    assert "machine.cpu.threads" in more.stdout, "the same exit code, and another fault"
    better = box()
    assert better.returncode == first.returncode
    assert "machine.memory.total" in better.stdout
    assert "ledger" in better.stdout
    assert len(ledgers(tmp_path)) == 6


def test_a_run_that_writes_no_ledger_says_why(box, tmp_path):
    box()
    wrong = box("", "--only", "nothing")
    assert wrong.returncode == 4
    assert "--only nothing" in wrong.stdout
    assert len(ledgers(tmp_path)) == 1


def test_a_run_that_writes_no_ledger_speaks_even_if_it_ends_as_the_last_one_did(tmp_path):
    folder = tmp_path / "l" / "box"
    folder.mkdir(parents=True)
    (folder / "head.json").write_text('{\n "exit_code": 2,\n "file": "x.json"\n}\n')
    stub = program(tmp_path / "bin" / "stub", 'test "$1" != run || { echo interrupted; exit 2; }')
    done = subprocess.run(
        [SCRIPT, "box", tmp_path / "l"],
        env=clean_environment(PREFLIGHT=str(stub)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "interrupted\n")


@pytest.mark.parametrize("name", [".lock", ".scheduled.lock"])
def test_while_another_run_is_under_way_it_gives_up_at_once_and_says_nothing(box, tmp_path, name):
    (tmp_path / "l" / "box").mkdir(parents=True)
    other = Lock(tmp_path / "l" / "box", name, who="run", host="box")
    other.take()
    began_s = time.monotonic()
    done = box()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - began_s < 30, "the suite itself waits for a minute"
    assert ledgers(tmp_path) == []
    other.give_back()
    assert "ledger" in box().stdout


def test_the_suite_runs_at_low_priority(tmp_path):
    seen = program(tmp_path / "bin" / "seen", 'nice; ionice; echo "$@"; ls /proc/$$/fd')
    done = subprocess.run(
        [SCRIPT, "box", tmp_path / "l", "--quick", "two words"],
        env=clean_environment(PREFLIGHT=str(seen)),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "19"
    assert lines[1].startswith("idle")
    assert lines[2] == f"run --host box --ledger-dir {tmp_path / 'l'} --quick two words"
    assert "9" not in lines[3:], "a child that stays behind would keep the lock"


def test_without_ionice_and_flock_it_runs_all_the_same(box, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    for name in ("sh", "nice", "sed", "mktemp", "rm", "cat", "mkdir"):
        found = next(f"{d}/{name}" for d in ("/bin", "/usr/bin") if Path(d, name).exists())
        (few / name).symlink_to(found)
    assert "ledger" in box(PATH=str(few)).stdout
    assert box(PATH=str(few)).stdout == ""


def test_no_arguments_are_a_mistake():
    done = subprocess.run([SCRIPT, "box"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: scheduled.sh HOST LEDGER_DIR" in done.stderr


# what starts it


def started(command, tmp_path):
    """Run the command of a recipe with a stand-in for preflight; give the words that it got."""
    stub = program(tmp_path / "bin" / "stub", 'printf "%s\\n" "$@"')
    command = command.replace("/opt/preflight", str(HERE))
    command = command.replace("/var/lib/preflight", str(tmp_path / "l"))
    done = subprocess.run(
        ["sh", "-c", command],
        env=clean_environment(PREFLIGHT=str(stub)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def wanted(tmp_path, host):
    folder = str(tmp_path / "l")
    expected = ["--expected", "/etc/preflight"]
    return ["run", "--host", host, "--ledger-dir", folder, *expected, "--quick"]


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", strict=True)
    parser.optionxform = str
    parser.read_string((RECIPES / name).read_text("utf-8"))
    return parser


def test_the_service_starts_the_suite_and_the_timer_the_service(tmp_path):
    service, timer = unit("preflight.service"), unit("preflight.timer")
    command = service["Service"]["ExecStart"]
    assert re.findall(r"%.", command) == ["%l"]
    assert started(command.replace("%l", "node7"), tmp_path) == wanted(tmp_path, "node7")
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["Environment"].startswith("PREFLIGHT=/opt/preflight/")
    assert "Unit" not in timer["Timer"], "it starts the service of its own name"
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.skipif(
    not Path("/usr/bin/systemd-analyze").exists(), reason="opt-in: needs systemd-analyze"
)
def test_systemd_takes_the_units(tmp_path):
    for name in ("preflight.service", "preflight.timer"):
        text = (RECIPES / name).read_text("utf-8").replace("/opt/preflight", str(HERE))
        (tmp_path / name).write_text(text)
    words = ["systemd-analyze", "verify", *map(str, tmp_path.glob("preflight.*"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "preflight" not in done.stderr, done.stderr


def test_the_line_for_cron_starts_the_suite(tmp_path):
    lines = (RECIPES / "preflight.cron").read_text("utf-8").splitlines()
    settings, jobs = [], []
    for line in lines:
        if not line.startswith("#"):
            (settings if re.match(r"[A-Z]+=", line) else jobs).append(line)
    (job,) = jobs
    times, user, command = job.split(None, 6)[:5], *job.split(None, 6)[5:]
    assert all(re.fullmatch(r"\*|[0-9]{1,2}", field) for field in times)
    assert user == "root"
    assert "%" not in command, "cron would take it for the end of the line"
    assert started(command, tmp_path) == wanted(tmp_path, "h100-1")
    assert [line.partition("=")[0] for line in settings] == ["PREFLIGHT"]


# the prolog


@pytest.fixture
def prolog(tmp_path, preflight, host):
    """Give a function that runs the prolog on a recorded box, with a stand-in for Slurm's command."""
    told = tmp_path / "told"
    program(tmp_path / "bin" / "scontrol", f'printf "%s\\n" "$@" >>{shlex.quote(str(told))}')

    def run(*, controller="true", **env):
        words = host.words()
        gate = " ".join(words[words.index("--ledger-dir") :])
        settings = {"SLURMD_NODENAME": "h100-1", "GATE": gate, "PREFLIGHT": str(preflight)}
        if controller != "true":
            program(tmp_path / "bin" / "scontrol", controller)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [RECIPES / "slurm-prolog.sh"],
            env=clean_environment(**{**settings, **env, "PATH": path}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, told.read_text().splitlines() if told.exists() else []

    return run


def test_a_node_whose_gate_is_open_gets_its_job(prolog, host):
    host.ran("pass")
    assert prolog() == (0, [])


def test_a_node_whose_gate_is_closed_is_drained_with_the_reason(prolog, host):
    host.ran("fail")
    words = ["update", "NodeName=h100-1", "State=DRAIN"]
    reason = "Reason=preflight: closed: h100-1 failed 3 h ago"
    assert prolog() == (1, [*words, reason])


def test_the_prolog_asks_for_what_timer_and_cron_keep_fresh():
    gate = (RECIPES / "slurm-prolog.sh").read_text("utf-8")
    (asked,) = re.findall(r"\$\{GATE:-(.*?)\}", gate)
    for name in ("preflight.service", "preflight.cron"):
        lines = (RECIPES / name).read_text("utf-8").splitlines()
        (started,) = [line for line in lines if "scheduled.sh" in line and not line.startswith("#")]
        assert ("--quick" in started) is ("--scope quick" in asked), name
        assert re.search(r"/var/lib/\w+", started)[0] in asked, name


def test_a_node_is_closed_where_the_gate_itself_cannot_answer(prolog, host):
    host.ran("pass")
    code, told = prolog(GATE="--max-age x")
    assert code == 1
    assert told[3].startswith("Reason=preflight: preflight gate: --max-age: wanted: a number")
    code, told = prolog(PREFLIGHT="/nowhere/preflight")
    assert code == 1
    assert len(told) == 8


def test_a_controller_that_does_not_answer_opens_nothing(prolog, host):
    host.ran("fail")
    assert prolog(controller="exit 1") == (1, [])
