"""Asks Python environments whether what is installed in them fits together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checks.core.facts import Blind, Unseen
from checks.core.profile import Profile, Python as Target
from checks.core.registry import probe
from checks.core.world import RECORDED, World
from checks.machine.facts import (
    PythonEnvironment,
)

DEADLINE_S = 120.0
"""`pip check` reads a file for each of hundreds of packages, from a disk that may be cold (assumed)."""
_PIP = "pip check"
_UV = "uv pip check"
_FINE, _COMPLAINS = 0, 1
_CANNOT_RUN, _NOT_FOUND = 126, 127
"""What a shell gives for a command that it cannot start, or cannot find."""
_UNMET = {
    # pip/_internal/commands/check.py
    _PIP: re.compile(r"\S+ \S+ (?:requires|has requirement|is not supported on) \S.*"),
    # crates/uv-installer/src/site_packages.rs
    _UV: re.compile(r"The package `.+"),
}
_NO_PIP = re.compile(r"No module named '?pip'?\s*$", re.MULTILINE)
_VERSION = re.compile(r"Python [0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}", re.ASCII)
_TELL = "import sys; print('Python %d.%d.%d' % sys.version_info[:3])"
"""Not --version, which is printed before the standard library is looked for."""
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "USER")
"""Of the suite's environment, what is no setting of Python's or of a package manager's."""
_QUIET = {
    "NO_COLOR": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "UV_OFFLINE": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}
"""What keeps both tools from writing files and from asking the network."""
_MOST_LINES = 30
_LONGEST_LINE = 300
_LARGEST_OUTPUT = 1_000_000


@dataclass(frozen=True)
class _Said:
    """What came of a command."""

    code: int
    """Of the shell's kind where it could not be started; below 0: the signal that ended it."""
    output: str
    """Both streams, standard output first."""


def _environments(profile: Profile) -> Mapping[str, Target]:
    return {entry.name: entry for entry in profile.python}


@probe("machine.python", sees=PythonEnvironment, targets=_environments, deadline_s=DEADLINE_S)
def read_python(world: World, target: Target) -> PythonEnvironment | Unseen:
    """Ask an interpreter whether what is installed in its environment fits together."""
    path = target.path
    if not world.live:
        said = _recorded(world, path)
        return said if isinstance(said, Unseen) else _environment(path, said, said, _PIP)
    kept = {name: world.environ[name] for name in _KEPT if name in world.environ}
    run = partial(_run, {**kept, **_QUIET})
    try:
        is_file = Path(path).is_file()
    except PermissionError:
        what = f"{path} may not be looked at"
        return Unseen(Blind.PERMISSION, what, "run the suite as the user that works with it")
    if is_file and not os.access(path, os.X_OK):
        remedy = "run the suite as the user that works with it, or make it executable"
        return Unseen(Blind.PERMISSION, f"{path} may not be executed by this user", remedy)
    start = run([path, "-c", _TELL]) if is_file else _Said(_NOT_FOUND, "")
    if start.code == _FINE and not _VERSION.match(start.output):
        start = _Said(_CANNOT_RUN, f"it is no Python: it says {start.output[:80]!r}")
    if start.code != _FINE:
        return _environment(path, start, start, "")
    said = run([path, "-m", "pip", "check"])
    uv = shutil.which("uv", path=world.environ.get("PATH")) if _has_no_pip(said) else None
    if uv is None:
        return _environment(path, start, said, _PIP)
    said = run([uv, "pip", "check", "--no-config", "--no-cache", "--python", path])
    return _environment(path, start, said, _UV)


def _recorded(world: World, path: str) -> _Said | Unseen:
    kept = (world.recorded or {}).get("pip_check")
    row = kept.get(path) if isinstance(kept, dict) else None
    if not isinstance(row, dict) or type(row.get("code")) is not int:
        return Unseen(Blind.NOT_RECORDED, f"pip_check of {path} is not in {RECORDED}")
    return _Said(row["code"], str(row.get("output", "")))


def _run(environment: Mapping[str, str], words: list[str]) -> _Said:
    """Run a command to its end: the runner ends it with this probe where it takes too long."""
    try:
        done = subprocess.run(
            words,
            cwd="/",  # Python looks for modules where it stands
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        return _Said(_CANNOT_RUN, str(error.strerror))
    output = b"\n".join((done.stdout[:_LARGEST_OUTPUT], done.stderr[:_LARGEST_OUTPUT]))
    return _Said(done.returncode, output.decode("utf-8", "backslashreplace").strip())


def _has_no_pip(said: _Said) -> bool:
    return said.code == _COMPLAINS and _NO_PIP.search(said.output) is not None


def _environment(path: str, start: _Said, said: _Said, checker: str) -> PythonEnvironment:
    """Read what a checker said: of an environment that did not start, it said nothing."""
    starts = "ok"
    if start.code == _NOT_FOUND:
        starts = "missing"
    elif start.code == _CANNOT_RUN or not checker:
        starts = _last_line(start) or f"it ended with code {start.code}"
    if starts != "ok" or _has_no_pip(said):
        checker = ""
    lines = said.output.splitlines() if checker else []
    unmet = [line for line in map(str.strip, lines) if _UNMET[checker].fullmatch(line)]
    complaints: tuple[str, ...] | Unseen = tuple(
        line[:_LONGEST_LINE] for line in unmet[:_MOST_LINES]
    )
    if not checker:
        complaints = Unseen(Blind.ABSENT, f"{path} has no pip, and there is no uv on PATH")
    elif said.code != _FINE and not (said.code == _COMPLAINS and unmet):
        what = f"`{checker}` ended with code {said.code}: {_last_line(said)}"
        complaints = Unseen(Blind.MALFORMED, what)
    version = _VERSION.match(start.output)
    warnings = [line for line in map(str.strip, lines) if line.startswith("WARNING:")]
    return PythonEnvironment(
        path=path,
        start=starts,
        version=version[0] if version else Unseen(Blind.ABSENT, f"{path} does not tell"),
        checker=checker,
        complaints=complaints,
        complaints_left_out_count=max(len(unmet) - _MOST_LINES, 0),
        warnings=tuple(line[:_LONGEST_LINE] for line in warnings[:_MOST_LINES]),
    )


def _last_line(said: _Said) -> str:
    return said.output.rpartition("\n")[2][:_LONGEST_LINE]
