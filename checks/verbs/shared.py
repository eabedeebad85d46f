"""What the verbs say, and how: to a terminal that may know no more than ASCII."""

from __future__ import annotations

import os
import sys

from checks.core.redact import ENVIRONMENT_SECRETS, redact_text
from checks.report.text import ascii_only, visible, wants_ascii

FOLDERS = "look for profiles and numbers in DIR first; may be given several times"
"""Help of --expected."""


def complain(text: str) -> None:
    """Say on standard error what is wrong."""
    shown = visible(redact_text(f"preflight: {text}", ENVIRONMENT_SECRETS))
    encoding = sys.stderr.encoding or "ascii"
    print(shown.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def say(text: str) -> None:
    """Print an answer."""
    print(text if unicode() else ascii_only(text))


def unicode() -> bool:
    """Whether standard output takes more than ASCII."""
    return not wants_ascii(os.environ, sys.stdout.encoding)
