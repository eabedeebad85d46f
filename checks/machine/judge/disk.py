"""Whether there is room, and files can be created."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.expectation import Basis, Case, Expected, Missing, NotDeclared, Wanted
from checks.core.facts import Access, Unseen
from checks.core.finding import Judgement, fail, ok
from checks.core.judging import if_recorded
from checks.core.registry import check
from checks.core.units import bytes_text
from checks.machine.facts import (
    Folder,
    RoomWanted,
)
from checks.machine.hub import ELSEWHERE, declared_caches, is_hub_model

RUN_BYTES = 4 * 2**20
"""What one run writes at most: a ledger under 1 MB, its journal, and the copy before the rename."""
USABLE_BYTES = 2**20
USABLE_INODES = 64


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
    beside = if_recorded(lambda: seen.beside)
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
    access = if_recorded(lambda: seen.access)
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
