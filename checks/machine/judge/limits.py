"""Whether a place lets its engine lock, open, start and hold what it needs, besides CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.expectation import Basis, Case, Expected, NotDeclared, Wanted
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, not_applicable, not_seen, ok, unknown
from checks.core.place import THIS
from checks.core.profile import Serve
from checks.core.registry import check
from checks.core.units import bytes_text
from checks.core.verdict import Reason
from checks.engines.threads import BINDERS, asked_for, limiter_in, spread_of
from checks.machine.facts import Limits, LimitsWanted, MemoryLimit, Rdma, TaskLimit
from checks.machine.judge.memory import ABOVE_UNSEEN, group_lines

CONNECTION_BYTES = 9_637_888
"""Buffers of one connection of NCCL, as its logs show them (github.com/NVIDIA/nccl/issues/342)."""
CONNECTIONS = 8
"""What it registers at least to work with another box: on each of two channels, for ring and tree,
one to send and one to receive (NCCL_MIN_NCHANNELS and NCCL_ALGO of its documentation)."""
LOCKED_MIN_BYTES = CONNECTIONS * CONNECTION_BYTES
"""About 74 MiB: more than the defaults that nobody has raised, 64 KiB of older kernels, 8 MiB since
5.16 (MLOCK_LIMIT of include/uapi/linux/resource.h) and 64 MiB of systemd 239 to 249."""
DEFAULT_SHM_BYTES = 64 * 2**20
"""What Docker, Podman and Kubernetes give a container that is not told (docker run --shm-size)."""
USUAL_SHM_BYTES = 2**30
"""What NCCL's documentation gives a container (--shm-size=1g, troubleshooting, shared memory)."""
TASKS_MIN_COUNT = 32
"""Processes and threads that a server with one thread to compute starts all the same: interpreter,
CUDA, sockets (assumed)."""
DAY_S = 86_400
MOST_NAMED = 3
"""RDMA devices that a finding names."""
_SHM = "/dev/shm"  # noqa: S108 - nothing is written there


def _of_serve(serve: Serve, least: int | None = None) -> LimitsWanted:
    return LimitsWanted(least=least, command=serve.argv, env=serve.env, engine=serve.engine)


def _everywhere(expected: Expected, rule: str) -> Iterator[Case[LimitsWanted]]:
    """Make a case of the suite's own place, and of that of each model."""
    own = LimitsWanted(least=None, command=(), env={}, engine="")
    yield Case(subject=THIS, wanted=Wanted(value=own, basis=Basis.INVARIANT, source=rule))
    for serve in expected.profile.serve:
        wanted = Wanted(value=_of_serve(serve), basis=Basis.INVARIANT, source=rule)
        yield Case(subject=serve.name, wanted=wanted)


def _declared(expected: Expected, key: str, rule: str = "") -> Iterator[Case[LimitsWanted]]:
    """Make a case of each model, of what its profile declares, or else of a rule if there is one."""
    for index, serve in enumerate(expected.profile.serve):
        least = getattr(serve, key)
        if least is not None:
            basis, source = Basis.DECLARED, f"{expected.profile_file}: serve[{index}].{key}"
        elif rule:
            basis, source = Basis.INVARIANT, rule
        else:
            yield Case(subject=serve.name, wanted=NotDeclared(fact=f"not declared: serve[].{key}"))
            continue
        wanted = Wanted(value=_of_serve(serve, least), basis=basis, source=source)
        yield Case(subject=serve.name, wanted=wanted)
    if not expected.profile.serve:
        yield Case(subject=BOX, wanted=NotDeclared(fact="not declared: no [[serve]]"))


def _elsewhere(seen: Limits, wanted: LimitsWanted) -> Judgement | None:
    """Say that a command starts its engine under other limits than those that were read."""
    limiter = limiter_in(wanted.command)
    if seen.place != THIS or not limiter or limiter in BINDERS:
        return None
    return unknown(
        Reason.NOT_OBSERVABLE,
        f"{limiter} starts it under limits that are not those of the suite's own process",
        remedy="start it, name in the profile what runs (`where` = `container:ID`, `unit:NAME`, "
        "`port:N` or `pid:N`), and rerun",
    )


def _unseen(what: str, why: Unseen) -> Judgement:
    return not_seen(f"{what} was", why)


def _looked_at(seen: Limits) -> str:
    return f"looked at {seen.process} ({seen.place})"


# Locked memory


def _memlock(expected: Expected) -> Iterator[Case[LimitsWanted]]:
    return _everywhere(expected, "what RDMA works with is locked memory")


@check(
    "machine.limits.memlock",
    sees=(Limits, Rdma),
    cases=_memlock,
    premise=("container",),
    causes={
        "locked-memory-limited": "memory that an RDMA device works with has to be locked, and the "
        "limit of locked memory is too small for it: ibv_reg_mr fails with `Cannot allocate memory`"
    },
)
def locked_memory_suffices(seen: Limits, rdma: Rdma, wanted: LimitsWanted) -> Judgement:
    """Where RDMA devices are, enough memory may be locked to use them.

    Looks at the soft limit `Max locked memory` of /proc/PID/limits, at what lifts it (the
    capability CAP_IPC_LOCK; the RDMA core of the kernel does not count it in a user namespace), and
    at the RDMA devices of the box. Does not apply without one, where none has an active port, and
    where the place has no device file of any. Fails where less than about 74 MiB may be locked:
    eight of NCCL's buffers, which is the least that it registers to work with another box. A larger
    limit passes, with a note: it is still one. The same error can have other causes; this one is
    named only where the limit is what is read here.
    What to do: `docker run --ulimit memlock=-1`, the capability IPC_LOCK for a pod,
    `LimitMEMLOCK=infinity` in the unit, or memlock in /etc/security/limits.d and a new login. Check `ulimit -l` inside of what starts the work
    (mpirun, Slurm): the limits of a login do not reach it. Rerun.
    """
    if not rdma.devices:
        return not_applicable("no RDMA device on this box")
    usable = [one for one in rdma.devices if one.active and not one.under_synthetic]
    if not usable:
        return not_applicable(f"no RDMA device with an active port: {_named(rdma)}")
    openable = seen.rdma_openable
    if isinstance(openable, Unseen):
        # a recorded tree without /dev has just the devices to show
        if openable.reason is not Blind.NOT_RECORDED:
            return _unseen("whether the place reaches an RDMA device", openable)
    elif not openable:
        return not_applicable("none of the box's RDMA devices has a device file in this place")
    elsewhere = _elsewhere(seen, wanted)
    if elsewhere:
        return elsewhere
    if isinstance(seen.resources, Unseen):
        return _unseen("its limit of locked memory", seen.resources)
    soft, hard = seen.resources.locked_soft_bytes, seen.resources.locked_hard_bytes
    evidence: tuple[str, ...] = (
        _looked_at(seen),
        f"Max locked memory: {_limit_text(soft)} (soft), {_limit_text(hard)} (hard)",
        f"RDMA devices: {_named(rdma)}",
    )
    if soft is None:
        return ok("locked memory is not limited", evidence=evidence)
    observed = {"locked_memory_max_bytes": soft, "rdma_devices_count": len(usable)}
    expected = {"locked_memory_min_bytes": LOCKED_MIN_BYTES}
    says = f"{bytes_text(soft)} may be locked, and there is RDMA to lock memory for"
    if soft >= LOCKED_MIN_BYTES:
        note = f"locked memory is limited to {bytes_text(soft)}; what RDMA needs beyond it fails "
        note += "(ulimit -l unlimited, --ulimit memlock=-1, LimitMEMLOCK=infinity)"
        return ok(says, observed=observed, expected=expected, notes=(note,), evidence=evidence)
    rights = seen.rights
    if isinstance(rights, Unseen):
        return _unseen(f"{says}; whether CAP_IPC_LOCK lifts that", rights)
    if "ipc_lock" in rights.capabilities:
        if isinstance(rights.own_users, Unseen):
            return _unseen(f"{says}; whether its CAP_IPC_LOCK counts", rights.own_users)
        if not rights.own_users:
            says += "; CAP_IPC_LOCK lifts that"
            return ok(says, observed=observed, expected=expected, evidence=evidence)
        evidence += ("its CAP_IPC_LOCK is that of a user namespace, and does not count here",)
    return fail(
        "locked-memory-limited",
        says,
        remedy="lift it where the work starts: `docker run --ulimit memlock=-1`, IPC_LOCK among the "
        "capabilities of the pod's securityContext, "
        "`LimitMEMLOCK=infinity` in the unit (of docker or slurmd too), or `* - memlock unlimited` in "
        "/etc/security/limits.d and a new login; see that `ulimit -l` says unlimited inside of what "
        "starts the work (mpirun, srun); rerun from there",
        observed=observed,
        expected=expected,
        evidence=evidence,
    )


def _named(rdma: Rdma) -> str:
    names = [
        device.name
        + (f" ({', '.join(device.port_states)})" if device.port_states else "")
        + (" below a synthetic network card" if device.under_synthetic else "")
        for device in rdma.devices[:MOST_NAMED]
    ]
    more = len(rdma.devices[MOST_NAMED:]) + rdma.left_out_count
    return ", ".join([*names, *([f"{more} more"] if more else [])])


def _limit_text(limit: int | None) -> str:
    return "unlimited" if limit is None else bytes_text(limit)


# Shared memory


def _shm(expected: Expected) -> Iterator[Case[LimitsWanted]]:
    return _declared(
        expected,
        "shm_min_bytes",
        "processes on several GPUs share memory, more than a container gets by default",
    )


@check(
    "machine.limits.shm",
    sees=Limits,
    cases=_shm,
    premise=("container",),
    causes={
        "shm-too-small": f"{_SHM}, in which the processes of one engine share memory, is smaller "
        "than they need: they end with `No space left on device` or with a bus error",
        "shm-full": f"{_SHM} is large enough, and something fills it already",
    },
)
def shared_memory_suffices(seen: Limits, wanted: LimitsWanted) -> Judgement:
    """An engine on several GPUs has more shared memory than a container gets by default.

    Looks at size and free room of the place's /dev/shm, and at over how many GPUs the profile's
    command spreads the model (--tensor-parallel-size, --tp, --pipeline-parallel-size and their
    kin). Fails where that is more than one and /dev/shm has no more than the 64 MiB that Docker,
    Podman and Kubernetes give (NCCL and vLLM ask for more: docs.nvidia.com/deeplearning/nccl,
    troubleshooting; docs.vllm.ai, deploying with Docker), where its size is less than the profile's
    serve[].shm_min_bytes, and where, before the engine is started, too little of it is free for
    one connection of NCCL (9.2 MiB).
    What to do: `docker run --ipc=host` or `--shm-size=16g`; in Kubernetes, mount an emptyDir with
    `medium: Memory` at /dev/shm; remove what fills it (`ls -l /dev/shm`); rerun.
    """
    spread = spread_of(wanted.command)
    if wanted.least is None and spread.gpus == 1:
        return not_applicable("its command does not spread the model over several GPUs")
    elsewhere = _elsewhere(seen, wanted)
    if elsewhere:
        return elsewhere
    if isinstance(seen.shm, Unseen):
        return _unseen("its /dev/shm", seen.shm)
    total, free = seen.shm.total_bytes, seen.shm.free_bytes
    # without a declaration, more than the default of containers
    least = DEFAULT_SHM_BYTES + 1 if wanted.least is None else wanted.least
    what = f"{spread.words}: more than {bytes_text(DEFAULT_SHM_BYTES)}"
    what = f"{what if wanted.least is None else bytes_text(wanted.least)} wanted"
    observed = {"shm_total_bytes": total, "shm_free_bytes": free}
    expected = {"shm_min_bytes": least}
    evidence = (_looked_at(seen),)
    if total == 0:
        return ok(f"{_SHM} has no limit of its own", observed=observed, evidence=evidence)
    says = f"{_SHM} has {bytes_text(total)}; {what}"
    small = not total >= least
    if small and wanted.least is None and spread.gpus is None:
        return unknown(
            Reason.NO_EXPECTATION,
            f"{says}; cannot read over how many GPUs `{spread.words}` spreads the model",
            remedy="write the number into the profile's command, or serve[].shm_min_bytes; rerun",
            observed=observed,
            evidence=evidence,
        )
    if small:
        return fail(
            "shm-too-small",
            says,
            remedy="start the container with `--ipc=host` or `--shm-size=16g` (in Kubernetes, an "
            "emptyDir with `medium: Memory` at /dev/shm; elsewhere `mount -o remount,size=16g "
            "/dev/shm` as root); see with `df -h /dev/shm` inside; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    # what an engine that runs already holds of it is no fault
    if seen.place == THIS and spread.gpus != 1 and not free >= CONNECTION_BYTES:
        return fail(
            "shm-full",
            f"{says}; {bytes_text(free)} are free, and one connection takes "
            f"{bytes_text(CONNECTION_BYTES)}",
            remedy="see what fills it (`ls -l /dev/shm`, `lsof /dev/shm`), stop that, remove what "
            "dead processes have left (nccl-*, psm_*), and rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    notes: tuple[str, ...] = ()
    if wanted.least is None and total < USUAL_SHM_BYTES:
        note = (
            f"NCCL's documentation gives a container {bytes_text(USUAL_SHM_BYTES)}; with many GPUs "
        )
        notes = (note + "this may be too little: `--shm-size`, or `--ipc=host`",)
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


# Open files


def _nofile(expected: Expected) -> Iterator[Case[LimitsWanted]]:
    return _declared(expected, "open_files_min_count")


@check(
    "machine.limits.nofile",
    sees=Limits,
    cases=_nofile,
    premise=("container",),
    causes={
        "open-files-limited": "the engine may hold fewer files and connections open than it needs: "
        "it ends with `Too many open files`"
    },
)
def open_files_suffice(seen: Limits, wanted: LimitsWanted) -> Judgement:
    """An engine may hold as many files and connections open as it needs.

    Looks at the soft limit `Max open files` of /proc/PID/limits of the place. Fails where it is
    less than the profile's serve[].open_files_min_count.
    What to do: `ulimit -n` in what starts it, `docker run --ulimit nofile=…`, `LimitNOFILE=` of the
    unit, or nofile in /etc/security/limits.d and a new login; rerun.
    """
    elsewhere = _elsewhere(seen, wanted)
    if elsewhere:
        return elsewhere
    if isinstance(seen.resources, Unseen):
        return _unseen("its limit of open files", seen.resources)
    assert wanted.least is not None  # noqa: S101 - there is no case without
    soft, hard = seen.resources.open_files_soft_count, seen.resources.open_files_hard_count
    evidence = (_looked_at(seen), f"Max open files: {_number(soft)} (soft), {_number(hard)} (hard)")
    expected = {"open_files_min_count": wanted.least}
    if soft is None:
        return ok("open files are not limited", expected=expected, evidence=evidence)
    says = f"{soft} files may be open, {wanted.least} wanted"
    observed = {"open_files_max_count": soft}
    if not soft >= wanted.least:
        return fail(
            "open-files-limited",
            says,
            remedy=f"raise it where the engine is started (`ulimit -n {wanted.least}`, `docker run "
            f"--ulimit nofile={wanted.least}`, `LimitNOFILE={wanted.least}` of the unit, nofile in "
            "/etc/security/limits.d and a new login), start it anew, and rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    return ok(says, observed=observed, expected=expected, evidence=evidence)


def _number(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


# Processes and threads


def _pids(expected: Expected) -> Iterator[Case[LimitsWanted]]:
    return _everywhere(expected, "an engine starts its threads")


@check(
    "machine.limits.pids",
    sees=Limits,
    cases=_pids,
    premise=("cpu", "container"),
    causes={
        "too-few-tasks-left": "a cgroup leaves fewer processes and threads than the engine starts: it "
        "ends with `Resource temporarily unavailable`",
        "processes-limited": "the user may have fewer processes and threads than the engine starts",
    },
)
def processes_suffice(seen: Limits, wanted: LimitsWanted) -> Judgement:
    """As many processes and threads can be started as an engine asks for.

    Looks at pids.max and pids.current of the place's cgroups at every level, where what runs in the
    place already is not counted against it, and at the soft limit `Max processes` of
    /proc/PID/limits. That one is of the user and of all his processes, of which some cannot be seen
    from a container, so it is compared whole; root, CAP_SYS_ADMIN and CAP_SYS_RESOURCE lift it.
    Fails where fewer are left than the threads that the profile's command asks for (if it does not
    say, than the CPUs of the place), and where fewer than 32 are left.
    What to do: raise it: `docker run --pids-limit`, podPidsLimit of the kubelet, `TasksMax=` of the
    unit, nproc in /etc/security/limits.d and a new login; rerun.
    """
    elsewhere = _elsewhere(seen, wanted)
    if elsewhere:
        return elsewhere
    asked = asked_for(wanted.command, wanted.env, wanted.engine)
    count = asked.threads if asked and not asked.by_default else None
    words = asked.words if asked else ""
    if count is None:
        if isinstance(seen.affinity_cpus, Unseen):
            return _unseen("how many CPUs it has", seen.affinity_cpus)
        count, words = seen.affinity_cpus, "one for each of its CPUs"
    needed, basis = count, None
    if not count >= TASKS_MIN_COUNT:
        needed, words, basis = TASKS_MIN_COUNT, "any server", Basis.ASSUMED
    if isinstance(seen.tasks, Unseen):
        return _unseen("how many processes its cgroups leave", seen.tasks)
    evidence = (
        _looked_at(seen),
        *(f"{one.source}: {one.limit_count}, {one.used_count} used" for one in seen.tasks.limits),
    )
    notes: tuple[str, ...] = (ABOVE_UNSEEN,) if seen.tasks.above_unseen else ()
    expected = {"tasks_left_min_count": needed}
    observed: dict[str, int] = {}
    says = "processes and threads are not limited"
    tight = min(seen.tasks.limits, key=lambda one: _left(seen, one), default=None)
    if tight is not None:
        observed["tasks_left_count"] = _left(seen, tight)
        says = f"{_left(seen, tight)} processes and threads left by {tight.source}, {needed} wanted"
        says += f" ({words})"
        if not _left(seen, tight) >= needed:
            return fail(
                "too-few-tasks-left",
                says,
                remedy=f"raise {tight.source} (`docker run --pids-limit`, podPidsLimit of the "
                "kubelet, `TasksMax=` of the unit), stop what else runs in that cgroup, or tell the "
                "engine to start fewer threads; rerun",
                observed=observed,
                expected=expected,
                notes=notes,
                evidence=evidence,
                basis=basis,
            )
    limit = None if isinstance(seen.resources, Unseen) else seen.resources.processes_soft_count
    if isinstance(seen.resources, Unseen):
        notes += (f"its limit `Max processes` was not seen: {seen.resources}",)
    elif limit is not None and not limit >= needed:
        lifted = _lifted(seen)
        if isinstance(lifted, Unseen):
            return _unseen(
                f"Max processes is {limit}, {needed} wanted ({words}); what lifts it", lifted
            )
        if not lifted:
            return fail(
                "processes-limited",
                f"Max processes is {limit}, {needed} wanted ({words})",
                remedy="raise it where the engine is started (`ulimit -u`, `LimitNPROC=` of the "
                "unit, `docker run --ulimit nproc=…`, nproc in /etc/security/limits.d and a new "
                "login), start it anew, and rerun",
                observed={**observed, "processes_max_count": limit},
                expected=expected,
                notes=notes,
                evidence=evidence,
                basis=basis,
            )
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


def _left(seen: Limits, limit: TaskLimit) -> int:
    """Count what a level leaves; what runs in the place already is what it was left for."""
    return max(
        limit.limit_count - limit.used_count + min(seen.own_tasks_count, limit.used_count), 0
    )


def _lifted(seen: Limits) -> bool | Unseen:
    """Whether the limit of processes counts for nothing (copy_process of kernel/fork.c)."""
    rights = seen.rights
    if isinstance(rights, Unseen):
        return rights
    if not rights.root and not {"sys_admin", "sys_resource"} & set(rights.capabilities):
        return False
    return rights.own_users if isinstance(rights.own_users, Unseen) else not rights.own_users


# Memory


def _memory_limit(expected: Expected) -> Iterator[Case[LimitsWanted]]:
    return _declared(expected, "host_memory_min_bytes")


@check(
    "machine.memory.limit",
    sees=Limits,
    cases=_memory_limit,
    premise=("memory", "container"),
    causes={
        "memory-limited": "a cgroup of the place leaves the engine less memory of the host than it "
        "needs: the kernel will kill it while it loads"
    },
)
def memory_limit_suffices(seen: Limits, wanted: LimitsWanted) -> Judgement:
    """The cgroups of a place leave its engine the memory that it needs.

    Looks at the memory limits of the place's cgroups at every level up to the root, less what is
    used there and is neither a cached file nor held by the place itself. Fails where one of them
    leaves less than the profile's serve[].host_memory_min_bytes. A note tells how often the kernel
    has killed there for want of memory, and in how long.
    What to do: raise the limit (`docker run --memory`, resources.limits of the pod, `MemoryMax=`
    of the unit), or stop what else runs in that cgroup; rerun.
    """
    elsewhere = _elsewhere(seen, wanted)
    if elsewhere:
        return elsewhere
    if isinstance(seen.memory, Unseen):
        return _unseen("how much memory its cgroups leave", seen.memory)
    assert wanted.least is not None  # noqa: S101 - there is no case without
    evidence = (_looked_at(seen), *group_lines(seen.memory))
    notes = (*_kill_notes(seen), *((ABOVE_UNSEEN,) if seen.memory.above_unseen else ()))
    expected = {"memory_group_left_min_bytes": wanted.least}
    basis = Basis.ASSUMED if seen.memory.above_unseen else None
    own = 0 if isinstance(seen.own_memory_bytes, Unseen) else seen.own_memory_bytes
    tight = min(seen.memory.limits, key=lambda one: _memory_left(one, own), default=None)
    if tight is None:
        says = "no cgroup limits its memory"
        return ok(says, expected=expected, notes=notes, evidence=evidence, basis=basis)
    left = _memory_left(tight, own)
    says = f"{bytes_text(left)} left by {tight.source}, {bytes_text(wanted.least)} wanted"
    observed = {"memory_group_left_bytes": left, "memory_own_bytes": own}
    if left >= wanted.least:
        return ok(
            says, observed=observed, expected=expected, notes=notes, evidence=evidence, basis=basis
        )
    if isinstance(seen.own_memory_bytes, Unseen) and tight.limit_bytes >= wanted.least:
        return _unseen(f"{says}; what of the rest it holds itself", seen.own_memory_bytes)
    return fail(
        "memory-limited",
        says,
        remedy=f"raise the limit {tight.source} (`docker run --memory`, resources.limits of the pod, "
        "`MemoryMax=` of the unit), or stop what else uses memory in that cgroup; rerun",
        observed=observed,
        expected=expected,
        notes=notes,
        evidence=evidence,
    )


def _memory_left(limit: MemoryLimit, own_bytes: int) -> int:
    """What a level leaves, with what the place itself holds below it already."""
    return min(limit.left_bytes + own_bytes, limit.limit_bytes)


def _kill_notes(seen: Limits) -> tuple[str, ...]:
    if isinstance(seen.killed, Unseen) or not seen.killed.kills_count:
        return ()
    kills, up = seen.killed.kills_count, seen.killed.up_s
    note = (
        f"the kernel has killed {kills} processes there for want of memory ({seen.killed.source})"
    )
    if not isinstance(up, Unseen) and up > 0:
        days = up / DAY_S
        note += f" since the cgroup was made, at most {days:.1f} days ago: "
        note += f"{kills / days:.1f} a day or more"
    return (note,)
