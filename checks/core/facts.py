"""Facts: what a probe saw, as plain data, and the typed reason why it could not see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Blind(str, Enum):
    """Why something could not be seen."""

    ABSENT = "absent"
    """The file, library or tool is not there."""
    PERMISSION = "permission"
    """It is there and this user may not read it."""
    UNSUPPORTED = "unsupported"
    """This box, board or kernel has no such thing."""
    TIMED_OUT = "timed-out"
    MALFORMED = "malformed"
    """An answer came and it makes no sense (empty, garbage, not a number)."""
    AMBIGUOUS = "ambiguous"
    """More than one thing fits what the profile names."""
    LOST = "lost"
    """The child that looked died without an answer."""
    NOT_RECORDED = "not-recorded"
    """The recording that is judged does not hold it."""
    NOT_ASKED = "not-asked"
    """Nothing names it, so nobody looked."""
    BUSY = "busy"
    """Looking would compete with what the box is doing."""


@dataclass(frozen=True)
class Unseen:
    """Instead of a value: why there is none. Never counts as a measurement."""

    reason: Blind
    detail: str
    """What was tried, in one line."""
    remedy: str = ""
    """What would show it, where that is known."""

    def __str__(self) -> str:
        """Render in one line."""
        return f"{self.reason.value}: {self.detail}"


class NotRecordedError(Exception):
    """A judge asked for a field that the recorded observation does not hold."""

    def __init__(self, type_name: str, field: str) -> None:
        """Name the field."""
        super().__init__(f"{type_name}.{field} was not recorded")
        self.field = field


class Facts:
    """Base of all facts classes: frozen dataclasses without defaults, units in field names.

    A field that an older recording lacks raises NotRecordedError when it is read; there is no
    default that could be taken for a measurement.
    """

    def components(self) -> Iterable[Component]:
        """Give the parts of the box that these facts describe; most facts describe none."""
        return ()

    def busy(self) -> str:
        """Say what the box is busy with that a load would compete with; empty: nothing."""
        return ""

    def __getattr__(self, name: str) -> object:
        """Say that a declared field is missing from the recording."""
        if name in getattr(type(self), "__dataclass_fields__", {}):
            raise NotRecordedError(type(self).__name__, name)
        raise AttributeError(name)


Field = str | Unseen
"""One text of a component, or why it could not be read."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """One part in one slot.

    `kind` is what any equal part shares (model, size, version); `identity` is what this part
    alone has (UUID, serial). Either side may hold fields that could not be read.
    """

    slot: str
    """`board`, `cpu`, `gpu[0000:18:00.0]`, `disk[nvme0n1]`, …; a bare `gpu` whose list is unread
    stands for all of its slots."""
    kind: Mapping[str, Field]
    identity: Mapping[str, Field]


@dataclass(frozen=True, kw_only=True)
class Access:
    """Whether files can be created in a folder, by the user who looked."""

    exists: bool
    """Whether the folder is there; if not, the rest is true of its nearest parent that is."""
    is_folder: bool
    """False for a file that stands there, and for a link that leads nowhere."""
    writable: bool
    read_only: bool
    """Whether its file system is mounted so."""
    device: str
    """Number of the file system; folders with the same one share its room."""
    user: str
    """Who looked: `uid 0`."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one probe saw of one subject, once."""

    probe: str
    subject: str
    seen: Facts | Unseen
    elapsed_s: float


BOX = "box"
"""The subject of what is true of the whole machine."""
