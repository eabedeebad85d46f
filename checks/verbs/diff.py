"""`preflight diff`: what changed between two ledgers."""

from __future__ import annotations

import argparse

from checks.ledger.diff import Move, difference
from checks.report.text import visible
from checks.verbs.codes import COULD_NOT_TELL, NO, YES
from checks.verbs.ledgers import ONE, add_folder, find
from checks.verbs.shared import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("before", metavar="LEDGER|HOST", help=ONE)
    parser.add_argument("after", metavar="LEDGER|HOST", help=ONE)


def run(given: argparse.Namespace) -> int:
    """Say what changed: components first, then checks."""
    before, after = find(given, given.before), find(given, given.after)
    changed = difference(before, after)
    for part in changed.parts:
        say(visible(f"part   {part.text}"))
    for move in Move:
        for row in changed.findings:
            if row.move is move:
                say(
                    visible(
                        f"{move.value:<15} {row.check} [{row.subject}]: {row.before} → {row.after}"
                    )
                )
    for gap in changed.gaps:
        say(visible(gap))
    if changed.rest_same:
        say("of the rest, nothing changed" if changed.gaps else "nothing changed")
    if changed.nothing:
        return YES
    return COULD_NOT_TELL if changed.rest_same else NO
