"""Limits that just suffice, and a little less."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.facts import (
    Limits,
    LimitsWanted,
    MemoryGroups,
    MemoryLimit,
    Rdma,
    RdmaDevice,
    ResourceLimits,
    Rights,
    SharedMemory,
    TaskGroups,
    TaskLimit,
)
from checks.machine.judge.limits import (
    CONNECTION_BYTES,
    DEFAULT_SHM_BYTES,
    LOCKED_MIN_BYTES,
    TASKS_MIN_COUNT,
)

_NONE = Unseen(Blind.ABSENT, "planted")
_ACTIVE = RdmaDevice(name="planted", port_states=("4: ACTIVE",), under_synthetic=False)
_RDMA = Rdma(devices=(_ACTIVE,), left_out_count=0)
_USER = Rights(capabilities=(), root=False, own_users=False)
_RESOURCES = ResourceLimits(
    locked_soft_bytes=None,
    locked_hard_bytes=None,
    open_files_soft_count=1_024,
    open_files_hard_count=1_024,
    processes_soft_count=None,
)
_LIMITS = Limits(
    place="this",
    process="planted",
    resources=_RESOURCES,
    rights=_USER,
    affinity_cpus=8,
    tasks=TaskGroups(limits=(), above_unseen=False),
    own_tasks_count=0,
    memory=MemoryGroups(limits=(), above_unseen=False),
    own_memory_bytes=0,
    killed=_NONE,
    shm=SharedMemory(total_bytes=2**34, free_bytes=2**34),
    rdma_openable=True,
)
_WANTED = LimitsWanted(least=None, command=(), env={}, engine="")
_TWO_GPUS = replace(_WANTED, command=("vllm", "serve", "planted", "-tp", "2"))


def _locking(soft: int | None, rights: Rights = _USER) -> Limits:
    return replace(_LIMITS, resources=replace(_RESOURCES, locked_soft_bytes=soft), rights=rights)


_MAY_LOCK = replace(_USER, capabilities=("ipc_lock",))
for _seen, _fails in (
    (_locking(None), False),
    (_locking(LOCKED_MIN_BYTES), False),
    (_locking(LOCKED_MIN_BYTES - 1), True),
    (_locking(LOCKED_MIN_BYTES - 1, _MAY_LOCK), False),
    (_locking(LOCKED_MIN_BYTES - 1, replace(_MAY_LOCK, own_users=True)), True),
):
    control(
        "machine.limits.memlock",
        (_seen, _RDMA),
        _WANTED,
        fails="locked-memory-limited" if _fails else "",
        passes=not _fails,
    )

for _total, _free, _least, _cause in (
    (DEFAULT_SHM_BYTES + 1, CONNECTION_BYTES, None, ""),
    (DEFAULT_SHM_BYTES, DEFAULT_SHM_BYTES, None, "shm-too-small"),
    (DEFAULT_SHM_BYTES + 1, CONNECTION_BYTES - 1, None, "shm-full"),
    (2**30, 2**30, 2**30, ""),
    (2**30, 2**30, 2**30 + 1, "shm-too-small"),
):
    control(
        "machine.limits.shm",
        replace(_LIMITS, shm=SharedMemory(total_bytes=_total, free_bytes=_free)),
        replace(_TWO_GPUS, least=_least),
        fails=_cause,
        passes=not _cause,
    )

control("machine.limits.nofile", _LIMITS, replace(_WANTED, least=1_024), passes=True)
control("machine.limits.nofile", _LIMITS, replace(_WANTED, least=1_025), fails="open-files-limited")

_MANY = replace(_WANTED, command=("llama-server", "-t", "100"))
for _limit, _wanted, _fails in (
    (150, _MANY, False),
    (149, _MANY, True),
    (50 + TASKS_MIN_COUNT, _WANTED, False),
    (49 + TASKS_MIN_COUNT, _WANTED, True),
):
    _tasks = TaskLimit(source="pids.max", limit_count=_limit, used_count=50)
    control(
        "machine.limits.pids",
        replace(_LIMITS, tasks=TaskGroups(limits=(_tasks,), above_unseen=False)),
        _wanted,
        fails="too-few-tasks-left" if _fails else "",
        passes=not _fails,
    )
for _count, _fails in ((100, False), (99, True)):
    control(
        "machine.limits.pids",
        replace(_LIMITS, resources=replace(_RESOURCES, processes_soft_count=_count)),
        _MANY,
        fails="processes-limited" if _fails else "",
        passes=not _fails,
    )

_GROUP = MemoryLimit(source="memory.max", limit_bytes=500, used_bytes=100, file_bytes=40)
_GROUPED = replace(_LIMITS, memory=MemoryGroups(limits=(_GROUP,), above_unseen=False))
for _own, _least, _fails in ((0, 440, False), (0, 441, True), (20, 460, False), (20, 461, True)):
    control(
        "machine.memory.limit",
        replace(_GROUPED, own_memory_bytes=_own),
        replace(_WANTED, least=_least),
        fails="memory-limited" if _fails else "",
        passes=not _fails,
    )
