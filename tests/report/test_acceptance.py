"""The table of what is about to be accepted: in 80 columns, in ASCII if need be, and all of it."""

import dataclasses
import re

from checks.core.expectation import Expectation
from checks.ledger.acceptance import Row
from checks.report.acceptance import table
from checks.report.terminal import Style

TOTAL = Expectation(
    check="machine.memory.total",
    value=270_582_939_648,
    unit="By",
    lower_ratio=-0.015,
    upper_ratio=0.015,
    basis="measured",
    source="sha256:abc",
    premise={"memory": {"size": "256 GiB"}},
)
NAME = Expectation(
    check="machine.identity.virtualization",
    subject="a-subject-of-some-length",
    value="Größe\x1b[31m of a name that is far longer than its column is wide, without any reason",
    basis="measured",
    source="sha256:abc",
)
ROWS = [
    Row(
        new=TOTAL,
        unread=(),
        old=dataclasses.replace(TOTAL, value=260_000_000_000),
        specification=dataclasses.replace(
            TOTAL, value=274_877_906_944, basis="specification", upper_ratio=None
        ),
    ),
    Row(new=NAME, unread=("board",), old=None, specification=None),
]


def test_it_shows_old_and_new_value_unit_tolerance_specification_and_what_it_rests_on():
    lines = table(ROWS, Style(width=80)).splitlines()
    assert lines[2] == "machine.memory.total [box]"
    cells = [re.split(r" {2,}", line.strip()) for line in lines[3:6]]
    assert cells == [
        ["By", "242.1 GiB", "252.0 GiB", "256.0 GiB -1.5 %", "memory: 256 GiB"],
        ["-1.5/+1.5 %", "-1.5/+1.5 %", "(specification)"],
        ["(measured)"],
    ]
    text = " ".join(" ".join(lines).split())
    assert "machine.identity.virtualization [a-subject-of-some-length]" in text
    assert "board: not" in lines[7]
    assert "readable, so any" in lines[8]


def test_a_count_is_shown_without_a_tolerance_and_a_least_count_with_it():
    count = dataclasses.replace(TOTAL, value=8, unit="1", lower_ratio=0.0, upper_ratio=0.0)
    for upper, shown in ((0.0, "8"), (None, "8 +0 %")):
        row = Row(
            new=dataclasses.replace(count, upper_ratio=upper),
            unread=(),
            old=None,
            specification=None,
        )
        line = table([row], Style(width=80)).splitlines()[3]
        assert re.split(r" {2,}", line.strip())[2] == shown


def test_it_fits_80_columns_and_sends_no_control_characters_to_the_terminal():
    text = table(ROWS, Style(width=80))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "Größe" in text


def test_it_is_ascii_where_the_terminal_knows_no_more():
    text = table(ROWS, Style(width=80, unicode=False))
    assert text.isascii()
    assert "Gro\\xdfe" in text
