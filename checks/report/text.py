"""Plain text that a terminal shows as it is: no control characters, no more than ASCII if need be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_ASCII = str.maketrans(
    {"·": "-", "…": "...", "–": "-", "—": "-", "→": "->", "×": "x", "≥": ">=", "≤": "<=", "─": "-"}
)

_NO_LANGUAGE = ("C", "POSIX")
_PUT_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python itself sets LC_CTYPE to where it would be C (PEP 538)."""


def wants_ascii(environ: Mapping[str, str], encoding: str | None) -> bool:
    """Whether a terminal wants ASCII: by the encoding of its stream, or by its locale.

    The encoding alone does not say it: in the C locale Python writes UTF-8 (PEP 540).
    """
    if not (encoding or "ascii").lower().replace("-", "").startswith("utf"):
        return True
    everything, letters, language = (environ.get(n) for n in ("LC_ALL", "LC_CTYPE", "LANG"))
    if letters in _PUT_BY_PYTHON and language:
        letters = None
    return (everything or letters or language) in _NO_LANGUAGE


def visible(text: str) -> str:
    """Show control characters (which may come from the box) as escapes, never send them."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def ascii_only(text: str) -> str:
    """Say a text in ASCII, for terminals that know no more."""
    apart = unicodedata.normalize("NFKD", text.translate(_ASCII))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return plain.encode("ascii", "backslashreplace").decode("ascii")
