"""A profile as adopt writes it: read by the classes that it was made from, and nothing but that."""

import re
from dataclasses import fields

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.profile import Checks, Hardware, Profile
from checks.core.profile_text import EXAMPLES, Draft, profile_text
from checks.core.reader import read_document
from checks.core.toml import parse_toml

GIB = 2**30


def draft(optional=None, **found):
    return Draft(host="box", about="seen by nobody.", found=found, optional=optional or {})


def read(text):
    return read_document(Profile, parse_toml(text.encode(), "box.toml"))


@pytest.mark.parametrize(
    "name",
    [
        "PowerEdge XE9680",
        'a "quoted" \\ name',
        "Größe",
        "two\nlines",
        "\x1b[31mred\x07",
        "#",
        "' = 1",
    ],
)
def test_what_was_detected_is_read_back_as_it_was_and_is_assumed(name):
    text = profile_text(draft(product_name=name, memory_total_bytes=256 * GIB))
    assert read(text) == Profile(
        schema=1,
        hardware=Hardware(
            product_name=name,
            memory_total_bytes=256 * GIB,
            assumed=("product_name", "memory_total_bytes"),
        ),
    )
    assert "memory_total_bytes = 274_877_906_944  # 256.0 GiB\n" in text


def test_each_key_has_what_it_means_above_it():
    text = profile_text(draft(architecture="x86_64", container="none"))
    said = " ".join(line.lstrip("# ") for line in text.splitlines())
    for field in fields(Hardware):
        if field.name in ("architecture", "container", "assumed"):
            assert field.metadata["doc"] in said


def test_what_could_not_be_read_is_a_comment_with_the_reason_and_what_would_show_it():
    why = Unseen(Blind.PERMISSION, "/x may\nnot\x1b be read", "be root")
    text = profile_text(draft(architecture="x86_64", product_name=why))
    assert "# product_name: left out, permission: /x may not  be read; be root\n" in text
    assert read(text).hardware == Hardware(architecture="x86_64", assumed=("architecture",))


@pytest.mark.parametrize("value", ["amd64", 5, "a\x00b"])
def test_what_the_reader_would_refuse_is_left_out_and_says_so(value):
    text = profile_text(draft(architecture=value, container="none"))
    assert "# architecture: left out, malformed: found " in text
    assert read(text).hardware == Hardware(container="none", assumed=("container",))


def test_of_a_key_that_no_profile_has_nothing_is_written():
    text = profile_text(draft(architecture="x86_64", wheels=4))
    assert "wheels" not in text


def test_what_nothing_detects_is_named_in_one_line():
    text = profile_text(draft(architecture="x86_64"))
    said = text.replace("\n# ", " ")
    (line,) = re.findall(r"Not detected, but yours to declare: (.*)\.\n", said)
    names = [field.name for field in fields(Hardware)]
    assert line.split(", ") == [name for name in names if name not in ("architecture", "assumed")]


def test_optional_checks_are_read_back_with_their_reasons():
    reasons = {"machine.memory.total": 'not "seen"; needs: root', "machine.clock.past": "b"}
    text = profile_text(draft(optional=reasons, architecture="x86_64"))
    assert read(text).checks == Checks(optional=reasons)


def test_with_nothing_detected_it_is_a_profile_all_the_same():
    assert read(profile_text(draft())) == Profile(schema=1)


def test_each_line_is_a_comment_or_valid_and_none_is_long():
    why = Unseen(Blind.ABSENT, "x" * 50 + " y" * 100)
    text = profile_text(draft(optional={"a.b": "r"}, architecture="x86_64", product_name=why))
    for line in text.splitlines():
        assert not line or line.startswith("#") or re.match(r"\[\S+\]$|\S+ = \S", line)
        assert len(line) <= 100


def test_the_examples_are_valid_where_their_hashes_are_taken_away():
    lines = [line.removeprefix("# ") for line in EXAMPLES.splitlines()]
    toml = [line for line in lines if re.match(r"\[|\w+ = ", line)]
    profile = read("schema = 1\n" + "\n".join(toml))
    assert profile.paths.model_cache
    assert profile.serve[0].where == "port:8080"
    assert profile.waiver[0].ticket
    assert len(EXAMPLES.splitlines()) < 25
