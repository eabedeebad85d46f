"""What a run may speak of besides the name of an area; apart, for the gate loads little."""

from __future__ import annotations

ALL, SELECTION, QUICK = "all", "selection", "quick"
"""Everything, what the command line has picked out, and what puts no load on the box."""
