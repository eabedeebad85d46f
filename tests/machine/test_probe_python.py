"""What is read of Python environments: real ones, broken as they break, and recorded ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.profile import Python
from checks.core.world import World
from checks.machine.probe.python import read_python
from tests.support.boxes import plain_box

UNMET = "planted 1.0 requires missing-thing, which is not installed."


def look(path: object):
    return read_python(World(), Python(name="venv", path=str(path)))


def venv(folder: Path, *, pip: bool = True) -> Path:
    """Make a real virtual environment, and give its interpreter."""
    words = [] if pip else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", *words, folder], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    return venv(tmp_path_factory.mktemp("venv") / "v")


def install(python: Path, name: str, *requires: str, version: str = "1.0") -> Path:
    """Put a package of metadata alone into an environment, as no index is needed for."""
    (site,) = python.parent.parent.glob("lib/python3*/site-packages")
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "INSTALLER").write_text("pip\n")
    return folder


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_an_environment_that_fits_together_has_no_complaint(python):
    seen = look(python)
    assert (seen.start, seen.checker, seen.complaints) == ("ok", "pip check", ())
    assert seen.version == "Python {}.{}.{}".format(*sys.version_info[:3])


def test_unmet_requirements_are_told_line_by_line(python):
    folders = [
        install(python, "planted", "missing-thing", "pip<1"),
        install(python, "fine", "pip>=1", 'other; python_version < "3"'),
    ]
    try:
        seen = look(python)
    finally:
        for folder in folders:
            remove(folder)
    first, second = sorted(seen.complaints)
    assert first.startswith("planted 1.0 has requirement pip<1, but you have pip ")
    assert second == UNMET
    assert seen.complaints_left_out_count == 0


def test_more_complaints_than_are_kept_are_counted(python):
    folder = install(python, "planted", *(f"missing-{number}" for number in range(40)))
    try:
        seen = look(python)
    finally:
        remove(folder)
    assert (len(seen.complaints), seen.complaints_left_out_count) == (30, 10)


def test_the_suites_own_settings_do_not_reach_it(python, tmp_path, monkeypatch):
    """With them, the environment would seem to hold what it does not, or not to start at all."""
    (tmp_path / "pip.py").write_text("print('not pip')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "nonsense")
    monkeypatch.chdir(tmp_path)
    seen = look(python)
    assert (seen.start, seen.complaints) == ("ok", ())


def test_it_writes_nothing_into_the_environment(python):
    before = sorted(python.parent.parent.rglob("*"))
    look(python)
    assert sorted(python.parent.parent.rglob("*")) == before


def test_a_path_without_a_file_is_missing(tmp_path, python):
    dangling = tmp_path / "python"
    dangling.symlink_to(tmp_path / "gone")
    for path in (tmp_path / "nothing", dangling, tmp_path, python / "x"):
        assert look(path).start == "missing", path


def test_what_does_not_start_says_how(tmp_path):
    cases = {
        "#!/bin/sh\nexit 0\n": "it is no Python: it says ''",
        "#!/bin/sh\necho broken >&2; exit 3\n": "broken",
        "#!/bin/sh\nexit 3\n": "it ended with code 3",
        "#!/bin/sh\nkill -SEGV $$\n": "it ended with code -11",
        "#!/nonexistent/python\n": "No such file or directory",
        "\x7fELF garbage": "Exec format error",
    }
    for number, (text, says) in enumerate(cases.items()):
        path = tmp_path / f"python{number}"
        path.write_text(text)
        path.chmod(0o755)
        seen = look(path)
        assert seen.start == says, text
        assert (seen.checker, isinstance(seen.complaints, Unseen)) == ("", True)


def test_a_file_that_may_not_be_executed_is_no_verdict(tmp_path):
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o644)
    seen = look(path)
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.PERMISSION


UV = """#!/bin/sh
echo "$@" > {log}
echo 'Checked 2 packages in 1ms' >&2
{rest}
"""


@pytest.mark.parametrize(
    ("rest", "complaints"),
    [
        ("exit 0", 0),
        ("echo 'Found 1 incompatibility' >&2; echo 'The package `a` requires `b`, but it'\"'\"'s not installed' >&2; exit 1", 1),
        ("echo 'error: no virtual environment' >&2; exit 2", None),
        ("exit 1", None),
    ],
)  # fmt: skip
def test_an_environment_without_pip_is_asked_through_uv(tmp_path, monkeypatch, rest, complaints):
    python = venv(tmp_path / "v", pip=False)
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV.format(log=tmp_path / "log", rest=rest))
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:/usr/bin:/bin")
    seen = look(python)
    assert (seen.start, seen.checker) == ("ok", "uv pip check")
    words = (tmp_path / "log").read_text().split()
    assert words == ["pip", "check", "--no-config", "--no-cache", "--python", str(python)]
    if complaints is None:
        assert seen.complaints.reason is Blind.MALFORMED
    else:
        assert len(seen.complaints) == complaints


def test_an_environment_without_pip_on_a_box_without_uv_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    seen = look(venv(tmp_path / "v", pip=False))
    assert (seen.start, seen.checker, seen.complaints.reason) == ("ok", "", Blind.ABSENT)


def test_a_pip_that_is_itself_broken_is_no_complaint_about_packages(tmp_path):
    python = venv(tmp_path / "v", pip=False)
    (site,) = (tmp_path / "v").glob("lib/python3*/site-packages")
    (site / "pip").mkdir()
    (site / "pip" / "__main__.py").write_text("raise SystemError('broken')\n")
    seen = look(python)
    assert (seen.start, seen.checker) == ("ok", "pip check")
    assert "`pip check` ended with code 1: SystemError: broken" in seen.complaints.detail


# recorded


def recorded(tmp_path, row: object):
    box = plain_box()
    box.recorded["pip_check"] = {"/v/bin/python": row}
    world = World(box.write(tmp_path / "tree"))
    return read_python(world, Python(name="venv", path="/v/bin/python"))


def test_what_was_recorded_is_read_as_what_is_seen(tmp_path):
    seen = recorded(tmp_path, {"code": 0, "output": "No broken requirements found.\n"})
    assert (seen.start, seen.complaints) == ("ok", ())
    output = f"{UNMET}\nWARNING: Ignoring invalid distribution -x\n"
    seen = recorded(tmp_path / "b", {"code": 1, "output": output})
    assert seen.complaints == (UNMET,)
    assert seen.warnings == ("WARNING: Ignoring invalid distribution -x",)
    assert recorded(tmp_path / "c", {"code": 127}).start == "missing"
    assert recorded(tmp_path / "d", {"code": 126, "output": "x"}).start == "x"
    seen = recorded(tmp_path / "e", {"code": 1, "output": "/v/bin/python: No module named pip"})
    assert (seen.checker, seen.complaints.reason) == ("", Blind.ABSENT)


@pytest.mark.parametrize("row", [None, [], {}, {"code": "0"}, {"code": True}, {"output": "x"}])
def test_what_was_recorded_wrongly_is_not_recorded(tmp_path, row):
    assert recorded(tmp_path, row).reason is Blind.NOT_RECORDED
