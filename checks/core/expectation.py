"""Expectations: what a fact is compared with, and what that number rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from checks.core.setting import setting

if TYPE_CHECKING:
    from checks.core.profile import Profile

V_co = TypeVar("V_co", covariant=True)


class Basis(str, Enum):
    """What an expectation rests on."""

    DECLARED = "declared"
    """The profile says so."""
    INVARIANT = "invariant"
    """True on every healthy box."""
    MEASURED = "measured"
    """Somebody measured it; the entry says where and when."""
    SPECIFICATION = "specification"
    """A data sheet says so; nobody measured it."""
    ASSUMED = "assumed"
    """Detected or guessed; nobody stands for it."""

    @property
    def confirms(self) -> bool:
        """Whether a pass on this basis counts as confirmed."""
        return self in (Basis.DECLARED, Basis.INVARIANT, Basis.MEASURED)


@dataclass(frozen=True, kw_only=True)
class Wanted(Generic[V_co]):
    """A value to compare with, as one judge takes it, and where it comes from."""

    value: V_co
    basis: Basis
    source: str
    """File and key, or the rule; with the date where it was measured."""
    premise: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of each component that it was measured on: slot = field = text."""


@dataclass(frozen=True, kw_only=True)
class NotDeclared:
    """There is nothing to compare with, and the fact that makes it so."""

    fact: str


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something should be there to compare with and is not: `unknown: no-expectation`."""

    says: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Case(Generic[V_co]):
    """One subject of one check, with what is wanted of it."""

    subject: str
    wanted: Wanted[V_co] | NotDeclared | Missing
    others: tuple[Wanted[V_co], ...] = ()
    """The same, measured on other kinds of its premise: the one that fits the box is taken."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """A number and how far a measurement may be off; None leaves a side open."""

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One measured or specified number or text, as `measured/<host>.toml` holds it."""

    check: str = setting("Id of the check, such as `machine.memory.total`.")
    subject: str = setting("Subject, as the report shows it in brackets.", default="box")
    value: str | float = setting("The number, in the unit below; or a text, without a unit.")
    unit: str = setting(
        "UCUM unit of a number: By, s, W, Cel, By/s, 1.",
        default="",
        pattern=r"[A-Za-z0-9/%.{}_-]{0,32}",
    )
    lower_ratio: float | None = setting(
        "Largest allowed shortfall as a ratio of the value (-0.03); left out = open.",
        default=None,
        minimum=-1.0,
        maximum=0.0,
    )
    upper_ratio: float | None = setting(
        "Largest allowed excess as a ratio of the value (0.03); left out = open.",
        default=None,
        minimum=0.0,
    )
    basis: str = setting(
        "`measured`, `specification` or `assumed`.",
        choices=("measured", "specification", "assumed"),
    )
    source: str = setting("Ledger digest, data sheet, or who says so.")
    measured_at: str = setting(
        "Day of the measurement, YYYY-MM-DD.", default="", pattern=r"(\d{4}-\d{2}-\d{2})?"
    )
    runs: int = setting("How many times it was measured.", default=1, minimum=1)
    label: str = setting("Label of the run that measured it.", default="")
    accepted_by: str = setting("Login name of whoever accepted it, or the number.", default="")
    accepted_at: str = setting(
        "Day on which it was accepted, YYYY-MM-DD.", default="", pattern=r"(\d{4}-\d{2}-\d{2})?"
    )
    reason: str = setting("Why it was accepted.", default="")
    ticket: str = setting("Where that was decided.", default="")
    premise: dict[str, dict[str, str]] = setting(
        "Kind of what it was measured on: component = field = text, as the ledger's fingerprint "
        "has it.",
        default_factory=dict,
    )

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Find what one key alone cannot show: a number against which nothing can fail."""
        if isinstance(self.value, str):
            if self.unit or self.lower_ratio is not None or self.upper_ratio is not None:
                wanted = "wanted: a number, for there is a unit or a ratio; a text takes neither"
                yield "value", f"found {self.value!r}", wanted
            return
        if not self.unit:
            yield "unit", "missing", "wanted: the unit of the number, such as By or s"
        bounds = self.bounds
        if bounds.lower is None and bounds.upper is None:
            wanted = "give lower_ratio or upper_ratio: with both sides open nothing can fail"
            yield "lower_ratio", "missing, and upper_ratio too", wanted
        if self.unit == "By" and self.value <= 0:
            yield "value", f"found {self.value:g}", "a number of bytes is more than 0"
        for side, key in ((bounds.lower, "lower_ratio"), (bounds.upper, "upper_ratio")):
            if side is not None and not math.isfinite(side):
                yield key, "makes a bound beyond all numbers", "take a smaller value or ratio"

    @property
    def of_what(self) -> tuple[object, ...]:
        """What it is a number of: of one file there may be one, and of several the first counts."""
        # a specification may stand beside what was measured of the same parts
        return (self.check, self.subject, self.premise, self.basis == Basis.MEASURED.value)

    @property
    def bounds(self) -> Bounds:
        """The number with its tolerance; nothing is a number of a text."""
        value = math.nan if isinstance(self.value, str) else self.value
        slack = abs(value)
        return Bounds(
            value=value,
            lower=None if self.lower_ratio is None else value + slack * self.lower_ratio,
            upper=None if self.upper_ratio is None else value + slack * self.upper_ratio,
        )


@dataclass(frozen=True, kw_only=True)
class ExpectationFile:
    """A file of what was measured on one host."""

    schema: int = setting("Version of this format.", choices=(1,))
    expectation: tuple[Expectation, ...] = setting("The numbers.", default=())


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Everything that this run compares with."""

    profile: Profile
    profile_file: str
    """Name of the profile's file, for messages; empty for `local`."""
    numbers: tuple[Expectation, ...] = ()

    def measured(self, check: str, subject: str) -> tuple[Expectation, ...]:
        """Find what was measured for a check and a subject: one entry a kind of its premise."""
        return tuple(row for row in self.numbers if (row.check, row.subject) == (check, subject))
