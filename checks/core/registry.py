"""What exists: probes, checks and their controls. One line each registers them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field as dataclass_field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from checks.core.facts import BOX, Facts, Unseen
from checks.core.scope import AREAS, area_of

if TYPE_CHECKING:
    from checks.core.expectation import Case, Expected
    from checks.core.finding import Judgement
    from checks.core.profile import Profile
    from checks.core.world import World

_ID = re.compile(r"[a-z0-9]+(\.[a-z0-9-]+)+")

Read = Callable[["World", Any], "Facts | Unseen"]
Targets = Callable[["Profile"], Mapping[str, Any]]
Judge = Callable[..., "Judgement | Mapping[str, Judgement]"]
Cases = Callable[["Expected"], "Iterable[Case[Any]]"]


def _box(_: Profile) -> Mapping[str, Any]:
    return {BOX: None}


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Something that looks at the world: its name, what it gives, and how long it may take."""

    name: str
    sees: type[Facts]
    read: Read | None
    """None for what the run itself hands over (the previous ledger)."""
    targets: Targets
    """Subject = what `read` gets, from the profile."""
    deadline_s: float
    always: bool = False
    """Whether it is looked at even where no check asks for it: it describes components."""
    load: str = ""
    """What it puts on the box while it looks, in words for a report; empty: nothing to speak of."""
    activity: bool = False
    """Whether it tells what the box is busy with."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What of a finding `preflight accept` may turn into an expectation."""

    quantity: str
    """Its name among what was observed."""
    unit: str
    """UCUM: By, s, W, 1; empty for a text, which has to be the same again."""
    lower_ratio: float | None = None
    """How far below the accepted number a later one may lie, as a ratio of it; None: any."""
    upper_ratio: float | None = None
    bound: str = ""
    """Name, among what was observed or expected, of what the number cannot exceed by nature."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """An observation for which the outcome is known beforehand."""

    seen: tuple[Facts, ...]
    wanted: Any
    fails: str
    """The cause with which the judge must fail; empty where it must pass."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property that is judged."""

    name: str
    title: str
    """One line: the first of the judge's docstring."""
    explanation: str
    """The judge's docstring, as `preflight explain` prints it."""
    sees: tuple[type[Facts], ...]
    cases: Cases
    judge: Judge
    premise: tuple[str, ...]
    causes: Mapping[str, str]
    blocked_by: tuple[str, ...]
    measures: Measure | None = None
    """What a measured expectation may say of it; None: it takes none."""
    finds: str = ""
    """Where its subjects are found by looking, and not in the profile: what to say if there are none."""
    controls: list[Control] = dataclass_field(default_factory=list)

    @property
    def area(self) -> str:
        """First part of the id."""
        return area_of(self.name)


def facts_name(kind: type[Facts]) -> str:
    """Name a facts class as ledgers do: its area and its own name, such as `machine.Memory`."""
    area = kind.__module__.removeprefix("checks.").partition(".")[0]
    return f"{area}.{kind.__name__}"


class Registry:
    """All probes and checks, by name."""

    def __init__(self) -> None:
        """Start empty."""
        self.probes: dict[str, Probe] = {}
        self.checks: dict[str, Check] = {}

    def probe_of(self, facts: type[Facts]) -> Probe:
        """Find the probe that gives facts of this type."""
        return next(probe for probe in self.probes.values() if probe.sees is facts)

    def facts_named(self, name: str) -> type[Facts] | None:
        """Find a facts class by the name that a ledger gives."""
        return next((p.sees for p in self.probes.values() if facts_name(p.sees) == name), None)

    def units(self) -> dict[str, str | None]:
        """Give the unit of what may be measured for each check; None where it takes nothing."""
        return {
            check.name: check.measures.unit if check.measures else None
            for check in self.checks.values()
        }

    def load_of(self, check: Check) -> str:
        """Say what a check puts on the box; empty: nothing to speak of."""
        loads = (self.probe_of(kind).load for kind in check.sees)
        return ", ".join(dict.fromkeys(load for load in loads if load))

    def add_probe(self, probe: Probe) -> None:
        """Register a probe; a second one of the same name, or for the same facts, is a bug."""
        if not _ID.fullmatch(probe.name) or probe.name in self.probes:
            raise ValueError(f"probe {probe.name!r}: wants a dotted name of its own")
        if self.facts_named(facts_name(probe.sees)):
            raise ValueError(f"{probe.sees.__name__} already comes from another probe")
        if not is_dataclass(probe.sees) or any(
            f.default is not f.default_factory for f in fields(probe.sees)
        ):
            raise ValueError(f"{probe.sees.__name__}: facts are dataclasses without defaults")
        if probe.sees.components is not Facts.components and not probe.always:
            # else its parts would seem removed in a run that asks for none of its checks
            raise ValueError(f"probe {probe.name!r}: describes components, so wants always=True")
        self.probes[probe.name] = probe

    def add_check(self, check: Check) -> None:
        """Register a check; a second one of the same name, or one without text, is a bug."""
        if not _ID.fullmatch(check.name) or check.name in self.checks:
            raise ValueError(f"check {check.name!r}: wants a dotted id of its own")
        if not check.title or not check.causes:
            raise ValueError(f"check {check.name}: wants a docstring and causes")
        self.checks[check.name] = check


REGISTRY = Registry()
"""The one that the decorators fill."""


def probe(
    name: str,
    *,
    sees: type[Facts],
    targets: Targets | None = None,
    deadline_s: float = 5.0,
    always: bool = False,
    load: str = "",
    activity: bool = False,
) -> Callable[[Read], Read]:
    """Register a function that looks at the world, once for each target of the profile.

    Args:
        name: dotted name of the probe.
        sees: the facts that it gives.
        targets: subjects, and what it gets for each; without: the box as a whole.
        deadline_s: after this its child is ended.
        always: look even where no check asks for it; for quick and quiet probes that describe
            components.
        load: what it puts on the box, in words: it is left out by --quick, and of a busy box.
        activity: it tells what the box is busy with (`Facts.busy`).

    """

    def register(read: Read) -> Read:
        REGISTRY.add_probe(
            Probe(
                name=name,
                sees=sees,
                read=read,
                targets=targets or _box,
                deadline_s=deadline_s,
                always=always,
                load=load,
                activity=activity,
            )
        )
        return read

    return register


def supplied(name: str, *, sees: type[Facts]) -> None:
    """Register facts that the run itself hands over, such as the previous ledger."""
    REGISTRY.add_probe(
        Probe(
            name=name,
            sees=sees,
            read=None,
            targets=_box,
            deadline_s=0.0,
        )
    )


def check(
    name: str,
    *,
    sees: type[Facts] | tuple[type[Facts], ...],
    cases: Cases,
    causes: Mapping[str, str],
    premise: tuple[str, ...] = (),
    blocked_by: tuple[str, ...] = (),
    measures: Measure | None = None,
    finds: str = "",
) -> Callable[[Judge], Judge]:
    """Register a judge.

    Args:
        name: dotted id, the same in code, ledger, expectations and documentation.
        sees: facts classes that the judge takes, in the order of its arguments.
        cases: the subjects and what is wanted of each, from the profile and measured numbers.
        causes: slug of each way to fail, with its text.
        premise: components of the fingerprint that the verdict rests on.
        blocked_by: checks that explain this one when they fail.
        measures: what may be measured and accepted for it; without: nothing.
        finds: for a judge that gives a mapping, subject to judgement, of what its probe found:
            what to say where that is empty, such as `no GPU on this box`.

    """

    def register(judge: Judge) -> Judge:
        text = inspect.cleandoc(judge.__doc__ or "")
        REGISTRY.add_check(
            Check(
                name=name,
                title=text.partition("\n")[0],
                explanation=text,
                sees=sees if isinstance(sees, tuple) else (sees,),
                cases=cases,
                judge=judge,
                premise=premise,
                causes=causes,
                blocked_by=blocked_by,
                measures=measures,
                finds=finds,
            )
        )
        return judge

    return register


def control(
    name: str,
    seen: Facts | tuple[Facts, ...],
    wanted: object = None,
    *,
    fails: str = "",
    passes: bool = False,
) -> None:
    """Add a planted observation: the nearest that must fail, or the nearest that must pass."""
    declared = REGISTRY.checks[name]
    if bool(fails) == passes:
        raise ValueError(f"control of {name}: say either fails=CAUSE or passes=True")
    if fails and fails not in declared.causes:
        raise ValueError(f"control of {name}: {fails!r} is no cause of it")
    facts = seen if isinstance(seen, tuple) else (seen,)
    declared.controls.append(Control(seen=facts, wanted=wanted, fails=fails))


def load_areas() -> Registry:
    """Import every area, so that its probes, checks and controls are registered."""
    for area in AREAS:
        for room in ("probe", "judge", "controls"):
            module = importlib.import_module(f"checks.{area}.{room}")
            for topic in pkgutil.iter_modules(getattr(module, "__path__", ())):
                importlib.import_module(f"{module.__name__}.{topic.name}")
    return REGISTRY
