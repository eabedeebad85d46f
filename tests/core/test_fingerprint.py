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


def test_one_field_that_cannot_be_read_hides_its_whole_side_only():
    user = dataclasses.replace(IDENTITY, board_serial=NO)
    board = parts(user)["board"]
    assert board.identity is None
    assert board.kind == parts(IDENTITY)["board"].kind
    assert board.identity_text == "4c4c4544"


def test_a_component_without_an_identity_of_its_own_is_comparable_by_kind():
    assert parts(IDENTITY)["kernel"].identity is None
    other = dataclasses.replace(IDENTITY, kernel_release="6.9.0")
    assert changes(parts(IDENTITY), parts(other)) == {"kernel": (Change.CHANGED, Change.SAME)}


def test_a_list_that_could_not_be_read_is_one_unread_slot():
    blind = Devices(gpus=NO, disks=(), nics=(), nvidia_driver="570", resolver="empty")
    assert parts(blind)["gpu"].kind is None


def test_values_that_only_look_alike_differ():
    same_text = Device(slot="0", kind={"device": "a b", "model": "c"}, identity={"uuid": "u"})
    split = Device(slot="0", kind={"device": "a", "model": "b c"}, identity={"uuid": "u"})
    assert parts(devices(same_text))["gpu[0]"].kind != parts(devices(split))["gpu[0]"].kind


def test_memory_is_compared_by_its_nominal_size():
    small = Memory(total_bytes=1, available_bytes=1, fitted_bytes=64 * 2**30, dimm_serials="A B")
    same = dataclasses.replace(small, total_bytes=2, available_bytes=0)
    assert compare(parts(small), parts(same)) == ()
    less = dataclasses.replace(small, fitted_bytes=32 * 2**30, dimm_serials="A")
    assert changes(parts(small), parts(less))["memory"] == (Change.CHANGED, Change.CHANGED)


@pytest.mark.parametrize(
    ("facts", "changed"),
    [
        ((devices(gpu("0")),), ()),
        ((devices(gpu("0", uuid="GPU-9")),), ()),
        ((devices(gpu("0", model="H200")),), ("gpu[0]",)),
        ((devices(),), ("gpu[0]",)),
        ((devices(Device(slot="0", kind={"device": NO}, identity={})),), ()),
    ],
    ids=["the same card", "an identical one", "another model", "none", "cannot be read now"],
)
def test_a_number_rests_on_the_kind_that_it_was_measured_on(facts, changed):
    premise = {"gpu[0]": parts(devices(gpu("0")))["gpu[0]"].kind}
    assert premise_changes(premise, parts(*facts)) == changed
