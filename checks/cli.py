"""The command `preflight`: finds the verb that is asked for, and loads that one alone.

Exit codes of every verb but `run`: 0 yes or done, 1 the answer is no, 2 usage or unreadable input,
10 could not tell.
"""

from __future__ import annotations

import sys

from checks.verbs.codes import UNSEEN, USAGE, YES

RUN = "run"

try:
    # loading takes a moment, and Ctrl-C in it is no fault of ours that wants a traceback
    import argparse
    import importlib
    import os
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from checks import __version__
    from checks.core.errors import PreflightError
except KeyboardInterrupt:
    text = UNSEEN if sys.argv[1:2] == [RUN] else "interrupted"
    sys.stderr.write(f"preflight: {text}\n")
    sys.exit(USAGE)

VERBS = (
    (RUN, "run the suite: the same as pytest with the suite's own settings"),
    ("show", "print the report of a ledger, or of a host's newest one"),
    ("verify", "was a ledger, or a row of them, altered?"),
    ("replay", "judge again what a ledger recorded"),
    ("diff", "what changed between two ledgers?"),
    ("adopt", "measure this box and write a profile for it"),
    ("accept", "turn what a ledger measured into what is expected from now on"),
    ("explain", "what does a check look at, and what to do?"),
    ("export", "write a copy that may be shown to strangers"),
    ("prune", "remove old ledgers of a host, and leave a trace"),
)
"""Each with its line of help. Its module in `checks.verbs` has its name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Every expected error is one text on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        Path.cwd()
    except OSError as error:
        return _wrong(f"the current folder cannot be used ({error.strerror}): cd to another one")
    try:
        code = _verb_of(words)
        sys.stdout.flush()
    except PreflightError as error:
        return _wrong(str(error))
    except BrokenPipeError:
        # `preflight show … | head`: whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return YES
    except KeyboardInterrupt:
        return _wrong("interrupted")
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return _wrong(f"{where}{error.strerror or error}")
    return code


def _wrong(text: str) -> int:
    from checks.verbs.shared import complain

    complain(text)
    return USAGE


def _verb_of(words: list[str]) -> int:
    code: int
    if words[:1] == [RUN]:
        try:
            start = _module(RUN).start
        except KeyboardInterrupt:
            return _wrong(UNSEEN)
        code = start(words[1:])
    else:
        given = _parser(words).parse_args(words)
        code = given.run(given)
    return code


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"checks.verbs.{verb}")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of all verbs; only the one that is asked for has its arguments."""
    parser = argparse.ArgumentParser(
        prog="preflight",
        description="Is this box fit for work? `preflight run --host NAME` finds out; the other "
        "verbs read what runs have recorded.",
    )
    parser.add_argument("--version", action="version", version=f"preflight {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    asked = next((word for word in words if not word.startswith("-")), "")
    for name, text in VERBS:
        verb = verbs.add_parser(name, help=text, description=text, add_help=name != RUN)
        if name == asked != RUN:
            module = _module(name)
            module.add_arguments(verb)
            verb.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
