"""`preflight run`: the suite, through pytest, with the suite's own settings."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from checks.core.paths import suite_config
from checks.verbs.codes import UNSEEN, USAGE, YES
from checks.verbs.shared import say


class _RunOptions:
    """Takes the suite's options as pytest's parser would, and shows those alone."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(
            prog="preflight run",
            usage="preflight run --host NAME [options, pytest's too]",
            description="Run the suite: the same as pytest with the suite's own settings.",
            epilog="Every other option goes to pytest, such as -v, -k or -x: `pytest --help` "
            "lists them.",
            add_help=False,
        )
        self.group = self.parser.add_argument_group("options")

    def getgroup(self, _name: str, _description: str = "") -> _RunOptions:
        """Give the only group that there is."""
        return self

    def addoption(self, *names: str, **settings: object) -> None:
        """Add an option. pytest's own parser takes these words just so."""
        self.group.add_argument(*names, **settings)  # type: ignore[arg-type]


class _Start:
    """Ends a run at Ctrl-C as long as nothing was looked at; from then on the suite sees to it.

    It ends at once. An exception would come out of whatever is being loaded as a traceback, or
    as another error that it was wrapped in.
    """

    def __init__(self) -> None:
        self.begun = False
        self.before = signal.getsignal(signal.SIGINT)
        self.stderr = os.dup(2)
        """Of our own: pytest takes the usual one while it loads."""
        if self.before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """End, or let the run be interrupted as any other program."""
        if self.begun:
            signal.default_int_handler(number, frame)
        with suppress(OSError):
            os.write(self.stderr, f"preflight: {UNSEEN}\n".encode())
        os._exit(USAGE)

    def pytest_preflight_begun(self) -> None:
        """Note, as a plugin of pytest, that the journal's first line is on disk."""
        self.begun = True

    def over(self) -> None:
        """Leave the signal as it was found."""
        os.close(self.stderr)
        signal.signal(signal.SIGINT, self.before)


def start(words: Sequence[str]) -> int:
    """Run the suite through pytest, with the suite's own settings."""
    if {"-h", "--help"} & set(words):
        from preflight.plugin import pytest_addoption

        options = _RunOptions()
        pytest_addoption(options)  # type: ignore[arg-type] # has what is used of a parser
        say(options.parser.format_help().rstrip())
        return YES
    begin = _Start()
    try:
        import pytest  # here, where Ctrl-C is seen to: it takes its time

        config = suite_config()
        named = (
            []
            if any("::" in word or word.endswith(".py") for word in words)
            # by its path: for `--pyargs preflight`, pytest would load a conftest.py of the current folder
            else [str(config.parent)]
        )
        settings = ["-c", str(config), f"--rootdir={config.parent}"]
        return int(pytest.main([*settings, *named, *words], plugins=[begin]))
    finally:
        begin.over()
