"""TOML with the line of every key, so that an error can say where it is.

tomli on every Python, not tomllib: tomli gives line and column of a syntax error as numbers.
Neither gives the line of a key in a file that parses, so `_lines` finds those.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli

from checks.core.errors import Problem, ProfileError

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_FILE_BYTES = 4_000_000


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
        wanted = f"mend the TOML at column {error.colno}"
        raise ProfileError(
            Problem(file=name, line=error.lineno, found=f"{error.msg}", wanted=wanted)
        ) from error
    except (RecursionError, ValueError) as error:
        # tomli recurses over nested values; int() refuses integers of thousands of digits.
        found = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ProfileError(Problem(file=name, found=found, wanted="write plain values")) from error
    digest = hashlib.sha256(raw).hexdigest()
    return Document(file=name, sha256=digest, data=data, lines=_lines(text))


def _lines(text: str) -> dict[str, int]:
    """Find the line of each table and each key of a text that is known to be valid TOML."""
    lines: dict[str, int] = {}
    table = ""
    counts: dict[str, int] = {}
    for number, statement in _statements(text):
        if statement.startswith("[["):
            path = _absolute(_dotted(statement[2:]), counts)
            counts[path] = counts.get(path, -1) + 1
            table = f"{path}[{counts[path]}]"
            lines.setdefault(path, number)
            lines[table] = number
        elif statement.startswith("["):
            table = _absolute(_dotted(statement[1:]), counts)
            lines.setdefault(table, number)
        else:
            parts = _dotted(statement)
            for end in range(1, len(parts) + 1):
                key = ".".join(parts[:end])
                lines.setdefault(f"{table}.{key}" if table else key, number)
    return lines


def _absolute(parts: list[str], counts: dict[str, int]) -> str:
    """Put the index of the newest element behind each array of tables on the way."""
    path = ""
    for position, part in enumerate(parts):
        path = f"{path}.{part}" if path else part
        if path in counts and position < len(parts) - 1:
            path = f"{path}[{counts[path]}]"
    return path


def _dotted(text: str) -> list[str]:
    """Split `a."b.c".d = …` or `a.b]` into its keys, without quotes."""
    parts: list[str] = []
    current = ""
    quote = ""
    for character in text:
        if quote:
            if character == quote:
                quote = ""
            else:
                current += character
        elif character in "\"'":
            quote = character
        elif character in "=]":
            break
        elif character == ".":
            parts.append(current)
            current = ""
        elif not character.isspace():
            current += character
    return [*parts, current]


def _statements(text: str) -> list[tuple[int, str]]:
    """Give the line and the text of each header or key, at nesting depth zero."""
    found: list[tuple[int, str]] = []
    position, number, depth = 0, 1, 0
    fresh = True
    in_value = False
    size = len(text)
    while position < size:
        character = text[position]
        if fresh and not character.isspace() and character != "#" and not in_value:
            end = text.find("\n", position)
            found.append((number, text[position : end if end >= 0 else size]))
            fresh = False
        if character == "\n":
            number += 1
            fresh = fresh or depth == 0
            in_value = in_value and depth > 0
        elif character == "#":
            end = text.find("\n", position)
            position = size if end < 0 else end
            continue
        elif character in "\"'":
            end = _string_end(text, position)
            number += text.count("\n", position, end)
            position = end
            continue
        elif character == "=" and depth == 0:
            in_value = True
        elif character in "[{" and in_value:
            depth += 1
        elif character in "]}" and in_value:
            depth -= 1
        position += 1
    return found


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
