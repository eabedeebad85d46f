"""What the judges of every area share: cases made of a profile, and comparisons of texts. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TypeVar

from checks.core.expectation import Basis, Expected, Wanted
from checks.core.facts import Blind, NotRecordedError, Unseen

V = TypeVar("V")


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


def utc(at_s: float) -> str:
    """Show a moment; a clock can be so wrong that no calendar holds it."""
    try:
        moment = datetime.datetime.fromtimestamp(at_s, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{at_s:.0f} s since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
