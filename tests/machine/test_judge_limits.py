"""The judges of a place's limits, with data alone: nearest values on both sides, texts and sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.core.expectation import Basis, NotDeclared, Wanted
from checks.core.facts import BOX, Blind, Unseen
from checks.core.profile import Profile, Serve
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Killed,
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
from checks.machine.judge import limits as judge
from tests.support.judging import (
    GIB,
    MIB,
    UNSEEN,
    expected,
    same_text,
    stopped_without,
)

PASS, FAIL, UNKNOWN, NOT = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE
NOT_SEEN = Reason.NOT_OBSERVABLE
USER = Rights(capabilities=(), root=False, own_users=False)
LOCKS = replace(USER, capabilities=("ipc_lock",), root=True)


def limits(**changes: object) -> Limits:
    fields = {
        "place": "this",
        "process": "this process",
        "resources": resources(),
        "rights": USER,
        "affinity_cpus": 8,
        "tasks": TaskGroups(limits=(), above_unseen=False),
        "own_tasks_count": 0,
        "memory": MemoryGroups(limits=(), above_unseen=False),
        "own_memory_bytes": 0,
        "killed": UNSEEN,
        "shm": SharedMemory(total_bytes=16 * GIB, free_bytes=16 * GIB),
        "rdma_openable": True,
    }
    return Limits(**(fields | changes))


def resources(
    locked: int | None = None, files: int | None = 1_024, processes: int | None = None
) -> ResourceLimits:
    return ResourceLimits(
        locked_soft_bytes=locked,
        locked_hard_bytes=locked,
        open_files_soft_count=files,
        open_files_hard_count=4_096,
        processes_soft_count=processes,
    )


def wanted(*command: str, least: int | None = None, engine: str = "", **env: str) -> LimitsWanted:
    return LimitsWanted(least=least, command=command, env=env, engine=engine)


def served(**changes: object) -> Profile:
    return Profile(schema=1, serve=(Serve(name="chat", **changes),))


IN_DOCKER = ("docker", "run", "image", "vllm", "serve", "m", "-tp", "2", "-t", "4")
EVERY_JUDGE = {
    "nofile": lambda seen, want: judge.open_files_suffice(seen, replace(want, least=1)),
    "pids": judge.processes_suffice,
    "shm": judge.shared_memory_suffices,
    "memory": lambda seen, want: judge.memory_limit_suffices(seen, replace(want, least=1)),
    "memlock": lambda seen, want: judge.locked_memory_suffices(seen, rdma(), want),
}


@pytest.mark.parametrize("name", EVERY_JUDGE)
def test_limits_of_the_suite_are_not_taken_for_those_of_a_container_to_be_started(name):
    said = EVERY_JUDGE[name](limits(), wanted(*IN_DOCKER))
    assert (said.verdict, said.reason) == (UNKNOWN, NOT_SEEN)
    assert said.says.startswith("docker starts it under limits")
    assert "container:ID" in said.remedy
    assert EVERY_JUDGE[name](limits(place=same_text("this")), wanted(*IN_DOCKER)) == said
    for place in ("container:0123456789ab", "unit:vllm.service"):
        assert EVERY_JUDGE[name](limits(place=place), wanted(*IN_DOCKER)).verdict is PASS
    pinned = EVERY_JUDGE[name](limits(), wanted("taskset", "-c", "0-3", "vllm", "-tp", "2"))
    assert pinned.verdict is PASS


# Locked memory


def rdma(*states: str, name: str = "mlx5_0", synthetic: bool = False, more: int = 0) -> Rdma:
    one = RdmaDevice(name=name, port_states=states or ("4: ACTIVE",), under_synthetic=synthetic)
    return Rdma(devices=(one,), left_out_count=more)


def locked(soft: int | None, rights: object = USER, **changes: object):
    seen = limits(resources=resources(locked=soft), rights=rights, **changes)
    return judge.locked_memory_suffices(seen, rdma(), wanted())


def test_the_least_that_must_be_lockable_is_eight_buffers_of_nccl():
    assert judge.LOCKED_MIN_BYTES == 77_103_104
    assert f"about {judge.LOCKED_MIN_BYTES / MIB:.0f} MiB" in judge.locked_memory_suffices.__doc__


@pytest.mark.parametrize(
    ("soft", "verdict", "notes"),
    [
        (0, FAIL, 0),
        (65_536, FAIL, 0),
        (8 * MIB, FAIL, 0),
        (64 * MIB, FAIL, 0),
        (judge.LOCKED_MIN_BYTES - 1, FAIL, 0),
        (judge.LOCKED_MIN_BYTES, PASS, 1),
        (judge.LOCKED_MIN_BYTES + 1, PASS, 1),
        (64 * GIB, PASS, 1),
        (None, PASS, 0),
    ],
)
def test_locked_memory_is_judged_at_its_limit(soft, verdict, notes):
    said = locked(soft)
    assert (said.verdict, len(said.notes)) == (verdict, notes)
    assert said.cause == ("locked-memory-limited" if verdict is FAIL else "")
    if soft is not None:
        assert said.observed == {"locked_memory_max_bytes": soft, "rdma_devices_count": 1}
        assert said.expected == {"locked_memory_min_bytes": judge.LOCKED_MIN_BYTES}
    assert said.evidence[-1] == "RDMA devices: mlx5_0 (4: ACTIVE)"
    assert said.evidence[0] == "looked at this process (this)"


def test_the_remedy_for_locked_memory_names_docker_the_unit_and_the_login():
    said = locked(8 * MIB)
    assert said.says == "8.0 MiB may be locked, and there is RDMA to lock memory for"
    for word in ("--ulimit memlock=-1", "LimitMEMLOCK=infinity", "limits.d", "new login", "mpirun"):
        assert word in said.remedy, word
    assert "Max locked memory: 8.0 MiB (soft), 8.0 MiB (hard)" in said.evidence
    assert "limited to 64.0 GiB" in locked(64 * GIB).notes[0]


@pytest.mark.parametrize(
    ("rights", "verdict"),
    [
        (LOCKS, PASS),
        (replace(LOCKS, root=False), PASS),
        (replace(LOCKS, own_users=True), FAIL),
        (replace(LOCKS, own_users=UNSEEN), UNKNOWN),
        (replace(USER, root=True), FAIL),
        (replace(USER, own_users=UNSEEN), FAIL),
        (replace(USER, capabilities=("sys_admin", "sys_resource")), FAIL),
        (UNSEEN, UNKNOWN),
    ],
)
def test_only_the_right_to_lock_lifts_the_limit_and_only_outside_of_a_user_namespace(
    rights, verdict
):
    said = locked(8 * MIB, rights)
    assert said.verdict is verdict
    assert ("user namespace" in said.evidence[-1] if said.evidence else False) is (
        rights != UNSEEN and rights.own_users is True
    )
    assert locked(None, rights).verdict is PASS
    if verdict is UNKNOWN:
        assert said.remedy == UNSEEN.remedy
    if verdict is PASS:
        assert "CAP_IPC_LOCK lifts that" in said.says


def test_without_an_rdma_device_that_can_carry_work_the_limit_is_of_no_account():
    seen = limits(resources=resources(locked=0))
    for devices, says in (
        (Rdma(devices=(), left_out_count=0), "no RDMA device on this box"),
        (
            rdma("1: DOWN", "2: INIT"),
            "no RDMA device with an active port: mlx5_0 (1: DOWN, 2: INIT)",
        ),
        (rdma(synthetic=True), "below a synthetic network card"),
    ):
        said = judge.locked_memory_suffices(seen, devices, wanted())
        assert said.verdict is NOT
        assert says in said.says
    closed = replace(seen, rdma_openable=False)
    said = judge.locked_memory_suffices(closed, rdma(), wanted())
    assert (said.verdict, "no" in said.says) == (NOT, True)


def test_a_device_that_shows_no_port_and_one_with_a_second_active_port_carry_work():
    seen = limits(resources=resources(locked=0))
    bare = Rdma(
        devices=(RdmaDevice(name="x", port_states=(), under_synthetic=False),), left_out_count=0
    )
    for devices in (bare, rdma("1: DOWN", "4: ACTIVE")):
        assert judge.locked_memory_suffices(seen, devices, wanted()).verdict is FAIL


def test_whether_a_device_can_be_reached_is_unknown_where_nobody_could_look():
    low = resources(locked=0)
    for reason in set(Blind) - {Blind.NOT_RECORDED}:
        closed = limits(resources=low, rdma_openable=Unseen(reason, "planted", "look there"))
        said = judge.locked_memory_suffices(closed, rdma(), wanted())
        assert (said.verdict, said.remedy) == (UNKNOWN, "look there"), reason
    bare = Unseen(Blind.NOT_RECORDED, "a tree without /dev")
    said = judge.locked_memory_suffices(limits(resources=low, rdma_openable=bare), rdma(), wanted())
    assert said.verdict is FAIL


def test_a_limit_of_locked_memory_that_was_not_read_is_unknown():
    said = judge.locked_memory_suffices(limits(resources=UNSEEN), rdma(), wanted())
    assert (said.verdict, said.reason, said.remedy) == (UNKNOWN, NOT_SEEN, UNSEEN.remedy)


def test_many_devices_are_named_shortly():
    one = rdma().devices[0]
    many = Rdma(devices=tuple(replace(one, name=f"m{n}") for n in range(5)), left_out_count=3)
    said = judge.locked_memory_suffices(limits(resources=resources(locked=0)), many, wanted())
    assert said.observed["rdma_devices_count"] == 5
    assert said.evidence[-1].startswith("RDMA devices: m0 (4: ACTIVE), m1")
    assert said.evidence[-1].endswith("m2 (4: ACTIVE), 5 more")


# Shared memory

TWO = ("vllm", "serve", "m", "-tp", "2")


def shared(total: int, free: int | None = None, *command: str, least: int | None = None, **more):
    shm = SharedMemory(total_bytes=total, free_bytes=total if free is None else free)
    return judge.shared_memory_suffices(
        limits(shm=shm, **more), wanted(*(command or TWO), least=least)
    )


@pytest.mark.parametrize(
    ("total", "cause", "notes"),
    [
        (1, "shm-too-small", 0),
        (64 * MIB - 1, "shm-too-small", 0),
        (64 * MIB, "shm-too-small", 0),
        (64 * MIB + 1, "", 1),
        (GIB - 1, "", 1),
        (GIB, "", 0),
        (500 * GIB, "", 0),
    ],
)
def test_shared_memory_for_several_gpus_is_judged_at_the_default_of_containers(total, cause, notes):
    said = shared(total)
    assert (said.cause, len(said.notes)) == (cause, notes)
    assert said.verdict is (FAIL if cause else PASS)
    assert said.observed == {"shm_total_bytes": total, "shm_free_bytes": total}
    assert said.expected == {"shm_min_bytes": 64 * MIB + 1}
    assert said.says.endswith("; -tp 2: more than 64.0 MiB wanted")
    if cause:
        assert "--shm-size" in said.remedy


def test_a_file_system_without_a_size_of_its_own_does_not_limit_shared_memory():
    assert shared(0, 0).verdict is PASS
    assert shared(0, 0, least=5).verdict is PASS
    assert shared(-1, 0).verdict is FAIL


@pytest.mark.parametrize(
    ("total", "least", "verdict"),
    [(999, 1_000, FAIL), (1_000, 1_000, PASS), (1_001, 1_000, PASS), (64 * MIB, 64 * MIB, PASS)],
)
def test_declared_shared_memory_is_wanted_with_one_gpu_too(total, least, verdict):
    said = shared(total, None, "vllm", "serve", "m", least=least)
    assert said.verdict is verdict
    assert said.expected == {"shm_min_bytes": least}
    assert "MiB wanted" in shared(64 * MIB, least=64 * MIB).says
    assert said.notes == ()


def test_one_gpu_needs_no_shared_memory():
    for command in (("vllm", "serve", "m"), ("vllm", "-tp", "1"), ("llama-server", "-t", "8")):
        assert shared(1, 0, *command).verdict is NOT


@pytest.mark.parametrize(
    ("free", "cause"),
    [(0, "shm-full"), (judge.CONNECTION_BYTES - 1, "shm-full"), (judge.CONNECTION_BYTES, "")],
)
def test_shared_memory_that_is_full_before_the_engine_starts_fails(free, cause):
    said = shared(GIB, free)
    assert said.cause == cause
    assert shared(GIB, free, least=GIB).cause == cause
    assert shared(GIB, free, place="pid:9").verdict is PASS, "its own engine may hold it"
    assert shared(GIB, free, "vllm", "serve", least=GIB).verdict is PASS
    if cause:
        assert "lsof" in said.remedy


def test_a_number_of_gpus_that_cannot_be_read_matters_only_where_it_decides():
    command = ("vllm", "serve", "m", "-tp", "$GPUS")
    said = shared(64 * MIB, None, *command)
    assert (said.verdict, said.reason) == (UNKNOWN, Reason.NO_EXPECTATION)
    assert "-tp $GPUS" in said.says
    assert shared(64 * MIB + 1, None, *command).verdict is PASS
    assert shared(64 * MIB, None, *command, least=64 * MIB + 1).verdict is FAIL


def test_shared_memory_that_was_not_seen_is_unknown():
    said = judge.shared_memory_suffices(limits(shm=UNSEEN), wanted(*TWO))
    assert (said.verdict, said.reason, said.remedy) == (UNKNOWN, NOT_SEEN, UNSEEN.remedy)
    assert judge.shared_memory_suffices(limits(shm=UNSEEN), wanted("vllm")).verdict is NOT


# Open files


@pytest.mark.parametrize(("files", "verdict"), [(1_023, FAIL), (1_024, PASS), (1_025, PASS)])
def test_open_files_are_judged_at_what_is_declared(files, verdict):
    said = judge.open_files_suffice(limits(resources=resources(files=files)), wanted(least=1_024))
    assert said.verdict is verdict
    assert said.observed == {"open_files_max_count": files}
    assert said.expected == {"open_files_min_count": 1_024}
    assert said.evidence[1] == f"Max open files: {files} (soft), 4096 (hard)"
    if verdict is FAIL:
        assert "ulimit -n 1024" in said.remedy
        assert "LimitNOFILE=1024" in said.remedy


def test_open_files_that_are_not_limited_pass_and_those_not_seen_are_unknown():
    free = judge.open_files_suffice(limits(resources=resources(files=None)), wanted(least=9))
    assert (free.verdict, free.says) == (PASS, "open files are not limited")
    assert "unlimited (soft)" in free.evidence[1]
    said = judge.open_files_suffice(limits(resources=UNSEEN), wanted(least=9))
    assert (said.verdict, said.remedy) == (UNKNOWN, UNSEEN.remedy)


# Processes and threads


def tasks(*levels: tuple[int, int], above: bool = False) -> TaskGroups:
    rows = tuple(
        TaskLimit(source=f"/sys/{n}/pids.max", limit_count=most, used_count=used)
        for n, (most, used) in enumerate(levels)
    )
    return TaskGroups(limits=rows, above_unseen=above)


MANY = ("llama-server", "-t", "100")


@pytest.mark.parametrize(
    ("levels", "own", "command", "left", "verdict"),
    [
        (((149, 50),), 0, MANY, 99, FAIL),
        (((150, 50),), 0, MANY, 100, PASS),
        (((1_000, 0), (150, 51)), 0, MANY, 99, FAIL),
        (((150, 51), (1_000, 0)), 1, MANY, 100, PASS),
        (((100, 90),), 90, MANY, 100, PASS),
        (((100, 90),), 500, MANY, 100, PASS),  # never more than the level counts
        (((10, 500),), 0, MANY, 0, FAIL),
        (((81, 50),), 0, (), 31, FAIL),
        (((82, 50),), 0, (), 32, PASS),
        (((82, 50),), 0, ("llama-server", "-t", "4"), 32, PASS),
    ],
)
def test_processes_left_are_judged_at_what_is_asked_for(levels, own, command, left, verdict):
    seen = limits(tasks=tasks(*levels), own_tasks_count=own)
    said = judge.processes_suffice(seen, wanted(*command, engine="llama.cpp"))
    assert said.verdict is verdict
    assert said.observed == {"tasks_left_count": left}
    needed = 100 if command == MANY else 32
    assert said.expected == {"tasks_left_min_count": needed}
    words = "-t 100" if command == MANY else "any server"
    assert said.says.endswith(f"{needed} wanted ({words})")
    assert said.says.startswith(f"{left} processes and threads left by /sys/")
    if verdict is FAIL:
        assert said.cause == "too-few-tasks-left"
        assert said.basis is (None if command == MANY else Basis.ASSUMED)
        assert "--pids-limit" in said.remedy


def test_without_a_number_the_cpus_of_the_place_are_what_is_started():
    for command in ((), ("llama-server",), ("vllm", "serve", "-tp", "2")):
        for left, verdict in ((39, FAIL), (40, PASS)):
            seen = limits(affinity_cpus=40, tasks=tasks((left, 0)))
            said = judge.processes_suffice(seen, wanted(*command))
            assert said.verdict is verdict, command
            assert said.says.endswith("40 wanted (one for each of its CPUs)")
            assert said.basis is None
    said = judge.processes_suffice(limits(affinity_cpus=32, tasks=tasks((31, 0))), wanted())
    assert said.expected == {"tasks_left_min_count": 32}
    assert said.says.endswith("32 wanted (one for each of its CPUs)")
    assert said.basis is None


def test_processes_that_nothing_limits_pass():
    said = judge.processes_suffice(limits(), wanted())
    assert (said.verdict, said.says) == (PASS, "processes and threads are not limited")
    assert said.observed == {}


def test_the_tightest_level_and_every_level_is_shown():
    said = judge.processes_suffice(limits(tasks=tasks((900, 1), (400, 2), above=True)), wanted())
    assert "398 processes and threads left by /sys/1/pids.max" in said.says
    assert said.evidence[1:] == ("/sys/0/pids.max: 900, 1 used", "/sys/1/pids.max: 400, 2 used")
    assert "may limit further" in said.notes[0]
    assert judge.processes_suffice(limits(tasks=tasks((900, 1))), wanted()).notes == ()


def test_cgroups_and_cpus_that_were_not_seen_leave_processes_unknown():
    for changes in ({"tasks": UNSEEN}, {"affinity_cpus": UNSEEN}):
        said = judge.processes_suffice(limits(**changes), wanted())
        assert (said.verdict, said.reason, said.remedy) == (UNKNOWN, NOT_SEEN, UNSEEN.remedy)
    said = judge.processes_suffice(limits(affinity_cpus=UNSEEN), wanted(*MANY))
    assert said.verdict is PASS


@pytest.mark.parametrize(
    ("rights", "verdict"),
    [
        (USER, FAIL),
        (replace(USER, root=True), PASS),
        (replace(USER, capabilities=("sys_admin",)), PASS),
        (replace(USER, capabilities=("sys_resource",)), PASS),
        (replace(USER, capabilities=("ipc_lock",)), FAIL),
        (replace(USER, root=True, own_users=True), FAIL),
        (replace(USER, root=True, own_users=UNSEEN), UNKNOWN),
        (UNSEEN, UNKNOWN),
    ],
)
def test_the_limit_of_a_users_processes_counts_unless_something_lifts_it(rights, verdict):
    seen = limits(rights=rights, resources=resources(processes=99))
    said = judge.processes_suffice(seen, wanted(*MANY))
    assert said.verdict is verdict
    if verdict is FAIL:
        assert said.cause == "processes-limited"
        assert said.observed == {"processes_max_count": 99}
        assert said.says == "Max processes is 99, 100 wanted (-t 100)"
        assert "ulimit -u" in said.remedy
    enough = replace(seen, resources=resources(processes=100))
    assert judge.processes_suffice(enough, wanted(*MANY)).verdict is PASS


def test_a_limit_of_processes_that_was_not_read_is_noted():
    (note,) = judge.processes_suffice(limits(resources=UNSEEN), wanted()).notes
    assert "Max processes" in note


# Memory


def grouped(
    *levels: tuple[int, int, int], own: object = 0, above: bool = False, **more: object
) -> Limits:
    rows = tuple(
        MemoryLimit(source=f"/sys/{n}/memory.max", limit_bytes=a, used_bytes=b, file_bytes=c)
        for n, (a, b, c) in enumerate(levels)
    )
    return limits(
        memory=MemoryGroups(limits=rows, above_unseen=above), own_memory_bytes=own, **more
    )


@pytest.mark.parametrize(
    ("levels", "own", "left"),
    [
        (((500, 100, 40),), 0, 440),
        (((500, 100, 40),), 20, 460),
        (((500, 100, 40),), 900, 500),
        (((500, 0, 0), (900, 600, 0)), 0, 300),
        (((500, 300, 0), (900, 600, 0)), 300, 500),
        (((500, 900, 0),), 0, 0),
    ],
)
def test_memory_that_is_left_is_judged_at_what_is_declared(levels, own, left):
    seen = grouped(*levels, own=own)
    good = judge.memory_limit_suffices(seen, wanted(least=left or 1))
    bad = judge.memory_limit_suffices(seen, wanted(least=left + 1))
    assert good.verdict is (PASS if left else FAIL)
    assert (bad.verdict, bad.cause) == (FAIL, "memory-limited")
    assert bad.observed == {"memory_group_left_bytes": left, "memory_own_bytes": own}
    assert bad.expected == {"memory_group_left_min_bytes": left + 1}
    assert bad.says.startswith(f"{left} B left by /sys/")
    assert "--memory" in bad.remedy
    assert len(bad.evidence) == 1 + len(levels)
    assert bad.basis is None


def test_memory_that_no_cgroup_limits_passes_and_what_lies_above_is_assumed():
    said = judge.memory_limit_suffices(grouped(), wanted(least=9))
    assert (said.verdict, said.basis, said.notes) == (PASS, None, ())
    for levels in ((), ((500, 0, 0),)):
        said = judge.memory_limit_suffices(grouped(*levels, above=True), wanted(least=9))
        assert (said.verdict, said.basis) == (PASS, Basis.ASSUMED)
        assert "may limit further" in said.notes[0]
    seen = judge.memory_limit_suffices(grouped((500, 0, 0)), wanted(least=9))
    assert (seen.basis, seen.notes) == (None, ())


def test_cgroups_of_memory_that_were_not_seen_are_unknown():
    said = judge.memory_limit_suffices(limits(memory=UNSEEN), wanted(least=9))
    assert (said.verdict, said.reason, said.remedy) == (UNKNOWN, NOT_SEEN, UNSEEN.remedy)


def test_what_a_place_holds_itself_matters_only_where_it_decides():
    seen = grouped((500, 100, 0), own=UNSEEN)
    assert judge.memory_limit_suffices(seen, wanted(least=400)).verdict is PASS
    assert judge.memory_limit_suffices(seen, wanted(least=401)).verdict is UNKNOWN
    assert judge.memory_limit_suffices(seen, wanted(least=500)).verdict is UNKNOWN
    assert judge.memory_limit_suffices(seen, wanted(least=501)).verdict is FAIL


@pytest.mark.parametrize("least", [400, 401])
def test_kills_are_noted_as_a_rate_and_change_no_verdict(least):
    killed = Killed(source="/sys/0/memory.events", kills_count=3, up_s=1.5 * 86_400)
    seen = grouped((500, 100, 0), killed=killed)
    said = judge.memory_limit_suffices(seen, wanted(least=least))
    assert said.verdict is (PASS if least == 400 else FAIL)
    (note,) = said.notes
    assert note == (
        "the kernel has killed 3 processes there for want of memory (/sys/0/memory.events) since the "
        "cgroup was made, at most 1.5 days ago: 2.0 a day or more"
    )
    long = replace(killed, up_s=1e6 * 86_400)
    (note,) = judge.memory_limit_suffices(replace(seen, killed=long), wanted(least=9)).notes
    assert "at most 1000000.0 days ago" in note
    short = replace(killed, up_s=0.5)
    (note,) = judge.memory_limit_suffices(replace(seen, killed=short), wanted(least=9)).notes
    assert note.endswith("518400.0 a day or more")
    for other in (replace(killed, up_s=how) for how in (UNSEEN, 0.0, -5.0)):
        (note,) = judge.memory_limit_suffices(replace(seen, killed=other), wanted(least=9)).notes
        assert note.endswith("(/sys/0/memory.events)")
    none = replace(killed, kills_count=0)
    assert judge.memory_limit_suffices(replace(seen, killed=none), wanted(least=9)).notes == ()


# Cases


def test_locked_memory_and_processes_are_judged_where_the_suite_runs_and_where_each_model_does():
    for cases in (judge._memlock, judge._pids):
        assert [case.subject for case in cases(expected())] == ["this"]
        own, chat = cases(expected(served(command="llama-server -t 4", env={"A": "b"})))
        assert (own.subject, own.wanted.value) == ("this", wanted())
        assert (chat.subject, chat.wanted.basis) == ("chat", Basis.INVARIANT)
        assert chat.wanted.value == wanted("llama-server", "-t", "4", A="b")


@pytest.mark.parametrize(
    ("cases", "key"),
    [
        (judge._nofile, "open_files_min_count"),
        (judge._memory_limit, "host_memory_min_bytes"),
        (judge._shm, "shm_min_bytes"),
    ],
)
def test_what_is_declared_of_a_model_is_wanted_of_its_place(cases, key):
    (none,) = cases(expected())
    assert (none.subject, none.wanted) == (BOX, NotDeclared(fact="not declared: no [[serve]]"))
    (case,) = cases(expected(served(**{key: 7})))
    assert case.subject == "chat"
    assert case.wanted == Wanted(
        value=wanted(least=7), basis=Basis.DECLARED, source=f"h100-1.toml: serve[0].{key}"
    )
    (case,) = cases(expected(served()))
    if key == "shm_min_bytes":
        assert case.wanted.basis is Basis.INVARIANT
    else:
        assert case.wanted == NotDeclared(fact=f"not declared: serve[].{key}")


def test_what_one_model_does_not_declare_leaves_the_next_one_judged():
    profile = Profile(
        schema=1, serve=(Serve(name="first"), Serve(name="second", open_files_min_count=9))
    )
    first, second = judge._nofile(expected(profile))
    assert isinstance(first.wanted, NotDeclared)
    assert second.wanted.source == "h100-1.toml: serve[1].open_files_min_count"


# No number is no pass


@pytest.mark.parametrize(
    ("check", "seen", "want", "compared"),
    [
        (
            "machine.limits.memlock",
            (limits(resources=resources(locked=GIB)), rdma()),
            wanted(),
            {"locked_soft_bytes"},
        ),
        ("machine.limits.shm", (limits(),), wanted(*TWO, least=9), {"total_bytes", "least"}),
        ("machine.limits.nofile", (limits(),), wanted(least=9), {"open_files_soft_count", "least"}),
        (
            "machine.limits.pids",
            (limits(tasks=tasks((900, 100)), resources=resources(processes=900)),),
            wanted(),
            {"limit_count", "used_count", "processes_soft_count"},
        ),
        (
            "machine.memory.limit",
            (grouped((500, 100, 50), own=10),),
            wanted(least=100),
            {"limit_bytes", "used_bytes", "file_bytes", "own_memory_bytes", "least"},
        ),
    ],
)
def test_what_is_no_number_passes_nowhere(check, seen, want, compared):
    assert stopped_without(check, seen, want, compared) == compared
