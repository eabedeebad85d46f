"""What of a ledger may be accepted: with ledgers as data, whatever the verb does with it."""

import copy
import dataclasses

import pytest

from checks.core.expectation import Basis, Expectation, Expected
from checks.core.profile import LOCAL, Hardware
from checks.core.registry import Measure, load_areas
from checks.ledger.acceptance import (
    Offer,
    Place,
    Refusal,
    agreed,
    impossible,
    kinds_of,
    offers,
    plan,
    refusal_of,
)
from checks.ledger.document import Ledger
from tests.support.boxes import h100_box
from tests.support.runs import ledger_here, write_profile

REGISTRY = load_areas()
TOTAL, PRODUCT, CONTAINER = (
    "machine.memory.total",
    "machine.identity.product",
    "machine.identity.container",
)
GIB = 2**30
ASSUMED = f"""
[hardware]
product_name = "PowerEdge XE9680"
architecture = "x86_64"
memory_total_bytes = {512 * GIB}
assumed = ["product_name", "memory_total_bytes"]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Give a ledger in which one thing is declared, two are assumed and two are not declared."""
    folder = tmp_path_factory.mktemp("acceptance")
    box = h100_box()
    blocks = {f"/sys/devices/system/memory/memory{n}/online": "1\n" for n in range(4)}
    for path, text in blocks.items():
        box.put(path, text)
    box.put("/sys/devices/system/memory/block_size_bytes", f"{128 * GIB:x}\n")
    expected = str(write_profile(folder / "e", "box", ASSUMED))
    root = str(box.write(folder / "tree"))
    return ledger_here(folder / "l", "box", expected=(expected,), root=root).row


@pytest.fixture
def row(recorded):
    return copy.deepcopy(recorded)


def change(row, check, **changes):
    finding = next(one for one in row["findings"] if one["check"] == check)
    finding.update(changes)
    return finding


def found(row, check):
    """Give the one thing that is said of a check."""
    (one,) = [one for one in offers(as_ledger(row), REGISTRY) if one.check == check]
    return one


def as_ledger(row):
    return Ledger(file="ledger.json", sha256="", row=row)


# offers


def test_what_passed_unconfirmed_is_offered_with_what_it_rests_on(row):
    total = found(row, TOTAL)
    assert isinstance(total, Offer)
    assert total.value == 527_935_488 * 1024
    assert total.premise == {"memory": {"size": "512 GiB"}}
    assert (total.unread, total.accepted) == ((), False)
    product = found(row, PRODUCT)
    assert product.value == "PowerEdge XE9680"
    assert product.premise["board"]["product"] == "PowerEdge XE9680"


def test_what_is_not_declared_is_offered_where_it_was_seen(row):
    container = found(row, CONTAINER)
    assert (container.value, container.premise) == ("none", {"container": {"container": "none"}})
    row["observations"] = [one for one in row["observations"] if one["probe"] != "machine.identity"]
    unseen = found(row, CONTAINER)
    assert isinstance(unseen, Refusal)
    assert unseen.could_not_tell
    assert "not in the ledger" in unseen.why


def test_what_could_not_be_read_is_not_offered_although_its_probe_saw_the_rest(row):
    seen = next(one for one in row["observations"] if one["probe"] == "machine.identity")
    seen["data"]["container"] = {"unseen": "permission", "detail": "planted", "remedy": "be root"}
    refusal = found(row, CONTAINER)
    assert isinstance(refusal, Refusal)
    assert refusal.could_not_tell
    assert refusal.why == "unknown: container not seen: permission: planted; be root"


def test_what_was_observed_is_taken_from_what_was_seen_and_not_from_what_it_was_compared_with(row):
    check = REGISTRY.checks[CONTAINER]

    def echo(seen, wanted):
        said = check.judge(seen, wanted)
        return dataclasses.replace(said, observed={"name": wanted})

    registry = copy.copy(REGISTRY)
    registry.checks = {CONTAINER: dataclasses.replace(check, judge=echo)}
    (refusal,) = offers(as_ledger(row), registry)
    assert isinstance(refusal, Refusal)


def test_what_a_profile_declares_is_nothing_to_accept(row):
    refusal = found(row, "machine.identity.architecture")
    assert isinstance(refusal, Refusal)
    assert refusal.quiet
    assert "declared in the profile" in refusal.why


def test_what_passed_against_a_measured_value_has_been_accepted(row):
    change(row, PRODUCT, basis="measured", confirmed=True)
    assert found(row, PRODUCT).accepted


def test_what_was_measured_on_another_kind_is_offered(row):
    change(row, TOTAL, verdict="unknown", reason="premise-changed", basis=None)
    assert found(row, TOTAL).value == 527_935_488 * 1024
    change(row, TOTAL, observed={})
    assert "does not say its memory_total_bytes" in found(row, TOTAL).why


@pytest.mark.parametrize(
    ("changes", "says", "could_not_tell"),
    [
        (
            {"verdict": "fail", "cause": "x", "says": "too little"},
            "failed: too little; mend",
            False,
        ),
        (
            {"verdict": "not-run", "basis": None, "observed": {}, "says": "left out"},
            "left out",
            True,
        ),
        (
            {"verdict": "unknown", "reason": "not-observable", "observed": {}, "says": "dark"},
            "unknown: not-observable: dark",
            True,
        ),
        ({"verdict": "unknown", "reason": "interrupted", "observed": {}}, "unknown: inter", True),
        ({"verdict": "unknown", "reason": "lost", "observed": {}}, "unknown: lost", True),
        ({"verdict": "unknown", "reason": "blocked-by", "observed": {}}, "unknown: block", True),
        ({"verdict": "unknown", "reason": "control-passed"}, "a control of this check", False),
    ],
)
def test_what_is_no_good_measurement_is_refused_although_a_value_is_there(
    row, changes, says, could_not_tell
):
    # even one that the ledger could be made to give by judging it again
    change(row, TOTAL, **changes)
    refusal = found(row, TOTAL)
    assert isinstance(refusal, Refusal)
    assert says in refusal.why
    assert refusal.could_not_tell is could_not_tell
    assert not refusal.quiet


def test_a_check_whose_control_came_out_wrong_is_refused_by_that_row_alone(row):
    control = next(one for one in row["controls"] if one["check"] == TOTAL)
    control["good"] = False
    assert "a control of this check came out wrong" in found(row, TOTAL).why
    assert isinstance(found(row, PRODUCT), Offer)


def test_what_a_failed_check_explains_is_refused_although_nothing_was_compared(row):
    registry = copy.copy(REGISTRY)
    blocked = dataclasses.replace(REGISTRY.checks[CONTAINER], blocked_by=(PRODUCT,))
    registry.checks = REGISTRY.checks | {CONTAINER: blocked}
    change(row, PRODUCT, verdict="fail", cause="x")
    refused = {one.check: one for one in offers(as_ledger(row), registry)}[CONTAINER]
    assert refused.why == f"{PRODUCT} failed; mend that, and run again"


# the value itself

BYTES = Measure(quantity="q", unit="By", lower_ratio=-0.1, bound="most")
TEXT = Measure(quantity="q", unit="")


@pytest.mark.parametrize(
    ("measure", "value", "good"),
    [
        (BYTES, 1, True),
        (BYTES, 0.5, True),
        (BYTES, 0, False),
        (BYTES, -1, False),
        (BYTES, float("nan"), False),
        (BYTES, float("inf"), False),
        (BYTES, True, False),
        (BYTES, "5", False),
        (BYTES, None, False),
        (BYTES, [5], False),
        (TEXT, "kvm", True),
        (TEXT, " ", False),
        (TEXT, "", False),
        (TEXT, "a\x00b", False),
        (TEXT, 5, False),
    ],
)
def test_what_no_box_can_have_is_no_value(measure, value, good):
    assert (impossible(measure, value, {}) == "") is good


@pytest.mark.parametrize(("most", "good"), [(99, False), (100, True), (101, True), (None, True)])
def test_more_than_there_can_be_was_measured_wrongly(most, good):
    assert (impossible(BYTES, 100, {"most": most}) == "") is good
    assert impossible(BYTES, 100, {}) == ""
    assert impossible(dataclasses.replace(BYTES, bound=""), 100, {"most": 1}) == ""


def test_a_finding_above_its_bound_is_refused(row):
    change(row, TOTAL, observed={"memory_total_bytes": 513 * GIB, "memory_fitted_bytes": 512 * GIB})
    assert "more than there can be (memory_fitted_bytes is" in found(row, TOTAL).why


def test_a_premise_of_a_kind_stands_for_all_of_its_slots_and_keeps_what_could_be_read(row):
    parts = as_ledger(row).parts
    kinds, unread = kinds_of(("gpu", "memory", "nothing"), parts)
    assert len(kinds) == 9
    assert kinds["gpu[0000:18:00.0]"]["device"] == "0x2330"
    assert unread == ("nothing",)
    blank = dataclasses.replace(parts["memory"], kind={"size": None})
    assert kinds_of(("memory",), {"memory": blank}) == ({}, ("memory",))
    # `disk` is not `diskette`
    assert kinds_of(("mem",), parts) == ({}, ("mem",))


# whole ledgers


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("anonymous_of",), "sha256:1", "is an anonymous copy of sha256:1"),
        (
            ("run", "kind"),
            "replay",
            "of a replay, which measures nothing; give the ledger sha256:2",
        ),
        (("run", "end"), "interrupted", "was interrupted"),
        (("run", "controls"), False, "judged no controls"),
    ],
)
def test_a_ledger_that_proves_nothing_is_refused_whole(row, where, value, says):
    row["run"]["kind"], row["replay_of"] = "run", "sha256:2"
    assert refusal_of(as_ledger(row)) == ""
    part = row if len(where) == 1 else row[where[0]]
    part[where[-1]] = value
    assert says in refusal_of(as_ledger(row))


# several runs


def three(*values, premise=None):
    return [
        [
            Offer(
                check=TOTAL if isinstance(value, int | float) else PRODUCT,
                subject="box",
                value=value,
                premise=premise or {"memory": {"size": "8 GiB"}},
                unread=(),
                accepted=False,
            )
        ]
        for value in values
    ]


@pytest.mark.parametrize(
    ("values", "value"),
    [((1000, 1010, 990), 1000), ((1000, 1010), 1000), ((1000, 1015), 1000), (("a", "a"), "a")],
)
def test_of_runs_that_agree_the_median_is_taken_which_is_a_value_that_was_measured(values, value):
    (one,) = agreed(three(*values), REGISTRY)
    assert one.value == value
    assert type(one.value) is type(values[0])


@pytest.mark.parametrize("values", [(1000, 1016), (1000, 1000, 984), ("a", "b")])
def test_runs_that_do_not_agree_are_refused_with_their_values(values):
    (refusal,) = agreed(three(*values), REGISTRY)
    assert "do not agree" in refusal.why
    assert all(str(value) in refusal.why for value in values)


def test_runs_of_other_parts_or_without_the_value_agree_on_nothing():
    (mine,) = three(1000)
    (other,) = three(1000, premise={"memory": {"size": "9 GiB"}})
    assert "different parts" in agreed([mine, other], REGISTRY)[0].why
    assert "has nothing of it" in agreed([mine, []], REGISTRY)[0].why
    refusal = Refusal(check=TOTAL, subject="box", why="failed: planted")
    assert agreed([mine, [refusal]], REGISTRY)[0].why.endswith("failed: planted")


# against what is there

STAMP = {"source": "sha256:new"}


def entry(value=1000, size="8 GiB", basis="measured", **more):
    premise = {"memory": {"size": size}} if size else {}
    fields = {"lower_ratio": -0.01, "source": "sha256:old", "unit": "By", "premise": premise}
    return Expectation(check=TOTAL, value=value, basis=basis, **(fields | more))


def planned(row, here=(), elsewhere=(), profile=LOCAL, value=1000, runs=1, *, accepted=False):
    parts = as_ledger(row).parts
    parts["memory"] = dataclasses.replace(parts["memory"], kind={"size": "8 GiB"})
    expected = Expected(profile=profile, profile_file="box.toml", numbers=(*here, *elsewhere))
    place = Place(file="box.toml", entries=tuple(here), expected=expected, parts=parts)
    ((offer,),) = three(value)
    offer = dataclasses.replace(offer, accepted=accepted)
    return plan([offer], REGISTRY, place, STAMP, runs)


def test_a_value_of_nothing_that_is_there_is_new_and_says_all_of_itself(row):
    (one,) = planned(row).rows
    measure = REGISTRY.checks[TOTAL].measures
    assert one.old is None
    assert one.new == Expectation(
        check=TOTAL,
        value=1000,
        unit="By",
        lower_ratio=measure.lower_ratio,
        upper_ratio=measure.upper_ratio,
        basis=Basis.MEASURED.value,
        source="sha256:new",
        premise={"memory": {"size": "8 GiB"}},
    )


def test_the_value_of_another_kind_stays_beside_it(row):
    made = planned(row, here=(entry(size="16 GiB"),))
    assert [one.old for one in made.rows] == [None]


@pytest.mark.parametrize("size", ["8 GiB", ""])
def test_another_value_for_the_same_parts_is_a_change(row, size):
    old = entry(999, size)
    made = planned(row, here=(entry(size="16 GiB"), old))
    assert [one.old for one in made.changes] == [old]


def test_the_same_value_is_nothing_new_unless_more_runs_agree_on_it_now(row):
    assert planned(row, here=(entry(),)).rows == []
    assert len(planned(row, here=(entry(),)).same) == 1
    assert len(planned(row, here=(entry(),), runs=3).changes) == 1
    assert len(planned(row, here=(entry(runs=3),), runs=3).same) == 1
    # it passed against what is there, within its tolerance
    assert len(planned(row, here=(entry(1001),), accepted=True).same) == 1
    assert len(planned(row, accepted=True).same) == 1


def test_a_specification_stays_and_is_shown_beside_the_new_value(row):
    sheet = entry(2000, "", basis="specification")
    (one,) = planned(row, here=(sheet,)).rows
    assert (one.old, one.specification) == (None, sheet)


def test_what_the_profile_declares_by_now_is_nothing_to_accept(row):
    declared = dataclasses.replace(LOCAL, hardware=Hardware(memory_total_bytes=8 * GIB))
    (refusal,) = planned(row, profile=declared).refused
    assert refusal.quiet
    assumed = Hardware(memory_total_bytes=8 * GIB, assumed=("memory_total_bytes",))
    assert len(planned(row, profile=dataclasses.replace(LOCAL, hardware=assumed)).rows) == 1


def test_a_value_of_another_file_that_would_fit_as_well_is_in_the_way(row):
    (refusal,) = planned(row, elsewhere=(entry(size=""),)).refused
    assert "another file has a value for these parts already (sha256:old)" in refusal.why
    # one of the very same kinds is hidden by the new one, and one of another kind fits nothing
    assert len(planned(row, elsewhere=(entry(),)).rows) == 1
    assert len(planned(row, elsewhere=(entry(size="16 GiB"),)).rows) == 1


def test_of_two_values_that_fit_nobody_knows_which_is_meant(row):
    (refusal,) = planned(row, here=(entry(), entry(999, ""))).refused
    assert "box.toml has 2 values for these parts; keep one" in refusal.why
