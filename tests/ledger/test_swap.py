"""Which earlier verdicts a swapped part strikes out, which it leaves, and which come back with it."""

from __future__ import annotations

import pytest

from checks.core.finding import Finding
from checks.core.fingerprint import Change, Part
from checks.core.verdict import Verdict
from checks.ledger.swap import MOST_KEPT, closing, since

THEN, NOW = "2026-01-30T12:00:00.000Z", "2026-01-31T12:00:00.000Z"
DIGEST = "sha256:" + "0" * 64


def part(serial: str | None = "A", model: str | None = "H100") -> Part:
    return Part(kind={"model": model}, identity={"serial": serial}, unread=())


def found(
    check: str = "gpu.a", subject: str = "box", verdict: Verdict = Verdict.PASS, *premise: str
) -> Finding:
    cause = "broken" if verdict is Verdict.FAIL else ""
    return Finding(
        check=check, subject=subject, verdict=verdict, says="s", cause=cause, premise=premise
    )


def compared(before, after, *findings, carried=(), file="then.json", ended_utc=THEN, now_utc=NOW):
    return since(
        file=file,
        digest=DIGEST,
        ended_utc=ended_utc,
        findings=findings,
        before=before,
        after=after,
        carried=carried,
        now_utc=now_utc,
    )


EIGHT = {f"gpu[{n}]": part(f"serial-{n}") for n in range(8)}


def names(rows):
    return sorted(row.name for row in rows)


def test_of_eight_cards_the_swapped_one_strikes_out_its_own_verdicts_alone():
    after = {**EIGHT, "gpu[3]": part("new")}
    each = [found("gpu.a", slot, Verdict.PASS, slot) for slot in EIGHT]
    whole = found("gpu.all", "box", Verdict.PASS, "gpu")
    other = found("machine.memory", "box", Verdict.PASS, "memory")
    said = compared(EIGHT, after, *each, whole, other)
    assert names(said.struck_out) == ["gpu.a [gpu[3]]", "gpu.all [box]"]
    (own,) = (one for one in said.struck_out if one.check == "gpu.a")
    assert (own.left, own.file, own.ended_utc, own.struck_utc) == (
        ("gpu[3]",),
        "then.json",
        THEN,
        NOW,
    )
    assert own.parts == {"gpu[3]": part("serial-3")}
    assert [(one.slot, one.kind, one.identity) for one in said.parts] == [
        ("gpu[3]", Change.SAME, Change.CHANGED)
    ]


@pytest.mark.parametrize(
    ("after", "struck"),
    [
        (part("B"), True),
        (part("A", "H200"), True),
        (part("A"), False),
        (part(None), False),
        (part("A", None), False),
        (part(None, None), False),
        (part(None, "H200"), True),
        (None, True),
    ],
)
def test_a_change_strikes_out_and_what_cannot_be_read_does_not(after, struck):
    now = {} if after is None else {"board": after}
    said = compared({"board": part()}, now, found("m.a", "box", Verdict.PASS, "board"))
    assert bool(said.struck_out) is struck


def test_a_part_whose_list_cannot_be_read_has_not_left():
    unlisted = {"gpu": Part(kind={"list": None}, identity={"list": None}, unread=())}
    said = compared(EIGHT, unlisted, found("gpu.a", "box", Verdict.PASS, "gpu"))
    assert said.struck_out == ()
    gone = {slot: there for slot, there in EIGHT.items() if slot != "gpu[0]"}
    said = compared(EIGHT, gone, found("gpu.a", "box", Verdict.PASS, "gpu"))
    assert said.struck_out[0].left == ("gpu[0]",)


def test_a_part_that_was_added_leaves_what_was_said_of_the_others():
    after = {**EIGHT, "gpu[8]": part("serial-8")}
    assert compared(EIGHT, after, found("gpu.a", "box", Verdict.PASS, "gpu")).struck_out == ()


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.NOT_RUN, Verdict.NOT_APPLICABLE])
def test_what_was_not_judged_cannot_be_struck_out(verdict):
    after = {"board": part("B")}
    said = compared({"board": part()}, after, found("m.a", "box", verdict, "board"))
    assert said.struck_out == ()


def test_a_verdict_that_rests_on_nothing_stands():
    assert compared({"board": part()}, {"board": part("B")}, found()).struck_out == ()


def test_a_premise_is_a_whole_name_and_no_beginning_of_one():
    before = {"gpu[1]": part(), "gpu[10]": part("ten"), "gpus": part()}
    after = {"gpu[1]": part(), "gpu[10]": part("new"), "gpus": part("B")}
    assert compared(before, after, found("g.a", "x", Verdict.PASS, "gpu[1]")).struck_out == ()


def test_with_the_old_part_come_its_verdicts():
    bad = found("gpu.a", "gpu[3]", Verdict.FAIL, "gpu[3]")
    away = compared(EIGHT, {**EIGHT, "gpu[3]": part("new")}, bad)
    still = compared(
        {**EIGHT, "gpu[3]": part("new")},
        {**EIGHT, "gpu[3]": part("third")},
        found("gpu.a", "gpu[3]", Verdict.PASS, "gpu[3]"),
        carried=away.struck_out,
        file="second.json",
    )
    assert [(one.file, one.verdict) for one in still.struck_out] == [
        ("then.json", Verdict.FAIL),
        ("second.json", Verdict.PASS),
    ]
    back = compared({**EIGHT, "gpu[3]": part("third")}, EIGHT, carried=still.struck_out)
    assert [(one.file, one.verdict) for one in back.returned] == [("then.json", Verdict.FAIL)]
    assert [one.file for one in back.struck_out] == ["second.json"]


@pytest.mark.parametrize("there", [part(None), part("serial-3", None), None, part("other")])
def test_nothing_comes_back_for_a_part_that_is_not_surely_there(there):
    away = compared(
        EIGHT, {**EIGHT, "gpu[3]": part("new")}, found("g.a", "x", Verdict.FAIL, "gpu[3]")
    )
    now = {slot: one for slot, one in {**EIGHT, "gpu[3]": there}.items() if one}
    said = compared(now, now, carried=away.struck_out)
    assert (names(said.struck_out), said.returned) == (["g.a [x]"], ())


def test_a_verdict_on_several_parts_comes_back_when_all_of_them_are_back():
    before = {"board": part("b"), "cpu": part("c")}
    both = compared(
        before, {"board": part("B"), "cpu": part("C")}, found("m.a", "x", Verdict.PASS, *before)
    )
    half = compared(before, {"board": part("b"), "cpu": part("C")}, carried=both.struck_out)
    assert (len(half.returned), len(half.struck_out)) == (0, 1)
    assert len(compared(before, before, carried=half.struck_out).returned) == 1


def test_of_the_same_subject_on_the_same_parts_only_the_newest_verdict_is_kept():
    after = {"board": part("B")}
    old = compared(
        {"board": part()},
        after,
        found("m.a", "x", Verdict.FAIL, "board"),
        ended_utc="2026-01-01T00:00:00.000Z",
    )
    # a later run than the board's kind could be read in, on the same board
    known = Part(kind={"model": "H100"}, identity={"serial": "A"}, unread=("x",))
    new = compared(
        {"board": known},
        after,
        found("m.a", "x", Verdict.PASS, "board"),
        carried=old.struck_out,
    )
    assert [(one.verdict, one.ended_utc) for one in new.struck_out] == [(Verdict.PASS, THEN)]


def test_a_ledger_carries_a_number_of_them_and_fails_longest():
    many = [found(f"m.a{n}", "x", Verdict.PASS, "board") for n in range(MOST_KEPT + 5)]
    bad = found("m.zzz", "x", Verdict.FAIL, "board")
    said = compared({"board": part()}, {"board": part("B")}, *many, bad)
    assert len(said.struck_out) == MOST_KEPT == 200
    assert said.struck_out[0].check == "m.zzz"


def test_of_those_that_are_kept_the_newest_come_first():
    dates = [f"2026-01-0{day}T00:00:00.000Z" for day in (2, 1, 3)]
    carried = []
    for number, date in enumerate(dates):
        one = found(f"m.a{number}", "x", Verdict.PASS, "board")
        now = compared({"board": part()}, {"board": part("B")}, one, ended_utc=date)
        carried += now.struck_out
    said = compared({}, {"board": part("B")}, carried=carried)
    assert [one.ended_utc for one in said.struck_out] == sorted(dates, reverse=True)


def test_a_card_that_moved_is_found_in_its_new_slot():
    after = {**EIGHT, "gpu[3]": part("serial-4"), "gpu[4]": part("serial-3")}
    said = compared(EIGHT, after, found("g.a", "x", Verdict.FAIL, "gpu[3]"))
    assert {one.slot: one.moved_to for one in said.parts} == {
        "gpu[3]": "gpu[4]",
        "gpu[4]": "gpu[3]",
    }
    assert "it is in gpu[4] now" in said.parts[0].text
    assert names(said.struck_out) == ["g.a [x]"]
    # one whose serial cannot be read, or a part of another sort, is nowhere
    nowhere = {"disk[0]": part("serial-0"), "gpu[3]": part(None, "other"), "gpu[4]": part(None)}
    moved = {one.slot: one.moved_to for one in compared(EIGHT, nowhere).parts}
    assert not any(moved.values())


# The sentence that closes a ticket


def fault(*premise: str):
    said = compared(
        EIGHT, {**EIGHT, "gpu[3]": part("new")}, found("g.a", "x", Verdict.FAIL, "gpu[3]")
    )
    return said.struck_out[0]


@pytest.mark.parametrize(
    ("now", "parts", "ends"),
    [
        (
            Verdict.PASS,
            {"gpu[3]": part("new")},
            "; not seen on gpu[3] new in this run of 2026-01-31 12:00Z, without load",
        ),
        (
            Verdict.FAIL,
            {"gpu[3]": part("new")},
            (
                "; seen again on gpu[3] new in this run of 2026-01-31 12:00Z, without load (broken): "
                "the part alone was not the cause"
            ),
        ),
        (
            Verdict.UNKNOWN,
            {"gpu[3]": part("new")},
            "; on gpu[3] new it is unknown in this run: rerun before the ticket is closed",
        ),
        (
            None,
            {"gpu[3]": part("new")},
            "; on gpu[3] new it is not judged in this run: rerun before the ticket is closed",
        ),
        (Verdict.PASS, {}, "; nothing is in its place now"),
        (
            Verdict.PASS,
            {"gpu[3]": part(None)},
            "; not seen on gpu[3] H100 in this run of 2026-01-31 12:00Z, without load",
        ),
    ],
)
def test_the_sentence_says_where_it_was_seen_and_where_not(now, parts, ends):
    judged = None if now is None else found("g.a", "x", now)
    begins = "g.a [x] (broken): seen on gpu[3] serial-3 at 2026-01-30 12:00Z"
    assert closing(fault(), judged, parts, NOW) == begins + ends


def test_the_sentence_says_under_which_load():
    judged = Finding(
        check="g.a", subject="x", verdict=Verdict.PASS, says="", load="matmul on every GPU"
    )
    said = closing(fault(), judged, {"gpu[3]": part("new")}, NOW)
    assert said.endswith("12:00Z, under load (matmul on every GPU)")
