"""What standard output can show, for the verbs that print a report or a table."""

from __future__ import annotations

import os
import shutil
import sys

from checks.report.terminal import Style
from checks.verbs.shared import unicode


def style() -> Style:
    """Give what standard output can show."""
    width = shutil.get_terminal_size((80, 24)).columns
    colour = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    return Style(width=width, colour=colour, unicode=unicode())
