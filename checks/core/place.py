"""Places: whose limits are read. How a profile names one."""

from __future__ import annotations

import re
from dataclasses import dataclass

THIS = "this"
KINDS = ("pid", "port", "process", "unit", "container")
_NUMBER_KINDS = ("pid", "port")
LARGEST_PORT = 65_535
SHORTEST_CONTAINER_ID = 12
"""As container tools print it; shorter prefixes would fit several."""
CONTAINER_ID = f"{SHORTEST_CONTAINER_ID} to 64 hexadecimal digits; `docker ps --no-trunc` shows it"
_WANTED = "`this`, " + ", ".join(
    f"`container:ID` ({CONTAINER_ID})"
    if kind == "container"
    else f"`{kind}:{'N' if kind in _NUMBER_KINDS else 'NAME'}`"
    for kind in KINDS
)


class PlaceError(ValueError):
    """A place that is written wrongly; says what is wanted."""


@dataclass(frozen=True)
class Place:
    """This process, or a process that is found by number, port, name, unit or container."""

    kind: str
    """`this`, or one of KINDS."""
    name: str = ""

    def __str__(self) -> str:
        """Render as the profile writes it."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


def parse_place(text: str) -> Place:
    """Read what a profile says in `where`.

    Raises:
        PlaceError: says what is wanted.

    """
    if text == THIS:
        return Place(THIS)
    kind, colon, name = text.partition(":")
    if kind not in KINDS or not colon or not name:
        raise PlaceError(_WANTED)
    if kind in _NUMBER_KINDS:
        largest = LARGEST_PORT if kind == "port" else 2**31
        if not re.fullmatch(r"[0-9]{1,10}", name) or not 0 < int(name) <= largest:
            raise PlaceError(f"{kind}: and a number from 1 to {largest}")
        return Place(kind, str(int(name)))
    if kind == "container" and not re.fullmatch(rf"[0-9a-f]{{{SHORTEST_CONTAINER_ID},64}}", name):
        raise PlaceError(f"`container:ID` ({CONTAINER_ID})")
    if not re.fullmatch(r"[A-Za-z0-9@_.:\\-]{1,255}", name):
        raise PlaceError(f"{kind}: and a name of letters, digits and @ _ . : -")
    return Place(kind, name)
