"""What counts as a swap of a part, and what changes by itself on a box that is as it was."""

import pytest

from checks.core.fingerprint import Part
from checks.machine.swaps import pci_address, swaps

GPU, OTHER_GPU = "gpu[0000:18:00.0]", "gpu[0000:29:00.0]"
DISK, OTHER_DISK = "disk[0000:01:00.0 n1]", "disk[0000:02:00.0 n1]"
STICK = "disk[0000:00:14.0 6:0:0:0]"
USB = {"0000:00:14.0"}


def part(kind="model", identity="serial"):
    return Part(kind={"model": kind}, identity={"serial": identity}, unread=())


def box(**more):
    parts = {
        "board": part("PowerEdge", ".CN1."),
        "cpu": Part(kind={"model": "8480+"}, identity={}, unread=()),
        "kernel": Part(kind={"release": "6.8.0-31"}, identity={}, unread=()),
        "driver": Part(kind={"nvidia": "570.133.20"}, identity={}, unread=()),
        "container": Part(kind={"container": "none"}, identity={}, unread=()),
        "resolver": Part(kind={"resolv_conf": "nameserver 192.0.2.1"}, identity={}, unread=()),
        "memory": part("2048 GiB", "modules"),
        GPU: part("H100", "GPU-0"),
        OTHER_GPU: part("H100", "GPU-1"),
        DISK: part("PM9A3", "eui.1"),
        OTHER_DISK: part("PM9A3", "eui.2"),
        "nic[eno1]": Part(kind={"device": "pci:v8086"}, identity={"address": "02:1"}, unread=()),
    }
    parts |= {name.replace("_", " "): value for name, value in more.items()}
    return parts


def changed(before, now, usb=()):
    return [(swap.slot, swap.change.value) for swap in swaps(before, now, usb)]


def less(parts, *slots):
    return {slot: value for slot, value in parts.items() if slot not in slots}


def test_the_same_box_has_no_swap():
    assert changed(box(), box()) == []


@pytest.mark.parametrize(
    "slot", ["board", GPU, DISK, "nic[eno1]", "cpu", "kernel", "driver", "container"]
)
def test_another_kind_is_a_swap(slot):
    now = box()
    now[slot] = Part(
        kind=dict.fromkeys(now[slot].kind, "another"), identity=now[slot].identity, unread=()
    )
    assert changed(box(), now) == [(slot, "changed")]


@pytest.mark.parametrize("slot", ["board", GPU, DISK, "nic[eno1]"])
def test_another_identity_is_a_swap(slot):
    now = box()
    now[slot] = Part(
        kind=now[slot].kind, identity=dict.fromkeys(now[slot].identity, "another"), unread=()
    )
    assert changed(box(), now) == [(slot, "changed")]


@pytest.mark.parametrize("slot", [GPU, DISK, "nic[eno1]"])
def test_what_is_listed_may_be_added_or_removed(slot):
    assert changed(box(), less(box(), slot)) == [(slot, "removed")]
    assert changed(less(box(), slot), box()) == [(slot, "added")]


def test_what_only_one_side_could_read_is_no_swap():
    hidden = Part(kind={"model": "H100"}, identity={"serial": None}, unread=("x",))
    assert changed(box(), {**box(), GPU: hidden}) == []
    assert changed({**box(), GPU: hidden}, box()) == []
    nothing = Part(kind={"model": None}, identity={"serial": None}, unread=("x",))
    assert changed(box(), {**box(), "board": nothing}) == []


def test_a_list_that_one_side_could_not_read_is_no_swap():
    unread = Part(kind={"list": None}, identity={"list": None}, unread=("x",))
    now = {**less(box(), GPU, OTHER_GPU), "gpu": unread}
    assert changed(box(), now) == []
    assert changed(now, box()) == []


def test_a_ledger_whose_run_did_not_look_at_devices_or_identity_shows_no_swap():
    lists = ("driver", "resolver", GPU, OTHER_GPU, DISK, OTHER_DISK, "nic[eno1]")
    assert changed(less(box(), *lists), box()) == []
    assert changed(less(box(), "board", "cpu", "kernel", "container"), box()) == []
    assert changed({}, box()) == []


def test_resolver_and_memory_are_not_compared():
    now = {**box(), "resolver": Part(kind={"resolv_conf": "x"}, identity={}, unread=())}
    assert changed(box(), less(now, "memory")) == []


def test_what_hangs_on_usb_comes_and_goes():
    stick = {**box(), STICK: part("Virtual Media", "1")}
    assert changed(box(), stick, USB) == []
    assert changed(stick, box(), USB) == []
    assert changed(box(), stick) == [(STICK, "added")]
    card = Part(kind={"device": "usb:v0525pA4A2"}, identity={"address": "02:9"}, unread=())
    assert changed(box(), {**box(), "nic[usb0]": card}) == []
    assert changed({**box(), "nic[usb0]": card}, box()) == []
    unread = Part(kind={"device": None}, identity={"address": "02:9"}, unread=())
    assert changed(box(), {**box(), "nic[x]": unread}) == [("nic[x]", "added")]


def test_a_disk_that_is_found_in_another_place_is_the_same():
    now = {**box(), DISK: box()[OTHER_DISK], OTHER_DISK: box()[DISK]}
    assert changed(box(), now) == []
    moved = {**less(box(), DISK), "disk[0000:01:00.0 3:0:0:0]": box()[DISK]}
    assert changed(box(), moved) == []


def test_two_disks_that_show_the_same_are_not_one():
    twins = {**box(), DISK: part("PM9A3", "same"), OTHER_DISK: part("PM9A3", "same")}
    assert changed(twins, {**twins, DISK: part("PM9A3", "new")}) == [(DISK, "changed")]
    assert changed(twins, less(twins, DISK)) == [(DISK, "removed")]


def test_a_disk_without_a_serial_number_is_told_by_its_place():
    bare = {**box(), DISK: part("PM9A3", None), OTHER_DISK: part("other", None)}
    now = {**bare, DISK: bare[OTHER_DISK], OTHER_DISK: bare[DISK]}
    assert [slot for slot, _ in changed(bare, now)] == [DISK, OTHER_DISK]


def test_beside_disks_with_a_place_one_without_is_a_network_volume():
    volume = {**box(), "disk[sdb]": part("LUN", "iqn")}
    assert changed(box(), volume) == []
    assert changed(volume, box()) == []


def test_where_no_disk_has_a_place_those_without_count():
    before = {
        **less(box(), DISK, OTHER_DISK),
        "disk[sda]": part("a", "1"),
        "disk[sdb]": part("b", "2"),
    }
    crossed = {**before, "disk[sda]": before["disk[sdb]"], "disk[sdb]": before["disk[sda]"]}
    assert changed(before, crossed) == []
    assert changed(before, {**before, "disk[sda]": part("a", "9")}) == [("disk[sda]", "changed")]
    assert changed(before, less(before, "disk[sda]")) == [("disk[sda]", "removed")]


def test_the_place_of_a_slot_is_its_pci_address():
    assert pci_address(DISK) == "0000:01:00.0"
    assert pci_address(STICK) == "0000:00:14.0"
    assert pci_address("gpu[00010000:01:00.0]") == "00010000:01:00.0"
    for slot in ("disk[nvme0n1]", "board", "nic[eno1]", "disk[0000:01:00]"):
        assert pci_address(slot) == ""
