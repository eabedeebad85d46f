"""How the kernel was started, which drivers it has, and whether its log can be read."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from checks.core.facts import Blind
from checks.core.registry import REGISTRY, load_areas
from checks.core.world import World
from checks.machine.cmdline import limiting_parameters, parameters
from checks.machine.facts import KernelLog, LogSpan
from tests.support.boxes import (
    LINE,
    NOW_S,
    UP_S,
    Box,
    Run,
    another_user,
    arm_board,
    docker_box,
    h100_box,
    plain_box,
    with_module,
)

load_areas()
PARAMETERS, MODULES = "machine.kernel.parameters", "machine.kernel.modules"
LOG = "machine.log.kernel"
BOOT_US = int((NOW_S - UP_S) * 1_000_000)
ID = "0123456789abcdef0123456789abcdef"


def rehearse(suite, folder: Path, box: Box, profile: str = "") -> Run:
    return suite.run(folder, root=box.write(folder / "tree"), profile=profile)


def seen_of(run: Run, probe: str) -> dict[str, Any]:
    return next(row["data"] for row in run.ledger["observations"] if row["probe"] == probe)


def settings(run: Run) -> dict[str, str | None]:
    return run.ledger["fingerprint"]["settings"]["kind"]


# The command line


def test_a_parameter_that_went_missing_fails_and_one_that_is_there_passes(suite, tmp_path):
    profile = '[hardware]\nkernel_parameters = ["iommu=pt", "quiet"]\n'
    run = rehearse(suite, tmp_path / "a", plain_box(), profile)
    assert run.finding(PARAMETERS)["verdict"] == "pass"
    assert run.finding(PARAMETERS)["basis"] == "declared"
    assert run.code == 0, run.out
    box = plain_box().put("/proc/cmdline", LINE.replace(" iommu=pt", " iommu=on"))
    found = rehearse(suite, tmp_path / "b", box, profile).finding(PARAMETERS)
    assert (found["verdict"], found["cause"]) == ("fail", "parameter-missing")
    assert "there is iommu=on" in found["says"]


def test_what_is_not_declared_is_not_judged(suite, tmp_path):
    run = rehearse(suite, tmp_path, plain_box().drop("/proc/cmdline", "/sys/module"))
    for check in (PARAMETERS, MODULES):
        assert run.finding(check)["verdict"] == "not-applicable"
    assert run.code == 0, run.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ro quiet\n", ("ro", "quiet")),
        ('a="x y" b\n', ('a="x y"', "b")),
        ('"c=x y"\td\n', ('"c=x y"', "d")),
        ('open="x y', ('open="x y',)),
        ("ro init=/x -- single iommu=pt\n", ("ro", "init=/x")),
        ("--x y--z\n", ("--x", "y--z")),
        ("", ()),
    ],
)
def test_the_command_line_is_split_as_the_kernel_does_it(tmp_path, text, words):
    assert parameters(World(plain_box().put("/proc/cmdline", text).write(tmp_path))) == words


def test_what_takes_memory_and_cpus_away_is_found_by_whole_names(tmp_path):
    text = "mem=8G amem=1 memory=2 memmap=1G$2G crashkernel=1G maxcpus=4 nr_cpus=2 isolcpus=1 nosmt=force nosmp"
    world = World(plain_box().put("/proc/cmdline", text).write(tmp_path))
    assert limiting_parameters(world) == (
        *("mem=8G", "memmap=1G$2G", "crashkernel=1G", "maxcpus=4", "nr_cpus=2", "isolcpus=1"),
        *("nosmt=force", "nosmp"),
    )


def test_memory_that_the_command_line_takes_away_is_explained(suite, tmp_path):
    box = plain_box().put("/proc/cmdline", LINE.replace("quiet", "quiet mem=64G maxcpus=4"))
    run = rehearse(suite, tmp_path, box, f"[hardware]\nmemory_total_bytes = {1024 * 2**30}\n")
    found = run.finding("machine.memory.total")
    assert found["cause"] == "less-memory-than-declared"
    assert found["evidence"] == ["/proc/cmdline: mem=64G maxcpus=4"]
    assert found["notes"][0].startswith("mem=64G on the kernel's command line")


def test_a_secret_on_the_command_line_is_hidden_and_no_parameter_seems_to_be_missing(
    suite, tmp_path
):
    text = LINE.replace("quiet", "quiet x.password=hunter2hunter2")
    profile = '[hardware]\nkernel_parameters = ["x.password=hunter2hunter2"]\n'
    run = rehearse(suite, tmp_path, plain_box().put("/proc/cmdline", text), profile)
    assert run.finding(PARAMETERS)["verdict"] == "unknown"
    assert run.ledger_path is not None
    assert "hunter2" not in run.ledger_path.read_text()
    assert "hunter2" not in run.out


def test_the_settings_are_a_component_without_what_says_where_the_system_lies(suite, tmp_path):
    run = rehearse(suite, tmp_path / "a", plain_box())
    assert settings(run) == {
        "kernel_parameters": "ro quiet iommu=pt",
        "transparent_huge_pages": "madvise",
    }
    other = LINE.replace("6.8.0-31", "6.8.0-99").replace("8f2f8f6e", "00000000")
    run = rehearse(suite, tmp_path / "b", plain_box().put("/proc/cmdline", other))
    assert settings(run)["kernel_parameters"] == "ro quiet iommu=pt"
    box = plain_box().drop("/proc/cmdline")
    box.put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise never\n")
    run = rehearse(suite, tmp_path / "c", box)
    assert settings(run) == {"kernel_parameters": None, "transparent_huge_pages": None}


# Modules


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (["nvidia", "nvidia-uvm"], "pass"),
        (["fuse"], "pass"),
        (["nvidia_peermem"], "fail"),
        (["nvidia", "xfs"], "fail"),
    ],
)
def test_a_declared_module_is_loaded_or_built_in_or_fails(suite, tmp_path, names, verdict):
    quoted = ", ".join(f'"{name}"' for name in names)
    run = rehearse(suite, tmp_path, h100_box(), f"[hardware]\nkernel_modules = [{quoted}]\n")
    found = run.finding(MODULES)
    assert found["verdict"] == verdict, found["says"]
    assert "nvidia 570.133.20: 8 devices" in found["evidence"]


def test_in_a_container_a_module_that_may_be_built_in_is_unknown(suite, tmp_path):
    box = with_module(docker_box(), "nvidia", "570.133.20")
    for names, verdict in (
        ('"nvidia"', "pass"),
        ('"nvidia", "fuse"', "unknown"),
        ('"nvidia_peermem"', "fail"),
    ):
        run = rehearse(suite, tmp_path / verdict, box, f"[hardware]\nkernel_modules = [{names}]\n")
        assert run.finding(MODULES)["verdict"] == verdict, run.finding(MODULES)["says"]


def test_two_drivers_that_hold_devices_are_noted(suite, tmp_path):
    box = with_module(h100_box(), "nouveau", "", "0000:01:00.1")
    profile = '[hardware]\nkernel_modules = ["nvidia"]\n'
    found = rehearse(suite, tmp_path / "a", box, profile).finding(MODULES)
    assert found["verdict"] == "pass"
    assert any("nouveau and nvidia both hold devices" in note for note in found["notes"])
    idle = with_module(h100_box(), "nouveau", "")
    assert rehearse(suite, tmp_path / "b", idle, profile).finding(MODULES)["notes"] == []


def test_a_driver_is_counted_by_the_devices_that_it_holds(suite, tmp_path):
    box = with_module(h100_box(), "vfio_pci", "0.2", "0000:5c:00.0", "0000:5c:00.1")
    box.put("/sys/bus/pci/drivers/vfio-pci/new_id", "")
    drivers = {
        row["name"]: (row["version"], row["devices_count"])
        for row in seen_of(rehearse(suite, tmp_path, box), "machine.kernel")["drivers"]
    }
    assert drivers["vfio_pci"] == ("0.2", 2)
    assert drivers["nvidia"] == ("570.133.20", 8)
    assert drivers["nvidia_uvm"] == ("570.133.20", 0)


def test_a_box_without_an_iommu_has_none_and_one_with_it_has_one(suite, tmp_path):
    assert (
        seen_of(rehearse(suite, tmp_path / "a", plain_box()), "machine.kernel")["iommus_count"] == 1
    )
    assert (
        seen_of(rehearse(suite, tmp_path / "b", arm_board()), "machine.kernel")["iommus_count"] == 0
    )


# The log


def kmsg(*numbers: int, at_s: float = 0.0) -> str:
    return "".join(f"6,{n},{int((at_s + n) * 1_000_000)},-;line {n}\n KEY=x\n" for n in numbers)


def log_of(box: Box, folder: Path) -> KernelLog:
    seen = REGISTRY.probes["machine.log"].read(World(box.write(folder)), None)
    assert isinstance(seen, KernelLog)
    return seen


def test_the_log_is_counted_and_nothing_of_it_is_kept(suite, tmp_path):
    box = plain_box().put("/dev/kmsg", kmsg(0, 1, 2, 3))
    run = rehearse(suite, tmp_path, box)
    assert run.finding(LOG)["verdict"] == "pass"
    assert seen_of(run, "machine.log")["kmsg"] == {
        "records_count": 4,
        "lost_count": 0,
        "first_s": 0.0,
        "last_s": 3.0,
        "complete": True,
    }
    assert run.ledger_path is not None
    assert "line 2" not in run.ledger_path.read_text()


def test_a_log_whose_beginning_is_overwritten_passes_with_a_note(suite, tmp_path):
    box = plain_box().put("/dev/kmsg", kmsg(500, 501, 504))
    run = rehearse(suite, tmp_path, box)
    found = run.finding(LOG)
    assert found["verdict"] == "pass"
    assert "502 records of this boot are overwritten" in found["notes"][0]
    assert seen_of(run, "machine.log")["kmsg"]["first_s"] == 500.0


@pytest.mark.parametrize("make", [plain_box, arm_board])
def test_a_log_that_is_empty_fails(suite, tmp_path, make):
    found = rehearse(suite, tmp_path, make().put("/dev/kmsg", "")).finding(LOG)
    assert (found["verdict"], found["cause"]) == ("fail", "log-empty")


def test_a_log_that_is_not_there_is_unknown_on_a_box_and_the_hosts_in_a_container(suite, tmp_path):
    found = rehearse(suite, tmp_path / "a", plain_box().drop("/dev/kmsg")).finding(LOG)
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
    assert "adm or systemd-journal" in found["remedy"]
    found = rehearse(suite, tmp_path / "b", docker_box()).finding(LOG)
    assert found["verdict"] == "not-applicable"
    assert "docker" in found["says"]
    # the same where it can be read, or a run of root would differ from that of another user
    box = docker_box().put("/dev/kmsg", kmsg(0))
    assert rehearse(suite, tmp_path / "c", box).finding(LOG)["says"] == found["says"]


def journal(entries: int, first_us: int, last_us: int) -> bytes:
    """The header of a journal, as systemd writes it (journal-def.h)."""
    head = bytearray(272)
    head[:8] = b"LPKSHHRH"
    for offset, value in ((152, entries), (184, first_us), (192, last_us)):
        struct.pack_into("<Q", head, offset, value)
    return bytes(head)


def test_a_journal_stands_in_for_the_ring(suite, tmp_path):
    box = plain_box().drop("/dev/kmsg")
    path = f"/run/log/journal/{ID}"
    box.put(f"{path}/system.journal", journal(900, BOOT_US + 2_000_000, BOOT_US + 9_000_000))
    found = rehearse(suite, tmp_path / "a", box).finding(LOG)
    assert found["verdict"] == "pass"
    assert found["says"] == "900 records by journal"
    assert found["notes"] == []
    late = BOOT_US + 3_600_000_000
    box.put(f"{path}/system.journal", journal(900, late, late + 1))
    assert "begins 1 h after boot" in rehearse(suite, tmp_path / "b", box).finding(LOG)["notes"][0]
    # what was rotated out of it still counts
    box.put(f"{path}/system@{ID}-0000000000000001-{BOOT_US - 10**6:016x}.journal", "x")
    box.put(f"{path}/system@0005f3-broken.journal~", "x").put(f"{path}/user-1000.journal", "x")
    run = rehearse(suite, tmp_path / "c", box)
    assert run.finding(LOG)["notes"] == []
    assert seen_of(run, "machine.log")["journal"]["first_s"] == -1.0


def test_the_journal_on_disk_comes_before_the_one_in_memory(tmp_path):
    box = plain_box()
    box.put(f"/var/log/journal/{ID}/system.journal", journal(3, BOOT_US, BOOT_US))
    box.put(f"/run/log/journal/{ID}/system.journal", journal(4, BOOT_US, BOOT_US))
    seen = log_of(box, tmp_path).journal
    assert isinstance(seen, LogSpan)
    assert (seen.records_count, seen.first_s, seen.lost_count) == (3, 0.0, None)


@pytest.mark.parametrize("raw", [b"", b"LPKSHHRH", b"x" * 300, journal(2**63, 1, 1)])
def test_what_is_no_journal_is_a_reason(tmp_path, raw):
    seen = log_of(plain_box().put(f"/var/log/journal/{ID}/system.journal", raw), tmp_path)
    assert seen.journal.reason is Blind.MALFORMED


@pytest.mark.parametrize(
    "text", ["garbage\n", "6;x\n", f"6,{'9' * 19},0,-;x\n", "6,0,0,-\n", "٣,٣,٣,-;x\n"]
)
def test_records_that_make_no_sense_are_never_counted(tmp_path, text):
    seen = log_of(plain_box().put("/dev/kmsg", text), tmp_path).kmsg
    assert not isinstance(seen, LogSpan) or seen.records_count == 0


def test_a_very_long_log_is_not_counted_to_its_end(tmp_path, monkeypatch):
    from checks.machine.probe import log as probe

    monkeypatch.setattr(probe, "MOST_RECORDS", 3)
    seen = log_of(plain_box().put("/dev/kmsg", kmsg(*range(9))), tmp_path).kmsg
    assert (seen.records_count, seen.complete, seen.last_s) == (3, False, 2.0)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to read the kernel's log")
def test_root_reads_the_log_of_this_machine_and_another_user_is_told_that_he_may_not(
    suite, open_path
):
    seen = REGISTRY.probes["machine.log"].read(World(), None)
    if isinstance(seen.kmsg, LogSpan):
        assert seen.kmsg.records_count > 0
        assert 0.0 <= seen.kmsg.first_s <= seen.kmsg.last_s <= World().boot_s()
    run = suite.run(open_path, uid=another_user())
    found = run.finding(LOG)
    restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "1"
    if not restricted or not Path("/dev/kmsg").exists():
        assert found["verdict"] != "fail"
    elif seen_of(run, "machine.identity")["container"] == "none":
        assert (found["verdict"], found["reason"]) == ("unknown", "not-observable")
        assert "dmesg_restrict" in found["remedy"]
        assert run.code == 10
    else:
        assert found["verdict"] == "not-applicable"
        assert found["says"].startswith("the kernel's log is the host's: this is ")
