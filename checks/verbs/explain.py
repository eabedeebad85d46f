"""`preflight explain`: what a check looks at, what fails, and what it is compared with."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from checks.core.errors import UsageError
from checks.core.expectation import Expected, NotDeclared, Wanted
from checks.core.judging import cases_of
from checks.core.load import LOCAL_HOST, load_host
from checks.core.outcome import WAIVER_CAUSES, WAIVER_CHECK, waiver_findings
from checks.core.paths import expected_folders
from checks.core.redact import ENVIRONMENT_SECRETS, redact_text
from checks.core.registry import Check, load_areas
from checks.core.units import bytes_text
from checks.verbs.codes import YES
from checks.verbs.shared import FOLDERS, say

BYTES = "By"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument(
        "check", metavar="CHECK", nargs="?", help="such as machine.cpu.threads; without: a list"
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        default=LOCAL_HOST,
        help=f"the host whose expected numbers are shown; without: {LOCAL_HOST}",
    )
    parser.add_argument("--expected", metavar="DIR", action="append", default=[], help=FOLDERS)


def run(given: argparse.Namespace) -> int:
    """Explain one check, or list all of them."""
    registry = load_areas()
    if not given.check:
        for check in registry.checks.values():
            say(f"{check.name:<34} {check.title}")
        return YES
    if given.check == WAIVER_CHECK:
        say(f"{WAIVER_CHECK}\n\n{waiver_findings.__doc__}")
        for slug, text in WAIVER_CAUSES.items():
            say(f"  {slug}: {text}")
        return YES
    found = registry.checks.get(given.check)
    if found is None:
        names = [name for name in registry.checks if given.check in name]
        listed = ", ".join(names or registry.checks)
        raise UsageError(f"there is no check {given.check!r}; there are: {listed}")
    loaded = load_host(given.host, expected_folders(given.expected), registry.units())
    say(f"{found.name}\n")
    say(found.explanation)
    say("\nFails with")
    for slug, text in found.causes.items():
        say(textwrap.fill(f"{slug}: {text}", 78, initial_indent="  ", subsequent_indent="    "))
    rests = ", ".join(found.premise) or "nothing that can be swapped"
    say(f"\nRests on: {rests}")
    if found.blocked_by:
        say(f"Explained by: {', '.join(found.blocked_by)}")
    say(f"Controls: {len(found.controls)} planted observations, judged in every run")
    say(f"\nCompared with (host {given.host})")
    for line in _numbers(found, loaded.expected):
        say(textwrap.fill(line, 78, initial_indent="  ", subsequent_indent="    "))
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
