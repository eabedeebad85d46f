"""`preflight show`: the report of a ledger."""

from __future__ import annotations

import argparse
import sys

from checks.core.errors import LedgerError
from checks.core.registry import load_areas
from checks.core.verdict import RunVerdict
from checks.ledger.document import Ledger
from checks.ledger.schema import whole
from checks.report.terminal import render
from checks.report.text import visible
from checks.verbs.codes import COULD_NOT_TELL, NO, YES
from checks.verbs.ledgers import ONE, add_folder, find
from checks.verbs.screen import style
from checks.verbs.shared import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("ledger", metavar="LEDGER|HOST", help=ONE)


def run(given: argparse.Namespace) -> int:
    """Print the report; an altered ledger says so first, and is no answer."""
    load_areas()
    ledger = find(given, given.ledger, altered=True)
    try:
        whole(ledger)
    except LedgerError as error:
        say(visible(f"ALTERED  {error}"))
        sys.stdout.write(render(ledger, style(), path=ledger.file))
        return COULD_NOT_TELL
    sys.stdout.write(render(ledger, style(), path=ledger.file))
    return _answer(ledger)


def _answer(ledger: Ledger) -> int:
    """Give the exit code that says whether the box passed."""
    verdict = RunVerdict(ledger.run["verdict"])
    return {RunVerdict.PASS: YES, RunVerdict.FAIL: NO}.get(verdict, COULD_NOT_TELL)
