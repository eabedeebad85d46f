"""`preflight adopt`: measures this box and writes a profile for it, which nobody stands for yet."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from checks import __version__
from checks.core.errors import InputError, PreflightError, UsageError
from checks.core.expectation import Expected
from checks.core.facts import BOX, Blind, Facts, Observation, Unseen
from checks.core.finding import Finding
from checks.core.fingerprint import Part, family, slots_of
from checks.core.load import LOCAL_HOST, load_host
from checks.core.paths import HOST_NAME, expected_folders, ledger_folder, own_folder, user_path
from checks.core.profile import LOCAL, Profile
from checks.core.profile_text import Draft, profile_text
from checks.core.reader import read_document
from checks.core.registry import Registry, load_areas
from checks.core.runner import ControlOutcome, Runner
from checks.core.toml import parse_toml
from checks.core.world import World
from checks.machine.facts import Devices, Gpus, Identity, Memory, Numa, Processor
from checks.machine.judge.memory import KERNEL_RESERVE_BYTES, MEMORY_TOLERANCE_RATIO
from checks.report.text import visible
from checks.verbs.codes import COULD_NOT_TELL, NO, YES
from checks.verbs.files import RefusedError, content, held, put_back, write
from checks.verbs.ledgers import add_folder
from checks.verbs.shared import FOLDERS, complain, say

F = TypeVar("F", bound=Facts)
GIB = 2**30
PLUGGED = ("gpu", "disk", "nic")
"""Components that a bus lists: where there are some, nobody may leave them unlooked at."""


class BlindError(Exception):
    """What was asked for could not be seen."""

    def __init__(self, why: Unseen) -> None:
        """Keep the reason."""
        super().__init__(str(why))
        self.why = why


class Seen:
    """What the probes saw of the box as a whole."""

    def __init__(self, registry: Registry, observations: Iterable[Observation]) -> None:
        """Keep it by the type of its facts."""
        seen = {one.probe: one.seen for one in observations if one.subject == BOX}
        self._facts = {probe.sees: seen.get(probe.name) for probe in registry.probes.values()}

    def of(self, kind: type[F]) -> F:
        """Give the facts of this type.

        Raises:
            BlindError: they could not be seen.

        """
        facts = self._facts.get(kind)
        if isinstance(facts, kind):
            return facts
        nobody = Unseen(Blind.NOT_ASKED, f"nothing looked at {kind.__name__}")
        raise BlindError(facts if isinstance(facts, Unseen) else nobody)


# what is detected: each gives a value, or why there is none


def _memory_total(seen: Seen) -> int:
    """Give what is fitted, where that is what MemTotal says; else MemTotal.

    A virtual machine has no modules; a container may be shown less than its host has.
    """
    memory = seen.of(Memory)
    fitted = memory.fitted_bytes
    if isinstance(fitted, Unseen) or seen.of(Identity).hypervisor != "none":
        return memory.total_bytes
    nominal = round(fitted / GIB) * GIB
    slack = max(nominal * MEMORY_TOLERANCE_RATIO, KERNEL_RESERVE_BYTES)
    return nominal if abs(nominal - memory.total_bytes) <= slack else memory.total_bytes


def _gpus(seen: Seen) -> int | Unseen:
    """Count the GPUs of the PCI bus, where the driver lists all of them that are its own."""
    gpus, driver = seen.of(Gpus), seen.of(Devices).nvidia_driver
    if isinstance(driver, Unseen):
        return driver
    own = [gpu.address for gpu in gpus.of("nvidia") if not gpu.lent]
    listed = gpus.nvidia_listed
    if isinstance(listed, Unseen):
        if listed.reason is not Blind.ABSENT:
            return listed
        listed = ()
    known = [address for address in own if address in listed]
    loaded = "no driver of NVIDIA is loaded" if driver == "none" else f"driver {driver} is loaded"
    # where all are kept for virtual machines, whether the driver is loaded does not matter
    other = driver == "none" if own else driver != "none" and not gpus.of("nvidia")
    if known != own or other:
        says = f"{len(own)} of NVIDIA on the PCI bus, {len(known)} known to the driver ({loaded})"
        remedy = "find out which is right (`lspci -d 10de:`, `dmesg | grep NVRM`), adopt again"
        return Unseen(Blind.AMBIGUOUS, says, remedy)
    return len(gpus.gpus)


DETECTED: Mapping[str, Callable[[Seen], object]] = {
    "architecture": lambda seen: seen.of(Identity).architecture,
    "virtualization": lambda seen: seen.of(Identity).hypervisor,
    "container": lambda seen: seen.of(Identity).container,
    "product_name": lambda seen: seen.of(Identity).product_name,
    "memory_total_bytes": _memory_total,
    "cpu_model": lambda seen: seen.of(Identity).cpu_model,
    "cpus": lambda seen: seen.of(Processor).online_cpus,
    "numa_nodes": lambda seen: max(len(seen.of(Numa).nodes), 1),
    "gpus": _gpus,
}
"""Key of the profile's [hardware] = how it is detected.

Of one that [hardware] does not have, only that its sources disagree is worth a word.
"""


def detected(seen: Seen) -> dict[str, object]:
    """Detect every key: its value, or why there is none."""
    found: dict[str, object] = {}
    for key, detect in DETECTED.items():
        try:
            found[key] = detect(seen)
        except BlindError as error:
            found[key] = error.why
    return found


def may_go_without(
    findings: Iterable[Finding], parts: Mapping[str, Part], user: str
) -> dict[str, str]:
    """Name the checks that this user lacks a permission for, each with what would show it.

    Never one of what a bus lists: that it cannot be looked at is no reason to trust it.
    """
    found: dict[str, str] = {}
    for finding in findings:
        plugged = any(
            slot != family(slot)
            for name in PLUGGED
            if name in map(family, finding.premise)
            for slot in slots_of(name, parts)
        )
        if finding.blind is Blind.PERMISSION and finding.subject == BOX and not plugged:
            needs = f"; needs: {finding.remedy}" if finding.remedy else ""
            found.setdefault(finding.check, f"{finding.says} ({user}){needs}")
    return found


# the verb


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    add_folder(parser)
    parser.add_argument("host", metavar="NAME", help="what to call this box from now on")
    parser.add_argument("--expected", metavar="DIR", action="append", default=[], help=FOLDERS)
    parser.add_argument(
        "--force",
        action="store_true",
        help="write it although there is one; the old one is kept beside it",
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="look at a recorded tree of another box instead of this one, for rehearsals",
    )


def run(given: argparse.Namespace) -> int:
    """Look at the box, write its profile, and say what nobody stands for yet."""
    host: str = given.host
    if not HOST_NAME.fullmatch(host):
        wanted = "letters, digits, dot, underscore and hyphen, at most 63"
        raise UsageError(f"{host!r} is not a host's name; wanted: {wanted}")
    if host == LOCAL_HOST:
        raise UsageError(f"`{LOCAL_HOST}` is what every box without a profile is called; name it")
    own = own_folder(given.expected)
    path = own / "hosts" / f"{host}.toml"
    try:
        _free(given, path)
        return _adopt(given, path)
    except RefusedError as error:
        complain(str(error))
        return NO


def _free(given: argparse.Namespace, path: Path) -> None:
    """See that the name is free, or that it may be taken.

    Raises:
        RefusedError: a host of this name has a profile.

    """
    named = [folder / "hosts" / path.name for folder in expected_folders(given.expected)]
    taken = next((one for one in (path, *named) if os.path.lexists(one)), None)
    if taken is not None and not given.force:
        what = "kept beside the new one" if taken == path else f"hidden by {path}"
        raise RefusedError(f"{taken}: is there already; with --force it is {what}")


def _adopt(given: argparse.Namespace, path: Path) -> int:
    registry = load_areas()
    root = user_path(given.root) if given.root else Path("/")
    ledgers = ledger_folder(given.ledger_dir) / path.stem
    world = World(root, ledger_folder=str(ledgers.absolute()))
    look = _runner(registry, world, LOCAL, path.name)
    for probe in registry.probes.values():
        if not probe.load and probe.read is not None and BOX in probe.targets(LOCAL):
            look.observe(probe, BOX)
    user = f"uid {os.geteuid()}"
    found = detected(Seen(registry, look.observations.values()))
    tree = "" if world.live else f" in the recorded tree {root}"
    day = datetime.now(timezone.utc).date().isoformat()
    about = (
        f"adopted from what preflight {__version__} saw{tree} on {day} (UTC) as {user}. Nobody "
        "stands for it yet."
    )
    draft = Draft(host=path.stem, about=about, found=found, optional={})
    findings, parts = _judged(registry, world, draft, path)
    optional = may_go_without(findings, parts, user)
    draft = Draft(host=path.stem, about=about, found=found, optional=optional)
    aside = _write(given, path, profile_text(draft).encode())
    say(visible(f"wrote {path}"))
    if aside is not None:
        say(visible(f"kept the old one as {aside}"))
    return _told(given, draft)


def _runner(registry: Registry, world: World, profile: Profile, file: str) -> Runner:
    return Runner(
        registry=registry,
        expected=Expected(profile=profile, profile_file=file),
        recorder=_Forgetful(),
        world=world,
    )


class _Forgetful:
    """Takes the place of a journal: what adopt sees goes into no ledger."""

    def opened(self, probe: str, subjects: Iterable[str]) -> None:
        """Forget it."""

    def seen(self, observation: Observation) -> None:
        """Forget it."""

    def controlled(self, outcome: ControlOutcome) -> None:
        """Forget it."""

    def found(self, finding: Finding, elapsed_s: float, *, answers: str = "") -> None:
        """Forget it."""


def _judged(
    registry: Registry, world: World, draft: Draft, path: Path
) -> tuple[list[Finding], Mapping[str, Part]]:
    """Judge every check against the new profile, as a run would."""
    profile = read_document(Profile, parse_toml(profile_text(draft).encode(), path.name))
    runner = _runner(registry, world, profile, path.name)
    for check in registry.checks.values():
        for case in runner.cases(check):
            runner.judge_all(check.name, case.subject)
    runner.look_at_components()
    return list(runner.findings.values()), runner.fingerprint()


def _write(given: argparse.Namespace, path: Path, text: bytes) -> Path | None:
    """Write the profile, and read it back; give where the old one is kept, if there was one."""
    with held(path.parent, write=True):
        _free(given, path)  # somebody may have been quicker
        before = content(path)
        aside = None if before is None else _aside(path)
        if aside is not None:
            write(aside, None, before or b"")
        write(path, before, text)
        try:
            load_host(path.stem, expected_folders(given.expected), load_areas().units())
        except InputError as error:
            put_back(path, before)
            if aside is not None:
                aside.unlink()
            raise PreflightError(f"{error}\nthe profile was not written") from error
    return aside


def _aside(path: Path) -> Path:
    """Find a name that is free, and that is no profile's."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        if not os.path.lexists(aside):
            return aside
        number += 1


def _told(given: argparse.Namespace, draft: Draft) -> int:
    """Say what was assumed, what was left out and why, and what comes next."""
    say(f"assumed   {', '.join(draft.hardware())}")
    read = draft.read()
    apart = {
        key: why
        for key, why in draft.found.items()
        if isinstance(why, Unseen) and why.reason is Blind.AMBIGUOUS
    }
    for key, why in read.items():
        if isinstance(why, Unseen) and key not in apart:
            say(visible(f"left out  {key}: {why}"))
    for check, reason in draft.optional.items():
        say(visible(f"optional  {check}: {reason}"))
    host = draft.host
    more = [word for folder in given.expected for word in ("--expected", folder)]
    more += ["--ledger-dir", given.ledger_dir] if given.ledger_dir else []
    root = ["--root", given.root] if given.root else []
    say(f"next: {shlex.join(['preflight', 'run', '--host', host, *more, *root])}")
    ledger = "LEDGER" if root else host
    say(f"then: {shlex.join(['preflight', 'accept', ledger, *more])}")
    for key, why in apart.items():
        assert isinstance(why, Unseen)  # noqa: S101 - as chosen above
        complain(f"{key} left out, for its sources disagree: {why.detail}; {why.remedy}")
    return COULD_NOT_TELL if apart else YES
