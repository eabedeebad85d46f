"""Numbers for people."""

import pytest
from hypothesis import given, strategies as st

from checks.core.units import bytes_text, span_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (25_253_380_096, "23.5 GiB"),
        (2**40 - 1, "1.0 TiB"),
        (1_048_524, "1023.9 KiB"),
        (1_048_550, "1.0 MiB"),
        (-(2**30), "-1.0 GiB"),
        (2**70, "1024.0 EiB"),
        (1.5, "2 B"),
    ],
)
def test_bytes(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_601, "1 h 1 s"),
        (19_888_000, "230 d 4 h"),
        (-90, "1 min 30 s"),
    ],
)
def test_spans(seconds, text):
    assert span_text(seconds) == text


@given(st.integers(0, 2**63))
def test_no_size_is_shown_as_1024_of_a_unit_below_the_last(count):
    number, unit = bytes_text(count).split()
    assert float(number) < 1024 or unit == "EiB"
