"""Finds the ledger or the host that a verb was asked about, by its path or its name."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from checks.core.errors import BusyError, LedgerError, Problem, StoreError, UsageError
from checks.core.paths import HOST_NAME, ledger_folder
from checks.core.registry import load_areas
from checks.ledger.document import Ledger
from checks.ledger.head import HEAD
from checks.ledger.schema import read_ledger, whole
from checks.ledger.store import HostFolder
from checks.verbs.shared import complain

ONE = "path of a ledger, or name of a host: its newest one"


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Let a verb be told where the ledgers lie."""
    parser.add_argument("--ledger-dir", metavar="DIR", help="folder of all hosts' ledgers")


def host_folder(given: argparse.Namespace, host: str) -> HostFolder:
    """Name the folder of a host that is given by its name, or by that very folder."""
    if os.sep in host and Path(host).is_dir():
        path = Path(host).resolve()
        if not (path / HEAD).is_file():
            raise UsageError(f"{host}: is a folder, and none with a {HEAD}; give the host's name")
        return HostFolder(path.parent, path.name)
    if not HOST_NAME.fullmatch(host):
        raise UsageError(f"{host!r} is neither a file nor the name of a host")
    return HostFolder(ledger_folder(given.ledger_dir), host)


def hosts_beside(folder: HostFolder) -> str:
    """List the hosts that have ledgers in the same folder."""
    known = sorted(path.parent.name for path in folder.path.parent.glob(f"*/{HEAD}"))
    return f"hosts there: {', '.join(known) or 'none'}"


def is_path(text: str) -> bool:
    """Whether an argument is meant as a path, and not as the name of a host."""
    path = Path(text)
    return path.is_file() or (not path.is_dir() and (os.sep in text or text.endswith(".json")))


def find(given: argparse.Namespace, text: str, *, altered: bool = False) -> Ledger:
    """Read a ledger by its path, or the newest one of a host.

    Raises:
        LedgerError: it cannot be read; or its digest does not fit, unless `altered` permits that.

    """
    if is_path(text):
        ledger = read_ledger(Path(text))
        return ledger if altered else whole(ledger)
    folder = host_folder(given, text)
    if not folder.path.is_dir():
        raise UsageError(
            f"{text}: neither a file nor a host with ledgers in {folder.path.parent}; "
            f"{hosts_beside(folder)}"
        )
    _recover(folder)
    try:
        newest = folder.newest() if folder.head() else folder.tip()
    except LedgerError as error:
        found = "so the newest ledger is not surely known"
        wanted = f"`preflight verify {text}` tells more; or give the path of a ledger"
        next_ = Problem(file=str(folder.path), found=found, wanted=wanted)
        raise LedgerError(*error.problems, next_) from error
    if newest is None and folder.ledgers():
        raise UsageError(
            f"{folder.path}: without {HEAD} no ledger is surely the newest; "
            f"`preflight verify {text}` tells more; or give the path of a ledger"
        )
    if newest is None and any((folder.path / "rehearsals").glob("*Z-*.json")):
        raise UsageError(f"{folder.path}: there are only rehearsals; give the path of one")
    if newest is None:
        raise UsageError(f"{folder.path}: there is no ledger yet; `preflight run` makes one")
    return newest


def _recover(folder: HostFolder) -> None:
    """Recover what crashed runs left, unless one is under way just now."""
    if not folder.journals():
        return
    try:
        folder.lock()
        for path, what in folder.recover(load_areas()):
            complain(f"{path.name}: {what}")
    except BusyError:
        complain(f"a run of {folder.host} is under way; what follows is older")
    except StoreError as error:
        complain(f"an interrupted run waits to be recovered; what follows is older.\n{error}")
    finally:
        folder.unlock()
