"""Which ledger a scope relies on, and what later runs have to say against it."""

import pytest

from checks.ledger.head import Head
from checks.ledger.reliance import Base, Later, reliance


def at(hour):
    return f"2025-12-02T{hour:02d}:00:00.000Z"


def entry(name, hour, verdict="pass", **areas):
    """Give an entry of a head; an area is its verdict, or that and its unconfirmed passes."""
    parts = {
        area: {"verdict": said, "unconfirmed": 0} if isinstance(said, str) else said
        for area, said in (areas or {"machine": verdict}).items()
    }
    return {
        "file": f"{name}.json",
        "sha256": "0" * 64,
        "digest": "sha256:" + "0" * 64,
        "verdict": verdict,
        "exit_code": {"pass": 0, "fail": 1, "interrupted": 2, "incomplete": 10}[verdict],
        "ended_utc": at(hour),
        "unconfirmed": 0,
        "unconfirmed_required": sum(part["unconfirmed"] for part in parts.values()),
        "areas": parts,
    }


def head(newest, unsettled=None, **scopes):
    row = {key: newest[key] for key in ("file", "sha256", "digest", "verdict", "exit_code")}
    return Head(
        **row,
        host="h",
        scope="all",
        ended_utc=newest["ended_utc"],
        boot_id=None,
        boot_offset_s=None,
        newest_s=0.0,
        fingerprint={},
        scopes=scopes,
        unsettled={} if unsettled is None else unsettled,
        previous=None,
    )


def said(head, scope="all"):
    """Give file and verdict of what is relied on, and what speaks against it."""
    found = reliance(head, scope)
    base = None if found.base is None else (found.base.file.partition(".")[0], found.base.verdict)
    return base, {(later.what, later.verdict) for later in found.later}


def test_what_is_relied_on_is_given_whole():
    whole = entry("all", 3, machine={"verdict": "pass", "unconfirmed": 2})
    assert reliance(head(whole, all=whole), "all").base == Base(
        file="all.json", sha256="0" * 64, ended_utc=at(3), verdict="pass", unconfirmed=2
    )
    failed = entry("machine", 4, "fail")
    assert reliance(head(failed, all=whole, machine=failed), "all").later == (
        Later(what="machine", verdict="fail", ended_utc=at(4)),
    )


@pytest.mark.parametrize("scope", ["all", "quick", "machine"])
def test_without_a_complete_run_nothing_is_relied_on_and_a_fault_is_known_all_the_same(scope):
    cut = entry("cut", 3, "interrupted", machine="incomplete")
    assert said(head(cut, {"interrupted": cut}), scope) == (None, {("run", "interrupted")})
    picked = entry("selection", 4, "fail")
    known = head(picked, {"fail": picked}, selection=picked)
    assert said(known, scope) == (None, {("run", "fail"), ("selection", "fail")})


def test_a_fault_that_a_run_had_found_before_it_was_interrupted_is_a_fault():
    whole, cut = entry("all", 3), entry("cut", 4, "interrupted", gpu="fail", machine="pass")
    other = entry("network", 5, network="pass")
    known = head(other, {"interrupted": cut}, all=whole, network=other)
    assert said(known) == (("all", "pass"), {("run", "fail")})
    assert said(known, "machine") == (("all", "pass"), {("run", "interrupted")})


def test_what_ended_at_the_same_moment_counts_as_later():
    whole, failed, other = entry("all", 3), entry("machine", 3, "fail"), entry("gpu", 4, gpu="pass")
    known = head(other, all=whole, machine=failed, gpu=other)
    assert said(known) == (("all", "pass"), {("machine", "fail")})


def test_the_newest_is_what_the_head_names_whatever_its_clock_said():
    whole, failed = entry("all", 9), entry("machine", 3, "fail")
    assert said(head(failed, all=whole, machine=failed)) == (("all", "pass"), {("machine", "fail")})
    assert said(head(failed, all=whole, machine=failed), "machine") == (("machine", "fail"), set())
    whole, failed = entry("all", 3), entry("machine", 9, "fail")
    assert said(head(whole, all=whole, machine=failed)) == (("all", "pass"), set())
    assert said(head(whole, all=whole, machine=failed), "machine") == (("all", "pass"), set())


def test_an_area_takes_its_own_part_of_a_run_of_everything():
    whole = entry("all", 3, "fail", gpu="fail", machine={"verdict": "pass", "unconfirmed": 1})
    known = head(whole, all=whole)
    assert said(known, "machine") == (("all", "pass"), set())
    assert reliance(known, "machine").base.unconfirmed == 1
    assert said(known, "gpu") == (("all", "fail"), set())
    assert said(known, "network") == (None, set())


def test_of_other_runs_an_area_takes_its_own_part_too():
    whole = entry("all", 3)
    quick = entry("quick", 4, "fail", gpu="fail", machine="incomplete")
    known = head(quick, all=whole, quick=quick)
    assert said(known, "machine") == (("all", "pass"), {("quick", "incomplete")})
    picked = entry("selection", 4, "fail", gpu="fail", machine="incomplete")
    known = head(picked, {"fail": picked}, all=whole, selection=picked)
    assert said(known, "machine") == (("all", "pass"), set())
    assert said(known) == (("all", "pass"), {("selection", "fail"), ("run", "fail")})


def test_what_was_settled_before_says_nothing():
    cut, whole = entry("cut", 2, "interrupted"), entry("all", 3)
    area = entry("machine", 4)
    assert said(head(area, {"interrupted": cut}, all=whole, machine=area))[1] == set()
    own = entry("machine", 9)
    later = entry("cut", 8, "interrupted")
    known = head(own, {"interrupted": later}, all=whole, machine=own)
    assert said(known, "machine") == (("machine", "pass"), set())
    assert said(known) == (("all", "pass"), {("run", "interrupted")})


def test_an_older_entry_is_one_whole():
    whole = entry("all", 3, "fail", gpu="fail", machine="pass")
    del whole["areas"], whole["unconfirmed_required"]
    whole["unconfirmed"] = 4
    assert said(head(whole, all=whole), "machine") == (("all", "fail"), set())
    assert reliance(head(whole, all=whole), "machine").base.unconfirmed == 4
