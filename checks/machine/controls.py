"""For each check, the nearest observation that must fail and the nearest that must pass."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Access, Blind, Unseen
from checks.core.registry import control
from checks.machine.facts import (
    Clock,
    Cpu,
    CpuLimit,
    Folder,
    History,
    Identity,
    Memory,
    MemoryGroups,
    MemoryLimit,
    MemoryWanted,
    Moment,
    Process,
    RoomWanted,
    Threads,
)
from checks.machine.judge import CLOCK_SLACK_S, FITTED_TOLERANCE_RATIO

_NONE = Unseen(Blind.ABSENT, "planted")
_NOT_ASKED = Unseen(Blind.NOT_ASKED, "planted")

_IDENTITY = Identity(
    host_name="planted",
    architecture="x86_64",
    kernel_release="6.8.0",
    os_name="planted",
    machine_id=_NONE,
    product_vendor="planted",
    product_name="PowerEdge XE9680",
    board_name="planted",
    board_serial=_NONE,
    product_uuid=_NONE,
    cpu_model="planted",
    hypervisor="none",
    container="none",
    evidence=(),
)

_AS_DECLARED = (
    ("machine.identity.architecture", "x86_64", "aarch64"),
    ("machine.identity.product", "PowerEdge XE9680", "PowerEdge XE9640"),
    ("machine.identity.virtualization", "none", "kvm"),
    ("machine.identity.container", "none", "docker"),
)
for _name, _same, _other in _AS_DECLARED:
    control(_name, _IDENTITY, _same, passes=True)
    control(_name, _IDENTITY, _other, fails="not-as-declared")
_VM = replace(_IDENTITY, hypervisor="kvm", container="docker")
control("machine.identity.virtualization", _VM, "vm", passes=True)
control("machine.identity.virtualization", _IDENTITY, "vm", fails="not-as-declared")
control("machine.identity.container", _VM, "any", passes=True)
control("machine.identity.container", _IDENTITY, "any", fails="not-as-declared")

_MEMORY = Memory(
    total_bytes=1_000,
    available_bytes=500,
    fitted_bytes=_NONE,
    dimm_serials=_NONE,
    groups=MemoryGroups(limits=(), above_unseen=False),
)
_MEMORY_WANTED = MemoryWanted(value=1_000, lower=970, upper=1_020, fitted_bytes=None)
for _total, _cause in (
    (970, ""),
    (1_020, ""),
    (969, "less-memory-than-declared"),
    (1_021, "more-memory-than-declared"),
):
    control(
        "machine.memory.total",
        (replace(_MEMORY, total_bytes=_total), _IDENTITY),
        _MEMORY_WANTED,
        fails=_cause,
        passes=not _cause,
    )
_TIB = 2**40
_LARGE = MemoryWanted(value=_TIB, lower=0.97 * _TIB, upper=1.03 * _TIB, fitted_bytes=_TIB)
_LEAST = int(_TIB * (1 - FITTED_TOLERANCE_RATIO)) + 1
_ALL = replace(_MEMORY, total_bytes=int(0.985 * _TIB), fitted_bytes=_LEAST)
_ONE_LESS = replace(_ALL, fitted_bytes=_LEAST - 1)
control("machine.memory.total", (_ALL, _IDENTITY), _LARGE, passes=True)
control("machine.memory.total", (_ONE_LESS, _IDENTITY), _LARGE, fails="less-memory-than-declared")
control("machine.memory.total", (_ONE_LESS, _VM), _LARGE, passes=True)
control("machine.memory.available", _MEMORY, 500, passes=True)
control("machine.memory.available", _MEMORY, 501, fails="memory-in-use")
for _used, _cause in ((100, ""), (101, "memory-limited")):
    _limit = MemoryLimit(source="memory.max", limit_bytes=500, used_bytes=_used, file_bytes=40)
    control(
        "machine.memory.available",
        replace(_MEMORY, groups=MemoryGroups(limits=(_limit,), above_unseen=False)),
        440,
        fails=_cause,
        passes=not _cause,
    )


def _cpu(effective_cpus: float, host: int = 8) -> Cpu:
    limit = CpuLimit(source="cpu.max", text="planted", cpus=effective_cpus)
    return Cpu(
        place="this",
        process="planted",
        host_cpus=host,
        host_cores=host,
        effective_cpus=effective_cpus,
        affinity_cpus=host,
        limits=(limit,),
        above_unseen=False,
        throttled_ratio=None,
        command=_NOT_ASKED,
        thread_environment=_NOT_ASKED,
        others=(),
        others_left_out_count=0,
    )


_FOUR = Threads(command=("llama-server", "-t", "4"), env={}, engine="llama.cpp")
_FOUR_BY_ENV = Threads(command=("serve",), env={"OMP_NUM_THREADS": "4"}, engine="")
_UNSAID = Threads(command=("llama-server",), env={}, engine="llama.cpp")
for _asked in (_FOUR, _FOUR_BY_ENV):
    control("machine.cpu.threads", _cpu(3.99), _asked, fails="more-threads-than-cpus")
    control("machine.cpu.threads", _cpu(4.0), _asked, passes=True)
control("machine.cpu.threads", _cpu(2.0, host=4), _UNSAID, fails="default-exceeds-cpus")
control("machine.cpu.threads", _cpu(4.0, host=4), _UNSAID, passes=True)
_RUNNING = replace(_cpu(2.0), command=("llama-server", "-t", "3"))
control(
    "machine.cpu.threads",
    _RUNNING,
    Threads(command=("llama-server", "-t", "2"), env={}, engine="llama.cpp"),
    fails="more-threads-than-cpus",
)

_ENTRY = replace(_cpu(2.0), command=("bash", "entry.sh"), thread_environment={})
for _count, _fails in (("3", "more-threads-than-cpus"), ("2", "")):
    _server = Process(
        process="planted",
        command=("server.py", "-t", _count),
        thread_environment={},
        same_limits=True,
    )
    control(
        "machine.cpu.threads",
        replace(_ENTRY, others=(_server,)),
        Threads(command=("llama-server", "-t", "1"), env={}, engine="llama.cpp"),
        fails=_fails,
        passes=not _fails,
    )

_ACCESS = Access(
    exists=True, is_folder=True, writable=True, read_only=False, device="8:1", user="uid 1000"
)
_FOLDER = Folder(
    path="/planted",
    looked_at="/planted",
    total_bytes=1_000,
    free_bytes=100,
    inodes=1_000,
    inodes_free=64,
    cached_bytes={"org/a": 30},
    access=_ACCESS,
    beside=(),
)
_ROOM = RoomWanted(
    free_bytes=10,
    model_bytes={"org/a": 100, "org/b": 20},
    inodes_free=64,
    beside_bytes={"tmp": 7},
    named_by="planted",
    made_when_needed=False,
)
control("machine.disk.free", _FOLDER, _ROOM, passes=True)
control("machine.disk.free", replace(_FOLDER, free_bytes=99), _ROOM, fails="no-room")
control("machine.disk.free", replace(_FOLDER, free_bytes=107, beside=("tmp",)), _ROOM, passes=True)
control(
    "machine.disk.free", replace(_FOLDER, free_bytes=106, beside=("tmp",)), _ROOM, fails="no-room"
)
control("machine.disk.inodes", _FOLDER, _ROOM, passes=True)
control("machine.disk.inodes", replace(_FOLDER, inodes=0, inodes_free=0), _ROOM, passes=True)
control("machine.disk.inodes", replace(_FOLDER, inodes_free=63), _ROOM, fails="no-inodes")
_MADE = replace(_ROOM, made_when_needed=True)
_MISSING = replace(_FOLDER, access=replace(_ACCESS, exists=False))
control("machine.disk.inodes", _MISSING, _MADE, passes=True)
control("machine.disk.inodes", _MISSING, _ROOM, fails="folder-missing")
for _wanted in (_ROOM, _MADE):
    for _cause, _closed in (
        ("not-a-folder", replace(_ACCESS, is_folder=False)),
        ("read-only", replace(_ACCESS, read_only=True, writable=False)),
        ("not-writable", replace(_ACCESS, writable=False)),
    ):
        control("machine.disk.inodes", replace(_FOLDER, access=_closed), _wanted, fails=_cause)
_READ_ONLY = replace(_FOLDER, access=replace(_ACCESS, read_only=True, writable=False))
_COMPLETE = replace(_READ_ONLY, cached_bytes={"org/a": 100, "org/b": 20})
control("machine.disk.inodes", _COMPLETE, _MADE, passes=True)
_ALMOST = replace(_COMPLETE, cached_bytes={"org/a": 100, "org/b": 19})
control("machine.disk.inodes", _ALMOST, _MADE, fails="read-only")

_NOW_S = 1_750_000_000.0
_CLOCK = Clock(
    now_s=_NOW_S,
    up_s=1_000.0,
    boot_s=_NOW_S - 1_000.0,
    boot_id="planted",
    synchronised=True,
    kernel_built=Moment(what="the kernel's build", at_s=_NOW_S - 9_000.0),
    packages_installed=Moment(what="planted", at_s=_NOW_S + CLOCK_SLACK_S),
)
_HISTORY = History(
    ledger="planted",
    newest_s=_NOW_S - 5_000.0,
    boot_id="planted",
    boot_offset_s=_NOW_S - 1_000.0,
    run_boot_offset_s=_NOW_S - 1_000.0,
)
_LATE = _NOW_S + CLOCK_SLACK_S + 1.0
control("machine.clock.past", (_CLOCK, _HISTORY), passes=True)
control(
    "machine.clock.past",
    (replace(_CLOCK, kernel_built=Moment(what="planted", at_s=_LATE)), _HISTORY),
    fails="clock-in-the-past",
)
control(
    "machine.clock.past",
    (replace(_CLOCK, packages_installed=Moment(what="planted", at_s=_LATE)), _HISTORY),
    fails="clock-in-the-past",
)
control(
    "machine.clock.past",
    (_CLOCK, replace(_HISTORY, newest_s=_LATE)),
    fails="clock-in-the-past",
)

_OFFSET_S = _NOW_S - 1_000.0
control("machine.clock.jump", (_CLOCK, _HISTORY), passes=True)
for _step_s in (-CLOCK_SLACK_S, CLOCK_SLACK_S):
    control(
        "machine.clock.jump",
        (_CLOCK, replace(_HISTORY, run_boot_offset_s=_OFFSET_S + _step_s)),
        passes=True,
    )
    control(
        "machine.clock.jump",
        (_CLOCK, replace(_HISTORY, run_boot_offset_s=_OFFSET_S + _step_s * 1.02)),
        fails="jumped-during-the-run",
    )
    control(
        "machine.clock.jump",
        (replace(_CLOCK, boot_s=_OFFSET_S + _step_s), _HISTORY),
        passes=True,
    )
    control(
        "machine.clock.jump",
        (replace(_CLOCK, boot_s=_OFFSET_S + _step_s * 1.02), _HISTORY),
        fails="boot-time-off",
    )
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + CLOCK_SLACK_S)),
    passes=True,
)
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + CLOCK_SLACK_S + 1.0)),
    fails="jumped-back",
)
control(
    "machine.clock.jump",
    (_CLOCK, replace(_HISTORY, boot_offset_s=_OFFSET_S + 9_000.0, boot_id="another")),
    passes=True,
)
