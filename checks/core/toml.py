"""TOML with the line of every key, so that an error can say where it is.

tomli on every Python, not tomllib: tomli gives line and column of a syntax error as numbers.
Neither gives the line of a key in a file that parses, so `_lines` finds those.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli

from checks.core.errors import Problem, ProfileError

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_FILE_BYTES = 500_000
"""Nobody writes that much by hand; what is larger would take seconds to read."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A TOML file that parsed."""

    file: str
    sha256: str
    data: dict[str, Any]
    lines: dict[str, int]
    """Line, from 1, of each key path such as `serve[1].model`."""

    def line(self, key: str) -> int | None:
        """Find the line of a key path, or of the nearest path around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return None


def load_toml(path: Path) -> Document:
    """Read and parse a file.

    Raises:
        ProfileError: unreadable, too large, not UTF-8, or not TOML; says where.

    """
    name = str(path)
    try:
        if path.exists() and not path.is_file():
            # a pipe would wait for ever, a device give bytes for ever
            raise ProfileError(
                Problem(file=name, found="cannot be read (it is no file)", wanted="check the path")
            )
        raw = path.read_bytes()
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise ProfileError(
            Problem(file=name, found=found, wanted="check the path and the permissions")
        ) from error
    return parse_toml(raw, name)


def parse_toml(raw: bytes, name: str) -> Document:
    """Parse the bytes of a file called `name`.

    Raises:
        ProfileError: too large, not UTF-8, or not TOML; says where.

    """
    if len(raw) > LARGEST_FILE_BYTES:
        found = f"is {len(raw)} bytes long"
        wanted = f"a file of this kind has at most {LARGEST_FILE_BYTES} bytes"
        raise ProfileError(Problem(file=name, found=found, wanted=wanted))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"byte {raw[error.start]:#04x} is not UTF-8"
        raise ProfileError(
            Problem(file=name, line=line, found=found, wanted="save the file as UTF-8")
        ) from error
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        wanted = f"mend the TOML at column {error.colno}{_UNCLOSED.get(error.msg, '')}"
        raise ProfileError(
            Problem(file=name, line=error.lineno, found=f"{error.msg}", wanted=wanted)
        ) from error
    except RecursionError as error:
        found, wanted = "is nested too deeply", "write plain values"
        raise ProfileError(
            Problem(file=name, line=_too_deep(text), found=found, wanted=wanted)
        ) from error
    except ValueError as error:
        # int() refuses integers of thousands of digits, and datetime days that no calendar has
        where = _first(r"[0-9_]{4000,}", text)
        found, wanted = str(error), "write plain values"
        raise ProfileError(Problem(file=name, line=where, found=found, wanted=wanted)) from error
    digest = hashlib.sha256(raw).hexdigest()
    return Document(file=name, sha256=digest, data=data, lines=_lines(text))


_OPEN_ABOVE = ": a text that begins on this line or above it has no closing quote"
_UNCLOSED = {
    r"Illegal character '\n'": ": a text that begins on this line has no closing quote",
    "Unterminated string": _OPEN_ABOVE,
    'Expected "\'"': _OPEN_ABOVE,
    "Expected \"'''\"": _OPEN_ABOVE,
}
"""What tomli says where the end of a text is missing, and what that means."""


def _first(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return text.count("\n", 0, found.start()) + 1 if found else None


def _too_deep(text: str) -> int | None:
    """Find the line where a text, valid or not, begins to nest more than anybody means to."""
    depth = 0
    for found in _NESTING.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > LARGEST_DEPTH or found[0].count(".") > LARGEST_DEPTH:
            return text.count("\n", 0, found.start()) + 1
    return None


LARGEST_DEPTH = 50
_NESTING = re.compile(
    r'"""[\s\S]*?"""|'
    r"'''[\s\S]*?'''|"
    r'"(?:[^"\\\n]|\\.)*"(?!\s*\.)|'
    r"'[^'\n]*'(?!\s*\.)|"
    r"#[^\n]*|[\[\]{}]|"
    r"(?:[^\s.=\[\]{}#]+[ \t]*\.[ \t]*)+"
)


def _lines(text: str) -> dict[str, int]:
    """Find the line of each table, key and element of a text that is known to be valid TOML."""
    scan = _Scan(text)
    while scan.position < len(text):
        scan.step()
    return scan.lines


@dataclass
class _Open:
    """A list or an inline table that is not closed yet."""

    path: str
    index: int | None
    """Of the element that comes next; None in an inline table."""


class _Scan:
    """Goes through valid TOML word by word and notes where each name and element stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.number = 1
        self.lines: dict[str, int] = {}
        self.table = ""
        self.counts: dict[str, int] = {}
        """Index of the newest element of each array of tables."""
        self.open: list[_Open] = []
        self.key = ""
        """Path that the value in hand belongs to."""
        self.at_key = True

    def step(self) -> None:
        """Take one word: white space, a comment, a header, a key, a value or a bracket."""
        character = self.text[self.position]
        if character == "\n":
            self.number += 1
            self.at_key = self.at_key or not self.open
        if character == "#":
            end = self.text.find("\n", self.position)
            self.position = len(self.text) if end < 0 else end
        elif character.isspace():
            self.position += 1
        elif character in "]}" and self.open:
            self.open.pop()
            self.at_key = False
            self.position += 1
        elif character == ",":
            top = self.open[-1]
            self.at_key = top.index is None
            if top.index is not None:
                top.index += 1
            self.position += 1
        elif self.at_key and character == "[" and not self.open:
            self.header()
        elif self.at_key:
            self.name()
        else:
            self.value(character)

    def header(self) -> None:
        several = self.text.startswith("[[", self.position)
        self.position += 2 if several else 1
        path = self.absolute(self.dotted())
        self.lines.setdefault(path, self.number)
        if several:
            self.counts[path] = self.counts.get(path, -1) + 1
            path = f"{path}[{self.counts[path]}]"
            self.lines[path] = self.number
        self.table = path
        self.position += 2 if several else 1
        self.at_key = False

    def absolute(self, parts: list[str]) -> str:
        """Put the index of the newest element behind each array of tables on the way."""
        path = ""
        for position, part in enumerate(parts):
            path = f"{path}.{part}" if path else part
            if path in self.counts and position < len(parts) - 1:
                path = f"{path}[{self.counts[path]}]"
        return path

    def name(self) -> None:
        path = self.open[-1].path if self.open else self.table
        for part in self.dotted():
            path = f"{path}.{part}" if path else part
            self.lines.setdefault(path, self.number)
        self.key = path
        self.position += 1  # the equals sign
        self.at_key = False

    def dotted(self) -> list[str]:
        """Take `a."b.c" . d`, up to its equals sign or bracket."""
        parts = []
        while True:
            self.blank()
            start = self.position
            if self.text[start] in "\"'":
                self.position = _string_end(self.text, start)
                parts.append(_unquoted(self.text[start : self.position]))
            else:
                found = _BARE.match(self.text, start)
                self.position = found.end() if found else start + 1
                parts.append(self.text[start : self.position])
            self.blank()
            if self.text[self.position] != ".":
                return parts
            self.position += 1

    def blank(self) -> None:
        while self.text[self.position] in " \t":
            self.position += 1

    def value(self, character: str) -> None:
        top = self.open[-1] if self.open else None
        path = self.key
        if top is not None and top.index is not None:
            path = f"{top.path}[{top.index}]"
            self.lines.setdefault(path, self.number)
        start = self.position
        if character in "[{":
            self.open.append(_Open(path, 0 if character == "[" else None))
            self.at_key = character == "{"
            self.position += 1
        elif character in "\"'":
            self.position = _string_end(self.text, start)
            self.number += self.text.count("\n", start, self.position)
        else:
            found = _PLAIN.match(self.text, start)
            self.position = found.end() if found else start + 1


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[^\s,\]}#]+")
"""A number, a date or a truth value."""


def _unquoted(text: str) -> str:
    """Give the name that stands in quotes; the quotes themselves where there is none."""
    if text[0] == '"' and "\\" in text:
        name: str = tomli.loads(f"x = {text}")["x"]
        return name
    return text[1:-1] or '""'


def _string_end(text: str, start: int) -> int:
    """Find the index just behind the string that begins at `start`."""
    quote = text[start]
    triple = quote * 3
    if text.startswith(triple, start):
        position = start + 3
        while position < len(text):
            if quote == '"' and text[position] == "\\":
                position += 2
            elif text.startswith(triple, position):
                position += 3
                while position < len(text) and text[position] == quote:
                    position += 1
                return position
            else:
                position += 1
        return len(text)
    position = start + 1
    while position < len(text) and text[position] != quote:
        position += 2 if quote == '"' and text[position] == "\\" else 1
    return min(position + 1, len(text))
