"""Every false green of the peers that this version could have: shown not to be one here.

README.md beside this file says which defect each test speaks for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.core.expectation import Basis
from checks.core.finding import Finding
from checks.core.outcome import outcome
from checks.core.profile import SCHEMA_ID, Profile
from checks.core.reader import json_schema
from checks.core.registry import REGISTRY, control, load_areas
from checks.core.runner import run_controls
from checks.core.verdict import EXIT_CODES, LOOKS, ExitEffect, RunVerdict, Verdict
from tests.support.boxes import HERE, NVME, Run, amd_box, cloud_vm, h100_box, plain_box

load_areas()
BROKEN = ("-p", "tests.support.broken")
CLOCK = "machine.clock.past"
FREE = "machine.disk.free"
ROOM = "test_there_is_room_for_what_has_to_go_there"
GIB = 2**30
DECLARED = f"""
[hardware]
architecture = "x86_64"
product_name = "PowerEdge XE9680"
virtualization = "none"
kernel_parameters = ["iommu=pt"]
kernel_modules = ["ext4"]
clock_disciplined = true
container = "none"
memory_total_bytes = {512 * GIB}
memory_available_min_bytes = {GIB}
[[serve]]
name = "chat"
command = "llama-server -t 4"
model = "example-org/chat-8b"
model_bytes = 16_000_000_000
"""


def broken(suite, folder: Path, way: str, *words: str, **more) -> Run:
    return suite.run(folder, *BROKEN, *words, env={"BREAK": way}, **more)


# 1. A tool that is missing, a file that is missing, an empty answer: not green


def test_an_empty_path_changes_no_verdict(suite, tmp_path):
    """No probe of this area asks a tool, so none can be missing."""
    usual = suite.run(tmp_path / "a", profile='[hardware]\nvirtualization = "vm"\n')
    bare = suite.run(
        tmp_path / "b",
        profile='[hardware]\nvirtualization = "vm"\n',
        env={"PATH": "", "LD_LIBRARY_PATH": None},
    )
    assert bare.verdicts == usual.verdicts
    assert bare.code == usual.code


def test_a_box_that_shows_nothing_passes_nothing(suite, tmp_path):
    """Every file absent: not one pass, each required check named, and not exit code 0."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "recorded.json").write_text("{}")
    run = suite.run(tmp_path, root=tree, profile=DECLARED)
    judged = [row for row in run.ledger["findings"] if row["verdict"] != "not-applicable"]
    assert {row["verdict"] for row in judged} == {"unknown"}
    for row in run.ledger["findings"]:
        # nothing is said of the box itself: only what its profile does not ask for
        assert row in judged or "declare" in row["says"] or "command" in row["says"], row
    assert run.code == 10
    for row in judged:
        assert row["reason"] in ("not-observable", "blocked-by"), row


def test_each_source_that_is_missing_takes_its_own_pass_away(suite, tmp_path):
    whole = suite.run(
        tmp_path, root=plain_box().write(tmp_path / "tree"), profile=DECLARED, host="whole"
    )
    assert whole.code == 0
    for number, (prefix, checks) in enumerate(
        {
            "/proc/meminfo": ["machine.memory.total[box]", "machine.memory.available[box]"],
            "/sys/class/dmi": ["machine.identity.product[box]"],
            "/proc/4242/status": ["machine.cpu.threads[chat]"],
            "/proc/4242/mountinfo": ["machine.cpu.threads[chat]"],
        }.items()
    ):
        folder = tmp_path / str(number)
        tree = plain_box().drop(prefix).write(folder / "tree")
        run = suite.run(folder, root=tree, profile=DECLARED)
        for name in checks:
            assert run.verdicts[name] == "unknown", (prefix, name)
        assert run.code == 10


# 2. Unknown machine: never exit code 0


@pytest.mark.parametrize("host", ["h100-9", "locall", "../etc", "", "a b"])
def test_an_unknown_host_is_an_error_that_lists_the_known_ones(suite, tmp_path, host):
    code, out = suite.pytest("--host", host, "--ledger-dir", tmp_path, out=tmp_path / "out")
    assert code == 4
    assert "Traceback" not in out
    assert "local" in out or "is not a host's name" in out
    assert list(tmp_path.rglob("*.json")) == []


def test_no_host_at_all_is_an_error(suite, tmp_path):
    code, out = suite.pytest("--ledger-dir", tmp_path, out=tmp_path / "out")
    assert code == 4
    assert "--host NAME" in out


def test_a_board_that_nobody_knows_is_named_by_its_number_and_not_left_out(suite, tmp_path):
    box = plain_box()
    root = "/sys/bus/pci/devices/0000:18:00.0"
    for name, text in (("vendor", "0x10de"), ("device", "0xffff"), ("class", "0x030200")):
        box.put(f"{root}/{name}", f"{text}\n")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"))
    assert run.ledger_path is not None
    assert "-1gpu-10de-ffff-" in run.ledger_path.name
    assert run.ledger["fingerprint"]["gpu[0000:18:00.0]"]["unread"]


# 3. Seen before is not pass


def test_the_same_fault_fails_on_every_run(suite, tmp_path):
    profile = '[hardware]\narchitecture = "sparc"\n'
    for _ in range(3):
        run = suite.run(tmp_path, profile=profile)
        assert run.finding("machine.identity.architecture")["verdict"] == "fail"
        assert run.code == 1


# 4. NaN, infinities, negative numbers, zero, texts and nothing at all: refused, or not a pass


NUMBERS = ["nan", "inf", "-inf", "-1", "0", '"many"', "true", "1e400", "[]", "1979-05-27"]
KEYS = {
    "hardware.memory_total_bytes": "[hardware]\nmemory_total_bytes = {}\n",
    "hardware.memory_available_min_bytes": "[hardware]\nmemory_available_min_bytes = {}\n",
    "paths.tmp_free_min_bytes": "[paths]\ntmp_free_min_bytes = {}\n",
    "serve[0].model_bytes": '[[serve]]\nname = "a"\nmodel = "o/m"\nmodel_bytes = {}\n',
}


@pytest.mark.parametrize("key", KEYS)
def test_a_number_of_the_profile_that_is_none_is_refused_where_it_stands(suite, tmp_path, key):
    for value in NUMBERS:
        run = suite.run(tmp_path, profile=KEYS[key].format(value))
        assert run.code == 4, value
        assert run.ledger == {}
        assert f"planted.toml:{2 + KEYS[key][: KEYS[key].index('{')].count(chr(10))}" in run.out
        assert key in run.out


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", '"x"', "true"])
def test_a_tolerance_or_a_measured_number_that_is_none_is_refused(suite, tmp_path, value):
    if value != "true":
        run = suite.run(
            tmp_path / "a",
            profile=f"[hardware]\nmemory_total_bytes = 9\nmemory_tolerance_ratio = {value}\n",
        )
        assert run.code == 4
        assert "memory_tolerance_ratio" in run.out
    measured = tmp_path / "b" / "expected" / "measured"
    measured.mkdir(parents=True)
    (measured / "planted.toml").write_text(
        'schema = 1\n[[expectation]]\ncheck = "machine.memory.total"\n'
        f'value = {value}\nunit = "By"\nbasis = "measured"\nsource = "planted"\n'
    )
    run = suite.run(tmp_path / "b")
    assert run.code == 4
    assert "expectation[0].value" in run.out


@pytest.mark.parametrize("text", ["NaN kB", "-5 kB", "", "inf kB", "9 GB", "0 kB", "1e9 kB"])
def test_a_fact_that_is_no_number_is_unknown(suite, tmp_path, text):
    box = plain_box().put("/proc/meminfo", f"MemTotal:       {text}\nMemAvailable: 9000 kB\n")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=DECLARED)
    assert run.finding("machine.memory.total")["reason"] == "not-observable"
    assert run.code == 10


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1e999", '"many"', "null"])
def test_a_replayed_number_that_is_none_is_not_a_pass(suite, tmp_path, value):
    run = suite.run(tmp_path, root=plain_box().write(tmp_path / "tree"), profile=DECLARED)
    assert run.ledger_path is not None
    text = run.ledger_path.read_text()
    altered = re.sub(r'("total_bytes": ?)54\d+', rf"\g<1>{value}", text)
    assert altered != text
    run.ledger_path.write_text(altered)
    code, out = suite.pytest(
        *("--replay", run.ledger_path, "--ledger-dir", tmp_path / "l"), out=tmp_path / "out"
    )
    assert code == 4
    assert "Traceback" not in out


@pytest.mark.parametrize("factor", [1_000, 1_024, 10])
def test_a_declared_size_in_another_unit_or_with_a_lost_digit_fails(suite, tmp_path, factor):
    """A floor that has lost a digit cannot fail; a size with two sides can."""
    total = 512 * GIB
    for number, size in enumerate((total // factor, total * factor)):
        folder = tmp_path / str(number)
        run = suite.run(
            folder,
            root=plain_box().write(folder / "tree"),
            profile=f"[hardware]\nmemory_total_bytes = {size}\n",
        )
        assert run.finding("machine.memory.total")["verdict"] == "fail"


# 9. Documents and settings that drift apart


def test_the_published_schema_of_the_profile_is_the_one_that_the_code_gives():
    published = json.loads((HERE / "expected" / "schema" / "profile-1.json").read_text())
    made = json_schema(Profile, identifier=SCHEMA_ID, title=published["title"])
    assert made == published


def test_every_check_that_a_document_names_exists():
    names = "|".join({name.partition(".")[0] for name in REGISTRY.checks})
    found = set()
    documents = [*HERE.glob("*.md"), *(HERE / "expected").rglob("*.toml")]
    for path in documents:
        text = path.read_text("utf-8")
        for name in re.findall(rf"\b(?:{names})\.[a-z]+\.[a-z][a-z-]*[a-z]\b", text):
            found.add(name)
            assert name in REGISTRY.checks, f"{path.name} names {name}"
    assert found, "no document names a check"


def test_every_shipped_profile_loads_and_can_be_explained(suite, tmp_path):
    for path in (HERE / "expected" / "hosts").glob("*.toml"):
        run = suite.run(tmp_path / path.stem, host=path.stem, profile=path.read_text()[0:0] or None)
        assert run.ledger, run.out
        code, out = suite.pytest(
            *("--host", path.stem, "--ledger-dir", tmp_path), "--collect-only", out=tmp_path / "o"
        )
        assert code == 0, out


# 10 and 11. A control that fails for the wrong reason, or that does not fire


@pytest.mark.parametrize(
    "way",
    [
        "judge always passes",
        "judge always fails",
        "judge fails for another reason",
        "judge never decides",
        "judge raises",
        "no must-fail control",
        "no controls",
    ],
)
def test_a_check_whose_controls_come_out_wrong_is_not_believed(suite, tmp_path, way):
    run = broken(suite, tmp_path, way)
    found = run.finding(CLOCK)
    assert (found["verdict"], found["reason"]) == ("unknown", "control-passed"), found["says"]
    assert "do not believe this check" in found["remedy"]
    assert run.code == 10
    kept = {row["check"]: row for row in run.ledger["controls"]}
    assert kept[CLOCK]["good"] is False
    assert kept[CLOCK]["detail"]
    others = [row for name, row in kept.items() if name not in (CLOCK, "machine.clock.jump")]
    assert all(row["good"] for row in others)


def test_every_check_has_a_pair_and_each_must_fail_fails_with_its_own_cause():
    for check in REGISTRY.checks.values():
        assert run_controls(check).good, check.name
        shown = {planted.fails for planted in check.controls} - {""}
        assert shown == set(check.causes), f"{check.name}: causes that no control shows"


def test_a_control_of_a_check_or_cause_that_does_not_exist_is_refused():
    planted = REGISTRY.checks[CLOCK].controls[0]
    with pytest.raises(KeyError):
        control("machine.clock.pest", planted.seen, fails="clock-in-the-past")
    with pytest.raises(ValueError, match="no cause"):
        control(CLOCK, planted.seen, fails="clock-in-the-pest")
    with pytest.raises(ValueError, match="either"):
        control(CLOCK, planted.seen)


def test_controls_that_were_switched_off_are_visible(suite, tmp_path):
    run = suite.run(tmp_path, "--no-controls")
    assert run.ledger["run"]["controls"] is False
    assert run.ledger["controls"] == []


# 12. Disabled is not OK


@pytest.mark.parametrize(
    ("words", "check", "subject"),
    [
        (["-k", "not clock"], CLOCK, "box"),
        (["--deselect", f"test_machine.py::{ROOM}[tmp]"], FREE, "tmp"),
        (["-k", "files"], CLOCK, "box"),
    ],
)
def test_a_required_check_that_was_deselected_makes_the_run_incomplete(
    suite, tmp_path, words, check, subject
):
    run = suite.run(tmp_path, *words)
    found = run.finding(check, subject)
    assert found["verdict"] == "not-run"
    assert "deselected" in found["says"]
    assert run.code == 10
    assert check in run.out


def test_tests_that_skip_themselves_are_not_passes(suite, tmp_path):
    run = broken(suite, tmp_path, "tests skip themselves")
    assert not run.with_verdict("pass")
    assert run.code == 10


def test_tests_that_judge_nothing_are_lost_and_not_passed(suite, tmp_path):
    run = broken(suite, tmp_path, "tests judge nothing")
    assert not run.with_verdict("pass")
    assert run.finding(CLOCK)["reason"] == "lost"
    assert run.code == 10


def test_an_optional_check_stays_visible_and_still_fails_when_it_fails(suite, tmp_path):
    box = plain_box().drop("/sys/class/dmi")
    optional = '\n[checks.optional]\n"machine.identity.product" = "no DMI on this board"\n'
    run = suite.run(
        tmp_path / "a", root=box.write(tmp_path / "a" / "t"), profile=DECLARED + optional
    )
    assert run.finding("machine.identity.product")["verdict"] == "unknown"
    assert run.code == 0
    assert "machine.identity.product" in run.out
    wrong = plain_box().put("/sys/class/dmi/id/product_name", "another\n")
    run = suite.run(
        tmp_path / "b", root=wrong.write(tmp_path / "b" / "t"), profile=DECLARED + optional
    )
    assert run.finding("machine.identity.product")["verdict"] == "fail"
    assert run.code == 1


@pytest.mark.parametrize("reason", ['""', '"  "', "true"])
def test_an_optional_check_without_a_reason_is_refused(suite, tmp_path, reason):
    run = suite.run(tmp_path, profile=f'[checks.optional]\n"{CLOCK}" = {reason}\n')
    assert run.code == 4
    assert CLOCK in run.out


def test_a_waiver_never_makes_a_pass_and_ends_on_its_day(suite, tmp_path):
    fault = '[hardware]\narchitecture = "sparc"\n'
    waiver = (
        '[[waiver]]\ncheck = "machine.identity.architecture"\nreason = "known"\n'
        'ticket = "T-1"\nuntil = {}\n'
    )
    held = suite.run(tmp_path / "a", profile=fault + waiver.format("9999-01-01"))
    assert held.finding("machine.identity.architecture")["verdict"] == "fail"
    assert held.ledger["counts"]["waived"] == 1
    assert "machine.identity.architecture" in held.out
    assert "T-1" in held.out
    ended = suite.run(tmp_path / "b", profile=fault + waiver.format("2020-01-01"))
    assert ended.code == 1
    needless = suite.run(tmp_path / "c", profile=waiver.format("9999-01-01"))
    assert needless.code == 1
    assert "waiver-not-needed" in json.dumps(needless.ledger)


# Nothing measured is not 0


def test_a_run_in_which_nothing_applies_is_incomplete(suite, tmp_path):
    run = suite.run(tmp_path, "-k", "declared_product")
    assert set(run.verdicts.values()) <= {"not-applicable", "not-run"}
    assert run.code == 10


def test_a_run_that_collects_nothing_is_not_green(suite, tmp_path):
    run = suite.run(tmp_path, "-k", "no_test_has_this_name")
    assert run.code == 5
    assert not run.ledger or not run.with_verdict("pass")


def test_no_subject_at_all_is_not_green(suite, tmp_path):
    """An empty set of parameters is one skip and exit code 0 in pytest itself."""
    run = broken(suite, tmp_path, "no cases")
    assert set(run.verdicts.values()) == {"not-applicable"}
    assert run.code == 10


def test_a_check_for_which_no_test_exists_is_noticed(suite, tmp_path):
    run = broken(suite, tmp_path, "check without a test")
    found = run.finding("machine.clock.untested")
    assert found["verdict"] == "not-run"
    assert run.code == 10


def test_every_check_has_a_test_of_its_own():
    text = "".join(path.read_text() for path in (HERE / "preflight").glob("test_*.py"))
    named = re.findall(r'@pytest\.mark\.check\("([^"]+)"\)', text)
    assert sorted(named) == sorted(REGISTRY.checks)


def test_a_pass_on_an_assumption_alone_is_counted_apart(suite, tmp_path):
    profile = '[hardware]\narchitecture = "x86_64"\nassumed = ["architecture"]\n'
    run = suite.run(tmp_path, root=plain_box().write(tmp_path / "tree"), profile=profile)
    found = run.finding("machine.identity.architecture")
    assert (found["verdict"], found["basis"], found["confirmed"]) == ("pass", "assumed", False)
    assert run.ledger["counts"]["unconfirmed"] == 1


# Broken checkers are visible


@pytest.mark.parametrize("way", ["judge raises on the real thing", "judge observes NaN"])
def test_a_judge_that_breaks_is_unknown(suite, tmp_path, way):
    run = broken(suite, tmp_path, way)
    found = run.finding(CLOCK)
    assert (found["verdict"], found["reason"]) == ("unknown", "lost")
    assert run.code == 10


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("probe hangs", "no answer within 0.5 s"),
        ("probe raises", "RuntimeError: a bug in the probe"),
        ("probe dies", "was ended by SIGKILL"),
        ("probe gives nothing", "NoneType"),
    ],
)
def test_a_probe_that_breaks_is_unknown_and_named_and_the_others_go_on(suite, tmp_path, way, says):
    run = broken(suite, tmp_path, way, profile=DECLARED)
    for name in ("machine.memory.total", "machine.memory.available"):
        found = run.finding(name)
        assert found["verdict"] == "unknown"
        assert says in found["says"]
        assert "machine.memory" in found["says"]
    assert run.finding(CLOCK)["verdict"] == "pass"
    assert run.code in (1, 10)


# Names and keys that are misspelt


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('[checks.optional]\n"machine.clok.past" = "x"\n', "machine.clok.past", CLOCK),
        (
            '[[waiver]]\ncheck = "machine.cpu.treads"\nreason = "x"\nticket = "x"\nuntil = 2030-01-01\n',
            "machine.cpu.treads",
            "machine.cpu.threads",
        ),
        ("[hardwear]\n", "hardwear", "hardware"),
        ("[hardware]\nmemory_total_byte = 1\n", "memory_total_byte", "memory_total_bytes"),
        ('[[serve]]\nname = "a"\ncomand = "x"\n', "comand", "command"),
    ],
)
def test_a_misspelt_name_is_an_error_with_the_right_one(suite, tmp_path, text, key, hint):
    run = suite.run(tmp_path, profile=text)
    assert run.code == 4
    assert key in run.out
    assert hint in run.out.replace(key, "", 1)


def test_a_label_of_any_shape_is_kept_and_the_file_name_stays_safe(suite, tmp_path):
    run = suite.run(tmp_path, "--label", "host:port/../x y", "--ticket", "A:1")
    assert run.ledger["run"]["label"] == "host:port/../x y"
    assert run.ledger_path is not None
    assert re.fullmatch(r"[A-Za-z0-9._-]+", run.ledger_path.name)
    assert run.ledger_path.parent == tmp_path / "ledgers" / "planted"


def test_a_run_changes_nothing_of_what_is_expected(suite, tmp_path):
    def digest() -> str:
        whole = hashlib.sha256()
        for folder in (tmp_path / "expected", HERE / "expected"):
            for path in sorted(folder.rglob("*")):
                whole.update(str(path).encode())
                whole.update(path.read_bytes() if path.is_file() else b"")
        return whole.hexdigest()

    suite.run(tmp_path)
    before = digest()
    suite.run(tmp_path)
    assert digest() == before


# Order and sum of verdicts


def test_unknown_is_always_worse_than_pass_and_only_pass_counts_as_pass():
    order = sorted(Verdict, key=lambda verdict: -LOOKS[verdict].severity)
    assert order[:3] == [Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_RUN]
    assert LOOKS[Verdict.UNKNOWN].severity > LOOKS[Verdict.PASS].severity
    for verdict in (Verdict.UNKNOWN, Verdict.NOT_RUN):
        assert LOOKS[verdict].exit_effect is ExitEffect.INCOMPLETE
    assert [v for v in Verdict if LOOKS[v].pytest == "passed"] == [Verdict.PASS]
    assert [code for code in EXIT_CODES.values() if code == 0] == [EXIT_CODES[RunVerdict.PASS]]


PLANTED = Finding(
    check=CLOCK,
    subject="box",
    verdict=Verdict.PASS,
    says="",
    cause="",
    cause_text="",
    reason=None,
    blocked_by="",
    observed={},
    expected={},
    basis=Basis.INVARIANT,
    source="",
    confirmed=True,
    remedy="",
    notes=(),
    evidence=(),
    premise=(),
)


def test_the_sum_of_a_run_is_its_worst_finding():
    import datetime

    day = datetime.date(2026, 1, 1)
    for verdicts in itertools.product(Verdict, repeat=3):
        rows = [
            dataclasses.replace(
                PLANTED, subject=str(n), verdict=verdict, confirmed=verdict is Verdict.PASS
            )
            for n, verdict in enumerate(verdicts)
        ]
        said = outcome(rows, waivers=(), optional={}, today=day, interrupted=False, scope="all")
        if Verdict.FAIL in verdicts:
            assert said.exit_code == 1
        elif {Verdict.UNKNOWN, Verdict.NOT_RUN} & set(verdicts) or Verdict.PASS not in verdicts:
            assert said.exit_code == 10
        else:
            assert said.exit_code == 0


@pytest.mark.parametrize("make", [plain_box, cloud_vm, h100_box, amd_box])
def test_the_word_in_the_report_the_ledger_and_the_exit_code_agree(suite, tmp_path, make):
    for number, (profile, word, code) in enumerate(
        (
            ("", "PASS", 0),
            ('[hardware]\narchitecture = "sparc"\n', "FAIL", 1),
            ('[[serve]]\nname = "x"\nwhere = "pid:999"\n', "INCOMPLETE", 10),
        )
    ):
        folder = tmp_path / str(number)
        run = suite.run(folder, root=make().write(folder / "tree"), profile=profile)
        assert run.code == code == run.ledger["run"]["exit_code"]
        assert run.ledger["run"]["verdict"] == word.lower()
        assert word in run.out
        assert run.ledger_path is not None
        assert run.ledger_path.stem.endswith(word.lower())


# 13. A new part does not keep the old verdict


def swapped(suite, folder: Path, change) -> tuple[int, str]:
    paths = []
    for name in ("before", "after"):
        box = h100_box()
        box.put("/sys/firmware/dmi/entries/17-0/raw", smbios("SERIAL-A"))
        box.put("/sys/devices/system/memory/block_size_bytes", "8000000000\n")
        box.put("/sys/devices/system/memory/memory0/state", "online\n")
        if name == "after":
            change(box)
        tree = box.write(folder / name / "tree")
        run = suite.run(folder / name, root=tree, profile=DECLARED)
        assert run.code == 0, run.out
        paths.append(run.ledger_path)
    done = subprocess.run(
        [sys.executable, "-m", "checks.cli", "diff", *map(str, paths)],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def smbios(serial: str) -> bytes:
    """A memory device of SMBIOS: the serial number is its first text."""
    head = bytearray(0x28)
    head[0], head[1], head[0x18] = 17, 0x28, 1
    return bytes(head) + serial.encode() + b"\0\0"


def test_a_replaced_part_strikes_out_the_verdicts_that_rested_on_it(suite, tmp_path):
    code, out = swapped(
        suite,
        tmp_path,
        lambda box: box.put("/sys/firmware/dmi/entries/17-0/raw", smbios("SERIAL-B")),
    )
    assert code == 1
    struck = {line for line in out.splitlines() if line.startswith("struck out")}
    assert len(struck) == 1
    assert "machine.memory.total [box]" in struck.pop()
    assert re.search(r"memory: kind same, identity changed", out)


def test_a_replaced_disk_and_board_strike_out_theirs_alone(suite, tmp_path):
    def change(box) -> None:
        box.put(f"{NVME}/nvme0n1/wwid", "eui.another\n")
        box.put("/sys/class/dmi/id/board_serial", "another\n")

    code, out = swapped(suite, tmp_path, change)
    assert code == 1
    struck = [line for line in out.splitlines() if line.startswith("struck out")]
    names = {line.split()[2] for line in struck}
    assert {"machine.disk.free", "machine.identity.product"} <= names
    assert not {"machine.memory.total", "machine.clock.past"} & names


def test_a_new_gpu_in_the_same_slot_is_another_gpu(suite, tmp_path):
    def change(box) -> None:
        path = "/proc/driver/nvidia/gpus/0000:18:00.0/information"
        text = str(box.files[path])
        box.put(path, text.replace("8000-000000000000", "8000-00000000ffff"))

    code, out = swapped(suite, tmp_path, change)
    assert code == 1
    assert re.search(r"gpu\[0000:18:00\.0\]: kind same, identity changed", out)
    assert out.count("gpu[") == 1


def test_what_one_of_two_runs_could_not_read_is_not_a_change(suite, tmp_path):
    code, out = swapped(suite, tmp_path, lambda box: box.drop("/sys/class/dmi/id/board_serial"))
    assert "struck out" not in out
    assert code == 0, out


# A box of any size gets a verdict


@pytest.mark.parametrize(
    ("make", "gpus"), [(plain_box, 0), (cloud_vm, 1), (amd_box, 4), (h100_box, 8)]
)
def test_a_box_with_any_number_of_gpus_gets_a_verdict(suite, tmp_path, make, gpus):
    run = suite.run(tmp_path, root=make().write(tmp_path / "tree"))
    assert run.code == 0
    assert len([slot for slot in run.ledger["fingerprint"] if slot.startswith("gpu[")]) == gpus


# The table beside this file


def test_every_test_that_the_table_names_exists():
    table = (Path(__file__).parent / "README.md").read_text("utf-8")
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", table))
    source = "".join(path.read_text("utf-8") for path in (HERE / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in source} == set()
    for path in re.findall(r"`(tests/[a-z_/]+\.py)`", table):
        assert (HERE / path).is_file(), path
    rows = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 25))
