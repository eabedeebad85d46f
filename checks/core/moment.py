"""Moments as ledgers write them: RFC 3339, UTC, milliseconds."""

from __future__ import annotations

import datetime
import re

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FORM = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z"
"""As the schemas have it; they let the 31st of February through."""


def utc_text(at_s: float) -> str:
    """Show a moment in RFC 3339, UTC, milliseconds; clamped to what a calendar holds."""
    largest_s = 253_402_300_799.0  # the end of the year 9999
    at_s = min(max(at_s, -62_135_596_800.0), largest_s)
    moment = _EPOCH + datetime.timedelta(milliseconds=int(at_s * 1_000))
    # not strftime, whose %Y gives the year 33 two digits
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def utc_s(text: str) -> float | None:
    """Read a moment that `utc_text` wrote, in seconds since 1970; None where no calendar has it."""
    if not re.fullmatch(FORM, text):
        return None  # what else Python takes for a moment differs from version to version
    try:
        moment = datetime.datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        return None
    return (moment.replace(tzinfo=datetime.timezone.utc) - _EPOCH).total_seconds()


def day_of(utc: str) -> datetime.date:
    """Give the day of a moment that `utc_text` wrote."""
    return datetime.date.fromisoformat(utc[:10])


def minute(utc: str) -> str:
    """Show a moment to the minute."""
    return f"{utc[:16].replace('T', ' ')}Z"
