"""The kernel's way to write sets of CPUs."""

import pytest
from hypothesis import given, strategies as st

from checks.machine.cpulist import LARGEST_CPU, count_cpus


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 1),
        ("7", 1),
        ("0-3", 4),
        ("0-3,8", 5),
        ("0-3,8,10-11", 7),
        ("3-3", 1),
        ("0-3,2-5", 6),
        ("5,5,5", 1),
        (" 0-1\n", 2),
        ("0-65535", 65_536),
        ("65535", 1),
        ("00001", 1),
    ],
)
def test_a_list_is_counted(text, count):
    assert count_cpus(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        ",",
        "0,",
        ",0",
        "0,,1",
        "3-2",
        "-1",
        "0-",
        "-",
        "0-1-2",
        "a",
        "0x3",
        "0-3:1/2",
        "0, 1",
        "1.5",
        "65536",
        "0-65536",
        "0-99999",
        "100000",
        "0-1000000",
        "٣",
        "\x00",
        "0\x001",
    ],
)
def test_what_is_no_list_gives_no_number(text):
    assert count_cpus(text) is None


@given(st.sets(st.integers(0, LARGEST_CPU), min_size=1, max_size=40), st.randoms())
def test_any_set_is_counted_however_it_is_cut(cpus, random):
    rest, parts = sorted(cpus), []
    while rest:
        end = 1
        while end < len(rest) and rest[end] == rest[0] + end and random.random() < 0.7:
            end += 1
        run, rest = rest[:end], rest[end:]
        alone = len(run) == 1 and random.random() < 0.5
        parts.append(str(run[0]) if alone else f"{run[0]}-{run[-1]}")
    random.shuffle(parts)
    assert count_cpus(",".join(parts)) == len(cpus)


@given(st.text("0123456789-, \n", max_size=20))
def test_a_count_is_never_zero(text):
    found = count_cpus(text)
    assert found is None or found > 0
