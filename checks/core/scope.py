"""What a run may speak of; apart, for the gate loads little."""

from __future__ import annotations

ALL, SELECTION, QUICK = "all", "selection", "quick"
"""Everything, what the command line has picked out, and what puts no load on the box."""
AREAS = ("machine",)
"""Packages under `checks` that register probes and checks, in the order in which reports list them."""


def area_of(check: str) -> str:
    """Name the area of a check: the first part of its id."""
    return check.partition(".")[0]
