"""Writes files of measured numbers: what nobody touches stays as it is, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import tomlkit

from checks.core.errors import Problem, ProfileError
from checks.core.expectation import Expectation, ExpectationFile
from checks.core.load import REHEARSED
from checks.core.reader import read_document
from checks.core.toml import parse_toml

_HEAD = """\
# What was measured on {host}, and accepted as what to expect of it. `preflight accept` adds to
# this file and leaves the rest of it alone; to take a value back, remove its [[expectation]].
schema = 1
"""
_REHEARSED_HEAD = """\
# What was accepted from rehearsals of {host}, runs on a recorded tree (--root). It counts in
# rehearsals, and in no run on a machine.
schema = 1
"""


def new_file(host: str, room: str) -> bytes:
    """Give a file of measured numbers that has none yet, for one of its folders."""
    head = _REHEARSED_HEAD if room == REHEARSED else _HEAD
    return head.format(host=host).encode()


def amended(
    raw: bytes,
    name: str,
    *,
    added: Sequence[Expectation],
    changed: Mapping[int, Expectation],
) -> bytes:
    """Give a file with entries added at its end, and others changed in their places.

    Args:
        raw: the file as it is, read without problems.
        name: of the file, for errors.
        added: new entries.
        changed: by the index of the entry that each takes the place of.

    Raises:
        ProfileError: it is written in a way that cannot be added to; nothing is lost by that.

    """
    wanted = list(read_document(ExpectationFile, parse_toml(raw, name)).expectation)
    for index, entry in changed.items():
        wanted[index] = entry
    wanted += added
    text = raw.decode("utf-8")
    end = "\r\n" if "\r\n" in text else "\n"
    if changed:
        document = tomlkit.parse(text)
        entries: Any = document["expectation"]
        for index, entry in changed.items():
            _change(entries[index], _settings(entry))
        text = tomlkit.dumps(document)
    if added and not text.endswith("\n"):
        text += end
    for entry in added:
        text += end + _block(entry).replace("\n", end)
    made = text.encode("utf-8")
    try:
        good = read_document(ExpectationFile, parse_toml(made, name)).expectation == tuple(wanted)
    except ProfileError:
        good = False
    if not good:
        found = "is written in a way that nothing can be added to without changing the rest"
        wish = "write each entry under its own [[expectation]], and accept again"
        raise ProfileError(Problem(file=name, found=found, wanted=wish))
    return made


def _settings(entry: Expectation) -> dict[str, Any]:
    """Give what an entry says besides the defaults, in the order of the class."""
    said: dict[str, Any] = {}
    for field in fields(entry):
        value = getattr(entry, field.name)
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        if default is MISSING or value != default:
            said[field.name] = value
    return said


def _inline(value: Any) -> Any:  # noqa: ANN401 - any TOML value
    """Write tables on one line."""
    if not isinstance(value, dict):
        return value
    table = tomlkit.inline_table()
    for key, item in value.items():
        table[key] = _inline(item)
    return table


def _block(entry: Expectation) -> str:
    table = tomlkit.table()
    for key, value in _settings(entry).items():
        table.add(key, _inline(value))
    rows = tomlkit.aot()
    rows.append(table)
    document = tomlkit.document()
    document.add("expectation", rows)
    return tomlkit.dumps(document)


def _change(table: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a table of tomlkit
    """Change what differs, key by key, so that the comments beside the rest stay."""
    for key in [key for key in table if key not in said]:
        table.remove(key)
    for key, value in said.items():
        if key in table and isinstance(value, dict):
            _change(table[key], value)
        elif key not in table or table[key] != value:
            table[key] = _inline(value)
