"""Spans and windows of time as a scheduler writes them: `12h`, `Mon-Fri 22:00-06:00`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SPAN_FORM = "a number and s, m, h or d, such as 12h"
WINDOW_FORM = "HH:MM-HH:MM, or 'Mon-Fri 22:00-06:00'"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DAY_MINUTES = 24 * 60
_CLOCK = re.compile(r"([0-9]{2}):([0-5][0-9])")


class FormError(ValueError):
    """A text that has not the form that is wanted."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A length of time."""

    text: str
    """As it was written."""
    seconds: int


def parse_span(text: str) -> Span:
    """Read a span: `90s`, `30m`, `12h`, `7d`.

    Raises:
        FormError: it is none, or nothing, or less than nothing.

    """
    found = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if found is None:
        raise FormError(SPAN_FORM)
    return Span(text=text, seconds=int(found[1]) * _SECONDS[found[2]])


@dataclass(frozen=True, kw_only=True)
class Window:
    """Hours of some days of the week. What goes on past midnight belongs to the day it begins on."""

    text: str
    """As it was written."""
    days: tuple[int, ...]
    """0 is Monday, as time.localtime has it."""
    start_min: int
    """Minutes after midnight."""
    end_min: int
    """The first minute outside; not more than `start_min` where the window goes past midnight."""

    def holds(self, day: int, minute: int) -> bool:
        """Whether a minute of a day of the week is inside."""
        if self.start_min < self.end_min:
            return day in self.days and self.start_min <= minute < self.end_min
        begun = day in self.days and minute >= self.start_min
        return begun or ((day - 1) % len(DAYS) in self.days and minute < self.end_min)


def parse_window(text: str) -> Window:
    """Read a window: `22:00-06:00`, `Mon-Fri 09:00-17:00`, `Sat,Sun 00:00-24:00`.

    Raises:
        FormError: it is none, or has no length.

    """
    days, space, hours = text.rpartition(" ")
    start, _, end = hours.partition("-")
    start_min, end_min = _minutes(start), _minutes(end)
    if start_min in (end_min, _DAY_MINUTES):
        raise FormError(WINDOW_FORM)
    every = tuple(range(len(DAYS)))
    return Window(
        text=text,
        days=_days(days) if space else every,
        start_min=start_min,
        end_min=end_min,
    )


def _minutes(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    minutes = int(found[1]) * 60 + int(found[2]) if found else _DAY_MINUTES + 1
    if minutes > _DAY_MINUTES:
        raise FormError(WINDOW_FORM)
    return minutes


def _days(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise FormError(WINDOW_FORM)
        begin = DAYS.index(first)
        length = (DAYS.index(last) - begin) % len(DAYS) if dash else 0
        found.update((begin + ahead) % len(DAYS) for ahead in range(length + 1))
    return tuple(sorted(found))
