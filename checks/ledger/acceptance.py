"""What of a ledger may become an expectation, and what keeps the rest from it. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.core.codec import Json
from checks.core.expectation import Basis, Case, Expectation, Expected, Wanted
from checks.core.facts import BOX, Observation, Unseen
from checks.core.finding import Finding, Judgement
from checks.core.fingerprint import Change, Part, compare_fields, premise_changes, slots_of
from checks.core.judging import cases_of
from checks.core.registry import Check, Measure, Registry
from checks.core.runner import ask
from checks.core.verdict import Reason, Verdict
from checks.ledger.document import Ledger

COUNTS = ("1", "1/h")
"""Units of what a box may have none of."""

Kinds = dict[str, dict[str, str]]
"""Kind of each part, as an expectation keeps it: slot = field = text."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A value that a ledger holds, and that may be accepted."""

    check: str
    subject: str
    value: str | float
    premise: Kinds
    """Kind of each part that it rests on, as far as that could be read."""
    unread: tuple[str, ...]
    """Parts that it rests on, and of which nothing could be read."""
    accepted: bool
    """Whether it has been: the run compared it with a measured value, and it passed."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a value is not accepted, and the way out."""

    check: str
    subject: str
    why: str
    could_not_tell: bool = False
    """Whether that is because nobody has seen the value."""
    quiet: bool = False
    """Whether it is worth a word only where the check was named."""

    def __str__(self) -> str:
        """Render in one line."""
        return f"{self.check} [{self.subject}]: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One value that is about to be accepted."""

    new: Expectation
    unread: tuple[str, ...]
    old: Expectation | None
    """What the file holds of the same parts, and what this takes the place of."""
    specification: Expectation | None
    """What somebody says of it who has not measured it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be written, and what is not."""

    rows: list[Row] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    same: list[Offer] = field(default_factory=list)
    """What has been accepted already."""

    @property
    def changes(self) -> list[Row]:
        """The values that take another's place."""
        return [row for row in self.rows if row.old is not None]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where accepted values are to be written, and what counts there already."""

    file: str
    entries: tuple[Expectation, ...]
    """Of that file."""
    expected: Expected
    """Everything that counts for the host, of all files."""
    parts: Mapping[str, Part]
    """What the ledger's box is made of."""


def refusal_of(ledger: Ledger) -> str:
    """Say why nothing at all of a ledger may be accepted, and the way out; empty: it may."""
    run = ledger.run
    if "anonymous_of" in ledger.row:
        return f"is an anonymous copy of {ledger.row['anonymous_of']}; give that ledger"
    if run["kind"] == "replay":
        return f"is of a replay, which measures nothing; give the ledger {ledger.row['replay_of']}"
    if run["end"] != "complete":
        return f"its run was interrupted ({run['interrupted_by']}); run again, give that ledger"
    if not run["controls"]:
        return "its run judged no controls (--no-controls); run with them, give that ledger"
    return ""


def offers(ledger: Ledger, registry: Registry) -> list[Offer | Refusal]:
    """List what a ledger holds of every check that takes a measured value.

    Raises:
        LedgerError: a part of it cannot be read by this version.

    """
    return [*_Reading(ledger, registry)]


class _Reading:
    """One ledger, gone through for what it measured."""

    def __init__(self, ledger: Ledger, registry: Registry) -> None:
        self.registry = registry
        self.findings = ledger.findings
        self.parts = ledger.parts
        self.seen = ledger.observations(registry)
        self.untrue = {str(row["check"]) for row in ledger.row["controls"] if not row["good"]}
        self.failed = {one.check for one in self.findings if one.verdict is Verdict.FAIL}

    def __iter__(self) -> Iterator[Offer | Refusal]:
        for finding in self.findings:
            check = self.registry.checks.get(finding.check)
            if check is not None and check.measures is not None:
                yield from self.of(check, check.measures, finding)

    def of(self, check: Check, measure: Measure, finding: Finding) -> Iterator[Offer | Refusal]:
        why = self.kept_from_it(check, finding)
        if why is not None:
            yield why
        elif measure.quantity in finding.observed:
            quantities = {**finding.expected, **finding.observed}
            yield self.offer(measure, finding, finding.subject, quantities)
        elif finding.verdict is Verdict.PASS or finding.reason is Reason.PREMISE_CHANGED:
            yield _refused(finding, f"the ledger does not say its {measure.quantity}; run again")
        else:
            yield from self.of_what_was_seen(check, measure, finding)

    def of_what_was_seen(
        self, check: Check, measure: Measure, finding: Finding
    ) -> Iterator[Offer | Refusal]:
        """Take what was observed of something that was compared with nothing."""
        again = self.judged_again(check, finding.subject)
        found = {name: one for name, one in again.items() if measure.quantity in one.observed}
        for subject, said in found.items():
            yield self.offer(measure, finding, subject, said.observed)
        if not found:
            blind = next((one for one in again.values() if one.verdict is Verdict.UNKNOWN), None)
            why = f"does not apply: {finding.says}"
            if blind is not None:
                why = f"unknown: {blind.says}{f'; {blind.remedy}' if blind.remedy else ''}"
            elif not again:
                why = "what was seen of it is not in the ledger; run again"
            yield _refused(
                finding,
                why,
                could_not_tell=blind is not None or not again,
                quiet=finding.verdict is Verdict.NOT_APPLICABLE,
            )

    def kept_from_it(self, check: Check, finding: Finding) -> Refusal | None:
        """Say what keeps a finding from being accepted, whatever its value is."""
        blockers = sorted(self.failed & set(check.blocked_by))
        if check.name in self.untrue or finding.reason is Reason.CONTROL_PASSED:
            why = "a control of this check came out wrong, so what it measures proves nothing"
            return _refused(finding, f"{why}; report it with this ledger")
        if finding.verdict is Verdict.FAIL:
            return _refused(
                finding,
                f"failed: {finding.says}; {finding.remedy or 'mend it and run again'}",
            )
        if blockers:
            return _refused(finding, f"{blockers[0]} failed; mend that, and run again")
        if finding.verdict is Verdict.NOT_RUN:
            return _refused(finding, f"did not run: {finding.says}", could_not_tell=True)
        undecided = (Reason.NO_EXPECTATION, Reason.PREMISE_CHANGED)
        if finding.verdict is Verdict.UNKNOWN and finding.reason not in undecided:
            reason = finding.reason.value if finding.reason else "no reason given"
            why = f"unknown: {reason}: {finding.says}"
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            return _refused(finding, f"{why}{remedy}", could_not_tell=True)
        if finding.confirmed and finding.basis is not Basis.MEASURED:
            return _declared(finding.check, finding.subject)
        return None

    def judged_again(self, check: Check, subject: str) -> dict[str, Judgement]:
        """Judge what was compared with nothing, for the sake of what the judge observes.

        The judge is asked once for each value that a control wants. What it says it observed
        counts where that is the same each time: then it comes from what was seen, and not from
        what it was compared with.
        """
        facts = []
        for kind in check.sees:
            seen = self.observation(self.registry.probe_of(kind).name, subject)
            if seen is None or isinstance(seen.seen, Unseen):
                return {}
            facts.append(seen.seen)
        said = [ask(check, subject, (*facts, control.wanted)) for control in check.controls]
        return {name: _in_common([one[name] for one in said if name in one]) for name in said[0]}

    def observation(self, probe: str, subject: str) -> Observation | None:
        # what is true of the whole box is true of each of its subjects
        return self.seen.get((probe, subject)) or self.seen.get((probe, BOX))

    def offer(
        self, measure: Measure, finding: Finding, subject: str, quantities: Mapping[str, Json]
    ) -> Offer | Refusal:
        value = quantities[measure.quantity]
        wrong = impossible(measure, value, quantities)
        if wrong:
            return replace(_refused(finding, wrong), subject=subject)
        assert isinstance(value, str | int | float)  # noqa: S101 - else it was impossible
        premise, unread = kinds_of(finding.premise, self.parts)
        return Offer(
            check=finding.check,
            subject=subject,
            value=value,
            premise=premise,
            unread=unread,
            accepted=finding.confirmed and finding.basis is Basis.MEASURED,
        )


def _in_common(said: Sequence[Judgement]) -> Judgement:
    """Give the first judgement with what all of them observed."""
    observed = {
        name: value
        for one in said
        for name, value in one.observed.items()
        if all(other.observed.get(name, value) == value for other in said)
    }
    return replace(said[0], observed=observed)


def _refused(
    finding: Finding, why: str, *, could_not_tell: bool = False, quiet: bool = False
) -> Refusal:
    return Refusal(
        check=finding.check,
        subject=finding.subject,
        why=why,
        could_not_tell=could_not_tell,
        quiet=quiet,
    )


def _declared(check: str, subject: str) -> Refusal:
    why = "declared in the profile, or true of every healthy box; nothing to accept"
    return Refusal(check=check, subject=subject, why=why, quiet=True)


def impossible(measure: Measure, value: Json, quantities: Mapping[str, Json]) -> str:
    """Say why no healthy box gives this value, and what to do; empty: one may."""
    if not measure.unit:
        good = isinstance(value, str) and value.strip() and "\x00" not in value
        return "" if good else f"{value!r} is no text to compare with; run again"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"{value!r} is no number; report it with this ledger"
    none_is_possible = measure.unit in COUNTS
    if not (value >= 0 if none_is_possible else value > 0):
        return f"{value:g} {measure.unit} is no measurement; find out what went wrong, run again"
    bound = quantities.get(measure.bound) if measure.bound else None
    if isinstance(bound, int | float) and not value <= bound:
        return (
            f"{value:g} {measure.unit} is more than there can be ({measure.bound} is {bound:g}): "
            "it was measured wrongly; report it with this ledger"
        )
    return ""


def kinds_of(slots: Iterable[str], parts: Mapping[str, Part]) -> tuple[Kinds, tuple[str, ...]]:
    """Give the kind of each part that something rests on, and those of which nothing was read.

    Args:
        slots: as a check's premise names them; `disk` stands for every `disk[…]`.
        parts: the fingerprint.

    """
    kinds: Kinds = {}
    unread = []
    for name in slots:
        found = {
            slot: {key: text for key, text in parts[slot].kind.items() if text is not None}
            for slot in slots_of(name, parts)
        }
        kinds |= {slot: kind for slot, kind in found.items() if kind}
        unread += [slot for slot, kind in found.items() if not kind] if found else [name]
    return kinds, tuple(unread)


# several ledgers


def agreed(runs: Sequence[Sequence[Offer | Refusal]], registry: Registry) -> list[Offer | Refusal]:
    """Put together what several runs of one box measured: the median, where they agree."""
    if len(runs) == 1:
        return list(runs[0])
    others = [{(one.check, one.subject): one for one in run} for run in runs[1:]]
    return [
        first
        if isinstance(first, Refusal)
        else _agreed(first, [other.get((first.check, first.subject)) for other in others], registry)
        for first in runs[0]
    ]


def _agreed(
    first: Offer, others: Sequence[Offer | Refusal | None], registry: Registry
) -> Offer | Refusal:
    def refused(why: str) -> Refusal:
        return Refusal(check=first.check, subject=first.subject, why=why)

    found = [first]
    for other in others:
        if other is None:
            return refused("another of the ledgers has nothing of it; leave that one out")
        if isinstance(other, Refusal):
            return refused(f"in another of the ledgers: {other.why}")
        if _differ(first.premise, other.premise):
            return refused("the ledgers are of different parts; give those of the same")
        found.append(other)
    values = [one.value for one in found]
    shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    if any(isinstance(value, str) for value in values):
        return first if len(set(values)) == 1 else refused(f"the runs do not agree: {shown}")
    numbers = [float(value) for value in values]
    # not the mean of two: the median is a value that was measured
    median = statistics.median_low(numbers)
    check = registry.checks[first.check]
    bounds = _entry(check, replace(first, value=median), {"source": ""}).bounds
    low = bounds.lower is not None and not min(numbers) >= bounds.lower
    if low or (bounds.upper is not None and not max(numbers) <= bounds.upper):
        return refused(f"the runs do not agree within the tolerance: {shown}; find out why")
    return replace(first, value=found[numbers.index(median)].value)


def _differ(one: Kinds, other: Kinds) -> bool:
    return set(one) != set(other) or any(
        compare_fields(dict(one[slot]), dict(other[slot])) is Change.CHANGED for slot in one
    )


# against what is there


def _entry(check: Check, offer: Offer, stamp: Mapping[str, object]) -> Expectation:
    measure = check.measures
    assert measure is not None  # noqa: S101 - only such checks have offers
    return Expectation(
        check=offer.check,
        subject=offer.subject,
        value=offer.value,
        unit=measure.unit,
        lower_ratio=measure.lower_ratio,
        upper_ratio=measure.upper_ratio,
        basis=Basis.MEASURED.value,
        premise=offer.premise,
        **stamp,  # type: ignore[arg-type] # the provenance, which the verb knows
    )


def plan(
    found: Iterable[Offer | Refusal],
    registry: Registry,
    place: Place,
    stamp: Mapping[str, object],
    runs: int = 1,
) -> Plan:
    """Compare what may be accepted with what is there already.

    Args:
        found: of the ledger.
        registry: of the checks.
        place: where it is to be written.
        stamp: what every new entry says of where it comes from.
        runs: how many runs agreed on each.

    """
    made = Plan()
    for one in found:
        if isinstance(one, Refusal):
            made.refused.append(one)
            continue
        check = registry.checks[one.check]
        new = _entry(check, one, {**stamp, "runs": runs})
        refusal, old = _beside(check, new, place)
        if refusal is not None:
            made.refused.append(refusal)
        elif _is_same(one, new, old):
            made.same.append(one)
        else:
            about = place.expected.measured(one.check, one.subject)
            sheet = next((row for row in about if row.basis != Basis.MEASURED.value), None)
            made.rows.append(Row(new=new, unread=one.unread, old=old, specification=sheet))
    return made


def _is_same(offer: Offer, new: Expectation, old: Expectation | None) -> bool:
    """Whether there is nothing new in it; that more runs agree on it is something new."""
    if old is None:
        return offer.accepted and new.runs == 1
    return new.runs <= old.runs and (offer.accepted or old.value == new.value)


def _beside(
    check: Check, new: Expectation, place: Place
) -> tuple[Refusal | None, Expectation | None]:
    """Find what a new entry takes the place of, or why it must not be there."""

    def refused(why: str) -> Refusal:
        return Refusal(check=new.check, subject=new.subject, why=why)

    fitting = [
        entry
        for entry in place.expected.measured(new.check, new.subject)
        if entry.basis == Basis.MEASURED.value and not premise_changes(entry.premise, place.parts)
    ]
    here = [entry for entry in place.entries if entry in fitting]
    # of two files, the first one's value of the same kinds counts, and that will be this one's
    elsewhere = [entry for entry in fitting if entry not in here and entry.of_what != new.of_what]
    if len(here) > 1:
        return refused(f"{place.file} has {len(here)} values for these parts; keep one"), None
    if elsewhere:
        why = f"another file has a value for these parts already ({elsewhere[0].source})"
        return refused(f"{why}; name its folder with --expected, or remove it there"), None
    numbers = [entry for entry in place.expected.numbers if entry not in here]
    cases = cases_of(check, replace(place.expected, numbers=(new, *numbers)))
    for case in cases:
        if case.subject == new.subject and not _compares(case):
            return _declared(new.check, new.subject), None
    return None, here[0] if here else None


def _compares(case: Case[object]) -> bool:
    """Whether a case compares with what was measured."""
    wanted = (case.wanted, *case.others)
    return any(isinstance(one, Wanted) and one.basis is Basis.MEASURED for one in wanted)
