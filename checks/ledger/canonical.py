"""Strict JSON in, canonical digests out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NoReturn

import rfc8785

from checks.core.codec import LARGEST_INT, Json
from checks.core.errors import LedgerError, Problem

LONGEST_INT = 20
"""Digits of an integer that is worth converting."""
LARGEST_FILE_BYTES = 64_000_000
"""A ledger has less than 1 MB; a file this large is something else."""

LARGEST_DEPTH = 100
"""Nothing that a run writes nests a tenth as deep; what reads and writes it calls itself for each."""


def _deeper_than(value: Json, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True


def parse(raw: bytes, name: str) -> Json:
    """Parse JSON as RFC 8259 means it: no NaN, no key twice, no lone surrogates, nothing too deep.

    Raises:
        LedgerError: names the file and what is wrong with it.

    """

    def complain(found: str) -> NoReturn:
        raise LedgerError(
            Problem(file=name, found=found, wanted="wanted: a ledger as it was written")
        )

    def constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is not JSON")

    def number(text: str) -> int:
        value = int(text) if len(text) < LONGEST_INT else LARGEST_INT + 1
        if abs(value) > LARGEST_INT:
            raise ValueError(f"the integer {text[:24]} is beyond 2^53-1")
        return value

    def pairs(items: list[tuple[str, Json]]) -> dict[str, Json]:
        result = dict(items)
        if len(result) != len(items):
            raise ValueError("a key stands twice in one object")
        return result

    def real(text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"the number {text[:24]} is beyond all floats")
        return value

    if len(raw) > LARGEST_FILE_BYTES:
        complain(f"is {len(raw)} bytes long")
    try:
        value: Json = json.loads(
            raw.decode("utf-8"),
            parse_constant=constant,
            parse_int=number,
            parse_float=real,
            object_pairs_hook=pairs,
        )
        if _deeper_than(value, LARGEST_DEPTH):
            complain("is nested too deeply")
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        complain("is not UTF-8 throughout")
    except RecursionError:
        complain("is nested too deeply")
    except ValueError as error:
        complain(f"is not JSON ({error})")
    return value


def read(path: Path) -> tuple[Json, str]:
    """Read a JSON file; give its value and the sha256 of its bytes.

    Raises:
        LedgerError: unreadable, or not strict JSON.

    """
    raw = readable(path)
    return parse(raw, str(path)), hashlib.sha256(raw).hexdigest()


def readable(path: Path) -> bytes:
    """Read a file whole.

    Raises:
        LedgerError: it is not there, is no file, or may not be read.

    """
    try:
        if not path.is_file():
            found = "is no file" if path.exists() else "is not there"
            raise LedgerError(
                Problem(file=str(path), found=found, wanted="give the path of a ledger")
            )
        return path.read_bytes()
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise LedgerError(Problem(file=str(path), found=found, wanted="check the path")) from error


def digest(value: Json) -> str:
    """Give the sha256 over the RFC 8785 canonical form."""
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def ledger_digest(ledger: dict[str, Json]) -> str:
    """Give the digest of a ledger without its own `digest`."""
    return digest({key: value for key, value in ledger.items() if key != "digest"})


FIRST = ("schema", "host", "run", "counts", "findings")
"""Keys of a ledger that a person looks for; they stand first in the file."""


def pretty(value: Json) -> bytes:
    """Write JSON for people: what one looks for first, the rest sorted; indented, UTF-8."""
    if isinstance(value, dict):
        first = {key: value[key] for key in FIRST if key in value}
        value = first | {key: value[key] for key in sorted(value) if key not in first}
        value = {key: _sorted(item) for key, item in value.items()}
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
