"""Places: how a profile names whose limits count."""

import pytest
from hypothesis import given, strategies as st

from checks.core.place import KINDS, Place, PlaceError, parse_place

ID = "3f1c0de5a1b2" + "0" * 52


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("this", Place("this")),
        ("pid:4242", Place("pid", "4242")),
        ("pid:00017", Place("pid", "17")),
        ("port:65535", Place("port", "65535")),
        ("process:llama-server", Place("process", "llama-server")),
        ("unit:vllm@chat.service", Place("unit", "vllm@chat.service")),
        ("unit:dev-sda\\x2d1.device", Place("unit", "dev-sda\\x2d1.device")),
        (f"container:{ID}", Place("container", ID)),
        (f"container:{ID[:12]}", Place("container", ID[:12])),
    ],
)
def test_every_kind_is_read_and_written_back(text, place):
    assert parse_place(text) == place
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "`this`"),
        ("This", "`this`"),
        ("this:x", "`this`"),
        ("pod:x", r"`unit:NAME`, `container:ID` \(12 to 64"),
        ("pid", "pid:N"),
        ("pid:", "pid:N"),
        ("pid:0", "from 1"),
        ("pid:-1", "from 1"),
        ("pid:1.0", "from 1"),
        ("pid:१२", "from 1"),
        ("pid:99999999999", "from 1"),
        ("port:65536", "65535"),
        ("container:short", "12 to 64 hexadecimal digits; `docker ps --no-trunc` shows it"),
        (f"container:{ID}0", "12 to 64 hexadecimal"),
        (f"container:{ID[:11]}", "12 to 64 hexadecimal"),
        ("process:a b", "letters, digits"),
        ("process:../x", "letters, digits"),
        ("unit:a\nb", "letters, digits"),
        ("process:" + "x" * 256, "letters, digits"),
    ],
)
def test_what_is_no_place_says_what_is_wanted(text, wanted):
    with pytest.raises(PlaceError, match=wanted):
        parse_place(text)


@given(st.one_of(st.text(), st.builds("{}:{}".format, st.sampled_from(KINDS), st.text())))
def test_any_text_is_a_place_or_a_place_error(text):
    try:
        place = parse_place(text)
    except PlaceError:
        return
    assert "/" not in place.name
    assert parse_place(str(place)) == place
