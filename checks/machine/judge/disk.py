"""Whether there is room, and files can be created."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

from checks.core.codec import Json
from checks.core.expectation import Basis, Case, Expected, Missing, NotDeclared, Wanted
from checks.core.facts import Access, Blind, Unseen
from checks.core.finding import Judgement, fail, not_applicable, not_seen, ok, unknown
from checks.core.judging import always, if_recorded
from checks.core.registry import check
from checks.core.units import bytes_text
from checks.core.verdict import Reason
from checks.machine.facts import (
    Folder,
    Identity,
    Locks,
    MemoryBehind,
    Mounted,
    RoomWanted,
)
from checks.machine.filesystems import IN_MEMORY, OVERLAY, REMOTE, WITHOUT_LINKS
from checks.machine.hub import ELSEWHERE, declared_caches, is_hub_model

RUN_BYTES = 4 * 2**20
"""What one run writes at most: a ledger under 1 MB, its journal, and the copy before the rename."""
USABLE_BYTES = 2**20
USABLE_INODES = 64

Judge = Callable[..., Judgement]


def _on_its_disks(judge: Judge) -> Judge:
    """Let a verdict rest on the disks that the folder lies on, where these are known."""

    @functools.wraps(judge)
    def judged(seen: Folder, *others: object) -> Judgement:
        disks = if_recorded(lambda: seen.disks)
        said = judge(seen, *others)
        return said if isinstance(disks, Unseen) else replace(said, premise=disks)

    return judged


def _where(seen: Folder) -> str:
    if seen.looked_at == seen.path:
        return seen.path
    access = if_recorded(lambda: seen.access)
    closed = isinstance(access, Unseen) and access.reason is Blind.PERMISSION
    why = "not open to this user" if closed else "not there yet"
    return f"{seen.path} ({why}; looked at {seen.looked_at})"


def _always(expected: Expected, rule: str) -> Iterator[Case[RoomWanted]]:
    """Want of the same folders what holds on every healthy box."""
    for case in _folders(expected):
        if isinstance(case.wanted, Wanted):
            room = Wanted(value=case.wanted.value, basis=Basis.INVARIANT, source=rule)
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
    of_containers = profile.paths.container_data_free_min_bytes
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
        beside = {"tmp": declared or USABLE_BYTES, "ledgers": RUN_BYTES}
        if of_containers:
            beside["containers"] = of_containers
        yield Case(
            subject="model-cache",
            wanted=Wanted(
                value=RoomWanted(
                    name="model-cache",
                    free_bytes=0,
                    model_bytes=models,
                    inodes_free=USABLE_INODES,
                    beside_bytes=beside,
                    named_by="paths.model_cache, or HF_HUB_CACHE or HF_HOME of the server",
                    made_when_needed=True,
                    named=True,
                ),
                basis=Basis.DECLARED,
                source=f"{expected.profile_file}: serve[].model_bytes",
            ),
        )
    else:
        fact = "not declared: no [[serve]] with a hub model and model_bytes"
        yield Case(subject="model-cache", wanted=NotDeclared(fact=fact))
    yield _folder_case(
        "tmp",
        RoomWanted(
            name="tmp",
            free_bytes=declared or USABLE_BYTES,
            model_bytes={},
            inodes_free=USABLE_INODES,
            beside_bytes={},
            named_by="TMPDIR or paths.tmp",
            made_when_needed=False,
            named=True,
        ),
        f"{expected.profile_file}: paths.tmp_free_min_bytes" if declared else "",
        "a folder for temporary files takes a file",
    )
    yield _folder_case(
        "ledgers",
        RoomWanted(
            name="ledgers",
            free_bytes=RUN_BYTES,
            model_bytes={},
            inodes_free=USABLE_INODES,
            beside_bytes={},
            named_by="--ledger-dir",
            made_when_needed=False,
            named=True,
        ),
        "",
        "what one run writes",
    )
    yield _folder_case(
        "containers",
        RoomWanted(
            name="containers",
            free_bytes=of_containers or USABLE_BYTES,
            model_bytes={},
            inodes_free=USABLE_INODES,
            beside_bytes={},
            named_by="`data-root` of /etc/docker/daemon.json, or paths.container_data",
            made_when_needed=True,
            named=bool(of_containers or profile.paths.container_data),
        ),
        f"{expected.profile_file}: paths.container_data_free_min_bytes" if of_containers else "",
        "a container takes a file",
    )


def _folder_case(name: str, room: RoomWanted, declared: str, rule: str) -> Case[RoomWanted]:
    """Make the case of a folder that every box has: declared somewhere, or by a rule."""
    basis = Basis.DECLARED if declared else Basis.INVARIANT
    wanted = Wanted(value=room, basis=basis, source=declared or rule)
    return Case(subject=name, wanted=wanted)


def _left_alone(seen: Folder, wanted: RoomWanted) -> Judgement | None:
    """Say why nothing goes into a folder that was only found; None where something may."""
    needed = if_recorded(lambda: seen.needed)
    if wanted.named:
        return None
    if needed is False:
        return not_applicable("no data root of docker, containerd or podman is on this box")
    if _is_read_only(seen) and not _turned_read_only(seen):
        return not_applicable(
            f"{_where(seen)} is mounted read-only, and nothing says that containers are kept there"
        )
    return None


def _mounted(seen: Folder) -> Mounted | Unseen:
    return if_recorded(lambda: seen.mounted)


def _is_read_only(seen: Folder) -> bool:
    access, mounted = if_recorded(lambda: seen.access), _mounted(seen)
    if not isinstance(access, Unseen):
        return access.read_only
    return not isinstance(mounted, Unseen) and "ro" in mounted.options


def _turned_read_only(seen: Folder) -> bool:
    mounted = _mounted(seen)
    return not isinstance(mounted, Unseen) and mounted.turned_read_only


@check(
    "machine.disk.free",
    sees=Folder,
    cases=_folders,
    premise=("disk",),
    blocked_by=("machine.disk.inodes",),
    causes={"no-room": "the file system has less room than what has to go there"},
)
@_on_its_disks
def room_for_bytes(seen: Folder, wanted: RoomWanted) -> Judgement:
    """There is room for the models, for temporary files, for the ledger and for containers.

    Looks at the file systems of the model cache (paths.model_cache, or what the environments and
    commands of [[serve]] name, or the suite's own environment), of TMPDIR, of the ledger folder and
    of the container runtime's data, as an unprivileged user may fill them; of several runtimes at
    the one with the least room. Fails where less is free than the profile's models need beyond what
    the cache holds already (serve[].model_bytes), less than paths.tmp_free_min_bytes or
    paths.container_data_free_min_bytes (left out: 1 MiB), or less than one run writes. The needs of
    folders on one file system count together, at the cache.
    What to do: free the room (`du -xh --max-depth=1`; `docker system df`, `docker system prune`), or
    point HF_HOME, TMPDIR, --ledger-dir or `data-root` at another file system.
    """
    alone = _left_alone(seen, wanted)
    if alone:
        return alone
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
    beside = if_recorded(lambda: seen.beside)
    return () if isinstance(beside, Unseen) else beside


@check(
    "machine.disk.inodes",
    sees=Folder,
    cases=lambda expected: _always(expected, "a folder takes files"),
    premise=("disk",),
    causes={
        "folder-missing": "the folder is not there, and whoever writes there does not make it",
        "not-a-folder": "a file stands where the folder should be, or a link that leads nowhere",
        "read-only": "its file system is mounted read-only, perhaps by the kernel after an error",
        "not-writable": "the user who runs the suite may not create files in it",
        "no-inodes": "the file system can take no more files, however many bytes are free",
    },
)
@_on_its_disks
def room_for_files(seen: Folder, wanted: RoomWanted) -> Judgement:
    """New files can be created: the folder is there, may be written, and has inodes left.

    Looks at the model cache, at TMPDIR, at the ledger folder and at the container runtime's data,
    and at their file systems, as the user who runs the suite. Fails where the folder is missing (a
    model cache may be: the first download makes it), is no folder, is mounted read-only or may not
    be written (a model cache that holds all the profile's models need not), and where
    fewer than 64 inodes are free: then nothing can be created although `df` shows free bytes.
    Whether this user may write to a container runtime's data does not count. Where that is mounted
    read-only on purpose and paths.container_data does not name it, it is not judged.
    A file system without a fixed number of inodes (btrfs, some network file systems) passes.
    What to do: make the folder, give write permission, or name another one; for inodes, `df -i`,
    then remove the folder with the millions of small files.
    """
    alone = _left_alone(seen, wanted)
    if alone:
        return alone
    notes: tuple[str, ...] = ()
    access = if_recorded(lambda: seen.access)
    if not isinstance(access, Unseen):
        closed = _closed(seen, access, wanted)
        if closed:
            return closed
        if wanted.name != "containers" and not access.writable:
            notes = ("nothing more can be stored here, and all models of the profile are here",)
    elif wanted.name != "containers":
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
        if _turned_read_only(seen):
            found += ", after it had been mounted writable"
        remedy = "find out why (`dmesg | grep -i remount`, /etc/fstab), mend the disk, mount it "
        remedy += f"writable (`mount -o remount,rw` as root), or {another}; rerun"
    elif wanted.name != "containers" and not access.writable:
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


@check(
    "machine.disk.filesystem",
    sees=(Folder, Identity),
    cases=lambda expected: _always(expected, "what is kept in memory has to fit into it"),
    premise=("disk",),
    causes={
        "exceeds-memory": "the folder is kept in memory, and what has to go there is more than the "
        "memory that there is",
    },
)
@_on_its_disks
def filesystem_can_hold(seen: Folder, box: Identity, wanted: RoomWanted) -> Judgement:
    """What each folder lies on can hold what has to go there.

    Looks at the mount of each folder (/proc/self/mountinfo, symbolic links followed) and, where that
    is tmpfs or ramfs, at the memory, the swap and the memory limits of the cgroups behind it: `df`
    shows room there that nobody has. Fails where all models of the profile are more than all of
    memory and swap, or than what a cgroup allows, and where what is still to download, or
    paths.tmp_free_min_bytes, is more than what is free of it now.
    Loading a model may take its size once more, beside the copy in the cache: not where the engine
    maps the files (llama.cpp) or loads into a GPU's own memory. Which of these it is cannot be seen
    from here, so two copies that do not fit are a note, with the numbers.
    Notes tell what else to expect: an overlay is lost with its container, a network file system
    makes the first load slow, `noexec` keeps compiled kernels in TMPDIR from being loaded.
    What to do: point HF_HOME, TMPDIR or --ledger-dir at a disk, or mount a volume there.
    """
    alone = _left_alone(seen, wanted)
    if alone:
        return alone
    mounted = _mounted(seen)
    if isinstance(mounted, Unseen):
        return not_seen(f"what {seen.path} lies on was", mounted)
    says = f"{_where(seen)} lies on {mounted.kind}"
    observed: dict[str, Json] = {"filesystem": mounted.kind}
    notes = tuple(_advice(mounted, box, wanted))
    evidence = (f"mounted at {mounted.point}: {' '.join((mounted.kind, *mounted.options))}",)
    said = ok(says, observed=observed, notes=notes, evidence=evidence)
    if seen.memory is None:
        return said
    if isinstance(seen.memory, Unseen):
        what = f"{says}, and how much memory is behind it was"
        return not_seen(what, seen.memory, observed=observed, evidence=evidence)
    return _in_memory(seen, seen.memory, wanted, said)


def _in_memory(
    seen: Folder, memory: MemoryBehind, wanted: RoomWanted, said: Judgement
) -> Judgement:
    """Judge what is kept in memory; `said` is what there is to say of it besides."""
    notes, evidence = list(said.notes), list(said.evidence)
    evidence.append(
        f"memory {bytes_text(memory.memory_total_bytes)}, {bytes_text(memory.memory_available_bytes)} available; "
        f"swap {bytes_text(memory.swap_total_bytes)}, {bytes_text(memory.swap_free_bytes)} free"
    )
    ceilings, left = [memory.memory_total_bytes], [memory.memory_available_bytes]
    if isinstance(memory.groups, Unseen):
        notes.append(f"whether a cgroup limits that memory was not seen: {memory.groups}")
    else:
        for limit in memory.groups.limits:
            ceilings.append(limit.limit_bytes)
            left.append(limit.left_bytes)
            evidence.append(
                f"{limit.source}: {bytes_text(limit.limit_bytes)}, {bytes_text(limit.left_bytes)} left"
            )
    # a cgroup limits memory, and swap apart from it
    all_bytes = min(ceilings) + memory.swap_total_bytes
    free_bytes = min(left) + memory.swap_free_bytes
    whole = sum(
        max(size, seen.cached_bytes.get(model, 0)) for model, size in wanted.model_bytes.items()
    )
    missing = wanted.free_bytes + sum(_to_download(seen, wanted).values())
    observed = {
        **said.observed,
        "memory_and_swap_bytes": all_bytes,
        "memory_and_swap_free_bytes": free_bytes,
    }
    expected = {"models_bytes": whole, "free_min_bytes": missing}
    short = ""
    if not all_bytes >= whole:
        short = f"models of {bytes_text(whole)}, {bytes_text(all_bytes)} of memory and swap"
    elif not free_bytes >= missing:
        short = (
            f"{bytes_text(missing)} still have to go there, {bytes_text(free_bytes)} of memory and "
            "swap are free"
        )
    if short:
        return fail(
            "exceeds-memory",
            f"{said.says}: {short}",
            remedy=f"name a folder on a disk ({wanted.named_by}), or mount a volume at {seen.path}; "
            "rerun",
            observed=observed,
            expected=expected,
            notes=tuple(notes),
            evidence=tuple(evidence),
        )
    if not all_bytes >= 2 * whole:
        notes.append(
            f"the models take {bytes_text(whole)} of {bytes_text(all_bytes)} of memory and swap; an "
            "engine that neither maps the files nor loads them into a GPU's own memory needs as much "
            f"again, {bytes_text(2 * whole)} in all"
        )
    return replace(
        said, observed=observed, expected=expected, notes=tuple(notes), evidence=tuple(evidence)
    )


def _advice(mounted: Mounted, box: Identity, wanted: RoomWanted) -> Iterator[str]:
    """Tell what is to be expected of a file system, for who reads the report."""
    kind = mounted.kind
    fleeting = ""
    if kind in IN_MEMORY:
        fleeting = "the next boot"
    elif kind == OVERLAY:
        fleeting = "the live system" if box.container == "none" else "the container"
    if wanted.name == "model-cache":
        if fleeting:
            slow = ", and its first load is slow" if kind == OVERLAY else ""
            yield f"what is downloaded here is lost with {fleeting}{slow}: mount a volume there"
        elif kind in REMOTE:
            yield "the first load of a model goes over the network, and waits as long as the server does"
        elif kind in WITHOUT_LINKS:
            yield "there are no symbolic links here, so the hub's client keeps copies instead"
    elif wanted.name == "ledgers" and fleeting:
        yield f"the ledger is lost with {fleeting}: keep a copy, or name a folder on a disk (--ledger-dir)"
    elif wanted.name == "containers" and (fleeting or kind in REMOTE):
        yield f"on {kind} images are slow to use, or lost with {fleeting or 'the network'}"
    elif wanted.name == "tmp" and "noexec" in mounted.options:
        yield (
            "mounted noexec: what torch.compile and Triton build there cannot be loaded; name another "
            "folder in TMPDIR, TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR"
        )


def _locked_folders(expected: Expected) -> Iterator[Case[None]]:
    profile = expected.profile
    caches = declared_caches(profile)
    wanted: Wanted[None] | NotDeclared | Missing
    if not any(is_hub_model(serve.model) for serve in profile.serve):
        wanted = NotDeclared(fact="not declared: no [[serve]] with a hub model")
    elif caches[1:] or ELSEWHERE in caches:
        wanted = _SCATTERED
    else:
        wanted = always("the hub's client locks files")
    yield Case(subject="model-cache", wanted=wanted)


_UNSUPPORTED = ("ENOLCK", "ENOTSUP", "EOPNOTSUPP", "EINVAL")
"""What flock(2) says where the server of a file system, or its driver, keeps no locks."""


@check(
    "machine.disk.locks",
    sees=Locks,
    cases=_locked_folders,
    premise=("cache",),
    blocked_by=("machine.disk.inodes",),
    causes={
        "locks-unsupported": "files in the model cache cannot be locked, and a download waits for "
        "its lock for ever",
        "locks-hang": "a file can be made in the model cache, but a lock on it gets no answer",
    },
)
def locks_work(seen: Locks, _: None = None) -> Judgement:
    """Files in the model cache can be locked.

    Looks at what comes of locking a new file in the model cache (flock(2)), which has no name, or none
    any more, when it is locked. The hub's client locks each file that it downloads, in
    `<cache>/.locks`, and takes most errors for a lock that another holds: it tries again for ever.
    Fails where the lock ends in ENOLCK, EOPNOTSUPP or EINVAL, as on NFS without a lock service, and
    where it gives no answer within 4 s although the file was made at once. That is a fail and not
    merely unknown: a local lock takes microseconds and one over NFS milliseconds, and who downloads
    would wait just as long. An NFS server that has just been restarted grants no locks for 90 s;
    rerun after that. A folder that does not even let a file be made in time is unknown, for then it
    is not the locks. ENOSYS (Lustre without `-o flock`) passes with a note: the hub's client from
    0.24 on then makes files that stand for locks. Where this user cannot write there is nothing to try.
    What to do: mount NFS with version 4, or start rpcbind and rpc-statd on both sides and open their
    ports; or mount with `local_lock=flock` where no other box downloads into it; or name a folder on a
    local disk.
    """
    mount = "" if isinstance(seen.kind, Unseen) else f" ({seen.kind})"
    remedy = (
        "mount it with `vers=4`, or start rpcbind and rpc-statd here and on the server and open their "
        "ports (Lustre: `-o flock`), or name a folder on a local disk (paths.model_cache, HF_HUB_CACHE); "
        "rerun"
    )
    expected = {"lock": "ok"}
    if isinstance(seen.outcome, str):
        observed = {"lock": seen.outcome}
        if seen.outcome == "ok":
            return ok(
                f"a file in {seen.path}{mount} can be locked", observed=observed, expected=expected
            )
        if seen.outcome == "ENOSYS":
            note = (
                "flock is not implemented here: huggingface_hub before 0.24, and other programs, end "
                "in an error; mount Lustre with `-o flock`"
            )
            says = f"locks in {seen.path}{mount} are files that stand for locks"
            return ok(says, observed=observed, expected=expected, notes=(note,))
        says = f"a lock on a new file in {seen.path}{mount} ends in {seen.outcome}"
        if seen.outcome in _UNSUPPORTED:
            return fail(
                "locks-unsupported", says, remedy=remedy, observed=observed, expected=expected
            )
        return unknown(Reason.NOT_OBSERVABLE, says, remedy="look at `dmesg`, then rerun")
    if seen.outcome.reason is Blind.TIMED_OUT:
        return fail(
            "locks-hang",
            f"a lock on a new file in {seen.path}{mount} gives no answer",
            remedy=f"if the server has just been restarted, wait two minutes; else {remedy}",
            observed={"lock": "no answer"},
            expected=expected,
            evidence=(str(seen.outcome),),
        )
    if seen.outcome.reason in (Blind.PERMISSION, Blind.UNSUPPORTED):
        # whether it has to be written is what machine.disk.inodes says
        return not_applicable(f"no lock could be tried: {seen.outcome.detail}")
    return not_seen(f"whether files in {seen.path}{mount} can be locked was", seen.outcome)
