"""A ledger from the lines of its journal: the same function at the end of a run and after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from checks.core.codec import MARK, CodecError, Json, decode, encode
from checks.core.coverage import NOT_COVERED
from checks.core.errors import LedgerError, Problem
from checks.core.facts import Blind, Facts, Observation, Unseen
from checks.core.finding import Finding
from checks.core.fingerprint import Part, fingerprint
from checks.core.moment import day_of, utc_text
from checks.core.outcome import Outcome, outcome, waiver_findings
from checks.core.profile import Profile
from checks.core.registry import Registry, facts_name
from checks.core.verdict import Reason, Verdict
from checks.ledger.canonical import ledger_digest
from checks.ledger.swap import Since, Struck, since

SCHEMA = "preflight-ledger/1"

Row = dict[str, Any]
"""A JSON object. Its shape is that of `ledgers/schema/ledger-1.json`, which is checked on reading
and before writing."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended."""

    end: str
    """`complete` or `interrupted`."""
    by: str
    """What interrupted it; empty where nothing did."""
    elapsed_s: float
    """Monotonic seconds since the start."""
    ended_utc: str
    pytest_code: int = 0
    """Exit code of pytest's own, where it comes before ours; else 0."""


OTHER_BASELINE = "the baseline is of another host: "
OTHER_REPLAYED = "judged against what its ledger expected, not a profile; it is of another host: "
"""Notices that end in the name of a box."""


def assemble(
    registry: Registry,
    begin: Row,
    events: Iterable[Row],
    ending: Ending,
    *,
    before: Ledger | None = None,
    carried: Iterable[Struck] = (),
) -> dict[str, Json]:
    """Make the ledger of a run from what its journal holds. Pure.

    Args:
        registry: to read facts by their names.
        begin: the first line: all that was known before the first probe.
        events: the other lines, in order.
        ending: how the run ended.
        before: the ledger to compare with.
        carried: verdicts that earlier runs have struck out.

    """
    rows = list(events)
    observations = [row["observation"] for row in rows if row["event"] == "seen"]
    found = {
        (r["finding"]["check"], r["finding"]["subject"]): r for r in rows if r["event"] == "found"
    }
    closed = {(row["probe"], row["subject"]) for row in observations}
    opened = {(r["probe"], s) for r in rows if r["event"] == "open" for s in r["subjects"]}
    open_probes = sorted(opened - closed)
    findings = [Finding.from_json(row["finding"]) for row in found.values()]
    not_run = {(r["check"], r["subject"]): r["why"] for r in rows if r["event"] == "not-run"}
    answered = {
        # of one check and subject there is one finding, but where subjects are found by looking
        (check, row.get("answers", subject))
        for (check, subject), row in found.items()
    }
    findings += _unfound(registry, begin, not_run, answered, ending, open_probes)
    profile = decode(Profile, begin["profile"]["content"])
    day = day_of(utc_text(begin["time"]["started_s"]))  # of the box's run, also in a replay
    findings += waiver_findings(profile.waiver, findings, day)
    findings.sort(key=lambda finding: finding.key)
    result = outcome(
        findings,
        waivers=profile.waiver,
        optional=profile.checks.optional,
        observe_only=profile.observe_only,
        today=day,
        interrupted=ending.end == "interrupted",
        scope=begin["run"]["scope"],
    )
    seen = [read_observation(registry, row) for row in observations]
    parts = fingerprint(seen)
    ledger: Row = {
        **{key: begin[key] for key in ("host", "versions", "profile", "expectations", "previous")},
        "schema": SCHEMA,
        "run": {**begin["run"], **_run_end(ending, result)},
        "time": begin["time"],
        "fingerprint": {slot: encode(part) for slot, part in parts.items()},
        "observations": sorted(observations, key=lambda row: (row["probe"], row["subject"])),
        "controls": sorted(
            (row["outcome"] for row in rows if row["event"] == "control"),
            key=lambda row: str(row["check"]),
        ),
        "findings": [finding.to_json() for finding in result.findings],
        "durations": sorted(
            (
                {
                    "check": row["finding"]["check"],
                    "subject": row["finding"]["subject"],
                    "elapsed_s": row["elapsed_s"],
                }
                for row in found.values()
            ),
            key=lambda row: (str(row["check"]), str(row["subject"])),
        ),
        "counts": dict(result.counts),
        "open_probes": [list(key) for key in open_probes],
        "not_covered": [{"area": area, "what": what} for area, what in NOT_COVERED],
        "notices": list(begin["notices"]),
    }
    if begin.get("replay_of"):
        ledger["replay_of"] = begin["replay_of"]
    if before is not None:
        changed = since(
            file=PurePosixPath(before.file).name,
            digest=str(before.row["digest"]),
            ended_utc=str(before.run["ended_utc"]),
            findings=before.findings,
            before=before.parts,
            after=parts,
            carried=carried,
            now_utc=str(begin["run"]["started_utc"]),
        )
        ledger["since"] = encode(changed)
    ledger["digest"] = ledger_digest(ledger)
    return ledger


def _run_end(ending: Ending, result: Outcome) -> Row:
    return {
        "ended_utc": ending.ended_utc,
        "elapsed_s": round(ending.elapsed_s, 6),
        "end": ending.end,
        "interrupted_by": ending.by,
        "verdict": result.verdict.value,
        "exit_code": ending.pytest_code or result.exit_code,
    }


def _unfound(
    registry: Registry,
    begin: Row,
    not_run: Mapping[tuple[str, str], str],
    answered: set[tuple[str, str]],
    ending: Ending,
    open_probes: list[tuple[str, str]],
) -> list[Finding]:
    """Say of every planned check that has no finding why it has none."""
    findings = []
    for check, subject in begin["planned"]:
        key = (check, subject)
        if key in answered:
            continue
        if key in not_run:
            one = _placeholder(check, subject, Verdict.NOT_RUN, None, not_run[key])
        elif ending.end == "interrupted":
            waiting = f"the run was interrupted ({ending.by}) before it was judged"
            if open_probes:
                names = ", ".join(f"{probe} [{subject}]" for probe, subject in open_probes)
                waiting += f"; open at that moment: {names}"
            one = _placeholder(check, subject, Verdict.UNKNOWN, Reason.INTERRUPTED, waiting)
        else:
            says = "it was selected and never reported"
            one = _placeholder(check, subject, Verdict.UNKNOWN, Reason.LOST, says)
        known = registry.checks.get(check)
        findings.append(replace(one, load="" if known is None else registry.load_of(known)))
    return findings


def _placeholder(
    check: str, subject: str, verdict: Verdict, reason: Reason | None, says: str
) -> Finding:
    return Finding(
        check=check,
        subject=subject,
        verdict=verdict,
        says=says,
        reason=reason,
        remedy="rerun" if verdict is Verdict.UNKNOWN else "",
    )


def write_observation(observation: Observation) -> Row:
    """Give an observation as a ledger keeps it."""
    row: Row = {
        "probe": observation.probe,
        "subject": observation.subject,
        "elapsed_s": observation.elapsed_s,
    }
    if isinstance(observation.seen, Unseen):
        return {**row, **_object(encode(observation.seen))}
    return {**row, "type": facts_name(type(observation.seen)), "data": encode(observation.seen)}


def _object(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)  # noqa: S101 - dataclasses encode to objects
    return value


def read_observation(registry: Registry, row: Row) -> Observation:
    """Read an observation; one that this version cannot read says so as its reason."""
    return Observation(
        probe=row["probe"],
        subject=row["subject"],
        seen=_read_seen(registry, row),
        elapsed_s=row["elapsed_s"],
    )


def _read_seen(registry: Registry, row: Row) -> Facts | Unseen:
    if MARK in row:
        reason = next((known for known in Blind if known.value == row[MARK]), Blind.NOT_RECORDED)
        return Unseen(reason, row["detail"], row["remedy"])
    kind = registry.facts_named(row["type"])
    if kind is None:
        return Unseen(Blind.NOT_RECORDED, f"this version has no facts called {row['type']!r}")
    try:
        return decode(kind, row["data"])
    except CodecError as error:
        return Unseen(Blind.NOT_RECORDED, f"not readable by this version: {error}")


@dataclass(frozen=True)
class Ledger:
    """A ledger that was read and checked."""

    file: str
    sha256: str
    """Of the bytes of the file."""
    row: Row

    @property
    def run(self) -> Row:
        """The part that says when, why and how it ended."""
        run: Row = self.row["run"]
        return run

    @property
    def findings(self) -> list[Finding]:
        """All findings.

        Raises:
            LedgerError: one is not a finding of this version.

        """
        try:
            return [
                Finding.from_json(row, f"findings[{n}]")
                for n, row in enumerate(self.row["findings"])
            ]
        except CodecError as error:
            raise self.wrong(error) from error

    @property
    def profile(self) -> Profile:
        """The profile that was compared with, as it was redacted.

        Raises:
            LedgerError: it is not a profile of this version.

        """
        try:
            return decode(Profile, self.row["profile"]["content"], "profile.content")
        except CodecError as error:
            raise self.wrong(error) from error

    @property
    def parts(self) -> dict[str, Part]:
        """The fingerprint."""
        try:
            return {
                slot: decode(Part, part, f"fingerprint.{slot}")
                for slot, part in self.row["fingerprint"].items()
            }
        except CodecError as error:
            raise self.wrong(error) from error

    @property
    def since(self) -> Since | None:
        """What had changed since the ledger that this run was compared with; None if with none.

        Raises:
            LedgerError: it cannot be read by this version.

        """
        row = self.row.get("since")
        try:
            return None if row is None else decode(Since, row, "since")
        except CodecError as error:
            raise self.wrong(error) from error

    def observations(self, registry: Registry) -> dict[tuple[str, str], Observation]:
        """All observations, by probe and subject."""
        seen = (read_observation(registry, row) for row in self.row["observations"])
        return {(one.probe, one.subject): one for one in seen}

    def wrong(self, error: CodecError) -> LedgerError:
        """Make the error of a part that cannot be read."""
        return LedgerError(
            Problem(file=self.file, key=error.path, found=error.found, wanted=error.wanted)
        )
