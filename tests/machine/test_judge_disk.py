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
from checks.core.facts import Access
from checks.core.profile import LOCAL, Checks, Paths, Profile, Serve
from checks.core.verdict import Verdict
from checks.machine.facts import (
    Folder,
    RoomWanted,
)
from checks.machine.judge import disk as judge
from tests.support.judging import MIB, UNSEEN, expected, passes_nowhere_without_a_number


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
    )


ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 7"
)


def room(free: int = 0, inodes: int = 64, **models: int) -> RoomWanted:
    return RoomWanted(
        free_bytes=free,
        model_bytes=models,
        inodes_free=inodes,
        beside_bytes={},
        named_by="TMPDIR",
        made_when_needed=False,
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
    assert [case.subject for case in cases] == ["model-cache", "tmp", "ledgers"]
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
        value=replace(room(4 * MIB), named_by="--ledger-dir"),
        basis=Basis.INVARIANT,
        source="what one run writes",
    )


def test_files_must_fit_wherever_bytes_must_and_need_no_declaration():
    serve = (Serve(name="a", model="org/a", model_bytes=5),)
    cases = {
        case.subject: case.wanted
        for case in judge._inodes(expected(Profile(schema=1, serve=serve)))
    }
    assert list(cases) == ["model-cache", "tmp", "ledgers"]
    assert {wanted.basis for wanted in cases.values()} == {Basis.INVARIANT}
    assert cases["model-cache"].value.inodes_free == 64
    undeclared = {case.subject: case.wanted for case in judge._inodes(expected())}
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
            free_bytes=0,
            model_bytes={"org/a": 5, "org/b": 6},
            inodes_free=64,
            beside_bytes={"tmp": MIB, "ledgers": 4 * MIB},
            named_by="paths.model_cache, or HF_HUB_CACHE or HF_HOME of the server",
            made_when_needed=True,
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


# No number is no pass


def test_what_is_no_number_passes_nowhere():
    passes_nowhere_without_a_number(
        "machine.disk.free",
        (replace(folder(900, a=30), beside=("tmp",)),),
        replace(room(10, a=100), beside_bytes={"tmp": 7}),
        {"free_bytes", "cached_bytes", "model_bytes", "beside_bytes"},
    )
    passes_nowhere_without_a_number("machine.disk.inodes", (folder(),), room(), {"inodes_free"})
