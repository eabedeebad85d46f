"""The judges of cpu, with data alone: nearest values on both sides, texts and sources."""

from dataclasses import replace

import pytest

from checks.core.expectation import (
    Basis,
    Case,
    NotDeclared,
)
from checks.core.facts import BOX, Blind, Unseen
from checks.core.profile import Profile, Reserved, Serve
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import (
    Cpu,
    CpuLimit,
    Process,
    Threads,
)
from checks.machine.judge import cpu as judge
from tests.support.judging import NOT_ASKED, UNSEEN, expected


def cpu(effective: float = 4.0, **changes: object) -> Cpu:
    limits = (
        CpuLimit(source="/sys/fs/cgroup/a/cpu.max", text="200000 100000", cpus=effective),
        CpuLimit(source="affinity", text="0-7", cpus=8.0),
    )
    fields = {
        "place": "container:0123456789ab",
        "process": "42 llama-server",
        "host_cpus": 16,
        "host_cores": 8,
        "effective_cpus": effective,
        "affinity_cpus": 6,
        "limits": limits,
        "above_unseen": False,
        "throttled_ratio": None,
        "command": NOT_ASKED,
        "thread_environment": NOT_ASKED,
        "others": (),
        "others_left_out_count": 0,
    }
    return Cpu(**(fields | changes))


def asks(*command: str, **env: str) -> Threads:
    return Threads(command=command, env=env, engine="llama.cpp")


@pytest.mark.parametrize(
    ("effective", "threads", "verdict"),
    [
        (4.0, 3, Verdict.PASS),
        (4.0, 4, Verdict.PASS),
        (3.999, 4, Verdict.FAIL),
        (4.0, 5, Verdict.FAIL),
        (0.5, 1, Verdict.FAIL),
        (1_000.0, 1_000, Verdict.PASS),
    ],
)
def test_threads_are_judged_at_the_limit_of_their_place(effective, threads, verdict):
    said = judge.threads_within_cpus(cpu(effective), asks("llama-server", "-t", str(threads)))
    assert said.verdict is verdict
    assert said.cause == ("more-threads-than-cpus" if verdict is Verdict.FAIL else "")
    assert said.expected == {"threads_count": threads}
    assert said.observed == {
        "effective_cpus": effective,
        "affinity_cpus": 6,
        "host_cpus": 16,
        "host_cores": 8,
    }
    assert said.says == (
        f"{threads} threads (-t {threads}) on {effective:.2f} CPUs (/sys/fs/cgroup/a/cpu.max)"
    )
    assert said.evidence == (
        "looked at 42 llama-server (container:0123456789ab)",
        "/sys/fs/cgroup/a/cpu.max: 200000 100000",
        "affinity: 0-7",
    )


@pytest.mark.parametrize(
    ("effective", "fits"), [(0.5, 1), (1.0, 1), (1.99, 1), (2.0, 2), (3.99, 3), (7.0, 7)]
)
def test_the_remedy_names_the_whole_number_below_the_limit(effective, fits):
    said = judge.threads_within_cpus(cpu(effective), asks("-t", "8"))
    remedy = said.remedy.replace(";", " ").replace(")", " ").replace(",", " ")
    assert f"{fits} thread{'s' if fits > 1 else ''} " in remedy
    assert f"-t {fits} " in remedy
    assert f"OMP_NUM_THREADS={fits} " in remedy
    assert "/sys/fs/cgroup/a/cpu.max" in remedy


def test_an_engine_that_is_not_told_takes_the_cores_of_the_host():
    said = judge.threads_within_cpus(cpu(7.99), asks("llama-server"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.expected == {"threads_count": 8}
    assert said.says.startswith("8 threads (no number given, so the host's cores) on 7.99 CPUs")
    assert judge.threads_within_cpus(cpu(8.0), asks("llama-server")).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "wanted",
    [
        Threads(command=(), env={}, engine=""),
        Threads(command=("start-chat.sh",), env={}, engine=""),
        Threads(command=(), env={}, engine="somebodys-own"),
    ],
)
def test_the_default_of_what_nobody_knows_can_fail_and_never_passes(wanted):
    for enough in (8.0, 8.01, 64.0):
        said = judge.threads_within_cpus(cpu(enough), wanted)
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert "nobody can see how many threads" in said.says
    assert "-t or OMP_NUM_THREADS" in said.remedy
    fewer = judge.threads_within_cpus(cpu(7.99), wanted)
    assert (fewer.verdict, fewer.cause) == (Verdict.FAIL, "default-exceeds-cpus")


def test_a_number_for_prompts_alone_leaves_generation_at_the_cores_of_the_host():
    said = judge.threads_within_cpus(cpu(7.99), asks("llama-server", "-tb", "4"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.says.startswith("8 threads (-tb 4; no number for generation, so the host's cores)")
    enough = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "4"))
    assert (enough.verdict, enough.basis) == (Verdict.PASS, Basis.ASSUMED)
    more = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "9"))
    assert (more.verdict, more.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    as_many = judge.threads_within_cpus(cpu(8.0), asks("llama-server", "-tb", "8"))
    assert (as_many.verdict, as_many.basis) == (Verdict.PASS, None)


def test_what_llama_cpp_python_does_with_prompts_leaves_a_pass_unconfirmed():
    wanted = asks("python3", "-m", "llama_cpp.server", "--n_threads", "4")
    said = judge.threads_within_cpus(cpu(4.0), wanted)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert any("n_threads_batch, which is not told and takes 16" in note for note in said.notes)
    for enough in (16.0, 32.0):
        roomy = judge.threads_within_cpus(cpu(enough), wanted)
        assert (roomy.verdict, roomy.basis, roomy.notes) == (Verdict.PASS, None, ())
    over = judge.threads_within_cpus(cpu(3.0), wanted)
    assert (over.verdict, over.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    running = family(wanted.command)
    assert judge.threads_within_cpus(running, asks()).basis is Basis.ASSUMED


def test_vllm_on_several_gpus_passes_unconfirmed_whatever_the_host_has():
    wanted = asks("vllm", "serve", "m", "-tp", "8")
    said = judge.threads_within_cpus(cpu(2.0, host_cores=96), wanted)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert said.says.startswith("1 threads (one in each of its worker processes)")


def test_nproc_follows_the_affinity_and_not_the_quota():
    said = judge.threads_within_cpus(cpu(5.99), asks("llama-server", "-t", "$(nproc)"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "more-threads-than-cpus")
    assert said.expected == {"threads_count": 6}
    assert "6 threads (-t $(nproc))" in said.says
    enough = judge.threads_within_cpus(cpu(6.0), asks("llama-server", "-t", "$(nproc)"))
    assert enough.verdict is Verdict.PASS


@pytest.mark.parametrize(("number", "threads"), [("1", 6), ("5", 6), ("6", 6), ("7", 7)])
def test_of_nproc_and_a_number_the_larger_runs(number, threads):
    said = judge.threads_within_cpus(cpu(8.0), asks("-t", number, "-tb", "$(nproc)"))
    assert said.expected == {"threads_count": threads}


def test_a_number_that_cannot_be_read_is_unknown():
    for place in (cpu(64.0), cpu(1.0)):
        said = judge.threads_within_cpus(place, asks("llama-server", "-t", "$CORES"))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
        assert said.says == "cannot read a number of threads from `-t $CORES`"
        assert "write the number" in said.remedy


def test_what_runs_counts_before_what_the_profile_says():
    running = cpu(4.0, command=("llama-server", "-t", "5"), thread_environment={})
    assert judge.threads_within_cpus(running, asks("-t", "2")).verdict is Verdict.FAIL
    fine = cpu(4.0, command=("llama-server", "-t", "2"), thread_environment={})
    assert judge.threads_within_cpus(fine, asks("-t", "5")).verdict is Verdict.PASS


def test_the_environment_of_what_runs_counts_too():
    running = cpu(4.0, command=("llama-server",), thread_environment={"LLAMA_ARG_THREADS": "5"})
    said = judge.threads_within_cpus(running, asks("-t", "2"))
    assert said.verdict is Verdict.FAIL
    assert "LLAMA_ARG_THREADS=5" in said.says


@pytest.mark.parametrize("other", ["/bin/cat", "/bin/sleep", "llama-serve", "llama-server2"])
def test_the_profile_counts_where_something_else_runs_and_says_nothing(other):
    silent = cpu(4.0, command=(other, "x"), thread_environment={})
    declared = asks("llama-server", "-t", "5")
    assert judge.threads_within_cpus(silent, declared).expected == {"threads_count": 5}
    fits = judge.threads_within_cpus(silent, asks("llama-server", "-t", "4"))
    assert (fits.verdict, fits.basis) == (Verdict.PASS, Basis.ASSUMED)
    assert any("does not say how many" in note for note in fits.notes)
    by_env = Threads(command=(), env={"OMP_NUM_THREADS": "3"}, engine="")
    assert judge.threads_within_cpus(silent, by_env).expected == {"threads_count": 3}
    nothing = judge.threads_within_cpus(silent, asks())
    assert (nothing.verdict, nothing.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert "none of it is known to be the engine" in nothing.says
    assert "`where`" in nothing.remedy


def process(number: int, *command: str, **changes: object) -> Process:
    fields = {
        "process": f"{number} {command[0].rpartition('/')[2]}",
        "command": command,
        "thread_environment": {},
        "same_limits": True,
    }
    return Process(**(fields | changes))


def family(leader: tuple[str, ...], *others: Process, **changes: object) -> Cpu:
    fields = {"command": leader, "thread_environment": {}, "others": others}
    return cpu(4.0, process=f"process 42 {leader[0]}", **(fields | changes))


ENTRY = ("bash", "entry.sh")


def test_behind_an_entrypoint_the_server_counts():
    for count, verdict in (("4", Verdict.PASS), ("5", Verdict.FAIL)):
        for server in (
            process(43, "server.py", "-t", count),
            process(43, "llama-server", "-t", count),
        ):
            said = judge.threads_within_cpus(family(ENTRY, server), asks("llama-server", "-t", "1"))
            assert said.verdict is verdict
            assert said.expected == {"threads_count": int(count)}
            assert said.evidence[0] == "looked at process 42 bash (container:0123456789ab)"
            assert said.evidence[1] == f"also there: {server.process}"


def test_of_all_the_engines_of_a_place_the_largest_number_counts():
    seen = family(
        ("llama-server", "-t", "2"),
        process(43, "llama-server", "-t", "64"),
        process(44, "llama-server", "-t", "3"),
    )
    assert judge.threads_within_cpus(seen, asks()).expected == {"threads_count": 64}


def test_a_helpers_options_and_environment_are_not_the_engines():
    helper = process(43, "exporter", "-t", "30", thread_environment={"LLAMA_ARG_THREADS": "64"})
    other = process(44, "sort", "-t", ",")
    engine = process(45, "llama-server", "-t", "4")
    for seen in (family(ENTRY, helper, other, engine), family(engine.command, helper, other)):
        said = judge.threads_within_cpus(seen, asks("llama-server", "-t", "1"))
        assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 4})


def test_a_process_that_is_given_an_engines_name_is_no_engine():
    helper = process(43, "tail", "-f", "x", "llama-server")
    said = judge.threads_within_cpus(
        family(ENTRY, helper, process(44, "server.py", "-t", "2")), asks("run.sh")
    )
    assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 2})


def test_the_environment_counts_of_what_leads_a_place_and_not_of_its_helpers():
    variables = {"OMP_NUM_THREADS": "3"}
    wanted = Threads(command=("run.sh",), env={}, engine="")
    helper = process(43, "exporter", thread_environment={"OMP_NUM_THREADS": "64"})
    leads = family(("server.py",), helper, thread_environment=variables)
    said = judge.threads_within_cpus(leads, wanted)
    assert (said.verdict, said.expected) == (Verdict.PASS, {"threads_count": 3})
    behind = process(43, "server.py", thread_environment=variables)
    for seen in (family(ENTRY, behind), family(("exporter",), behind)):
        said = judge.threads_within_cpus(seen, wanted)
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)


def test_the_environment_of_a_wrapper_says_nothing_about_what_it_started():
    seen = family(ENTRY, process(43, "server.py"), thread_environment={"LLAMA_ARG_THREADS": "2"})
    said = judge.threads_within_cpus(seen, asks())
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    assert said.evidence[:2] == (
        "looked at process 42 bash (container:0123456789ab)",
        "also there: 43 server.py",
    )


@pytest.mark.parametrize(
    "wrapper",
    [("tini", "--", "llama-server", "-t", "2"), ("-bash",), ("docker", "run", "x", "-t", "2"),
     ("python3", "/usr/bin/supervisord"), ("sh", "-c", "llama-server -t 2")],
)  # fmt: skip
def test_a_wrapper_alone_is_no_engine(wrapper):
    said = judge.threads_within_cpus(family(wrapper), asks())
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NO_EXPECTATION)
    said = judge.threads_within_cpus(family(wrapper), asks("llama-server", "-t", "2"))
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)


def test_an_engine_behind_an_entrypoint_that_is_not_told_takes_the_cores():
    said = judge.threads_within_cpus(family(ENTRY, process(43, "llama-server")), asks())
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    # the profile's own program is the engine too, whatever its name
    mine = family(ENTRY, process(43, "python3", "-u", "/srv/mine.py"))
    said = judge.threads_within_cpus(mine, asks("/opt/mine.py", "-t", "2"))
    assert said.cause == "default-exceeds-cpus"


def test_an_engine_under_limits_of_its_own_is_not_compared_with_those_of_its_place():
    for count in ("2", "64"):
        server = process(43, "llama-server", "-t", count, same_limits=False)
        said = judge.threads_within_cpus(family(ENTRY, server), asks("llama-server", "-t", "1"))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
        assert "pid:43" in said.remedy
    untold = process(43, "llama-server", same_limits=False)
    assert judge.threads_within_cpus(family(ENTRY, untold), asks()).verdict is Verdict.UNKNOWN
    stranger = process(43, "server.py", "-t", "2", same_limits=False)
    assert judge.threads_within_cpus(family(ENTRY, stranger), asks()).verdict is Verdict.UNKNOWN


def test_a_command_that_cannot_be_read_is_undecided_and_never_the_profiles():
    hidden = family(ENTRY, command=UNSEEN)
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert said.remedy == "run as root to see it"
    child = family(ENTRY, process(43, "x", command=UNSEEN), process(44, "server.py", "-t", "2"))
    assert judge.threads_within_cpus(child, asks()).verdict is Verdict.UNKNOWN
    over = family(ENTRY, process(43, "x", command=UNSEEN), process(44, "server.py", "-t", "5"))
    said = judge.threads_within_cpus(over, asks())
    assert (said.verdict, said.basis) == (Verdict.FAIL, None)


@pytest.mark.parametrize("reason", sorted(set(Blind) - {Blind.NOT_ASKED}))
def test_only_a_command_that_nobody_asked_for_leaves_the_profiles(reason):
    hidden = family(ENTRY, command=Unseen(reason, "planted"))
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)


def test_what_is_in_doubt_fails_no_place_that_is_below_one_cpu():
    for lacking in (
        asks("docker", "run", "img", "llama-server"),
        asks("llama-server", "-t", "$CORES"),
    ):
        assert judge.threads_within_cpus(cpu(0.5), lacking).verdict is Verdict.UNKNOWN
    for seen in (
        family(ENTRY, command=UNSEEN),
        family(ENTRY, process(43, "server.py")),
        family(ENTRY, process(43, "llama-server", same_limits=False)),
    ):
        said = judge.threads_within_cpus(replace(seen, effective_cpus=0.5), asks())
        assert said.verdict is Verdict.UNKNOWN


def test_of_two_engines_with_as_many_threads_the_one_that_nobody_told_is_named():
    two = family(("llama-server", "-t", "8"), process(43, "llama-server"))
    for seen in (two, replace(two, others=(), command=("llama-server",))):
        assert judge.threads_within_cpus(seen, asks()).cause == "default-exceeds-cpus"
    told = family(("llama-server", "-t", "9"), process(43, "llama-server"))
    assert judge.threads_within_cpus(told, asks()).cause == "more-threads-than-cpus"


def test_the_profiles_engine_is_known_by_its_command_and_without_one_by_its_name():
    unknown_script = Threads(command=("start-chat.sh",), env={}, engine="vllm")
    assert judge.threads_within_cpus(cpu(8.0), unknown_script).verdict is Verdict.UNKNOWN
    by_command = Threads(command=("vllm", "serve"), env={}, engine="somebodys-own")
    assert judge.threads_within_cpus(cpu(8.0), by_command).verdict is Verdict.PASS
    by_name = Threads(command=(), env={}, engine="vllm")
    assert judge.threads_within_cpus(cpu(8.0), by_name).verdict is Verdict.PASS


@pytest.mark.parametrize("changes", [{"others_left_out_count": 1}, {"others": UNSEEN}])
def test_processes_that_nobody_looked_at_leave_it_open_unless_the_engine_was_seen(changes):
    strange = family(("server.py", "-t", "2"), **changes)
    assert judge.threads_within_cpus(strange, asks()).verdict is Verdict.UNKNOWN
    over = family(("server.py", "-t", "5"), **changes)
    assert judge.threads_within_cpus(over, asks()).verdict is Verdict.FAIL
    engine = family(("llama-server", "-t", "2"), **changes)
    said = judge.threads_within_cpus(engine, asks())
    assert said.verdict is Verdict.PASS
    assert ("1 more" in said.evidence[1]) or ("permission: planted" in said.evidence[1])


def test_evidence_names_a_handful_of_processes_and_counts_the_rest():
    many = [process(number, "worker") for number in range(100, 112)]
    said = judge.threads_within_cpus(family(("llama-server", "-t", "2"), *many), asks())
    assert said.evidence[1].startswith("also there: 100 worker, 101 worker, ")
    assert said.evidence[1].endswith("107 worker, 4 more")
    eight = judge.threads_within_cpus(family(("llama-server", "-t", "2"), *many[:8]), asks())
    assert eight.evidence[1].endswith("107 worker")
    nine = family(("llama-server", "-t", "2"), *many[:9], others_left_out_count=3)
    said = judge.threads_within_cpus(nine, asks())
    assert said.evidence[1].endswith("107 worker, 4 more")


def test_a_line_that_was_cut_or_hidden_never_passes():
    mark = f"sh -c {'x' * 50} […5000 bytes, sha256:{'0' * 64}]"
    for line in (mark, f"llama-server -t 2 {mark}", "llama-server -t 1 --header Cookie:[redacted]"):
        said = judge.threads_within_cpus(cpu(4.0), asks("bash", "-c", line))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE), line
        assert "hidden or cut off" in said.says
    over = judge.threads_within_cpus(cpu(4.0), asks("bash", "-c", f"llama-server -t 64 {mark}"))
    assert over.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "line",
    [
        "docker run --cpus=2 img llama-server -t 4",
        "docker run --cpuset-cpus 0-1 img llama-server -t 4",
        "docker run -i -t img:latest llama-server -t 4",
        "taskset -c 0,1 llama-server -t 4",
        "systemd-run --scope -p CPUQuota=200% llama-server -t 4",
        "sudo -E podman run img -t 4",
    ],
)
def test_a_command_that_brings_its_own_limits_is_not_judged_by_the_suites(line):
    for place in (cpu(4.0), cpu(1.0)):
        said = judge.threads_within_cpus(place, asks(*line.split()))
        assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
        assert "limits that are not those of the suite's own process" in said.says
        for where in ("container:ID", "unit:NAME", "port:N", "pid:N"):
            assert where in said.remedy
    running = family(("llama-server", "-t", "4"))
    assert judge.threads_within_cpus(running, asks(*line.split())).verdict is Verdict.PASS


def test_a_pass_that_rests_on_an_assumption_says_so():
    told, untold = asks("llama-server", "-t", "4"), asks("llama-server")
    assert judge.threads_within_cpus(cpu(8.0), told).basis is None
    above = cpu(8.0, above_unseen=True)
    assert judge.threads_within_cpus(above, told).basis is Basis.ASSUMED
    assert judge.threads_within_cpus(cpu(8.0), untold).basis is Basis.ASSUMED
    assert judge.threads_within_cpus(cpu(2.0), untold).basis is Basis.ASSUMED
    # limits further up can only make it worse
    assert judge.threads_within_cpus(cpu(2.0, above_unseen=True), told).basis is None
    # one engine that is told does not vouch for one that is not
    two = family(("llama-server", "-t", "4"), process(43, "llama-server"), host_cores=4)
    said = judge.threads_within_cpus(two, told)
    assert (said.verdict, said.basis) == (Verdict.PASS, Basis.ASSUMED)


@pytest.mark.parametrize("running", ["llama-server", "/opt/llama/bin/llama-server"])
@pytest.mark.parametrize("declared", ["llama-server", "/usr/bin/llama-server"])
def test_an_engine_that_runs_without_the_declared_number_takes_the_cores(running, declared):
    silent = cpu(4.0, command=(running, "-m", "chat.gguf"), thread_environment={})
    said = judge.threads_within_cpus(silent, asks(declared, "-t", "2"))
    assert (said.verdict, said.cause) == (Verdict.FAIL, "default-exceeds-cpus")
    assert said.expected == {"threads_count": 8}


def test_an_environment_that_cannot_be_read_leaves_a_silent_command_undecided():
    hidden = cpu(4.0, command=("llama-server",), thread_environment=UNSEEN)
    said = judge.threads_within_cpus(hidden, asks("llama-server", "-t", "2"))
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    assert "42 llama-server" in said.says
    assert "permission: planted" in said.says
    assert said.blind is Blind.PERMISSION
    assert said.remedy == "run as root to see it"
    told = cpu(4.0, command=("llama-server", "-t", "3"), thread_environment=UNSEEN)
    assert judge.threads_within_cpus(told, asks("-t", "2")).expected == {"threads_count": 3}


@pytest.mark.parametrize(
    ("effective", "both"), [(0.5, True), (0.99, True), (1.0, False), (1.5, False)]
)
def test_below_one_cpu_no_number_of_threads_fits_and_the_remedy_says_so(effective, both):
    said = judge.threads_within_cpus(cpu(effective), asks("-t", "2"))
    assert ("and widen to one CPU or more" in said.remedy) is both
    assert ("or widen what limits it" in said.remedy) is not both


def test_the_engine_says_what_a_short_option_means():
    vllm = Threads(command=("vllm", "serve", "-t", "99"), env={}, engine="vllm")
    said = judge.threads_within_cpus(cpu(8.0), vllm)
    assert said.verdict is Verdict.PASS
    assert said.expected == {"threads_count": 8}
    running = cpu(8.0, command=("vllm", "serve", "-t", "99"), thread_environment={})
    assert judge.threads_within_cpus(running, vllm).verdict is Verdict.PASS


def test_the_notes_say_what_stays_unseen():
    quiet = judge.threads_within_cpus(cpu(8.0, throttled_ratio=0.0), asks("-t", "4"))
    assert quiet.notes == ()
    loud = judge.threads_within_cpus(
        cpu(2.0, above_unseen=True, throttled_ratio=0.5), asks("-t", "4")
    )
    assert len(loud.notes) == 2
    assert "above the mounted root" in loud.notes[0]
    assert "stopped it in 50% of the periods" in loud.notes[1]


def test_a_place_that_is_often_stopped_although_its_threads_fit_gets_something_to_do():
    def note(ratio: float, threads: str) -> str:
        said = judge.threads_within_cpus(cpu(4.0, throttled_ratio=ratio), asks("-t", threads))
        return said.notes[0]

    assert "something else uses the same quota" in note(0.51, "4")
    assert "something else uses the same quota" in note(0.51, "3")
    assert note(0.5, "4") == "the quota stopped it in 50% of the periods so far"
    assert note(0.49, "4") == "the quota stopped it in 49% of the periods so far"
    assert note(0.51, "5") == "the quota stopped it in 51% of the periods so far"


@pytest.mark.parametrize(
    ("threads", "noted"), [(3, False), (4, False), (5, True), (8, True), (9, False)]
)
def test_a_note_tells_cores_from_hardware_threads(threads, noted):
    # 8 of 16 hardware threads are 4 of 8 cores
    said = judge.threads_within_cpus(cpu(8.0), asks("-t", str(threads)))
    notes = [note for note in said.notes if "about 4.0 cores" in note]
    assert len(notes) == noted
    assert len(said.notes) == noted


def test_each_served_model_is_a_subject_with_its_own_threads():
    serve = (
        Serve(name="chat", engine="llama.cpp", command="llama-server -t 8", env={"A": "b"}),
        Serve(name="embed", command=("serve", "-x")),
    )
    cases = list(judge._threads(expected(Profile(schema=1, serve=serve))))
    assert [case.subject for case in cases] == ["chat", "embed"]
    first, second = (case.wanted for case in cases)
    assert first.value == Threads(
        command=("llama-server", "-t", "8"), env={"A": "b"}, engine="llama.cpp"
    )
    assert second.value == Threads(command=("serve", "-x"), env={}, engine="")
    assert (first.basis, second.basis) == (Basis.INVARIANT, Basis.INVARIANT)
    assert first.source == "h100-1.toml: serve[0]; more threads than CPUs never help"
    assert second.source == "h100-1.toml: serve[1]; more threads than CPUs never help"


def test_a_profile_that_serves_nothing_asks_for_no_threads():
    assert list(judge._threads(expected())) == [
        Case(subject=BOX, wanted=NotDeclared(fact="not declared: no [[serve]]"))
    ]


def test_half_a_core_is_said():
    (note,) = judge.threads_within_cpus(cpu(5.0), asks("-t", "3")).notes
    assert "about 2.5 cores" in note


# CPUs that are kept for others


@pytest.mark.parametrize(
    ("effective", "reserved", "threads", "cause"),
    [
        (16.0, 0.0, 16, ""),
        (16.0, 4.0, 12, ""),
        (16.0, 4.0, 13, "threads-on-reserved-cpus"),
        (16.0, 4.5, 12, "threads-on-reserved-cpus"),
        (16.0, 4.0, 17, "more-threads-than-cpus"),
        (4.0, 4.0, 4, ""),  # the quota leaves the others more than is kept for them
        (4.0, 4.0, 5, "more-threads-than-cpus"),
        (16.0, 16.0, 1, "threads-on-reserved-cpus"),
        (16.0, 99.0, 1, "threads-on-reserved-cpus"),
    ],
)
def test_threads_fit_beside_what_is_kept_for_others(effective, reserved, threads, cause):
    wanted = replace(asks("llama-server", "-t", str(threads)), reserved_cpus=reserved)
    said = judge.threads_within_cpus(cpu(effective), wanted)
    assert said.cause == cause
    kept = {"reserved_cpus": reserved} if reserved else {}
    assert said.expected == {"threads_count": threads, **kept}
    assert ("less" in said.says) is (effective == 16.0 and reserved > 0)


def test_the_reservation_is_named_in_what_is_said_and_in_what_to_do():
    wanted = replace(asks("llama-server", "-t", "13"), reserved_cpus=4.0)
    said = judge.threads_within_cpus(cpu(16.0), wanted)
    assert said.says == (
        "13 threads (-t 13) on 12.00 CPUs (16 of the host, less 4 of reserved.cpus)"
    )
    assert said.remedy == (
        "start it with 12 threads (llama.cpp: -t 12; else OMP_NUM_THREADS=12), or lower reserved.cpus "
        "in the profile; rerun"
    )
    both = judge.threads_within_cpus(
        cpu(14.0), replace(wanted, command=("llama-server", "-t", "15"))
    )
    assert both.cause == "more-threads-than-cpus"
    assert both.remedy.startswith("start it with 12 threads")
    assert both.remedy.endswith(
        "or widen what limits it, /sys/fs/cgroup/a/cpu.max, and lower reserved.cpus in the profile; "
        "rerun"
    )
    quota = judge.threads_within_cpus(
        cpu(4.0), replace(wanted, command=("llama-server", "-t", "5"))
    )
    assert quota.remedy.endswith("or widen what limits it, /sys/fs/cgroup/a/cpu.max; rerun")
    none = judge.threads_within_cpus(cpu(16.0), replace(wanted, reserved_cpus=15.5))
    assert "start it with 1 thread (" in none.remedy
    assert none.remedy.endswith("and lower reserved.cpus in the profile; rerun")


def test_at_the_edge_of_quota_and_reservation_each_is_named_for_what_it_is():
    wanted = asks("llama-server", "-t", "14")
    said = judge.threads_within_cpus(cpu(14.0), replace(wanted, reserved_cpus=4.0))
    assert said.cause == "threads-on-reserved-cpus"
    said = judge.threads_within_cpus(cpu(5.0), replace(wanted, reserved_cpus=2.0))
    assert said.cause == "more-threads-than-cpus"
    assert "reserved.cpus" not in said.remedy
    said = judge.threads_within_cpus(cpu(4.0), replace(wanted, reserved_cpus=12.0))
    assert said.says.endswith("on 4.00 CPUs (/sys/fs/cgroup/a/cpu.max)")
    said = judge.threads_within_cpus(cpu(14.0), replace(wanted, reserved_cpus=99.0))
    assert "on 0.00 CPUs" in said.says


def test_an_engine_that_is_not_told_takes_the_hosts_cores_beside_what_is_kept_too():
    for reserved, cause in ((8.0, ""), (8.5, "threads-on-reserved-cpus")):
        wanted = replace(asks("llama-server"), reserved_cpus=reserved)
        assert judge.threads_within_cpus(cpu(16.0), wanted).cause == cause


def test_what_nobody_knows_to_be_an_engine_stays_unknown_beside_what_is_kept():
    wanted = replace(asks("start.sh"), reserved_cpus=99.0, engine="")
    assert judge.threads_within_cpus(cpu(16.0), wanted).verdict is Verdict.UNKNOWN
    assert judge.threads_within_cpus(cpu(4.0), wanted).cause == "default-exceeds-cpus"
    guess = replace(wanted, reserved_cpus=10.0)  # as many as the quota lets run, more than the rest
    assert judge.threads_within_cpus(cpu(8.0), guess).verdict is Verdict.UNKNOWN
    some = replace(asks("bash", "-c", "x -t 12 [redacted]"), reserved_cpus=4.0)
    assert judge.threads_within_cpus(cpu(16.0), some).verdict is Verdict.UNKNOWN
    cut = replace(asks("bash", "-c", "x -t 13 [redacted]"), reserved_cpus=4.0)
    assert judge.threads_within_cpus(cpu(16.0), cut).cause == "threads-on-reserved-cpus"


def test_the_profile_says_which_cpus_are_kept_for_others():
    profile = Profile(schema=1, serve=(Serve(name="chat"),), reserved=Reserved(cpus=2.0))
    (case,) = judge._threads(expected(profile))
    assert case.wanted.value.reserved_cpus == 2.0
