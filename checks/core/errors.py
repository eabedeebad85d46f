"""Every error that preflight raises on purpose.

PreflightError                  one clear text: what, where, what to do
├── InputError                  a file that was handed to us is wrong (all its problems at once)
│   ├── ProfileError            a profile or an expectation file
│   └── LedgerError             a ledger, a journal or a head
├── StoreError                  a folder cannot be read or written (permission, disk full)
│   └── BusyError               another run of the same host holds the folder
└── UsageError                  the command line asks for something that does not exist
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MANY_PROBLEMS = 20
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What would end a line, or do something to a terminal."""


def shortened(text: str, most: int = 60) -> str:
    """Shorten a text for an error."""
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong in one place of one file."""

    file: str
    """Path as the user gave it or as it was found."""
    line: int | None = None
    """Line in the file, counted from 1, where it is known."""
    key: str = ""
    """Path of the key, such as `serve[1].model`."""
    found: str
    """What stands there."""
    wanted: str
    """What should stand there, or what to do."""

    def __str__(self) -> str:
        """Render as `file:line: key: found; wanted`, in one line whatever the key's name is."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f" {self.key}:" if self.key else ""
        text = f"{place}:{key} {self.found}; {self.wanted}"
        return _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PreflightError(Exception):
    """Base of all errors that are shown to the user as text, without a traceback."""


class InputError(PreflightError):
    """A file is wrong. Carries every problem that was found in it, not the first alone."""

    def __init__(self, *problems: Problem) -> None:
        """Collect the problems of one reading."""
        self.problems = problems
        shown = [str(problem) for problem in problems[:MANY_PROBLEMS]]
        if len(problems) > MANY_PROBLEMS:
            shown.append(f"… and {len(problems) - MANY_PROBLEMS} more problems")
        super().__init__("\n".join(shown))


class ProfileError(InputError):
    """A profile or an expectation file cannot be used as it is."""


class LedgerError(InputError):
    """A ledger, a journal or a head cannot be used as it is."""


class StoreError(PreflightError):
    """A folder of ledgers cannot be read or written."""


class BusyError(StoreError):
    """Another run of the same host holds the folder."""


class UsageError(PreflightError):
    """The command line asks for something that does not exist."""
