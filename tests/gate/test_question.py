"""The question and its line: usage, names that are too long, readers that are gone, and what is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks.cli import main
from checks.verbs.gate import fitted
from tests.support.gates import HOST
from tests.support.runs import HERE, clean_environment, run_here

SPAN = "wanted: a number and s, m, h or d, such as 12h"
HOURS = "wanted: HH:MM-HH:MM, or 'Mon-Fri 22:00-06:00'"


def usage(words, capsys):
    assert main(["gate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("preflight gate: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert err.isascii()
    assert len(err) <= 80 + 1
    return err


@pytest.mark.parametrize("option", ["--max-age", "--min-interval"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "7",
        "0d",
        "00d",
        "-1d",
        "-7",
        "1.5h",
        "7 d",
        "d",
        "7w",
        "7D",
        "7dd",
        "\u0667d",
        "1" * 9 + "d",
    ],
)
def test_a_span_that_is_none_is_a_mistake_that_names_the_form(option, text, capsys):
    other = ["--max-age", "7d"] if option != "--max-age" else []
    for words in ([f"{option}={text}"], [option, text]):
        assert SPAN in usage(["--host", HOST, *other, *words], capsys)


@pytest.mark.parametrize("text", ["", "22:00", "22-06", "Mon", "22:00-22:00", "Die 01:00-02:00"])
def test_a_window_that_is_none_is_a_mistake_that_names_the_form(text, capsys):
    words = ["--host", HOST, "--max-age", "7d", "--window", text]
    assert HOURS in usage(words, capsys)


def test_other_mistakes_of_the_command_line_are_one_line_too(capsys):
    good = ["--host", HOST, "--max-age", "7d"]
    assert "required: --host, --max-age" in usage([], capsys)
    assert "required: --max-age" in usage(["--host", HOST], capsys)
    assert "--host: wanted: letters" in usage(["--host", "../etc", "--max-age", "7d"], capsys)
    assert "--scope: wanted: all, quick, machine" in usage([*good, "--scope", "x"], capsys)
    assert "unrecognized arguments: --nonsense x" in usage([*good, "--nonsense", "x"], capsys)
    assert "unrecognized arguments: --n" in usage([*good, "--nonsense", "x\ny" * 90], capsys)
    assert "unrecognized arguments" in usage([*good, "--com"], capsys)
    assert "recorded.json" in usage([*good, "--root", "/nowhere"], capsys)


def test_a_mistake_shows_no_secret(capsys):
    line = usage(["--host", HOST, "--max-age", "7d", "--token=hf_0123456789abcdefghij"], capsys)
    assert "0123456789" not in line
    assert "redacted" in line


def test_a_name_that_is_too_long_loses_its_middle():
    assert fitted("closed: {} is missing", "short") == "closed: short is missing"
    line = fitted("closed: {} is missing", "begin" + "x" * 300 + "end.json")
    assert len(line) == 80
    assert line.startswith("closed: beginx")
    assert line.endswith("xend.json is missing")
    both = fitted("closed: {} and {} go", "a" * 100, "b" * 30)
    assert len(both) == 80
    assert both.count("b") == 30
    assert len(fitted("{}" + "y" * 100, "x")) == 80
    assert fitted("{}", "é\n\x1b[31mred\t{}") == r"e \x1b[31mred {}"


def test_the_longest_host_has_a_line_that_fits(host, capsys):
    for name in ("h" * 63, "h"):
        for words in ([], ["--same-boot"]):
            ledgers = ["--ledger-dir", str(host.ledgers)]
            assert main(["gate", "--host", name, "--max-age", "7d", *ledgers, *words]) == 10
            line = capsys.readouterr().out
            assert len(line) <= 80 + 1
            assert "has no ledger; preflight run --host h" in line


def ask(host, *words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "checks.cli", *host.words(*words)],
        cwd=HERE,
        env=clean_environment(TZ="UTC"),
        timeout=60,
        check=False,
        **settings,
    )


def test_whether_anybody_reads_the_line_does_not_change_the_answer(host):
    host.ran("fail")
    with Path("/dev/full").open("wb") as full:
        done = ask(host, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"")
    reading, writing = os.pipe()
    os.close(reading)
    done = ask(host, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
    words = " ".join(f"'{word}'" for word in host.words())
    closed = f"'{sys.executable}' -m checks.cli {words} >&-"
    done = subprocess.run(
        ["sh", "-c", closed], cwd=HERE, env=clean_environment(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"")


def test_nothing_heavy_is_loaded_for_an_answer(host):
    host.ran("pass")
    script = (
        "import json, sys\n"
        "from checks.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *host.words("--commit", "--min-interval", "2h")],
        cwd=HERE,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    heavy = ("pytest", "_pytest", "jsonschema", "rich", "huggingface_hub", "requests", "tomli")
    heavy += ("subprocess", "socket", "checks.session", "checks.core.reader", "checks.core.redact")
    assert not [name for name in heavy if name in modules]
    assert not [name for name in modules if ".judge" in name or ".controls" in name]


def test_the_current_folder_may_be_gone(host, tmp_path):
    host.ran("pass")
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        "import os, sys\n"
        "from checks.cli import main\n"
        f"os.rmdir({str(gone)!r})\n"
        f"sys.exit(main({host.words()!r}))\n"
    )
    env = clean_environment(PYTHONPATH=str(HERE))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=gone, env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_answers_about_the_machine_itself(tmp_path, capsys):
    from tests.support.runs import run_here

    verdict = run_here(tmp_path).ledger["run"]["verdict"]
    words = ["gate", "--host", "local", "--max-age", "1h", "--ledger-dir", str(tmp_path)]
    code = main([*words, "--allow-unconfirmed", "--same-boot"])
    line = capsys.readouterr().out
    assert code == {"pass": 0, "fail": 1}.get(verdict, 10), line
    assert "local" in line


@pytest.mark.parametrize("only", [None, "machine"])
def test_a_run_that_no_control_vouches_for_opens_no_gate(tmp_path, capsys, only):
    more = {} if only is None else {"only": only}
    words = ["gate", "--host", "local", "--max-age", "1d", "--ledger-dir", str(tmp_path)]
    words += ["--scope", only] if only else []
    session = run_here(tmp_path, controls=False, **more)
    assert session.scope == "selection"
    assert main(words) == 10
    kind = f"{only} " if only else ""
    assert capsys.readouterr().out == f"closed: local has no complete {kind}run\n"
    run_here(tmp_path, **more)
    main(words)
    assert "no complete" not in capsys.readouterr().out
