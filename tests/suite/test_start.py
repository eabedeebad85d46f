"""Every way to start the suite from a checkout, and what each option does, in processes of their own."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checks.ledger.schema import read_ledger
from checks.ledger.verify import verify_file
from preflight.plugin import _OPTIONS
from tests.support.boxes import h100_box
from tests.support.runs import (
    HERE,
    SUITE,
    clean_environment,
    command,
    ledger_here,
    pytest_run,
    the_ledger,
    write_profile,
)

OK = (0, 10)
"""Pass, or incomplete where this machine lacks something that a check has to see."""
FAILING = "[hardware]\nmemory_total_bytes = 1\nmemory_available_min_bytes = 1_048_576\n"


def local(folder, *words, **rest):
    return pytest_run("--host", "local", "--ledger-dir", folder, *words, **rest)


def failing(tmp_path, *words, **rest):
    write_profile(tmp_path / "expected", "box", FAILING)
    words = ("--host", "box", "--expected", tmp_path / "expected", *words)
    return pytest_run("--ledger-dir", tmp_path / "l", *words, **rest)


def verdicts(row):
    return {f"{f['check']}[{f['subject']}]": f["verdict"] for f in row["findings"]}


# where it is started


@pytest.mark.parametrize(
    "words",
    [
        ["preflight/"],
        ["preflight"],
        ["./preflight/test_machine.py"],
        [str(SUITE)],
    ],
    ids=["folder", "no slash", "one file", "absolute"],
)
def test_from_the_checkout(words, tmp_path):
    done = command("-m", "pytest", *words, "--host", "local", "--ledger-dir", tmp_path)
    assert done.code in OK, done.both
    assert verify_file(next((tmp_path / "local").glob("2*.json"))).wrong == []
    assert done.out.rstrip().splitlines()[-1].startswith("  ledger ")


def test_from_another_folder_with_settings_of_its_own(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not ours')\n")
    done = local(tmp_path / "l", cwd=tmp_path)
    assert done.code in OK, done.both


def test_standing_in_the_suite_itself(tmp_path):
    done = command("-m", "pytest", "--host", "local", f"--ledger-dir={tmp_path}", cwd=SUITE)
    assert done.code in OK, done.both


@pytest.mark.parametrize("option", ["--ledger-dir", "--expected", "--replay", "--baseline"])
def test_a_path_in_the_checkout_does_not_bring_the_developers_settings(option, tmp_path):
    # pytest looks for its settings above every word that is a path, the values of options too
    copy = tmp_path / "checkout"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "tests"))
    ledger = ledger_here(tmp_path / "first").file
    shutil.copy(ledger, copy / "ledgers" / "old.json")
    value = {"--ledger-dir": "ledgers", "--expected": "expected"}.get(option, "ledgers/old.json")
    words = ["-m", "pytest", "preflight/", "--host", "local", option, value]
    done = command(*words, cwd=copy)
    assert done.code in OK, done.both
    assert "the suite's own pytest settings" not in done.both
    assert list((copy / "ledgers" / "local").rglob("2*.json"))


def test_in_a_checkout_whose_path_has_spaces_and_brackets(tmp_path):
    copy = tmp_path / "my [box] é"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "tests"))
    done = command("-m", "pytest", "preflight/", "--host", "local", cwd=copy)
    assert done.code in OK, done.both
    assert list((copy / "ledgers" / "local").glob("2*.json"))


def test_it_writes_nothing_beside_itself(tmp_path):
    copy = tmp_path / "checkout"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "tests"))
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    done = command(
        "-m", "pytest", "preflight/", "--host", "local", f"--ledger-dir={tmp_path / 'l'}", cwd=copy
    )
    assert done.code in OK, done.both
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_the_bare_form_without_these_settings_is_refused_with_the_line_that_helps(tmp_path):
    env = clean_environment(PYTHONPATH=str(HERE))
    words = ["-m", "pytest", "-p", "preflight.plugin", "--pyargs", "preflight", "--host", "local"]
    done = command(*words, cwd=tmp_path, env=env)
    assert done.code == 4
    assert "preflight run --host NAME" in done.both
    line = f"pytest -c {SUITE / 'pytest.toml'} --pyargs preflight --host NAME"
    assert line in done.both
    done = command(
        *("-m", "pytest", "-p", "preflight.plugin"),
        *line.replace("NAME", "local").split()[1:],
        f"--ledger-dir={tmp_path / 'l'}",
        cwd=tmp_path,
        env=env,
    )
    assert done.code in OK, done.both


def test_another_projects_tests_are_not_disturbed_by_the_plugin(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n\n"
        "def test_theirs(request):\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] == 'checks']\n"
        "    assert 'preflight.suite' not in sys.modules\n"
    )
    env = clean_environment(PYTHONPATH=str(HERE))
    done = command("-m", "pytest", "-p", "preflight.plugin", "-q", cwd=tmp_path, env=env)
    assert done.code == 0, done.both
    assert "1 passed" in done.out
    assert "preflight" not in done.out
    assert not list(tmp_path.rglob("*.json*"))


# hosts


def test_an_unknown_host_is_one_error_that_says_which_there_are(tmp_path):
    done = pytest_run("--host", "h100-9", "--ledger-dir", tmp_path)
    assert done.code == 4
    for text in (
        "known hosts: local, example-h100",
        "to make one: `preflight adopt h100-9`",
        "--host local",
    ):
        assert text in done.err
    assert "Traceback" not in done.both
    assert list(tmp_path.iterdir()) == []


def test_no_host_is_one_error(tmp_path):
    done = pytest_run("--ledger-dir", tmp_path)
    assert done.code == 4
    assert "say which box this is: --host NAME. Known: local, example-h100" in done.err


def test_all_problems_of_a_profile_are_told_at_once_and_nothing_runs(tmp_path):
    write_profile(tmp_path, "box", "nonsense = 1\n[hardware]\nmemory_total_bytes = -1\n")
    done = pytest_run("--host", "box", "--expected", tmp_path, "--ledger-dir", tmp_path / "l")
    assert done.code == 4
    path = tmp_path / "hosts" / "box.toml"
    assert f"{path}:2: nonsense: unknown key" in done.err
    assert f"{path}:4: hardware.memory_total_bytes: found -1" in done.err
    assert not (tmp_path / "l").exists()


# options


def test_help_shows_each_option_with_an_example():
    done = pytest_run("--help")
    assert done.code == 0
    section = done.out.partition("preflight: is this box fit for work?")[2]
    text = " ".join(section.split())
    assert "it connects nowhere" in text
    for name, _ in _OPTIONS:
        assert f"Example: {name}" in text, name


def test_only_limits_the_run_to_an_area_and_says_so(tmp_path):
    done = local(tmp_path, "--only", "machine")
    assert done.code in OK, done.both
    assert "local (only machine)" in done.out
    assert the_ledger(tmp_path)["run"]["scope"] == "machine"
    done = local(tmp_path, "--only", "gpus")
    assert done.code == 4
    assert "--only gpus: this version has the areas machine" in done.err


def test_no_controls_is_recorded_and_shown(tmp_path):
    done = local(tmp_path, "--no-controls")
    assert "controls were switched off" in done.out
    row = the_ledger(tmp_path)
    assert row["run"]["controls"] is False
    assert row["controls"] == []


def test_controls_are_in_every_other_ledger(tmp_path):
    local(tmp_path)
    row = the_ledger(tmp_path)
    assert row["run"]["controls"] is True
    assert row["controls"]
    assert all(control["good"] and control["count"] >= 2 for control in row["controls"])


def test_label_and_ticket_go_into_the_ledger_and_its_name(tmp_path):
    local(tmp_path, "--label", "after swap", "--ticket", "INFRA/12")
    (path,) = (tmp_path / "local").glob("2*.json")
    assert "-local-after-swap-INFRA-12-" in path.name
    row = the_ledger(tmp_path)
    assert (row["run"]["label"], row["run"]["ticket"]) == ("after swap", "INFRA/12")


def test_expected_adds_a_folder_that_is_looked_into_first(tmp_path):
    done = failing(tmp_path)
    assert done.code == 1
    row = the_ledger(tmp_path / "l", "box")
    assert row["profile"]["file"] == str(tmp_path / "expected" / "hosts" / "box.toml")
    assert row["profile"]["content"]["hardware"]["memory_total_bytes"] == 1


def test_expected_may_come_from_the_environment_and_ledgers_too(tmp_path):
    write_profile(tmp_path / "e", "box", FAILING)
    env = clean_environment(
        PREFLIGHT_EXPECTED=str(tmp_path / "e"), PREFLIGHT_LEDGERS=str(tmp_path / "l")
    )
    assert pytest_run("--host", "box", env=env).code == 1
    assert the_ledger(tmp_path / "l", "box")


def test_baseline_is_what_a_run_is_compared_with(tmp_path):
    write_profile(tmp_path / "e", "box", "")
    expected = (str(tmp_path / "e"),)
    before = ledger_here(tmp_path / "old", "box", expected=expected)
    done = failing(tmp_path, "--baseline", before.file)
    assert done.code == 1
    assert f"changes since {Path(before.file).name}:" in " ".join(done.out.split())
    assert "judged now: machine.memory.total [box]" in " ".join(done.out.split())
    done = failing(tmp_path, "--baseline", tmp_path / "absent.json")
    assert done.code == 4
    assert "absent.json: is not there" in done.err.replace("\n", " ")


def test_a_baseline_of_another_host_is_named(tmp_path):
    other = ledger_here(tmp_path / "old")
    done = failing(tmp_path, "--baseline", other.file)
    assert "the baseline is of another host: local" in " ".join(done.out.split())


def test_a_second_run_says_what_changed_since_the_first(tmp_path):
    write_profile(tmp_path / "expected", "box", "")
    words = ("--host", "box", "--expected", tmp_path / "expected", "--ledger-dir", tmp_path / "l")
    assert "since" not in pytest_run(*words).out
    assert "nothing changed since" in pytest_run(*words).out
    assert "judged now: machine.memory.total [box]" in " ".join(failing(tmp_path).out.split())


def test_replay_needs_no_host_and_does_not_become_the_newest(tmp_path):
    write_profile(tmp_path / "e", "h100-1", FAILING)
    tree = h100_box().write(tmp_path / "box")
    first = ledger_here(tmp_path / "l", "h100-1", expected=(str(tmp_path / "e"),), root=str(tree))
    done = pytest_run("--replay", first.file, "--ledger-dir", tmp_path / "l")
    assert done.code == 1
    assert done.out.splitlines()[1].startswith("FAIL  h100-1, replay  ")
    (path,) = (tmp_path / "l" / "h100-1" / "replays").glob("*.json")
    assert read_ledger(path).row["findings"] == first.row["findings"]
    assert not (tmp_path / "l" / "h100-1" / "head.json").exists()


@pytest.mark.parametrize("name", ["absent.json", "torn.json", "altered.json"])
def test_a_ledger_that_cannot_be_replayed_is_one_error(name, tmp_path):
    ledger = ledger_here(tmp_path / "l")
    text = Path(ledger.file).read_text("utf-8")
    (tmp_path / "torn.json").write_text(text[:-50])
    (tmp_path / "altered.json").write_text(text.replace('"user_id": ', '"user_id": 1'))
    done = pytest_run("--replay", tmp_path / name, "--ledger-dir", tmp_path / "r")
    assert done.code == 4
    assert name in done.err
    assert "Traceback" not in done.both
    assert not (tmp_path / "r").exists()


def test_root_looks_at_a_recorded_tree_and_calls_that_a_rehearsal(tmp_path):
    tree = h100_box().write(tmp_path / "box")
    done = local(tmp_path / "l", "--root", tree)
    assert done.out.splitlines()[1].startswith("PASS  local, rehearsal  ")
    (path,) = (tmp_path / "l" / "local" / "rehearsals").glob("*-8gpu-h100-80gb-hbm3-pass.json")
    assert read_ledger(path).run["kind"] == "rehearsal"


# what is left out


def test_what_is_deselected_is_not_run_and_the_run_incomplete(tmp_path):
    done = local(tmp_path, "-k", "clock")
    assert done.code == 10
    row = the_ledger(tmp_path)
    found = verdicts(row)
    assert found["machine.disk.free[tmp]"] == "not-run"
    assert found["machine.clock.past[box]"] != "not-run"
    assert found["machine.memory.total[box]"] == "not-applicable", "there is nothing to leave out"
    effects = {(f["check"], f["subject"]): f["effect"] for f in row["findings"]}
    assert effects["machine.disk.free", "tmp"] == "incomplete"
    assert "deselected on the command line" in " ".join(done.out.split())


@pytest.mark.parametrize(
    "words", [["-k", "nothing_of_the_kind"], ["-m", "not check"], ["--deselect", "test_machine.py"]]
)
def test_with_everything_deselected_nothing_is_green(words, tmp_path):
    done = local(tmp_path, *words)
    assert done.code not in (0, 1), done.both
    for row in [json.loads(p.read_text()) for p in (tmp_path / "local").glob("2*.json")]:
        assert row["run"]["verdict"] in ("incomplete", "interrupted")


def test_one_test_by_its_id_is_one_test(tmp_path):
    done = command(
        *("-m", "pytest", "preflight/test_machine.py::test_the_clock_is_not_in_the_past"),
        *("--host", "local", "--ledger-dir", tmp_path),
    )
    assert done.code == 10
    found = verdicts(the_ledger(tmp_path))
    assert found["machine.clock.past[box]"] != "not-run"
    assert found["machine.disk.free[tmp]"] == "not-run"


def test_the_subjects_of_the_profile_are_parameters(tmp_path):
    serves = "".join(f'[[serve]]\nname = "org/chat-{n}"\ncommand = "x -t 1"\n' for n in range(3))
    write_profile(tmp_path / "e", "box", serves)
    words = ("--host", "box", "--expected", tmp_path / "e", "--ledger-dir", tmp_path / "l")
    done = pytest_run("--collect-only", *words)
    ids = [line.partition("::")[2] for line in done.out.splitlines() if "::" in line]
    assert "test_engine_threads_fit_the_cpus_it_may_use[org/chat-2]" in ids
    pytest_run(*words, "-k", "chat-1")
    found = verdicts(the_ledger(tmp_path / "l", "box"))
    assert found["machine.cpu.threads[org/chat-1]"] != "not-run"
    assert found["machine.cpu.threads[org/chat-0]"] == "not-run"


def test_collect_only_writes_nothing(tmp_path):
    done = local(tmp_path / "l", "--collect-only")
    assert done.code == 0
    assert not (tmp_path / "l").exists()


# xdist


@pytest.mark.parametrize("words", [["-n", "2"], ["-n2", "--dist", "loadfile"], ["-n", "auto"]])
def test_xdist_is_switched_off_with_one_line_that_says_so(words, tmp_path):
    pytest.importorskip("xdist")
    done = local(tmp_path, *words)
    assert done.code in OK, done.both
    lines = [line for line in done.out.splitlines() if "-n is switched off" in line]
    assert lines == ["preflight: -n is switched off: probes contend, and one run is one ledger"]
    assert "[gw0]" not in done.both
    assert "2 workers" not in done.both
    assert the_ledger(tmp_path)


def test_without_n_there_is_no_such_line(tmp_path):
    assert "switched off" not in local(tmp_path).out


# what is shown


@pytest.mark.parametrize(
    "words", [[], ["-v"], ["-vv"], ["--tb=short"], ["--tb=long", "-l"], ["--tb=native"], ["-rA"]]
)
def test_a_failing_check_shows_its_finding_and_no_line_of_our_sources(words, tmp_path):
    done = failing(tmp_path, *words)
    assert done.code == 1
    assert "machine.memory.total [box]" in done.out
    for word in (
        "Traceback",
        "def test_",
        "judged()",
        "assert ",
        "raise ",
        "FindingFailed",
    ):
        assert word not in done.both, (word, done.both)
    assert not re.search(r"\.py:\d", done.both), done.both


def test_verbose_names_each_verdict(tmp_path):
    out = failing(tmp_path, "-vv").out
    assert "FAIL" in out
    assert "test_all_declared_memory_is_there[box] FAIL" in out
    assert "PASS" in out


def test_junit_has_check_and_verdict_of_each_test(tmp_path):
    done = failing(tmp_path, f"--junitxml={tmp_path / 'junit.xml'}")
    assert done.code == 1
    row = the_ledger(tmp_path / "l", "box")
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    seen = {}
    for case in cases:
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        seen[f"{properties['check']}[{properties['subject']}]"] = properties["verdict"]
        kinds = {child.tag for child in case} - {"properties"}
        wanted = {"fail": {"failure"}, "unknown": {"failure"}, "pass": set()}
        assert kinds == wanted.get(properties["verdict"], {"skipped"})
        for failure in case.iter("failure"):
            assert ".py" not in f"{failure.text} {failure.get('message')}"
    assert seen == {key: value for key, value in verdicts(row).items() if "waiver" not in key}


def test_without_a_terminal_reporter_the_ledger_is_written_all_the_same(tmp_path):
    words = [
        "-c",
        SUITE / "pytest.toml",
        "-o",
        "addopts=--import-mode=importlib",
        "-p",
        "no:terminal",
    ]
    done = command("-m", "pytest", *words, SUITE, "--host", "local", f"--ledger-dir={tmp_path}")
    assert done.code in OK, done.both
    assert done.out == ""
    assert the_ledger(tmp_path)["run"]["end"] == "complete"


def test_piped_output_is_clean_text_within_80_columns(tmp_path):
    done = failing(tmp_path, env=clean_environment(TERM="xterm-256color"))
    assert "\x1b" not in done.both
    assert "\r" not in done.both
    for line in done.out.splitlines():
        assert len(line) <= 80 or line.startswith("  ledger "), line


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_the_report_fits_the_encoding_of_the_terminal(encoding, tmp_path):
    done = failing(tmp_path, env=clean_environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0"))
    assert done.code == 1, done.both
    assert ("·" in done.out) is (encoding == "utf-8")
    assert "failed" in done.out


def test_no_color_and_the_colour_that_one_asks_for(tmp_path):
    assert "\x1b[" in failing(tmp_path, "--color=yes").out
    env = clean_environment(NO_COLOR="1", TERM="xterm")
    assert "\x1b[" not in failing(tmp_path, env=env).out


def test_the_report_says_where_the_ledger_lies(tmp_path):
    out = local(tmp_path).out
    path = next(line for line in out.splitlines() if line.startswith("  ledger "))[9:]
    assert Path(path).is_file()


def test_the_python_that_runs_is_the_one_in_the_ledger(tmp_path):
    local(tmp_path)
    row = the_ledger(tmp_path)
    assert row["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert row["run"]["user_id"] == os.getuid()
