"""The way to the reader: a pipe that closes, or a full disk, must not change what a run says."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class Output:
    """A text file that goes on where nobody reads it any more; remembers the first error."""

    def __init__(self, file: TextIO) -> None:
        """Wrap a file."""
        self.file = file
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the file has
        """Be the file in everything else."""
        return getattr(self.file, name)

    def write(self, text: str) -> int:
        """Write, if that still works."""
        if self.error is None:
            try:
                return self.file.write(text)
            except OSError as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        """Flush, if that still works."""
        if self.error is None:
            try:
                self.file.flush()
            except OSError as error:
                self.error = error

    def give_up(self) -> None:
        """Lead what is left in the buffer of standard output nowhere.

        Else the interpreter would try again on its way out, and end with a code of its own.
        """
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        with suppress(OSError):
            sys.stdout.flush()


def whisper(text: str) -> None:
    """Write to standard error, which may be gone."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
