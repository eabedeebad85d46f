"""`preflight replay`: judges again what a ledger recorded, with the suite."""

from __future__ import annotations

import argparse

from checks.verbs.ledgers import ONE, add_folder, find
from checks.verbs.run import start
from checks.verbs.shared import FOLDERS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("ledger", metavar="LEDGER|HOST", help=ONE)
    parser.add_argument("--expected", metavar="DIR", action="append", default=[], help=FOLDERS)


def run(given: argparse.Namespace) -> int:
    """Start the suite on it; its exit code is the suite's."""
    ledger = find(given, given.ledger)
    words = ["--replay", ledger.file]
    if given.ledger_dir:
        words += ["--ledger-dir", given.ledger_dir]
    for folder in given.expected:
        words += ["--expected", folder]
    return start(words)
