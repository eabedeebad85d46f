"""Facts to JSON and back: exactly, or not at all."""

import dataclasses
import datetime
import json
import math
import types
import typing
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given, settings, strategies as st

from checks.core.codec import LARGEST_INT, CodecError, decode, encode
from checks.core.facts import Blind, Facts, NotRecordedError, Unseen
from checks.core.finding import Finding
from checks.core.fingerprint import Part
from checks.core.profile import Profile, Waiver
from checks.core.registry import load_areas
from checks.machine.facts import Clock, Cpu, Memory

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
UNSEENS = st.builds(Unseen, st.sampled_from(Blind), TEXTS, TEXTS)


def values_of(hint):
    """Make a strategy from a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXTS.filter(lambda text: text != "unseen"), values_of(arguments[1]))
    if hint is Unseen:
        return UNSEENS
    if dataclasses.is_dataclass(hint):
        return instances_of(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    simple = {
        str: TEXTS,
        bool: st.booleans(),
        int: st.integers(-LARGEST_INT, LARGEST_INT),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
        datetime.date: st.dates(),
        object: st.none() | st.booleans() | TEXTS | st.integers(-9, 9),
    }
    return simple[hint]


def instances_of(cls):
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{f.name: values_of(hints[f.name]) for f in dataclasses.fields(cls)})


FACTS = sorted({p.sees for p in load_areas().probes.values()}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_all_facts_come_back_as_they_went(kind, data):
    facts = data.draw(instances_of(kind))
    text = json.dumps(encode(facts), allow_nan=False)
    assert decode(kind, json.loads(text)) == facts


@pytest.mark.parametrize("kind", [Profile, Waiver, Part], ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_profiles_and_fingerprints_come_back_as_they_went(kind, data):
    value = data.draw(instances_of(kind))
    assert decode(kind, json.loads(json.dumps(encode(value)))) == value


@given(
    st.builds(
        Finding,
        **{
            f.name: (
                st.just({"a_bytes": 1, "b": [1.5, None, {"c": "d"}]})
                if f.name in ("observed", "expected")
                else values_of(typing.get_type_hints(Finding)[f.name])
            )
            for f in dataclasses.fields(Finding)
        },
    )
)
@settings(max_examples=40, deadline=None)
def test_findings_come_back_as_they_went(finding):
    assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 2**53, -(2**53), b"bytes", {1: "x"}, {"a": {2}}, object],
    ids=repr,
)
def test_what_json_cannot_hold_exactly_is_refused(value):
    with pytest.raises(CodecError):
        encode(value)
    with pytest.raises(CodecError):
        encode({"deep": [value]})


def test_an_error_names_the_place():
    with pytest.raises(CodecError) as caught:
        encode({"a": [1, {"b": math.nan}]})
    assert caught.value.path == "$.a[1].b"
    with pytest.raises(CodecError) as caught:
        decode(Cpu, {"limits": [{"source": "s", "text": "t", "cpus": "4"}]})
    assert caught.value.path == "$.limits[0].cpus"


def test_the_largest_integer_is_kept():
    assert encode(2**53 - 1) == 9007199254740991


def test_bytes_that_are_no_text_become_escapes_that_json_can_hold():
    assert encode("caf\udce9") == "caf\\udce9"
    assert encode({"a\udcff": 1}) == {"a\\udcff": 1}


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, "1"),
        (int, None),
        (float, True),
        (float, "1.0"),
        (float, 10**400),
        (bool, 1),
        (bool, "true"),
        (str, 1),
        (str, None),
        (tuple[int, ...], "12"),
        (tuple[int, ...], {"a": 1}),
        (tuple[int, ...], [1, 2.0]),
        (dict[str, int], [1]),
        (dict[str, int], {"a": "1"}),
        (int | None, "x"),
        (int | Unseen, {"detail": "no mark"}),
        (int | Unseen, {"unseen": "no such reason", "detail": "", "remedy": ""}),
        (int | Unseen, {"unseen": "absent", "detail": 5, "remedy": ""}),
        (str | Unseen, None),
        (Blind, "ABSENT"),
        (Blind, 1),
        (datetime.date, "2026-02-30"),
        (datetime.date, "31.12.2026"),
        (datetime.date, 20260101),
        (datetime.date, "20260101"),
        (datetime.date, "2026-W05-6"),
        (Memory, []),
        (Memory, None),
    ],
    ids=repr,
)
def test_what_the_type_does_not_allow_is_refused(hint, value):
    with pytest.raises(CodecError):
        decode(hint, value)


def test_unions_take_each_of_their_types():
    unseen = {"unseen": "permission", "detail": "d", "remedy": "r"}
    for hint in (int | Unseen, str | Unseen, tuple[int, ...] | Unseen, Memory | Unseen):
        assert decode(hint, unseen) == Unseen(Blind.PERMISSION, "d", "r")
    assert decode(int | None, None) is None
    assert decode(str | tuple[str, ...] | None, ["a"]) == ("a",)
    assert decode(str | tuple[str, ...] | None, "a") == "a"
    assert decode(float, 4) == 4.0
    assert isinstance(decode(float, 4), float)


def test_facts_that_an_older_ledger_lacks_say_so_when_they_are_read():
    clock = decode(Clock, {"now_s": 5.0})
    assert clock.now_s == 5.0
    with pytest.raises(NotRecordedError, match=r"Clock\.up_s was not recorded"):
        _ = clock.up_s
    with pytest.raises(AttributeError):
        _ = clock.no_such_field


def test_facts_of_a_later_version_are_read_without_what_is_new():
    assert decode(Clock, {"now_s": 5.0, "later": [1]}).now_s == 5.0


@dataclass(frozen=True)
class Settings:
    """Not facts: a default is a setting here, not a measurement."""

    a: int
    b: int = 7
    c: tuple[int, ...] = dataclasses.field(default_factory=tuple)


def test_a_setting_that_is_left_out_has_its_default_and_a_required_one_is_an_error():
    assert decode(Settings, {"a": 1}) == Settings(1)
    with pytest.raises(CodecError) as caught:
        decode(Settings, {"b": 1})
    assert caught.value.path == "$.a"


def test_facts_have_no_defaults_at_all():
    for kind in FACTS:
        assert issubclass(kind, Facts)
        for field in dataclasses.fields(kind):
            assert field.default is dataclasses.MISSING, f"{kind.__name__}.{field.name}"
            assert field.default_factory is dataclasses.MISSING
