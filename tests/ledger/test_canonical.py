"""Strict JSON in, canonical digests out."""

import copy
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from checks.core.errors import LedgerError
from checks.ledger.canonical import LARGEST_FILE_BYTES, digest, ledger_digest, parse, pretty, read
from checks.ledger.verify import verify_file

JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e400}', "beyond all floats"),
        (b'{"a": -1e400}', "beyond all floats"),
        (b'{"a": 9007199254740992}', "beyond 2^53-1"),
        (b'{"a": -9007199254740992}', "beyond 2^53-1"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "beyond 2^53-1"),
        (b'{"a": 1, "a": 2}', "a key stands twice"),
        (b'{"b": {"a": 1, "\\u0061": 2}}', "a key stands twice"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\\ud800"}', "not UTF-8"),
        (b'{"\\udfff": 1}', "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b" " * (LARGEST_FILE_BYTES + 1), "bytes long"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_not_strict_json_is_refused_with_the_reason(raw, found):
    with pytest.raises(LedgerError) as caught:
        parse(raw, "x.json")
    (problem,) = caught.value.problems
    assert problem.file == "x.json"
    assert found in problem.found


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path):
    for path, found in (
        (tmp_path / "absent.json", "is not there"),
        (tmp_path, "is no file"),
        (Path("/dev/null"), "is no file"),
    ):
        with pytest.raises(LedgerError, match=found):
            read(path)


@given(JSONS)
@settings(max_examples=150, deadline=None)
def test_what_is_written_for_people_reads_back_the_same(value):
    raw = pretty(value)
    assert raw.endswith(b"\n")
    assert parse(raw, "x") == value
    assert digest(parse(raw, "x")) == digest(value)


@given(JSONS)
@settings(max_examples=80, deadline=None)
def test_the_digest_does_not_depend_on_how_it_is_written(value):
    compact = json.dumps(value, separators=(",", ":"))
    assert digest(parse(compact.encode(), "x")) == digest(value)


def test_the_digest_is_the_one_of_rfc_8785():
    # the example of RFC 8785, section 3.2.2 and its canonical form in section 3.2.3
    value = json.loads(
        '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
        '"literals":[null,true,false]}'
    )
    canonical = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    import hashlib

    assert digest(value) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def test_the_digest_of_a_ledger_leaves_its_own_out(row):
    assert ledger_digest(row) == row["digest"]
    row["digest"] = "sha256:" + "0" * 64
    assert ledger_digest(row) != row["digest"]


def places(value, path=()):
    """List every place in a JSON value where something can be changed."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner if isinstance(value, dict | list) else ():
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))
        else:
            yield (*path, key)


def changed(value, path):
    """Change one place, as little as its type allows."""
    copied = copy.deepcopy(value)
    inside = copied
    for key in path[:-1]:
        inside = inside[key]
    old = inside[path[-1]]
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int):
        new = old + 1
    elif isinstance(old, float):
        new = old * (1 + 2**-52) if old else 5e-324
    elif isinstance(old, str):
        new = old[:-1] + chr(ord(old[-1]) ^ 1) if old else " "
    elif isinstance(old, dict):
        new = {**old, "planted": None}
    elif isinstance(old, list):
        new = [*old, None]
    else:
        new = 0
    inside[path[-1]] = new
    return copied


def test_any_change_of_content_changes_the_digest(made):
    every = [path for path in places(made.row) if path and path != ("digest",)]
    assert len(every) > 500
    for path in random.Random(8785).sample(every, 200):
        assert ledger_digest(changed(made.row, path)) != made.row["digest"], path


def test_dropping_or_swapping_anything_changes_the_digest(row):
    whole = row["digest"]
    for key in [key for key in row if key != "digest"]:
        assert ledger_digest({k: v for k, v in row.items() if k != key}) != whole, key
    row["findings"][0], row["findings"][1] = row["findings"][1], row["findings"][0]
    assert ledger_digest(row) != whole


def test_a_changed_file_does_not_verify(made, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(pretty(made.row))
    assert not verify_file(path).wrong
    number = [row["verdict"] for row in made.row["findings"]].index("fail")
    path.write_bytes(pretty(changed(made.row, ("findings", number, "says"))))
    (wrong,) = verify_file(path).wrong
    assert f"{path}: altered" in wrong
