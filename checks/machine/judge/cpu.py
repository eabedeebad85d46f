"""Whether an engine may run as many threads as it does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from checks.core.expectation import Basis, Case, Expected, NotDeclared, Wanted
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, ok, unknown
from checks.core.registry import check
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
    Cpu,
    Process,
    Threads,
)

OFTEN_RATIO = 0.5
"""Stopped in more of the periods than this, a place has too little CPU, whatever else was read."""
MOST_NAMED = 8
"""Processes that the evidence names."""


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
    return _Ask(doubt=unknown(Reason.NOT_OBSERVABLE, says, remedy=why.remedy, unseen=why))


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
