"""The fingerprint: changed, not comparable, added, removed; and the premises that rest on it."""

import dataclasses

import pytest

from checks.core.facts import BOX, Blind, Observation, Unseen
from checks.core.fingerprint import Change, compare, fingerprint, premise_changes
from checks.machine.facts import Device, Devices, Identity, Memory

NO = Unseen(Blind.PERMISSION, "may not be read", "run as root to see it")
IDENTITY = Identity(
    host_name="h",
    architecture="x86_64",
    kernel_release="6.8.0",
    os_name="o",
    machine_id="m",
    product_vendor="Dell Inc.",
    product_name="XE9680",
    board_name="0H5KCC",
    board_serial="CN70163",
    product_uuid="4c4c4544",
    cpu_model="Xeon",
    hypervisor="none",
    container="none",
    evidence=(),
)


def gpu(slot, model="H100", uuid="GPU-1"):
    return Device(slot=slot, kind={"device": "0x2330", "model": model}, identity={"uuid": uuid})


def devices(*gpus):
    return Devices(gpus=gpus, disks=(), nics=(), nvidia_driver="570.133", resolver="empty")


def parts(*facts):
    return fingerprint(
        Observation(probe="p.q", subject=BOX, seen=seen, elapsed_s=0.0) for seen in facts
    )


def changes(before, after):
    return {row.slot: (row.kind, row.identity) for row in compare(before, after)}


def test_equal_facts_have_equal_fingerprints_and_nothing_changed():
    assert parts(IDENTITY, devices(gpu("0"))) == parts(IDENTITY, devices(gpu("0")))
    assert compare(parts(IDENTITY), parts(IDENTITY)) == ()


def test_an_identical_replacement_changes_the_identity_and_keeps_the_kind():
    before = parts(devices(gpu("0", uuid="GPU-1"), gpu("1", uuid="GPU-2")))
    after = parts(devices(gpu("0", uuid="GPU-1"), gpu("1", uuid="GPU-9")))
    assert changes(before, after) == {"gpu[1]": (Change.SAME, Change.CHANGED)}


def test_another_model_changes_the_kind_too():
    after = parts(devices(gpu("0", model="H200", uuid="GPU-9")))
    assert changes(parts(devices(gpu("0"))), after) == {"gpu[0]": (Change.CHANGED, Change.CHANGED)}


def test_a_card_that_came_or_left_is_added_or_removed():
    one, two = parts(devices(gpu("0"))), parts(devices(gpu("0"), gpu("1")))
    assert changes(one, two) == {"gpu[1]": (Change.ADDED, Change.ADDED)}
    assert changes(two, one) == {"gpu[1]": (Change.REMOVED, Change.REMOVED)}


def test_what_a_user_may_not_read_is_not_comparable_and_never_changed():
    user = dataclasses.replace(IDENTITY, board_serial=NO, product_uuid=NO)
    for before, after in ((user, IDENTITY), (IDENTITY, user)):
        assert changes(parts(before), parts(after)) == {
            "board": (Change.SAME, Change.NOT_COMPARABLE)
        }
    assert compare(parts(user), parts(user)) == ()
    unread = parts(user)["board"].unread
    assert len(unread) == 2
    assert "run as root to see it" in unread[0]


def test_a_run_of_root_after_one_of_a_user_changed_nothing_that_both_could_read():
    user = dataclasses.replace(IDENTITY, board_serial=NO)
    assert compare(parts(user), parts(IDENTITY)) == ()
    other = dataclasses.replace(IDENTITY, product_uuid="another")
    assert changes(parts(user), parts(other)) == {"board": (Change.SAME, Change.CHANGED)}


def test_a_field_that_a_later_version_reads_too_changes_nothing():
    more = Device(slot="0", kind={"device": "0x2330", "model": "H100", "vbios": "96"}, identity={})
    fewer = Device(slot="0", kind={"device": "0x2330", "model": "H100"}, identity={})
    assert compare(parts(devices(fewer)), parts(devices(more))) == ()
    assert compare(parts(devices(more)), parts(devices(fewer))) == ()


def test_a_component_without_an_identity_of_its_own_is_comparable_by_kind():
    assert parts(IDENTITY)["kernel"].identity == {}
    other = dataclasses.replace(IDENTITY, kernel_release="6.9.0")
    assert changes(parts(IDENTITY), parts(other)) == {"kernel": (Change.CHANGED, Change.SAME)}


def test_cards_whose_list_could_not_be_read_have_neither_come_nor_left():
    blind = Devices(gpus=NO, disks=(), nics=(), nvidia_driver="570.133", resolver="empty")
    assert parts(blind)["gpu"].kind == {"list": None}
    seen = devices(gpu("0"), gpu("1"))
    for before, after in ((blind, seen), (seen, blind)):
        found = {kind for pair in changes(parts(before), parts(after)).values() for kind in pair}
        assert found == {Change.NOT_COMPARABLE}


def test_values_that_only_look_alike_differ():
    same_text = Device(slot="0", kind={"device": "a b", "model": "c"}, identity={"uuid": "u"})
    split = Device(slot="0", kind={"device": "a", "model": "b c"}, identity={"uuid": "u"})
    assert changes(parts(devices(same_text)), parts(devices(split)))["gpu[0]"][0] is Change.CHANGED


def test_probes_that_disagree_about_one_field_leave_it_unread():
    other = dataclasses.replace(IDENTITY, product_name="XE9640")
    board = parts(IDENTITY, other)["board"]
    assert board.kind["product"] is None
    assert board.kind["vendor"] == "Dell Inc."
    assert any("probes disagree: XE9640 / XE9680" in line for line in board.unread)
    blind = dataclasses.replace(IDENTITY, product_name=NO)
    assert parts(IDENTITY, blind)["board"].kind["product"] == "XE9680"


def test_memory_is_compared_by_its_nominal_size():
    small = Memory(
        total_bytes=1,
        available_bytes=1,
        fitted_bytes=64 * 2**30,
        dimm_serials="A B",
        groups=Unseen(Blind.ABSENT, "planted"),
        huge_pages=Unseen(Blind.ABSENT, "planted"),
        limited_by=(),
    )
    same = dataclasses.replace(small, total_bytes=2, available_bytes=0)
    assert compare(parts(small), parts(same)) == ()
    less = dataclasses.replace(small, fitted_bytes=32 * 2**30, dimm_serials="A")
    assert changes(parts(small), parts(less))["memory"] == (Change.CHANGED, Change.CHANGED)


def test_facts_of_an_older_ledger_have_a_fingerprint_of_what_they_hold():
    old = object.__new__(Memory)
    object.__setattr__(old, "fitted_bytes", 64 * 2**30)
    memory = parts(old)["memory"]
    assert memory.kind == {"size": "64 GiB"}
    assert memory.identity == {"serials": None}
    assert any("dimm_serials was not recorded" in line for line in memory.unread)


@pytest.mark.parametrize(
    ("facts", "changed"),
    [
        ((devices(gpu("0")),), ()),
        ((devices(gpu("0", uuid="GPU-9")),), ()),
        ((devices(gpu("0", model="H200")),), ("gpu[0]",)),
        ((devices(),), ("gpu[0]",)),
        ((devices(Device(slot="0", kind={"device": NO}, identity={})),), ()),
        ((Devices(gpus=NO, disks=(), nics=(), nvidia_driver="5", resolver="e"),), ()),
    ],
    ids=[
        "the same card",
        "an identical one",
        "another model",
        "none",
        "cannot be read now",
        "cannot be listed now",
    ],
)
def test_a_number_rests_on_the_kind_that_it_was_measured_on(facts, changed):
    premise = {"gpu[0]": {"device": "0x2330", "model": "H100"}}
    assert premise_changes(premise, parts(*facts)) == changed
