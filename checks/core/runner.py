"""The runner: does for every check, once, what no check does for itself.

Probe once in a child with a deadline, journal before and after, redact, judge the controls before
the real thing, find the expectation and its premise, fold what another finding explains, and hand
each finding to the recorder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from checks.core.child import call_all
from checks.core.codec import CodecError, Json, decode, encode
from checks.core.errors import UsageError
from checks.core.expectation import Basis, Case, Expected, Missing, NotDeclared, Wanted
from checks.core.facts import BOX, Blind, Facts, NotRecordedError, Observation, Unseen
from checks.core.finding import Finding, Judgement, not_applicable, unknown
from checks.core.fingerprint import Part, fingerprint, premise_changes
from checks.core.judging import cases_of
from checks.core.redact import ENVIRONMENT_SECRETS, redact, redact_text
from checks.core.registry import Check, Probe, Registry
from checks.core.verdict import LOOKS, Reason, Verdict
from checks.core.world import World

Key = tuple[str, str]

LARGEST_OBSERVATION_BYTES = 64_000
"""As JSON. A ledger is attached to tickets and stays under 1 MB."""
LARGEST_RUN_BYTES = 500_000
"""All observations of a run together; findings repeat some of them."""


class Recorder(Protocol):
    """Where the run writes what happens, as it happens."""

    def opened(self, probe: str, subjects: Iterable[str]) -> None:
        """Record that a probe is about to start; returns only when that is on disk."""

    def seen(self, observation: Observation) -> None:
        """Record what a probe saw."""

    def controlled(self, outcome: ControlOutcome) -> None:
        """Record how the controls of a check came out."""

    def found(self, finding: Finding, elapsed_s: float, *, answers: str = "") -> None:
        """Record a finding; returns only when it is on disk.

        Args:
            finding: what was found.
            elapsed_s: how long that took.
            answers: the planned subject of which this is the last finding; empty where others of
                the same follow.

        """


@dataclass(frozen=True, kw_only=True)
class ControlOutcome:
    """Whether the controls of a check came out as they must."""

    check: str
    count: int
    good: bool
    detail: str
    """What came out instead; empty where all is well."""


@dataclass(kw_only=True)
class Runner:
    """One run: what is expected, what was seen, what was found."""

    registry: Registry
    expected: Expected
    recorder: Recorder
    world: World
    with_controls: bool = True
    allow_busy: bool = False
    """Whether probes that load the box may run beside what it is busy with."""
    quick: bool = False
    """Whether nothing may load the box."""
    recorded: Mapping[Key, Observation] | None = None
    """Observations of the ledger that is replayed; None in a run that looks for itself."""
    recorded_end: str = ""
    """How the replayed run ended: `complete` or `interrupted`."""
    supplied: Mapping[str, Facts | Unseen] = field(default_factory=dict)
    """What the run itself hands over, by probe name."""
    observations: dict[Key, Observation] = field(default_factory=dict)
    findings: dict[Key, Finding] = field(default_factory=dict)
    answers: dict[Key, tuple[Finding, ...]] = field(default_factory=dict)
    """All findings of each planned check and subject: one, but where subjects are found by looking."""
    controls: dict[str, ControlOutcome] = field(default_factory=dict)
    _bytes: int = 0
    _cases: dict[str, tuple[Case[object], ...]] = field(default_factory=dict)
    _found_targets: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def cases(self, check: Check) -> tuple[Case[object], ...]:
        """List the subjects of a check; where there are none the caller gets one that says so."""
        if check.name not in self._cases:
            self._cases[check.name] = cases_of(check, self.expected)
        return self._cases[check.name]

    def judge(self, check_name: str, subject: str) -> Finding:
        """Find out about one subject of one check, once; of several findings give the worst.

        Raises:
            UsageError: there is no such check or subject.

        """
        return max(self.judge_all(check_name, subject), key=_severity)

    def judge_all(self, check_name: str, subject: str) -> tuple[Finding, ...]:
        """Find out about one subject of one check, once: one finding, or one for each that it found.

        Raises:
            UsageError: there is no such check or subject.

        """
        if (check_name, subject) in self.answers:
            return self.answers[check_name, subject]
        check = self.registry.checks.get(check_name)
        if check is None:
            raise UsageError(f"there is no check {check_name!r}")
        case = next((case for case in self.cases(check) if case.subject == subject), None)
        if case is None:
            raise UsageError(f"{check_name} has no subject {subject!r} in this profile")
        started_s = time.monotonic()
        found = self._find(check, case)
        elapsed_s = (time.monotonic() - started_s) / len(found)
        for finding in found:
            self.findings[finding.key] = finding
            last = subject if finding is found[-1] else ""
            self.recorder.found(finding, elapsed_s, answers=last)
        self.answers[check_name, subject] = found
        return found

    def applies(self, check_name: str, subject: str) -> bool:
        """Whether there is anything to compare a subject of a check with."""
        cases = self.cases(self.registry.checks[check_name])
        return not any(
            case.subject == subject and isinstance(case.wanted, NotDeclared) for case in cases
        )

    def _find(self, check: Check, case: Case[object]) -> tuple[Finding, ...]:
        instead = self._instead(check, case)
        if instead is not None:
            return (instead,)
        seen = [self.observe(self.registry.probe_of(kind), case.subject) for kind in check.sees]
        return judge_case(check, case, seen, self._all_parts, load=self.registry.load_of(check))

    def _instead(self, check: Check, case: Case[object]) -> Finding | None:
        """Find what keeps a case from being judged at all; None where nothing does."""
        control = self._control(check)
        if control is not None:
            return make_finding(check, case, control)
        if isinstance(case.wanted, NotDeclared):
            return make_finding(check, case, not_applicable(case.wanted.fact))
        if isinstance(case.wanted, Missing):
            says, remedy = case.wanted.says, case.wanted.remedy
            return make_finding(check, case, unknown(Reason.NO_EXPECTATION, says, remedy=remedy))
        for blocker in check.blocked_by:
            cause = self._blocker(blocker, case.subject)
            if cause is not None:
                says = f"explained by {cause.name}: {cause.says}"
                remedy = f"mend {cause.name} first, then rerun"
                judgement = unknown(Reason.BLOCKED_BY, says, remedy=remedy)
                return make_finding(check, case, judgement, blocked_by=cause.name)
        return None

    def _all_parts(self) -> Mapping[str, Part]:
        """Look at every component first: one that nobody has looked at yet has not changed."""
        self.look_at_components()
        return self.fingerprint()

    def _blocker(self, name: str, subject: str) -> Finding | None:
        """Find the fault that explains a subject: its own, or else one of the whole box."""
        check = self.registry.checks[name]
        if self.quick and self.registry.load_of(check):
            return None  # left out, so it explains nothing
        cases = self.cases(check)
        own = [case for case in cases if case.subject == subject]
        found = [one for case in own or cases for one in self.judge_all(name, case.subject)]
        fails = [finding for finding in found if finding.verdict is Verdict.FAIL]
        return next((one for one in fails if one.subject == subject), next(iter(fails), None))

    def _control(self, check: Check) -> Judgement | None:
        """Judge the planted observations first; None where the check may be believed."""
        if not self.with_controls:
            return None
        outcome = self.controls.get(check.name)
        if outcome is None:
            outcome = run_controls(check)
            self.controls[check.name] = outcome
            self.recorder.controlled(outcome)
        if outcome.good:
            return None
        says = f"a control of this check came out wrong: {outcome.detail}"
        remedy = "do not believe this check; report it with this ledger to preflight's maintainers"
        return unknown(Reason.CONTROL_PASSED, says, remedy=remedy)

    def observe(self, probe: Probe, subject: str) -> Observation:
        """Look, once, at all subjects of a probe side by side; then remember."""
        targets = self._targets(probe)
        # what is true of the whole box is true of each of its subjects
        wanted = subject if subject in targets else BOX
        if (probe.name, wanted) not in self.observations:
            self.recorder.opened(probe.name, [*targets] if wanted in targets else [wanted])
            for observation in map(self._within_budget, self._look(probe, targets, wanted)):
                self.observations[observation.probe, observation.subject] = observation
                self.recorder.seen(observation)
        return self.observations[probe.name, wanted]

    def _within_budget(self, observation: Observation) -> Observation:
        """Keep the ledger small: what does not fit is not seen, and so never a pass."""
        if self.recorded is not None or isinstance(observation.seen, Unseen):
            return observation
        size = len(json.dumps(encode(observation.seen), ensure_ascii=False).encode())
        if size > LARGEST_OBSERVATION_BYTES:
            why = f"{size} bytes, more than a ledger keeps of one observation"
        elif self._bytes + size > LARGEST_RUN_BYTES:
            why = "a ledger keeps no more observations than this run has made already"
        else:
            self._bytes += size
            return observation
        return replace(observation, seen=Unseen(Blind.MALFORMED, f"{observation.probe}: {why}"))

    def _targets(self, probe: Probe) -> Mapping[str, object]:
        if probe.name not in self._found_targets:
            self._found_targets[probe.name] = probe.targets(self.expected.profile)
        return self._found_targets[probe.name]

    def _look(
        self, probe: Probe, targets: Mapping[str, object], wanted: str
    ) -> Iterator[Observation]:
        """Give each observation as soon as it is there, so that a crash costs no finished one."""
        if wanted not in targets:
            nobody = Unseen(Blind.NOT_ASKED, f"{probe.name} does not look at {wanted}")
            yield Observation(probe=probe.name, subject=wanted, seen=nobody, elapsed_s=0.0)
        elif self.recorded is not None:
            yield from (self._recall(probe, subject) for subject in targets)
        elif probe.read is None:
            nothing = Unseen(Blind.NOT_ASKED, "nothing was handed over")
            seen = receive(probe.sees, encode(self.supplied.get(probe.name, nothing)))
            yield Observation(probe=probe.name, subject=BOX, seen=seen, elapsed_s=0.0)
        elif (busy := self._busy() if probe.load else "") and not self.allow_busy:
            remedy = "stop it, or run with --allow-busy; then rerun"
            kept = Unseen(Blind.BUSY, f"{probe.load} would compete: {busy}", remedy)
            for subject in targets:
                yield Observation(probe=probe.name, subject=subject, seen=kept, elapsed_s=0.0)
        else:
            read = probe.read
            work = {
                subject: (partial(read, self.world, target), probe.deadline_s)
                for subject, target in targets.items()
            }
            for subject, answer in call_all(work):
                yield Observation(
                    probe=probe.name,
                    subject=subject,
                    seen=receive(probe.sees, answer.data),
                    elapsed_s=round(answer.elapsed_s, 6),
                )

    def _busy(self) -> str:
        """Say what the box is busy with; empty: nothing."""
        for probe in self.registry.probes.values():
            if probe.activity:
                seen = self.observe(probe, BOX).seen
                busy = f"cannot be seen ({seen})" if isinstance(seen, Unseen) else seen.busy()
                if busy:
                    return busy
        return ""

    def _recall(self, probe: Probe, subject: str) -> Observation:
        assert self.recorded is not None  # noqa: S101 - for the type checker
        kept = self.recorded.get((probe.name, subject))
        if kept is not None:
            return kept
        detail = f"the ledger holds no observation of {probe.name} [{subject}]"
        reason = Blind.LOST if self.recorded_end == "interrupted" else Blind.NOT_RECORDED
        seen = Unseen(reason, detail)
        return Observation(probe=probe.name, subject=subject, seen=seen, elapsed_s=0.0)

    def look_at_components(self) -> None:
        """Probe the parts that no selected check asked for, so that the fingerprint is whole.

        Only these, which are quick and quiet: a run that was asked for little must not start
        servers or contact hosts.
        """
        for probe in self.registry.probes.values():
            if probe.always:
                for subject in self._targets(probe):
                    self.observe(probe, subject)

    def fingerprint(self) -> dict[str, Part]:
        """Collect the components of the box that were seen so far."""
        return fingerprint(self.observations.values())


def receive(kind: type[Facts], data: Json | Unseen) -> Facts | Unseen:
    """Redact, cap and type what a probe gave: the one door for everything from outside."""
    clean = redact(encode(data), ENVIRONMENT_SECRETS)
    try:
        if isinstance(clean, dict) and "unseen" in clean:
            return decode(Unseen, clean)
        return decode(kind, clean)
    except CodecError as error:
        return Unseen(Blind.MALFORMED, str(error))


def run_controls(check: Check) -> ControlOutcome:
    """Judge the planted observations of a check: each must fail with its cause, or pass."""
    wrong = ""
    for number, control in enumerate(check.controls, 1):
        said = ask(check, BOX, (*control.seen, control.wanted))
        judgement = max(said.values(), key=_severity, default=not_applicable("nothing found"))
        came = judgement.cause if judgement.verdict is Verdict.FAIL else judgement.verdict.value
        must = control.fails or Verdict.PASS.value
        if came != must:
            wrong = wrong or f"control {number} gave {came!r}, must give {must!r}"
    kinds = {bool(control.fails) for control in check.controls}
    if kinds != {True, False}:
        wrong = wrong or "it has no pair of a must-fail and a must-pass control"
    return ControlOutcome(check=check.name, count=len(check.controls), good=not wrong, detail=wrong)


def judge_case(
    check: Check,
    case: Case[object],
    seen: list[Observation],
    parts: Callable[[], Mapping[str, Part]],
    *,
    load: str = "",
) -> tuple[Finding, ...]:
    """Judge what was seen of one subject against what is wanted of it."""
    for observation in seen:
        if isinstance(observation.seen, Unseen):
            return (make_finding(check, case, _blind(observation.probe, observation.seen)),)
    facts = [observation.seen for observation in seen]
    wanted = _fitting(case, parts)
    if isinstance(wanted, Judgement):
        # what was measured now is kept with it, so that it can be accepted
        assert isinstance(case.wanted, Wanted)  # noqa: S101 - as above
        now = ask(check, case.subject, (*facts, case.wanted.value)).get(case.subject)
        observed = {} if now is None else now.observed
        return (make_finding(check, case, replace(wanted, observed=observed), load=load),)
    said = ask(check, case.subject, (*facts, wanted.value))
    return tuple(
        make_finding(check, replace(case, subject=subject, wanted=wanted), judgement, load=load)
        for subject, judgement in (said or {case.subject: not_applicable(check.finds)}).items()
    )


def _fitting(
    case: Case[object], parts: Callable[[], Mapping[str, Part]]
) -> Wanted[object] | Judgement:
    """Choose what was measured on parts of the kinds that are there now."""
    wanted = case.wanted
    assert isinstance(wanted, Wanted)  # noqa: S101 - the caller has dealt with the others
    if not wanted.premise and not case.others:
        return wanted
    now = parts()
    changed = {id(one): premise_changes(one.premise, now) for one in (wanted, *case.others)}
    fit = [one for one in (wanted, *case.others) if not changed[id(one)]]
    # what somebody measured comes before what a data sheet says
    fit = [one for one in fit if one.basis.confirms] or fit
    if not fit:
        names = ", ".join(changed[id(wanted)])
        return unknown(
            Reason.PREMISE_CHANGED,
            f"what is expected was measured on another {names}: {wanted.source}",
            remedy=f"if the other {names} was put in on purpose, accept what was measured on it now: "
            "`preflight accept LEDGER` with the ledger of this run; if not, find out what is missing "
            "or broken; rerun",
        )
    if len(fit) > 1:
        names = ", ".join(sorted({slot for one in fit for slot in one.premise}))
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{len(fit)} values were measured, each on another {names}, and which of these this "
            "is cannot be read",
            remedy="run as a user who may read it (the ledger's fingerprint says what), or remove "
            "the others from the file of measured values; rerun",
        )
    return fit[0]


def _blind(probe: str, seen: Unseen) -> Judgement:
    reason = Reason.LOST if seen.reason is Blind.LOST else Reason.NOT_OBSERVABLE
    return unknown(reason, f"{probe} could not see: {seen}", remedy=seen.remedy, unseen=seen)


def ask(check: Check, subject: str, arguments: tuple[object, ...]) -> Mapping[str, Judgement]:
    """Call a judge. It is total: what it cannot decide is unknown, never an exception.

    Gives a judgement for the subject, or one for each that the judge found.
    """
    try:
        said = check.judge(*arguments)
        judgements = {subject: said} if isinstance(said, Judgement) else said
        encode(judgements)
        for judgement in judgements.values():
            _check_quantities(judgement)
        unknown_causes = [
            one.cause
            for one in judgements.values()
            if one.verdict is Verdict.FAIL and one.cause not in check.causes
        ]
    except NotRecordedError as error:
        remedy = "run this version of preflight on the box itself"
        return {subject: unknown(Reason.NOT_OBSERVABLE, f"not recorded: {error}", remedy=remedy)}
    except Exception as error:  # noqa: BLE001 - a bug in one judge must not hide the others
        says = f"the judge ended with {type(error).__name__}: {error}"
        says = redact_text(says, ENVIRONMENT_SECRETS)
        return {subject: unknown(Reason.LOST, says, remedy="report it with this ledger")}
    if unknown_causes:
        says = f"the judge named a cause that it does not declare: {unknown_causes[0]!r}"
        return {subject: unknown(Reason.LOST, says, remedy="report it with this ledger")}
    return judgements


def _severity(judgement: Judgement | Finding) -> int:
    return LOOKS[judgement.verdict].severity


def _check_quantities(judgement: Judgement) -> None:
    """Refuse what no ledger holds: a quantity is a number, a text, or a list of those."""
    for name, value in (*judgement.observed.items(), *judgement.expected.items()):
        items = value if isinstance(value, list | tuple) else [value]
        if any(not isinstance(item, str | int | float | None) for item in items):
            raise TypeError(f"{name} is neither a number nor a text, nor a list of those")


_UNDECIDED = {
    Verdict.UNKNOWN: "look at it by hand; where this box cannot show it, name the check with the "
    "reason in [checks.optional] of its profile",
}
"""What to do about what could not be told, where nothing better is known."""


def make_finding(
    check: Check,
    case: Case[object],
    judgement: Judgement,
    *,
    blocked_by: str = "",
    load: str = "",
) -> Finding:
    """Complete a judgement with whose it is and what it rests on."""
    compared = judgement.verdict in (Verdict.PASS, Verdict.FAIL)
    basis: Basis | None = None
    source = ""
    if isinstance(case.wanted, Wanted) and compared:
        basis, source = judgement.basis or case.wanted.basis, case.wanted.source
    passed = judgement.verdict is Verdict.PASS
    return Finding(
        check=check.name,
        subject=case.subject,
        verdict=judgement.verdict,
        says=judgement.says,
        cause=judgement.cause,
        cause_text=check.causes.get(judgement.cause, ""),
        reason=judgement.reason,
        blocked_by=blocked_by,
        observed=_plain(judgement.observed),
        expected=_plain(judgement.expected),
        basis=basis,
        source=source,
        confirmed=passed and basis is not None and basis.confirms,
        remedy=judgement.remedy or _UNDECIDED.get(judgement.verdict, ""),
        notes=judgement.notes,
        evidence=judgement.evidence,
        premise=check.premise if judgement.premise is None else judgement.premise,
        blind=judgement.blind,
        load=load,
    )


def _plain(quantities: Mapping[str, Json]) -> dict[str, Json]:
    return {name: encode(value) for name, value in quantities.items()}
