"""The runner: what it does for every check, with checks made for the purpose."""

import os
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

import checks.core.runner as module
from checks.core.errors import UsageError
from checks.core.expectation import Basis, Case, Expected, Missing, NotDeclared, Wanted
from checks.core.facts import BOX, Blind, Facts, Observation, Unseen
from checks.core.finding import fail, not_applicable, ok, unknown
from checks.core.fingerprint import Component
from checks.core.profile import Profile
from checks.core.redact import HIDDEN
from checks.core.registry import Check, Control, Probe, Registry
from checks.core.runner import Runner, run_controls
from checks.core.verdict import Reason, Verdict
from checks.core.world import World
from checks.ledger.document import write_observation


@dataclass(frozen=True, kw_only=True)
class Size(Facts):
    size_bytes: int
    text: str = field()


@dataclass(frozen=True, kw_only=True)
class Card(Facts):
    model: str | Unseen

    def components(self):
        yield Component(slot="card", kind={"model": self.model}, identity={})


@dataclass
class Recorder:
    """Remembers what the journal would be told, in order."""

    events: list[tuple[str, Any]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def opened(self, probe, subjects):
        self.events.append(("opened", (probe, tuple(subjects))))

    def seen(self, observation):
        self.events.append(("seen", (observation.probe, observation.subject)))

    def controlled(self, outcome):
        self.events.append(("controlled", outcome.check))

    def found(self, finding, elapsed_s, *, answers=""):
        self.events.append(("found", finding.name))
        self.answers.append(answers)

    def named(self, kind):
        return [what for name, what in self.events if name == kind]


def at_least(seen, wanted_bytes):
    """Judge a size."""
    if seen.size_bytes < wanted_bytes:
        return fail("too-small", f"{seen.size_bytes} < {wanted_bytes}", remedy="make it larger")
    return ok(f"{seen.size_bytes}", observed={"size_bytes": seen.size_bytes})


GOOD = Size(size_bytes=5, text="")
PAIR = (
    Control(seen=(Size(size_bytes=4, text=""),), wanted=5, fails="too-small"),
    Control(seen=(GOOD,), wanted=5, fails=""),
)


def probe(
    name="t.size",
    sees=Size,
    read=lambda _world, _target: GOOD,
    targets=None,
    deadline_s=5.0,
    **more,
):
    return Probe(
        name=name,
        sees=sees,
        read=read,
        targets=(lambda _: dict.fromkeys(targets)) if targets else (lambda _: {BOX: None}),
        deadline_s=deadline_s,
        **more,
    )


def wanted(value=5, subject=BOX, basis=Basis.DECLARED, premise=None):
    said = Wanted(value=value, basis=basis, source="profile: size", premise=premise or {})
    return Case(subject=subject, wanted=said)


def check(
    name="t.size.enough",
    cases=None,
    judge=at_least,
    controls=PAIR,
    blocked_by=(),
    sees=Size,
    **more,
):
    return Check(
        name=name,
        title="A size.",
        explanation="A size.",
        sees=(sees,),
        cases=lambda _: [wanted()] if cases is None else cases,
        judge=judge,
        premise=("card",),
        causes={"too-small": "the size is too small"},
        blocked_by=blocked_by,
        controls=list(controls),
        **more,
    )


def runner(*parts, **more):
    registry = Registry()
    for part in parts:
        registry.add_probe(part) if isinstance(part, Probe) else registry.add_check(part)
    return Runner(
        registry=registry,
        expected=Expected(profile=Profile(schema=1), profile_file="x.toml"),
        recorder=Recorder(),
        world=more.pop("world", None) or World(),
        **more,
    )


def judged(*parts, subject=BOX, **more):
    return runner(*parts, **more).judge("t.size.enough", subject)


# the order of things


def test_everything_is_written_down_before_it_happens():
    run = runner(probe(), check())
    run.judge("t.size.enough", BOX)
    assert run.recorder.events == [
        ("controlled", "t.size.enough"),
        ("opened", ("t.size", (BOX,))),
        ("seen", ("t.size", BOX)),
        ("found", "t.size.enough [box]"),
    ]


def test_a_finding_is_complete():
    finding = judged(probe(), check())
    assert finding.verdict is Verdict.PASS
    assert finding.confirmed
    assert (finding.basis, finding.source) == (Basis.DECLARED, "profile: size")
    assert finding.observed == {"size_bytes": 5}
    assert finding.premise == ("card",)


def test_a_fail_has_its_cause_in_words_and_a_remedy():
    finding = judged(probe(), check(cases=[wanted(6)]))
    assert finding.verdict is Verdict.FAIL
    assert (finding.cause, finding.cause_text) == ("too-small", "the size is too small")
    assert finding.remedy == "make it larger"
    assert not finding.confirmed


@pytest.mark.parametrize("basis", [Basis.SPECIFICATION, Basis.ASSUMED])
def test_a_pass_against_what_nobody_stands_for_is_not_confirmed(basis):
    finding = judged(probe(), check(cases=[wanted(basis=basis)]))
    assert finding.verdict is Verdict.PASS
    assert not finding.confirmed


def test_each_subject_is_judged_once():
    run = runner(probe(), check())
    first = run.judge("t.size.enough", BOX)
    assert run.judge("t.size.enough", BOX) is first
    assert len(run.recorder.named("found")) == 1


def test_what_does_not_exist_is_refused():
    run = runner(probe(), check())
    with pytest.raises(UsageError, match="no check"):
        run.judge("t.other.x", BOX)
    with pytest.raises(UsageError, match="no subject 'x'"):
        run.judge("t.size.enough", "x")


# probing


def test_many_subjects_are_probed_once_and_side_by_side(tmp_path):
    names = [f"s{n}" for n in range(8)]

    def slow(_world, _target):
        (tmp_path / f"{os.getpid()}").touch()
        time.sleep(0.3)
        return GOOD

    run = runner(
        probe(read=slow, targets=names), check(cases=[wanted(subject=name) for name in names])
    )
    started = time.monotonic()
    findings = [run.judge("t.size.enough", name) for name in names]
    assert time.monotonic() - started < 1.8, "8 times 0.3 s, one after the other, are 2.4 s"
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
    assert run.recorder.named("opened") == [("t.size", tuple(names))]
    assert len(list(tmp_path.iterdir())) == 8


def test_two_checks_share_what_one_probe_saw():
    run = runner(probe(), check(), check("t.size.more", cases=[wanted(6)]))
    assert run.judge("t.size.enough", BOX).verdict is Verdict.PASS
    assert run.judge("t.size.more", BOX).verdict is Verdict.FAIL
    assert len(run.recorder.named("opened")) == 1


def test_a_probe_that_cannot_see_is_unknown_with_its_reason_and_remedy():
    blind = Unseen(Blind.PERMISSION, "/x may not be read", "run as root")
    finding = judged(probe(read=lambda _w, _t: blind), check())
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "permission: /x may not be read" in finding.says
    assert finding.remedy == "run as root"


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda _w, _t: os._exit(9), Reason.LOST),
        (lambda _w, _t: 1 / 0, Reason.LOST),
        (lambda _w, _t: time.sleep(30), Reason.NOT_OBSERVABLE),
        (lambda _w, _t: {"size_bytes": 5}, Reason.NOT_OBSERVABLE),
        (lambda _w, _t: Size(size_bytes="5", text=""), Reason.NOT_OBSERVABLE),
        (lambda _w, _t: Size(size_bytes=float("nan"), text=""), Reason.NOT_OBSERVABLE),
        (lambda _w, _t: Card(model="x"), Reason.NOT_OBSERVABLE),
    ],
    ids=["dies", "raises", "hangs", "no facts", "a text for a number", "NaN", "other facts"],
)
def test_a_probe_that_goes_wrong_is_unknown_and_never_green(read, reason):
    finding = judged(probe(read=read, deadline_s=0.5), check())
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, reason)


def test_nobody_behind_the_probe_sees_a_secret():
    read = lambda _w, _t: Size(size_bytes=5, text="server --api-key plantedsecret")  # noqa: E731
    made = check(judge=lambda seen, _: ok(seen.text))
    run = runner(probe(read=read), made, with_controls=False)
    assert run.judge("t.size.enough", BOX).says == f"server --api-key {HIDDEN}"
    seen = run.observations["t.size", BOX].seen
    assert seen.text == f"server --api-key {HIDDEN}"


def test_facts_that_the_run_hands_over_pass_the_same_door():
    supplied = probe(read=None)
    finding = judged(supplied, check(), supplied={"t.size": GOOD})
    assert finding.verdict is Verdict.PASS
    assert judged(supplied, check()).reason is Reason.NOT_OBSERVABLE


def test_what_a_ledger_has_no_room_for_is_not_seen_and_never_passes(monkeypatch):
    much = Size(size_bytes=5, text=" ".join(["word"] * 400))
    monkeypatch.setattr(module, "LARGEST_OBSERVATION_BYTES", 1_000)
    finding = judged(probe(read=lambda _w, _t: much), check())
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "more than a ledger keeps of one observation" in finding.says

    monkeypatch.setattr(module, "LARGEST_OBSERVATION_BYTES", 64_000)
    monkeypatch.setattr(module, "LARGEST_RUN_BYTES", 3_000)
    subjects = ("a", "b")
    cases = [wanted(5, subject=name) for name in subjects]
    run = runner(probe(read=lambda _w, _t: much, targets=subjects), check(cases=cases))
    found = [run.judge("t.size.enough", name).verdict for name in subjects]
    assert sorted(verdict.value for verdict in found) == ["pass", "unknown"]


def test_in_the_end_every_component_is_looked_at_and_nothing_else():
    run = runner(
        probe(), probe("t.card", Card, lambda _w, _t: Card(model="m"), always=True), check()
    )
    run.look_at_components()
    run.look_at_components()
    assert run.recorder.named("opened") == [("t.card", (BOX,))]
    assert list(run.fingerprint()) == ["card"]


def test_parts_that_would_be_missing_in_some_runs_are_refused():
    with pytest.raises(ValueError, match="wants always=True"):
        Registry().add_probe(probe("t.card", Card, lambda _w, _t: Card(model="m")))


# subjects that are found by looking


def each_digit(seen, wanted_bytes):
    """Judge each digit of a size as a subject of its own."""
    judge = at_least
    return {digit: judge(Size(size_bytes=int(digit), text=""), wanted_bytes) for digit in seen.text}


DIGITS = (
    Control(seen=(Size(size_bytes=0, text="954"),), wanted=5, fails="too-small"),
    Control(seen=(Size(size_bytes=0, text="59"),), wanted=5, fails=""),
)


def finds(text, **more):
    seen = Size(size_bytes=0, text=text)
    looks = probe(read=lambda _w, _t: seen)
    return runner(looks, check(judge=each_digit, controls=DIGITS, finds="no digit here", **more))


def test_what_a_probe_found_is_a_finding_each_and_the_worst_is_the_answer():
    run = finds("846")
    found = run.judge_all("t.size.enough", BOX)
    assert [(one.subject, one.verdict) for one in found] == [
        ("8", Verdict.PASS),
        ("4", Verdict.FAIL),
        ("6", Verdict.PASS),
    ]
    assert run.judge("t.size.enough", BOX) is found[1]
    assert set(run.findings) == {("t.size.enough", digit) for digit in "846"}
    assert run.judge_all("t.size.enough", BOX) is found
    # the planned subject is answered with the last of them and not before: a crash may be between
    assert run.recorder.answers == ["", "", BOX]


def test_where_nothing_is_found_it_does_not_apply():
    (finding,) = finds("").judge_all("t.size.enough", BOX)
    assert (finding.subject, finding.verdict) == (BOX, Verdict.NOT_APPLICABLE)
    assert finding.says == "no digit here"


def test_a_control_that_finds_nothing_is_wrong():
    nothing = Control(seen=(Size(size_bytes=0, text=""),), wanted=5, fails="")
    made = check(judge=each_digit, controls=(*DIGITS, nothing), finds="no digit here")
    assert "control 3 gave 'not-applicable'" in run_controls(made).detail


def test_what_was_found_faulty_explains_its_own_subject_first_and_else_any():
    def blocks(subject):
        seen = Size(size_bytes=9, text="34")
        cause = check("t.cause.x", judge=each_digit, controls=DIGITS, finds="none")
        case = wanted(subject=subject)
        looks = probe(read=lambda _w, _t: seen)
        run = runner(looks, cause, check(blocked_by=("t.cause.x",), cases=[case]))
        return run.judge("t.size.enough", subject).blocked_by

    assert blocks("4") == "t.cause.x [4]"
    assert blocks("9") == "t.cause.x [3]"


# load


@dataclass(frozen=True, kw_only=True)
class Activity(Facts):
    what: str

    def busy(self):
        return self.what


def loaded(activity, **more):
    ran = []

    def read(_world, _target):
        os.write(end, b"x")
        return GOOD

    inlet, end = os.pipe()
    run = runner(
        probe(read=read, load="all cores at once"),
        probe("t.activity", Activity, lambda _w, _t: activity, activity=True),
        check(),
        **more,
    )
    finding = run.judge("t.size.enough", BOX)
    os.close(end)
    ran = os.read(inlet, 1)
    os.close(inlet)
    return finding, bool(ran)


def test_what_loads_the_box_is_said_and_runs_on_an_idle_one():
    finding, ran = loaded(Activity(what=""))
    assert (finding.verdict, ran) == (Verdict.PASS, True)
    assert finding.load == "all cores at once"


@pytest.mark.parametrize("activity", [Activity(what="pid 7 llama-server"), Unseen(Blind.LOST, "x")])
def test_what_loads_the_box_does_not_run_on_a_busy_one(activity):
    finding, ran = loaded(activity)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert not ran
    assert "all cores at once would compete" in finding.says
    assert "--allow-busy" in finding.remedy
    finding, ran = loaded(activity, allow_busy=True)
    assert (finding.verdict, ran) == (Verdict.PASS, True)


# what is wanted


def test_what_is_not_declared_does_not_apply_and_nobody_looks():
    case = Case(subject=BOX, wanted=NotDeclared(fact="the profile says nothing"))
    run = runner(probe(), check(cases=[case]))
    finding = run.judge("t.size.enough", BOX)
    assert (finding.verdict, finding.says) == (Verdict.NOT_APPLICABLE, "the profile says nothing")
    assert not run.recorder.named("opened")
    assert not run.applies("t.size.enough", BOX)


def test_a_missing_expectation_is_unknown_and_says_how_to_get_one():
    case = Case(subject=BOX, wanted=Missing(says="nobody has measured it", remedy="measure it"))
    finding = judged(probe(), check(cases=[case]))
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert finding.remedy == "measure it"


def test_a_check_without_a_single_subject_does_not_apply():
    finding = judged(probe(), check(cases=[]))
    assert finding.verdict is Verdict.NOT_APPLICABLE


# the premise


@pytest.mark.parametrize(
    ("card", "verdict", "reason"),
    [
        (Card(model="H100"), Verdict.PASS, None),
        (Card(model="H200"), Verdict.UNKNOWN, Reason.PREMISE_CHANGED),
        (Card(model=Unseen(Blind.PERMISSION, "p")), Verdict.PASS, None),
        (Unseen(Blind.ABSENT, "no card"), Verdict.UNKNOWN, Reason.PREMISE_CHANGED),
    ],
    ids=["the same kind", "another kind", "cannot be compared", "gone"],
)
def test_a_number_counts_only_on_what_it_was_measured_on(card, verdict, reason):
    # nobody else has looked at the card when this check is judged
    case = wanted(basis=Basis.MEASURED, premise={"card": {"model": "H100"}})
    finding = judged(
        probe(), probe("t.card", Card, lambda _w, _t: card, always=True), check(cases=[case])
    )
    assert (finding.verdict, finding.reason) == (verdict, reason)
    if reason:
        assert "measured on another card" in finding.says
        assert "preflight accept" in finding.remedy


def measured(value, model):
    source = f"measured on {model}"
    premise = {"card": {"model": model}}
    return Wanted(value=value, basis=Basis.MEASURED, source=source, premise=premise)


@pytest.mark.parametrize(
    ("model", "verdict", "source"),
    [
        ("H100", Verdict.PASS, "measured on H100"),
        ("H200", Verdict.FAIL, "measured on H200"),
        ("B200", Verdict.UNKNOWN, ""),
        (None, Verdict.UNKNOWN, ""),
    ],
)
def test_of_several_measured_values_the_one_of_this_kind_counts(model, verdict, source):
    card = Card(model=Unseen(Blind.PERMISSION, "p") if model is None else model)
    case = Case(subject=BOX, wanted=measured(5, "H100"), others=(measured(6, "H200"),))
    card_probe = probe("t.card", Card, lambda _w, _t: card, always=True)
    finding = judged(probe(), card_probe, check(cases=[case]))
    assert (finding.verdict, finding.source) == (verdict, source)
    if verdict is Verdict.UNKNOWN:
        # which of the two this is cannot be read: that is no change
        changed = Reason.PREMISE_CHANGED if model else Reason.NOT_OBSERVABLE
        assert finding.reason is changed


def test_what_was_measured_comes_before_what_a_data_sheet_says_of_the_same_kind():
    def found(model, said):
        sheet = Wanted(value=said, basis=Basis.SPECIFICATION, source="data sheet")
        case = Case(subject=BOX, wanted=sheet, others=(measured(5, "H100"),))
        card = probe("t.card", Card, lambda _w, _t: Card(model=model), always=True)
        return judged(probe(), card, check(cases=[case]))

    assert found("H100", 6).source == "measured on H100"
    assert found("H100", 6).confirmed
    # of another kind nobody has measured it: the data sheet is all that there is
    assert found("H200", 5).source == "data sheet"
    assert not found("H200", 5).confirmed


def test_a_finding_says_in_a_word_of_its_own_why_it_could_not_be_seen():
    blind = probe("t.size", read=lambda _w, _t: Unseen(Blind.PERMISSION, "/x may not be read"))
    assert judged(blind, check(cases=[wanted()])).blind is Blind.PERMISSION
    assert judged(probe(), check(cases=[wanted()])).blind is None


def test_what_was_measured_on_another_kind_is_kept_so_that_it_can_be_accepted():
    case = Case(subject=BOX, wanted=measured(5, "H100"))
    card = probe("t.card", Card, lambda _w, _t: Card(model="H200"), always=True)
    finding = judged(probe(), card, check(cases=[case]))
    assert finding.reason is Reason.PREMISE_CHANGED
    assert finding.observed == {"size_bytes": 5}


# cause before symptom


def blocked(cause_cases):
    cause = check("t.cause.x", cases=cause_cases)
    return runner(probe(), cause, check(blocked_by=("t.cause.x",)))


def test_what_another_finding_explains_is_blocked_by_it_and_not_even_looked_at():
    run = blocked([wanted(6)])
    finding = run.judge("t.size.enough", BOX)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.BLOCKED_BY)
    assert finding.blocked_by == "t.cause.x [box]"
    assert "explained by t.cause.x [box]" in finding.says
    assert finding.remedy.startswith("mend t.cause.x [box] first")


def test_a_cause_that_passes_or_could_not_be_told_blocks_nothing():
    assert blocked([wanted(5)]).judge("t.size.enough", BOX).verdict is Verdict.PASS
    unseen = [Case(subject=BOX, wanted=Missing(says="s", remedy="r"))]
    assert blocked(unseen).judge("t.size.enough", BOX).verdict is Verdict.PASS


def test_the_fault_of_one_subject_explains_nothing_of_another():
    def judge(subject):
        cases = [wanted(6, subject="bad"), wanted(5, subject="good")]
        work = probe(targets=("bad", "good"))
        cause = check("t.cause.x", cases=cases)
        checked = check(cases=[wanted(5, subject=subject)], blocked_by=("t.cause.x",))
        return runner(work, cause, checked).judge("t.size.enough", subject)

    assert judge("bad").blocked_by == "t.cause.x [bad]"
    assert judge("good").verdict is Verdict.PASS


def test_one_of_several_causes_is_enough():
    run = blocked([wanted(5, subject="a"), wanted(6, subject="b")])
    assert "t.cause.x [b]" in run.judge("t.size.enough", BOX).says


# controls

WRONG = [
    ((), "no pair"),
    (PAIR[:1], "no pair"),
    (PAIR[1:], "no pair"),
    ((*PAIR, Control(seen=(GOOD,), wanted=4, fails="too-small")), "control 3 gave 'pass'"),
    ((*PAIR, Control(seen=(GOOD,), wanted=6, fails="")), "control 3 gave 'too-small'"),
]


@pytest.mark.parametrize(("controls", "detail"), WRONG)
def test_a_check_whose_control_comes_out_wrong_is_not_believed(controls, detail):
    run = runner(probe(), check(controls=controls))
    finding = run.judge("t.size.enough", BOX)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.CONTROL_PASSED)
    assert detail in finding.says
    assert not run.recorder.named("opened"), "nobody looks for a check that is not believed"


def test_a_control_that_fails_for_another_cause_is_wrong():
    def judge(seen, wanted_bytes):
        return fail("other", "x", remedy="r") if seen.size_bytes < wanted_bytes else ok("x")

    made = check(judge=judge)
    assert not run_controls(made).good, "the judge names a cause that it does not declare"


def test_without_controls_the_check_is_judged_all_the_same():
    run = runner(probe(), check(controls=()), with_controls=False)
    assert run.judge("t.size.enough", BOX).verdict is Verdict.PASS
    assert not run.recorder.named("controlled")


def test_controls_are_judged_once_for_all_subjects():
    cases = [wanted(subject=name) for name in ("a", "b", "c")]
    run = runner(probe(targets=["a", "b", "c"]), check(cases=cases))
    for name in ("a", "b", "c"):
        run.judge("t.size.enough", name)
    assert run.recorder.named("controlled") == ["t.size.enough"]


# judges


@pytest.mark.parametrize(
    "judge",
    [
        lambda *_: 1 / 0,
        lambda *_: None,
        lambda *_: fail("undeclared", "x", remedy="r"),
        lambda *_: ok("x", observed={"a": float("nan")}),
        lambda *_: ok("x", observed={"a": object()}),
    ],
    ids=["raises", "gives nothing", "undeclared cause", "NaN", "no data"],
)
def test_a_judge_with_a_bug_hides_nothing_and_is_never_green(judge):
    finding = judged(probe(), check(judge=judge), with_controls=False)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.LOST)
    assert "report" in finding.remedy


def test_a_judge_may_say_that_it_cannot_tell_or_that_it_does_not_apply():
    def tell(judgement):
        return judged(probe(), check(judge=lambda *_: judgement), with_controls=False)

    finding = tell(unknown(Reason.NOT_OBSERVABLE, "cannot"))
    assert (finding.verdict, finding.basis, finding.source) == (Verdict.UNKNOWN, None, "")
    assert tell(not_applicable("a fact")).verdict is Verdict.NOT_APPLICABLE


# replay


class Nowhere(World):
    """A world that must not be touched."""

    def __init__(self):
        """Touch nothing."""

    def __getattribute__(self, name):
        raise AssertionError(f"the world was touched: {name}")


def recorded(**observations):
    return {
        (name.replace("_", "."), BOX): Observation(
            probe=name.replace("_", "."), subject=BOX, seen=seen, elapsed_s=0.5
        )
        for name, seen in observations.items()
    }


def replayed(seen=None, end="complete", **observations):
    held = recorded(t_size=seen, **observations) if seen else recorded(**observations)
    return runner(probe(), check(), world=Nowhere(), recorded=held, recorded_end=end)


def test_a_replay_judges_what_was_recorded_and_touches_nothing():
    finding = replayed(Size(size_bytes=4, text="")).judge("t.size.enough", BOX)
    assert finding.verdict is Verdict.FAIL


def test_a_replay_of_what_was_not_recorded_is_unknown():
    finding = replayed().judge("t.size.enough", BOX)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "the ledger holds no observation" in finding.says
    finding = replayed(end="interrupted").judge("t.size.enough", BOX)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.LOST)


def test_a_replay_of_an_older_ledger_says_which_field_it_lacks():
    half = object.__new__(Size)
    object.__setattr__(half, "text", "")
    finding = replayed(half).judge("t.size.enough", BOX)
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "Size.size_bytes was not recorded" in finding.says


def test_a_replay_gives_the_observations_of_the_original_on():
    run = replayed(GOOD)
    run.judge("t.size.enough", BOX)
    (kept,) = run.observations.values()
    assert write_observation(kept) == write_observation(recorded(t_size=GOOD)["t.size", BOX])


def test_the_registry_refuses_what_is_no_check():
    registry = Registry()
    registry.add_probe(probe())
    with pytest.raises(ValueError, match="name of its own"):
        registry.add_probe(probe())
    with pytest.raises(ValueError, match="another probe"):
        registry.add_probe(probe("t.other"))
    with pytest.raises(ValueError, match="dotted"):
        registry.add_check(check("size"))
