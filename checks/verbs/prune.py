"""`preflight prune`: removes old ledgers of a host, and leaves a trace."""

from __future__ import annotations

import argparse

from checks.core.errors import UsageError
from checks.ledger.prune import prune
from checks.verbs.codes import YES
from checks.verbs.ledgers import add_folder, host_folder
from checks.verbs.shared import say

MOST_LEDGERS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("host", metavar="HOST", help="name of the host")
    parser.add_argument(
        "--keep",
        metavar="N",
        type=_count,
        required=True,
        help="how many stay, counted from the newest: 1 or more",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_LEDGERS:
        raise argparse.ArgumentTypeError("wanted: a number of ledgers, 1 or more")
    return int(text)


def run(given: argparse.Namespace) -> int:
    """Remove what is older than those that stay."""
    folder = host_folder(given, given.host)
    if not folder.path.is_dir():
        raise UsageError(f"{folder.path}: there is no such folder of ledgers")
    removed = prune(folder, given.keep)
    for name in removed:
        say(f"removed {name}")
    if not removed and not folder.ledgers():
        say("nothing to prune: there is no ledger yet")
        return YES
    say(f"{len(removed)} removed; verify accepts that")
    return YES
