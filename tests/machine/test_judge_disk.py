"""The judges of disk, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace
from pathlib import Path

import pytest

from checks.core.codec import decode, encode
from checks.core.expectation import (
    Basis,
    Missing,
    NotDeclared,
    Wanted,
)
from checks.core.facts import Access, Blind, Unseen
from checks.core.finding import Judgement
from checks.core.judging import always
from checks.core.profile import LOCAL, Checks, Paths, Profile, Serve
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Folder,
    Identity,
    Locks,
    MemoryBehind,
    MemoryGroups,
    MemoryLimit,
    Mounted,
    RoomWanted,
)
from checks.machine.judge import disk as judge
from tests.support.judging import MIB, UNSEEN, expected, stopped_without


def test_the_limits_are_those_that_the_texts_promise():
    assert judge.RUN_BYTES == 4_194_304
    assert judge.USABLE_BYTES == 1_048_576
    assert judge.USABLE_INODES == 64
    assert "fewer than 64 inodes" in judge.room_for_files.__doc__


def folder(free: int = 100, inodes: int = 1_000, inodes_free: int = 64, **cached: int) -> Folder:
    return Folder(
        path="/srv/models",
        looked_at="/srv",
        total_bytes=1_000,
        free_bytes=free,
        inodes=inodes,
        inodes_free=inodes_free,
        cached_bytes=cached,
        access=ACCESS,
        beside=(),
        needed=True,
        mounted=EXT4,
        disks=("disk[a]",),
        memory=None,
    )


EXT4 = Mounted(
    kind="ext4",
    mounted_from="/dev/sda1",
    point="/srv",
    options=("rw", "relatime"),
    turned_read_only=False,
)
ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 7"
)


def room(free: int = 0, inodes: int = 64, **models: int) -> RoomWanted:
    return RoomWanted(
        name="tmp",
        free_bytes=free,
        model_bytes=models,
        inodes_free=inodes,
        beside_bytes={},
        named_by="TMPDIR",
        made_when_needed=False,
        named=True,
    )


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, Verdict.FAIL), (99, Verdict.FAIL), (100, Verdict.PASS), (101, Verdict.PASS)],
)
def test_free_room_is_judged_at_what_is_needed(free, verdict):
    said = judge.room_for_bytes(folder(free, a=30), room(10, a=100, b=20))
    assert said.verdict is verdict
    assert said.cause == ("no-room" if verdict is Verdict.FAIL else "")
    assert said.observed == {"free_bytes": free, "total_bytes": 1_000}
    assert said.expected == {"free_min_bytes": 100}
    assert (
        said.says == f"{free} B free in /srv/models (not there yet; looked at /srv), 100 B needed"
    )
    assert said.evidence == ("a: 70 B still to download", "b: 20 B still to download")


def test_a_folder_that_is_there_needs_no_second_name():
    there = replace(folder(7), looked_at=str(Path("/srv") / "models"))
    assert judge.room_for_bytes(there, room(0)).says == "7 B free in /srv/models, 0 B needed"


@pytest.mark.parametrize("looked_at", ["/", "/srv", "/zfs/models"])
def test_where_it_looked_is_said_when_it_is_somewhere_else(looked_at):
    said = judge.room_for_bytes(replace(folder(7), looked_at=looked_at), room(0)).says
    assert f"in /srv/models (not there yet; looked at {looked_at})" in said


def test_the_remedy_says_how_much_to_free_and_where():
    said = judge.room_for_bytes(folder(30), room(100))
    assert said.remedy.startswith("free 70 B on the file system of /srv/models, or move")


def test_a_model_that_is_in_the_cache_needs_no_room_and_gives_none():
    needs = judge.room_for_bytes(folder(10, a=500), room(10, a=100)).expected
    assert needs == {"free_min_bytes": 10}
    whole = judge.room_for_bytes(folder(0, a=100), room(0, a=100))
    assert whole.verdict is Verdict.PASS
    assert whole.expected == {"free_min_bytes": 0}


def test_large_numbers_of_bytes_are_compared_by_value():
    assert judge.room_for_bytes(folder(5_000), room(int("5000"))).verdict is Verdict.PASS
    said = judge.room_for_files(folder(inodes=9_999, inodes_free=5_000), room(inodes=int("5000")))
    assert said.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, Verdict.FAIL), (63, Verdict.FAIL), (64, Verdict.PASS), (65, Verdict.PASS)],
)
def test_inodes_are_judged_at_their_limit(free, verdict):
    said = judge.room_for_files(folder(inodes_free=free), room())
    assert said.verdict is verdict
    assert said.cause == ("no-inodes" if verdict is Verdict.FAIL else "")
    assert said.observed == {"inodes_free_count": free, "inodes_count": 1_000}
    assert said.expected == {"inodes_free_min_count": 64}
    assert (
        said.says == f"{free} inodes free in /srv/models (not there yet; looked at /srv), 64 needed"
    )
    assert ("file system of /srv/models" in said.remedy) is (verdict is Verdict.FAIL)


def test_a_file_system_without_a_fixed_number_of_inodes_passes_and_one_with_a_single_one_does_not():
    said = judge.room_for_files(folder(inodes=0, inodes_free=0), room())
    assert (said.verdict, said.says) == (
        Verdict.PASS,
        "no fixed number of inodes in /srv/models (not there yet; looked at /srv)",
    )
    for inodes in (-1, 1, 2):
        some = judge.room_for_files(folder(inodes=inodes, inodes_free=0), room())
        assert some.verdict is Verdict.FAIL


CLOSED = {
    # cause: what is seen of the folder, and what is said
    "not-a-folder": ({"is_folder": False}, "/srv/models is no folder"),
    "folder-missing": ({"exists": False}, "/srv/models is missing; /srv is there"),
    "read-only": ({"read_only": True, "writable": False}, "is mounted read-only"),
    "not-writable": ({"writable": False}, "this user (uid 7) may not write in /srv/models"),
}


@pytest.mark.parametrize("inodes", [0, 1_000])
@pytest.mark.parametrize("cause", CLOSED)
def test_a_folder_that_takes_no_files_fails_whatever_room_there_is(cause, inodes):
    changes, says = CLOSED[cause]
    closed = replace(folder(inodes=inodes), access=replace(ACCESS, **changes))
    said = judge.room_for_files(closed, room())
    assert (said.verdict, said.cause) == (Verdict.FAIL, cause)
    assert says in said.says
    assert "name another folder (TMPDIR); rerun" in said.remedy
    made = judge.room_for_files(closed, replace(room(), made_when_needed=True))
    assert (made.verdict is Verdict.PASS) is (cause == "folder-missing")


def test_a_missing_folder_that_is_made_when_needed_has_to_have_a_parent_that_may_be_written():
    missing = replace(folder(), access=replace(ACCESS, exists=False, writable=False))
    said = judge.room_for_files(missing, replace(room(), made_when_needed=True))
    assert said.cause == "not-writable"
    assert "give this user write permission in /srv," in said.remedy


@pytest.mark.parametrize("changes", [{"read_only": True, "writable": False}, {"writable": False}])
def test_a_cache_that_holds_all_models_need_not_be_writable(changes):
    closed = replace(folder(a=100, b=20), access=replace(ACCESS, **changes))
    said = judge.room_for_files(closed, room(a=100, b=20))
    assert said.verdict is Verdict.PASS
    assert said.notes == (
        "nothing more can be stored here, and all models of the profile are here",
    )
    for more in ({"a": 101, "b": 20}, {"a": 100, "b": 21}, {}):
        assert judge.room_for_files(closed, room(**more)).verdict is Verdict.FAIL


def test_a_missing_folder_is_told_how_to_be_made():
    missing = replace(folder(), access=replace(ACCESS, exists=False))
    remedy = judge.room_for_files(missing, room()).remedy
    assert "`mkdir -p /srv/models`" in remedy
    assert "`chmod 1777 /srv/models`" in remedy


def test_what_earlier_versions_did_not_record_of_a_folder_leaves_the_rest_judged_with_a_note():
    kept = encode(folder())
    del kept["access"], kept["beside"]
    older = decode(Folder, kept)
    for seen in (older, replace(folder(), access=UNSEEN)):
        said = judge.room_for_files(seen, room())
        assert said.verdict is Verdict.PASS
        (note,) = said.notes
        assert note.startswith("whether this user may create files there was not seen: ")
        assert judge.room_for_bytes(seen, room()).verdict is Verdict.PASS
    full = judge.room_for_files(replace(folder(inodes_free=63), access=UNSEEN), room())
    assert (full.cause, len(full.notes)) == ("no-inodes", 1)
    assert judge.room_for_files(folder(), room()).notes == ()


@pytest.mark.parametrize(
    ("free", "verdict", "notes"),
    [
        (119, Verdict.FAIL, 0),
        (120, Verdict.FAIL, 1),
        (149, Verdict.FAIL, 1),
        (150, Verdict.PASS, 0),
    ],
)
def test_what_has_to_go_on_one_file_system_is_added_up(free, verdict, notes):
    wanted = replace(room(20, a=100), beside_bytes={"tmp": 30, "ledgers": 4})
    said = judge.room_for_bytes(replace(folder(free), beside=("tmp", "other")), wanted)
    assert said.verdict is verdict
    assert said.expected == {"free_min_bytes": 150}
    assert said.evidence[-1] == "tmp: 30 B on the same file system"
    assert len(said.notes) == notes
    alone = judge.room_for_bytes(folder(120), wanted)
    assert (alone.verdict, alone.expected) == (Verdict.PASS, {"free_min_bytes": 120})


@pytest.mark.parametrize(
    ("free", "noted"), [(39, False), (40, True), (99, True), (100, False), (101, False)]
)
def test_a_pass_that_leans_on_what_is_cached_says_that_it_may_be_of_another_revision(free, noted):
    said = judge.room_for_bytes(folder(free, a=60), room(a=100))
    assert said.verdict is (Verdict.FAIL if free < 40 else Verdict.PASS)
    assert ["if it is of another revision, 100 B are needed" in note for note in said.notes] == [
        True
    ] * noted


def test_models_that_go_to_several_folders_or_into_a_container_have_nothing_to_be_compared_with():
    def serve(name: str, folder: str, where: str = "this", size: int | None = 5) -> Serve:
        environ = {"HF_HUB_CACHE": folder}
        return Serve(name=name, model=f"org/{name}", model_bytes=size, env=environ, where=where)

    inside = serve("c", "/c", "container:0123456789ab")
    for served in ((serve("a", "/a"), serve("b", "/b")), (inside,)):
        wanted = rooms(Profile(schema=1, serve=served))["model-cache"]
        assert isinstance(wanted, Missing)
        assert "paths.model_cache" in wanted.remedy
        named = Profile(schema=1, serve=served, paths=Paths(model_cache="/srv"))
        assert isinstance(rooms(named)["model-cache"], Wanted)
    one = rooms(Profile(schema=1, serve=(serve("a", "/a"),)))["model-cache"]
    assert isinstance(one, Wanted)
    unsized = (serve("a", "/a", size=None), serve("b", "/b", size=None))
    assert isinstance(rooms(Profile(schema=1, serve=unsized))["model-cache"], NotDeclared)


def rooms(profile: Profile) -> dict[str, object]:
    cases = list(judge._folders(expected(profile)))
    assert [case.subject for case in cases] == ["model-cache", "tmp", "ledgers", "containers"]
    return {case.subject: case.wanted for case in cases}


def test_without_declarations_a_temporary_file_and_a_run_must_fit():
    wanted = rooms(LOCAL)
    fact = "not declared: no [[serve]] with a hub model and model_bytes"
    assert wanted["model-cache"] == NotDeclared(fact=fact)
    assert wanted["tmp"] == Wanted(
        value=replace(room(MIB), named_by="TMPDIR or paths.tmp"),
        basis=Basis.INVARIANT,
        source="a folder for temporary files takes a file",
    )
    assert wanted["ledgers"] == Wanted(
        value=replace(room(4 * MIB), name="ledgers", named_by="--ledger-dir"),
        basis=Basis.INVARIANT,
        source="what one run writes",
    )


def test_files_must_fit_wherever_bytes_must_and_need_no_declaration():
    serve = (Serve(name="a", model="org/a", model_bytes=5),)
    cases = {
        case.subject: case.wanted
        for case in judge._always(expected(Profile(schema=1, serve=serve)), "a rule")
    }
    assert list(cases) == ["model-cache", "tmp", "ledgers", "containers"]
    assert {wanted.source for wanted in cases.values()} == {"a rule"}
    assert {wanted.basis for wanted in cases.values()} == {Basis.INVARIANT}
    assert cases["model-cache"].value.inodes_free == 64
    undeclared = {case.subject: case.wanted for case in judge._always(expected(), "a rule")}
    assert isinstance(undeclared["model-cache"], NotDeclared)
    assert isinstance(undeclared["tmp"], Wanted)


def test_declared_room_for_temporary_files_is_wanted():
    wanted = rooms(Profile(schema=1, paths=Paths(tmp_free_min_bytes=7)))["tmp"]
    assert wanted == Wanted(
        value=replace(room(7), named_by="TMPDIR or paths.tmp"),
        basis=Basis.DECLARED,
        source="h100-1.toml: paths.tmp_free_min_bytes",
    )


def test_every_hub_model_with_a_size_must_fit_and_no_other():
    serve = (
        Serve(name="a", model="org/a", model_bytes=5),
        Serve(name="b", model="org/b", model_bytes=6),
        Serve(name="path", model="/srv/c", model_bytes=7),
        Serve(name="home", model="~/c", model_bytes=7),
        Serve(name="here", model="./c", model_bytes=7),
        Serve(name="unsized", model="org/d"),
        Serve(name="unnamed", model_bytes=8),
    )
    wanted = rooms(Profile(schema=1, serve=serve, checks=Checks()))["model-cache"]
    assert wanted == Wanted(
        value=RoomWanted(
            name="model-cache",
            free_bytes=0,
            model_bytes={"org/a": 5, "org/b": 6},
            inodes_free=64,
            beside_bytes={"tmp": MIB, "ledgers": 4 * MIB},
            named_by="paths.model_cache, or HF_HUB_CACHE or HF_HOME of the server",
            made_when_needed=True,
            named=True,
        ),
        basis=Basis.DECLARED,
        source="h100-1.toml: serve[].model_bytes",
    )


@pytest.mark.parametrize("sizes", [(9, 1), (1, 9)])
def test_of_a_model_that_is_served_twice_the_larger_size_is_wanted(sizes):
    serve = tuple(Serve(name=f"s{n}", model="org/a", model_bytes=n) for n in sizes)
    profile = Profile(schema=1, serve=serve, paths=Paths(tmp_free_min_bytes=7))
    value = rooms(profile)["model-cache"].value
    assert value.model_bytes == {"org/a": 9}
    assert value.beside_bytes == {"tmp": 7, "ledgers": 4 * MIB}


# Containers


def containers(*, named: bool = False, free: int = 0) -> RoomWanted:
    return replace(
        room(free), name="containers", named_by="`data-root`", made_when_needed=True, named=named
    )


def test_container_data_is_wanted_by_a_rule_or_by_what_the_profile_says():
    named_by = "`data-root` of /etc/docker/daemon.json, or paths.container_data"
    assert rooms(LOCAL)["containers"] == Wanted(
        value=replace(containers(free=MIB), named_by=named_by),
        basis=Basis.INVARIANT,
        source="a container takes a file",
    )
    declared = rooms(Profile(schema=1, paths=Paths(container_data_free_min_bytes=7)))["containers"]
    assert declared == Wanted(
        value=replace(containers(named=True, free=7), named_by=named_by),
        basis=Basis.DECLARED,
        source="h100-1.toml: paths.container_data_free_min_bytes",
    )
    only_named = rooms(Profile(schema=1, paths=Paths(container_data="/data")))["containers"]
    assert only_named.value == replace(containers(named=True, free=MIB), named_by=named_by)
    assert only_named.basis is Basis.INVARIANT


def test_what_containers_need_counts_beside_the_models_only_where_it_is_declared():
    serve = (Serve(name="a", model="org/a", model_bytes=5),)
    for paths, beside in (
        (Paths(container_data="/data"), {"tmp": MIB, "ledgers": 4 * MIB}),
        (
            Paths(container_data_free_min_bytes=7),
            {"tmp": MIB, "ledgers": 4 * MIB, "containers": 7},
        ),
    ):
        wanted = rooms(Profile(schema=1, serve=serve, paths=paths))["model-cache"]
        assert wanted.value.beside_bytes == beside


SEALED = replace(ACCESS, read_only=True, writable=False)


def three(seen: Folder, wanted: RoomWanted) -> list[Judgement]:
    """Let all the judges of a folder judge it."""
    return [
        judge.room_for_bytes(seen, wanted),
        judge.room_for_files(seen, wanted),
        judge.filesystem_can_hold(seen, BOX_SEEN, wanted),
    ]


def test_a_box_without_a_container_runtime_has_nothing_to_judge_until_the_profile_names_a_folder():
    seen = replace(folder(0, inodes_free=0), needed=False)
    for said in three(seen, containers()):
        assert said.verdict is Verdict.NOT_APPLICABLE
        assert said.says == "no data root of docker, containerd or podman is on this box"
    assert judge.room_for_files(seen, containers(named=True)).cause == "no-inodes"
    assert judge.room_for_bytes(seen, containers(named=True, free=1)).cause == "no-room"


def test_container_data_that_is_read_only_on_purpose_is_not_judged_until_it_is_named():
    sealed = replace(folder(0, inodes_free=0), access=SEALED)
    for said in three(sealed, containers()):
        assert said.verdict is Verdict.NOT_APPLICABLE
        assert "/srv/models (not there yet; looked at /srv) is mounted read-only" in said.says
    assert judge.room_for_files(sealed, containers(named=True)).cause == "read-only"
    # what this user may not see of it, the mount tells
    unseen = Unseen(Blind.PERMISSION, "planted")
    mounted = replace(EXT4, options=("ro",))
    hidden = replace(sealed, access=unseen, mounted=mounted)
    assert judge.room_for_files(hidden, containers()).verdict is Verdict.NOT_APPLICABLE
    writable = replace(hidden, mounted=EXT4)
    said = judge.room_for_files(writable, containers())
    assert said.cause == "no-inodes"
    assert "(not open to this user; looked at /srv)" in said.says
    assert judge.room_for_files(replace(hidden, mounted=UNSEEN), containers()).cause == "no-inodes"


def test_container_data_that_a_kernel_has_made_read_only_fails():
    turned = replace(
        folder(0), access=SEALED, mounted=replace(EXT4, turned_read_only=True, options=("rw", "ro"))
    )
    said = judge.room_for_files(turned, containers())
    assert said.cause == "read-only"
    assert said.says.endswith("is mounted read-only, after it had been mounted writable")
    plain = judge.room_for_files(replace(turned, mounted=EXT4), room())
    assert plain.says.endswith("is mounted read-only")


def test_whether_this_user_may_write_to_container_data_does_not_count():
    seen = replace(folder(), access=replace(ACCESS, writable=False))
    assert judge.room_for_files(seen, room()).cause == "not-writable"
    said = judge.room_for_files(seen, containers())
    assert (said.verdict, said.notes) == (Verdict.PASS, ())
    hidden = replace(seen, access=Unseen(Blind.PERMISSION, "planted"))
    said = judge.room_for_files(hidden, containers())
    assert (said.verdict, said.notes) == (Verdict.PASS, ())


# Which disks a verdict rests on


@pytest.mark.parametrize(
    ("disks", "premise"),
    [(("disk[a]", "disk[b]"), ("disk[a]", "disk[b]")), ((), ()), (UNSEEN, None)],
)
def test_a_verdict_rests_on_the_disks_of_its_folder_or_on_all_where_these_are_not_known(
    disks, premise
):
    for seen in (replace(folder(0), disks=disks), replace(folder(0, inodes_free=0), disks=disks)):
        for said in three(seen, room(0)):
            assert said.premise == premise


def test_a_ledger_that_knew_nothing_of_disks_is_judged_as_before():
    row = encode(folder(5))
    for name in ("needed", "mounted", "disks", "memory"):
        del row[name]
    old = decode(Folder, row)
    for wanted in (room(5), containers(free=5)):
        for judged in (judge.room_for_bytes, judge.room_for_files):
            said = judged(old, wanted)
            assert (said.verdict, said.premise, said.notes) == (Verdict.PASS, None, ())
    closed = decode(Folder, row | {"access": encode(SEALED)})
    assert judge.room_for_files(closed, room()).cause == "read-only"


# File systems

BOX_SEEN = Identity(**(dict.fromkeys(Identity.__dataclass_fields__, "none") | {"evidence": ()}))
IN_DOCKER = replace(BOX_SEEN, container="docker")


def lies_on(kind: str, *options: str, memory: MemoryBehind | Unseen | None = None) -> Folder:
    mounted = replace(EXT4, kind=kind, options=options or ("rw",))
    return replace(folder(900), mounted=mounted, memory=memory)


def behind(
    total: int = 1_000,
    available: int = 600,
    swap: int = 0,
    swap_free: int = 0,
    *limits: MemoryLimit,
) -> MemoryBehind:
    return MemoryBehind(
        memory_total_bytes=total,
        memory_available_bytes=available,
        swap_total_bytes=swap,
        swap_free_bytes=swap_free,
        groups=MemoryGroups(limits=limits, above_unseen=False),
    )


def cache(**models: int) -> RoomWanted:
    return replace(room(0, **models), name="model-cache", named_by="paths.model_cache")


def held(memory: MemoryBehind, *, cached: int = 0, size: int = 500) -> Judgement:
    seen = replace(lies_on("tmpfs", memory=memory), cached_bytes={"a": cached})
    return judge.filesystem_can_hold(seen, BOX_SEEN, cache(a=size))


def test_a_disk_holds_what_it_has_room_for_and_is_called_by_its_kind():
    said = judge.filesystem_can_hold(lies_on("xfs", "rw", "noatime"), BOX_SEEN, cache(a=10**15))
    assert said.verdict is Verdict.PASS
    assert said.says == "/srv/models (not there yet; looked at /srv) lies on xfs"
    assert said.observed == {"filesystem": "xfs"}
    assert said.evidence == ("mounted at /srv: xfs rw noatime",)
    assert said.notes == ()


@pytest.mark.parametrize(
    ("total", "swap", "verdict"),
    [
        (499, 0, Verdict.FAIL),
        (500, 0, Verdict.PASS),
        (400, 99, Verdict.FAIL),
        (400, 100, Verdict.PASS),
    ],
)
def test_models_in_memory_have_to_fit_into_memory_and_swap(total, swap, verdict):
    said = held(behind(total, 0, swap), cached=500)
    assert said.verdict is verdict
    assert said.cause == ("exceeds-memory" if verdict is Verdict.FAIL else "")
    assert said.observed == {
        "filesystem": "tmpfs",
        "memory_and_swap_bytes": total + swap,
        "memory_and_swap_free_bytes": 0,
    }
    assert said.expected == {"models_bytes": 500, "free_min_bytes": 0}
    if verdict is Verdict.FAIL:
        assert said.says.endswith(
            f"lies on tmpfs: models of 500 B, {total + swap} B of memory and swap"
        )
        assert "paths.model_cache" in said.remedy
        assert "mount a volume at /srv/models" in said.remedy


@pytest.mark.parametrize(
    ("available", "swap_free", "verdict"),
    [
        (399, 0, Verdict.FAIL),
        (400, 0, Verdict.PASS),
        (300, 99, Verdict.FAIL),
        (300, 100, Verdict.PASS),
    ],
)
def test_what_is_still_to_download_has_to_fit_into_what_is_free_of_it(
    available, swap_free, verdict
):
    said = held(behind(1_000, available, 200, swap_free), cached=100)
    assert said.verdict is verdict
    assert said.expected["free_min_bytes"] == 400
    if verdict is Verdict.FAIL:
        assert said.says.endswith(
            f"400 B still have to go there, {available + swap_free} B of memory and swap are free"
        )


def limit(most: int, used: int) -> MemoryLimit:
    return MemoryLimit(source="memory.max", limit_bytes=most, used_bytes=used, file_bytes=0)


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [
        (behind(1_000, 900, 0, 0, limit(500, 0)), Verdict.PASS),
        (behind(1_000, 900, 0, 0, limit(499, 0)), Verdict.FAIL),
        (behind(1_000, 900, 1, 1, limit(499, 0)), Verdict.PASS),
        (behind(1_000, 900, 0, 0, limit(900, 400)), Verdict.PASS),
        (behind(1_000, 900, 0, 0, limit(900, 401)), Verdict.FAIL),
        (behind(1_000, 900, 0, 0, limit(900, 0), limit(800, 301)), Verdict.FAIL),
        # a limit beyond what there is gives nothing
        (behind(499, 499, 0, 0, limit(900, 0)), Verdict.FAIL),
        (behind(1_000, 499, 0, 0, limit(900, 0)), Verdict.FAIL),
    ],
)
def test_memory_that_a_cgroup_limits_is_what_the_tightest_leaves(memory, verdict):
    said = held(memory)
    assert said.verdict is verdict, said.says
    assert any(line.startswith("memory.max: ") for line in said.evidence)
    assert any(" available; swap " in line for line in said.evidence)


@pytest.mark.parametrize(("total", "noted"), [(1_000, False), (999, True)])
def test_two_copies_that_do_not_fit_are_a_note_with_the_numbers(total, noted):
    said = held(behind(total, 900))
    assert said.verdict is Verdict.PASS
    notes = [note for note in said.notes if "as much again, 1000 B in all" in note]
    assert bool(notes) is noted
    if noted:
        assert f"500 B of {total} B" in notes[0]


def test_temporary_files_in_memory_need_the_memory_that_is_declared_for_them():
    seen = lies_on("tmpfs", memory=behind(1_000, 300))
    assert judge.filesystem_can_hold(seen, BOX_SEEN, room(300)).verdict is Verdict.PASS
    assert judge.filesystem_can_hold(seen, BOX_SEEN, room(301)).cause == "exceeds-memory"
    assert judge.filesystem_can_hold(seen, BOX_SEEN, room(301)).expected["models_bytes"] == 0


def test_cgroups_that_cannot_be_seen_are_noted_and_memory_that_cannot_is_unknown():
    said = held(replace(behind(), groups=UNSEEN))
    assert said.verdict is Verdict.PASS
    assert any("whether a cgroup limits that memory was not seen" in note for note in said.notes)
    said = judge.filesystem_can_hold(lies_on("tmpfs", memory=UNSEEN), BOX_SEEN, cache(a=1))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    said = judge.filesystem_can_hold(replace(folder(), mounted=UNSEEN), BOX_SEEN, cache(a=1))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == UNSEEN.remedy
    assert "/srv/models" in said.says


@pytest.mark.parametrize(
    ("kind", "box", "name", "words"),
    [
        (
            "overlay",
            IN_DOCKER,
            "model-cache",
            "lost with the container, and its first load is slow",
        ),
        ("overlay", BOX_SEEN, "model-cache", "lost with the live system"),
        ("tmpfs", BOX_SEEN, "model-cache", "lost with the next boot: mount a volume"),
        ("nfs4", BOX_SEEN, "model-cache", "goes over the network"),
        ("fuse.s3fs", BOX_SEEN, "model-cache", "goes over the network"),
        ("vfat", BOX_SEEN, "model-cache", "no symbolic links"),
        ("ext4", BOX_SEEN, "model-cache", ""),
        ("overlay", IN_DOCKER, "ledgers", "the ledger is lost with the container"),
        ("tmpfs", BOX_SEEN, "ledgers", "the ledger is lost with the next boot"),
        ("nfs4", BOX_SEEN, "ledgers", ""),
        ("tmpfs", BOX_SEEN, "tmp", ""),
        ("overlay", IN_DOCKER, "tmp", ""),
        ("nfs", BOX_SEEN, "containers", "on nfs images are slow to use, or lost with the network"),
        (
            "tmpfs",
            BOX_SEEN,
            "containers",
            "on tmpfs images are slow to use, or lost with the next boot",
        ),
        ("overlay", IN_DOCKER, "containers", "lost with the container"),
        ("xfs", BOX_SEEN, "containers", ""),
    ],
)
def test_what_to_expect_of_a_file_system_is_a_note(kind, box, name, words):
    memory = behind(10**9, 10**9) if kind == "tmpfs" else None
    wanted = replace(cache(a=5) if name == "model-cache" else room(), name=name)
    said = judge.filesystem_can_hold(lies_on(kind, memory=memory), box, wanted)
    assert said.verdict is Verdict.PASS
    assert len(said.notes) == bool(words)
    assert words in "".join(said.notes)


def test_a_folder_for_temporary_files_that_runs_nothing_is_noted():
    seen = lies_on("ext4", "rw", "noexec")
    (note,) = judge.filesystem_can_hold(seen, BOX_SEEN, room()).notes
    assert "TRITON_CACHE_DIR" in note
    for name in ("ledgers", "containers"):
        assert judge.filesystem_can_hold(seen, BOX_SEEN, replace(room(), name=name)).notes == ()
    assert judge.filesystem_can_hold(seen, BOX_SEEN, cache(a=1)).notes == ()


# Locks


def locks(outcome: str | Unseen, kind: str | Unseen = "nfs") -> Locks:
    return Locks(path="/srv/models", outcome=outcome, waited_s=0.0, kind=kind)


def test_a_lock_that_is_given_passes():
    said = judge.locks_work(locks("ok"))
    assert (said.verdict, said.notes) == (Verdict.PASS, ())
    assert said.says == "a file in /srv/models (nfs) can be locked"
    assert judge.locks_work(locks("ok", UNSEEN)).says == "a file in /srv/models can be locked"


@pytest.mark.parametrize("error", ["ENOLCK", "ENOTSUP", "EOPNOTSUPP", "EINVAL"])
def test_a_lock_that_nobody_keeps_fails(error):
    said = judge.locks_work(locks(error))
    assert said.cause == "locks-unsupported"
    assert said.says == f"a lock on a new file in /srv/models (nfs) ends in {error}"
    assert said.observed == {"lock": error}
    assert said.expected == {"lock": "ok"}
    assert "rpc-statd" in said.remedy


def test_a_lock_without_an_answer_fails_and_says_when_to_wait():
    said = judge.locks_work(locks(Unseen(Blind.TIMED_OUT, "no answer within 4 s")))
    assert said.cause == "locks-hang"
    assert said.observed == {"lock": "no answer"}
    assert said.evidence == ("timed-out: no answer within 4 s",)
    assert "wait two minutes" in said.remedy
    assert "rpc-statd" in said.remedy


def test_files_that_stand_for_locks_pass_with_a_note():
    said = judge.locks_work(locks("ENOSYS", "lustre"))
    assert said.verdict is Verdict.PASS
    assert said.observed == {"lock": "ENOSYS"}
    assert "huggingface_hub before 0.24" in said.notes[0]


def test_another_error_is_unknown():
    said = judge.locks_work(locks("EIO"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "EIO" in said.says


@pytest.mark.parametrize("reason", list(Blind))
def test_where_no_lock_could_be_tried_nothing_passes_and_nothing_fails_but_a_hang(reason):
    said = judge.locks_work(locks(Unseen(reason, "planted", "do this")))
    if reason in (Blind.PERMISSION, Blind.UNSUPPORTED):
        assert said.verdict is Verdict.NOT_APPLICABLE
        assert said.says == "no lock could be tried: planted"
    elif reason is Blind.TIMED_OUT:
        assert said.verdict is Verdict.FAIL
    else:
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
        assert said.remedy == "do this"
        assert "/srv/models (nfs)" in said.says


def test_locks_are_wanted_wherever_a_model_of_the_hub_is_downloaded_to():
    def wanted(*served: Serve, paths: Paths | None = None) -> object:
        profile = Profile(schema=1, serve=served, paths=paths or Paths())
        (case,) = judge._locked_folders(expected(profile))
        assert case.subject == "model-cache"
        return case.wanted

    unsized = Serve(name="a", model="org/a")
    assert wanted(unsized) == always("the hub's client locks files")
    assert wanted() == NotDeclared(fact="not declared: no [[serve]] with a hub model")
    assert isinstance(wanted(Serve(name="a", model="/srv/a")), NotDeclared)
    one, other = (Serve(name=n, model=f"org/{n}", env={"HF_HUB_CACHE": f"/{n}"}) for n in "ab")
    assert isinstance(wanted(one, other), Missing)
    inside = replace(one, where="container:0123456789ab")
    assert isinstance(wanted(inside), Missing)
    assert isinstance(wanted(one, other, paths=Paths(model_cache="/srv")), Wanted)


# No number is no pass


def test_what_is_no_number_passes_nowhere():
    compared = {"free_bytes", "cached_bytes", "model_bytes", "beside_bytes"}
    assert (
        stopped_without(
            "machine.disk.free",
            (replace(folder(900, a=30), beside=("tmp",)),),
            replace(room(10, a=100), beside_bytes={"tmp": 7}),
            compared,
        )
        == compared
    )
    compared = {"inodes_free"}
    assert stopped_without("machine.disk.inodes", (folder(),), room(), compared) == compared
    compared = {
        *(
            "memory_total_bytes",
            "memory_available_bytes",
            "swap_total_bytes",
            "swap_free_bytes",
        ),
        *("cached_bytes", "model_bytes"),
    }
    assert (
        stopped_without(
            "machine.disk.filesystem",
            (
                replace(
                    lies_on("tmpfs", memory=behind(1_000, 900, 5, 5)),
                    cached_bytes={"a": 30},
                ),
                BOX_SEEN,
            ),
            replace(cache(a=100), free_bytes=5),
            compared,
        )
        == compared
    )
