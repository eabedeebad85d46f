"""Writes a profile for people: every key with what it means, from the classes that read it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields

import tomlkit

from checks.core.errors import ProfileError
from checks.core.facts import Blind, Unseen
from checks.core.profile import Checks, Hardware, Profile
from checks.core.reader import read_document
from checks.core.toml import parse_toml
from checks.core.units import bytes_text

WIDTH = 98
ASSUMED = "assumed"

_TO_DECLARE = (
    "To declare a key: compare its value with the order or the data sheet, correct it if need be, "
    "and take its name out of this list. What this box is known to do may be accepted instead: "
    "`preflight accept` after a run."
)
EXAMPLES = """\
# What the box is for. Take the `#` away from what you need, and edit it;
# expected/schema/profile-1.json describes every key.
# [paths]
# model_cache = "/srv/models/hub"
# tmp_free_min_bytes = 10_737_418_240
#
# [[serve]]
# name = "chat"
# engine = "llama.cpp"
# command = "llama-server -m /srv/models/chat.gguf -t 8"
# where = "port:8080"
# model = "example-org/chat-8b"
# model_bytes = 16_060_522_496
#
# A known fail that may stand until a day:
# [[waiver]]
# check = "machine.memory.total"
# reason = "one module is on order"
# ticket = "INFRA-1234"
# until = 2026-12-31
"""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a profile is made of before it is written."""

    host: str
    about: str
    """What saw it, and when: one line."""
    found: Mapping[str, object]
    """Key of [hardware] = the value that was detected, or why there is none."""
    optional: Mapping[str, str]
    """Check = why this box may go without it."""

    def hardware(self) -> dict[str, object]:
        """Give the keys of [hardware] that have a value which the reader takes."""
        return {key: value for key, value in self.read().items() if not isinstance(value, Unseen)}

    def read(self) -> dict[str, object]:
        """Give every key of [hardware] that was looked for, in the order of the class."""
        names = [field.name for field in fields(Hardware)]
        return {name: _taken(name, self.found[name]) for name in names if name in self.found}


def _taken(key: str, value: object) -> object:
    """Give a value as it is, or why the reader does not take it."""
    if isinstance(value, Unseen):
        return value
    text = f"schema = 1\n[hardware]\n{_line(key, value)}\n"
    try:
        read_document(Profile, parse_toml(text.encode(), "profile"))
    except ProfileError as error:
        problem = error.problems[0]
        return Unseen(Blind.MALFORMED, f"{problem.found}; {problem.wanted}")
    return value


def profile_text(draft: Draft) -> str:
    """Write the file."""
    lines = [*_comment(f"{draft.host}: {draft.about}"), "schema = 1"]
    lines += ['# description = "one line for the report"', "", "[hardware]"]
    found = draft.read()
    for field in fields(Hardware):
        value = found.get(field.name)
        if value is None:
            continue
        lines += _comment(field.metadata["doc"])
        if isinstance(value, Unseen):
            why = f"{value}; {value.remedy}" if value.remedy else str(value)
            lines += _comment(f"{field.name}: left out, {why}")
        else:
            size = f"  # {bytes_text(value)}" if field.name.endswith("_bytes") else ""  # type: ignore[arg-type]
            lines.append(f"{_line(field.name, value)}{size}")
    assumed = [*draft.hardware()]
    lines += ["", *_comment(_docs(Hardware)[ASSUMED]), *_comment(_TO_DECLARE)]
    lines.append(_line(ASSUMED, assumed))
    rest = [field.name for field in fields(Hardware) if field.name not in (*draft.found, ASSUMED)]
    if rest:
        lines += ["", *_comment(f"Not detected, but yours to declare: {', '.join(rest)}.")]
    if draft.optional:
        lines += ["", "[checks.optional]", *_comment(_docs(Checks)["optional"])]
        lines += [_line(name, reason) for name, reason in draft.optional.items()]
    return "\n".join([*lines, "", EXAMPLES])


def _docs(cls: type) -> dict[str, str]:
    return {field.name: field.metadata["doc"] for field in fields(cls)}


def _line(key: str, value: object) -> str:
    plain = isinstance(value, int) and not isinstance(value, bool)
    text = f"{value:_}" if plain else tomlkit.item(value).as_string()
    return f"{tomlkit.key(key).as_string()} = {text}"


def _comment(text: str) -> list[str]:
    """Break a text into lines of comment; whatever came from the box stays in them."""
    words = "".join(letter if letter.isprintable() else " " for letter in text)
    return [f"# {line}" for line in textwrap.wrap(words, WIDTH, break_long_words=False)]
