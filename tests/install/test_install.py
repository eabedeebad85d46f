"""Installed from a wheel, installed for development, and from a checkout that nobody may write to.

Each environment is made anew. What the suite depends on comes from the environment of the tests, so that no
index is asked; the suite itself does not, since that environment runs it uninstalled.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from checks.ledger.verify import verify_file
from tests.support.runs import HERE, clean_environment

pytestmark = pytest.mark.slow

OK = (0, 10)
"""On some machines this user cannot see all that is required."""
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
FOLDERS = ("checks", "preflight", "expected", "ledgers")


def command(*words, cwd, **settings):
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean_environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def sources(folder: Path) -> Path:
    """Copy what a package is built from, so that nothing is written beside the real one."""
    folder.mkdir()
    for name in SOURCES:
        shutil.copy(HERE / name, folder / name)
    for name in FOLDERS:
        leave = shutil.ignore_patterns("__pycache__", "*Z-*.json")
        shutil.copytree(HERE / name, folder / name, ignore=leave)
    return folder


def environment(folder: Path) -> Path:
    """Make a virtual environment with the packages of this one; gives its folder of programs."""
    done = command(sys.executable, "-m", "venv", folder, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (own / "packages-of-the-tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree = sources(folder / "tree")
    done = command(
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=tree
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    programs = environment(tmp_path_factory.mktemp("installed") / "venv")
    words = ("-m", "pip", "install", "--no-index", "--no-deps", wheel)
    done = command(programs / "python", *words, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return programs


def ledger_of(folder: Path) -> Path:
    (path,) = folder.glob("local/2*.json")
    return path


def test_the_wheel_carries_profiles_schemas_and_settings_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "preflight/pytest.toml",
        "preflight/test_machine.py",
        "expected/hosts/example-h100.toml",
        "expected/schema/profile-1.json",
        "ledgers/schema/ledger-1.json",
        "ledgers/schema/head-1.json",
    ):
        assert any(name.endswith(wanted) for name in names), wanted
    assert not [name for name in names if name.startswith("tests/") or "Z-" in name]


def test_the_command_of_a_wheel_runs_the_suite_from_any_folder(installed, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not ours')\n")
    ledgers = tmp_path / "l"
    words = ("--host", "local", "--ledger-dir", ledgers)
    done = command(installed / "preflight", "run", *words, cwd=tmp_path)
    assert done.returncode in OK, done.stdout + done.stderr
    assert done.stdout.splitlines()[1].split()[:2] in (["PASS", "local"], ["INCOMPLETE", "local"])
    path = ledger_of(ledgers)
    assert verify_file(path).wrong == []
    shown = command(installed / "preflight", "show", "local", "--ledger-dir", ledgers, cwd="/")
    assert shown.returncode == done.returncode
    assert path.name in shown.stdout
    again = command(
        installed / "preflight", "replay", path, "--ledger-dir", tmp_path / "r", cwd="/"
    )
    assert again.returncode == done.returncode, again.stdout + again.stderr
    known = command(installed / "preflight", "explain", "machine.clock.past", cwd="/")
    assert "What to do:" in known.stdout


@pytest.mark.parametrize("words", [[], ["--host", "local"]], ids=["without a host", "with one"])
def test_the_bare_form_of_a_wheel_is_refused_with_the_line_that_helps(words, installed, tmp_path):
    begin = ("-m", "pytest", "--pyargs", "preflight")
    done = command(installed / "python", *begin, *words, cwd=tmp_path)
    assert done.returncode == 4
    assert "warning" not in done.stdout + done.stderr
    assert "preflight run --host NAME" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_without_a_word_on_it_ledgers_of_a_wheel_go_to_the_state_of_the_user(installed, tmp_path):
    state = tmp_path / "state"
    done = command(
        *(installed / "preflight", "run", "--host", "local"),
        cwd=tmp_path,
        XDG_STATE_HOME=str(state),
    )
    assert done.returncode in OK, done.stdout + done.stderr
    assert ledger_of(state / "preflight").is_file()


def test_an_unknown_host_of_a_wheel_is_one_error(installed, tmp_path):
    done = command(installed / "preflight", "run", "--host", "h100-9", cwd=tmp_path)
    assert done.returncode == 4
    assert "example-h100" in done.stderr
    assert "DIR/hosts/h100-9.toml (a folder of your own, named with --expected DIR)" in done.stderr
    copied = done.stderr.partition("copy ")[2].partition(" to DIR")[0]
    (tmp_path / "mine" / "hosts").mkdir(parents=True)
    shutil.copy(copied, tmp_path / "mine" / "hosts" / "h100-9.toml")
    words = ("--host", "h100-9", "--expected", "mine", "--ledger-dir", "l")
    done = command(installed / "preflight", "run", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stdout  # no machine of ours is that box
    assert list((tmp_path / "l" / "h100-9").glob("*-fail.json"))


def test_installed_for_development_the_checkout_is_what_runs(tmp_path):
    tree = sources(tmp_path / "tree")
    programs = environment(tmp_path / "venv")
    words = ("install", "--no-index", "--no-deps", "--no-build-isolation", "--editable", tree)
    done = command(programs / "python", "-m", "pip", *words, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    mark = "said by the checkout"
    judge = tree / "checks" / "machine" / "judge" / "clock.py"
    text = judge.read_text("utf-8").replace("clock and time since boot run evenly", mark)
    judge.write_text(text, "utf-8")
    ledgers = tmp_path / "l"
    words = ("run", "--host", "local", "--ledger-dir", ledgers)
    done = command(programs / "preflight", *words, cwd=tmp_path)
    assert done.returncode in OK, done.stdout + done.stderr
    assert mark in ledger_of(ledgers).read_text("utf-8")


def test_from_a_checkout_that_nobody_may_write_to(tmp_path):
    tree = sources(tmp_path / "tree")
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    ledgers = tmp_path / "l"
    words = ["-m", "pytest", "preflight/", "--host", "local"]
    prefix = []
    if os.geteuid() == 0:  # root writes where it likes, unless it is without the capability
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv: not installed, and root may write everywhere")
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
        prefix += ["--inh-caps=-all", "--"]
    done = command(*prefix, sys.executable, *words, "--ledger-dir", ledgers, cwd=tree)
    assert done.returncode in OK, done.stdout + done.stderr
    assert verify_file(ledger_of(ledgers)).wrong == []
    refused = command(*prefix, sys.executable, *words, cwd=tree)
    assert refused.returncode == 4
    assert "--ledger-dir" in refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
