"""Runs: within this process for speed, or as a user starts them, in a process of their own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.cli import main
from checks.ledger.document import Ledger
from checks.ledger.schema import read_ledger
from checks.session import Options, Session, open_session

HERE = Path(__file__).resolve().parents[2]
SUITE = HERE / "preflight"
LEDGER_1 = HERE / "tests" / "data" / "ledgers" / "ledger-1"
"""Ledgers of schema version 1, which must stay readable for ever."""


def write_profile(folder: Path, host: str, text: str) -> Path:
    """Write `folder/hosts/<host>.toml` and give the folder of expectations."""
    path = folder / "hosts" / f"{host}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"schema = 1\n{text}", "utf-8")
    return folder


def run_here(folder: Path, host: str = "local", **options: Any) -> Session:
    """Run the whole suite within this process, without pytest in between."""
    session = begin_here(folder, host, **options)
    for key in session.planned():
        session.judge(*key)
    session.look()
    session.finish()
    return session


def begin_here(folder: Path, host: str = "local", **options: Any) -> Session:
    """Begin a run: the journal's first line is on disk."""
    session = open_session(Options(host=host, ledger_dir=str(folder), **options))
    session.begin(lambda _: None)
    return session


def ledger_here(folder: Path, host: str = "local", **options: Any) -> Ledger:
    """Run the suite within this process and read the ledger that it wrote."""
    session = run_here(folder, host, **options)
    assert session.path is not None
    return read_ledger(session.path)


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def both(self) -> str:
        return self.out + self.err


def clean_environment(**more: str) -> dict[str, str]:
    """Give this process's environment without what steers pytest, preflight or terminals."""
    dropped = ("PYTEST", "PREFLIGHT", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    kept |= {"COLUMNS": "80", "TERM": "dumb"}
    if "PYTHONPYCACHEPREFIX" not in kept:  # bytecode has a place of its own, or none
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**kept, **more}


def command(
    *words: object,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout_s: float = 60.0,
    python: str = sys.executable,
) -> Done:
    """Run this Python with these words, as a user would."""
    done = subprocess.run(
        [python, *map(str, words)],
        cwd=cwd or HERE,
        env=env or clean_environment(),
        capture_output=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Done(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def pytest_run(*words: object, **rest: Any) -> Done:
    """Run `pytest preflight/ WORDS` from the checkout."""
    return command("-m", "pytest", SUITE, *words, **rest)


def cli(*words: object, **rest: Any) -> Done:
    """Run `preflight WORDS` from the checkout, uninstalled."""
    env = dict(rest.pop("env", None) or clean_environment())
    env["PYTHONPATH"] = str(HERE)
    return command("-m", "checks.cli", *words, env=env, **rest)


def main_as(uid: int, folder: Path, *words: object) -> tuple[int, str]:
    """Run `preflight WORDS` as another user (0: as this one); gives exit code and all it said.

    In a fork of this process, which has everything loaded: that user may not read this Python.
    """
    importlib.import_module(f"checks.verbs.{words[0]}")
    "".encode("utf-16be")  # a codec is loaded on its first use, for the digest
    out = folder / f"said-{uuid.uuid4().hex}.txt"
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT, 0o666)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            code = main([*map(str, words)])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), out.read_text("utf-8")


def the_ledger(folder: Path, host: str = "local") -> dict[str, Any]:
    """Read the one ledger of a host."""
    found = sorted((folder / host).glob("*Z-*.json"))
    assert len(found) == 1, found
    row: dict[str, Any] = json.loads(found[0].read_text("utf-8"))
    return row
