"""Ledgers, heads and journals that nobody wrote: one clear error or a right answer, never a crash."""

import functools
import itertools
import json
import random
import re
from pathlib import Path

import pytest

from checks.core.errors import LedgerError, PreflightError
from checks.core.verdict import RunVerdict
from checks.ledger.anonymous import anonymous
from checks.ledger.canonical import ledger_digest, parse
from checks.ledger.diff import difference
from checks.ledger.journal import read_journal
from checks.ledger.schema import parse_ledger, problems
from checks.ledger.store import HostFolder, rebuild
from checks.ledger.verify import verify_file, verify_row
from checks.report.terminal import Style, render
from checks.report.text import visible
from tests.fuzz.conftest import HOST, seal
from tests.support.fuzz import change_bytes, change_json, json_bytes, watchdog
from tests.support.runs import begin_here
from tests.support.soak import times

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
STYLES = [
    Style(width=80),
    Style(width=1, unicode=False),
    Style(width=200, colour=True),
]
ROUNDS = [pytest.param(40, id="sample")] + [
    pytest.param(500, id=f"round-{number}", marks=pytest.mark.slow) for number in range(times(6, 2))
]


def located(error: PreflightError, name: str) -> None:
    """See that an error names the file and says what is found and wanted."""
    assert isinstance(error, LedgerError)
    for problem in error.problems:
        assert name in problem.file
        assert problem.found
        assert problem.wanted
    assert not CONTROL.search(visible(str(error)).replace("\n", ""))


def read_all(raw: bytes, material) -> bool:
    """Do with a ledger everything that readers do; gives whether it was accepted."""
    try:
        ledger = parse_ledger(raw, "changed.json")
    except LedgerError as error:
        located(error, "changed.json")
        return False
    original = _original(material.ledger)
    turn = hash(raw) % 3
    for style in STYLES[turn : turn + 1]:
        try:
            text = render(ledger, style, path="changed.json")
        except LedgerError as error:
            located(error, "changed.json")
            continue
        if not style.colour:
            assert not CONTROL.search(text.replace("\n", ""))
        assert not re.search(r"\x1b(?!\[[0-9;]*m)", text)
        if not style.unicode:
            assert text.isascii()
    for pair in itertools.permutations((ledger, original)):
        try:
            render(original, STYLES[0], compared=("x/y.json", difference(*pair)))
        except LedgerError as error:
            located(error, "changed.json")
    if turn:
        return True
    copy = anonymous(ledger, {"somebody"})
    assert not problems(copy, "the copy")
    assert copy["digest"] == ledger_digest(copy)
    return True


def names(error: PreflightError, *words: str) -> None:
    """See that an error says where."""
    assert any(word in str(error) for word in words), error


@functools.cache
def _original(raw: bytes):
    return parse_ledger(raw, "original.json")


def resealed(value: object) -> bytes:
    """Give a changed ledger the digest that fits, where that can be made."""
    if isinstance(value, dict):
        try:
            value["digest"] = ledger_digest(value)
        except Exception:  # noqa: BLE001 - rfc8785 refuses what is no strict JSON
            value["digest"] = "sha256:" + "0" * 64
    return json_bytes(value)


@pytest.mark.parametrize("count", ROUNDS)
def test_bytes_of_a_ledger_may_be_anything(material, tmp_path, request, count):
    random_ = random.Random(request.node.callspec.id)
    path = tmp_path / "changed.json"
    for _ in range(count):
        source = random_.choice((material.ledger, material.older, material.replay))
        raw = change_bytes(random_, source, (material.head, material.profile, material.journal))
        path.write_bytes(raw)
        with watchdog():
            read_all(raw, material)
            report = verify_file(path)
            if not report.wrong:
                # accepted: then it says what one of the originals says, byte by byte or by layout
                assert parse(raw, "x") == parse(source, "x")
            assert report.wrong or report.good


@pytest.mark.parametrize("count", ROUNDS)
def test_a_ledger_may_say_anything(material, tmp_path, request, count):
    random_ = random.Random(request.node.callspec.id)
    path = tmp_path / "changed.json"
    accepted = 0
    for number in range(count):
        source = random_.choice((material.ledger, material.replay))
        value = change_json(random_, json.loads(source))
        sealed = number % 2 == 0
        raw = resealed(value) if sealed else json_bytes(value)
        path.write_bytes(raw)
        with watchdog():
            whole = read_all(raw, material)
            accepted += whole
            report = verify_file(path)
            if sealed:
                assert bool(report.good) is whole
            elif not report.wrong:
                assert parse(raw, "x") == parse(source, "x")
            if whole and sealed and number % 8 == 0:
                replay(path, tmp_path / "ledgers")
    assert accepted > count // 20


def replay(path: Path, ledgers: Path) -> None:
    """Judge again what a changed ledger recorded."""
    try:
        session = begin_here(ledgers, "", replay=str(path))
    except PreflightError as error:
        names(error, "changed.json", HOST)
        return
    try:
        for key in session.planned():
            session.judge(*key)
        session.finish()
        assert session.ledger["run"]["kind"] == "replay"
    except LedgerError as error:
        names(error, "the ledger of this run", HOST, "changed.json")
    finally:
        session.abandon()


@pytest.mark.parametrize("count", ROUNDS)
def test_a_head_may_be_anything(material, tmp_path, request, count):
    random_ = random.Random(request.node.callspec.id)
    folder = HostFolder(tmp_path, HOST)
    folder.path.mkdir()
    name = json.loads(material.head)["file"]
    (folder.path / name).write_bytes(material.replay)
    head = json.loads(material.head)
    for number in range(count):
        changed = (
            change_bytes(random_, material.head, (material.ledger, material.journal))
            if number % 2
            else json_bytes(change_json(random_, head))
        )
        (folder.path / "head.json").write_bytes(changed)
        with watchdog():
            try:
                found = folder.head()
            except LedgerError as error:
                located(error, "head.json")
                found = None
            try:
                newest = folder.newest()
            except LedgerError as error:
                located(error, "")
                newest = None
            if newest is not None:
                assert found.file == name
            report = verify_row(folder)
            same = _same(changed, material.head)
            assert bool(report.wrong) or same or found is not None
            if found is None:
                assert report.wrong


def _same(one: bytes, two: bytes) -> bool:
    try:
        return parse(one, "x") == parse(two, "x")
    except LedgerError:
        return False


@pytest.mark.parametrize("count", ROUNDS)
def test_a_journal_may_be_anything_and_is_never_green(material, request, count):
    random_ = random.Random(request.node.callspec.id)
    lines = [line.partition(b" ")[2] for line in material.journal.splitlines()]
    for number in range(count):
        if number % 3 == 0:
            raw = change_bytes(random_, material.journal, (material.ledger, material.head))
        else:
            # with checksums that fit, so that the change is read
            changed = list(lines)
            for _ in range(random_.randint(1, 2)):
                at = 0 if random_.random() < 0.4 else random_.randrange(len(changed))
                value = change_json(random_, json.loads(changed[at]))
                changed[at] = json.dumps(value).encode()
            if random_.random() < 0.1:
                random_.shuffle(changed)
            raw = b"".join(seal(line) for line in changed)
        with watchdog():
            remains = read_journal(raw, "journal-1.jsonl")
            row = rebuild(
                material.registry, remains, host=HOST, run_id="1", modified_s=1_750_000_000.0
            )
            assert not problems(row, "rebuilt")
            assert row["run"]["verdict"] == RunVerdict.INTERRUPTED.value
            assert row["run"]["exit_code"] == 2
            assert row["run"]["end"] == "interrupted"


@pytest.mark.parametrize("count", [pytest.param(30, id="sample"),
                                   pytest.param(400, id="round", marks=pytest.mark.slow)])  # fmt: skip
def test_a_folder_with_changed_files_is_recovered_or_says_why_not(
    material, tmp_path, request, count, monkeypatch
):
    # flushing is what tests of crashes are about; here it would be most of the time
    monkeypatch.setattr("os.fsync", lambda _: None)
    random_ = random.Random(request.node.callspec.id)
    lines = [line.partition(b" ")[2] for line in material.journal.splitlines()]
    for number in range(count):
        folder = HostFolder(tmp_path / str(number), HOST)
        folder.path.mkdir(parents=True)
        (folder.path / json.loads(material.head)["file"]).write_bytes(material.replay)
        head = material.head
        if random_.random() < 0.5:
            head = json_bytes(change_json(random_, json.loads(head)))
        (folder.path / "head.json").write_bytes(head)
        changed = list(lines[: random_.randrange(1, len(lines))])
        value = change_json(random_, json.loads(changed[0]), times=random_.randint(0, 2) or 1)
        changed[0] = json.dumps(value).encode()
        names = ["journal-0123.jsonl", "journal-.jsonl", "journal-a b\x1b.jsonl", "journal-x.jsonl"]
        (folder.path / random_.choice(names)).write_bytes(b"".join(map(seal, changed)))
        with watchdog():
            try:
                made = folder.recover(material.registry)
            except PreflightError as error:
                names(error, str(folder.path), HOST)
                continue
            assert len(made) == 1
            ledger = parse_ledger(made[0][0].read_bytes(), "recovered")
            assert ledger.run["end"] == "interrupted"
            assert not folder.journals()
            verify_row(folder)
