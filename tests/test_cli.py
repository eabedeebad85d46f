"""The command `preflight`: what each verb prints, and its exit code. 0 yes, 1 no, 2 usage, 10 could not tell."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checks.cli import main
from checks.core.registry import load_areas
from checks.ledger.canonical import ledger_digest, pretty
from checks.ledger.schema import read_ledger
from tests.support.runs import (
    HERE,
    clean_environment,
    command as python,
    ledger_here,
    run_here,
    write_profile,
)

VERBS = (
    "run",
    "show",
    "verify",
    "replay",
    "diff",
    "adopt",
    "accept",
    "explain",
    "export",
    "prune",
    "gate",
)
SERVES = """
[hardware]
memory_total_bytes = 274_877_906_944
[paths]
tmp_free_min_bytes = 10_737_418_240
[[serve]]
name = "chat"
command = "llama-server -t 8 --api-key sk-plantedplanted0123456789"
env = { HF_TOKEN = "hf_plantedplantedplantedplanted0123", OMP_NUM_THREADS = "4" }
model = "org/chat"
model_bytes = 16_106_127_360
"""


@pytest.fixture
def expected(tmp_path):
    write_profile(tmp_path / "e", "box", SERVES)
    return str(tmp_path / "e")


@pytest.fixture
def row(tmp_path):
    """Make three ledgers of this machine; gives their paths, oldest first."""
    return [Path(ledger_here(tmp_path / "l", "local").file) for _ in range(3)]


def command(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "checks.cli", *map(str, words)],
        cwd=HERE,
        env=clean_environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def python_here(*words, cwd=HERE):
    return python(*words, cwd=cwd, env=clean_environment(PYTHONPATH=str(HERE)))


def test_help_names_every_verb_and_the_version_is_told():
    done = command("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert verb in done.stdout
    assert command("--version").returncode == 0
    assert command().returncode == 2
    assert command("no-such-verb").returncode == 2


def test_help_of_all_verbs_loads_none_of_them_and_a_verb_no_other():
    script = (
        "import sys\n"
        "from checks.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print([n for n in sorted(sys.modules) if n.startswith('checks.verbs.')], file=sys.stderr)"
    )
    common = ["checks.verbs.codes"]
    assert python_here("-c", script, "--help").err == f"{common}\n"
    loaded = python_here("-c", script, "explain", "--help").err
    assert loaded == f"{[*common, 'checks.verbs.explain', 'checks.verbs.shared']}\n"


def test_help_of_run_shows_the_options_of_the_suite_and_where_those_of_pytest_are():
    for word in ("--help", "-h"):
        done = command("run", word)
        assert (done.returncode, done.stderr) == (0, "")
        for name in ("--host NAME", "--ledger-dir DIR", "--replay LEDGER", "--only AREA"):
            assert f"\n  {name}" in done.stdout
        assert done.stdout.count("pytest --help") == 1
        assert "--maxfail" not in done.stdout
        assert len(done.stdout.splitlines()) < 60


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "run"])
def test_help_of_a_verb_says_something_of_every_argument(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    named = [number for number, line in enumerate(lines) if re.match(r"  [^ ]", line)]
    assert named
    for number in named:
        beside = re.search(r"\S {2,}\S", lines[number])
        below = number + 1 < len(lines) and lines[number + 1].startswith(" " * 10)
        assert beside or below, lines[number]


# at the door

CTRL_C = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["preflight", *{words!r}]
from checks.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "while_loading", ["argparse", "checks.verbs.run", "jsonschema", "pytest", "preflight.suite"]
)
def test_ctrl_c_before_a_run_has_begun_is_one_line(tmp_path, while_loading):
    words = ["run", "--host", "local", "--ledger-dir", str(tmp_path)]
    script = CTRL_C.format(name=while_loading, words=words)
    done = python_here("-c", script)
    line = "preflight: interrupted before anything was looked at; no ledger was written\n"
    assert (done.code, done.both) == (2, line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("while_loading", "words"),
    [
        ("checks.verbs.explain", ["explain"]),
        ("checks.machine.probe", ["explain"]),
        ("jsonschema", ["show", "local"]),
    ],
)
def test_ctrl_c_while_another_verb_loads_is_one_line(while_loading, words):
    done = python_here("-c", CTRL_C.format(name=while_loading, words=words))
    assert (done.code, done.both) == (2, "preflight: interrupted\n")


def test_ctrl_c_in_a_verb_is_one_line(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("checks.verbs.explain.load_areas", interrupted)
    assert main(["explain"]) == 2
    assert capsys.readouterr().err == "preflight: interrupted\n"


def test_a_run_leaves_the_signal_as_it_was(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    script = (
        "import signal\n"
        "from checks.cli import main\n"
        f"main(['run', '--host', 'local', '--ledger-dir', {str(tmp_path)!r}])\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    assert before is signal.default_int_handler
    done = python_here("-c", script)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("words", [["run", "--host", "local"], ["explain"], ["show", "local"]])
def test_a_current_folder_that_was_deleted_is_one_line(tmp_path, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        "import os, sys\n"
        "from checks.cli import main\n"
        f"os.rmdir({str(gone)!r})\n"
        f"sys.exit(main({words!r}))\n"
    )
    done = python_here("-c", script, cwd=gone)
    assert done.code == 2
    assert done.both.startswith("preflight: the current folder cannot be used (")
    assert done.both.count("\n") == 1


# explain


def test_explain_lists_all_checks(capsys):
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(load_areas().checks)


@pytest.mark.parametrize("name", sorted(load_areas().checks))
def test_explain_says_what_is_looked_at_what_fails_and_what_to_do(name, expected, capsys):
    assert main(["explain", name, "--host", "box", "--expected", expected]) == 0
    out = capsys.readouterr().out
    assert out.startswith(name)
    assert "ooks at" in out or "ompares" in out
    assert "What to do:" in out
    for slug in load_areas().checks[name].causes:
        assert f"  {slug}: " in out
    compared = out[out.index("Compared with (host box)") :]
    bases = ("(declared: ", "(invariant: ", "(assumed: ", "not declared")
    assert any(basis in " ".join(compared.split()) for basis in bases)
    for word in ("RoomWanted", "Threads(", "Bounds(", "None", "{"):
        assert word not in compared


def test_explain_gives_numbers_units_and_their_source(expected, capsys):
    assert main(["explain", "machine.memory.total", "--host", "box", "--expected", expected]) == 0
    assert "value 256.0 GiB" in capsys.readouterr().out
    assert main(["explain", "machine.disk.free", "--host", "box", "--expected", expected]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "free 10.0 GiB" in out
    assert "org/chat 15.0 GiB" in out
    assert "(declared: box.toml: serve[].model_bytes)" in out.replace(f"{expected}/hosts/", "")


def test_explain_shows_no_secret_of_the_profile(expected, capsys):
    assert main(["explain", "machine.cpu.threads", "--host", "box", "--expected", expected]) == 0
    out = capsys.readouterr().out
    assert "plantedplanted" not in out
    assert "OMP_NUM_THREADS=4" in out
    assert "llama-server -t 8" in out


def test_explain_of_an_unknown_check_names_the_near_ones(capsys):
    assert main(["explain", "machine.disk"]) == 2
    error = capsys.readouterr().err
    assert "machine.disk.free, machine.disk.inodes" in error
    assert "machine.clock" not in error
    assert main(["explain", "nonsense"]) == 2
    assert "machine.clock.past" in capsys.readouterr().err


# show


def test_show_takes_a_host_or_a_file_and_ends_as_the_run_did(row, tmp_path, capsys):
    code = read_ledger(row[-1]).run["exit_code"]
    assert main(["show", "local", "--ledger-dir", str(tmp_path / "l")]) == code
    by_host = capsys.readouterr().out
    assert main(["show", str(row[-1])]) == code
    assert capsys.readouterr().out == by_host
    assert row[-1].name in by_host


def test_show_of_what_is_not_there_is_one_error(tmp_path, capsys):
    for words in (["show", str(tmp_path / "none.json")], ["show", "nohost"]):
        assert main([*words, "--ledger-dir", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert len(error.strip().splitlines()) <= 2
        assert "Traceback" not in error


def test_show_without_a_head_to_go_by_says_what_to_do(row, tmp_path, capsys):
    head = row[-1].with_name("head.json")
    head.write_bytes(head.read_bytes()[:100])
    assert main(["show", "local", "--ledger-dir", str(tmp_path / "l")]) == 2
    error = capsys.readouterr().err
    assert "head.json: is not JSON" in error
    assert "`preflight verify local` tells more" in error
    head.unlink()
    assert main(["show", "local", "--ledger-dir", str(tmp_path / "l")]) == 0
    capsys.readouterr()
    other = json.loads(row[0].read_bytes())
    other["notices"].append("another row begins here")
    other["digest"] = ledger_digest(other)
    row[0].with_name(row[0].name.replace("-local-", "-local-b-", 1)).write_bytes(pretty(other))
    assert main(["show", "local", "--ledger-dir", str(tmp_path / "l")]) == 2
    error = capsys.readouterr().err
    assert "without head.json no ledger is surely the newest" in error
    assert "`preflight verify local` tells more" in error
    for path in row[0].parent.glob("2*.json"):
        path.unlink()
    assert main(["show", "local", "--ledger-dir", str(tmp_path / "l")]) == 2
    assert "there is no ledger yet; `preflight run`" in capsys.readouterr().err


def test_show_of_an_altered_ledger_says_so_first_and_is_no_answer(row, capsys):
    content = json.loads(row[-1].read_bytes())
    content["findings"][0]["says"] = "all is well"
    row[-1].write_bytes(pretty(content))
    assert main(["show", str(row[-1])]) == 10
    assert "ALTERED" in capsys.readouterr().out.splitlines()[0]
    assert main(["replay", str(row[-1])]) == 2


def test_output_into_a_closed_pipe_is_no_error(row):
    script = f"{sys.executable} -m checks.cli show {row[-1]} | head -1"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=HERE,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("words", [["show"], ["verify"], ["prune", "--keep", "9"]])
def test_the_folder_of_a_host_is_taken_for_that_host(row, capsys, words):
    given = str(row[0].parent)
    assert main([*words, given]) == main([*words, f"{given}/"])
    assert capsys.readouterr().err == ""
    assert main(["diff", given, str(row[-1])]) == 0
    assert main([*words, str(row[0].parent.parent)]) == 2
    assert "is a folder, and none with a head.json; give the host's name" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["show", "verify", "replay"])
def test_of_a_head_it_is_said_which_ledger_it_names(row, verb, capfd):
    head = row[-1].with_name("head.json")
    assert main([verb, str(head)]) == 2
    both = "".join(capfd.readouterr())
    assert "this is the head of a host's row, no ledger" in both
    assert f"the newest ledger is {row[-1]}" in both


@pytest.mark.parametrize("digest", ["", "abc", "sha256:", "sha256:" + "g" * 64, "md5:" + "0" * 64])
def test_what_is_no_digest_is_a_mistake_of_the_command_line(row, digest, capsys):
    for what in ("local", str(row[0])):
        with pytest.raises(SystemExit) as caught:
            main(["verify", what, "--expect", digest])
        assert caught.value.code == 2
        assert "wanted: `sha256:` and 64 hex digits" in capsys.readouterr().err


def test_verify_of_one_file_says_that_its_row_was_not_looked_at(row, tmp_path, capsys):
    assert main(["verify", str(row[0])]) == 0
    out = capsys.readouterr().out
    assert f"its row was not looked at; that does `preflight verify {row[0].parent}/`" in out
    alone = tmp_path / row[0].name
    alone.write_bytes(row[0].read_bytes())
    assert main(["verify", str(alone)]) == 0
    assert "`preflight verify local`" in capsys.readouterr().out
    digest = json.loads(row[0].read_bytes())["digest"]
    for written in (digest, digest.upper().replace("SHA256", "sha256"), digest.partition(":")[2]):
        assert main(["verify", str(row[0]), "--expect", written]) == 0


# replay and diff


def test_replay_gives_the_verdict_again_and_does_not_touch_the_ledger(row, tmp_path):
    before = row[-1].read_bytes()
    done = command("replay", row[-1], "--ledger-dir", tmp_path / "r")
    assert done.returncode == read_ledger(row[-1]).run["exit_code"], done.stdout + done.stderr
    assert row[-1].read_bytes() == before
    assert [p.parent.name for p in (tmp_path / "r").rglob("2*.json")] == ["replays"]


def test_diff_of_two_runs_of_one_box_is_nothing(row, capsys):
    assert main(["diff", str(row[0]), str(row[1])]) == 0
    assert capsys.readouterr().out == "nothing changed\n"
    assert main(["diff", str(row[0]), "/nowhere.json"]) == 2


# export and prune


def test_export_is_a_valid_ledger_that_names_its_original(row, tmp_path, capsys):
    copy = tmp_path / "shared.json"
    assert main(["export", str(row[0]), "--anonymous", "--output", str(copy)]) == 0
    assert main(["verify", str(copy)]) == 0
    content = json.loads(copy.read_text("utf-8"))
    assert content["digest"] == ledger_digest(content)
    assert json.loads(row[0].read_bytes())["digest"] in copy.read_text("utf-8")


def test_export_without_a_word_on_names_is_refused(row):
    assert command("export", row[0]).returncode == 2


def test_prune_keeps_the_newest_and_the_row_still_verifies(row, tmp_path, capsys):
    ledgers = str(tmp_path / "l")
    assert main(["prune", "local", "--keep", "1", "--ledger-dir", ledgers]) == 0
    assert [file.exists() for file in row] == [False, False, True]
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 0
    capsys.readouterr()
    run_here(tmp_path / "l", "local")
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 0
    for keep in ("0", "-1", "x"):
        assert command("prune", "local", "--keep", keep, "--ledger-dir", ledgers).returncode == 2


# run


def test_run_is_the_suite(tmp_path):
    done = command("run", "--host", "local", "--ledger-dir", tmp_path)
    assert done.returncode in (0, 10), done.stdout + done.stderr
    assert "ledger" in done.stdout
    assert command("run", "--host", "no-such-box").returncode == 4
