"""Something else than a file where a file is expected, and names that nobody chose by hand."""

import json
import os
import time

import pytest

from checks.core.errors import LedgerError, PreflightError
from checks.core.load import load_host
from checks.core.registry import load_areas
from checks.ledger.canonical import ledger_digest
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder
from checks.ledger.verify import verify_file, verify_row
from tests.fuzz.conftest import HOST
from tests.fuzz.test_ledgers import read_all, replay
from tests.support.fuzz import at, places, watchdog

REGISTRY = load_areas()


def make_fifo(path):
    os.mkfifo(path)


def make_folder(path):
    path.mkdir()


def make_loop(path):
    path.symlink_to(path.name)


def make_dangling(path):
    path.symlink_to("nowhere")


def make_device(path):
    path.symlink_to("/dev/zero")


def make_endless(path):
    path.symlink_to("/proc/self/mem")


KINDS = [make_fifo, make_folder, make_loop, make_dangling, make_device, make_endless]
each_kind = pytest.mark.parametrize("make", KINDS, ids=lambda kind: kind.__name__[5:])


@each_kind
@pytest.mark.parametrize("room", ["hosts", "measured"])
def test_what_is_no_file_in_place_of_a_profile_or_of_numbers_is_told(
    material, tmp_path, make, room
):
    for folder, raw in (("hosts", material.profile), ("measured", material.expectations)):
        (tmp_path / folder).mkdir()
        if folder != room:
            (tmp_path / folder / f"{HOST}.toml").write_bytes(raw)
    make(tmp_path / room / f"{HOST}.toml")
    with watchdog(), pytest.raises(PreflightError, match=HOST):
        load_host(HOST, [tmp_path], REGISTRY.units())


@each_kind
def test_what_is_no_file_in_place_of_a_ledger_is_told(tmp_path, make):
    path = tmp_path / "ledger.json"
    make(path)
    with watchdog():
        with pytest.raises(PreflightError, match=r"ledger\.json"):
            read_ledger(path)
        assert verify_file(path).wrong


@each_kind
def test_what_is_no_file_in_place_of_a_head_is_told(material, tmp_path, make):
    folder = HostFolder(tmp_path, HOST)
    folder.path.mkdir()
    make(folder.path / "head.json")
    with watchdog():
        try:
            found = folder.head()
        except LedgerError as error:
            found = None
            told = str(error)
        else:
            told = "head.json"  # a link to nowhere is no head
        assert found is None
        assert "head.json" in told
        assert verify_row(folder).wrong


@each_kind
def test_what_is_no_file_in_place_of_a_journal_or_a_ledger_stops_no_recovery(
    material, tmp_path, make
):
    folder = HostFolder(tmp_path, HOST)
    folder.path.mkdir()
    make(folder.path / "journal-0000.jsonl")
    make(folder.path / "20260101T000000Z-x-0gpu-cpu-pass.json")
    make(folder.path / "pruned.jsonl")
    (folder.path / "journal-1111.jsonl").write_bytes(material.journal)
    with watchdog():
        ((path, _),) = folder.recover(REGISTRY)
        assert read_ledger(path).run["end"] == "interrupted"
        assert verify_row(folder).wrong


@pytest.mark.parametrize(
    "name", ["journal-.jsonl", "journal-a b.jsonl", "journal-\x1b[2J.jsonl", "journal-\udcff.jsonl",
             f"journal-{'x' * 200}.jsonl", "journal-*.jsonl", "journal-..jsonl"]
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
def test_a_journal_of_any_name_is_recovered(material, tmp_path, name, whole):
    folder = HostFolder(tmp_path, HOST)
    folder.path.mkdir()
    raw = material.journal if whole else b"torn"
    (folder.path / name).write_bytes(raw)
    with watchdog():
        ((path, _),) = folder.recover(REGISTRY)
    assert read_ledger(path).run["verdict"] == "interrupted"
    assert not folder.journals()


@pytest.mark.parametrize(
    "host",
    ["", ".", "..", "a/b", "../x", "-x", "x" * 64, "x\n", "x\x00", "\x1b[2J", "é", "*", "x y"],
)
def test_a_host_s_name_is_a_name_or_an_error(tmp_path, host):
    with pytest.raises(PreflightError, match="is not a host's name"):
        load_host(host, [tmp_path], REGISTRY.units())


LARGE = {
    "a comment": b"#" + b"x" * 400_000,
    "a text": b'description = "' + b"x" * 400_000 + b'"',
    "dashes": b'description = "' + b"-" * 400_000 + b'"',
    "dots": b'description = "' + b"a." * 200_000 + b'"',
    "URLs": b'description = "' + b"a://" * 100_000 + b'"',
    "token heads": b'description = "' + b"-eyJ" * 100_000 + b'"',
    "spaces": b'[[waiver]]\nreason = "' + b" " * 400_000 + b'"',
    "unknown keys": b"".join(b"k%d = 1\n" % number for number in range(30_000)),
    "unknown tables": b"".join(b"[t%d]\n" % number for number in range(30_000)),
    "models": b"".join(b'[[serve]]\nname = "n%d"\n' % number for number in range(8_000)),
    "nameless models": b"[[serve]]\n" * 40_000,
    "words": b'[[serve]]\nname = "x"\ncommand = "' + b"x " * 200_000 + b'"',
    "keys in a key": b"a" + b".a" * 100_000 + b" = 1",
    "lists in lists": b"a = " + b"[" * 100_000,
    "tables in tables": b"a = " + b"{a = " * 60_000,
    "digits": b"a = " + b"9" * 400_000,
    "names of checks": b"[checks.optional]\n"
    + b"".join(b'"a.k%d" = "x"\n' % number for number in range(25_000)),
    "5 MB": b"#" + b"x" * 5_000_000,
    "5 MB of NUL": b"\x00" * 5_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_is_read_or_refused_soon(tmp_path, name):
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / f"{HOST}.toml").write_bytes(b"schema = 1\n" + LARGE[name])
    started_s = time.process_time()
    with watchdog(30.0):
        try:
            load_host(HOST, [tmp_path], REGISTRY.units())
            told = ""
        except PreflightError as error:
            told = str(error)
    assert not told or f"{HOST}.toml" in told
    assert len(told) < 20_000
    assert time.process_time() - started_s < 8.0


LARGE_JSON = {
    "lists": b"[" * 1_000_000,
    "objects": b'{"a":' * 1_000_000,
    "99 lists": b"[" * 99 + b"]" * 99,
    "900 lists": b"[" * 900 + b"]" * 900,
    "digits": b"9" * 5_000_000,
    "decimals": b"0." + b"9" * 5_000_000,
    "exponent": b"1e" + b"9" * 5_000_000,
    "text": b'"' + b"x" * 5_000_000 + b'"',
    "escapes": b'"' + b"\\ud800" * 500_000 + b'"',
    "NUL": b"\x00" * 5_000_000,
    "keys": b"{" + b",".join(b'"k%d":1' % number for number in range(200_000)) + b"}",
    "numbers": b"[" + b"1," * 1_000_000 + b"1]",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_JSON)
def test_a_large_ledger_or_journal_is_refused_soon(material, tmp_path, name):
    path = tmp_path / "large.json"
    path.write_bytes(LARGE_JSON[name])
    folder = HostFolder(tmp_path, HOST)
    folder.path.mkdir()
    (folder.path / "journal-0000.jsonl").write_bytes(LARGE_JSON[name])
    (folder.path / "head.json").write_bytes(LARGE_JSON[name])
    started_s = time.process_time()
    with watchdog(30.0):
        with pytest.raises(PreflightError, match=r"large\.json"):
            read_ledger(path)
        assert verify_file(path).wrong
        with pytest.raises(PreflightError, match=r"head\.json"):
            folder.head()
        folder.recover(REGISTRY)
    assert time.process_time() - started_s < 8.0


@pytest.mark.parametrize("levels", [50, 99, 101, 300, 450, 600, 900, 990, 1_500])
@pytest.mark.parametrize("kind", ["[]", "{}"])
def test_a_ledger_that_nests_is_taken_or_refused_and_breaks_no_reader(
    material, tmp_path, levels, kind
):
    deep = "[" * levels + "]" * levels if kind == "[]" else '{"a":' * levels + "1" + "}" * levels
    for place in ("data", "observed", "content", "packages"):
        row = json.loads(material.ledger)
        for path in list(places(row)):
            if path and path[-1] == place and isinstance(at(row, path), dict):
                at(row, path)["deep"] = "@"
        if levels < 90:
            row["digest"] = ledger_digest(
                json.loads(json.dumps({**row, "digest": ""}).replace('"@"', deep))
            )
        raw = json.dumps(row).replace('"@"', deep).encode()
        changed = tmp_path / "changed.json"
        changed.write_bytes(raw)
        with watchdog():
            whole = read_all(raw, material)
            if whole and levels < 90:
                replay(changed, tmp_path / "ledgers")
    if levels > 100:
        assert not whole
