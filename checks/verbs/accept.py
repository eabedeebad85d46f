"""`preflight accept`: turns what a ledger measured into what is expected from now on."""

from __future__ import annotations

import argparse
import difflib
import os
import pwd
import shlex
from datetime import datetime, timezone
from pathlib import Path

from checks.core.errors import InputError, LedgerError, PreflightError, UsageError
from checks.core.facts import BOX
from checks.core.load import LOCAL_HOST, MEASURED, REHEARSED, load_host, read_numbers
from checks.core.moment import day_of
from checks.core.numbers import amended, new_file
from checks.core.paths import HOST_NAME, expected_folders, own_folder
from checks.core.redact import ENVIRONMENT_SECRETS, cap, redact_text
from checks.core.registry import Registry, load_areas
from checks.core.toml import parse_toml
from checks.ledger.acceptance import (
    Offer,
    Place,
    Plan,
    Refusal,
    Row,
    agreed,
    offers,
    plan,
    refusal_of,
)
from checks.ledger.document import Ledger
from checks.ledger.schema import whole
from checks.report.acceptance import table
from checks.report.text import visible
from checks.verbs.codes import COULD_NOT_TELL, NO, YES
from checks.verbs.files import RefusedError, content, held, put_back, write
from checks.verbs.ledgers import ONE, add_folder, find
from checks.verbs.screen import style
from checks.verbs.shared import FOLDERS, complain, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("ledger", metavar="LEDGER|HOST", help=ONE)
    parser.add_argument(
        "checks",
        metavar="CHECK",
        nargs="*",
        default=[],
        help="accept these alone, all of them or nothing; without: whatever may be accepted",
    )
    parser.add_argument("--subject", metavar="S", help="of the checks, this subject alone")
    parser.add_argument(
        "--also",
        metavar="LEDGER",
        action="append",
        default=[],
        help="another run of the same box, which must agree: the median is accepted; may be given "
        "several times",
    )
    parser.add_argument(
        "--change",
        action="store_true",
        help="let a value take the place of the one that was accepted for the same parts",
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; is kept with the value")
    parser.add_argument(
        "--ticket", metavar="TEXT", default="", help="where that was decided; without: the run's"
    )
    parser.add_argument(
        "--host", metavar="NAME", help="whose file to write, where the ledger is of another name"
    )
    parser.add_argument("--dry-run", action="store_true", help="show it, and write nothing")
    parser.add_argument("--expected", metavar="DIR", action="append", default=[], help=FOLDERS)


def run(given: argparse.Namespace) -> int:
    """Show what would be accepted, and write it."""
    registry = load_areas()
    _known(given.checks, registry)
    ledgers = [find(given, text, altered=True) for text in (given.ledger, *given.also)]
    try:
        _usable(ledgers)
        host = _host(given, ledgers[0])
        return _accept(given, registry, ledgers, host)
    except RefusedError as error:
        complain(str(error))
        return NO


def _known(names: list[str], registry: Registry) -> None:
    for name in names:
        if name not in registry.checks:
            close = difflib.get_close_matches(name, registry.checks, n=3)
            near = f" (did you mean {', '.join(close)}?)" if close else ""
            raise UsageError(
                f"there is no check {name!r}{near}; `preflight explain` lists them all; the ledger "
                "comes first, and the checks right behind it"
            )


def _usable(ledgers: list[Ledger]) -> None:
    """Refuse what proves nothing.

    Raises:
        RefusedError: a ledger was altered, or measured nothing; or they are no runs of one box.

    """
    first = ledgers[0]
    for ledger in ledgers:
        try:
            whole(ledger)
        except LedgerError as error:
            raise RefusedError(str(error)) from error
        why = refusal_of(ledger)
        if why:
            raise RefusedError(f"{ledger.file}: {why}")
        for key, mine, other in (
            ("host", first.row["host"], ledger.row["host"]),
            ("kind", first.run["kind"], ledger.run["kind"]),
        ):
            if mine != other:
                raise RefusedError(f"{ledger.file}: its {key} is {other}, that of the first {mine}")
    digests = [ledger.row["digest"] for ledger in ledgers]
    for ledger in ledgers:
        if digests.count(ledger.row["digest"]) > 1:
            raise RefusedError(f"{ledger.file}: given twice; one run agrees with itself")


def _host(given: argparse.Namespace, ledger: Ledger) -> str:
    host: str = given.host or ledger.row["host"]
    if host == LOCAL_HOST:
        raise RefusedError(
            f"{ledger.file}: is of the host `{LOCAL_HOST}`, which every box is called that has no "
            "profile; make one with `preflight adopt NAME`, and say --host NAME"
        )
    if not HOST_NAME.fullmatch(host):
        raise UsageError(f"--host {host!r} is not a host's name")
    return host


def _accept(given: argparse.Namespace, registry: Registry, ledgers: list[Ledger], host: str) -> int:
    rehearsal = ledgers[0].run["kind"] == "rehearsal"
    room = REHEARSED if rehearsal else MEASURED
    own = own_folder(given.expected)
    if not own.is_dir():
        raise UsageError(f"{own}: there is no such folder of expectations")
    target = own / room / f"{host}.toml"
    with held(target.parent, write=not given.dry_run):
        before = content(target)
        raw = new_file(host, room) if before is None else before
        loaded = load_host(
            host, expected_folders(given.expected), registry.units(), rehearsal=rehearsal
        )
        place = Place(
            file=str(target),
            entries=read_numbers(parse_toml(raw, str(target)), registry.units()),
            expected=loaded.expected,
            parts=ledgers[0].parts,
        )
        found = agreed([offers(ledger, registry) for ledger in ledgers], registry)
        asked = _asked_for(given, found, registry)
        made = plan(asked, registry, place, _stamp(given, ledgers), len(ledgers))
        code = _shown(given, made, ledgers[0], target)
        if not made.rows or code != YES:
            return code
        if given.dry_run:
            say(f"nothing written (--dry-run); it would be {target}")
            return YES
        write(target, before, _with_rows(raw, made, place))
        try:
            load_host(host, expected_folders(given.expected), registry.units(), rehearsal=rehearsal)
        except InputError as error:
            put_back(target, before)
            raise PreflightError(f"{error}\nnothing was accepted; the file is as it was") from error
    changed = len(made.changes)
    say(f"wrote {target}: {len(made.rows) - changed} new, {changed} changed")
    say(f"next: {_next(given, host, rehearsal=rehearsal)}")
    return YES


def _asked_for(
    given: argparse.Namespace, found: list[Offer | Refusal], registry: Registry
) -> list[Offer | Refusal]:
    """Leave what was named; what was named and is not there is refused."""
    asked = [
        one
        for one in found
        if one.check in (given.checks or registry.checks) and given.subject in (None, one.subject)
    ]
    there = {one.check for one in asked}
    for name in given.checks:
        if name in there:
            continue
        why = "the ledger has nothing of it"
        if registry.checks[name].measures is None:
            why = (
                "takes no measured value: it compares with the profile, or with what holds on every "
                "healthy box"
            )
        asked.append(Refusal(check=name, subject=given.subject or BOX, why=why))
    return asked


def _stamp(given: argparse.Namespace, ledgers: list[Ledger]) -> dict[str, object]:
    """Say where every new value comes from."""
    run = ledgers[0].run
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user may be a mere number
        user = f"uid {os.getuid()}"
    return {
        "source": ", ".join(str(ledger.row["digest"]) for ledger in ledgers),
        "measured_at": max(day_of(ledger.run["started_utc"]) for ledger in ledgers).isoformat(),
        "label": str(run["label"]),
        "accepted_by": user,
        "accepted_at": datetime.now(timezone.utc).date().isoformat(),
        "reason": _words(given.reason),
        "ticket": _words(given.ticket) or str(run["ticket"]),
    }


def _words(text: str) -> str:
    """Take a text of the command line: no secrets, and not more than a line."""
    return cap(redact_text(visible(text), ENVIRONMENT_SECRETS), 200)


def _shown(given: argparse.Namespace, made: Plan, ledger: Ledger, target: Path) -> int:
    """Show what would be written, and say what would not, and why.

    Raises:
        RefusedError: a value would take another's place, and nobody has said that it may.

    """
    refused = [one for one in made.refused if given.checks or not one.quiet]
    if made.rows and not (given.checks and refused):
        say(visible(f"from {ledger.file}\nfor  {target}\n"))
        say(table(made.rows, style()))
    for one in refused:
        say(visible(f"not accepted: {one}"))
    for same in made.same if given.checks or not made.rows else ():
        say(visible(f"already accepted: {same.check} [{same.subject}]"))
    if given.checks and refused:
        complain("nothing was accepted: all that is named, or nothing")
        return _code(refused)
    if made.changes and not given.change:
        changes = "\n".join(f"  {text}" for text in map(_change_text, made.changes))
        raise RefusedError(
            f"nothing was accepted: these take the place of what was accepted for the same "
            f"parts:\n{changes}\nif that is meant, say --change as well"
        )
    if not made.rows:
        complain("nothing new to accept" if made.same else "nothing to accept")
        return YES if made.same and not refused else _code(refused)
    return YES


def _change_text(row: Row) -> str:
    was, becomes = (
        entry.value if isinstance(entry.value, str) else f"{entry.value:.15g} {entry.unit}"
        for entry in (row.old or row.new, row.new)
    )
    return visible(f"{row.new.check} [{row.new.subject}]: {was} → {becomes}")


def _code(refused: list[Refusal]) -> int:
    """Give the exit code of what was not accepted: nobody could tell, or the answer is no."""
    return COULD_NOT_TELL if refused and all(one.could_not_tell for one in refused) else NO


# the file


def _with_rows(raw: bytes, made: Plan, place: Place) -> bytes:
    index = {id(entry): number for number, entry in enumerate(place.entries)}
    return amended(
        raw,
        place.file,
        added=[row.new for row in made.rows if row.old is None],
        changed={index[id(row.old)]: row.new for row in made.changes},
    )


def _next(given: argparse.Namespace, host: str, *, rehearsal: bool) -> str:
    words = ["preflight", "run", "--host", host]
    for option, value in (
        *(("--expected", folder) for folder in given.expected),
        ("--ledger-dir", given.ledger_dir),
    ):
        words += [option, value] if value else []
    return shlex.join(words) + (" --root DIR" if rehearsal else "")
