"""Loads what is expected of a host from the folders of expectations."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from checks.core.codec import Json, decode, encode
from checks.core.errors import InputError, Problem, ProfileError, UsageError
from checks.core.expectation import Expectation, ExpectationFile, Expected
from checks.core.paths import HOST_NAME, is_checkout
from checks.core.profile import LOCAL, Profile
from checks.core.reader import read_document, show
from checks.core.redact import ENVIRONMENT_SECRETS, redact
from checks.core.toml import Document, load_toml

T = TypeVar("T")

MEASURED = "measured"
"""Folder of what was measured on each host."""
REHEARSED = "rehearsed"
"""The same of rehearsals, runs on recorded trees: it counts in rehearsals, and in nothing else."""

LOCAL_HOST = "local"
_CLOSE = 0.8
"""How near a name must be to be guessed: all names of checks begin alike."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file that a run compares with, as the ledger keeps it."""

    file: str
    sha256: str
    content: Json


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Everything expected of a host, and the files that it came from."""

    expected: Expected
    profile: Source
    numbers: tuple[Source, ...]


def known_hosts(folders: Sequence[Path]) -> list[str]:
    """List the hosts that have a profile, under a name that `--host` takes."""
    names: set[str] = set()
    for folder in folders:
        names.update(path.stem for path in (folder / "hosts").glob("*.toml"))
    return sorted(name for name in names if HOST_NAME.fullmatch(name))


def load_host(
    host: str,
    folders: Sequence[Path],
    checks: Mapping[str, str | None] | None = None,
    *,
    rehearsal: bool = False,
) -> Loaded:
    """Load profile and numbers of a host.

    Args:
        host: its name, or `local` for the empty profile.
        folders: where to look, first found first.
        checks: known check ids, each with the unit of what may be measured for it (empty: a text;
            None: nothing may), to find slips in the files; None: not compared.
        rehearsal: whether what was accepted from rehearsals counts too; it comes first then.

    Raises:
        UsageError: no such host, or a name that cannot be one.
        ProfileError: every problem of every file.

    """
    if not HOST_NAME.fullmatch(host):
        wanted = "letters, digits, dot, underscore and hyphen, at most 63"
        raise UsageError(f"--host {host!r} is not a host's name; wanted: {wanted}")
    problems: list[Problem] = []
    profile, source = LOCAL, Source(file="", sha256="", content=encode(LOCAL))
    named = [folder / "hosts" / f"{host}.toml" for folder in folders]
    # whatever has the name counts: a broken link is an error, not an empty profile
    path = next((path for path in named if os.path.lexists(path)), None)
    if path is not None:
        try:
            profile, source = _read_profile(path, checks)
        except InputError as error:
            problems += error.problems
    elif host != LOCAL_HOST:
        raise UsageError(_unknown_host(host, folders))
    numbers: list[Expectation] = []
    sources: list[Source] = []
    rooms = (REHEARSED, MEASURED) if rehearsal else (MEASURED,)
    for file in (folder / room / f"{host}.toml" for folder in folders for room in rooms):
        if not os.path.lexists(file):
            continue
        try:
            document = load_toml(file)
            entries = read_numbers(document, checks)
        except InputError as error:
            problems += error.problems
            continue
        known = [entry.of_what for entry in numbers]
        entries = tuple(entry for entry in entries if entry.of_what not in known)
        numbers += entries
        content = redact(encode(entries), ENVIRONMENT_SECRETS)
        sources.append(Source(file=str(file), sha256=document.sha256, content=content))
    if problems:
        raise ProfileError(*problems)
    return Loaded(
        expected=Expected(
            profile=profile,
            profile_file=Path(source.file).name or f"{host} (no profile)",
            numbers=tuple(numbers),
        ),
        profile=source,
        numbers=tuple(sources),
    )


def read_numbers(
    document: Document, checks: Mapping[str, str | None] | None = None
) -> tuple[Expectation, ...]:
    """Read a file of measured numbers; `checks` as `load_host` takes them.

    Raises:
        ProfileError: with all its problems.

    """
    entries = read_document(ExpectationFile, document).expectation
    problems = _number_slips(document, entries, checks)
    if problems:
        raise ProfileError(*problems)
    return entries


def _read_profile(path: Path, checks: Mapping[str, str | None] | None) -> tuple[Profile, Source]:
    document = load_toml(path)
    problems = _slips(document, _named_checks(document.data), checks)
    try:
        profile = read_document(Profile, document)
    except ProfileError as error:
        problems += error.problems
    if problems:
        raise ProfileError(*sorted(problems, key=lambda problem: problem.line or 0))
    # Judges see what the ledger keeps, so that a replay sees the same.
    content = redact(_with_words(encode(profile)), ENVIRONMENT_SECRETS)
    source = Source(file=str(path), sha256=document.sha256, content=content)
    return decode(Profile, content), source


def _with_words(profile: Json) -> Json:
    """Split each command into its words, as its shell would, before anything of it is hidden or cut.

    Else what hides the value of a header, or cuts a long text, takes the words behind it along,
    such as the number of threads.
    """
    if isinstance(profile, dict):
        for serve in _of(profile.get("serve"), list):
            command = _of(serve, dict).get("command")
            if isinstance(command, str):
                serve["command"] = list(shlex.split(command))
    return profile


def _number_slips(
    document: Document, entries: Sequence[Expectation], checks: Mapping[str, str | None] | None
) -> list[Problem]:
    """Find measured values that no check would compare with, or only by mistake."""
    named = [(f"expectation[{n}].check", entry.check) for n, entry in enumerate(entries)]
    problems = _slips(document, named, checks)
    seen: list[tuple[object, ...]] = []
    for index, entry in enumerate(entries):
        known = checks is not None and entry.check in checks
        unit = (checks or {}).get(entry.check)
        key, found, wanted = f"expectation[{index}]", "", ""
        if entry.of_what in seen:
            found = f"a second value for {entry.check} [{entry.subject}] on the same premise"
            wanted = "keep one"
        elif known and unit is None:
            key, found = f"{key}.check", f"{entry.check} takes no measured value"
            wanted = "remove the entry; what it compares with stands in the profile"
        elif known and (unit == "") is not isinstance(entry.value, str):
            key, found = f"{key}.value", f"found {show(entry.value)}"
            wanted = f"wanted: a number of {unit}" if unit else "wanted: a text"
        elif known and entry.unit != unit:
            key, found, wanted = f"{key}.unit", f"found {entry.unit!r}", f"wanted: {unit}"
        seen.append(entry.of_what)
        if found:
            line = document.line(key)
            problems.append(
                Problem(file=document.file, line=line, key=key, found=found, wanted=wanted)
            )
    return problems


def _named_checks(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Find every check that a profile names, with its key, in a document of any shape."""
    named = []
    for key in ("waiver", "observe_only"):
        for index, entry in enumerate(_of(data.get(key), list)):
            check = _of(entry, dict).get("check")
            if isinstance(check, str):
                named.append((f"{key}[{index}].check", check))
    optional = _of(_of(data.get("checks"), dict).get("optional"), dict)
    return named + [(f'checks.optional."{name}"', name) for name in optional]


def _of(value: object, kind: type[T]) -> T:
    """Give a value of this type as it is, and anything else as an empty one."""
    return value if isinstance(value, kind) else kind()


def _slips(
    document: Document, named: Sequence[tuple[str, str]], checks: Mapping[str, str | None] | None
) -> list[Problem]:
    """Find names of checks that do not exist: a slip there would silently do nothing."""
    problems = []
    for key, name in named:
        if checks is not None and name not in checks:
            close = difflib.get_close_matches(name, checks, n=1, cutoff=_CLOSE)
            wanted = (
                f"did you mean `{close[0]}`?" if close else "`preflight explain` lists them all"
            )
            line = document.line(key.replace('"', ""))
            problems.append(
                Problem(
                    file=document.file,
                    line=line,
                    key=key,
                    found=f"there is no check {name!r}",
                    wanted=wanted,
                )
            )
    return problems


def _unknown_host(host: str, folders: Sequence[Path]) -> str:
    known = known_hosts(folders)
    close = difflib.get_close_matches(host, [*known, LOCAL_HOST], n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    own = str(next((folder for folder in folders if folder.is_dir()), folders[-1]))
    into = ""
    if len(folders) == 1 and not is_checkout():  # what is installed is no place for profiles
        own, into = "DIR", " (a folder of your own, named with --expected DIR)"
    return (
        f"there is no profile for the host {host!r}.{guess}\n"
        f"known hosts: {', '.join([LOCAL_HOST, *known])}\n"
        f"looked in: {', '.join(str(folder / 'hosts') for folder in folders)}\n"
        f"to make one: `preflight adopt {host}` writes down what this box is; or copy "
        f"{folders[-1] / 'hosts' / 'example-h100.toml'} to {own}/hosts/{host}.toml{into}, and edit "
        "it; or run with --host local, which needs no profile"
    )
