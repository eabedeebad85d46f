"""Plain text that a terminal shows as it is: no control characters, no more than ASCII if need be."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_ASCII = str.maketrans(
    {"·": "-", "…": "...", "–": "-", "—": "-", "→": "->", "×": "x", "≥": ">=", "≤": "<=", "─": "-"}
)


def visible(text: str) -> str:
    """Show control characters (which may come from the box) as escapes, never send them."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def ascii_only(text: str) -> str:
    """Say a text in ASCII, for terminals that know no more."""
    apart = unicodedata.normalize("NFKD", text.translate(_ASCII))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return plain.encode("ascii", "backslashreplace").decode("ascii")
