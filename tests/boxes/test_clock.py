"""The row `clock-past`, as a class: clocks in the past, clocks that jump, and those that do not."""

from __future__ import annotations

import calendar
import json
from pathlib import Path

import pytest

from checks.core.moment import day_of, utc_text
from checks.machine.probe.clock import kernel_build_s
from tests.support.boxes import (
    NOW_S,
    OLD_S,
    UP_S,
    Box,
    Run,
    arm_board,
    docker_box,
    plain_box,
    wsl_box,
)

PAST = "machine.clock.past"
JUMP = "machine.clock.jump"
DAY_S = 86_400.0
YEAR_S = 365.25 * DAY_S
IN_2009_S = float(calendar.timegm((2009, 1, 1, 0, 3, 0)))


def at(now_s: float, box: Box | None = None) -> Box:
    """A box whose clocks say this, and whose kernel counts its boot back from it."""
    box = box or plain_box()
    box.recorded["now_s"] = now_s
    box.put("/sys/class/rtc/rtc0/since_epoch", f"{int(now_s)}\n")
    return box.put("/proc/stat", f"cpu 1 2 3\nbtime {int(now_s - UP_S)}\n")


def rehearse(suite, folder: Path, box: Box) -> Run:
    return suite.run(folder, root=box.write(folder / "tree"))


@pytest.mark.parametrize(
    ("late_s", "says"),
    [
        (230 * DAY_S + 6.25 * 3_600, "230 d 6 h behind"),
        (10 * YEAR_S, "3652 d"),
        (61, "1 min 1 s behind"),
    ],
)
def test_a_clock_before_the_newest_installed_file_fails(suite, tmp_path, late_s, says):
    box = at(NOW_S - late_s)
    box.modified_s["/var/lib/dpkg/status"] = NOW_S
    run = rehearse(suite, tmp_path, box)
    found = run.finding(PAST)
    assert (found["verdict"], found["cause"]) == ("fail", "clock-in-the-past"), found["says"]
    assert says in found["says"]
    assert "/var/lib/dpkg/status" in found["says"]
    for word in ("date -u -s", "chrony", "hwclock -w", "certificates"):
        assert word in found["remedy"]
    assert run.code == 1


def test_files_of_a_copied_tree_are_dated_by_what_was_recorded_of_them(suite, tmp_path):
    """`git clone` and `cp -r` date every file anew."""
    box = at(NOW_S)
    box.recorded["modified_s"] = {"/etc/os-release": OLD_S}
    box.modified_s["/var/lib/dpkg/status"] = NOW_S + YEAR_S
    run = rehearse(suite, tmp_path, box)
    assert run.finding(PAST)["verdict"] == "pass", run.finding(PAST)["says"]
    box.recorded["modified_s"]["/var/lib/dpkg/status"] = NOW_S + DAY_S
    run = rehearse(suite, tmp_path / "late", box)
    assert run.finding(PAST)["cause"] == "clock-in-the-past"


def test_a_box_in_the_year_2009_fails_against_its_kernel_alone(suite, tmp_path):
    box = at(IN_2009_S)
    box.modified_s = dict.fromkeys(box.files, IN_2009_S - 60.0)  # every file is as old as the clock
    found = rehearse(suite, tmp_path, box).finding(PAST)
    assert (found["verdict"], found["cause"]) == ("fail", "clock-in-the-past")
    assert "the clock says 2009-01-01 00:03:00Z" in found["says"]
    assert "the kernel's build is of 2024-04-19" in found["says"]


@pytest.mark.parametrize("late_s", [0, 30, 59])
def test_a_clock_that_is_seconds_off_passes(suite, tmp_path, late_s):
    box = at(NOW_S - late_s)
    box.modified_s["/var/lib/dpkg/status"] = NOW_S
    run = rehearse(suite, tmp_path, box)
    assert run.finding(PAST)["verdict"] == "pass"
    assert run.code == 0


PACKAGES = [
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/lib/apk/db/installed",
    "/etc/os-release",
]


@pytest.mark.parametrize("path", PACKAGES)
def test_every_package_manager_gives_evidence(suite, tmp_path, path):
    box = at(NOW_S - 2 * DAY_S).drop("/var/lib/dpkg", "/etc/os-release")
    box.put(path, "PRETTY_NAME=x\n", at_s=NOW_S)
    found = rehearse(suite, tmp_path, box).finding(PAST)
    assert found["cause"] == "clock-in-the-past"
    assert path in found["says"]


def test_a_box_with_nothing_to_compare_with_is_unknown(suite, tmp_path):
    box = at(IN_2009_S).drop("/var/lib/dpkg", "/etc/os-release")
    box.put("/proc/version", "Linux version 6.1.0 (x@y) #1 SMP PREEMPT_DYNAMIC @0\n")
    run = rehearse(suite, tmp_path, box)
    found = run.finding(PAST)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "date -u" in found["remedy"]
    assert run.code == 10


def test_a_kernel_of_unknown_date_does_not_silence_the_other_evidence(suite, tmp_path):
    box = at(NOW_S - DAY_S).put("/proc/version", "Linux version 6.1.0 (x@y) #1 SMP @0\n")
    box.modified_s["/var/lib/dpkg/status"] = NOW_S
    assert rehearse(suite, tmp_path, box).finding(PAST)["cause"] == "clock-in-the-past"


def test_the_zone_of_a_kernels_build_cannot_make_a_right_clock_fail(suite, tmp_path):
    """`EDT` says nothing that can be relied on, so a clock within a day's zones of it passes."""
    built_s = calendar.timegm((2024, 4, 20, 0, 40, 6))
    for name, now_s, verdict in (
        ("a", built_s - 13 * 3_600.0, "pass"),
        ("b", built_s - 15 * 3_600.0, "fail"),
    ):
        box = at(now_s)
        box.modified_s = dict.fromkeys(box.files, OLD_S - 3 * YEAR_S)
        assert rehearse(suite, tmp_path / name, box).finding(PAST)["verdict"] == verdict


OWN_FORM = "Linux version 6.8.0 (a@b) (gcc 13) "
BUILDS = {
    "the kernel's own": (
        OWN_FORM + "#1 SMP PREEMPT_DYNAMIC Tue May  7 13:42:10 UTC 2024",
        (2024, 5, 7, 13, 42, 10),
    ),
    "Ubuntu": (
        OWN_FORM + "#31-Ubuntu SMP PREEMPT_DYNAMIC Sat Apr 20 00:40:06 UTC 2024",
        (2024, 4, 20, 0, 40, 6),
    ),
    "cut off at 64 characters": (
        OWN_FORM + "#38~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC Fri Feb  2 11:49:00 UTC 2",
        None,
    ),
    "Debian": (
        OWN_FORM + "#1 SMP PREEMPT_DYNAMIC Debian 6.1.90-1 (2024-05-03)",
        (2024, 5, 3, 0, 0, 0),
    ),
    "Debian on Arm": (
        OWN_FORM + "#1 SMP PREEMPT Debian 1:6.6.31-1+rpt1 (2024-05-29)",
        (2024, 5, 29, 0, 0, 0),
    ),
    "RHEL in summer": (
        OWN_FORM + "#1 SMP PREEMPT_DYNAMIC Thu Apr 4 22:31:43 EDT 2024",
        (2024, 4, 4, 22, 31, 43),
    ),
    "a zone of digits": (
        OWN_FORM + "#1 SMP Thu Apr 4 22:31:43 +0200 2024",
        (2024, 4, 4, 22, 31, 43),
    ),
    "without a zone": (OWN_FORM + "#1 SMP Thu Apr 4 22:31:43 2024", (2024, 4, 4, 22, 31, 43)),
    "Alpine": (
        OWN_FORM + "#1-Alpine SMP PREEMPT_DYNAMIC Fri, 17 May 2024 17:54:33 +0000",
        (2024, 5, 17, 17, 54, 33),
    ),
    "WSL": (
        "Linux version 5.15.153.1-microsoft-standard-WSL2 #1 SMP Fri Mar 29 23:14:13 UTC 2024",
        (2024, 3, 29, 23, 14, 13),
    ),
    "a reproducible build": (
        OWN_FORM + "#1-NixOS SMP Tue Jan  1 00:00:00 UTC 1980",
        (1980, 1, 1, 0, 0, 0),
    ),
    "@0": (OWN_FORM + "#1 SMP PREEMPT_DYNAMIC @0", None),
    "no date": (OWN_FORM + "#1 SMP", None),
    "a month that is none": (OWN_FORM + "#1 SMP Tue Foo  7 13:42:10 UTC 2024", None),
    "numbers that are none": (OWN_FORM + "(2024-99-99)", None),
    "digits of another script": (OWN_FORM + "#1 SMP Tue May  \u0667 13:42:10 UTC 2024", None),
    "empty": ("", None),
}


@pytest.mark.parametrize("form", BUILDS)
def test_the_build_date_of_a_kernel_is_found_in_every_form_or_not_at_all(form):
    text, built = BUILDS[form]
    assert kernel_build_s(text) == (None if built is None else float(calendar.timegm(built)))


# The live clock: a run under another clock leaves a ledger from the future


def test_a_ledger_from_the_future_fails_again_and_again_until_the_clock_is_right(suite, tmp_path):
    ahead_s = 400 * DAY_S
    first = suite.run(tmp_path, clock_s=(ahead_s, ahead_s))
    assert first.finding(PAST)["verdict"] == "pass"
    for _ in range(3):  # a fault that was seen before is still a fault
        later = suite.run(tmp_path)
        found = later.finding(PAST)
        assert (found["verdict"], found["cause"]) == ("fail", "clock-in-the-past")
        assert "behind" in found["says"]
        assert "ledger" in found["says"]
        assert later.code == 1
    right = suite.run(tmp_path, clock_s=(ahead_s + 60, ahead_s + 60))
    assert right.finding(PAST)["verdict"] == "pass"


def test_the_newest_ledger_is_the_head_and_not_the_name_that_sorts_last(suite, tmp_path):
    suite.run(tmp_path, clock_s=(400 * DAY_S,) * 2)
    behind = suite.run(tmp_path)
    head = json.loads((tmp_path / "ledgers" / "planted" / "head.json").read_text())
    assert behind.ledger_path is not None
    assert head["file"] == behind.ledger_path.name
    assert head["file"] < max(path.name for path in behind.ledger_path.parent.glob("*Z-*.json"))


def test_the_live_clock_ten_years_back_fails_against_what_is_installed_here(suite, tmp_path):
    run = suite.run(tmp_path, clock_s=(-10 * YEAR_S,) * 2)
    assert run.finding(PAST)["cause"] == "clock-in-the-past"
    assert run.ledger_path is not None
    assert run.ledger_path.name.startswith("20")


@pytest.mark.parametrize(
    "now_s",
    [-1.0, -DAY_S, -YEAR_S, 0.0, 253_402_300_000.0, 253_402_300_799.0 + DAY_S, 1e13],
    ids=["a second before 1970", "1969-12-31", "1969", "1970", "9999", "10000", "beyond"],
)
def test_no_clock_is_so_wrong_that_a_run_ends_in_a_traceback(suite, tmp_path, now_s):
    import time

    offset_s = now_s - time.time()
    run = suite.run(tmp_path, clock_s=(offset_s, offset_s))
    assert run.ledger_path is not None, run.out
    assert run.code in (1, 10), run.out
    stamp = run.ledger_path.name[:16]
    assert len(stamp.split("T")[0]) == 8, "the name is a date of eight digits"
    assert run.finding(PAST)["verdict"] == ("fail" if now_s < DAY_S else "pass")
    # and the next run, under the right clock, reads what that one left
    again = suite.run(tmp_path)
    assert again.ledger_path is not None
    assert again.finding(PAST)["verdict"] == ("pass" if now_s < DAY_S else "fail")


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (-1.0, "1969-12-31T23:59:59.000Z"),
        (-62_135_596_800.0, "0001-01-01T00:00:00.000Z"),
        (-1e18, "0001-01-01T00:00:00.000Z"),
        (-50_000_000_000.0, "0385-07-25T07:06:40.000Z"),
        (1e18, "9999-12-31T23:59:59.000Z"),
        (1_764_657_351.25, "2025-12-02T06:35:51.250Z"),
    ],
)
def test_every_moment_has_a_text_of_one_length(at_s, text):
    assert utc_text(at_s) == text
    assert day_of(utc_text(at_s)).year == int(text[:4])


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "null", '"now"', "true", "[]", "1e308"]
)
def test_a_recorded_clock_that_is_no_time_is_never_a_pass(suite, tmp_path, value):
    tree = plain_box().write(tmp_path / "tree")
    recorded = (tree / "recorded.json").read_text()
    (tree / "recorded.json").write_text(recorded.replace(f'"now_s": {NOW_S}', f'"now_s": {value}'))
    run = suite.run(tmp_path, root=tree)
    for check in (PAST, JUMP):
        assert run.finding(check)["reason"] == "not-observable"
    assert run.code == 10


# Jumps


def test_a_jump_is_folded_under_a_clock_in_the_past(suite, tmp_path):
    box = plain_box()  # btime stays what it was, so the clock also disagrees with it
    box.recorded["now_s"] = IN_2009_S
    run = rehearse(suite, tmp_path, box)
    assert run.finding(PAST)["verdict"] == "fail"
    found = run.finding(JUMP)
    assert (found["verdict"], found["reason"]) == ("unknown", "blocked-by")
    assert found["blocked_by"] == f"{PAST} [box]"
    assert PAST in found["says"]


@pytest.mark.parametrize(
    ("off_s", "verdict"), [(59, "pass"), (62, "fail"), (-59, "pass"), (-62, "fail")]
)
def test_a_boot_time_that_does_not_add_up_fails(suite, tmp_path, off_s, verdict):
    box = plain_box().put("/proc/stat", f"cpu 1\nbtime {int(NOW_S - UP_S) + off_s}\n")
    found = rehearse(suite, tmp_path, box).finding(JUMP)
    assert found["verdict"] == verdict
    assert found["cause"] == ("boot-time-off" if verdict == "fail" else "")


def test_a_first_run_without_a_boot_time_is_unknown(suite, tmp_path):
    box = plain_box().put("/proc/stat", "cpu 1 2 3\n")
    found = rehearse(suite, tmp_path, box).finding(JUMP)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "no btime" in found["says"]
    assert "rerun before the next boot" in found["remedy"]


def test_a_clock_that_is_set_while_the_suite_runs_fails(suite, tmp_path):
    for name, probes_s in (("forward", 3_600.0), ("back", -90.0)):
        run = suite.run(tmp_path / name, clock_s=(0.0, probes_s))
        found = run.finding(JUMP)
        assert (found["verdict"], found["cause"]) == ("fail", "jumped-during-the-run"), found[
            "says"
        ]


def head_with(folder: Path, **changes: object) -> None:
    path = folder / "ledgers" / "planted" / "head.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_clock_set_back_or_forward_since_the_last_run_of_this_boot(suite, tmp_path):
    first = suite.run(tmp_path)
    offset_s = first.ledger["time"]["boot_offset_s"]
    boot_id = first.ledger["time"]["boot_id"]

    head_with(tmp_path, boot_offset_s=offset_s + 90.0)
    found = suite.run(tmp_path).finding(JUMP)
    assert (found["verdict"], found["cause"]) == ("fail", "jumped-back")
    assert "1 min 30 s" in found["says"]

    head_with(tmp_path, boot_offset_s=offset_s - 3_600.0)
    found = suite.run(tmp_path).finding(JUMP)
    assert found["verdict"] == "pass"
    assert any("put forward by 1 h" in note for note in found["notes"])

    head_with(tmp_path, boot_offset_s=offset_s + 9_000.0, boot_id=f"not-{boot_id}")
    assert suite.run(tmp_path).finding(JUMP)["verdict"] == "pass"


# The row `ntp-blocked`, as a class: who keeps the clock right


DISCIPLINE = "machine.clock.discipline"
BOARD = "machine.clock.rtc"
DECLARED = "[hardware]\nclock_disciplined = true\n"


def unsynchronised(box: Box | None = None) -> Box:
    box = box or plain_box()
    box.recorded["adjtimex"] = {"status": 0x41, "maxerror": 16_000_000, "esterror": 16_000_000}
    return box


@pytest.mark.parametrize("make", [plain_box, docker_box, arm_board])
def test_a_clock_that_nothing_disciplines_passes_with_a_note_and_fails_where_that_is_declared(
    suite, tmp_path, make
):
    tree = unsynchronised(make()).write(tmp_path / "tree")
    run = suite.run(tmp_path / "a", root=tree)
    found = run.finding(DISCIPLINE)
    assert found["verdict"] == "pass"
    (note,) = found["notes"]
    for words in ("UDP port 123", "PTP", "chrony", "System clock synchronized: yes"):
        assert words in note
    assert ("on the host" in note) is (make is docker_box)
    assert run.code == 0, run.out
    run = suite.run(tmp_path / "b", root=tree, profile=DECLARED)
    found = run.finding(DISCIPLINE)
    assert (found["verdict"], found["cause"]) == ("fail", "not-disciplined")
    assert "UDP port 123" in found["remedy"]
    assert run.finding(PAST)["verdict"] == "pass"
    assert run.finding(PAST)["notes"] == []
    assert run.code == 1


def test_a_clock_that_is_disciplined_passes_where_that_is_declared(suite, tmp_path):
    run = suite.run(tmp_path, root=plain_box().write(tmp_path / "tree"), profile=DECLARED)
    found = run.finding(DISCIPLINE)
    assert (found["verdict"], found["notes"], found["basis"]) == ("pass", [], "declared")
    assert found["evidence"] == [
        "adjtimex: status 0x2001, off by 0.014000 s at most",
        "time services: chrony",
    ]


def test_a_tree_that_says_nothing_of_it_is_not_judged_until_it_is_declared(suite, tmp_path):
    box = plain_box()
    del box.recorded["adjtimex"]
    tree = box.write(tmp_path / "tree")
    run = suite.run(tmp_path / "a", root=tree)
    assert run.finding(DISCIPLINE)["verdict"] == "not-applicable"
    assert run.code == 0
    assert suite.run(tmp_path / "b", root=tree, profile=DECLARED).finding(DISCIPLINE)[
        "verdict"
    ] == ("unknown")


SERVICES = {
    "/run/chrony/chronyd.pid": "chrony",
    "/run/systemd/timesync/synchronized": "systemd-timesyncd",
    "/run/ntpd.pid": "ntpd",
    "/run/ptp4l": "ptp4l",
}


@pytest.mark.parametrize("path", SERVICES)
def test_a_time_service_is_known_by_what_it_leaves(suite, tmp_path, path):
    box = unsynchronised(plain_box().drop("/run/chrony")).put(path, "1\n")
    found = rehearse(suite, tmp_path, box).finding(DISCIPLINE)
    assert f"not synchronised ({SERVICES[path]})" in found["says"]


@pytest.mark.parametrize(
    ("zone", "missing"),
    [
        ("Etc/UTC", False),
        (":Etc/UTC", False),
        ("/usr/share/zoneinfo/Etc/UTC", False),
        ("UTC", False),
        ("EST5EDT,M3.2.0,M11.1.0", False),
        ("<+03>-3", False),
        ("", False),
        ("Europe/Atlantis", True),
        ("/nowhere", True),
        ("Berlin", True),
    ],
)
def test_a_time_zone_that_is_not_on_the_box_is_noted(suite, tmp_path, zone, missing):
    box = plain_box()
    box.recorded["environ"]["TZ"] = zone
    found = rehearse(suite, tmp_path, box).finding(DISCIPLINE)
    assert found["verdict"] == "pass"
    assert [f"TZ={zone} is a time zone" in note for note in found["notes"]] == [True] * missing


def test_a_local_time_that_leads_nowhere_is_noted(suite, tmp_path):
    box = plain_box().link("/etc/localtime", "/usr/share/zoneinfo/Europe/Atlantis")
    (note,) = rehearse(suite, tmp_path / "a", box).finding(DISCIPLINE)["notes"]
    assert "/etc/localtime -> /usr/share/zoneinfo/Europe/Atlantis" in note
    box = plain_box().drop("/etc/localtime")
    assert rehearse(suite, tmp_path / "b", box).finding(DISCIPLINE)["notes"] == []


# The clock of the board


def board(off_s: float, number: int = 0, *, used: str = "1") -> Box:
    root = f"/sys/class/rtc/rtc{number}"
    box = plain_box().put(f"{root}/since_epoch", f"{int(NOW_S + off_s)}\n")
    return box.put(f"{root}/hctosys", f"{used}\n")


@pytest.mark.parametrize(
    ("off_s", "cause", "note"),
    [
        (0, "", ""),
        (26 * 3_600 - 1, "", "hwclock -w"),
        (26 * 3_600 + 1, "rtc-wrong", ""),
        (-(26 * 3_600 + 1), "rtc-wrong", ""),
        (-NOW_S + 40, "rtc-wrong", ""),
        (5.5 * 3_600, "", "local time"),
        (-8 * 3_600 + 20, "", "local time"),
        (400, "", "hwclock -w"),
    ],
)
def test_a_board_whose_clock_tells_another_day_fails(suite, tmp_path, off_s, cause, note):
    run = rehearse(suite, tmp_path, board(off_s))
    found = run.finding(BOARD)
    assert found["cause"] == cause, found["says"]
    assert len(found["notes"]) == bool(note)
    assert note in "".join(found["notes"])
    assert run.code == bool(cause)


@pytest.mark.parametrize("make", [arm_board, wsl_box])
def test_a_box_without_a_board_clock_has_nothing_to_judge(suite, tmp_path, make):
    run = rehearse(suite, tmp_path, make())
    assert run.finding(BOARD)["verdict"] == "not-applicable"
    assert run.code == 0


def test_a_box_that_shows_no_devices_at_all_may_have_a_board_clock(suite, tmp_path):
    found = rehearse(suite, tmp_path, plain_box().drop("/sys/")).finding(BOARD)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")


@pytest.mark.parametrize("text", ["", "soon\n", "9" * 40, "1e9\n", "٣٣\n"])
def test_a_board_clock_that_says_no_time_is_unknown(suite, tmp_path, text):
    box = plain_box().put("/sys/class/rtc/rtc0/since_epoch", text)
    found = rehearse(suite, tmp_path, box).finding(BOARD)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")


def test_of_several_board_clocks_the_one_that_set_the_systems_counts(suite, tmp_path):
    wrong = -NOW_S + 5
    box = board(wrong, used="0").put("/sys/class/rtc/rtc1/since_epoch", f"{int(NOW_S)}\n")
    box.put("/sys/class/rtc/rtc1/hctosys", "1\n")
    assert rehearse(suite, tmp_path / "a", box).finding(BOARD)["says"].startswith("rtc1 says")
    box = board(wrong, used="0").put("/sys/class/rtc/rtc1/since_epoch", f"{int(NOW_S)}\n")
    assert rehearse(suite, tmp_path / "b", box).finding(BOARD)["cause"] == "rtc-wrong"


def test_a_board_clock_is_not_judged_by_a_clock_that_is_itself_wrong(suite, tmp_path):
    box = plain_box()
    box.recorded["now_s"] = IN_2009_S
    found = rehearse(suite, tmp_path, box).finding(BOARD)
    assert (found["reason"], found["blocked_by"]) == ("blocked-by", f"{PAST} [box]")


def test_the_clocks_of_this_machine_are_looked_at(suite, tmp_path):
    run = suite.run(tmp_path)
    assert run.finding(DISCIPLINE)["verdict"] in ("pass", "not-applicable")
    assert run.finding(BOARD)["verdict"] in ("pass", "not-applicable")
