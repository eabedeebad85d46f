"""States of head, ledger, box, clock and state file: each with its exit code and its line."""

import json
import os
import re

import pytest

from checks.ledger.verify import verify_row
from tests.support.boxes import add_gpu
from tests.support.gates import HOUR_S

GPU = "0000:18:00.0"
INFORMATION = f"/proc/driver/nvidia/gpus/{GPU}/information"
DISK = "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"
DAY_S = 24 * HOUR_S
STATES = {}
"""Name = what makes it, the words of the question, the code, and what the line says."""


def state(code, line, *words):
    """Add a state."""

    def add(make):
        name = make.__name__.replace("_", " ")
        assert name not in STATES
        STATES[name] = (make, words, code, line)
        return make

    return add


def passed(host, **more):
    return host.ran("pass", **more)


def written(host, data):
    host.head.write_bytes(data)


# the head


@state(10, r"closed: h100-1 has no ledger; preflight run --host h100-1 makes one")
def no_folder(host):
    pass


@state(10, r"closed: h100-1 has no ledger; ")
def an_empty_folder(host):
    host.folder.path.mkdir(parents=True)


@state(10, r"closed: no head.json; preflight verify h100-1 tells more")
def no_head_but_ledgers(host):
    passed(host).head.unlink()


@state(10, r"closed: head.json is damaged; preflight verify h100-1 tells more")
def a_torn_head(host):
    written(host, passed(host).head.read_bytes()[:300])


@state(10, r"closed: head.json is damaged; ")
def an_empty_head(host):
    written(passed(host), b"")


@state(10, r"closed: head.json is damaged; ")
def a_head_that_says_more_than_it_may(host):
    passed(host).change_head(more=1)


@state(10, r"closed: head.json is of another version of preflight")
def a_head_of_a_later_version(host):
    passed(host).change_head(schema="preflight-head/2")


@state(10, r"closed: head.json is of the host other, not of h100-1")
def a_head_of_another_host(host):
    passed(host).change_head(host="other")


@state(10, r"closed: head.json: is a link")
def a_head_that_is_a_link(host):
    passed(host).head.rename(host.top / "elsewhere.json")
    host.head.symlink_to(host.top / "elsewhere.json")


@state(10, r"closed: head.json: is no plain file")
def a_pipe_for_a_head(host):
    passed(host).head.unlink()
    os.mkfifo(host.head)


# the ledger


@state(10, r"closed: 2025.*pass\.json is missing")
def the_ledger_is_missing(host):
    passed(host).newest().unlink()


@state(1, r"closed: 2025.*pass\.json was altered: not the bytes of head\.json")
def one_byte_flipped(host):
    raw = bytearray(passed(host).newest().read_bytes())
    raw[len(raw) // 2] ^= 1
    host.newest().write_bytes(raw)


@state(1, r"was altered")
def a_truncated_ledger(host):
    raw = passed(host).newest().read_bytes()
    host.newest().write_bytes(raw[:-1])


@state(1, r"was altered")
def an_empty_ledger(host):
    passed(host).newest().write_bytes(b"")


@state(1, r"was altered")
def a_wrong_digest_in_the_head(host):
    head = json.loads(passed(host).head.read_bytes())
    head["scopes"]["all"]["sha256"] = "0" * 64
    host.change_head(sha256="0" * 64, scopes=head["scopes"])


@state(10, r"pass\.json is a link")
def a_link_for_a_ledger(host):
    path = passed(host).newest()
    path.rename(host.top / "elsewhere.json")
    path.symlink_to(host.top / "elsewhere.json")


@state(10, r"pass\.json is no plain file")
def a_pipe_for_a_ledger(host):
    path = passed(host).newest()
    path.unlink()
    os.mkfifo(path)


@state(10, r"pass\.json is no plain file")
def a_folder_for_a_ledger(host):
    path = passed(host).newest()
    path.unlink()
    path.mkdir()


@state(0, r"open: h100-1 pass, 3 h old")
def another_ledger_was_altered_on_which_nothing_rests(host):
    older = passed(host, ago_s=9 * HOUR_S).newest()
    passed(host)
    older.write_bytes(b"{}")


# verdicts


@state(0, r"open: h100-1 pass, 3 h old")
def passed_and_nothing_else(host):
    passed(host)


@state(1, r"closed: h100-1 failed 3 h ago")
def failed(host):
    host.ran("fail")


@state(0, r"open: h100-1 pass, 3 h old")
def failed_before_it_passed(host):
    host.ran("fail", ago_s=5 * HOUR_S)
    passed(host)


@state(10, r"closed: h100-1 incomplete 3 h ago")
def incomplete(host):
    host.ran("incomplete")


@state(10, r"closed: h100-1 run interrupted 3 h ago")
def only_a_run_that_was_interrupted(host):
    host.ran("interrupted")


@state(10, r"closed: h100-1 run interrupted 1 h ago")
def interrupted_later(host):
    passed(host)
    host.ran("interrupted", ago_s=HOUR_S)


@state(10, r"closed: h100-1 run interrupted 2 h ago")
def interrupted_later_and_then_an_area_passed(host):
    passed(host)
    host.ran("interrupted", ago_s=2 * HOUR_S)
    host.ran("pass", scope="machine", ago_s=HOUR_S)


@state(0, r"open: h100-1 pass, 1 h old")
def interrupted_and_then_everything_passed(host):
    host.ran("interrupted", ago_s=2 * HOUR_S)
    passed(host, ago_s=HOUR_S)


@state(1, r"closed: h100-1 machine failed 1 h ago")
def an_area_failed_later(host):
    passed(host)
    host.ran("fail", scope="machine", ago_s=HOUR_S)


@state(1, r"closed: h100-1 quick failed 1 h ago")
def a_quick_run_failed_later(host):
    passed(host)
    host.ran("fail", scope="quick", ago_s=HOUR_S)


@state(0, r"open: h100-1 pass, 3 h old")
def an_area_failed_later_and_passed_after_that(host):
    passed(host)
    host.ran("fail", scope="machine", ago_s=2 * HOUR_S)
    host.ran("pass", scope="machine", ago_s=HOUR_S)


@state(0, r"open: h100-1 pass, 1 h old")
def an_area_failed_before_everything_passed(host):
    host.ran("fail", scope="machine", ago_s=2 * HOUR_S)
    passed(host, ago_s=HOUR_S)


@state(10, r"closed: h100-1 machine incomplete 1 h ago")
def an_area_was_incomplete_later(host):
    passed(host)
    host.ran("incomplete", scope="machine", ago_s=HOUR_S)


@state(10, r"closed: h100-1 has no complete run")
def only_an_area_passed(host):
    host.ran("pass", scope="machine")


@state(10, r"closed: h100-1 has only quick runs \(--scope quick\)")
def only_quick_runs_passed(host):
    host.ran("pass", scope="quick")


@state(1, r"closed: h100-1 machine failed 3 h ago")
def only_an_area_failed(host):
    host.ran("fail", scope="machine")


@state(10, r"closed: h100-1 pass, 8 d old, over --max-age 7d")
def an_area_that_passed_later_does_not_make_a_ledger_younger(host):
    passed(host, ago_s=8 * DAY_S)
    host.ran("pass", scope="machine", ago_s=HOUR_S)


@state(0, r"open: h100-1 pass, 3 h old")
def an_incomplete_selection_later(host):
    passed(host)
    host.ran("incomplete", scope="selection", ago_s=HOUR_S)


@state(1, r"closed: h100-1 (run|selection) failed 2 h ago")
def a_failed_selection_later(host):
    passed(host)
    host.ran("fail", scope="selection", ago_s=2 * HOUR_S)


@state(1, r"closed: h100-1 run failed 2 h ago")
def a_failed_selection_and_then_an_incomplete_one(host):
    passed(host)
    host.ran("fail", scope="selection", ago_s=2 * HOUR_S)
    host.ran("incomplete", scope="selection", ago_s=HOUR_S)


@state(10, r"closed: h100-1 incomplete 3 h ago")
def passed_with_an_exit_code_of_pytest(host):
    passed(host, exit_code=3)


@state(10, r"closed: a run has crashed; preflight show h100-1 recovers it")
def a_run_has_left_its_journal(host):
    (passed(host).folder.path / "journal-0123.jsonl").write_bytes(b"")


@state(0, r"open: h100-1 pass, 3 h old")
def a_head_from_before_areas_and_unsettled_runs(host):
    head = json.loads(passed(host).head.read_bytes())
    del head["scopes"]["all"]["areas"], head["scopes"]["all"]["unconfirmed_required"]
    host.change_head(unsettled=None, scopes=head["scopes"])


@state(10, r"closed: h100-1 run interrupted 1 h ago")
def a_head_from_before_that_names_an_interrupted_run(host):
    passed(host)
    host.ran("interrupted", ago_s=HOUR_S).change_head(unsettled=None)


# confirmed, and not


@state(10, r"closed: h100-1 pass, 2 unconfirmed, 3 h old$")
def unconfirmed(host):
    passed(host, unconfirmed=2)


@state(0, r"open: h100-1 pass, 2 unconfirmed, 3 h old", "--allow-unconfirmed")
def unconfirmed_and_allowed(host):
    passed(host, unconfirmed=2)


@state(0, r"open: h100-1 pass, 3 h old")
def unconfirmed_but_optional(host):
    passed(host, unconfirmed=2, optional=True)


@state(10, r"unconfirmed")
def unconfirmed_but_optional_in_a_head_that_does_not_say_so(host):
    head = json.loads(passed(host, unconfirmed=2, optional=True).head.read_bytes())
    del head["scopes"]["all"]["areas"], head["scopes"]["all"]["unconfirmed_required"]
    host.change_head(scopes=head["scopes"])


# scopes


@state(0, r"open: h100-1 machine pass, 3 h old", "--scope", "machine")
def the_part_of_an_area_in_a_ledger_that_failed_elsewhere(host):
    host.ran("fail", area="gpu")


@state(1, r"closed: h100-1 machine failed 3 h ago", "--scope", "machine")
def the_part_of_an_area_that_failed(host):
    host.ran("fail", area="machine")


@state(1, r"closed: h100-1 machine failed 3 h ago", "--scope", "machine")
def the_part_of_an_area_in_a_head_that_does_not_say_so(host):
    head = json.loads(host.ran("fail", area="gpu").head.read_bytes())
    del head["scopes"]["all"]["areas"]
    host.change_head(scopes=head["scopes"])


@state(0, r"open: h100-1 machine pass, 1 h old", "--scope", "machine")
def an_area_relies_on_its_own_newer_ledger(host):
    host.ran("fail", area="machine")
    host.ran("pass", scope="machine", ago_s=HOUR_S)


@state(1, r"closed: h100-1 machine failed 1 h ago", "--scope", "machine")
def an_area_relies_on_the_newer_ledger_of_everything(host):
    host.ran("pass", scope="machine", ago_s=2 * HOUR_S)
    host.ran("fail", area="machine", ago_s=HOUR_S)


@state(0, r"open: h100-1 machine pass, 3 h old", "--scope", "machine")
def another_area_failed_later(host):
    passed(host)
    host.ran("fail", scope="gpu", ago_s=HOUR_S)


@state(1, r"closed: h100-1 quick failed 1 h ago", "--scope", "machine")
def a_quick_run_found_a_fault_in_the_area_later(host):
    passed(host)
    host.ran("fail", scope="quick", area="machine", ago_s=HOUR_S)


@state(10, r"closed: h100-1 run interrupted 1 h ago", "--scope", "machine")
def a_box_that_hangs_is_open_in_no_scope(host):
    host.ran("pass", scope="machine")
    host.ran("interrupted", scope="gpu", ago_s=HOUR_S)


@state(10, r"closed: h100-1 has no complete machine run", "--scope", "machine")
def no_run_speaks_of_the_area(host):
    host.ran("pass", scope="gpu")


@state(0, r"open: h100-1 quick pass, 1 h old", "--scope", "quick")
def a_quick_run_is_enough_where_it_is_asked_for(host):
    host.ran("pass", scope="quick", ago_s=HOUR_S)


@state(0, r"open: h100-1 quick pass, 3 h old", "--scope", "quick")
def a_run_of_everything_is_a_quick_one_too(host):
    passed(host)


@state(1, r"closed: h100-1 all failed 3 h ago", "--scope", "quick")
def a_quick_run_does_not_hide_what_the_whole_one_found(host):
    host.ran("fail")
    host.ran("pass", scope="quick", ago_s=HOUR_S)


# time


@state(0, r"open: h100-1 pass, 7 d old")
def just_not_stale(host):
    passed(host, ago_s=7 * DAY_S)


@state(10, r"closed: h100-1 pass, 7 d old, over --max-age 7d")
def stale_by_a_second(host):
    passed(host, ago_s=7 * DAY_S + 1)


@state(1, r"closed: h100-1 failed 30 d ago")
def stale_and_failed(host):
    host.ran("fail", ago_s=30 * DAY_S)


@state(10, r"closed: clock not trusted: the newest ledger is of the future")
def a_ledger_of_the_future(host):
    passed(host, ago_s=-61)


@state(10, r"closed: clock not trusted: the newest ledger is of the future")
def a_ledger_of_the_future_in_a_head_that_knows_of_no_such_moment(host):
    passed(host, ago_s=-61).change_head(newest_s=0)


@state(0, r"open: h100-1 pass, 0 s old")
def a_ledger_that_ended_within_the_slack_of_a_clock(host):
    passed(host, ago_s=-59)


@state(10, r"closed: clock not trusted: the newest ledger is of the future")
def a_clock_behind_any_ledger_of_the_row(host):
    passed(host, ago_s=9 * HOUR_S)
    host.change_head(newest_s=host.now_s + 61)


@state(10, r"closed: clock not trusted: it is behind the build of the kernel")
def a_clock_behind_the_kernel(host):
    host.set_clock(-3 * 365 * DAY_S)
    passed(host).boot()


@state(10, r"closed: clock not trusted: it was set back since the newest ledger")
def a_clock_that_was_set_back_since(host):
    passed(host).set_clock(-61)


@state(0, r"open: h100-1 pass, 2 h old")
def a_clock_that_was_disciplined_since(host):
    passed(host).set_clock(-59)


@state(0, r"open: h100-1 pass, 2 h old, booted since")
def a_clock_before_a_boot_is_another_matter(host):
    passed(host).set_clock(-61)
    host.boot()


@state(0, r"open: h100-1 pass, 3 h old, booted since")
def the_time_of_another_boot_says_nothing_of_this_clock(host):
    passed(host).boot(ago_s=400 * DAY_S)


@state(10, r"closed: clock not trusted: it cannot be read")
def no_clock(host):
    passed(host)
    del host.box.recorded["now_s"]


@state(0, r"open: h100-1 pass, 3 h old, booted since")
def another_boot(host):
    passed(host).boot()


@state(10, r"closed: h100-1 pass, 3 h old, booted since", "--same-boot")
def another_boot_where_it_must_be_the_same(host):
    passed(host).boot()


@state(0, r"open: h100-1 pass, 3 h old", "--same-boot")
def the_same_boot(host):
    passed(host)


@state(0, r"open: h100-1 pass, 3 h old", "--same-boot")
def the_same_boot_as_far_as_times_tell(host):
    passed(host).box.drop("/proc/sys/kernel/random/boot_id")


@state(10, r"closed: h100-1 pass, 3 h old, booted since", "--same-boot")
def another_boot_as_far_as_times_tell(host):
    passed(host).boot().box.drop("/proc/sys/kernel/random/boot_id")


@state(10, r"closed: h100-1 pass, 3 h old, booted since", "--same-boot")
def an_area_ran_in_this_boot_and_the_whole_in_another(host):
    passed(host)
    host.boot()
    row = host.made["time"]
    before = row["boot_id"]
    row["boot_id"] = "00000000-0f8b-4b0e-a34b-2f9f6f0f5f55"
    host.ran("pass", scope="machine", ago_s=HOUR_S / 2)
    row["boot_id"] = before


# the box


@state(1, rf"closed: gpu\[{GPU}\] changed since 2025-12-02")
def a_changed_gpu(host):
    text = str(passed(host).box.files[INFORMATION])
    host.box.put(INFORMATION, text.replace("000000000000", "00000000000f"))


@state(1, rf"closed: gpu\[{GPU}\] removed since 2025-12-02")
def a_removed_gpu(host):
    passed(host).box.drop(f"/sys/bus/pci/devices/{GPU}", f"/proc/driver/nvidia/gpus/{GPU}")


@state(1, r"closed: gpu\[0000:a0:00.0\] added since 2025-12-02")
def an_added_gpu(host):
    add_gpu(passed(host).box, "0000:a0:00.0", vendor="0x10de", device="0x2330")


@state(1, r"closed: driver changed since 2025-12-02")
def another_driver(host):
    text = str(passed(host).box.files["/proc/driver/nvidia/version"])
    host.box.put("/proc/driver/nvidia/version", text.replace("570.133.20", "580.65.06"))


@state(1, r"closed: driver changed since")
def no_driver_any_more_hides_the_cards_and_is_seen(host):
    passed(host).box.drop("/proc/driver/nvidia")


@state(1, r"closed: kernel changed since 2025-12-02")
def another_kernel(host):
    passed(host).box.recorded["uname"]["release"] = "6.8.0-90-generic"


@state(1, r"closed: board changed since 2025-12-02")
def another_board(host):
    passed(host).box.put("/sys/class/dmi/id/board_serial", ".CN99999.\n")


@state(0, r"open: h100-1 pass, 3 h old")
def an_identity_that_only_root_reads(host):
    passed(host).box.drop("/sys/class/dmi/id/board_serial", "/sys/class/dmi/id/product_uuid")


@state(1, r"closed: disk\[0000:01:00.0 n1\] changed since 2025-12-02")
def a_swapped_disk(host):
    passed(host).box.put(f"{DISK}/wwid", "eui.99999999\n")


@state(0, r"open: h100-1 pass, 3 h old")
def another_resolver(host):
    passed(host).box.put("/etc/resolv.conf", "nameserver 192.0.2.99\n")


@state(1, r"closed: nic\[eno1\] changed since 2025-12-02")
def a_swapped_network_card(host):
    passed(host).box.put("/sys/class/net/eno1/address", "02:00:00:00:00:99\n")


@state(0, r"open: h100-1 pass, 3 h old")
def a_network_card_on_usb(host):
    passed(host).box.put("/sys/class/net/usb0/address", "02:00:00:00:00:99\n")
    host.box.put("/sys/class/net/usb0/device/modalias", "usb:v0525pA4A2\n")


@state(1, rf"closed: gpu\[{GPU}\] changed since 2025-12-02")
def an_area_that_saw_the_new_card_does_not_vouch_for_it_in_all_scopes(host):
    text = str(passed(host).box.files[INFORMATION])
    new = text.replace("000000000000", "00000000000f")
    host.box.put(INFORMATION, new)
    part = host.made["fingerprint"][f"gpu[{GPU}]"]
    before = dict(part["identity"])
    part["identity"]["uuid"] = "GPU-00000000-0000-4000-8000-00000000000f"
    host.ran("pass", scope="machine", ago_s=HOUR_S)
    part["identity"] = before


@state(1, r"closed: gpu.* changed since 2025-12-02", "--max-age", "1h", "--window", "01:00-02:00")
def a_fault_comes_before_everything_else(host):
    a_changed_gpu(host)


@state(1, r"closed: gpu.* changed since 2025-12-02")
def a_missing_ledger_does_not_hide_a_changed_card(host):
    a_changed_gpu(host)
    host.newest().unlink()


# what is written beside the head


def opened(host, ago_s):
    from checks.ledger.opening import record_opening

    record_opening(passed(host).folder.path, host.now_s - ago_s)


@state(11, r"dry-run: h100-1 opened 1 h ago, --min-interval 2h", "--min-interval", "2h")
def an_interval_that_is_not_over(host):
    opened(host, HOUR_S)


@state(11, r"dry-run: h100-1 opened 1 h ago, --min-interval 2h", "--min-interval", "2h")
def an_interval_that_lacks_a_second(host):
    opened(host, 2 * HOUR_S - 1)


@state(0, r"open: h100-1 pass, 3 h old", "--min-interval", "2h")
def an_interval_that_is_over(host):
    opened(host, 2 * HOUR_S)


@state(0, r"open: h100-1 pass, 3 h old", "--min-interval", "2h")
def an_interval_and_no_opening_yet(host):
    passed(host)


@state(0, r"open: h100-1 pass, 3 h old")
def an_opening_that_nobody_asks_about(host):
    opened(host, 1)


@state(10, r"closed: clock not trusted: the last opening is of the future", "--min-interval", "2h")
def an_opening_in_the_future(host):
    opened(host, -61)


def damaged_state(host, data=b"{"):
    (passed(host).folder.path / "gate.json").write_bytes(data)


@state(10, r"closed: gate.json is damaged; remove .*h100-1/gate.json", "--min-interval", "2h")
def a_damaged_state_with_an_interval(host):
    damaged_state(host)


@state(10, r"closed: gate.json is damaged; remove .*h100-1/gate.json", "--commit")
def a_damaged_state_with_commit(host):
    damaged_state(host)


@state(0, r"open: h100-1 pass, 3 h old")
def a_damaged_state_that_nobody_needs(host):
    damaged_state(host)


@state(10, r"closed: gate.json is damaged", "--min-interval", "2h")
def a_state_of_another_shape(host):
    damaged_state(host, b'{"schema": "preflight-gate/1", "opened_utc": "2025-02-31T00:00:00.000Z"}')


@state(10, r"closed: gate.json is damaged", "--min-interval", "2h")
def a_state_of_a_later_version(host):
    damaged_state(host, b'{"schema": "preflight-gate/2", "opened_utc": "2025-02-21T00:00:00.000Z"}')


@state(10, r"closed: gate.json is damaged", "--min-interval", "2h")
def a_pipe_for_a_state(host):
    os.mkfifo(passed(host).folder.path / "gate.json")


@state(10, r"closed: .*h100-1 cannot be written", "--commit")
def a_folder_that_takes_no_state(host):
    # where the new file would lie before its rename
    (passed(host).folder.path / f".gate.json.{os.getpid()}.tmp").mkdir()


@state(10, r"closed: .*h100-1 cannot be written", "--commit")
def a_lock_that_is_no_file(host):
    (passed(host).folder.path / ".gate.lock").mkdir()


@state(10, r"closed: gate.json is damaged", "--commit", "--window", "01:00-02:00")
def what_nobody_can_tell_comes_before_a_closed_window(host):
    damaged_state(host)


# windows: it is Tuesday, 06:35:51


@state(0, r"open: h100-1 pass, 3 h old", "--window", "06:00-07:00")
def inside_the_window(host):
    passed(host)


@state(11, r"dry-run: h100-1 pass, 3 h old, outside 22:00-06:00", "--window", "22:00-06:00")
def outside_the_window(host):
    passed(host)


@state(0, r"open: h100-1 pass, 3 h old", "--window", "Mon-Fri 22:00-07:00")
def inside_a_window_that_goes_past_midnight(host):
    passed(host)


@state(11, r"dry-run: h100-1 pass, 3 h old, outside Tue 22:00-07:00", "--window", "Tue 22:00-07:00")
def the_morning_belongs_to_the_day_before(host):
    passed(host)


@state(0, r"open: h100-1 pass, 3 h old", "--window", "Mon 22:00-07:00")
def the_morning_after_the_day_that_is_named(host):
    passed(host)


@state(1, r"closed: h100-1 failed 3 h ago", "--window", "22:00-06:00")
def a_fault_outside_the_window(host):
    host.ran("fail")


def test_there_are_states_enough():
    assert len(STATES) >= 40


@pytest.mark.parametrize("name", STATES)
def test_each_state_has_its_code_and_its_line(host, name):
    make, words, code, line = STATES[name]
    make(host)
    before = host.files()
    said = host.ask(*words)
    assert (said.code, said.err) == (code, ""), said
    assert said.out.endswith("\n")
    assert said.out.count("\n") == 1
    assert said.out.isascii()
    assert len(said.out.encode()) <= 80 + 1
    assert re.search(line, said.out), said.out
    word = {0: "open: ", 11: "dry-run: "}.get(code, "closed: ")
    assert said.out.startswith(word)
    if "--commit" not in words:
        assert host.files() == before


def test_the_rows_of_these_states_are_rows_as_runs_write_them(host):
    host.ran("fail", ago_s=5 * HOUR_S)
    host.ran("pass", ago_s=4 * HOUR_S, unconfirmed=2)
    host.ran("fail", scope="selection", ago_s=3 * HOUR_S)
    host.ran("interrupted", ago_s=2 * HOUR_S)
    host.ran("pass", scope="machine", ago_s=HOUR_S)
    report = verify_row(host.folder)
    assert report.wrong == []
