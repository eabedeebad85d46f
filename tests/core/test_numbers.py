"""Files of measured numbers: entries are added and changed, and nothing else of them is."""

from dataclasses import replace

import pytest

from checks.core.errors import ProfileError
from checks.core.expectation import Expectation, ExpectationFile
from checks.core.numbers import amended, new_file
from checks.core.reader import read_document
from checks.core.toml import parse_toml

ENTRY = Expectation(
    check="machine.memory.total",
    value=5,
    unit="By",
    lower_ratio=-0.015,
    basis="measured",
    source="sha256:abc",
    measured_at="2026-01-31",
    reason='a "quoted" reason\nof two lines',
    premise={"memory": {"size": "8 GiB"}, "gpu[0000:18:00.0]": {"device": "0x2330"}},
)
BY_HAND = """\
# head
schema = 1

[[expectation]]  # first
check = "a.b"   # of the ticket
value = 5_000   # a comment on the value
unit = "By"
lower_ratio = 0.0
basis = "measured"
source = "me"
label = "gone"
[expectation.premise.memory]
size = "8 GiB" # a comment on the size

# second
[[expectation]]
check = "c.d"
value = "text"
basis = "measured"
source = "me"
premise.memory = { size = "8 GiB" } # another

# tail"""


def entries(raw):
    return read_document(ExpectationFile, parse_toml(raw, "f")).expectation


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "END"], ids=["without a last line end", "with one"])
def test_what_is_there_stays_byte_for_byte_in_front_of_what_is_added(end, last):
    raw = BY_HAND.replace("\n", end).encode() + last.replace("END", end).encode()
    made = amended(raw, "f", added=[ENTRY, replace(ENTRY, check="x.y")], changed={})
    assert made.startswith(raw)
    assert entries(made) == (*entries(raw), ENTRY, replace(ENTRY, check="x.y"))
    assert made.count(b"\n") == made.count(end.encode())


@pytest.mark.parametrize("room", ["measured", "rehearsed"])
def test_a_new_file_says_what_it_is_for(room):
    made = amended(new_file("box", room), "f", added=[ENTRY], changed={})
    assert entries(made) == (ENTRY,)
    assert ("counts in\n# rehearsals, and in no run" in made.decode()) is (room == "rehearsed")


def test_of_a_changed_entry_the_comments_stay_and_so_does_the_other_entry():
    first, second = entries(BY_HAND.encode())
    changed = replace(ENTRY, check="a.b", label="", source="sha256:new")
    made = amended(BY_HAND.encode(), "f", added=[], changed={0: changed})
    assert entries(made) == (changed, second)
    text = made.decode()
    for comment in ("# head", "# first", "# of the ticket", "# a comment on the value"):
        assert comment in text
    assert text.endswith(BY_HAND[BY_HAND.index("# second") :])
    assert 'size = "8 GiB" # a comment on the size' in text
    assert "label" not in text
    # what does not change is not even written anew
    assert (
        "value = 5_000   # a comment"
        in amended(
            BY_HAND.encode(), "f", added=[], changed={0: replace(first, source="new")}
        ).decode()
    )


def test_an_entry_of_an_inline_table_is_changed_where_it_stands():
    raw = b'schema=1\nexpectation=[{check="a.b", value="t", basis="measured", source="me"}] # x\n'
    changed = replace(ENTRY, check="a.b")
    made = amended(raw, "f", added=[], changed={0: changed})
    assert entries(made) == (changed,)
    assert made.endswith(b"}] # x\n")


def test_what_cannot_be_added_to_is_refused_and_says_how_to_write_it():
    with pytest.raises(
        ProfileError, match=r"f: is written in a way .* its own \[\[expectation\]\]"
    ):
        amended(b"schema = 1\nexpectation = []\n", "f", added=[ENTRY], changed={})
