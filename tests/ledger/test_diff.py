"""What changed between two ledgers."""

import copy
import dataclasses

import pytest

from checks.cli import main
from checks.core.finding import Finding
from checks.core.verdict import Reason, Verdict
from checks.ledger.canonical import ledger_digest, pretty
from checks.ledger.diff import Move, difference

MEMORY = ("machine.memory.total", "box")


def index(row, key):
    keys = [(finding["check"], finding["subject"]) for finding in row["findings"]]
    return keys.index(key)


def with_finding(ledger, key=MEMORY, **changes):
    row = copy.deepcopy(ledger.row)
    number = index(row, key)
    finding = Finding.from_json(row["findings"][number])
    row["findings"][number] = dataclasses.replace(finding, **changes).to_json()
    return dataclasses.replace(ledger, row=row)


def with_part(ledger, slot, **changes):
    row = copy.deepcopy(ledger.row)
    for side, value in changes.items():
        fields = row["fingerprint"][slot][side]
        row["fingerprint"][slot][side] = dict.fromkeys(fields, value)
    return dataclasses.replace(ledger, row=row)


def moves(before, after):
    return {(c.check, c.subject): c.move for c in difference(before, after).findings}


PASS = {"verdict": Verdict.PASS, "cause": "", "reason": None}
FAIL = {"verdict": Verdict.FAIL, "cause": "too-little", "reason": None}
UNKNOWN = {"verdict": Verdict.UNKNOWN, "cause": "", "reason": Reason.NOT_OBSERVABLE}
AWAY = {"verdict": Verdict.NOT_APPLICABLE, "cause": "", "reason": None}
NOT_RUN = {"verdict": Verdict.NOT_RUN, "cause": "", "reason": None}
CUT_OFF = {"verdict": Verdict.UNKNOWN, "cause": "", "reason": Reason.INTERRUPTED}
DIGEST = "changed"
GPU = "gpu[0000:4b:00.0]"


def test_a_ledger_and_itself_differ_in_nothing(made):
    changed = difference(made, made)
    assert changed.nothing
    assert changed.parts == ()
    assert changed.findings == ()


@pytest.mark.parametrize(
    ("before", "after", "move"),
    [
        (PASS, FAIL, Move.WORSE),
        (PASS, UNKNOWN, Move.UNDECIDED),
        (UNKNOWN, FAIL, Move.WORSE),
        (AWAY, UNKNOWN, Move.CHANGED),
        (FAIL, PASS, Move.BETTER),
        (FAIL, UNKNOWN, Move.UNDECIDED),
        (UNKNOWN, PASS, Move.BETTER),
        (FAIL, {**FAIL, "cause": "too-much"}, Move.CHANGED),
        (UNKNOWN, {**UNKNOWN, "reason": Reason.LOST}, Move.CHANGED),
        # neither better nor worse: on one of the two sides nothing was compared
        (AWAY, PASS, Move.APPLIES),
        (AWAY, FAIL, Move.APPLIES),
        (PASS, AWAY, Move.NO_LONGER_APPLIES),
        (FAIL, AWAY, Move.NO_LONGER_APPLIES),
        (UNKNOWN, AWAY, Move.CHANGED),
    ],
)
def test_how_a_finding_moved(made, before, after, move):
    # no fingerprint part of its premise changes here
    old, new = with_finding(made, **before), with_finding(made, **after)
    assert moves(old, new) == {MEMORY: move}


@pytest.mark.parametrize("missed", [NOT_RUN, CUT_OFF])
def test_what_a_run_did_not_get_to_judge_is_a_gap_and_not_the_same_as_before(made, missed):
    failed, cut = with_finding(made, **FAIL), with_finding(made, **missed)
    changed = difference(failed, cut)
    assert changed.findings == ()
    assert changed.rest_same
    assert not changed.nothing
    name = "machine.memory.total [box]"
    assert changed.gaps == (f"1 check was not judged now (1 of them failed then: {name})",)
    assert difference(cut, failed).gaps == (
        f"1 check was not judged then (1 of them failed now: {name})",
    )
    assert difference(cut, cut).gaps == ("1 check was not judged now",)
    two = with_finding(cut, ("machine.clock.past", "box"), **missed)
    assert difference(with_finding(made, **PASS), two).gaps == ("2 checks were not judged now",)


def test_other_numbers_in_the_same_verdict_are_no_change(made):
    assert moves(made, with_finding(made, says="other words", observed={"x_bytes": 1})) == {}


def test_a_finding_that_came_or_went(made):
    row = copy.deepcopy(made.row)
    del row["findings"][index(row, MEMORY)]
    without = dataclasses.replace(made, row=row)
    assert moves(made, without) == {MEMORY: Move.GONE}
    assert moves(without, made) == {MEMORY: Move.NEW}


def test_a_verdict_that_rested_on_a_part_that_was_replaced_is_struck_out(made):
    old = with_finding(made, **PASS)
    new = with_part(old, "memory", identity=DIGEST)
    known = with_part(old, "memory", identity="other")
    assert moves(known, new)[MEMORY] is Move.STRUCK_OUT


def test_a_part_that_one_side_could_not_read_strikes_nothing_out(made):
    old = with_finding(made, **PASS)
    known = with_part(old, "memory", identity=DIGEST)
    blind = with_part(old, "memory", identity=None)
    for before, after in ((known, blind), (blind, known)):
        changed = difference(before, after)
        assert changed.findings == ()
        assert changed.nothing, "not comparable is not worth a word in the report"
        assert len(changed.parts) == 1


def test_a_card_of_a_kind_strikes_out_what_rests_on_that_kind_of_card(made):
    old = with_finding(made, **PASS, premise=("gpu",))
    new = with_part(old, GPU, identity=DIGEST)
    assert moves(old, new)[MEMORY] is Move.STRUCK_OUT
    row = copy.deepcopy(old.row)
    del row["fingerprint"][GPU]
    assert moves(old, dataclasses.replace(old, row=row))[MEMORY] is Move.STRUCK_OUT


def test_what_was_never_decided_is_not_struck_out(made):
    old = with_finding(made, **UNKNOWN, premise=("gpu",))
    assert MEMORY not in moves(old, with_part(old, GPU, identity=DIGEST))


def test_an_unrelated_part_strikes_nothing_out(made):
    old = with_finding(made, **PASS)
    changed = difference(old, with_part(old, GPU, identity=DIGEST))
    assert [part.slot for part in changed.real_parts] == [GPU]
    assert all(row.check != MEMORY[0] for row in changed.findings)
    assert not changed.nothing


def test_the_command_says_what_changed_in_words_and_in_its_exit_code(made, tmp_path, capsys):
    def write(ledger, name):
        row = {**ledger.row}
        row["digest"] = ledger_digest(row)
        path = tmp_path / name
        path.write_bytes(pretty(row))
        return str(path)

    cut = write(with_finding(made, **CUT_OFF), "cut.json")
    failed = write(with_finding(made, **FAIL), "failed.json")
    assert main(["diff", failed, cut]) == 10
    assert capsys.readouterr().out == (
        "1 check was not judged now (1 of them failed then: machine.memory.total [box])\n"
        "of the rest, nothing changed\n"
    )
    before = write(with_finding(made, **PASS), "before.json")
    after = write(with_part(with_finding(made, **FAIL), GPU, identity=DIGEST), "after.json")
    assert main(["diff", before, before]) == 0
    assert capsys.readouterr().out == "nothing changed\n"
    assert main(["diff", before, after]) == 1
    out = capsys.readouterr().out
    assert "part   gpu[0000:4b:00.0]: kind same, identity changed" in out
    assert "worse           machine.memory.total [box]: pass: declared → fail: too-little" in out
    assert main(["diff", cut, after]) == 1, "a part changed, whatever was not judged"
    assert "1 check was not judged then" in capsys.readouterr().out
    assert main(["diff", before, str(tmp_path / "absent.json")]) == 2
