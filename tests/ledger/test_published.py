"""Ledgers that earlier versions wrote: they load, verify, show, compare and replay for ever."""

import json
import shutil
from pathlib import Path

import pytest

from checks.cli import main
from checks.core.facts import Unseen
from checks.core.registry import load_areas
from checks.ledger.canonical import pretty
from checks.ledger.diff import difference
from checks.ledger.schema import FILES, read_ledger
from checks.ledger.store import HostFolder
from checks.ledger.verify import verify_file, verify_row
from tests.support.runs import LEDGER_1, run_here

PUBLISHED = {
    "gpu-box-7/20261202T081431Z-gpu-box-7-first-INFRA-1234-0gpu-cpu-fail.json": "98e677354d95030e8d068f8cdc6024ef2a0e5b014ae55192d6e303b18f5ca6c9",
    "gpu-box-7/20261202T081433Z-gpu-box-7-0gpu-cpu-fail.json": "589138fe6bd61258812a12426093af94b2dea5fbe96ec8106fe096fab4c0d204",
    "gpu-box-7/20261202T081435Z-gpu-box-7-0gpu-cpu-interrupted.json": "494817a3570fc7dbfb542a542e32afeeec3ba32a74523bd80d41cda828dfbf97",
    "20261202T081437Z-local-8gpu-h100-80gb-hbm3-pass.json": "841ab78f80947ede496edf43d886911d7b74fecc3eb38da84ea99e36bda89bb8",
}
"""File = its digest. Nothing here is ever changed: a new version adds a folder of its own."""
COMPLETE = [name for name in PUBLISHED if "interrupted" not in name]
INTERRUPTED = "gpu-box-7/20261202T081435Z-gpu-box-7-0gpu-cpu-interrupted.json"
ANSWERS = {"pass": 0, "fail": 1}


def test_every_published_version_of_the_schema_has_ledgers_here():
    versions = {name.rpartition("/")[2] for name in FILES if name.startswith("preflight-ledger/")}
    folders = {path.name.removeprefix("ledger-") for path in LEDGER_1.parent.glob("ledger-*")}
    assert folders == versions
    found = {str(path.relative_to(LEDGER_1)) for path in LEDGER_1.rglob("*.json")}
    assert found - {"gpu-box-7/head.json"} == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_loads_and_verifies_as_it_was_written(name):
    path = LEDGER_1 / name
    assert verify_file(path, PUBLISHED[name]).wrong == []
    ledger = read_ledger(path)
    assert ledger.findings
    assert bool(ledger.parts) is (name != INTERRUPTED), "it was killed before it had seen any"
    assert ledger.profile.schema == 1
    assert pretty(ledger.row) == path.read_bytes()


def test_its_row_verifies():
    report = verify_row(HostFolder(LEDGER_1, "gpu-box-7"))
    assert report.wrong == []
    assert any(line.startswith("3 ledgers in a row") for line in report.good)


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_is_shown(name, capsys):
    ledger = read_ledger(LEDGER_1 / name)
    verdict = ledger.run["verdict"]
    assert main(["show", str(LEDGER_1 / name)]) == ANSWERS.get(verdict, 10)
    out = capsys.readouterr().out
    assert out.startswith(f"{verdict.upper()}  {ledger.row['host']}")
    for finding in ledger.findings:
        if finding.verdict.value in ("fail", "unknown"):
            assert finding.check in out


def test_it_is_compared():
    first, second, third = (read_ledger(LEDGER_1 / name) for name in list(PUBLISHED)[:3])
    assert difference(first, first).nothing
    # the second left two checks out, which is no change of the box
    assert difference(first, second).findings == ()
    # nor is what the third was stopped before it could judge
    assert difference(first, third).findings == ()
    back = {(c.check, c.move.value) for c in difference(second, first).findings}
    assert back == set()


@pytest.mark.parametrize("name", PUBLISHED)
def test_its_observations_are_read(name):
    ledger = read_ledger(LEDGER_1 / name)
    seen = ledger.observations(load_areas())
    assert len(seen) == len(ledger.row["observations"])
    # not the text of the facts: they may lack fields that came later
    unseen = [str(one.seen) for one in seen.values() if isinstance(one.seen, Unseen)]
    assert not [text for text in unseen if "not readable by this version" in text]
    assert not [text for text in unseen if "no facts called" in text]


def verdicts(row):
    keys = ("check", "subject", "verdict", "cause", "reason")
    return {tuple(finding[key] for key in keys) for finding in row["findings"]}


@pytest.mark.parametrize("name", COMPLETE)
def test_a_replay_finds_what_was_found(name, tmp_path):
    original = read_ledger(LEDGER_1 / name)
    session = run_here(tmp_path, "", replay=str(LEDGER_1 / name))
    known = set(load_areas().checks) | {"profile.waiver"}
    found = {row for row in verdicts(original.row) if row[0] in known and row[2] != "not-run"}
    assert found <= verdicts(session.ledger)
    assert session.ledger["run"]["verdict"] == original.run["verdict"]


def test_a_replay_of_one_that_was_interrupted_says_so_and_is_not_green(tmp_path):
    session = run_here(tmp_path, "", replay=str(LEDGER_1 / INTERRUPTED))
    assert session.ledger["run"]["verdict"] in ("fail", "incomplete")
    assert "the replayed run was interrupted" in session.ledger["notices"]
    assert read_ledger(LEDGER_1 / INTERRUPTED).row["open_probes"] == [["machine.identity", "box"]]
    lost = [f for f in session.ledger["findings"] if f["reason"] == "lost"]
    assert "machine.memory.total" in {finding["check"] for finding in lost}


def test_a_row_that_an_earlier_version_began_goes_on(tmp_path):
    shutil.copytree(LEDGER_1 / "gpu-box-7", tmp_path / "gpu-box-7")
    (tmp_path / "e" / "hosts").mkdir(parents=True)
    (tmp_path / "e" / "hosts" / "gpu-box-7.toml").write_text("schema = 1\n")
    session = run_here(tmp_path, "gpu-box-7", expected=(str(tmp_path / "e"),))
    assert Path(session.ledger["previous"]["file"]).name == Path(INTERRUPTED).name
    assert verify_row(HostFolder(tmp_path, "gpu-box-7")).wrong == []


def test_no_secret_of_the_profile_is_in_them():
    # the profile that these were made with had `--api-key sk-planted…` and `HF_TOKEN = "hf_planted…"`
    for name in PUBLISHED:
        text = (LEDGER_1 / name).read_text("utf-8")
        assert "planted" not in text
    serve = json.loads((LEDGER_1 / COMPLETE[0]).read_text("utf-8"))["profile"]["content"]["serve"]
    assert serve[0]["env"]["HF_TOKEN"] == "[redacted]"
    assert serve[0]["command"].endswith("-t 64 --api-key [redacted]")
