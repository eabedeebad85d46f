"""Moments as ledgers write them."""

import re

import pytest

from checks.core.moment import FORM, utc_s, utc_text


@pytest.mark.parametrize("at_s", [0.0, 1_764_657_351.0, 1_764_657_351.125, -1.0, 253_402_300_799.0])
def test_a_moment_that_was_written_is_read(at_s):
    text = utc_text(at_s)
    assert utc_s(text) == at_s
    assert re.fullmatch(FORM, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-31T00:00:00.000Z",
        "2026-13-01Z",
        "2026-01-31",
        "2026-01-31T00:00:00.000",
    ],
)
def test_a_moment_that_no_calendar_has_is_none(text):
    assert utc_s(text) is None
