"""The published schema, and the traps of its validator."""

import json
import re

import jsonschema
import pytest

from checks.core.errors import LedgerError
from checks.core.expectation import Basis
from checks.core.facts import Blind
from checks.core.verdict import Excuse, ExitEffect, Reason, RunVerdict, Verdict
from checks.ledger.canonical import pretty
from checks.ledger.schema import FILES, parse_ledger, problems, validator
from tests.support.runs import HERE


def test_a_ledger_that_was_written_is_by_its_schema(row):
    assert problems(row, "x") == []
    assert parse_ledger(pretty(row), "x").row == row


@pytest.mark.parametrize("version", FILES)
def test_the_schemas_are_schemas_and_refuse_what_they_do_not_name(version):
    schema = json.loads((HERE / "ledgers" / "schema" / FILES[version]).read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    open_objects = []

    def walk(part, path):
        if isinstance(part, dict):
            closed = part.get("additionalProperties", True) is not True
            if "properties" in part and not closed:
                open_objects.append(path)
            for key, inner in part.items():
                if key not in (
                    "if",
                    "then",
                    "else",
                    "not",
                    "oneOf",
                ):  # these only narrow what is named
                    walk(inner, f"{path}/{key}")
        elif isinstance(part, list):
            for number, inner in enumerate(part):
                walk(inner, f"{path}/{number}")

    walk(schema, "")
    assert not open_objects
    assert "format" not in json.dumps(schema), "nobody checks `format`"


SAME = object()


def put(row, path, value):
    inside = row
    for key in path[:-1]:
        inside = inside[key]
    if value is SAME:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        # `format` would not be checked: moments and digests have patterns
        (("run", "started_utc"), "yesterday"),
        (("run", "started_utc"), "2026-01-31 12:00:00"),
        (("run", "started_utc"), "2026-13-31T12:00:00.000Z"),
        (("run", "started_utc"), "2026-01-32T12:00:00.000Z"),
        (("run", "ended_utc"), "2026-01-31T25:00:00.000Z"),
        (("run", "ended_utc"), "2026-01-31T12:00:00.000+01:00"),
        (("run", "ended_utc"), "2026-01-31T12:00:00.000Z\n"),
        (("digest",), "sha256:" + "g" * 64),
        (("digest",), "sha256:" + "0" * 64 + "\n"),
        (("host",), "../h100"),
        (("host",), "h100-1\n"),
        (("run", "id"), ""),
        (("findings", 0, "check"), "Machine.Clock"),
        # 1.0 is no integer, and neither is true
        (("run", "exit_code"), 1.0),
        (("run", "exit_code"), True),
        (("run", "user_id"), 0.0),
        (("counts", "fail"), 1.0),
        (("controls", 0, "count"), 2.0),
        (("run", "exit_code"), -1),
        # NaN passes `minimum`
        (("run", "elapsed_s"), -0.1),
        # words
        (("run", "verdict"), "PASS"),
        (("run", "kind"), "dream"),
        (("findings", 0, "verdict"), "warn"),
        (("findings", 0, "reason"), "because"),
        (("findings", 0, "confirmed"), 1),
        (("observations", 0, "elapsed_s"), "1"),
        # shapes
        (("run",), []),
        (("findings",), {}),
        (("findings", 0, "observed"), {"a": {"b": 1}}),
        (("findings", 0, "notes"), "one"),
        (("open_probes",), [["only one"]]),
        (("open_probes",), [["a", "b", "c"]]),
        (("fingerprint", "cpu", "kind"), None),
        (("fingerprint", "cpu", "planted"), 1),
        (("planted",), 1),
        (("run", "planted"), 1),
        (("findings", 0, "planted"), 1),
        (("observations", 0, "planted"), 1),
        (("observations", 0, "unseen"), "absent"),
        (("observations", 0, "type"), "Clock"),
        (("findings", 0, "effect"), "explodes"),
        (("findings", 0, "excused"), "It rains"),
        (("observations", 0, "data"), SAME),
        (("digest",), SAME),
        (("run", "verdict"), SAME),
        (("counts", "waived"), SAME),
        (("findings", 0, "remedy"), SAME),
        (("previous",), {"file": "x"}),
        (("schema",), "preflight-ledger/2"),
        (("schema",), SAME),
        (("schema",), 1),
    ],
    ids=lambda value: (
        ".".join(map(str, value))
        if isinstance(value, tuple)
        else "without"
        if value is SAME
        else repr(value)[:30]
    ),
)
def test_what_is_against_the_schema_is_refused_with_its_place(row, path, value):
    put(row, path, value)
    found = problems(row, "x.json")
    assert found
    shown = str(found[0])
    assert shown.startswith("x.json:")
    # what one observation must have is told of the whole of it
    told = path[0] if path[0] == "observations" else [p for p in path if isinstance(p, str)][-1]
    assert told in shown
    with pytest.raises(LedgerError):
        parse_ledger(json.dumps(row).encode(), "x.json")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_none_passes_no_minimum(row, text):
    raw = json.dumps(row).replace(f'"elapsed_s": {row["run"]["elapsed_s"]}', f'"elapsed_s": {text}')
    assert text in raw
    with pytest.raises(LedgerError):
        parse_ledger(raw.encode(), "x.json")


def test_a_ledger_of_a_later_version_says_which_one_is_read(row):
    row["schema"] = "preflight-ledger/2"
    with pytest.raises(LedgerError, match=r"this version of preflight reads preflight-ledger/1"):
        parse_ledger(json.dumps(row).encode(), "x.json")


@pytest.mark.parametrize("value", [None, [], "x", 5, {}, [{"schema": "preflight-ledger/1"}]])
def test_what_is_no_ledger_at_all_is_one_clear_error(value):
    with pytest.raises(LedgerError, match="schema"):
        parse_ledger(json.dumps(value).encode(), "x.json")


def test_the_words_of_the_schema_are_those_of_the_code():
    schema = validator("preflight-ledger/1").schema
    finding = schema["$defs"]["finding"]["properties"]
    assert set(finding["verdict"]["enum"]) == {verdict.value for verdict in Verdict}
    assert set(finding["reason"]["enum"]) == {*(reason.value for reason in Reason), None}
    assert set(finding["basis"]["enum"]) == {*(basis.value for basis in Basis), None}
    assert set(finding["effect"]["enum"]) == {effect.value for effect in ExitEffect}
    assert all(re.search(finding["excused"]["pattern"], excuse.value) for excuse in Excuse)
    unseen = schema["$defs"]["observation"]["properties"]["unseen"]["pattern"]
    assert all(re.search(unseen, reason.value) for reason in Blind)
    run = schema["properties"]["run"]["properties"]
    assert set(run["verdict"]["enum"]) == {verdict.value for verdict in RunVerdict}
