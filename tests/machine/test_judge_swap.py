"""The judge of swap, with data alone: nearest values on both sides, texts and sources."""

from __future__ import annotations

import pytest

from checks.core.expectation import Basis, Wanted
from checks.core.facts import BOX
from checks.core.profile import Hardware, Profile
from checks.core.verdict import Verdict
from checks.machine.facts import Swap, SwapDevice
from checks.machine.judge import swap as judge
from tests.support.judging import GIB, UNSEEN, expected, stopped_without


def swap(total: int, used: int = 0, **changes: object) -> Swap:
    fields = {"memory_total_bytes": 1_000 * GIB, "devices": (), "zswap": False}
    return Swap(**{"total_bytes": total, "free_bytes": total - used, **fields, **changes})


def device(name: str, kind: str, size: int, used: int = 0) -> SwapDevice:
    return SwapDevice(name=name, kind=kind, size_bytes=size, used_bytes=used)


@pytest.mark.parametrize(
    ("total", "most", "verdict"),
    [
        (0, 0, Verdict.PASS),
        (1, 0, Verdict.FAIL),
        (8 * GIB - 1, 8 * GIB, Verdict.PASS),
        (8 * GIB, 8 * GIB, Verdict.PASS),
        (8 * GIB + 1, 8 * GIB, Verdict.FAIL),
        (10_000 * GIB, 0, Verdict.FAIL),
        (10_000 * GIB, None, Verdict.PASS),
        (0, None, Verdict.PASS),
    ],
)
def test_swap_is_judged_at_what_is_declared(total, most, verdict):
    said = judge.swap_as_declared(swap(total), most)
    assert said.verdict is verdict
    assert said.cause == ("more-swap-than-declared" if verdict is Verdict.FAIL else "")
    assert said.observed == {"swap_total_bytes": total, "swap_used_bytes": 0}
    assert said.expected == ({} if most is None else {"swap_max_bytes": most})
    assert said.notes == ()
    if verdict is Verdict.FAIL:
        assert "swapoff -a" in said.remedy


def test_what_is_there_and_what_is_wanted_is_said():
    assert judge.swap_as_declared(swap(0), None).says == "no swap"
    assert judge.swap_as_declared(swap(0), 0).says == "no swap, at most 0 B wanted"
    assert judge.swap_as_declared(swap(2 * GIB), 0).says == "2.0 GiB of swap, at most 0 B wanted"


@pytest.mark.parametrize(("used", "notes"), [(100 * GIB, 0), (100 * GIB + 1, 1)])
def test_weights_in_swap_are_noted_beyond_a_tenth_of_the_memory(used, notes):
    for most in (None, 400 * GIB):
        said = judge.swap_as_declared(swap(400 * GIB, used), most)
        assert (said.verdict, len(said.notes)) == (Verdict.PASS, notes)
        assert said.observed["swap_used_bytes"] == used
    for note in said.notes:
        assert note.startswith("100.0 GiB are swapped out: weights")
        assert note.endswith("and rerun")


def test_the_note_on_what_is_swapped_out_says_that_zswap_may_hold_some_in_memory():
    for zswap, found in ((True, True), (False, False), (UNSEEN, False)):
        (note,) = judge.swap_as_declared(swap(400 * GIB, 300 * GIB, zswap=zswap), None).notes
        assert ("kept compressed in memory" in note) is found


def test_compressed_memory_counts_as_swap_and_is_told_apart():
    devices = (
        device("/dev/zram0", "zram", 2 * GIB, GIB),
        device("/dev/zram1", "zram", GIB),
        device("/swap.img", "file", 4 * GIB),
    )
    said = judge.swap_as_declared(swap(7 * GIB, devices=devices, zswap=True), 0)
    assert said.verdict is Verdict.FAIL
    assert said.says.startswith("7.0 GiB of swap, 3.0 GiB of it in compressed memory (zram)")
    assert said.evidence == (
        "/dev/zram0: zram, 2.0 GiB, 1.0 GiB used",
        "/dev/zram1: zram, 1.0 GiB, 0 B used",
        "/swap.img: file, 4.0 GiB, 0 B used",
        "zswap is on: pages on their way to swap are first kept compressed in memory",
    )
    none = judge.swap_as_declared(swap(GIB, devices=devices[2:]), None)
    assert "compressed" not in none.says


def test_what_was_not_seen_of_swap_is_evidence_and_no_verdict():
    said = judge.swap_as_declared(swap(GIB, devices=UNSEEN), GIB)
    assert said.verdict is Verdict.PASS
    assert said.evidence == ("what it is made of was not seen: permission: planted",)
    (line,) = judge.swap_as_declared(swap(GIB, zswap=UNSEEN), GIB).evidence
    assert line.startswith("whether zswap is on was not seen")


def test_only_the_first_of_many_swap_devices_are_named():
    many = tuple(device(f"/dev/sd{n}", "partition", 1) for n in range(9))
    assert len(judge.swap_as_declared(swap(9, devices=many), None).evidence) == 8


def test_swap_is_compared_with_the_profile_where_it_says_something():
    (case,) = judge._swap(expected())
    assert (case.subject, case.wanted.value, case.wanted.basis) == (BOX, None, Basis.INVARIANT)
    for most, assumed, basis in ((0, (), Basis.DECLARED), (5, ("swap_max_bytes",), Basis.ASSUMED)):
        hardware = Hardware(swap_max_bytes=most, assumed=assumed)
        (case,) = judge._swap(expected(Profile(schema=1, hardware=hardware)))
        source = "h100-1.toml: hardware.swap_max_bytes"
        assert case.wanted == Wanted(value=most, basis=basis, source=source)


def test_what_is_no_number_passes_nowhere():
    compared = {"total_bytes", "wanted"}
    assert stopped_without("machine.memory.swap", (swap(5),), 9, compared) == compared
