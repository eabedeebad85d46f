"""`preflight adopt`: what it writes of a box, what it leaves out, and whom it asks first."""

import dataclasses
import re
from pathlib import Path

import pytest

import checks.verbs.adopt
from checks.cli import main
from checks.core.expectation import Basis
from checks.core.facts import Blind
from checks.core.finding import Finding
from checks.core.fingerprint import Part
from checks.core.load import load_host
from checks.core.profile import Hardware
from checks.core.registry import load_areas
from checks.core.verdict import Reason, Verdict
from checks.verbs.adopt import DETECTED, may_go_without
from tests.support.boxes import (
    NVIDIA_VERSION,
    add_gpu,
    another_user,
    cloud_vm,
    h100_box,
    plain_box,
)
from tests.support.runs import main_as

UNITS = load_areas().units()
GIB = 2**30


class Bench:
    """A folder of expectations, and the verb."""

    def __init__(self, folder: Path, capsys) -> None:
        self.folder = folder
        self.capsys = capsys
        self.expected = folder / "e"
        self.file = self.expected / "hosts" / "box.toml"

    def adopt(self, *words, box=None, host="box"):
        if box is not None:
            tree = box.write(self.folder / f"tree-{len(list(self.folder.iterdir()))}")
            words = (*words, "--root", tree)
        rest = ["--expected", self.expected, "--ledger-dir", self.folder / "l"]
        code = main(["adopt", host, *map(str, (*words, *rest))])
        said = self.capsys.readouterr()
        self.out, self.err = said
        return code

    def hardware(self):
        return load_host("box", [self.expected], UNITS).expected.profile.hardware


@pytest.fixture
def bench(tmp_path, capsys):
    return Bench(tmp_path, capsys)


def with_blocks(box, count, size_bytes=2 * GIB):
    root = "/sys/devices/system/memory"
    box.put(f"{root}/block_size_bytes", f"{size_bytes:x}\n")
    for number in range(count):
        box.put(f"{root}/memory{number}/online", "1\n")
    return box


# what is detected


def test_every_detected_key_is_assumed_and_said_to_be(bench):
    assert bench.adopt(box=with_blocks(plain_box(), 256)) == 0
    found = bench.hardware()
    kept = {
        "architecture": "x86_64",
        "virtualization": "none",
        "container": "none",
        "product_name": "PowerEdge XE9680",
        "memory_total_bytes": 512 * GIB,
    }
    assert {key: getattr(found, key) for key in kept} == kept
    assert set(kept) <= set(found.assumed)
    # whatever has a value is assumed, and nothing else
    values = {
        field.name
        for field in dataclasses.fields(found)
        if getattr(found, field.name) not in (None, (), "")
    }
    assert values - {"assumed"} == set(found.assumed)
    assert f"wrote {bench.file}" in bench.out
    assert "assumed   architecture, virtualization, container, product_name, mem" in bench.out
    tree = f"--root {bench.folder}/tree-"
    assert re.search(
        rf"next: preflight run --host box --expected {bench.expected} .*{tree}", bench.out
    )
    assert "then: preflight accept LEDGER" in bench.out
    assert "in the recorded tree" in bench.file.read_text("utf-8").replace("\n# ", " ")


def test_every_detected_key_is_one_of_the_profile_or_only_compared():
    assert set(DETECTED) - {field.name for field in dataclasses.fields(Hardware)} <= {"gpus"}


@pytest.mark.parametrize(
    ("box", "total"),
    [
        (with_blocks(plain_box(), 256), 512 * GIB),
        # firmware keeps a little of the last block: what is fitted is a number of whole GiB
        (with_blocks(plain_box(), 512 * 8 - 1, GIB // 8), 512 * GIB),
        # 512 GiB fitted, and a kernel that was told to use much less: what is there is assumed
        (with_blocks(plain_box(), 1024), 527_935_488 * 1024),
        (plain_box(), 527_935_488 * 1024),
        (with_blocks(cloud_vm(), 256), 527_935_488 * 1024),
    ],
    ids=["bare metal", "not all of it", "far from MemTotal", "no blocks to see", "virtual machine"],
)
def test_memory_is_what_is_fitted_where_that_is_what_there_is(bench, box, total):
    assert bench.adopt(box=box) == 0
    assert bench.hardware().memory_total_bytes == total


def test_what_cannot_be_read_is_left_out_with_the_reason(bench):
    box = plain_box().drop("/sys/class/dmi", "/proc/meminfo")
    assert bench.adopt(box=box) == 0
    found = bench.hardware()
    assert {"architecture", "virtualization", "container"} <= set(found.assumed)
    assert (found.product_name, found.memory_total_bytes) == (None, None)
    assert "left out  product_name: absent: /sys/class/dmi/id/product_name is absent" in bench.out
    text = bench.file.read_text("utf-8")
    assert "# product_name: left out, absent: " in text
    assert "# memory_total_bytes: left out, absent: " in text


# GPUs


def test_gpus_that_bus_and_driver_agree_on_are_no_trouble(bench):
    for number, box in enumerate((h100_box(), cloud_vm(), plain_box())):
        assert bench.adopt(box=box, host=f"box{number}") == 0
        assert bench.err == ""


def lost_by_the_driver():
    box = h100_box()
    return box.drop("/proc/driver/nvidia/gpus/0000:3a:00.0")


def without_a_driver():
    return h100_box().drop("/proc/driver/nvidia")


def lost_by_the_bus():
    return plain_box().put("/proc/driver/nvidia/version", NVIDIA_VERSION)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lost_by_the_driver, "8 of NVIDIA on the PCI bus, 7 known to the driver"),
        (without_a_driver, "8 of NVIDIA on the PCI bus, 0 known to the driver (no driver of"),
        (lost_by_the_bus, "0 of NVIDIA on the PCI bus, 0 known to the driver (driver 570.133.20"),
    ],
)
def test_no_count_of_gpus_is_written_where_bus_and_driver_disagree(bench, make, says):
    assert bench.adopt(box=make()) == 10
    (line,) = bench.err.splitlines()
    assert line.startswith("preflight: gpus left out, for its sources disagree: ")
    assert says in line
    assert "gpus =" not in bench.file.read_text("utf-8")
    # the rest of the profile is there
    assert bench.hardware().architecture == "x86_64"


def test_gpus_of_another_make_have_no_driver_of_nvidia_to_disagree_with(bench):
    box = add_gpu(plain_box(), "0000:05:00.0", vendor="0x1002", device="0x74a1")
    assert bench.adopt(box=box) == 0


# what this box may go without


def blind(check="a.b", reason=Blind.PERMISSION, subject="box", premise=("kernel",)):
    return Finding(
        check=check,
        subject=subject,
        verdict=Verdict.UNKNOWN,
        says="a.log could not see: permission: /dev/kmsg may not be read",
        reason=Reason.NOT_OBSERVABLE,
        remedy="group adm to read the kernel log",
        blind=reason,
        basis=Basis.INVARIANT,
        premise=premise,
    )


PART = Part(kind={}, identity={}, unread=())


def test_a_check_that_lacks_a_permission_may_be_gone_without_and_says_which():
    assert may_go_without([blind()], {"kernel": PART}, "uid 7") == {
        "a.b": "a.log could not see: permission: /dev/kmsg may not be read (uid 7); needs: group "
        "adm to read the kernel log"
    }


@pytest.mark.parametrize("reason", [*(one for one in Blind if one is not Blind.PERMISSION), None])
def test_no_other_reason_makes_a_check_optional(reason):
    assert may_go_without([blind(reason=reason)], {}, "uid 7") == {}


@pytest.mark.parametrize("part", ["gpu", "disk", "nic"])
def test_what_a_bus_shows_to_be_there_is_never_optional(part):
    for premise in ((part,), (f"{part}[0]",)):
        finding = blind(premise=premise)
        assert may_go_without([finding], {f"{part}[0]": PART}, "uid 7") == {}
        assert may_go_without([finding], {part: PART, f"{part}s[0]": PART}, "uid 7") != {}


def test_what_the_profile_names_is_never_optional():
    assert may_go_without([blind(subject="chat")], {}, "uid 7") == {}


def test_what_was_told_is_written_so_that_the_loader_takes_it(bench, monkeypatch):
    """Through the whole verb: no check of this version asks a new profile's box for root."""
    judge_all = checks.verbs.adopt.Runner.judge_all

    def lacks(self, check, subject):
        found = judge_all(self, check, subject)
        if check != "machine.clock.past":
            return found
        self.findings[check, subject] = blind(check=check)
        return (self.findings[check, subject],)

    monkeypatch.setattr(checks.verbs.adopt.Runner, "judge_all", lacks)
    assert bench.adopt(box=plain_box()) == 0
    optional = load_host("box", [bench.expected], UNITS).expected.profile.checks.optional
    assert [*optional] == ["machine.clock.past"]
    assert "needs: group adm to read the kernel log" in optional["machine.clock.past"]
    assert "optional  machine.clock.past: a.log could not see" in bench.out


# names and files


@pytest.mark.parametrize("host", ["local", "", "a/b", "..", "-x", "a" * 64, "é"])
def test_a_name_that_no_host_can_have_is_refused(bench, host):
    if host.startswith("-"):
        with pytest.raises(SystemExit, match="2"):
            bench.adopt(host=host)
    else:
        assert bench.adopt(host=host) == 2
    assert not bench.expected.exists()


def test_a_profile_that_is_there_is_left_alone_and_with_force_kept_beside(bench):
    bench.file.parent.mkdir(parents=True)
    for number, kept in ((1, "box.toml.bak"), (2, "box.toml.bak2")):
        mine = f'schema = 1\ndescription = "mine {number}"\n'
        bench.file.write_text(mine, "utf-8")
        assert bench.adopt(box=plain_box()) == 1
        assert bench.err.splitlines() == [
            f"preflight: {bench.file}: is there already; with --force it is kept beside the new one"
        ]
        assert bench.file.read_text("utf-8") == mine
        assert bench.adopt("--force", box=plain_box()) == 0
        assert bench.file.with_name(kept).read_text("utf-8") == mine
        assert f"kept the old one as {bench.file.with_name(kept)}" in bench.out
        assert bench.hardware().architecture == "x86_64"


def test_a_profile_of_the_name_in_another_folder_is_not_hidden_unasked(bench):
    assert bench.adopt(host="example-h100", box=plain_box()) == 1
    assert "example-h100.toml: is there already; with --force it is hidden by" in bench.err
    assert not bench.expected.exists()
    assert bench.adopt("--force", host="example-h100", box=plain_box()) == 0
    assert "kept the old one" not in bench.out


@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_be_read_back_is_taken_back(bench, monkeypatch, there):
    if there:
        bench.adopt(box=plain_box())
    before = bench.file.read_bytes() if there else None
    text = checks.verbs.adopt.profile_text
    calls = []

    def broken(draft):
        calls.append(draft)
        # the first is the one that is judged against
        return text(draft) + ("nonsense = 1\n" if len(calls) > 1 else "")

    monkeypatch.setattr(checks.verbs.adopt, "profile_text", broken)
    assert bench.adopt("--force", box=plain_box()) == 2
    assert "nonsense: unknown key" in bench.err
    assert (bench.file.read_bytes() if there else None) == before
    assert [path.name for path in bench.file.parent.iterdir()] == (["box.toml"] if there else [])


def test_a_folder_that_may_not_be_written_is_one_clear_text(open_path):
    open_path.chmod(0o755)
    rest = ("--expected", open_path / "e", "--ledger-dir", open_path / "l")
    (open_path / "said").mkdir()
    (open_path / "said").chmod(0o777)
    uid = another_user()
    open_path.chmod(0o555)
    code, said = main_as(uid, open_path / "said", "adopt", "box", *rest)
    assert code == 2
    (line,) = said.splitlines()
    assert line.startswith(f"preflight: {open_path}/e/hosts: cannot be written (Permission denied)")
    assert "--expected DIR" in line
