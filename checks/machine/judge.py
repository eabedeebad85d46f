"""What is right and wrong about the machine: pure functions.

Each docstring is what `preflight explain` prints.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from checks.core.expectation import Basis, Case, Expected, Missing, NotDeclared, Wanted
from checks.core.facts import BOX, Access, Blind, NotRecordedError, Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.registry import check
from checks.core.units import bytes_text, span_text
from checks.core.verdict import Reason
from checks.engines.threads import (
    Asked,
    asked_for,
    engine_in,
    is_engine,
    is_wrapper,
    limiter_in,
    names_of,
    starts,
)
from checks.machine.facts import (
    Clock,
    Cpu,
    Folder,
    History,
    Identity,
    Memory,
    MemoryWanted,
    Moment,
    Process,
    RoomWanted,
    Threads,
)
from checks.machine.hub import ELSEWHERE, declared_caches, is_hub_model

V = TypeVar("V")

MIB = 2**20
CLOCK_SLACK_S = 60.0
"""Clocks that are set by hand or by a network may differ by this much and nothing is wrong."""
MEMORY_TOLERANCE_RATIO = 0.03
KERNEL_RESERVE_BYTES = 600 * MIB
"""What a kernel may keep of a small machine's memory; no memory module is this small (assumed)."""
FITTED_TOLERANCE_RATIO = 0.005
"""What firmware may keep for itself; the most that is known is 16 bytes for each 4 KiB, the table
of page owners of AMD's SEV-SNP (AMD64 Architecture Programmer's Manual, volume 2, 15.36.3)."""
FITTED_TOLERANCE_BYTES = 4 * 1024 * MIB
"""Two of the largest memory blocks of x86 (2 GiB, MAX_BLOCK_SIZE of arch/x86/mm/init_64.c)."""
RUN_BYTES = 4 * MIB
"""What one run writes at most: a ledger under 1 MB, its journal, and the copy before the rename."""
USABLE_BYTES = MIB
OFTEN_RATIO = 0.5
"""Stopped in more of the periods than this, a place has too little CPU, whatever else was read."""
MOST_NAMED = 8
"""Processes that the evidence names."""
USABLE_INODES = 64


def _if_recorded(read: Callable[[], V]) -> V | Unseen:
    """Read a fact that earlier versions did not record, and whose lack leaves the rest judged."""
    try:
        return read()
    except NotRecordedError as error:
        return Unseen(Blind.NOT_RECORDED, str(error))


# Identity


def _declared(expected: Expected, key: str) -> Iterator[Case[str]]:
    """Compare one text of the profile's [hardware] with what is there."""
    value = getattr(expected.profile.hardware, key)
    if value is None:
        yield Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
        return
    yield Case(subject=BOX, wanted=_hardware(expected, key, value))


def _hardware(expected: Expected, key: str, value: V) -> Wanted[V]:
    assumed = key in expected.profile.hardware.assumed
    return Wanted(
        value=value,
        basis=Basis.ASSUMED if assumed else Basis.DECLARED,
        source=f"{expected.profile_file}: hardware.{key}",
    )


def _same_text(what: str, seen: str | Unseen, wanted: str, *, same: bool) -> Judgement:
    if isinstance(seen, Unseen):
        return unknown(Reason.NOT_OBSERVABLE, f"{what} not seen: {seen}", remedy=seen.remedy)
    if same:
        return ok(f"{what} is {seen}", observed={"name": seen}, expected={"name": wanted})
    return fail(
        "not-as-declared",
        f"{what} is {seen}, declared is {wanted}",
        remedy=f"if this is the right box, correct hardware in its profile; if not, run with "
        f"--host of the box that you are on; rerun and see {what} pass",
        observed={"name": seen},
        expected={"name": wanted},
    )


@check(
    "machine.identity.architecture",
    sees=Identity,
    cases=lambda expected: _declared(expected, "architecture"),
    premise=("board",),
    causes={"not-as-declared": "the box has another processor architecture than its profile says"},
)
def architecture_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The processor architecture is the declared one.

    Looks at `uname -m`. Fails where the profile's hardware.architecture names another.
    What to do: check that you are on the box that --host names.
    """
    here = seen.architecture
    return _same_text("architecture", here, wanted, same=here == wanted)


@check(
    "machine.identity.product",
    sees=Identity,
    cases=lambda expected: _declared(expected, "product_name"),
    premise=("board",),
    causes={
        "not-as-declared": "the system board calls itself something else than the profile says"
    },
)
def product_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The system board is the declared product.

    Looks at /sys/class/dmi/id/product_name (no root needed). Fails where the profile's
    hardware.product_name is another. What to do: check that you are on the box that --host names;
    after a planned swap of the board, correct the profile.
    """
    here = seen.product_name
    return _same_text("product", here, wanted, same=here == wanted)


@check(
    "machine.identity.virtualization",
    sees=Identity,
    cases=lambda expected: _declared(expected, "virtualization"),
    premise=("board",),
    causes={"not-as-declared": "the box runs on another hypervisor, or on none, than declared"},
)
def virtualization_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The box is the declared kind of machine: bare metal, or a virtual machine.

    Looks at the CPU's hypervisor flag, DMI names and /sys/hypervisor. `vm` in the profile's
    hardware.virtualization fits every hypervisor, `none` fits bare metal alone. Fails where they
    differ: numbers measured on bare metal mean nothing in a virtual machine.
    What to do: check that you are on the box that --host names.
    """
    here = seen.hypervisor
    any_vm = wanted == "vm" and here != "none"
    return _same_text("virtualization", here, wanted, same=here == wanted or any_vm)


@check(
    "machine.identity.container",
    sees=Identity,
    cases=lambda expected: _declared(expected, "container"),
    premise=("container",),
    causes={"not-as-declared": "the suite runs in another kind of container, or in none"},
)
def container_as_declared(seen: Identity, wanted: str) -> Judgement:
    """The suite runs in the declared kind of container, or in none.

    Looks at /.dockerenv, /run/.containerenv, the environment and the cgroup paths. `any` in the
    profile's hardware.container fits every kind, `none` fits only the host itself. Fails where
    they differ: limits that are read inside a container are not the host's.
    What to do: run the suite where the profile says, or correct hardware.container.
    """
    here = seen.container
    any_kind = wanted == "any" and here != "none"
    return _same_text("container", here, wanted, same=here == wanted or any_kind)


# Memory


def _memory_total(expected: Expected) -> Iterator[Case[MemoryWanted]]:
    hardware = expected.profile.hardware
    number = expected.number("machine.memory.total", BOX)
    if hardware.memory_total_bytes is not None:
        total = hardware.memory_total_bytes
        ratio = hardware.memory_tolerance_ratio
        slack = (
            max(total * MEMORY_TOLERANCE_RATIO, KERNEL_RESERVE_BYTES)
            if ratio is None
            else total * ratio
        )
        value = MemoryWanted(
            value=total,
            lower=total - slack,
            upper=total + slack,
            # who gives a tolerance has a reason, which holds of the modules as well
            fitted_bytes=total if ratio is None else None,
        )
        yield Case(subject=BOX, wanted=_hardware(expected, "memory_total_bytes", value))
    elif number is not None:
        wanted = Wanted(
            value=MemoryWanted(
                value=number.bounds.value,
                lower=number.bounds.lower,
                upper=number.bounds.upper,
                fitted_bytes=None,
            ),
            basis=Basis(number.basis),
            source=f"{number.source} {number.measured_at}".strip(),
            premise=number.premise,
        )
        yield Case(subject=BOX, wanted=wanted)
    else:
        fact = "not declared: hardware.memory_total_bytes"
        yield Case(subject=BOX, wanted=NotDeclared(fact=fact))


@check(
    "machine.memory.total",
    sees=(Memory, Identity),
    cases=_memory_total,
    unit="By",
    premise=("memory",),
    causes={
        "less-memory-than-declared": "memory is missing: a module that is dead, unseated, or left "
        "out, or a limit in firmware or on the kernel command line",
        "more-memory-than-declared": "the box has more memory than its profile says",
    },
)
def memory_total_as_declared(seen: Memory, box: Identity, wanted: MemoryWanted) -> Judgement:
    """All the memory that is declared is there.

    Looks at MemTotal of /proc/meminfo and at the kernel's memory blocks in sysfs. Fails where
    MemTotal is off the profile's hardware.memory_total_bytes, or off a measured number, by more
    than the tolerance: hardware.memory_tolerance_ratio, or 3 % and at least 600 MiB, since the
    kernel keeps some back. It keeps none of the memory blocks back: on bare metal these may fall
    short by 0.5 % and at least 4 GiB, so that one module of many is missed as well.
    What to do: look for the missing module in the board's own log (`ipmitool sel list`,
    `dmidecode -t memory` as root), reseat or replace it, rerun.
    """
    observed = {"memory_total_bytes": seen.total_bytes}
    expected = {
        "memory_total_bytes": wanted.value,
        "memory_min_bytes": wanted.lower,
        "memory_max_bytes": wanted.upper,
    }
    says = f"{bytes_text(seen.total_bytes)} of memory, {bytes_text(wanted.value)} wanted"
    missing = wanted.lower is not None and not seen.total_bytes >= wanted.lower
    nominal = wanted.fitted_bytes
    # a hypervisor gives what it likes, and not always all that a price list says
    if nominal is not None and not missing and box.hypervisor == "none":
        fitted = seen.fitted_bytes
        if not isinstance(fitted, Unseen):
            slack = max(nominal * FITTED_TOLERANCE_RATIO, FITTED_TOLERANCE_BYTES)
            observed["memory_fitted_bytes"] = fitted
            expected["memory_fitted_min_bytes"] = nominal - slack
            if not fitted >= nominal - slack:
                missing = True
                says = f"{bytes_text(fitted)} of memory fitted, {bytes_text(nominal)} wanted"
    if missing:
        return fail(
            "less-memory-than-declared",
            says,
            remedy="find the missing module (`dmidecode -t memory` as root, the board's event "
            "log), reseat or replace it (on a virtual machine: what the hypervisor gives it); rerun",
            observed=observed,
            expected=expected,
        )
    if wanted.upper is not None and not seen.total_bytes <= wanted.upper:
        return fail(
            "more-memory-than-declared",
            says,
            remedy="check that this is the box that --host names; then correct "
            "hardware.memory_total_bytes in its profile and rerun",
            observed=observed,
            expected=expected,
        )
    return ok(says, observed=observed, expected=expected)


def _memory_available(expected: Expected) -> Iterator[Case[int]]:
    key = "memory_available_min_bytes"
    value = getattr(expected.profile.hardware, key)
    if value is None:
        yield Case(subject=BOX, wanted=NotDeclared(fact=f"not declared: hardware.{key}"))
        return
    yield Case(subject=BOX, wanted=_hardware(expected, key, value))


@check(
    "machine.memory.available",
    sees=Memory,
    cases=_memory_available,
    blocked_by=("machine.memory.total",),
    causes={
        "memory-in-use": "something holds memory that this box's work needs",
        "memory-limited": "a cgroup leaves the suite, and what is started from where it runs, less "
        "memory than this box's work needs",
    },
)
def memory_available(seen: Memory, wanted: int) -> Judgement:
    """Enough memory is free for what the box is for.

    Looks at MemAvailable of /proc/meminfo: what can be had without swapping; and at the memory
    limits of the cgroups that the suite runs in, less what is used there and is no cached file.
    Fails where one of them is below the profile's hardware.memory_available_min_bytes.
    What to do: find what holds it (`ps aux --sort -rss | head`) and stop it, or raise the limit
    of the container or unit; rerun.
    """
    says = f"{bytes_text(seen.available_bytes)} available, {bytes_text(wanted)} wanted"
    observed = {"memory_available_bytes": seen.available_bytes}
    expected = {"memory_available_min_bytes": wanted}
    if not seen.available_bytes >= wanted:
        return fail(
            "memory-in-use",
            says,
            remedy="find what holds it (`ps aux --sort -rss | head`), stop it, and rerun",
            observed=observed,
            expected=expected,
        )
    groups = _if_recorded(lambda: seen.groups)
    if isinstance(groups, Unseen):
        if groups.reason is Blind.NOT_RECORDED:
            note = f"whether a cgroup limits memory was not seen: {groups}"
            return ok(says, observed=observed, expected=expected, notes=(note,))
        return unknown(
            Reason.NOT_OBSERVABLE,
            f"{says}; whether a cgroup leaves less was not seen: {groups}",
            remedy=groups.remedy,
            observed=observed,
            expected=expected,
        )
    evidence = tuple(
        f"{limit.source}: {bytes_text(limit.limit_bytes)}, {bytes_text(limit.used_bytes)} used, "
        f"{bytes_text(limit.file_bytes)} of it cached files"
        for limit in groups.limits
    )
    above = "cgroups above the mounted root may limit further; they cannot be seen here"
    notes = (above,) if groups.above_unseen else ()
    if groups.limits:
        least = groups.limits[0]
        observed["memory_group_left_bytes"] = least.left_bytes
        if not least.left_bytes >= wanted:
            return fail(
                "memory-limited",
                f"{bytes_text(least.left_bytes)} left by {least.source}, {bytes_text(wanted)} wanted",
                remedy=f"raise the limit {least.source} (`docker run --memory`, `resources.limits` "
                "of the pod, `MemoryMax=` of the unit), stop what else uses memory in that cgroup, "
                "or run the suite where the work will run; rerun",
                observed=observed,
                expected=expected,
                notes=notes,
                evidence=evidence,
            )
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


# CPUs and threads


def _threads(expected: Expected) -> Iterator[Case[Threads]]:
    for index, serve in enumerate(expected.profile.serve):
        yield Case(
            subject=serve.name,
            wanted=Wanted(
                value=Threads(command=serve.argv, env=serve.env, engine=serve.engine),
                basis=Basis.INVARIANT,
                source=f"{expected.profile_file}: serve[{index}]; more threads than CPUs never help",
            ),
        )
    if not expected.profile.serve:
        yield Case(subject=BOX, wanted=NotDeclared(fact="not declared: no [[serve]]"))


@check(
    "machine.cpu.threads",
    sees=Cpu,
    cases=_threads,
    premise=("cpu", "container"),
    causes={
        "more-threads-than-cpus": "the engine is told to run more threads than the affinity, cpuset "
        "or quota of its place lets run at once; the kernel stops them in every period",
        "default-exceeds-cpus": "the engine is not told how many threads to run, takes the host's "
        "cores, and its place may use fewer",
    },
)
def threads_within_cpus(seen: Cpu, wanted: Threads) -> Judgement:
    """An engine runs no more threads than the CPUs that its place may use.

    Looks at affinity, cpuset and quota of the process, unit or container that the profile names
    (`where`), over every cgroup up to the root and not rounded, and compares with the number that
    is asked for (-t, --threads, n_threads, or a variable that the engine reads, such as
    OMP_NUM_THREADS): by the processes that run there, or, with `where = "this"`, by the profile's
    command and environment. An engine that is not told takes the host's cores; a pass on that, or
    under cgroups that cannot be seen, is unconfirmed.
    Fails where more threads are asked for than CPUs may be used: 8 threads in a quota of 4 were
    measured 45 times slower than 4 (github.com/tobocop2/lilbee/pull/660).
    What to do: start the engine with the whole number below the limit, or raise the limit.
    """
    runs = _processes(seen)
    asks = _running(seen, runs, wanted) if runs else [_to_start(seen, wanted)]
    most = max(asks, key=lambda ask: (ask.threads, not ask.told))
    evidence = (
        f"looked at {seen.process} ({seen.place})",
        *_companions(seen, runs),
        *(f"{item.source}: {item.text}" for item in seen.limits),
    )
    doubt = next((ask.doubt for ask in asks if ask.doubt), None)
    if doubt and most.threads <= seen.effective_cpus:
        return replace(doubt, evidence=evidence)
    threads, limit = most.threads, seen.limits[0]
    says = f"{threads} threads ({most.words}) on {seen.effective_cpus:.2f} CPUs ({limit.source})"
    observed = {
        "effective_cpus": seen.effective_cpus,
        "affinity_cpus": seen.affinity_cpus,
        "host_cpus": seen.host_cpus,
        "host_cores": seen.host_cores,
    }
    expected = {"threads_count": threads}
    notes = _cpu_notes(seen, threads) + tuple(ask.note for ask in asks if ask.note)
    if not all(ask.sure for ask in asks):
        notes += (f"what runs in {seen.place} does not say how many; the profile's command does",)
    # an engine's default was read in its sources, and not seen here
    certain = all(ask.told and ask.sure and not ask.note for ask in asks)
    basis = None if certain else Basis.ASSUMED
    if threads > seen.effective_cpus:
        fits = max(1, math.floor(seen.effective_cpus))
        # below one CPU no number of threads fits, so both are needed
        widen = "or widen" if seen.effective_cpus >= 1 else "and widen to one CPU or more"
        return fail(
            "more-threads-than-cpus" if most.told else "default-exceeds-cpus",
            says,
            remedy=f"start it with {fits} thread{'s' if fits > 1 else ''} (llama.cpp: -t {fits}; "
            f"else OMP_NUM_THREADS={fits}), {widen} what limits it, {limit.source}; rerun",
            observed=observed,
            expected=expected,
            notes=notes,
            evidence=evidence,
            basis=basis,
        )
    return ok(
        says,
        observed=observed,
        expected=expected,
        notes=notes,
        evidence=evidence,
        basis=Basis.ASSUMED if seen.above_unseen else basis,
    )


@dataclass(frozen=True)
class _Ask:
    """How many threads something starts, and what keeps that from being the whole answer."""

    threads: int = 0
    """0: nobody can tell."""
    words: str = ""
    told: bool = True
    """False: nobody told it, so it takes its default."""
    sure: bool = True
    """False: the profile says so, and what runs does not."""
    doubt: Judgement | None = None
    """What to say where the number fits."""
    note: str = ""
    """What was left out of the number, which makes a pass unconfirmed."""


def _said(asked: Asked, seen: Cpu) -> _Ask:
    count = asked.threads or 0
    if asked.follows_affinity:
        count = max(count, seen.affinity_cpus)
    if asked.untold == "generation" and count < seen.host_cores and not asked.cut:
        words = f"{asked.words}; no number for generation, so the host's cores"
        return _Ask(seen.host_cores, words, told=False)
    doubt = None
    if asked.cut:
        doubt = unknown(
            Reason.NOT_OBSERVABLE,
            "a part of the command is hidden or cut off, and may ask for more threads",
            remedy="write the command as a list of words, without a shell around it, or put long "
            "texts and headers into files; rerun",
        )
    elif not count:
        doubt = unknown(
            Reason.NO_EXPECTATION,
            f"cannot read a number of threads from `{asked.words}`",
            remedy="write the number into the profile's command or env, and rerun",
        )
    note = ""
    if asked.untold == "prompts" and seen.host_cpus > seen.effective_cpus:
        note = (
            f"prompts are read with n_threads_batch, which is not told and takes {seen.host_cpus}, "
            "the host's CPUs; tell it as well"
        )
    return _Ask(count, asked.words, told=not asked.by_default, doubt=doubt, note=note)


def _default(seen: Cpu, *, known: bool) -> _Ask:
    """What an engine takes that is not told."""
    doubt = unknown(
        Reason.NO_EXPECTATION,
        "nobody can see how many threads it starts: a wrapper, or an engine that is not known",
        remedy="write -t or OMP_NUM_THREADS into the profile's command or env, or point `where` "
        "at the running server; rerun",
    )
    words = "no number given, so the host's cores"
    return _Ask(seen.host_cores, words, told=False, doubt=None if known else doubt)


def _to_start(seen: Cpu, wanted: Threads) -> _Ask:
    """Find what the profile would start."""
    limiter = limiter_in(wanted.command)
    if limiter:
        doubt = unknown(
            Reason.NOT_OBSERVABLE,
            f"{limiter} starts it under limits that are not those of the suite's own process",
            remedy="start it, name in the profile what runs (`where` = `container:ID`, `unit:NAME`, "
            "`port:N` or `pid:N`), and rerun",
        )
        return _Ask(doubt=doubt)
    asked = asked_for(wanted.command, wanted.env, wanted.engine)
    if asked:
        return _said(asked, seen)
    known = bool(engine_in(wanted.command)) if wanted.command else is_engine(wanted.engine)
    return _default(seen, known=known)


def _processes(seen: Cpu) -> tuple[Process, ...]:
    """Give the processes of the place, the one that leads first; none for the suite's own."""
    if isinstance(seen.command, Unseen) and seen.command.reason is Blind.NOT_ASKED:
        return ()
    leader = Process(
        process=seen.process,
        command=seen.command,
        thread_environment=seen.thread_environment,
        same_limits=True,
    )
    return (leader, *(() if isinstance(seen.others, Unseen) else seen.others))


def _running(seen: Cpu, runs: tuple[Process, ...], wanted: Threads) -> list[_Ask]:
    """Find what the processes of a place ask for: the engines, or, where none is known, any."""
    engines = [process for process in runs if _is_engine(process, wanted)]
    if engines:
        return [_asks(seen, process, wanted) for process in engines]
    asks = []
    for process in runs:
        if isinstance(process.command, Unseen):
            asks.append(_unseen(process, process.command))
        elif not is_wrapper(process.command):
            leads = process is runs[0]
            # what a helper inherited in its environment says nothing about the engine
            environment = process.thread_environment if leads else {}
            env = {} if isinstance(environment, Unseen) else environment
            asked = asked_for(process.command, env, wanted.engine)
            if asked and (leads or asked.threads or asked.cut):
                asks.append(_limited(process, _said(asked, seen)))
            elif isinstance(environment, Unseen):
                asks.append(_unseen(process, environment))
    declared = None if asks else asked_for(wanted.command, wanted.env, wanted.engine)
    if declared:
        # a wrapper, or an engine of another name: whether it does as declared, nobody has seen
        asks.append(replace(_said(declared, seen), sure=False))
    if isinstance(seen.others, Unseen) or seen.others_left_out_count or not asks:
        doubt = unknown(
            Reason.NO_EXPECTATION,
            f"nobody can see how many threads it starts: what was seen to run in {seen.place} does "
            "not say it, and none of it is known to be the engine",
            remedy="point `where` at the server itself (`pid:N`, `port:N`), or start it with -t; "
            "rerun",
        )
        asks.append(_Ask(doubt=doubt))
    return asks


def _is_engine(process: Process, wanted: Threads) -> bool:
    """Whether a process is an engine that is known, or what the profile's command starts."""
    command = process.command
    if isinstance(command, Unseen) or is_wrapper(command):
        return False
    return _is_known(command) or starts(wanted.command, names_of(command))


def _is_known(command: tuple[str, ...]) -> bool:
    """Whether a process is an engine by its own name: `tail llama-server` is none."""
    return any(is_engine(name) for name in names_of(command))


def _asks(seen: Cpu, process: Process, wanted: Threads) -> _Ask:
    """Find what an engine that runs asks for; what the profile says is not what runs."""
    command, environment = process.command, process.thread_environment
    if isinstance(command, Unseen):
        return _unseen(process, command)
    env = {} if isinstance(environment, Unseen) else environment
    asked = asked_for(command, env, wanted.engine)
    if asked:
        return _limited(process, _said(asked, seen))
    if isinstance(environment, Unseen):
        return _unseen(process, environment)
    return _limited(process, _default(seen, known=_is_known(command)))


def _limited(process: Process, ask: _Ask) -> _Ask:
    """Leave a number uncompared where it does not run under the limits that were read."""
    if process.same_limits:
        return ask
    doubt = unknown(
        Reason.NOT_OBSERVABLE,
        f"process {process.process} runs under limits of its own, which were not looked at",
        remedy=f'name it in the profile (`where = "pid:{process.process.partition(" ")[0]}"`, or by '
        "its port), and rerun",
    )
    return _Ask(doubt=doubt)


def _unseen(process: Process, why: Unseen) -> _Ask:
    says = f"not seen what {process.process} was started with: {why}"
    return _Ask(doubt=unknown(Reason.NOT_OBSERVABLE, says, remedy=why.remedy))


def _companions(seen: Cpu, runs: tuple[Process, ...]) -> tuple[str, ...]:
    """Name what else runs in the place."""
    if not runs:
        return ()
    if isinstance(seen.others, Unseen):
        return (f"what else runs there: {seen.others}",)
    others = runs[1:]
    more = len(others[MOST_NAMED:]) + seen.others_left_out_count
    names = [process.process for process in others[:MOST_NAMED]]
    names += [f"{more} more"] if more else []
    return (f"also there: {', '.join(names)}",) if names else ()


def _cpu_notes(seen: Cpu, threads: int) -> tuple[str, ...]:
    notes: list[str] = []
    if seen.above_unseen:
        notes.append("cgroups above the mounted root may limit further; they cannot be seen here")
    if seen.throttled_ratio:
        note = f"the quota stopped it in {seen.throttled_ratio:.0%} of the periods so far"
        if seen.throttled_ratio > OFTEN_RATIO and threads <= seen.effective_cpus:
            note += (
                ", although its threads fit: something else uses the same quota, or it ran with "
                "more threads before; look at what runs beside it, start it anew, and rerun"
            )
        notes.append(note)
    cores = seen.effective_cpus * seen.host_cores / seen.host_cpus
    if cores < threads <= seen.effective_cpus:
        notes.append(
            f"these CPUs are hardware threads of about {cores:.1f} cores; more may be slower"
        )
    return tuple(notes)


# Room


def _where(seen: Folder) -> str:
    if seen.looked_at == seen.path:
        return seen.path
    return f"{seen.path} (not there yet; looked at {seen.looked_at})"


def _inodes(expected: Expected) -> Iterator[Case[RoomWanted]]:
    """Wherever there has to be room, files have to be created."""
    for case in _folders(expected):
        if isinstance(case.wanted, Wanted):
            room = Wanted(
                value=case.wanted.value, basis=Basis.INVARIANT, source="a folder takes files"
            )
            yield Case(subject=case.subject, wanted=room)
        else:
            yield case


_SCATTERED = Missing(
    says="the profile's models go to several folders, or to one inside a container, as the "
    "environments and commands of [[serve]] say; which of this box's folders that is, nothing says",
    remedy="name the folder of this box in paths.model_cache, and rerun",
)


def _folders(expected: Expected) -> Iterator[Case[RoomWanted]]:
    profile = expected.profile
    declared = profile.paths.tmp_free_min_bytes
    models: dict[str, int] = {}
    for serve in profile.serve:
        if is_hub_model(serve.model) and serve.model_bytes:
            # two entries may serve one model, and it is downloaded once
            size = models.get(serve.model, serve.model_bytes)
            models[serve.model] = max(serve.model_bytes, size)
    caches = declared_caches(profile)
    if models and (caches[1:] or ELSEWHERE in caches):
        yield Case(subject="model-cache", wanted=_SCATTERED)
    elif models:
        yield Case(
            subject="model-cache",
            wanted=Wanted(
                value=RoomWanted(
                    free_bytes=0,
                    model_bytes=models,
                    inodes_free=USABLE_INODES,
                    beside_bytes={"tmp": declared or USABLE_BYTES, "ledgers": RUN_BYTES},
                    named_by="paths.model_cache, or HF_HUB_CACHE or HF_HOME of the server",
                    made_when_needed=True,
                ),
                basis=Basis.DECLARED,
                source=f"{expected.profile_file}: serve[].model_bytes",
            ),
        )
    else:
        fact = "not declared: no [[serve]] with a hub model and model_bytes"
        yield Case(subject="model-cache", wanted=NotDeclared(fact=fact))
    yield Case(
        subject="tmp",
        wanted=Wanted(
            value=RoomWanted(
                free_bytes=declared or USABLE_BYTES,
                model_bytes={},
                inodes_free=USABLE_INODES,
                beside_bytes={},
                named_by="TMPDIR or paths.tmp",
                made_when_needed=False,
            ),
            basis=Basis.DECLARED if declared else Basis.INVARIANT,
            source=f"{expected.profile_file}: paths.tmp_free_min_bytes"
            if declared
            else "a folder for temporary files takes a file",
        ),
    )
    yield Case(
        subject="ledgers",
        wanted=Wanted(
            value=RoomWanted(
                free_bytes=RUN_BYTES,
                model_bytes={},
                inodes_free=USABLE_INODES,
                beside_bytes={},
                named_by="--ledger-dir",
                made_when_needed=False,
            ),
            basis=Basis.INVARIANT,
            source="what one run writes",
        ),
    )


@check(
    "machine.disk.free",
    sees=Folder,
    cases=_folders,
    premise=("disk",),
    blocked_by=("machine.disk.inodes",),
    causes={"no-room": "the file system has less room than what has to go there"},
)
def room_for_bytes(seen: Folder, wanted: RoomWanted) -> Judgement:
    """There is room for the models, for temporary files and for the ledger.

    Looks at the file systems of the model cache (paths.model_cache, or what the environments and
    commands of [[serve]] name, or the suite's own environment), of TMPDIR and of the ledger folder, as an
    unprivileged user may fill them. Fails where less is free than the profile's models need beyond
    what the cache holds already (serve[].model_bytes), less than paths.tmp_free_min_bytes, or less
    than one run writes. The needs of folders on one file system count together, at the cache.
    What to do: free the room (`du -xh --max-depth=1`), or point HF_HOME, TMPDIR or --ledger-dir at
    another file system.
    """
    missing = _to_download(seen, wanted)
    own = wanted.free_bytes + sum(missing.values())
    shared = [name for name in _if_beside(seen) if name in wanted.beside_bytes]
    beside = {name: wanted.beside_bytes[name] for name in shared}
    needed = own + sum(beside.values())
    says = f"{bytes_text(seen.free_bytes)} free in {_where(seen)}, {bytes_text(needed)} needed"
    observed = {"free_bytes": seen.free_bytes, "total_bytes": seen.total_bytes}
    expected = {"free_min_bytes": needed}
    evidence = (
        *(f"{model}: {bytes_text(size)} still to download" for model, size in missing.items()),
        *(f"{name}: {bytes_text(n)} on the same file system" for name, n in beside.items()),
    )
    notes: list[str] = []
    whole = needed - sum(missing.values()) + sum(wanted.model_bytes.values())
    if needed <= seen.free_bytes < whole:
        notes.append(
            "what the cache holds of a model counts as downloaded; if it is of another revision, "
            f"{bytes_text(whole)} are needed"
        )
    if own <= seen.free_bytes < needed:
        notes.append("what has to go there would fit, but not together with what else has to")
    if not seen.free_bytes >= needed:
        return fail(
            "no-room",
            says,
            remedy=f"free {bytes_text(needed - seen.free_bytes)} on the file system of "
            f"{seen.path}, or move the folder to another one; rerun",
            observed=observed,
            expected=expected,
            notes=tuple(notes),
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, notes=tuple(notes), evidence=evidence)


def _to_download(seen: Folder, wanted: RoomWanted) -> dict[str, int]:
    """Give what is still missing of each model, in bytes."""
    # the number first: max(0, NaN) is 0, and would need no room
    return {
        model: max(size - seen.cached_bytes.get(model, 0), 0)
        for model, size in wanted.model_bytes.items()
    }


def _if_beside(seen: Folder) -> tuple[str, ...]:
    beside = _if_recorded(lambda: seen.beside)
    return () if isinstance(beside, Unseen) else beside


@check(
    "machine.disk.inodes",
    sees=Folder,
    cases=_inodes,
    premise=("disk",),
    causes={
        "folder-missing": "the folder is not there, and whoever writes there does not make it",
        "not-a-folder": "a file stands where the folder should be, or a link that leads nowhere",
        "read-only": "its file system is mounted read-only, perhaps by the kernel after an error",
        "not-writable": "the user who runs the suite may not create files in it",
        "no-inodes": "the file system can take no more files, however many bytes are free",
    },
)
def room_for_files(seen: Folder, wanted: RoomWanted) -> Judgement:
    """New files can be created: the folder is there, may be written, and has inodes left.

    Looks at the model cache, at TMPDIR and at the ledger folder, and at their file systems, as the
    user who runs the suite. Fails where the folder is missing (a model cache may be: the first
    download makes it), is no folder, is mounted read-only or may not be written (a model cache
    that holds all the profile's models need not), and where fewer than 64 inodes are free: then
    nothing can be created although `df` shows free bytes.
    A file system without a fixed number of inodes (btrfs, some network file systems) passes.
    What to do: make the folder, give write permission, or name another one; for inodes, `df -i`,
    then remove the folder with the millions of small files.
    """
    notes: tuple[str, ...] = ()
    access = _if_recorded(lambda: seen.access)
    if not isinstance(access, Unseen):
        closed = _closed(seen, access, wanted)
        if closed:
            return closed
        if not access.writable:
            notes = ("nothing more can be stored here, and all models of the profile are here",)
    else:
        notes = (f"whether this user may create files there was not seen: {access}",)
    if seen.inodes == 0:
        return ok(f"no fixed number of inodes in {_where(seen)}", notes=notes)
    says = f"{seen.inodes_free} inodes free in {_where(seen)}, {wanted.inodes_free} needed"
    observed = {"inodes_free_count": seen.inodes_free, "inodes_count": seen.inodes}
    expected = {"inodes_free_min_count": wanted.inodes_free}
    if not seen.inodes_free >= wanted.inodes_free:
        return fail(
            "no-inodes",
            says,
            remedy=f"remove files on the file system of {seen.path} (`df -i` shows it, "
            "`du --inodes -x` finds the folder); rerun",
            observed=observed,
            expected=expected,
            notes=notes,
        )
    return ok(says, observed=observed, expected=expected, notes=notes)


def _closed(seen: Folder, access: Access, wanted: RoomWanted) -> Judgement | None:
    """Say why no file can be created, whatever room there is; None where nothing is in the way."""
    another = f"name another folder ({wanted.named_by})"
    if not access.is_folder:
        cause, found = "not-a-folder", f"{seen.path} is no folder"
        remedy = f"see what is there (`ls -ld {seen.path}`), move it out of the way and create "
        remedy += f"the folder (or mount what its link leads to), or {another}; rerun"
    elif not access.exists and not wanted.made_when_needed:
        cause, found = "folder-missing", f"{seen.path} is missing; {seen.looked_at} is there"
        remedy = f"create it (`mkdir -p {seen.path}`, a folder for temporary files also "
        remedy += f"`chmod 1777 {seen.path}`), or {another}; rerun"
    elif wanted.model_bytes and not any(_to_download(seen, wanted).values()):
        return None  # a shared store of models is often read-only, and nothing has to go there
    elif access.read_only:
        cause, found = "read-only", f"the file system of {_where(seen)} is mounted read-only"
        remedy = "find out why (`dmesg | grep -i remount`, /etc/fstab), mend the disk, mount it "
        remedy += f"writable (`mount -o remount,rw` as root), or {another}; rerun"
    elif not access.writable:
        cause, found = "not-writable", f"this user ({access.user}) may not write in {_where(seen)}"
        remedy = f"give this user write permission in {seen.looked_at}, or {another}; rerun"
    else:
        return None
    return fail(
        cause,
        found,
        remedy=remedy,
        observed={"folder": cause},
        expected={"folder": "takes new files"},
    )


# Clock


def _always(rule: str) -> Wanted[None]:
    return Wanted(value=None, basis=Basis.INVARIANT, source=rule)


def _utc(at_s: float) -> str:
    """Show a moment; a clock can be so wrong that no calendar holds it."""
    try:
        moment = datetime.datetime.fromtimestamp(at_s, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{at_s:.0f} s since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


@check(
    "machine.clock.past",
    sees=(Clock, History),
    cases=lambda _: [Case(subject=BOX, wanted=_always("time only passes"))],
    causes={
        "clock-in-the-past": "the wall clock is earlier than something that has already happened: "
        "a dead clock battery or a new board, and no time server reached",
    },
)
def clock_not_in_the_past(clock: Clock, history: History, _: None = None) -> Judgement:
    """The wall clock is not in the past.

    Looks at the wall clock, the build date of the kernel, the newest file that a package manager
    wrote, and the newest ledger of this host; needs no network. Fails where the clock is earlier
    than one of them by more than a minute. While it is, every certificate is "not yet valid", and
    ledgers, logs and certificates that are written carry wrong dates.
    What to do: set the clock, make chrony or systemd-timesyncd reach a server, write it to the
    board (`hwclock -w` as root), make anew what was made meanwhile.
    """
    moments = [
        item for item in (clock.kernel_built, clock.packages_installed) if isinstance(item, Moment)
    ]
    if not isinstance(history.newest_s, Unseen):
        # not of that ledger itself: it hands on the latest moment of those before it
        ledgers = f"the latest moment in the ledgers up to {history.ledger}"
        moments.append(Moment(what=ledgers, at_s=history.newest_s))
    observed = {"now_s": clock.now_s}
    if not moments:
        return unknown(
            Reason.NOT_OBSERVABLE,
            "nothing on this box says what time it must be at least",
            remedy="compare `date -u` with a watch",
            observed=observed,
        )
    newest = max(moments, key=lambda moment: moment.at_s)
    says = f"the clock says {_utc(clock.now_s)}; {newest.what} is of {_utc(newest.at_s)}"
    expected = {"now_min_s": newest.at_s}
    notes = ("nothing disciplines this clock (adjtimex)",) if clock.synchronised is False else ()
    evidence = tuple(f"{moment.what}: {_utc(moment.at_s)}" for moment in moments)
    earlier = f"{newest.what} was written while it was ahead: write it anew, and rerun"
    if newest is not clock.kernel_built and newest is not clock.packages_installed:
        earlier = (
            "an earlier run was made while it was ahead: among the ledgers of this host, find those "
            "whose names begin with a date that is still to come, move them and head.json "
            "elsewhere, and rerun"
        )
    if not all(clock.now_s >= moment.at_s - CLOCK_SLACK_S for moment in moments):
        return fail(
            "clock-in-the-past",
            f"the clock is {span_text(newest.at_s - clock.now_s)} behind: {says}",
            remedy="set the clock (`date -u -s …` as root), enable chrony or systemd-timesyncd, "
            "then `hwclock -w`; make certificates anew that were made meanwhile; rerun. If the "
            f"clock is right, {earlier}",
            observed=observed,
            expected=expected,
            notes=notes,
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


@check(
    "machine.clock.jump",
    sees=(Clock, History),
    cases=lambda _: [Case(subject=BOX, wanted=_always("one second lasts one second"))],
    blocked_by=("machine.clock.past",),
    causes={
        "jumped-during-the-run": "the wall clock was set while the suite ran",
        "jumped-back": "the wall clock was set back since an earlier run in the same boot",
        "boot-time-off": "the moment of boot and the time since boot do not add up to the wall "
        "clock: something fakes one of the three",
    },
)
def clock_runs_evenly(clock: Clock, history: History, _: None = None) -> Judgement:
    """The wall clock runs as fast as the time since boot.

    Compares the wall clock minus the time since boot with the same difference at the start of the
    run, with the newest ledger if that is of the same boot, and with the boot time of /proc/stat.
    Fails where they differ by more than a minute: set during the run, set back since the last one,
    or faked. A clock that was put forward since the last run was corrected: a note says so. Where
    neither an earlier run of this boot nor /proc/stat can be compared with, it is unknown.
    What to do: rerun; if it comes back, find what sets the clock (two time services, a guest agent).
    """
    offset_s = clock.now_s - clock.up_s
    run_step_s = offset_s - history.run_boot_offset_s
    observed = {"boot_offset_s": offset_s, "run_step_s": run_step_s}
    rerun = "rerun; if it comes back, stop all but one of chrony, systemd-timesyncd, ntpd and the guest agent"
    if not abs(run_step_s) <= CLOCK_SLACK_S:
        says = f"the clock moved by {span_text(run_step_s)} while the suite ran"
        return fail("jumped-during-the-run", says, remedy=rerun, observed=observed)
    if not isinstance(clock.boot_s, Unseen) and not abs(offset_s - clock.boot_s) <= CLOCK_SLACK_S:
        says = f"booted at {_utc(clock.boot_s)} by /proc/stat, {_utc(offset_s)} by clock and uptime"
        return fail("boot-time-off", says, remedy=rerun, observed=observed)
    same_boot = not isinstance(clock.boot_id, Unseen) and clock.boot_id == history.boot_id
    if not same_boot or isinstance(history.boot_offset_s, Unseen):
        if isinstance(clock.boot_s, Unseen):
            return unknown(
                Reason.NOT_OBSERVABLE,
                "the clock ran evenly in this run, and nothing shows whether it did before: boot "
                f"time {clock.boot_s}, and no earlier run of the same boot",
                remedy="run where /proc/stat may be read; where it has no btime, rerun before the "
                "next boot, and this run is what that one compares with",
                observed=observed,
            )
        return ok("clock and time since boot run evenly", observed=observed)
    step_s = offset_s - history.boot_offset_s
    observed["step_s"] = step_s
    if not step_s >= -CLOCK_SLACK_S:
        says = f"the clock was set back by {span_text(step_s)} since {history.ledger}"
        return fail("jumped-back", says, remedy=rerun, observed=observed)
    if step_s > CLOCK_SLACK_S:
        note = f"the clock was put forward by {span_text(step_s)} since {history.ledger}; times in it are wrong"
        return ok("clock and time since boot run evenly", observed=observed, notes=(note,))
    return ok("clock and time since boot run evenly", observed=observed)
