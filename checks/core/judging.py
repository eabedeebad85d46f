"""What the judges of every area share: cases made of a profile, and comparisons of texts. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from checks.core.expectation import (
    Basis,
    Bounds,
    Case,
    Expectation,
    Expected,
    NotDeclared,
    Wanted,
)
from checks.core.facts import BOX, Blind, NotRecordedError, Unseen
from checks.core.registry import Check

V = TypeVar("V")


def cases_of(check: Check, expected: Expected) -> tuple[Case[Any], ...]:
    """List the subjects of a check; where there are none, one that says so."""
    nothing = NotDeclared(fact="the profile declares no subject for it")
    return tuple(check.cases(expected)) or (Case(subject=BOX, wanted=nothing),)


def if_recorded(read: Callable[[], V]) -> V | Unseen:
    """Read a fact that earlier versions did not record, and whose lack leaves the rest judged."""
    try:
        return read()
    except NotRecordedError as error:
        return Unseen(Blind.NOT_RECORDED, str(error))


def always(rule: str) -> Wanted[None]:
    """Want what holds on every healthy box."""
    return Wanted(value=None, basis=Basis.INVARIANT, source=rule)


def of_hardware(expected: Expected, key: str, value: V) -> Wanted[V]:
    """Want what a key of the profile's [hardware] says, which somebody declared or only detected."""
    assumed = key in expected.profile.hardware.assumed
    return Wanted(
        value=value,
        basis=Basis.ASSUMED if assumed else Basis.DECLARED,
        source=f"{expected.profile_file}: hardware.{key}",
    )


def measured_wants(
    expected: Expected, check: str, of_measured: Callable[[Expectation], V]
) -> list[Wanted[V]]:
    """Want of the box what was measured for a check: one for each kind that it was measured on."""
    return [
        Wanted(
            value=of_measured(entry),
            basis=Basis(entry.basis),
            source=f"{entry.source} {entry.measured_at}".strip(),
            premise=entry.premise,
        )
        for entry in expected.measured(check, BOX)
    ]


def hardware_case(
    expected: Expected,
    check: str,
    key: str,
    of_profile: Callable[[Any], V],
    of_measured: Callable[[Expectation], V],
) -> Case[V]:
    """Make the case of a key of the profile's [hardware] that may also have been measured.

    What somebody declared comes first, then what was measured, then what was only detected.

    Args:
        expected: all that this run compares with.
        check: id of the check.
        key: of [hardware].
        of_profile: what the judge wants, of the key's value.
        of_measured: the same of a measured value.

    """
    value = getattr(expected.profile.hardware, key)
    own = None if value is None else of_hardware(expected, key, of_profile(value))
    measured = measured_wants(expected, check, of_measured)
    if own is not None and (own.basis is Basis.DECLARED or not measured):
        return Case(subject=BOX, wanted=own)
    if measured:
        return Case(subject=BOX, wanted=measured[0], others=tuple(measured[1:]))
    return Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))


def text_case(expected: Expected, check: str, key: str) -> Iterator[Case[str]]:
    """Make the case of a text of the profile's [hardware]."""
    yield hardware_case(expected, check, key, str, lambda entry: str(entry.value))


def count_case(expected: Expected, check: str, key: str) -> Case[Bounds]:
    """Make the case of a number of the profile's [hardware] that has to be met exactly."""
    return hardware_case(
        expected,
        check,
        key,
        lambda count: Bounds(value=count, lower=count, upper=count),
        lambda entry: entry.bounds,
    )


def stand_for(key: str = "") -> str:
    """Say how another value is declared: what stands in the profile as declared counts first."""
    what = f"hardware.{key}" if key else "the key of [hardware]"
    return f"set {what} in the profile and take its name out of `assumed` there"


def or_always(case: Case[V], rule: str) -> Case[V | None]:
    """Want what holds on every healthy box, as None, where the profile declares nothing."""
    if isinstance(case.wanted, NotDeclared):
        return Case(subject=case.subject, wanted=always(rule))
    return Case(subject=case.subject, wanted=case.wanted, others=case.others)


def declared_or_always(expected: Expected, key: str, rule: str) -> Iterator[Case[Any]]:
    """Make the case of a key of [hardware] that is not measured; None, as a rule, without it."""
    value = getattr(expected.profile.hardware, key)
    wanted = always(rule) if value is None else of_hardware(expected, key, value)
    yield Case(subject=BOX, wanted=wanted)


def utc(at_s: float) -> str:
    """Show a moment; a clock can be so wrong that no calendar holds it."""
    try:
        moment = datetime.datetime.fromtimestamp(at_s, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{at_s:.0f} s since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
