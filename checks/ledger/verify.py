"""Verifies a ledger, or a host's whole row of them: schema, digests, and who follows whom."""

from __future__ import annotations

import json
import os
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path

from checks.core.codec import Json
from checks.core.errors import LedgerError, Problem
from checks.core.scope import ALL
from checks.ledger.canonical import ledger_digest
from checks.ledger.document import Ledger
from checks.ledger.head import HEAD, NEWER, Head
from checks.ledger.schema import read_ledger
from checks.ledger.store import (
    HostFolder,
    ended_s,
    head_fields,
    scope_entry,
    settles,
    unsettles,
)

PRUNED = "pruned.jsonl"
"""What `prune` removed: one line a ledger, with its digest."""
CANNOT_SEE = (
    "not visible from here: an end of the row that was rewritten consistently, head included, "
    f"or ledgers that {PRUNED} says were pruned and were not; "
    "compare with a digest that was kept elsewhere: --expect DIGEST"
)


@dataclass
class Report:
    """What verification found."""

    good: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def verify_ledger(path: Path) -> tuple[Ledger | None, list[str]]:
    """Check one file: JSON, schema, its own digest. Gives what is wrong."""
    try:
        ledger = read_ledger(path)
    except LedgerError as error:
        return None, [str(problem) for problem in error.problems]
    found = ledger_digest(ledger.row)
    if found != ledger.row["digest"]:
        return ledger, [f"{path}: altered: its content has {found}, it says {ledger.row['digest']}"]
    return ledger, []


def verify_file(path: Path, expect: str = "") -> Report:
    """Verify one ledger by itself."""
    report = Report()
    ledger, wrong = verify_ledger(path)
    report.wrong += wrong
    if ledger is not None and not wrong:
        report.good.append(f"{path}: whole, {ledger.row['digest']}")
        _compare_expected(report, expect, {str(ledger.row["digest"])}, str(path))
        if ledger.run["kind"] == "run" and "anonymous_of" not in ledger.row:
            in_row = (path.parent / HEAD).is_file()
            row = shlex.quote(f"{path.parent}/") if in_row else ledger.row["host"]
            report.notes.append(
                f"this one file: its row was not looked at; that does `preflight verify {row}`"
            )
    if not expect:
        report.notes.append(CANNOT_SEE)
    return report


def _compare_expected(report: Report, expect: str, digests: set[str], where: str) -> None:
    if expect and expect.removeprefix("sha256:") not in {
        d.removeprefix("sha256:") for d in digests
    }:
        report.wrong.append(f"{where}: has no ledger with the expected digest {expect}")


def verify_row(folder: HostFolder, expect: str = "") -> Report:
    """Verify all ledgers of a host: each whole, each following the one before, none missing.

    A folder in which there never was one is neither good nor wrong, unless one is expected.
    """
    report = Report()
    try:
        if folder.path.is_dir():
            os.listdir(folder.path)  # noqa: PTH208 - only whether it may be read
    except OSError as error:
        raise _unreadable(folder.path, f"cannot be read ({error.strerror})") from error
    if not expect and not any((folder.ledgers(), _lies(folder, HEAD), _lies(folder, PRUNED))):
        report.notes.append(f"nothing to verify: there is no ledger yet in {folder.path}")
        return report
    by_digest: dict[str, Ledger] = {}
    altered: set[str] = set()
    for path in folder.ledgers():
        if not os.access(path, os.R_OK) and path.exists():
            # nobody can say anything of it, nor of what it follows
            raise _unreadable(path, "may not be read")
        ledger, wrong = verify_ledger(path)
        report.wrong += wrong
        if ledger is None or wrong:
            altered.add(path.name)
            continue
        if path.is_symlink():
            report.wrong.append(f"{path}: a link; a ledger is a file of its own")
        if ledger.run["kind"] != "run":
            kind = ledger.run["kind"]
            report.wrong.append(f"{path}: of a {kind}, which belongs into {kind}s/ and not here")
        if ledger.row["host"] != folder.host:
            report.wrong.append(f"{path}: is a ledger of {ledger.row['host']!r}")
        if str(ledger.row["digest"]) in by_digest:
            report.wrong.append(
                f"{path}: the same ledger as {by_digest[ledger.row['digest']].file}"
            )
        by_digest.setdefault(str(ledger.row["digest"]), ledger)
    pruned = _pruned(folder, report)
    tip = _tip(folder, report, by_digest, pruned, altered)
    if tip is not None:
        before = len(report.wrong)
        seen = _walk(report, tip, by_digest, pruned, altered)
        _compare_row(report, folder, [by_digest[digest] for digest in seen], pruned=bool(pruned))
        _loose(report, by_digest, seen, torn=len(report.wrong) > before)
        report.good.append(f"{_ledgers(len(seen))} in a row, newest {Path(tip.file).name}")
    damaged = list(report.wrong)
    _compare_expected(report, expect, set(by_digest), str(folder.path))
    if not expect:
        report.notes.append(CANNOT_SEE)
    if damaged:
        report.notes.append(_what_to_do(folder, damaged))
    return report


def _lies(folder: HostFolder, name: str) -> bool:
    return os.path.lexists(folder.path / name)


def _unreadable(path: Path, found: str) -> LedgerError:
    wanted = "run as its owner, or permit reading it"
    return LedgerError(Problem(file=str(path), found=found, wanted=wanted))


def _missing(ledger: Ledger) -> str:
    """Say that what a ledger follows is not there."""
    where = Path(ledger.file).parent / str(ledger.row["previous"]["file"])
    return f"{where}: missing: {Path(ledger.file).name} follows it"


def _ledgers(count: int) -> str:
    return "1 ledger" if count == 1 else f"{count} ledgers"


def _what_to_do(folder: HostFolder, damaged: list[str]) -> str:
    """Say how a row that is damaged comes to be whole again."""
    if all(line.startswith(str(folder.path / HEAD)) for line in damaged):
        newest = folder.tip()
        if newest is not None:
            name = Path(newest.file).name
            return f"to mend it, run preflight: a run writes {HEAD} anew and follows {name}"
    date = time.strftime("%Y%m%d", time.gmtime())
    aside = first = folder.path.with_name(f"{folder.host}.damaged-{date}")
    number = 1
    while aside.exists():  # mv would put the folder into that one
        number += 1
        aside = first.with_name(f"{first.name}-{number}")
    here, there = shlex.quote(str(folder.path)), shlex.quote(str(aside))
    return (
        f"to mend it, put the files back as they were; or, to begin a new row: mv {here} {there}; "
        "the next run starts afresh, and what was set aside stays readable by its path: "
        f"preflight show {there}/LEDGER.json"
    )


def _tip(
    folder: HostFolder,
    report: Report,
    by_digest: dict[str, Ledger],
    pruned: dict[str, str],
    altered: set[str],
) -> Ledger | None:
    path = folder.path / HEAD
    try:
        head = folder.head()
    except LedgerError as error:
        report.wrong += [str(problem) for problem in error.problems]
        _gaps(report, by_digest, pruned, altered)
        return None
    if head is None:
        if by_digest or altered:
            report.wrong.append(f"{path}: missing, and there are ledgers")
            _gaps(report, by_digest, pruned, altered)
        else:
            report.wrong.append(f"{folder.path}: there is no ledger")
        return None
    tip = by_digest.get(head.digest)
    if tip is None:
        if head.file not in altered:
            report.wrong.append(f"{folder.path / head.file}: missing: head.json names it")
        return None
    if tip.sha256 != head.sha256:
        report.wrong.append(f"{tip.file}: its bytes are not those that head.json names")
    if Path(tip.file).name != head.file:
        report.wrong.append(f"{tip.file}: renamed: head.json calls it {head.file}")
    else:
        _compare_head(report, path, head, tip, by_digest)
    return tip


def _gaps(
    report: Report, by_digest: dict[str, Ledger], pruned: dict[str, str], altered: set[str]
) -> None:
    """Without a head that says where the row ends: name what a ledger follows and is not there."""
    for ledger in by_digest.values():
        previous = ledger.row["previous"]
        if previous is None or str(previous["digest"]) in {*by_digest, *pruned}:
            continue
        if Path(str(previous["file"])).name not in altered:
            report.wrong.append(_missing(ledger))


def _compare_head(
    report: Report, path: Path, head: Head, tip: Ledger, by_digest: dict[str, Ledger]
) -> None:
    """Compare what the head says with the ledgers that it says it of."""
    if head.host != tip.row["host"]:
        report.wrong.append(f"{path}: is of {head.host!r}, its ledgers are not")
    for name, value in head_fields(tip.row, head.file, head.sha256).items():
        if getattr(head, name) != value:
            report.wrong.append(f"{path}: {name} is not that of {head.file}")
    for scope, entry in head.scopes.items():
        ledger = by_digest.get(str(entry["digest"]))
        if ledger is None:
            continue  # missing or altered, which is said of the file itself
        if not _is_entry(report, entry, ledger) or ledger.run["scope"] != scope:
            file = Path(ledger.file).name
            report.wrong.append(f"{path}: what it says of the scope {scope} is not that of {file}")
    for verdict, entry in (head.unsettled or {}).items():
        ledger = by_digest.get(str(entry["digest"]))
        if ledger is not None and not (
            _is_entry(report, entry, ledger)
            and unsettles(ledger.row)
            and ledger.run["verdict"] == verdict
        ):
            file = Path(ledger.file).name
            report.wrong.append(f"{path}: what it says is unsettled is not that of {file}")


def _is_entry(report: Report, entry: dict[str, Json], ledger: Ledger) -> bool:
    """Whether an entry of a head says what follows from its ledger, as far as it says anything."""
    sha256 = str(entry["sha256"])
    other = f"{ledger.file}: its bytes are not those that head.json names"
    if sha256 != ledger.sha256 and other not in report.wrong:
        report.wrong.append(other)
    follows = scope_entry(ledger.row, Path(ledger.file).name, sha256)
    return entry == {key: follows[key] for key in follows if key in entry or key not in NEWER}


def _compare_row(report: Report, folder: HostFolder, row: list[Ledger], *, pruned: bool) -> None:
    """Compare what the head says of the whole row: its latest moment, and the newest of a scope.

    Args:
        report: to add to.
        folder: whose head it is.
        row: the newest ledger first.
        pruned: whether older ledgers are gone, one of which may have ended later than these.

    """
    head, path = folder.head(), folder.path / HEAD
    assert head is not None  # noqa: S101 - the row was followed from it
    latest = max(row, key=lambda ledger: ended_s(ledger.row))
    name = Path(latest.file).name
    if head.newest_s < ended_s(latest.row):
        report.wrong.append(f"{path}: newest_s is earlier than the end of {name}")
    elif head.newest_s > ended_s(latest.row) and not pruned and not report.wrong:
        report.wrong.append(f"{path}: newest_s is later than the end of any ledger, {name}")
    complete = [ledger for ledger in row if ledger.run["end"] == "complete"]
    for scope, entry in head.scopes.items():
        newest = next((x for x in complete if x.run["scope"] == scope), None)
        if newest is not None and newest.row["digest"] != entry["digest"]:
            file = Path(newest.file).name
            report.wrong.append(f"{path}: {file} is newer than what it says of the scope {scope}")
    _compare_unsettled(report, path, head, row)


def _compare_unsettled(report: Report, path: Path, head: Head, row: list[Ledger]) -> None:
    """See that nothing which a complete run of everything has to settle was taken out of the head.

    Only behind the one that the head names: a head that was lost knows of nothing before it.
    """
    settled = next((n for n, ledger in enumerate(row) if settles(ledger.row)), None)
    if head.unsettled is None or settled is None:
        return
    if row[settled].row["digest"] != head.scopes.get(ALL, {}).get("digest"):
        return
    left = [ledger for ledger in row[:settled] if unsettles(ledger.row)]
    for verdict in ("fail", "interrupted"):
        newest = next((ledger for ledger in left if ledger.run["verdict"] == verdict), None)
        said = head.unsettled.get(verdict, {}).get("digest")
        if newest is not None and newest.row["digest"] != said:
            file = Path(newest.file).name
            report.wrong.append(f"{path}: does not say that {file} is unsettled")


def _walk(
    report: Report,
    tip: Ledger,
    by_digest: dict[str, Ledger],
    pruned: dict[str, str],
    altered: set[str],
) -> list[str]:
    """Follow the row from the newest ledger back to the first; give their digests in that order."""
    seen: list[str] = []
    ledger = tip
    while True:
        seen.append(str(ledger.row["digest"]))
        previous = ledger.row["previous"]
        if previous is None:
            return seen
        digest = str(previous["digest"])
        if digest in by_digest:
            follower, ledger = ledger, by_digest[digest]
            if Path(ledger.file).name != previous["file"]:
                name = Path(follower.file).name
                report.wrong.append(f"{ledger.file}: renamed: {name} calls it {previous['file']}")
            continue
        where = Path(ledger.file).parent / str(previous["file"])
        if digest in pruned:
            report.notes.append(f"older ledgers were pruned, the newest of them {pruned[digest]}")
        elif where.name in altered:
            report.wrong.append(f"{where}: not the ledger that {Path(ledger.file).name} follows")
        else:
            report.wrong.append(_missing(ledger))
        return seen


def _loose(report: Report, by_digest: dict[str, Ledger], seen: list[str], *, torn: bool) -> None:
    """Name the ledgers that the row does not lead to; behind a gap, its older part is none of them."""
    rest = {d: x for d, x in by_digest.items() if d not in seen and x.run["kind"] == "run"}
    followed = {str(x.row["previous"]["digest"]) for x in rest.values() if x.row["previous"]}
    tips = [ledger for digest, ledger in rest.items() if digest not in followed]
    if torn and len(tips) == 1:
        report.notes.append(
            f"{len(rest)} older ledgers, the newest of them {Path(tips[0].file).name}, follow one "
            "another and are cut off by what is wrong"
        )
        return
    report.wrong += [
        f"{ledger.file}: out of order: no newer ledger follows it and head.json does not name it"
        for ledger in tips
    ]


def _pruned(folder: HostFolder, report: Report) -> dict[str, str]:
    """Read what `prune` removed: digest = file."""
    path = folder.path / PRUNED
    found: dict[str, str] = {}
    if not path.is_file():
        return found
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        report.wrong.append(f"{path}: cannot be read ({error.strerror})")
        return found
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            found[str(row["digest"])] = str(row["file"])
        except (ValueError, KeyError, TypeError, RecursionError):
            report.wrong.append(f"{path}:{number}: is no line that prune writes")
    return found
