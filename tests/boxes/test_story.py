"""The two days of the README, through the commands alone, on the trees of a box before and after."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.boxes.test_swap import ROOT_ALONE, blocks, card, dimms, whole_box
from tests.support.boxes import Box, add_gpu, another_user, with_driver
from tests.support.runs import HERE, cli, main_as

AFTER = (
    "MemTotal:      1056000000 kB\nMemAvailable:  1000000000 kB\n"
    "SwapTotal:             0 kB\nSwapFree:              0 kB\n"
)


class Story:
    """A folder in which commands follow one another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = ("--expected", folder / "e", "--ledger-dir", folder / "l")
        self.said = ""

    def do(self, *words: object) -> int:
        done = cli(*words, *self.words)
        self.said += f"$ {words}\n{done.out}"
        assert not done.err, done.err
        return done.code

    def run(self, tree: str, *words: object) -> int:
        rest = ("--baseline", self.newest) if self.ledgers() else ()
        return self.do("run", "--host", "h100-1", "--root", self.folder / tree, *words, *rest)

    def ledgers(self) -> list[Path]:
        found = (self.folder / "l" / "h100-1" / "rehearsals").glob("*.json")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    @property
    def newest(self) -> Path:
        return self.ledgers()[-1]


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    whole_box().write(folder / "before")
    swapped = whole_box().put("/proc/meminfo", AFTER)
    card(2, "000000000099")(swapped)
    dimms(swapped, "S9")
    blocks(swapped, 512)
    swapped.write(folder / "after")
    return Story(folder)


def test_from_the_first_day_over_a_swap_nobody_is_ever_stuck(story):
    assert story.do("adopt", "h100-1", "--root", story.folder / "before") == 0
    assert story.run("before") == 0
    assert "passed unconfirmed" in story.said
    assert story.do("accept", story.newest, "--ticket", "INFRA-1") == 0
    first = len(story.said)
    assert story.run("before", "--ticket", "INFRA-1") == 0
    assert "unconfirmed" not in story.said[first:]
    swap = len(story.said)
    assert story.run("after", "--ticket", "INFRA-2") == 10
    assert story.do("accept", story.newest) == 0
    assert story.run("after") == 0
    # the old parts come back, and the number that was measured on them counts again
    back = len(story.said)
    assert story.run("before") == 0
    assert "back    machine.memory.total [box]" in story.said[back:]
    # what the README shows of a day was said, line by line, in this order
    for title, said in (
        ("The life of a box: the first day", story.said[:swap]),
        ("Swap day", story.said[swap:back]),
    ):
        text = (HERE / "README.md").read_text("utf-8").partition(f"# {title}\n")[2]
        shown = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0].splitlines()
        lines = iter([plain(line, story.folder) for line in said.splitlines()])
        for line in shown:
            if line.strip() not in ("…", "") and not line.startswith("$ "):
                assert plain(line, story.folder) in lines, line


def test_a_card_more_than_was_accepted_is_declared_as_the_report_says(story, tmp_path):
    """What failed is never accepted; what somebody declares counts before what was measured."""
    other = Story(tmp_path)
    (tmp_path / "all").symlink_to(story.folder / "before")
    slot = "0000:8f:00.0"
    fewer = whole_box().drop(f"/proc/driver/nvidia/gpus/{slot}", f"/sys/bus/pci/devices/{slot}")
    fewer.drop("/sys/bus/pci/drivers/nvidia/" + slot).write(tmp_path / "seven")
    assert other.do("adopt", "h100-1", "--root", tmp_path / "seven") == 0
    assert other.run("seven") == 0
    assert other.do("accept", other.newest) == 0
    assert other.run("all") == 1
    words = " ".join(other.said.split())
    assert "8 GPUs on the PCI bus, 7 wanted" in words
    assert "where it was put in on purpose, set hardware.gpus in the profile" in words
    refused = cli("accept", other.newest, "machine.devices.gpus", "--change", *other.words)
    assert refused.code == 1
    assert "set hardware.gpus in the profile and take its name out of `assumed`" in refused.out
    profile = tmp_path / "e" / "hosts" / "h100-1.toml"
    text = profile.read_text("utf-8").replace("gpus = 7", "gpus = 8")
    profile.write_text(re.sub(r'^( *)"gpus",$|, "gpus"|"gpus", ', "", text, flags=re.MULTILINE))
    done = len(other.said)
    assert other.run("all") == 0
    assert "passed unconfirmed" not in other.said[done:]


def virtual_function(box: Box, *, listed: bool) -> None:
    model = "NVIDIA H100 80GB HBM3" if listed else ""
    add_gpu(box, "0000:18:00.4", vendor="0x10de", device="0x2330", model=model, uuid="GPU-vf")
    box.link("/sys/bus/pci/devices/0000:18:00.4/physfn", "../0000:18:00.0")


def given_away(box: Box, *, listed: bool) -> None:
    """Let vfio hold a card, which the driver then lists no more."""
    with_driver(box, "0000:8f:00.0", "vfio-pci")
    if not listed:
        box.drop("/proc/driver/nvidia/gpus/0000:8f:00.0")


@pytest.mark.parametrize("change", [virtual_function, given_away])
@pytest.mark.parametrize("listed", [False, True])
def test_what_is_adopted_of_a_host_of_virtual_machines_is_what_its_first_run_finds(
    tmp_path, change, listed
):
    box, host = whole_box(), Story(tmp_path)
    change(box, listed=listed)
    box.write(tmp_path / "tree")
    assert host.do("adopt", "h100-1", "--root", tmp_path / "tree") == 0
    assert re.search(
        r"^gpus = 8$", (tmp_path / "e/hosts/h100-1.toml").read_text("utf-8"), re.MULTILINE
    )
    assert host.run("tree") == 0
    assert "8gpu" in host.newest.name


def test_a_user_who_may_read_neither_log_nor_serials_is_not_stuck_either(suite, open_path):
    user = another_user()
    (open_path / "expected").mkdir(mode=0o777)
    (open_path / "expected").chmod(0o777)
    tree = whole_box().write(open_path / "tree")
    for path in tree.rglob("*"):
        if path.name in (*ROOT_ALONE, "kmsg"):
            path.chmod(0)
    rest = ("--expected", open_path / "expected")
    code, said = main_as(user, open_path, "adopt", "planted", "--root", tree, *rest)
    assert code == 0
    assert "optional  machine.log.kernel: this user may not read the kernel's log" in said
    assert "add this user to the group adm or systemd-journal" in said
    first = suite.run(open_path, root=tree, uid=user)
    assert first.code == 0, first.out
    assert "passed unconfirmed" in first.out
    code, said = main_as(user, open_path, "accept", first.ledger_path, *rest)
    assert code == 0, said
    second = suite.run(open_path, root=tree, uid=user)
    assert second.code == 0, second.out
    assert "unconfirmed" not in second.out
    words = " ".join(second.out.split())
    assert "optional by profile and undecided: machine.log.kernel [box]" in words


def plain(line: str, folder: Path) -> str:
    """A line without what differs from one run to the next, and from a rehearsal to the real thing."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?Z", "T", line.rstrip())
    line = re.sub(r"\d+\.\d s,", "N s,", line).replace(", rehearsal", "")
    line = re.sub(r"\d{8}T\d{6}Z-", "T-", line)
    for there, here in (
        (f" --expected {folder}/e --ledger-dir {folder}/l", ""),
        (f" --root {folder}/before", ""),
        (" --root DIR", ""),
        ("accept LEDGER", "accept h100-1"),
        (f"{folder}/e/rehearsed/", "expected/measured/"),
        (f"{folder}/e/", "expected/"),
        (f"{folder}/l/h100-1/rehearsals/", "ledgers/h100-1/"),
    ):
        line = line.replace(there, here)
    return line
