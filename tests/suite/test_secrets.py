"""Secrets that are planted wherever a run looks appear nowhere, however the run ends."""

import signal
import subprocess
import sys

import pytest

from tests.support.boxes import ENGINE, plain_box
from tests.support.runs import HERE, SUITE, clean_environment, cli, pytest_run, write_profile

MARK = "Zq9xV7kT2mB4nR8w"
ENVIRONMENT = {
    "HF_TOKEN": f"hf_{MARK}environment",
    "WANDB_API_KEY": f"{MARK}-a key/with+all=sorts",
    "HTTPS_PROXY": f"http://me:{MARK}%40proxy@127.0.0.1:9",
    "MY_SECRET": f'{MARK} of two\nlines and a "quote"',
}
PROFILE = f"""
description = "reach it at https://u:{MARK}@box.example/ with HF_TOKEN={MARK}"
[hardware]
memory_total_bytes = 1
[[serve]]
name = "chat"
engine = "llama.cpp"
command = "env HF_TOKEN={MARK} llama-server --api-key {MARK} -t 999 --hf-token '{MARK} x'"
env = {{ OPENAI_API_KEY = "{MARK}", NOTE = "bearer {MARK}" }}
[[serve]]
name = "list"
command = ["llama-server", "--api-key", "{MARK}", "-H", "Authorization: Bearer {MARK}", "-t", "2"]
where = "process:engine"
[[waiver]]
check = "machine.memory.total"
reason = "see https://x:{MARK}@wiki.example"
ticket = "token={MARK}"
until = 2099-01-01
"""


def tree(tmp_path):
    box = plain_box()
    box.recorded["environ"].update(ENVIRONMENT)
    box.process(
        ENGINE,
        "engine",
        "--api-key",
        MARK,
        f"--url=https://u:{MARK}@h/x?sig={MARK}",
        f"HF_TOKEN={MARK}",
        "-t",
        "64",
        environ={"HF_TOKEN": MARK, "OMP_NUM_THREADS": f"token={MARK}", "API_KEY": MARK},
    )
    box.put("/etc/resolv.conf", f"nameserver 192.0.2.53\n# HF_TOKEN={MARK}\noptions token={MARK}\n")
    box.put("/sys/class/dmi/id/board_name", f"api_key={MARK}\n")
    return box.write(tmp_path / "box")


def words(tmp_path):
    write_profile(tmp_path / "e", "box", PROFILE)
    expected = ("--expected", tmp_path / "e", "--ledger-dir", tmp_path / "l")
    plain = (f"--label=token={MARK}", f"--ticket=https://u:{MARK}@t.example/1")
    return ("--host", "box", *expected, *plain)


def assert_nowhere(tmp_path, *texts):
    files = [path for path in (tmp_path / "l").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert MARK.encode() not in path.read_bytes(), path
        assert MARK not in path.name
    for text in texts:
        assert MARK not in text, text
    return files


def env(**more):
    return clean_environment(**ENVIRONMENT, **more)


@pytest.mark.parametrize("more", [[], ["-vv", "--tb=long", "-l"], ["-rA", "-s"]])
def test_a_run_shows_and_keeps_none(more, tmp_path):
    done = pytest_run(*words(tmp_path), *more, env=env())
    assert done.code == 1, done.both
    assert_nowhere(tmp_path, done.both)
    assert "machine.cpu.threads [chat]" in done.out


def test_a_look_at_a_recorded_tree_shows_and_keeps_none(tmp_path):
    junit = tmp_path / "l" / "junit.xml"
    root = tree(tmp_path)
    done = pytest_run(*words(tmp_path), "--root", root, f"--junitxml={junit}", env=env())
    assert done.code == 1, done.both
    files = assert_nowhere(tmp_path, done.both)
    assert any("rehearsals" in path.parts for path in files)
    assert "-t 64" in done.out, "what is no secret of the same command line is shown"


@pytest.mark.parametrize(
    "wrong",
    [
        f'[serve.env]\nHF_TOKEN = ["{MARK}"]\n',
        f'command = "server --api-key {MARK} \'open"\n',
        f'api_key = "{MARK}"\n',
        f'where = "https://u:{MARK}@h"\n',
        f'model_bytes = "token={MARK}"\n',
    ],
)
def test_the_error_of_a_profile_shows_none(wrong, tmp_path):
    write_profile(tmp_path / "e", "box", f'[[serve]]\nname = "chat"\n{wrong}')
    done = pytest_run("--host", "box", "--expected", tmp_path / "e", env=env())
    assert done.code == 4
    assert "box.toml:" in done.err
    assert MARK not in done.both


PLUGIN = f"""
import os
import pytest

class Planted:
    def pytest_preflight_finding(self, finding):
        if os.environ["PLANTED"] == "crash":
            raise RuntimeError("HF_TOKEN={MARK} and " + os.environ["WANDB_API_KEY"])
        if os.environ["PLANTED"] == "killed":
            import signal
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ["PLANTED"] == "stopped":
            import signal
            os.kill(os.getpid(), signal.SIGTERM)

def pytest_configure(config):
    config.pluginmanager.register(Planted())
"""


@pytest.mark.parametrize("how", ["crash", "killed", "stopped"])
def test_a_run_that_ends_badly_shows_and_keeps_none(how, tmp_path):
    (tmp_path / "planted_plugin.py").write_text(PLUGIN)
    done = pytest_run(
        *words(tmp_path),
        *("-p", "planted_plugin", "--root", tree(tmp_path)),
        env=env(PLANTED=how, PYTHONPATH=f"{tmp_path}:{HERE}"),
    )
    assert done.code not in (0, 10), done.both
    assert_nowhere(tmp_path, done.both)
    if how == "killed":
        assert done.code == -signal.SIGKILL
        assert list((tmp_path / "l" / "box").glob("journal-*.jsonl"))
        shown = cli("show", "box", "--ledger-dir", tmp_path / "l", env=env())
        assert_nowhere(tmp_path, shown.both)


BROKEN = """
import os, sys
import checks.machine.probe
from checks.core.registry import load_areas
registry = load_areas()
import dataclasses
secret = os.environ["WANDB_API_KEY"]
def dies(world, target):
    raise RuntimeError("could not log in with " + secret + " token=" + os.environ["HF_TOKEN"])
registry.probes["machine.memory"] = dataclasses.replace(registry.probes["machine.memory"], read=dies)
def confused(*_):
    raise ValueError("judge saw " + secret)
registry.checks["machine.cpu.threads"] = dataclasses.replace(
    registry.checks["machine.cpu.threads"], judge=confused, controls=[])
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_the_error_of_a_probe_or_a_judge_shows_and_keeps_none(tmp_path):
    argv = [sys.executable, "-c", BROKEN, SUITE, *words(tmp_path), "--no-controls"]
    done = subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        env=env(PYTHONPATH=str(HERE)),
    )
    assert "could not log in with [redacted]" in " ".join(done.stdout.split()), done.stdout
    assert_nowhere(tmp_path, done.stdout, done.stderr)


def test_the_other_verbs_show_none(tmp_path):
    pytest_run(*words(tmp_path), env=env())
    for verb in (
        ["show", "box"],
        ["verify", "box"],
        ["explain", "machine.cpu.threads", "--host", "box", "--expected", tmp_path / "e"],
        ["export", "box", "--anonymous"],
        ["replay", "box"],
        ["diff", "box", "box"],
        ["explain", f"token={MARK}"],
    ):
        more = [] if verb[0] == "explain" else ["--ledger-dir", tmp_path / "l"]
        done = cli(*verb, *more, env=env())
        assert MARK not in done.both, (verb, done.both)
    assert_nowhere(tmp_path)
