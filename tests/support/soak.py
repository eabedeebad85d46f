"""How often to try what could be tried without end: a share in `make test`, all of it in `make soak`."""

from __future__ import annotations

import os

SOAK = os.environ.get("SOAK") == "1"


def times(all_of_it: int, share: int) -> int:
    """Give the number for this run of the tests."""
    return all_of_it if SOAK else share
