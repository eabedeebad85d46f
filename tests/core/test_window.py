"""Spans and windows of time as a scheduler writes them."""

import pytest

from checks.core.window import DAYS, FormError, parse_span, parse_window


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90s", 90), ("30m", 1_800), ("12h", 43_200), ("7d", 604_800)],
)
def test_a_span_is_a_number_and_a_unit(text, seconds):
    span = parse_span(text)
    assert (span.text, span.seconds) == (text, seconds)


@pytest.mark.parametrize("text", ["", "0s", "-1s", "1", "s", "1 s", "01h", "1h30m", "1H", "1d\n"])
def test_what_is_no_span_says_the_form(text):
    with pytest.raises(FormError, match="a number and s, m, h or d, such as 12h"):
        parse_span(text)


def inside(text):
    """Give all minutes of a week that a window holds, as day and HH:MM of the first and last ones."""
    window = parse_window(text)
    week = [(day, minute) for day in range(7) for minute in range(24 * 60)]
    held = [window.holds(*moment) for moment in week]
    edges = []
    for number, (day, minute) in enumerate(week):
        if held[number] != held[number - 1]:
            edges.append(f"{DAYS[day]} {minute // 60:02d}:{minute % 60:02d}")
    return sum(held), edges


def each_day(*edges):
    return [f"{day} {edge}" for day in DAYS for edge in edges]


def test_a_window_of_every_day_begins_with_its_first_minute_and_ends_before_its_last():
    assert inside("09:00-17:30") == (7 * 510, each_day("09:00", "17:30"))


def test_a_window_past_midnight_goes_on_in_the_morning():
    assert inside("22:00-06:00") == (7 * 480, each_day("06:00", "22:00"))


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_begins():
    held, edges = inside("Fri 22:00-06:00")
    assert (held, edges) == (480, ["Fri 22:00", "Sat 06:00"])
    assert inside("Sun 22:00-06:00") == (480, ["Mon 06:00", "Sun 22:00"])
    held, edges = inside("Mon-Fri 22:00-06:00")
    assert held == 5 * 480
    assert "Mon 06:00" not in edges
    assert "Sat 06:00" in edges
    assert "Sat 22:00" not in edges


def test_a_window_may_be_whole_days():
    assert inside("Sat,Sun 00:00-24:00") == (2 * 1_440, ["Mon 00:00", "Sat 00:00"])
    assert inside("00:00-24:00") == (7 * 1_440, [])
    assert inside("Wed 23:59-00:00") == (1, ["Wed 23:59", "Thu 00:00"])


def test_days_are_named_one_by_one_or_from_one_to_another():
    assert parse_window("Mon-Wed,Fri 01:00-02:00").days == (0, 1, 2, 4)
    assert parse_window("Fri-Mon 01:00-02:00").days == (0, 4, 5, 6)
    assert parse_window("Tue,Tue 01:00-02:00").days == (1,)
    assert parse_window("Sun-Sun 01:00-02:00").days == (6,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "22:00",
        "22:00-",
        "-06:00",
        "22:00 - 06:00",
        "9:00-17:00",
        "24:00-06:00",
        "22:00-24:01",
        "22:00-25:00",
        "22:60-23:00",
        "22:00-22:00",
        "22:00-23:00 Mon",
        "Mon",
        "mon 22:00-23:00",
        "Monday 22:00-23:00",
        "Mon- 22:00-23:00",
        "Mon, 22:00-23:00",
        "Mon-Tue-Wed 22:00-23:00",
        " 22:00-23:00",
        "Mon  22:00-23:00",
        "22:00-23:00-01:00",
    ],
)
def test_what_is_no_window_says_the_form(text):
    with pytest.raises(FormError, match="HH:MM-HH:MM, or 'Mon-Fri 22:00-06:00'"):
        parse_window(text)
