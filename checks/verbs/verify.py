"""`preflight verify`: whether a ledger, or a host's row of them, is as it was written."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from checks.ledger.canonical import readable
from checks.ledger.head import HEAD
from checks.ledger.schema import read_ledger
from checks.ledger.verify import Report, verify_file, verify_row
from checks.report.text import visible
from checks.verbs.codes import COULD_NOT_TELL, NO, YES
from checks.verbs.ledgers import add_folder, host_folder, hosts_beside, is_path
from checks.verbs.shared import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument(
        "ledger", metavar="LEDGER|HOST", help="path of a ledger, or name of a host: all of its row"
    )
    parser.add_argument(
        "--expect",
        metavar="DIGEST",
        type=_digest,
        help="a digest that was kept elsewhere: `sha256:` and 64 hex digits",
    )


def _digest(text: str) -> str:
    if not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", text.lower()):
        raise argparse.ArgumentTypeError("wanted: `sha256:` and 64 hex digits")
    return text.lower()


def run(given: argparse.Namespace) -> int:
    """Verify and say what is wrong, what is good, and what cannot be seen from here."""
    if is_path(given.ledger):
        readable(Path(given.ledger))
        if Path(given.ledger).name == HEAD:
            read_ledger(Path(given.ledger))  # says which ledger is meant
        report = verify_file(Path(given.ledger), given.expect or "")
    else:
        folder = host_folder(given, given.ledger)
        report = verify_row(folder, given.expect or "")
        if not folder.path.is_dir():
            report.notes.append(hosts_beside(folder))
        if folder.journals():
            report.notes.append(
                "a journal is waiting: `preflight show` or the next run recovers it"
            )
    _print(report)
    if not report.wrong and not report.good:
        return COULD_NOT_TELL
    return NO if report.wrong else YES


def _print(report: Report) -> None:
    for line in report.wrong:
        say(visible(f"WRONG  {line}"))
    for line in report.good:
        say(visible(f"ok     {line}"))
    for line in report.notes:
        say(visible(f"note   {line}"))
