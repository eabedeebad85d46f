"""The report on a terminal, as it stands in `golden/<case>.<exit code>.txt`."""

import dataclasses
import re
from pathlib import Path

import pytest

from checks.core.codec import encode
from checks.core.expectation import Basis
from checks.core.finding import Finding
from checks.core.fingerprint import Change, Part, PartChange
from checks.core.registry import load_areas
from checks.core.verdict import Reason, Verdict
from checks.ledger.diff import Difference, FindingChange, Move
from checks.ledger.document import Ending, Ledger, assemble
from checks.ledger.schema import problems
from checks.ledger.store import empty_begin
from checks.ledger.swap import since
from checks.report.terminal import Style, render
from checks.report.text import ascii_only, visible, wants_ascii
from tests.support.runs import LEDGER_1, clean_environment, cli, pytest_run

GOLDEN = Path(__file__).parent / "golden"
PATH = "/var/lib/preflight/h100-1/20260131T120000Z-h100-1-8gpu-h100-80gb-hbm3-x.json"
STARTED_S = 1_769_860_800.0


def finding(check, verdict, subject="box", **more):
    passed = verdict is Verdict.PASS
    plain = {
        "check": check,
        "subject": subject,
        "verdict": verdict,
        "says": "as it should be",
        "cause": "",
        "cause_text": "",
        "reason": None,
        "blocked_by": "",
        "observed": {},
        "expected": {},
        "basis": Basis.INVARIANT if passed else None,
        "source": "a rule" if passed else "",
        "confirmed": passed,
        "remedy": "",
        "notes": (),
        "evidence": (),
        "premise": (),
    }
    return Finding(**{**plain, **more})


GOOD = finding("machine.clock.past", Verdict.PASS)
ALSO_GOOD = finding("machine.disk.free", Verdict.PASS, "model-cache")
AWAY = finding("machine.memory.available", Verdict.NOT_APPLICABLE, says="not declared")
BAD = finding(
    "machine.memory.total",
    Verdict.FAIL,
    says="1.8 TiB of memory, 2.0 TiB wanted",
    cause="too-little",
    cause_text="memory is missing: a module that is dead, unseated, or left out",
    remedy="find the missing module (`dmidecode -t memory` as root), reseat or replace it, and rerun",
    notes=("a module of 64 GiB would make up the difference",),
    basis=Basis.DECLARED,
    source="h100-1.toml: hardware.memory_total_bytes",
)
BLIND = finding(
    "machine.cpu.threads",
    Verdict.UNKNOWN,
    "chat",
    says="machine.cpu could not see: absent: no process for unit:chat.service",
    reason=Reason.NOT_OBSERVABLE,
    remedy="start it, or correct `where` in the profile; then rerun",
)
CLOCK = finding(
    "machine.clock.past",
    Verdict.FAIL,
    says="the clock says 2019-01-01, and the kernel was built on 2025-11-02",
    cause="before-kernel",
    cause_text="the clock is in the past",
    remedy="set the clock (`chronyc makestep`), and rerun",
    basis=Basis.INVARIANT,
    source="a kernel is older than the moment at which it runs",
)


def explained(check, subject):
    return finding(
        check,
        Verdict.UNKNOWN,
        subject,
        says="explained by machine.clock.past [box]: the clock says 2019-01-01",
        reason=Reason.BLOCKED_BY,
        blocked_by="machine.clock.past",
        remedy="mend machine.clock.past [box] first, then rerun",
    )


LONG = "x-long-name-of-a-model-that-somebody-gave-without-a-thought-for-terminals-" * 2


def make(
    *findings,
    waivers=(),
    trials=(),
    optional=None,
    interrupted="",
    planned=(),
    not_run=(),
    notices=(),
    **run,
):
    """Make a ledger of findings, as a run makes it of its journal."""
    begin = empty_begin(host="h100-1", run_id="0123456789abcdef", started_s=STARTED_S)
    begin["run"].update(run)
    begin["notices"] = list(notices)
    begin["planned"] = [list(key) for key in (*(f.key for f in findings), *planned, *dict(not_run))]
    content = begin["profile"]["content"]
    content["waiver"] = list(waivers)
    content["observe_only"] = list(trials)
    content["checks"]["optional"] = optional or {}
    events = [
        {"event": "found", "finding": row.to_json(), "elapsed_s": 0.1, "at_s": 1.0}
        for row in findings
    ]
    events += [
        {"event": "not-run", "check": check, "subject": subject, "why": why, "at_s": 1.0}
        for (check, subject), why in dict(not_run).items()
    ]
    if interrupted:
        events.append({"event": "open", "probe": "machine.memory", "subjects": ["box"], "at_s": 1})
    ending = Ending(
        end="interrupted" if interrupted else "complete",
        by=interrupted,
        elapsed_s=2.25,
        ended_utc="2026-01-31T12:00:02.250Z",
    )
    row = dict(assemble(load_areas(), begin, events, ending))
    assert problems(row, "made") == []
    return Ledger(file=PATH, sha256="", row=row)


WAIVER = {
    "check": "machine.memory.total",
    "subject": None,
    "reason": "a module is on order",
    "ticket": "INFRA-1234",
    "until": "2026-12-31",
}


def card(uuid: str) -> Part:
    return Part(kind={"model": "NVIDIA H100 80GB HBM3"}, identity={"uuid": uuid}, unread=())


CHANGES = Difference(
    parts=(
        PartChange(
            slot="gpu[3]",
            kind=Change.SAME,
            identity=Change.CHANGED,
            before=card("GPU-1"),
            after=card("GPU-9"),
        ),
        PartChange(
            slot="board",
            kind=Change.SAME,
            identity=Change.NOT_COMPARABLE,
            before=None,
            after=None,
        ),
    ),
    findings=(
        FindingChange(
            check="machine.memory.total",
            subject="box",
            move=Move.WORSE,
            before="pass",
            after="fail: too-little",
        ),
        FindingChange(
            check="gpu.memory.ecc",
            subject="gpu[3]",
            move=Move.STRUCK_OUT,
            before="pass",
            after="pass",
        ),
    ),
)


def swapped() -> Ledger:
    """One card of two left, with a fail on it; a board's fail counts again; an older one stays out."""
    made = make(GOOD, dataclasses.replace(GOOD, check="gpu.memory.ecc", subject="gpu[3]"))
    before = {"gpu[2]": card("GPU-2"), "gpu[3]": card("GPU-1"), "board": card("CN1")}
    after = {**before, "gpu[3]": card("GPU-9")}
    faulty = dataclasses.replace(
        BAD, check="gpu.memory.ecc", subject="gpu[3]", cause="page-pending", premise=("gpu[3]",)
    )
    rests = {"gpu.pcie.width": ("gpu",), "machine.clock.past": ()}
    good = [dataclasses.replace(GOOD, check=name, premise=p) for name, p in rests.items()]
    early = {
        name: since(
            file="20260101T120000Z-h100-1-fail.json",
            digest=made.row["digest"],
            ended_utc="2026-01-01T12:00:00.000Z",
            findings=[dataclasses.replace(BAD, premise=(name,))],
            before={name: part},
            after={name: card("other")},
            carried=(),
            now_utc="2026-01-15T12:00:00.000Z",
        ).struck_out
        for name, part in (("board", card("CN1")), ("gpu[7]", card("GPU-7")))
    }
    changed = since(
        file=Path(BEFORE).name,
        digest=made.row["digest"],
        ended_utc="2026-01-30T12:00:00.000Z",
        findings=[faulty, *good],
        before=before,
        after=after,
        carried=[*early["board"], *early["gpu[7]"]],
        now_utc=made.run["started_utc"],
    )
    parts = {slot: encode(part) for slot, part in after.items()}
    row = {**made.row, "fingerprint": parts, "since": encode(changed)}
    assert problems(row, "swapped") == []
    return Ledger(file=PATH, sha256="", row=row)


NOTHING = Difference(parts=(), findings=())
GAPS = Difference(parts=(), findings=(), open_after=(BAD, ALSO_GOOD))
BEFORE = "/var/lib/preflight/h100-1/20260130T120000Z-h100-1-8gpu-h100-80gb-hbm3-pass.json"

WIDE, NARROW = Style(width=80), Style(width=60)
CASES = {
    "pass": (make(GOOD, ALSO_GOOD, AWAY), WIDE, (BEFORE, NOTHING)),
    "fail": (make(GOOD, BAD, BLIND), WIDE, (BEFORE, CHANGES)),
    "fail-60": (make(GOOD, BAD, BLIND), NARROW, (BEFORE, CHANGES)),
    "fail-ascii": (make(GOOD, BAD, BLIND), Style(width=80, unicode=False), (BEFORE, CHANGES)),
    "fail-colour": (make(GOOD, BAD, BLIND), Style(width=80, colour=True), None),
    "unknown": (make(GOOD, BLIND), WIDE, None),
    "blocked": (
        make(
            CLOCK,
            explained("network.tls.verify", "huggingface.co"),
            explained("network.tls.verify", "cdn-lfs.huggingface.co"),
            explained("machine.clock.jump", "box"),
        ),
        WIDE,
        None,
    ),
    "swap": (swapped(), WIDE, (BEFORE, NOTHING)),
    "waived": (make(GOOD, BAD, waivers=[WAIVER]), WIDE, None),
    "observed": (
        make(GOOD, BAD, trials=[{"check": BAD.check, "until": "2026-12-31"}]),
        WIDE,
        None,
    ),
    "waiver-expired": (make(GOOD, BAD, waivers=[{**WAIVER, "until": "2026-01-30"}]), WIDE, None),
    "interrupted": (
        make(
            GOOD,
            interrupted="SIGTERM",
            planned=[("machine.memory.total", "box"), ("machine.disk.free", "tmp")],
        ),
        WIDE,
        None,
    ),
    "nothing-confirmed": (
        make(AWAY, dataclasses.replace(GOOD, basis=Basis.ASSUMED, confirmed=False)),
        WIDE,
        None,
    ),
    "not-declared": (
        make(
            GOOD,
            dataclasses.replace(ALSO_GOOD, subject="tmp", basis=Basis.ASSUMED, confirmed=False),
            *(
                finding(f"machine.{name}", Verdict.NOT_APPLICABLE, says=f"not declared: {name}")
                for name in ("identity.product", "identity.container", "cpu.threads")
            ),
            finding(
                "machine.disk.free",
                Verdict.NOT_APPLICABLE,
                "model-cache",
                says="the profile declares no subject for it",
            ),
            finding("machine.clock.jump", Verdict.NOT_APPLICABLE, says="this kernel has no clock"),
        ),
        Style(width=40),
        None,
    ),
    "not-run": (
        make(
            GOOD,
            not_run=[
                (("machine.disk.free", "tmp"), "deselected on the command line"),
                (("machine.disk.free", "ledgers"), "deselected on the command line"),
            ],
        ),
        WIDE,
        None,
    ),
    "optional": (make(GOOD, BLIND, optional={"machine.cpu.threads": "not ours"}), WIDE, None),
    "no-controls": (make(GOOD, controls=False), WIDE, None),
    "only": (make(GOOD, scope="machine", notices=["an earlier run was interrupted"]), WIDE, None),
    "replay": (make(GOOD, kind="replay"), WIDE, None),
    "long-names": (
        make(
            dataclasses.replace(BAD, subject=LONG, says=LONG, source=LONG),
            dataclasses.replace(BLIND, subject=LONG),
            dataclasses.replace(explained("machine.clock.jump", LONG), blocked_by=f"m.{LONG}"),
            not_run=[(("machine.disk.free", LONG), "deselected")],
        ),
        WIDE,
        None,
    ),
}


def plain(text):
    """Give a report as one line, so that words are found however they were wrapped."""
    return " ".join(text.split())


def shown(name):
    ledger, style, compared = CASES[name]
    return render(ledger, style, path=PATH, compared=compared)


@pytest.mark.parametrize("name", CASES)
def test_the_report_is_the_golden_one(name, write_goldens):
    ledger = CASES[name][0]
    path = GOLDEN / f"{name}.{ledger.run['exit_code']}.txt"
    if write_goldens:
        path.write_text(shown(name), "utf-8")
    assert shown(name) == path.read_text("utf-8")


def test_there_is_no_golden_report_without_its_case():
    wanted = {f"{name}.{case[0].run['exit_code']}.txt" for name, case in CASES.items()}
    assert {path.name for path in GOLDEN.iterdir()} == wanted


@pytest.mark.parametrize("name", CASES)
def test_no_line_is_longer_than_the_terminal_but_the_path_that_gets_copied(name):
    width = CASES[name][1].width
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(name))
    for line in text.splitlines():
        assert len(line) <= width or line == f"  ledger {PATH}", line
        assert line == line.rstrip(), f"spaces at the end: {line!r}"


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_comes_first_and_the_path_last(name):
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(name))
    verdict = CASES[name][0].run["verdict"].upper()
    assert text.startswith(f"{verdict}  h100-1")
    assert text.splitlines()[-1] == f"  ledger {PATH}"
    assert f"exit code {CASES[name][0].run['exit_code']}" in text


def test_what_was_not_judged_now_is_not_said_to_be_unchanged():
    shown_gaps = CASES["interrupted"][0]
    text = plain(render(shown_gaps, WIDE, path=PATH, compared=(BEFORE, GAPS)))
    assert (
        "2 checks were not judged now (1 of them failed then: machine.memory.total [box])" in text
    )
    assert "of the rest, nothing changed" in text
    assert "nothing changed since" not in text
    both = dataclasses.replace(CHANGES, open_after=GAPS.open_after)
    text = plain(render(shown_gaps, WIDE, path=PATH, compared=(BEFORE, both)))
    assert "of the rest, these changes: worse: machine.memory.total" in text


def test_what_moved_in_the_same_way_is_one_entry():
    gone = [row for row in CHANGES.findings if row.move is Move.WORSE]
    alike = tuple(dataclasses.replace(gone[0], subject=name) for name in ("a", "b"))
    other = dataclasses.replace(gone[0], subject="c", after="unknown: not-observable")
    changed = dataclasses.replace(CHANGES, findings=(*alike, other))
    text = plain(render(CASES["fail"][0], WIDE, path=PATH, compared=(BEFORE, changed)))
    name = "machine.memory.total"
    assert f"worse: {name} [a], {name} [b]: pass → fail: too-little" in text
    assert f"worse: {name} [c]: pass → unknown: not-observable" in text


def test_where_a_verdict_was_struck_out_no_other_one_changed():
    row = FindingChange(
        check="gpu.memory.ecc",
        subject="gpu[3]",
        move=Move.STRUCK_OUT,
        before="fail: page-pending",
        after="pass",
    )
    changed = dataclasses.replace(CHANGES, findings=(row,))
    text = plain(render(swapped(), WIDE, path=PATH, compared=(BEFORE, changed)))
    assert "since no other verdict changed since 2026" in text
    changed = dataclasses.replace(CHANGES, findings=())
    text = plain(render(CASES["fail"][0], WIDE, path=PATH, compared=(BEFORE, changed)))
    assert "since no verdict changed since 2026" in text


def test_a_pass_says_what_nothing_was_compared_with():
    text = plain(shown("not-declared"))
    assert (
        "n/a 4 have nothing to compare with until a profile declares it: "
        "cpu.threads, disk.free [model-cache], identity ×2 "
        "n/a 1 does not apply here: this kernel has no clock (clock.jump)"
    ) in text


def test_head_and_areas_count_with_the_same_words():
    text = plain(shown("not-declared"))
    assert "1 passed · 1 passed unconfirmed · 5 not applicable" in text
    assert "machine 1 passed, 1 passed unconfirmed, 5 not applicable" in text
    text = plain(shown("waived"))
    assert "1 passed · 1 waiver in use" in text
    assert "profile 1 waiver in use" in text
    assert "not applicable" not in text


def test_what_is_wrapped_hangs_under_its_own_first_line():
    lines = shown("not-declared").splitlines()
    assert lines[1].startswith("  ")
    (area,) = (n for n, line in enumerate(lines) if line.startswith("machine"))
    assert lines[area + 1].startswith(" " * 12)


def test_an_ascii_terminal_gets_ascii():
    assert shown("fail-ascii").isascii()
    assert not shown("fail").isascii()


def test_without_colour_nothing_is_sent_that_is_no_text():
    for name in set(CASES) - {"fail-colour"}:
        assert "\x1b" not in shown(name)
    assert "\x1b[" in shown("fail-colour")


@pytest.mark.parametrize("field", ["says", "cause_text", "remedy", "source", "subject"])
def test_control_characters_of_the_box_are_shown_and_never_sent(field):
    evil = "a\x1b]0;owned\x07b\x1b[2Jc\rd\x9be\u202ef\x00g"
    text = render(make(dataclasses.replace(BAD, **{field: evil})), WIDE, path=f"/x/{evil}")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert r"\x1b]0;owned\x07b" in text.replace("\n", "")


def test_a_finding_cannot_pass_itself_off_as_the_verdict():
    evil = "fine\nPASS  h100-1  all is well\n  ledger /tmp/fake"
    text = render(make(dataclasses.replace(BAD, says=evil)), WIDE, path=PATH)
    assert [line for line in text.splitlines() if line.startswith("PASS")] == []
    assert text.splitlines().count(f"  ledger {PATH}") == 1
    assert not [line for line in text.splitlines() if line.startswith("  ledger /tmp")]


@pytest.mark.parametrize("width", [1, 10, 30, 60, 200, 1000])
def test_any_width_will_do(width):
    text = render(CASES["fail"][0], Style(width=width), path=PATH)
    assert text.startswith("FAIL")


def test_visible_text_is_as_it_was():
    text = "é ü 漢字 → … · \t\n ~"
    assert visible(text) == text
    assert visible("\x1b[31m") == r"\x1b[31m"


def test_ascii_text_keeps_its_meaning():
    assert ascii_only("é → x … 3 × 4 ≥ 5 · –") == "e -> x ... 3 x 4 >= 5 - -"
    assert ascii_only("漢") == r"\u6f22"


@pytest.mark.parametrize(
    ("environ", "encoding", "wanted"),
    [
        ({}, "utf-8", False),
        ({}, "UTF8", False),
        ({}, None, True),
        ({}, "iso8859-1", True),
        ({"LC_ALL": "en_US.UTF-8"}, "ascii", True),
        ({"LC_ALL": "C"}, "utf-8", True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, "utf-8", False),
        ({"LC_ALL": "", "LC_CTYPE": "C", "LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, "utf-8", False),
        ({"LANG": "C"}, "utf-8", True),
        ({"LANG": "de_DE.UTF-8"}, "utf-8", False),
        # what Python has made of LANG=C before anybody could look
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, "utf-8", True),
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", False),
    ],
)
def test_ascii_is_what_the_stream_or_the_locale_wants(environ, encoding, wanted):
    assert wants_ascii(environ, encoding) is wanted


def test_in_the_c_locale_only_ascii_comes_out(tmp_path):
    (path,) = LEDGER_1.glob("2*.json")
    c, utf8 = clean_environment(LC_ALL="C"), clean_environment(LC_ALL="C.UTF-8")
    assert not cli("show", path, env=utf8).out.isascii()
    assert cli("show", path, env=c).out.isascii()
    words = ("--host", "local", "--ledger-dir", tmp_path)
    assert not pytest_run(*words, env=utf8).out.isascii()
    assert pytest_run(*words, env=c).out.isascii()
