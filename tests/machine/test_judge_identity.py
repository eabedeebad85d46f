"""The judges of identity, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import (
    Basis,
    Case,
    Expectation,
    NotDeclared,
    Wanted,
)
from checks.core.facts import BOX
from checks.core.judging import text_case
from checks.core.profile import Hardware, Profile
from checks.core.registry import REGISTRY
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Identity,
)
from checks.machine.judge import identity as judge
from tests.support.judging import UNSEEN, expected, same_text


def identity(**changes: object) -> Identity:
    fields = dict.fromkeys(Identity.__dataclass_fields__, "planted") | {"evidence": ()}
    return Identity(**(fields | changes))


IDENTITY_CHECKS = [
    (judge.architecture_as_declared, "architecture", "architecture"),
    (judge.product_as_declared, "product_name", "product"),
    (judge.virtualization_as_declared, "hypervisor", "virtualization"),
    (judge.container_as_declared, "container", "container"),
]
named = pytest.mark.parametrize(
    ("judged", "field", "what"), IDENTITY_CHECKS, ids=[row[2] for row in IDENTITY_CHECKS]
)


@named
def test_the_declared_text_passes(judged, field, what):
    said = judged(identity(**{field: "kvm"}), same_text("kvm"))
    assert said.verdict is Verdict.PASS
    assert said.says == f"{what} is kvm"
    assert said.observed == {"name": "kvm"}
    assert said.expected == {"name": "kvm"}
    assert (said.cause, said.reason, said.remedy) == ("", None, "")


@named
@pytest.mark.parametrize("wanted", ["aaa", "zzz", "kv", "kvmm", "KVM", " kvm"])
def test_any_other_text_fails_and_both_are_named(judged, field, what, wanted):
    said = judged(identity(**{field: "kvm"}), wanted)
    assert said.verdict is Verdict.FAIL
    assert said.cause == "not-as-declared"
    assert said.says == f"{what} is kvm, expected is {wanted}"
    assert said.observed == {"name": "kvm"}
    assert said.expected == {"name": wanted}
    assert "--host" in said.remedy
    assert f"see {what} pass" in said.remedy


@named
def test_a_text_that_could_not_be_read_is_unknown_even_where_nothing_else_would_fit(
    judged, field, what
):
    for wanted in ("kvm", "vm", "any", "none"):
        said = judged(identity(**{field: UNSEEN}), wanted)
        assert said.blind is UNSEEN.reason
        assert said.verdict is Verdict.UNKNOWN
        assert said.reason is Reason.NOT_OBSERVABLE
        assert said.says == f"{what} not seen: permission: planted"
        assert said.remedy == "run as root to see it"


@pytest.mark.parametrize(
    ("judged", "field", "wild"),
    [
        (judge.virtualization_as_declared, "hypervisor", "vm"),
        (judge.container_as_declared, "container", "any"),
    ],
)
@pytest.mark.parametrize("here", ["aaa", "kvm", "zzz"])
def test_the_general_word_fits_every_kind_but_none(judged, field, wild, here):
    assert judged(identity(**{field: here}), same_text(wild)).verdict is Verdict.PASS
    bare = judged(identity(**{field: same_text("none")}), same_text(wild))
    assert bare.verdict is Verdict.FAIL
    assert bare.says.endswith(f"is none, expected is {wild}")
    # none is a word like any other: it fits bare metal alone
    assert judged(identity(**{field: here}), "none").verdict is Verdict.FAIL
    assert judged(identity(**{field: "none"}), same_text("none")).verdict is Verdict.PASS
    # and a word on either side of the general one in the alphabet is no general one
    for other in (wild[:-1], f"{wild}z"):
        assert judged(identity(**{field: here}), other).verdict is Verdict.FAIL


@pytest.mark.parametrize("key", ["architecture", "product_name", "virtualization", "container"])
def test_what_the_profile_says_of_identity_is_compared_once(key):
    whole = expected(Profile(schema=1, hardware=Hardware(**{key: "x"})))
    cases = list(text_case(whole, "machine.identity.x", key))
    assert cases == [
        Case(
            subject=BOX,
            wanted=Wanted(value="x", basis=Basis.DECLARED, source=f"h100-1.toml: hardware.{key}"),
        )
    ]


@pytest.mark.parametrize("key", ["architecture", "product_name", "virtualization", "container"])
def test_what_the_profile_does_not_say_of_identity_is_not_applicable(key):
    assert list(text_case(expected(), "machine.identity.x", key)) == [
        Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
    ]


def test_a_key_that_nobody_has_declared_yet_is_assumed_and_no_other_is():
    hardware = Hardware(architecture="x86_64", container="none", assumed=("architecture",))
    whole = expected(Profile(schema=1, hardware=hardware))
    (assumed,) = text_case(whole, "machine.identity.x", "architecture")
    (declared,) = text_case(whole, "machine.identity.x", "container")
    assert assumed.wanted.basis is Basis.ASSUMED
    assert declared.wanted.basis is Basis.DECLARED
    assert not assumed.wanted.basis.confirms


@pytest.mark.parametrize(
    ("check", "key"),
    [
        ("machine.identity.architecture", "architecture"),
        ("machine.identity.product", "product_name"),
        ("machine.identity.virtualization", "virtualization"),
        ("machine.identity.container", "container"),
    ],
)
def test_each_identity_check_asks_for_its_own_key(check, key):
    (case,) = REGISTRY.checks[check].cases(expected())
    assert case.wanted == NotDeclared(fact=f"not declared: hardware.{key}")


def test_what_was_measured_counts_for_more_than_what_was_only_detected_and_less_than_a_declaration():
    name = "machine.identity.product"
    entries = tuple(
        Expectation(
            check=name,
            value=value,
            basis="measured",
            source="sha256:0",
            measured_at="2026-01-31",
            premise={"board": {"product": value}},
        )
        for value in ("XE9680", "XE9640")
    )
    other = replace(entries[0], check="machine.identity.container", value="docker")

    def case(*numbers: Expectation, **hardware: object) -> Case:
        profile = Profile(schema=1, hardware=Hardware(**hardware))
        (made,) = REGISTRY.checks[name].cases(expected(profile, *numbers))
        return made

    measured = case(other, *entries)
    assert measured.wanted == Wanted(
        value="XE9680",
        basis=Basis.MEASURED,
        source="sha256:0 2026-01-31",
        premise={"board": {"product": "XE9680"}},
    )
    assert [one.value for one in measured.others] == ["XE9640"]
    assert case(*entries, product_name="R750", assumed=("product_name",)) == measured
    declared = case(*entries, product_name="R750")
    assert (declared.wanted.value, declared.others) == ("R750", ())
    assert declared.wanted.basis is Basis.DECLARED
    assert case(product_name="R750", assumed=("product_name",)).wanted.basis is Basis.ASSUMED
