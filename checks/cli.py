"""The command `preflight`: everything besides the run itself, and the run for installed use.

Exit codes of every verb but `run`: 0 yes or done, 1 the answer is no, 2 usage or unreadable input,
10 could not tell.
"""

from __future__ import annotations

import sys

try:
    # loading takes a moment, and Ctrl-C in it is no fault of ours that wants a traceback
    import argparse
    import getpass
    import os
    import pwd
    import re
    import shlex
    import shutil
    import signal
    import socket
    import textwrap
    from collections.abc import Mapping, Sequence
    from contextlib import suppress
    from dataclasses import fields, is_dataclass
    from pathlib import Path
    from types import FrameType

    from checks import __version__
    from checks.core.errors import (
        BusyError,
        LedgerError,
        PreflightError,
        Problem,
        StoreError,
        UsageError,
    )
    from checks.core.expectation import Expected, NotDeclared, Wanted
    from checks.core.load import HOST_NAME, LOCAL_HOST, load_host
    from checks.core.outcome import WAIVER_CAUSES, WAIVER_CHECK, waiver_findings
    from checks.core.paths import (
        HERE,
        expected_folders,
        is_checkout,
        ledger_folder,
        suite_config,
        user_path,
    )
    from checks.core.redact import ENVIRONMENT_SECRETS, redact_text
    from checks.core.registry import Check, cases_of, load_areas
    from checks.core.units import bytes_text
    from checks.core.verdict import RunVerdict
    from checks.ledger.anonymous import anonymous
    from checks.ledger.canonical import pretty, readable
    from checks.ledger.diff import Move, difference
    from checks.ledger.document import Ledger
    from checks.ledger.prune import prune
    from checks.ledger.schema import problems, read_ledger, whole
    from checks.ledger.store import HEAD, HostFolder, write_whole
    from checks.ledger.verify import Report, verify_file, verify_row
    from checks.report.terminal import Style, render
    from checks.report.text import ascii_only, visible, wants_ascii
except KeyboardInterrupt:
    unseen = " before anything was looked at; no ledger was written"
    sys.stderr.write(f"preflight: interrupted{unseen if sys.argv[1:2] == ['run'] else ''}\n")
    sys.exit(2)

YES, NO, USAGE, COULD_NOT_TELL = 0, 1, 2, 10
MOST_LEDGERS = 1_000_000
BYTES = "By"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Every expected error is one text on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        Path.cwd()
    except OSError as error:
        _complain(f"the current folder cannot be used ({error.strerror}): cd to another one")
        return USAGE
    try:
        code = _verb_of(words)
        sys.stdout.flush()
    except PreflightError as error:
        _complain(str(error))
        return USAGE
    except BrokenPipeError:
        # `preflight show … | head`: whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return YES
    except KeyboardInterrupt:
        _complain("interrupted")
        return USAGE
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        _complain(f"{where}{error.strerror or error}")
        return USAGE
    return code


def _verb_of(words: list[str]) -> int:
    if words[:1] == ["run"]:
        return _run(words[1:])
    given = _parser().parse_args(words)
    code: int = given.verb(given)
    return code


def _complain(text: str) -> None:
    shown = visible(redact_text(f"preflight: {text}", ENVIRONMENT_SECRETS))
    encoding = sys.stderr.encoding or "ascii"
    print(shown.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def _say(text: str) -> None:
    print(text if _unicode() else ascii_only(text))


def _unicode() -> bool:
    return not wants_ascii(os.environ, sys.stdout.encoding)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="preflight",
        description="Is this box fit for work? `preflight run --host NAME` finds out; the other "
        "verbs read what runs have recorded.",
    )
    parser.add_argument("--version", action="version", version=f"preflight {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    verbs.add_parser(
        "run",
        help="run the suite: the same as pytest with the suite's own settings",
        add_help=False,
    )

    one = "path of a ledger, or name of a host: its newest one"
    folders = "look for profiles and numbers in DIR first; may be given several times"

    show = _verb(verbs, "show", _show, "print the report of a ledger, or of a host's newest one")
    show.add_argument("ledger", metavar="LEDGER|HOST", help=one)

    verify = _verb(verbs, "verify", _verify, "was a ledger, or a row of them, altered?")
    verify.add_argument(
        "ledger", metavar="LEDGER|HOST", help="path of a ledger, or name of a host: all of its row"
    )
    verify.add_argument(
        "--expect",
        metavar="DIGEST",
        type=_digest,
        help="a digest that was kept elsewhere: `sha256:` and 64 hex digits",
    )

    replay = _verb(verbs, "replay", _replay, "judge again what a ledger recorded")
    replay.add_argument("ledger", metavar="LEDGER|HOST", help=one)
    replay.add_argument("--expected", metavar="DIR", action="append", default=[], help=folders)

    diff = _verb(verbs, "diff", _diff, "what changed between two ledgers?")
    diff.add_argument("before", metavar="LEDGER|HOST", help=one)
    diff.add_argument("after", metavar="LEDGER|HOST", help=one)

    explain = _verb(verbs, "explain", _explain, "what does a check look at, and what to do?")
    explain.add_argument(
        "check", metavar="CHECK", nargs="?", help="such as machine.cpu.threads; without: a list"
    )
    explain.add_argument(
        "--host",
        metavar="NAME",
        default=LOCAL_HOST,
        help=f"the host whose expected numbers are shown; without: {LOCAL_HOST}",
    )
    explain.add_argument("--expected", metavar="DIR", action="append", default=[], help=folders)

    export = _verb(verbs, "export", _export, "write a copy that may be shown to strangers")
    export.add_argument("ledger", metavar="LEDGER|HOST", help=one)
    export.add_argument(
        "--anonymous",
        action="store_true",
        required=True,
        help="leave out names, addresses, serial numbers and home folders; there is no other "
        "kind of copy, and this word says that you know what it leaves out",
    )
    export.add_argument("--output", metavar="FILE", help="instead of standard output")

    pruner = _verb(verbs, "prune", _prune, "remove old ledgers of a host, and leave a trace")
    pruner.add_argument("host", metavar="HOST", help="name of the host")
    pruner.add_argument(
        "--keep",
        metavar="N",
        type=_count,
        required=True,
        help="how many stay, counted from the newest: 1 or more",
    )
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_LEDGERS:
        raise argparse.ArgumentTypeError("wanted: a number of ledgers, 1 or more")
    return int(text)


def _digest(text: str) -> str:
    if not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", text.lower()):
        raise argparse.ArgumentTypeError("wanted: `sha256:` and 64 hex digits")
    return text.lower()


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],  # the type has no public name
    name: str,
    function: object,
    text: str,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=text)
    parser.set_defaults(verb=function)
    if name != "explain":
        parser.add_argument("--ledger-dir", metavar="DIR", help="folder of all hosts' ledgers")
    return parser


# run


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
        unseen = b"preflight: interrupted before anything was looked at; no ledger was written\n"
        with suppress(OSError):
            os.write(self.stderr, unseen)
        os._exit(USAGE)

    def pytest_preflight_begun(self) -> None:
        """Note, as a plugin of pytest, that the journal's first line is on disk."""
        self.begun = True

    def over(self) -> None:
        """Leave the signal as it was found."""
        os.close(self.stderr)
        signal.signal(signal.SIGINT, self.before)


def _run(words: list[str]) -> int:
    """Run the suite through pytest, with the suite's own settings."""
    if {"-h", "--help"} & set(words):
        from preflight.plugin import pytest_addoption

        options = _RunOptions()
        pytest_addoption(options)  # type: ignore[arg-type] # has what is used of a parser
        _say(options.parser.format_help().rstrip())
        return YES
    start = _Start()
    try:
        import pytest  # here: no other verb needs it, and it takes its time

        config = suite_config()
        named = (
            []
            if any("::" in word or word.endswith(".py") for word in words)
            # by its path: for `--pyargs preflight`, pytest would load a conftest.py of the current folder
            else [str(config.parent)]
        )
        settings = ["-c", str(config), f"--rootdir={config.parent}"]
        return int(pytest.main([*settings, *named, *words], plugins=[start]))
    finally:
        start.over()


# reading


def _host_folder(given: argparse.Namespace, host: str) -> HostFolder:
    """Name the folder of a host that is given by its name, or by that very folder."""
    if os.sep in host and Path(host).is_dir():
        path = Path(host).resolve()
        if not (path / HEAD).is_file():
            raise UsageError(f"{host}: is a folder, and none with a {HEAD}; give the host's name")
        return HostFolder(path.parent, path.name)
    if not HOST_NAME.fullmatch(host):
        raise UsageError(f"{host!r} is neither a file nor the name of a host")
    return HostFolder(ledger_folder(given.ledger_dir), host)


def _hosts_beside(folder: HostFolder) -> str:
    known = sorted(path.parent.name for path in folder.path.parent.glob(f"*/{HEAD}"))
    return f"hosts there: {', '.join(known) or 'none'}"


def _recover(folder: HostFolder) -> None:
    """Recover what crashed runs left, unless one is under way just now."""
    if not folder.journals():
        return
    try:
        folder.lock()
        for path, what in folder.recover(load_areas()):
            _complain(f"{path.name}: {what}")
    except BusyError:
        _complain(f"a run of {folder.host} is under way; what follows is older")
    except StoreError as error:
        _complain(f"an interrupted run waits to be recovered; what follows is older.\n{error}")
    finally:
        folder.unlock()


def _is_path(text: str) -> bool:
    """Whether an argument is meant as a path, and not as the name of a host."""
    path = Path(text)
    return path.is_file() or (not path.is_dir() and (os.sep in text or text.endswith(".json")))


def _find(given: argparse.Namespace, text: str, *, altered: bool = False) -> Ledger:
    """Read a ledger by its path, or the newest one of a host.

    Raises:
        LedgerError: it cannot be read; or its digest does not fit, unless `altered` permits that.

    """
    if _is_path(text):
        ledger = read_ledger(Path(text))
        return ledger if altered else whole(ledger)
    folder = _host_folder(given, text)
    if not folder.path.is_dir():
        raise UsageError(
            f"{text}: neither a file nor a host with ledgers in {folder.path.parent}; "
            f"{_hosts_beside(folder)}"
        )
    _recover(folder)
    try:
        newest = folder.newest() if folder.head() else folder.tip()
    except LedgerError as error:
        found = "so the newest ledger is not surely known"
        wanted = f"`preflight verify {text}` tells more; or give the path of a ledger"
        next_ = Problem(file=str(folder.path), found=found, wanted=wanted)
        raise LedgerError(*error.problems, next_) from error
    if newest is None and folder.ledgers():
        raise UsageError(
            f"{folder.path}: without {HEAD} no ledger is surely the newest; "
            f"`preflight verify {text}` tells more; or give the path of a ledger"
        )
    if newest is None:
        raise UsageError(f"{folder.path}: there is no ledger yet; `preflight run` makes one")
    return newest


def _style() -> Style:
    width = shutil.get_terminal_size((80, 24)).columns
    colour = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    return Style(width=width, colour=colour, unicode=_unicode())


def _show(given: argparse.Namespace) -> int:
    load_areas()
    ledger = _find(given, given.ledger, altered=True)
    try:
        whole(ledger)
    except LedgerError as error:
        _say(visible(f"ALTERED  {error}"))
        sys.stdout.write(render(ledger, _style(), path=ledger.file))
        return COULD_NOT_TELL
    sys.stdout.write(render(ledger, _style(), path=ledger.file))
    return _answer(ledger)


def _answer(ledger: Ledger) -> int:
    """Give the exit code that says whether the box passed."""
    verdict = RunVerdict(ledger.run["verdict"])
    return {RunVerdict.PASS: YES, RunVerdict.FAIL: NO}.get(verdict, COULD_NOT_TELL)


def _verify(given: argparse.Namespace) -> int:
    if _is_path(given.ledger):
        readable(Path(given.ledger))
        if Path(given.ledger).name == HEAD:
            read_ledger(Path(given.ledger))  # says which ledger is meant
        report = verify_file(Path(given.ledger), given.expect or "")
    else:
        folder = _host_folder(given, given.ledger)
        report = verify_row(folder, given.expect or "")
        if not folder.path.is_dir():
            report.notes.append(_hosts_beside(folder))
        if folder.journals():
            report.notes.append(
                "a journal is waiting: `preflight show` or the next run recovers it"
            )
    _print_report(report)
    if not report.wrong and not report.good:
        return COULD_NOT_TELL
    return NO if report.wrong else YES


def _print_report(report: Report) -> None:
    for line in report.wrong:
        _say(visible(f"WRONG  {line}"))
    for line in report.good:
        _say(visible(f"ok     {line}"))
    for line in report.notes:
        _say(visible(f"note   {line}"))


def _replay(given: argparse.Namespace) -> int:
    ledger = _find(given, given.ledger)
    words = ["--replay", ledger.file]
    if given.ledger_dir:
        words += ["--ledger-dir", given.ledger_dir]
    for folder in given.expected:
        words += ["--expected", folder]
    return _run(words)


def _diff(given: argparse.Namespace) -> int:
    before, after = _find(given, given.before), _find(given, given.after)
    changed = difference(before, after)
    for part in changed.parts:
        _say(visible(f"part   {part.text}"))
    for move in Move:
        for row in changed.findings:
            if row.move is move:
                _say(
                    visible(
                        f"{move.value:<15} {row.check} [{row.subject}]: {row.before} → {row.after}"
                    )
                )
    for gap in changed.gaps:
        _say(visible(gap))
    if changed.rest_same:
        _say("of the rest, nothing changed" if changed.gaps else "nothing changed")
    if changed.nothing:
        return YES
    return COULD_NOT_TELL if changed.rest_same else NO


# explaining


def _explain(given: argparse.Namespace) -> int:
    registry = load_areas()
    if not given.check:
        for check in registry.checks.values():
            _say(f"{check.name:<34} {check.title}")
        return YES
    if given.check == WAIVER_CHECK:
        _say(f"{WAIVER_CHECK}\n\n{waiver_findings.__doc__}")
        for slug, text in WAIVER_CAUSES.items():
            _say(f"  {slug}: {text}")
        return YES
    found = registry.checks.get(given.check)
    if found is None:
        names = [name for name in registry.checks if given.check in name]
        listed = ", ".join(names or registry.checks)
        raise UsageError(f"there is no check {given.check!r}; there are: {listed}")
    loaded = load_host(given.host, expected_folders(given.expected), registry.units())
    _say(f"{found.name}\n")
    _say(found.explanation)
    _say("\nFails with")
    for slug, text in found.causes.items():
        _say(textwrap.fill(f"{slug}: {text}", 78, initial_indent="  ", subsequent_indent="    "))
    rests = ", ".join(found.premise) or "nothing that can be swapped"
    _say(f"\nRests on: {rests}")
    if found.blocked_by:
        _say(f"Explained by: {', '.join(found.blocked_by)}")
    _say(f"Controls: {len(found.controls)} planted observations, judged in every run")
    _say(f"\nCompared with (host {given.host})")
    for line in _numbers(found, loaded.expected):
        _say(textwrap.fill(line, 78, initial_indent="  ", subsequent_indent="    "))
    return YES


def _in_words(value: object, unit: str) -> str:
    """Show what is wanted: the fields that say something, bytes in units that people read."""
    if value is None:
        return ""
    if not is_dataclass(value):
        return bytes_text(value) if unit == BYTES and isinstance(value, int) else str(value)
    said = []
    for item in fields(value):
        part = getattr(value, item.name)
        if part in (None, "", (), {}):
            continue
        name, is_bytes = item.name.removesuffix("_bytes"), item.name.endswith("_bytes")
        is_bytes = is_bytes or unit == BYTES
        if isinstance(part, Mapping):
            shown = [f"{k} {bytes_text(v)}" if is_bytes else f"{k}={v}" for k, v in part.items()]
            said.append(f"{name} {', '.join(shown)}")
        elif is_bytes and isinstance(part, (int, float)):
            said.append(f"{name} {bytes_text(part)}")
        else:
            said.append(f"{name} {shlex.join(part) if isinstance(part, tuple) else part}")
    return "; ".join(said) or "nothing declared"


def _numbers(check: Check, expected: Expected) -> list[str]:
    lines = []
    for case in cases_of(check, expected):
        if isinstance(case.wanted, Wanted):
            source = f"({case.wanted.basis.value}: {case.wanted.source})"
            unit = check.measures.unit if check.measures else ""
            words = redact_text(_in_words(case.wanted.value, unit), ENVIRONMENT_SECRETS)
            lines.append(
                f"{case.subject}: {words} {source}" if words else f"{case.subject}: {source}"
            )
        elif isinstance(case.wanted, NotDeclared):
            lines.append(f"{case.subject}: {case.wanted.fact}")
        else:
            lines.append(f"{case.subject}: {case.wanted.says}")
    return lines


# copying and removing


def _export(given: argparse.Namespace) -> int:
    ledger = _find(given, given.ledger)
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    homes = {os.environ.get("HOME", "")}
    with suppress(KeyError, OSError):  # a container's user may be a mere number
        names.add(getpass.getuser())
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    copy = anonymous(
        ledger,
        names - {"root", "localhost"},
        homes={spelled for home in homes for spelled in _spelled(home)},
        folders=_spelled(str(HERE)) if is_checkout() else (),
    )
    wrong = problems(copy, "the copy")
    if wrong:
        raise PreflightError(f"the copy would be against the schema: {wrong[0]}")
    data = pretty(copy)
    if given.output:
        try:
            write_whole(user_path(given.output), data)
        except OSError as error:
            raise PreflightError(f"{given.output}: cannot be written ({error.strerror})") from error
    else:
        sys.stdout.buffer.write(data)
    return YES


def _spelled(folder: str) -> set[str]:
    """Give a folder as it was named and where its links lead."""
    if not folder.startswith("/"):
        return set()
    return {os.path.normpath(folder), os.path.realpath(folder)}


def _prune(given: argparse.Namespace) -> int:
    folder = _host_folder(given, given.host)
    if not folder.path.is_dir():
        raise UsageError(f"{folder.path}: there is no such folder of ledgers")
    removed = prune(folder, given.keep)
    for name in removed:
        _say(f"removed {name}")
    if not removed and not folder.ledgers():
        _say("nothing to prune: there is no ledger yet")
        return YES
    _say(f"{len(removed)} removed; verify accepts that")
    return YES


if __name__ == "__main__":
    sys.exit(main())
