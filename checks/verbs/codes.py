"""What is said before anything else is loaded: exit codes, and that nothing was looked at.

The codes are those of every verb but `run`, whose codes are the suite's.
"""

from __future__ import annotations

YES = 0
"""Yes, or done."""
NO = 1
"""The answer is no."""
USAGE = 2
"""A mistake of the command line, or an input that cannot be read."""
COULD_NOT_TELL = 10
UNSEEN = "interrupted before anything was looked at; no ledger was written"
"""Of a run that Ctrl-C ends while it loads."""
