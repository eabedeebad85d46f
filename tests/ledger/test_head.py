"""The reader of heads takes and refuses what the published schema does, and says what is wrong where."""

import copy
import json
import random

import pytest

from checks.core.errors import LedgerError
from checks.ledger.canonical import parse
from checks.ledger.head import HEAD_SCHEMA, as_fingerprint, head_problems, parse_head
from checks.ledger.schema import problems
from checks.ledger.store import HostFolder
from tests.support.fuzz import ESCAPES, at, change_bytes, change_json, json_bytes, places
from tests.support.runs import LEDGER_1, begin_here, run_here

ROUNDS = [pytest.param(400, id="sample")] + [
    pytest.param(4_000, id=f"round-{number}", marks=pytest.mark.slow) for number in range(3)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Give a host whose head has everything that a head can have."""
    ledgers = tmp_path_factory.mktemp("heads")
    run_here(ledgers)
    run_here(ledgers, only="machine")
    begin_here(ledgers).finish("SIGTERM")
    return HostFolder(ledgers, "local")


@pytest.fixture
def head(folder):
    return json.loads((folder.path / "head.json").read_bytes())


def agree(value):
    """See that both say the same of a value; gives whether it is a head."""
    by_schema = problems(value, "head.json", version=HEAD_SCHEMA)
    by_hand = head_problems(value, "head.json")
    assert bool(by_schema) is bool(by_hand), (by_schema, by_hand, value)
    for problem in by_hand:
        assert problem.found
        assert problem.wanted
    return not by_hand


def test_the_heads_that_there_are_are_heads(head):
    assert agree(head)
    assert head["unsettled"]["interrupted"]
    assert set(head["scopes"]) == {"all", "machine"}
    published = (LEDGER_1 / "gpu-box-7" / "head.json").read_bytes()
    assert agree(json.loads(published))
    read = parse_head(published, "head.json")
    assert read.unsettled is None
    assert read.to_json() == json.loads(published)


def test_what_was_read_is_written_again(folder):
    raw = (folder.path / "head.json").read_bytes()
    assert parse_head(raw, "x").to_json() == json.loads(raw)


def test_no_key_may_be_left_out_and_none_may_be_added(head):
    optional = {"unsettled", "areas", "unconfirmed_required", "interrupted"}
    free = ("scopes", "fingerprint", "kind", "identity", "areas")
    for path in places(head):
        if not path:
            continue
        changed = copy.deepcopy(head)
        parent = at(changed, path[:-1])
        mapping = len(path) > 1 and path[-2] in free
        del parent[path[-1]]
        assert agree(changed) is (path[-1] in optional or mapping), path
        changed = copy.deepcopy(head)
        if isinstance(at(changed, path), dict) and path[-1] not in free:
            at(changed, path)["more"] = 1
            assert not agree(changed), path


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 1.0, "", "x", "x\n", ESCAPES, [], {}, [{}], {"x": 1}, 2**53 - 1],
    ids=repr,
)
def test_a_value_of_another_kind_is_refused_wherever_the_schema_refuses_it(head, value):
    accepted = []
    for path in places(head):
        changed = copy.deepcopy(head)
        if path:
            at(changed, path[:-1])[path[-1]] = value
            accepted.append(agree(changed))
    assert accepted.count(False) > len(accepted) // 2, "no value fits most places"


def test_a_text_with_one_more_letter_is_refused_wherever_the_schema_refuses_it(head):
    accepted = []
    for path in places(head):
        text = at(head, path)
        if isinstance(text, str):
            for other in (
                text + "\n",
                text + "0",
                text[:-1],
                text.upper(),
                f" {text}",
                "\u017f" + text,
            ):
                changed = copy.deepcopy(head)
                at(changed, path[:-1])[path[-1]] = other
                accepted.append(agree(changed))
    assert {*accepted} == {True, False}, "some texts are free, and some are not"


@pytest.mark.parametrize("count", ROUNDS)
def test_whatever_the_schema_refuses_the_reader_refuses_too(head, request, count):
    random_ = random.Random(request.node.callspec.id)
    raw = json_bytes(head)
    accepted = 0
    for number in range(count):
        changed = (
            change_bytes(random_, raw)
            if number % 4 == 0
            else json_bytes(change_json(random_, head))
        )
        try:
            value = parse(changed, "head.json")
        except LedgerError:
            with pytest.raises(LedgerError, match=r"head\.json"):
                parse_head(changed, "head.json")
            continue
        if agree(value):
            accepted += 1
            assert parse_head(changed, "head.json").to_json() == value
        else:
            with pytest.raises(LedgerError, match=r"head\.json"):
                parse_head(changed, "head.json")
    assert accepted > count // 50


def test_a_problem_names_its_key_what_stands_there_and_what_is_wanted(head):
    head["scopes"]["all"]["sha256"] = "abc"
    head["exit_code"] = True
    del head["newest_s"]
    said = {problem.key: str(problem) for problem in head_problems(head, "head.json")}
    assert said == {
        "scopes.all.sha256": "head.json: scopes.all.sha256: found 'abc'; wanted: 64 hex digits",
        "exit_code": "head.json: exit_code: found True; wanted: an integer, 0 or more",
        "newest_s": "head.json: newest_s: missing; wanted: what the schema says",
    }
    (version,) = head_problems({"schema": "preflight-head/2"}, "head.json")
    assert str(version) == (
        "head.json: schema: found 'preflight-head/2'; this version of preflight reads preflight-head/1"
    )


def test_a_fingerprint_is_told_from_what_is_none(head):
    assert as_fingerprint(head["fingerprint"]) == head["fingerprint"]
    for wrong in (None, [], {"x": {}}, {"x": {"kind": {}, "identity": {"a": 1}}}):
        assert as_fingerprint(wrong) is None
