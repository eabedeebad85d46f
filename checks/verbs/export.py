"""`preflight export`: a copy of a ledger that may be shown to strangers."""

from __future__ import annotations

import argparse
import getpass
import os
import pwd
import socket
import sys
from contextlib import suppress

from checks.core.errors import PreflightError
from checks.core.paths import HERE, is_checkout, user_path
from checks.ledger.anonymous import anonymous
from checks.ledger.canonical import pretty
from checks.ledger.files import write_whole
from checks.ledger.schema import problems
from checks.verbs.codes import YES
from checks.verbs.ledgers import ONE, add_folder, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("ledger", metavar="LEDGER|HOST", help=ONE)
    parser.add_argument(
        "--anonymous",
        action="store_true",
        required=True,
        help="leave out names, addresses, serial numbers and home folders; there is no other "
        "kind of copy, and this word says that you know what it leaves out",
    )
    parser.add_argument("--output", metavar="FILE", help="instead of standard output")


def run(given: argparse.Namespace) -> int:
    """Write the copy."""
    ledger = find(given, given.ledger)
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    homes = {os.environ.get("HOME", "")}
    with suppress(KeyError, OSError):  # a container's user may be a mere number
        names.add(getpass.getuser())
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    copy = anonymous(
        ledger,
        names - {"root", "localhost"},
        homes={spelled for home in homes for spelled in _spelled(home)},
        folders=_spelled(str(HERE)) if is_checkout() else (),
    )
    wrong = problems(copy, "the copy")
    if wrong:
        raise PreflightError(f"the copy would be against the schema: {wrong[0]}")
    data = pretty(copy)
    if given.output:
        try:
            write_whole(user_path(given.output), data)
        except OSError as error:
            raise PreflightError(f"{given.output}: cannot be written ({error.strerror})") from error
    else:
        sys.stdout.buffer.write(data)
    return YES


def _spelled(folder: str) -> set[str]:
    """Give a folder as it was named and where its links lead."""
    if not folder.startswith("/"):
        return set()
    return {os.path.normpath(folder), os.path.realpath(folder)}
