"""The report on a terminal: the verdict first, then what to do, in 80 columns. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TextIO

from rich.console import Console
from rich.text import Text

from checks.core.finding import Finding
from checks.core.fingerprint import Change
from checks.core.moment import minute, utc_text
from checks.core.outcome import WAIVER_CHECK
from checks.core.scope import area_of
from checks.core.verdict import LOOKS, Excuse, ExitEffect, Reason, RunVerdict, Verdict
from checks.ledger.diff import Difference, Move
from checks.ledger.document import Ledger
from checks.ledger.swap import Struck, closing
from checks.report.text import ascii_only, visible

_COLOURS = {
    RunVerdict.PASS: "green",
    RunVerdict.FAIL: "red",
    RunVerdict.INCOMPLETE: "yellow",
    RunVerdict.INTERRUPTED: "yellow",
}
_EXCUSED = {
    Excuse.WAIVER: "WAIVED FAIL",
    Excuse.OBSERVE_ONLY: "OBSERVED FAIL",
    Excuse.SCOPE: "FAIL outside the scope",
    Excuse.OPTIONAL: "FAIL of an optional check",
}
_NOT_DECLARED = ("not declared", "the profile declares no")
"""How the fact begins where the profile could have given something to compare with."""
_IN_USE, _IN_USE_MANY = "waiver in use", "waivers in use"
_NONE: Mapping[str, str] = {}
_INDENT = 2
_AREA_WIDTH = 12
_KEY_WIDTH = 7


@dataclass(frozen=True, kw_only=True)
class Style:
    """What the terminal can show."""

    width: int = 80
    colour: bool = False
    unicode: bool = True


def render(
    ledger: Ledger,
    style: Style,
    *,
    path: str = "",
    compared: tuple[str, Difference] | None = None,
) -> str:
    """Render the report of one ledger.

    Args:
        ledger: what to report.
        style: what the terminal can show.
        path: where the ledger lies.
        compared: the earlier ledger's file and what changed since.

    """
    out = io.StringIO()
    console = console_of(out, style, least_width=30)
    _head(console, ledger)
    findings = ledger.findings
    fails = [row for row in findings if row.verdict is Verdict.FAIL]
    _rows(console, [row for row in fails if row.excused is None], "FAIL")
    trials = {
        entry.check: f"does not count until {entry.until} (observe_only of the profile)"
        for entry in ledger.profile.observe_only
    }
    for excuse, label in _EXCUSED.items():
        rows = [row for row in fails if row.excused is excuse]
        _rows(console, rows, label, trials if excuse is Excuse.OBSERVE_ONLY else _NONE)
    _unknowns(console, findings)
    _areas(console, findings)
    _notes(console, findings)
    _swap(console, ledger)
    _changes(console, compared, struck=ledger.since is not None)
    _foot(console, ledger, path)
    text = out.getvalue()
    return text if style.unicode else "\n".join(ascii_only(line) for line in text.split("\n"))


def _head(console: Console, ledger: Ledger) -> None:
    run, counts = ledger.run, ledger.row["counts"]
    verdict = RunVerdict(run["verdict"])
    scope = "" if run["scope"] == "all" else f" (only {run['scope']})"
    kind = "" if run["kind"] == "run" else f", {run['kind']}"
    line = Text()
    line.append(verdict.value.upper(), style=f"bold {_COLOURS[verdict]}")
    line.append(visible(f"  {ledger.row['host']}{scope}{kind}"), style="bold")
    line.append(f"  {run['started_utc'][:19].replace('T', ' ')}Z, {run['elapsed_s']:.1f} s")
    line.append(f", exit code {run['exit_code']}")
    _heading(console, line)
    used = sum(_in_use(row) for row in ledger.findings)
    words = (
        (counts["fail"] - counts["waived"] - counts.get("observed", 0), "failed"),
        (counts["waived"], "waived"),
        (counts.get("observed", 0), "only observed"),
        (counts["unknown"], "unknown"),
        (counts["not-run"], "not run"),
        (counts["confirmed"], "passed"),
        (counts["unconfirmed"], "passed unconfirmed"),
        (counts["not-applicable"] - used, "not applicable"),
        (used, _IN_USE if used == 1 else _IN_USE_MANY),
    )
    shown = [f"{count} {word}" for count, word in words if count]
    _wrapped(console, " · ".join(shown) or "nothing was judged", indent=_INDENT)
    about = (run["ticket"], run["label"], str(ledger.profile.description))
    if any(about):
        _wrapped(console, " · ".join(filter(None, about)), indent=_INDENT)
    if run["kind"] == "replay":
        recorded = utc_text(ledger.row["time"]["started_s"])[:19].replace("T", " ")
        _wrapped(console, f"judged again from what was recorded at {recorded}Z", indent=_INDENT)
    for reason in _why_not_green(ledger, verdict):
        _wrapped(console, reason, indent=_INDENT)
    _numbers(console, ledger)


def _why_not_green(ledger: Ledger, verdict: RunVerdict) -> Iterable[str]:
    """Say in one sentence what keeps a run that failed nothing from passing."""
    if verdict is RunVerdict.INTERRUPTED:
        yield f"interrupted: {ledger.run['interrupted_by']}"
    elif verdict is RunVerdict.INCOMPLETE and (missing := _missing(ledger)):
        plural = "checks are" if missing > 1 else "check is"
        yield f"incomplete: {missing} required {plural} undecided"
    elif verdict is RunVerdict.INCOMPLETE:
        yield "incomplete: nothing was confirmed; declare in the profile what this box should be"
    if not ledger.run["controls"]:
        yield "controls were switched off (--no-controls): nothing shows that the checks can fail"


def _missing(ledger: Ledger) -> int:
    return sum(row["effect"] == ExitEffect.INCOMPLETE.value for row in ledger.row["findings"])


def _numbers(console: Console, ledger: Ledger) -> None:
    for row in ledger.row["controls"]:
        if not row["good"]:
            _wrapped(console, f"control of {row['check']}: {row['detail']}", indent=_INDENT)


def _rows(
    console: Console, rows: list[Finding], label: str, trials: Mapping[str, str] = _NONE
) -> None:
    for row in rows:
        console.print()
        _title(console, label, row, LOOKS[Verdict.FAIL].colour)
        _field(console, "seen", row.says)
        _field(console, "cause", row.cause_text)
        _field(console, "do", row.remedy)
        for note in row.notes:
            _field(console, "note", note)
        _field(console, "against", _against(row))
        _field(console, "trial", trials.get(row.check, ""))


def _against(row: Finding) -> str:
    if row.basis is None:
        return ""
    return f"{row.basis.value}: {row.source}"


def _unknowns(console: Console, findings: list[Finding]) -> None:
    rows = [row for row in findings if row.verdict is Verdict.UNKNOWN]
    blocked = [row for row in rows if row.reason is Reason.BLOCKED_BY]
    waiting = [
        row
        for row in rows
        if row.reason in (Reason.INTERRUPTED, Reason.LOST) and not row.remedy.startswith("report")
    ]
    for row in rows:
        if row in blocked or row in waiting:
            continue
        console.print()
        reason = row.reason.value if row.reason else ""
        _title(console, f"UNKNOWN {reason}", row, LOOKS[Verdict.UNKNOWN].colour)
        _field(console, "seen", row.says)
        _field(console, "do", row.remedy)
        for note in row.notes:
            _field(console, "note", note)
    for name in sorted({row.blocked_by for row in blocked}):
        console.print()
        names = ", ".join(row.name for row in blocked if row.blocked_by == name)
        line = Text("UNKNOWN ", style=LOOKS[Verdict.UNKNOWN].colour)
        line.append(visible(f"explained by {name}: {names}"), style="")
        _heading(console, line)
    if waiting:
        console.print()
        line = Text("UNKNOWN ", style=LOOKS[Verdict.UNKNOWN].colour)
        line.append(visible(f"{len(waiting)} never judged: {', '.join(r.name for r in waiting)}"))
        _heading(console, line)
        _field(console, "seen", waiting[0].says)
        _field(console, "do", waiting[0].remedy)


def _areas(console: Console, findings: list[Finding]) -> None:
    console.print()
    for area in sorted({area_of(row.check) for row in findings}):
        rows = [row for row in findings if area_of(row.check) == area]
        margin = f"{area:<{_AREA_WIDTH - 1}} "
        _wrapped(console, ", ".join(_counts(rows)), indent=len(margin), margin=margin)
    _named(console, "not run", [row for row in findings if row.verdict is Verdict.NOT_RUN])
    passed = [row for row in findings if row.verdict is Verdict.PASS and not row.confirmed]
    if passed:
        names = ", ".join(f"{row.name} ({row.basis.value if row.basis else '-'})" for row in passed)
        _field(console, "assumed", f"passed unconfirmed: {names}")
    _not_applicable(console, findings)
    optional = [row for row in findings if row.excused is Excuse.OPTIONAL]
    if optional:
        names = ", ".join(row.name for row in optional)
        _field(console, "without", f"optional by profile and undecided: {names}")


def _counts(rows: list[Finding]) -> Iterable[str]:
    """Count the findings of an area, with the words of the head."""
    for verdict in sorted(Verdict, key=lambda v: -LOOKS[v].severity):
        those = [row for row in rows if row.verdict is verdict]
        waived = sum(row.excused is Excuse.WAIVER for row in those)
        observed = sum(row.excused is Excuse.OBSERVE_ONLY for row in those)
        used = sum(_in_use(row) for row in those)
        passed = sum(row.confirmed for row in those)
        words: tuple[tuple[int, str], ...] = (
            (len(those) - waived - observed - used, LOOKS[verdict].label),
            (waived, "waived"),
            (observed, "only observed"),
            (used, _IN_USE if used == 1 else _IN_USE_MANY),
        )
        if verdict is Verdict.PASS:
            words = ((passed, "passed"), (len(those) - passed, "passed unconfirmed"))
        yield from (f"{count} {word}" for count, word in words if count)


def _in_use(row: Finding) -> bool:
    """Whether it says that a waiver is needed, which is nothing that does not apply."""
    return row.check == WAIVER_CHECK and row.says.startswith("in use")


def _not_applicable(console: Console, findings: list[Finding]) -> None:
    """Say what nothing was compared with: a pass speaks of the rest alone."""
    rows = [
        row
        for row in findings
        if row.verdict is Verdict.NOT_APPLICABLE and row.check != WAIVER_CHECK
    ]
    loose = [row for row in rows if row.says.startswith(_NOT_DECLARED)]
    if loose:
        has = "has" if len(loose) == 1 else "have"
        text = f"{len(loose)} {has} nothing to compare with until a profile declares it"
        _field(console, "n/a", f"{text}: {', '.join(_folded(loose))}")
    rest = [row for row in rows if row not in loose]
    if rest:
        reasons = (
            f"{says} ({', '.join(_folded([row for row in rest if row.says == says]))})"
            for says in sorted({row.says for row in rest})
        )
        verb = "does" if len(rest) == 1 else "do"
        _field(console, "n/a", f"{len(rest)} {verb} not apply here: {'; '.join(reasons)}")


def _folded(rows: list[Finding]) -> Iterable[str]:
    """Name rows shortly, those of one group as one: `identity ×4, cpu.threads`."""
    one_area = len({area_of(row.check) for row in rows}) == 1
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        name = row.check.partition(".")[2] if one_area else row.check
        group = ".".join(name.split(".")[: 1 if one_area else 2])
        groups.setdefault(group, []).append((name, row.subject))
    for group, members in groups.items():
        name, subject = members[0]
        if len(members) > 1:
            yield f"{group} ×{len(members)}"
        else:
            yield name if subject == "box" else f"{name} [{subject}]"


def _named(console: Console, key: str, rows: list[Finding]) -> None:
    """Name rows, those of one reason together."""
    for says in sorted({row.says for row in rows}):
        names = ", ".join(row.name for row in rows if row.says == says)
        _field(console, key, f"{says}: {names}")


def _notes(console: Console, findings: list[Finding]) -> None:
    for row in findings:
        for note in row.notes if row.verdict is Verdict.PASS else ():
            _field(console, "note", f"{row.name}: {note}")
        if row.verdict is Verdict.NOT_APPLICABLE and row.check == WAIVER_CHECK:
            _field(console, "waiver", f"{row.subject} {row.says}")


def _swap(console: Console, ledger: Ledger) -> None:
    """Say which parts have changed, and what that does to earlier verdicts."""
    since = ledger.since
    if since is None:
        return
    for part in since.parts:
        if not {part.kind, part.identity} <= {Change.SAME, Change.NOT_COMPARABLE}:
            _field(console, "part", part.text)
    now = {finding.key: finding for finding in ledger.findings}
    started_utc = ledger.run["started_utc"]
    for one in since.struck_out:
        if one.struck_utc == started_utc:
            _field(console, "struck", f"{_earlier(one)}: {_rested(one)} has left")
    old = [one for one in since.struck_out if one.struck_utc != started_utc]
    if old:
        names = ", ".join(one.name for one in old if one.verdict is Verdict.FAIL)
        verdicts = "1 earlier verdict" if len(old) == 1 else f"{len(old)} earlier verdicts"
        text = f"about parts that have left, still without effect: {verdicts}"
        _field(console, "struck", f"{text}{f', with fails of {names}' if names else ''}")
    for one in since.returned:
        _field(console, "back", f"{_earlier(one)} counts again: {_rested(one)} is back")
    for one in since.struck_out:
        if one.struck_utc == started_utc and one.verdict is Verdict.FAIL:
            text = closing(one, now.get((one.check, one.subject)), ledger.parts, started_utc)
            _field(console, "ticket", text)


def _earlier(struck: Struck) -> str:
    cause = f": {struck.cause}" if struck.cause else ""
    verdict = f"{struck.verdict.value}{cause}"
    return f"{struck.name} ({verdict}, {minute(struck.ended_utc)})"


def _rested(struck: Struck) -> str:
    return ", ".join(struck.left)


def _changes(console: Console, compared: tuple[str, Difference] | None, *, struck: bool) -> None:
    """Say how findings have moved; without those that have been said to be struck out."""
    if compared is None:
        return
    before, changed = compared
    if struck:
        moved = tuple(row for row in changed.findings if row.move is not Move.STRUCK_OUT)
        changed = replace(changed, findings=moved)
    name = before.rpartition("/")[2]
    if changed.nothing:
        _field(console, "since", f"nothing changed since {name}")
        return
    gaps = "; ".join(changed.gaps)
    if gaps:
        rest = "these changes:" if changed.findings else "nothing changed"
        _field(console, "since", f"compared with {name}: {gaps}; of the rest, {rest}")
    elif not changed.findings:
        other = "other " if struck else ""
        _field(console, "since", f"no {other}verdict changed since {name}")
    else:
        _field(console, "since", f"changes since {name}:")
    alike: dict[tuple[str, str, str], list[str]] = {}
    for row in changed.findings:
        names = alike.setdefault((row.move.value, row.before, row.after), [])
        names.append(f"{row.check} [{row.subject}]")
    for (move, was, now), names in alike.items():
        _wrapped(
            console, f"{move}: {', '.join(names)}: {was} → {now}", indent=_INDENT + _KEY_WIDTH + 1
        )


def _foot(console: Console, ledger: Ledger, path: str) -> None:
    for notice in ledger.row["notices"]:
        _field(console, "notice", notice)
    areas = ", ".join(row["area"] for row in ledger.row["not_covered"])
    _field(console, "blind", f"no check of this version looks at: {areas}")
    # on a line of its own and not wrapped: it gets copied
    console.print(Text.assemble(("  ledger ", "bold"), visible(path)), soft_wrap=True)


def _title(console: Console, label: str, row: Finding, colour: str) -> None:
    line = Text()
    line.append(label, style=f"bold {colour}")
    line.append(visible(f"  {row.name}"), style="bold")
    _heading(console, line)


def _heading(console: Console, line: Text) -> None:
    """Print a line that may be longer than the terminal is wide."""
    for number, part in enumerate(line.wrap(console, console.width - _INDENT)):
        part.rstrip()
        console.print(Text(" " * _INDENT if number else "") + part, soft_wrap=True)


def _field(console: Console, key: str, value: str) -> None:
    if value:
        margin = Text(f"{'':{_INDENT}}{key:<{_KEY_WIDTH}} ", style="bold")
        _wrapped(console, value, indent=_INDENT + _KEY_WIDTH + 1, margin=margin)


def _wrapped(console: Console, value: str, *, indent: int, margin: str | Text = "") -> None:
    """Print a paragraph with a hanging indent, and what stands in the margin of its first line."""
    width = console.width
    text = Text(visible(value))
    lines = text.wrap(console, max(width - indent, 20), tab_size=4)
    for number, line in enumerate(lines):
        line.rstrip()
        before = margin if margin and number == 0 else " " * indent
        console.print(Text.assemble(before, line), soft_wrap=True)


def console_of(out: TextIO, style: Style, *, least_width: int) -> Console:
    """Give what writes for a terminal of this style: no markup, for what is shown comes from outside."""
    return Console(
        file=out,
        width=max(style.width, least_width),
        force_terminal=style.colour,
        no_color=not style.colour,
        color_system="standard" if style.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


__all__ = ["Style", "console_of", "render"]
