"""A box with one component replaced: by an identical one, by another kind, or by one that hides.

Whole runs on recorded trees, each compared with the ledger of the box as it was. What must be
struck out is written down here by hand, component by component, and nothing else may be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.boxes import ROOT, V2, Box, Run, Suite, another_user, h100_box

DMI = "/sys/class/dmi/id"
DISK = "/sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1"
DISK_SLOT = "disk[0000:01:00.0 n1]"
CARD_SLOT = "gpu[0000:3a:00.0]"
CARDS = [f"0000:{0x18 + 0x11 * number:02x}:00.0" for number in range(8)]


def of(area: str, *names: str, subjects: tuple[str, ...] = ("box",)) -> set[str]:
    return {f"machine.{area}.{name} [{subject}]" for name in names for subject in subjects}


PLACES = ("this", "chat")
FOLDERS = ("model-cache", "tmp", "ledgers")
NODES = of("numa", "nodes")
LIMITS = of("limits", "memlock", "pids", subjects=PLACES)
BOARD = of("identity", "architecture", "product", "virtualization") | of("clock", "rtc") | NODES
BOARD |= of("cpu", "throttling") | of("devices", "gpus")
"""What rests on the board."""
CPU = (
    of("cpu", "count", "governor", "throttling") | of("cpu", "threads", subjects=("chat",)) | NODES
)
CPU |= of("limits", "pids", subjects=PLACES)
MEMORY = of("memory", "total")
DISKS = of("disk", "free", "inodes", "filesystem", subjects=FOLDERS)
CONTAINER = of("identity", "container") | of("cpu", "threads", subjects=("chat",)) | LIMITS
CONTAINER |= of("leftovers", "mps")
ALL_CARDS = of("leftovers", "visibility", subjects=PLACES)
"""What was said of all cards together."""
ONE_CARD = of("devices", "driver", subjects=("0000:3a:00.0",)) | ALL_CARDS
DRIVER = of("devices", "driver", subjects=tuple(CARDS)) | of("kernel", "modules")
PROFILE = """
[hardware]
architecture = "x86_64"
product_name = "PowerEdge XE9680"
virtualization = "none"
container = "none"
memory_total_bytes = 549_755_813_888
cpus = 16
gpus = 8
kernel_parameters = ["quiet"]
kernel_modules = ["nvidia"]
[paths]
tmp_free_min_bytes = 1_000
[[serve]]
name = "chat"
command = "llama-server -t 4"
model = "example-org/chat-8b"
model_bytes = 16_000_000_000
"""


@dataclass(frozen=True)
class Swap:
    """One component, and what happens to it."""

    change: Callable[[Box], object]
    changed: set[str] = field(default_factory=set)
    """Slots that must be said to have changed."""
    struck: set[str] = field(default_factory=set)
    """Checks whose earlier verdicts must be struck out."""
    blind: set[str] = field(default_factory=set)
    """Slots that must be said to be not comparable, on one side at least."""
    fails: set[str] = field(default_factory=set)
    """Checks that must fail now, because the profile declares otherwise."""
    unknown: set[str] = field(default_factory=set)


MODEL = "/home/user/.cache/huggingface/hub/models--example-org--chat-8b"
CARD = "/proc/driver/nvidia/gpus/0000:3a:00.0/information"


def edit(path: str, old: str, new: str) -> Callable[[Box], object]:
    def change(box: Box) -> None:
        text = str(box.files[path])
        assert old in text
        box.put(path, text.replace(old, new))

    return change


def put(path: str, text: str) -> Callable[[Box], object]:
    return lambda box: box.put(path, text)


def drop(*paths: str) -> Callable[[Box], object]:
    return lambda box: box.drop(*paths)


def every(*changes: Callable[[Box], object]) -> Callable[[Box], object]:
    def change(box: Box) -> None:
        for one in changes:
            one(box)

    return change


SWAPS = {
    "board, identical": Swap(
        put(f"{DMI}/board_serial", "another\n"), changed={"board"}, struck=BOARD
    ),
    "board, another kind": Swap(
        every(put(f"{DMI}/product_name", "XE9640\n"), put(f"{DMI}/board_serial", "another\n")),
        changed={"board"},
        struck=BOARD,
        fails={"machine.identity.product [box]"},
    ),
    "board, unreadable identity": Swap(
        drop(f"{DMI}/board_serial", f"{DMI}/product_uuid"), blind={"board"}
    ),
    "cpu, another kind": Swap(
        edit("/proc/cpuinfo", "Platinum 8480+", "Platinum 8592+"), changed={"cpu"}, struck=CPU
    ),
    "memory, identical": Swap(lambda box: dimms(box, "S9"), changed={"memory"}, struck=MEMORY),
    "memory, another kind": Swap(
        lambda box: blocks(box, 128),
        changed={"memory"},
        struck=MEMORY,
        fails={"machine.memory.total [box]"},
    ),
    "memory, unreadable identity": Swap(drop("/sys/firmware/dmi/entries"), blind={"memory"}),
    "disk, identical": Swap(
        put(f"{DISK}/wwid", "eui.another\n"), changed={DISK_SLOT}, struck=DISKS
    ),
    "disk, another kind": Swap(
        every(
            put(f"{DISK}/wwid", "eui.another\n"),
            put(f"{DISK}/device/model", "KIOXIA KCD8XPUG3T84\n"),
        ),
        changed={DISK_SLOT},
        struck=DISKS,
    ),
    "disk, unreadable identity": Swap(drop(f"{DISK}/wwid"), blind={DISK_SLOT}),
    "disk, no list": Swap(drop("/sys/block"), blind={"disk", DISK_SLOT}),
    "nic, identical": Swap(
        put("/sys/class/net/eno1/address", "02:00:00:00:00:99\n"), changed={"nic[eno1]"}
    ),
    "nic, another kind": Swap(
        put("/sys/class/net/eno1/device/modalias", "pci:v000015B3d00001021\n"),
        changed={"nic[eno1]"},
    ),
    "nic, unreadable identity": Swap(drop("/sys/class/net/eno1/address"), blind={"nic[eno1]"}),
    "driver, another version": Swap(
        edit("/proc/driver/nvidia/version", "570.133.20", "580.65.06"),
        changed={"driver"},
        struck=DRIVER,
    ),
    "driver, unreadable": Swap(put("/proc/driver/nvidia/version", "?\n"), blind={"driver"}),
    "kernel, another version": Swap(
        lambda box: box.recorded["uname"].update(release="6.8.0-60-generic"),
        changed={"kernel"},
        struck=of("cpu", "governor") | of("kernel", "modules"),
    ),
    "kernel, unreadable": Swap(
        lambda box: box.recorded["uname"].update(release=""), blind={"kernel"}
    ),
    "resolver, another": Swap(
        put("/etc/resolv.conf", "nameserver 192.0.2.99\n"), changed={"resolver"}
    ),
    "resolver, unreadable": Swap(drop("/etc/resolv.conf"), blind={"resolver"}),
    "container, another kind": Swap(
        put("/.dockerenv", ""),
        changed={"container"},
        struck=CONTAINER,
        fails={"machine.identity.container [box]"},
    ),
    "container, unreadable": Swap(
        drop("/proc/4242/cgroup"),
        blind={"container"},
        unknown={"machine.identity.container [box]"},
    ),
    "gpu, identical": Swap(edit(CARD, "000002", "000099"), changed={CARD_SLOT}, struck=ONE_CARD),
    "gpu, another kind": Swap(
        every(
            edit(CARD, "000002", "000099"),
            put("/sys/bus/pci/devices/0000:3a:00.0/device", "0x2335\n"),
        ),
        changed={CARD_SLOT},
        struck=ONE_CARD,
    ),
    "gpu, unreadable identity": Swap(
        edit(CARD, "GPU-00000000-0000-4000-8000-000000000002", "GPU-????????-????-????"),
        blind={CARD_SLOT},
    ),
    "gpu, gone": Swap(
        drop("/sys/bus/pci/devices/0000:3a:00.0", CARD),
        changed={CARD_SLOT},
        struck=ONE_CARD,
        fails=of("devices", "gpus"),
    ),
    "settings, another": Swap(
        edit("/proc/cmdline", "quiet", "quiet nosmt"),
        changed={"settings"},
        struck=of("kernel", "parameters"),
    ),
    "settings, unreadable": Swap(
        drop("/proc/cmdline", "/sys/kernel/mm/transparent_hugepage"),
        blind={"settings"},
        unknown=of("kernel", "parameters"),
    ),
    "model, another revision": Swap(
        put(f"{MODEL}/refs/main", "b" * 40 + "\n"), changed={"model[example-org/chat-8b]"}
    ),
    "model, unreadable": Swap(
        put(f"{MODEL}/refs/main", "\n"), blind={"model[example-org/chat-8b]"}
    ),
    "cache, another file system": Swap(
        lambda box: box.mounts(V2, root=ROOT.replace("ext4", "xfs")),
        changed={"cache"},
        struck=of("disk", "locks", subjects=("model-cache",)),
    ),
    "nothing": Swap(lambda _: None),
}


def dimms(box: Box, serial: str) -> None:
    """Put two memory modules into the tables of the firmware (SMBIOS type 17)."""
    for number, text in enumerate(("S1", serial)):
        raw = bytearray(0x28)
        raw[0], raw[1], raw[0x18] = 17, len(raw), 1
        box.put(f"/sys/firmware/dmi/entries/17-{number}/raw", bytes(raw) + text.encode() + b"\0\0")


def blocks(box: Box, count: int) -> None:
    """Let the kernel count so many memory blocks of 2 GiB."""
    root = "/sys/devices/system/memory"
    box.drop(root)
    box.put(f"{root}/block_size_bytes", "80000000\n")
    for number in range(count):
        box.put(f"{root}/memory{number}/state", "online\n")


def whole_box() -> Box:
    """The box as it was, with everything readable."""
    box = h100_box()
    dimms(box, "S2")
    blocks(box, 256)
    return box.put(f"{MODEL}/refs/main", "a" * 40 + "\n")


def run(suite: Suite, folder: Path, box: Box, *words: object, profile: str = PROFILE) -> Run:
    """Run the suite on a box."""
    folder.mkdir()
    return suite.run(folder, *words, root=box.write(folder / "tree"), profile=profile)


@pytest.fixture(scope="module")
def before(suite, tmp_path_factory) -> Path:
    """The ledger of the box as it was."""
    folder = tmp_path_factory.mktemp("before")
    first = run(suite, folder / "first", whole_box())
    assert first.code == 0, first.out
    assert first.ledger_path is not None
    return first.ledger_path


def named(rows: list[dict]) -> set[str]:
    return {f"{row['check']} [{row['subject']}]" for row in rows}


@pytest.mark.parametrize("name", SWAPS)
def test_of_each_component_exactly_what_rests_on_it_is_struck_out(suite, tmp_path, before, name):
    swap, box = SWAPS[name], whole_box()
    swap.change(box)
    after = run(suite, tmp_path / "after", box, "--baseline", before)
    since = after.ledger["since"]
    kinds = {row["slot"]: {row["kind"], row["identity"]} for row in since["parts"]}
    changed = {slot for slot, how in kinds.items() if how & {"changed", "removed", "added"}}
    assert changed == swap.changed
    assert {slot for slot, how in kinds.items() if "not comparable" in how} == swap.blind
    assert named(since["struck_out"]) == swap.struck
    failed = named([row for row in after.ledger["findings"] if row["verdict"] == "fail"])
    assert failed == swap.fails
    undecided = named([row for row in after.ledger["findings"] if row["verdict"] == "unknown"])
    assert undecided == swap.unknown
    # what was struck out stands in the report by name, and what was not does not
    words = " ".join(after.out.split())
    for row in since["struck_out"]:
        assert f"struck {row['check']} [{row['subject']}]" in words
    assert words.count(" struck ") == len(swap.struck)


def test_every_component_of_the_fingerprint_is_swapped_above(suite, tmp_path, before):
    """A component that is new must be added to the table."""
    parts = json.loads(before.read_text("utf-8"))["fingerprint"]
    known = {slot.partition("[")[0] for swap in SWAPS.values() for slot in swap.changed}
    assert {slot.partition("[")[0] for slot in parts} == known


def card(number: int, uuid: str) -> Callable[[Box], object]:
    """Put another card of the same kind into a slot."""
    path = f"/proc/driver/nvidia/gpus/0000:{0x18 + 0x11 * number:02x}:00.0/information"
    return edit(path, f"00000000000{number}", uuid)


NUMBER = """schema = 1
[[expectation]]
check = "machine.memory.total"
value = 540605939712
unit = "By"
lower_ratio = -0.015
upper_ratio = 0.015
basis = "measured"
source = "sha256:0"
measured_at = "2025-01-31"
premise = { memory = { size = "512 GiB" } }
"""


def test_an_identical_replacement_keeps_the_floor_and_is_judged_by_it(suite, tmp_path):
    """And another kind waits, in every run, until somebody accepts what is measured on it."""
    bare = PROFILE.replace("memory_total_bytes", "# memory_total_bytes")
    for name, change in (
        ("same", lambda _: None),
        ("identical", lambda box: dimms(box, "S9")),
        ("smaller", lambda box: blocks(box, 128)),
        ("smaller, again", lambda box: blocks(box, 128)),
        ("identical, one dead", lambda box: box.put("/proc/meminfo", DEAD)),
    ):
        box = whole_box()
        change(box)
        measured = tmp_path / name / "expected" / "measured" / "planted.toml"
        measured.parent.mkdir(parents=True)
        measured.write_text(NUMBER)
        done = suite.run(tmp_path / name, root=box.write(tmp_path / name / "tree"), profile=bare)
        found = done.finding("machine.memory.total")
        if "smaller" in name:
            assert (found["verdict"], found["reason"]) == ("unknown", "premise-changed"), name
            assert "preflight accept" in found["remedy"]
            assert done.code == 10
            assert "UNKNOWN premise-changed" in done.out
        elif "dead" in name:
            assert (found["verdict"], found["basis"]) == ("fail", "measured")
        else:
            assert (found["verdict"], found["basis"]) == ("pass", "measured"), name
            assert found["confirmed"]


DEAD = "MemTotal:       500000000 kB\nMemAvailable:   480000000 kB\n"
"""What is left of 512 GiB with one module gone, of which the memory blocks know nothing."""


def test_the_old_part_brings_its_verdicts_back(suite, tmp_path):
    """The story of a ticket: seen on A, not seen on B, and A comes back from the vendor."""
    faulty = whole_box().put("/proc/meminfo", DEAD)
    sick = run(suite, tmp_path / "sick", faulty)
    assert sick.finding("machine.memory.total")["verdict"] == "fail"
    replaced = whole_box()
    dimms(replaced, "S9")
    well = run(suite, tmp_path / "well", replaced, "--baseline", sick.ledger_path)
    assert well.finding("machine.memory.total")["verdict"] == "pass"
    words = " ".join(well.out.split())
    assert (
        "ticket machine.memory.total [box] (less-memory-than-declared): seen on memory S1 S2 at"
        in words
    )
    assert "; not seen on memory S1 S9 in this run of" in words
    assert "without load" in words
    # in between a run in which nothing happens
    still = run(suite, tmp_path / "still", replaced, "--baseline", well.ledger_path)
    assert named(still.ledger["since"]["struck_out"]) == MEMORY
    assert "with fails of machine.memory.total [box]" in " ".join(still.out.split())
    assert " ticket " not in still.out
    back = run(suite, tmp_path / "back", whole_box(), "--baseline", still.ledger_path)
    since = back.ledger["since"]
    returned = {row["check"]: row["verdict"] for row in since["returned"]}
    assert returned == {"machine.memory.total": "fail"}
    assert "counts again: memory is back" in " ".join(back.out.split())
    assert named(since["struck_out"]) == MEMORY
    assert {row["verdict"] for row in since["struck_out"]} == {"pass"}


ROOT_ALONE = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "raw")
"""What the kernel shows to root alone (mode 0400 in /sys/class/dmi/id and in the firmware's tables)."""


def test_a_run_of_root_after_one_of_a_user_changes_nothing_nor_the_other_way_round(
    suite, open_path
):
    tree = whole_box().write(open_path / "tree")
    secret = [path for path in tree.rglob("*") if path.name in ROOT_ALONE]
    assert len(secret) >= 4
    words: tuple[object, ...] = ()
    serials = []
    for name, uid in (("user", another_user()), ("root", 0), ("user-again", another_user())):
        for path in secret:
            path.chmod(0o400 if name == "root" else 0)  # 0, for this user may own them
        (open_path / name).mkdir()
        (open_path / name).chmod(0o777)
        done = suite.run(open_path / name, *words, root=tree, profile=PROFILE, uid=uid)
        assert done.code == 0, done.out
        serials.append(done.ledger["fingerprint"]["board"]["identity"]["serial"])
        if name != "user":
            since = done.ledger["since"]
            assert since["struck_out"] == since["returned"] == []
            hows = {row["identity"] for row in since["parts"]} | {
                row["kind"] for row in since["parts"]
            }
            assert hows <= {"same", "not comparable"}
            said = " ".join(done.out.split())
            assert " struck " not in said
            assert " part " not in said
            assert "changes since" not in said
            assert "since nothing changed since" in said
        words = ("--baseline", done.ledger_path)
    assert serials == [None, ".CN70163.", None]  # or this test has shown nothing


def test_a_new_disk_is_told_to_bring_the_tickets_ledger(suite, tmp_path):
    first = suite.run(tmp_path)  # on this machine: a rehearsal has no head and never a baseline
    assert "no baseline found" in " ".join(first.out.split())
    second = suite.run(tmp_path)
    assert "no baseline found" not in second.out
    assert first.ledger_path is not None
    third = suite.run(tmp_path / "new", "--baseline", first.ledger_path)
    assert "no baseline found" not in third.out
