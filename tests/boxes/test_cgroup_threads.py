"""The row `cgroup-quota-threads`, as a class: a limit of CPUs by every way that it can come by."""

from __future__ import annotations

import math

import pytest

from tests.support.boxes import ENGINE, ID, PID, Box, docker_box, plain_box
from tests.support.layouts import CGROUP, LAYOUTS, engine, lines_1, v1

CHECK = "machine.cpu.threads"


def serve(name: str, where: str, command: str = "", **more: str) -> str:
    lines = [f'[[serve]]\nname = "{name}"\nwhere = "{where}"\n']
    lines += [f'command = "{command}"\n'] if command else []
    lines += [f"{key} = {value}\n" for key, value in more.items()]
    return "".join(lines)


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_thread_too_many_fails_and_the_number_below_passes(suite, tmp_path, name):
    plan = LAYOUTS[name]()
    most = math.floor(plan.cpus)
    profile = serve("over", plan.where, f"run-engine --threads {most + 1}") + serve(
        "fits", plan.where, f"run-engine --threads {most}"
    )
    run = suite.run(tmp_path, root=plan.box.write(tmp_path / "tree"), profile=profile)
    over, fits = run.finding(CHECK, "over"), run.finding(CHECK, "fits")
    assert (over["verdict"], over["cause"]) == ("fail", "more-threads-than-cpus"), over["says"]
    assert over["observed"]["effective_cpus"] == pytest.approx(plan.cpus)
    assert f"start it with {most} thread" in over["remedy"]
    assert f"-t {most};" in over["remedy"]
    assert fits["verdict"] == "pass", fits["says"]
    assert run.code == 1
    # and nothing else is wrong with that box
    others = [row for row in run.with_verdict("fail", "unknown") if CHECK not in row]
    # how many processes may be started stands in another hierarchy
    assert [row for row in others if not row.startswith("machine.limits.pids")] == []


def test_the_case_of_the_report_names_quota_threads_and_throttling(suite, tmp_path):
    """8 threads in a quota of 4 CPUs on a host of 12, stopped in 3115 of 4567 periods."""
    path = f"/system.slice/docker-{ID}.scope"
    box = plain_box(12)
    box.group(
        f"{CGROUP}{path}",
        cpu_max="400000 100000",
        cpu_stat="usage_usec 9\nnr_periods 4567\nnr_throttled 3115",
    )
    box.process(ENGINE, "/opt/llama-server", "-t", "8", cgroup=f"0::{path}\n", allowed="0-11")
    profile = serve("chat", f"container:{ID[:12]}")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK, "chat")
    assert (found["verdict"], found["cause"]) == ("fail", "more-threads-than-cpus")
    assert "8 threads (-t 8) on 4.00 CPUs" in found["says"]
    assert f"{path}/cpu.max" in found["says"]
    assert "start it with 4 threads" in found["remedy"]
    assert any("68%" in note for note in found["notes"])
    assert "900 llama-server" in found["evidence"][0]
    assert "FAIL" in run.out
    assert "-t 4" in run.out


WAYS = {
    "-t": (["-t", "5"], {}),
    "-t joined": (["-t5"], {}),
    "--threads": (["--threads", "5"], {}),
    "--threads=": (["--threads=5"], {}),
    "the larger of two": (["-t", "2", "--threads-batch", "5"], {}),
    "n_threads": (["--n_threads", "5"], {}),
    "by the variable of llama.cpp": ([], {"LLAMA_ARG_THREADS": "5"}),
    "by OMP_NUM_THREADS": ([], {"OMP_NUM_THREADS": "5"}),
    "by the outer level of OMP_NUM_THREADS": ([], {"OMP_NUM_THREADS": "5,2"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_number_is_found_however_the_running_process_was_told(suite, tmp_path, way):
    words, environ = WAYS[way]
    fewer = [word.replace("5", "4") for word in words]
    less = {name: value.replace("5", "4") for name, value in environ.items()}
    box = plain_box(8).group(f"{CGROUP}/a", cpu_max="400000 100000")
    program = "/opt/vllm" if "OMP" in way else "/opt/llama-server"
    box.process(900, program, *words, cgroup="0::/a\n", environ=environ)
    box.process(901, program, *fewer, cgroup="0::/a\n", environ=less)
    # what the profile would start plays no part where the process runs already
    profile = serve("over", "pid:900", "llama-server -t 1") + serve(
        "fits", "pid:901", "llama-server -t 64"
    )
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "over")["cause"] == "more-threads-than-cpus"
    assert "start it with 4 threads" in run.finding(CHECK, "over")["remedy"]
    assert run.finding(CHECK, "fits")["verdict"] == "pass"


def test_the_profiles_own_command_and_environment_count_for_what_is_to_be_started(suite, tmp_path):
    box = docker_box("400000 100000")
    profile = "".join(
        [
            serve("command", "this", "llama-server -t 5"),
            serve("listed", "this").replace(
                "where", 'command = ["llama-server", "-t", "5"]\nwhere'
            ),
            serve("shell", "this", "sh -c 'OMP_NUM_THREADS=5 exec engine'"),
            serve("env", "this", "engine", env='{ OMP_NUM_THREADS = "5" }'),
            serve("fits", "this", "llama-server -t 4"),
        ]
    )
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    for name in ("command", "listed", "shell", "env"):
        assert run.finding(CHECK, name)["cause"] == "more-threads-than-cpus", name
    assert run.finding(CHECK, "fits")["verdict"] == "pass"


def test_an_engine_that_is_not_told_takes_the_cores_of_the_host(suite, tmp_path):
    box = plain_box(16).group(f"{CGROUP}/a", cpu_max="400000 100000")  # 8 cores, 16 threads
    box.group(f"{CGROUP}/b", cpu_max="800000 100000")
    box.process(900, "/opt/llama-server", "-m", "x", cgroup="0::/a\n", allowed="0-15")
    box.process(901, "/opt/llama-server", "-m", "x", cgroup="0::/b\n", allowed="0-15")
    profile = serve("over", "pid:900") + serve("fits", "pid:901")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK, "over")
    assert (found["verdict"], found["cause"]) == ("fail", "default-exceeds-cpus")
    assert "8 threads (no number given" in found["says"]
    assert "start it with 4 threads" in found["remedy"]
    assert run.finding(CHECK, "fits")["verdict"] == "pass"


def test_cpus_that_are_possible_and_not_there_are_none(suite, tmp_path):
    """A virtual machine with empty slots: the mask of every process names them all."""
    box = plain_box(4)
    box.process(900, "llama-server", "-t", "5", allowed="0-127")
    box.process(901, "llama-server", "-t", "4", allowed="0-127")
    box.process(902, "llama-server", "-t", "$(nproc)", allowed="0-127")
    box.process(903, "llama-server", "-t", "2", allowed="2-127")
    box.process(904, "llama-server", "-t", "1", allowed="64-127")
    names = {"over": 900, "fits": 901, "nproc": 902, "part": 903, "none": 904}
    profile = "".join(serve(name, f"pid:{number}") for name, number in names.items())
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    over = run.finding(CHECK, "over")
    assert (over["verdict"], over["cause"]) == ("fail", "more-threads-than-cpus")
    assert over["observed"]["affinity_cpus"] == 4
    assert "affinity: Cpus_allowed_list 0-127, of which 4 are online" in over["evidence"]
    for name, cpus in (("fits", 4), ("nproc", 4), ("part", 2)):
        found = run.finding(CHECK, name)
        assert (found["verdict"], found["observed"]["effective_cpus"]) == ("pass", cpus), name
    assert run.finding(CHECK, "none")["verdict"] == "unknown"


def test_without_a_list_of_what_is_online_the_count_of_cpus_is_the_limit(suite, tmp_path):
    box = plain_box(4).drop("/sys/devices/system/cpu/online")
    box.put("/proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n")
    box.process(900, "llama-server", "-t", "3", allowed="0-127")
    tree = box.write(tmp_path / "tree")
    found = suite.run(tmp_path, root=tree, profile=serve("chat", "pid:900")).finding(CHECK, "chat")
    assert (found["verdict"], found["observed"]["effective_cpus"]) == ("fail", 2)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "N_THREADS"])
def test_a_variable_that_the_engine_does_not_read_does_not_excuse_it(suite, tmp_path, name):
    box = plain_box(16).group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.process(900, "/opt/llama-server", cgroup="0::/a\n", allowed="0-15", environ={name: "2"})
    profile = serve("runs", "pid:900") + serve(
        "declared", "this", "llama-server", env=f'{{ {name} = "2" }}'
    )
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "runs")["cause"] == "default-exceeds-cpus"
    declared = run.finding(CHECK, "declared")
    assert (declared["verdict"], declared["confirmed"]) == ("pass", False), declared["says"]


def test_an_engine_that_runs_untold_is_not_excused_by_what_the_profile_would_have_said(
    suite, tmp_path
):
    box = plain_box(16).group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.process(900, "/opt/llama-server", "-m", "x", cgroup="0::/a\n", allowed="0-15")
    profile = serve("chat", "pid:900", "llama-server -m x -t 2")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "chat")["cause"] == "default-exceeds-cpus"


def test_a_wrapper_is_not_the_engine_so_the_profile_says_what_it_starts(suite, tmp_path):
    box = plain_box(16).group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.process(900, "/bin/bash", "/start.sh", cgroup="0::/a\n", allowed="0-15")
    profile = serve("over", "pid:900", "llama-server -t 3") + serve(
        "fits", "pid:900", "llama-server -t 2"
    )
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "over")["cause"] == "more-threads-than-cpus"
    assert run.finding(CHECK, "fits")["verdict"] == "pass"


LIMITERS = [
    "docker run --cpus=2 image llama-server -t 4",
    "docker run -i -t image llama-server -t 4",
    "podman run --cpuset-cpus 0-1 image llama-server -t 4",
    "taskset -c 0,1 llama-server -t 4",
    "systemd-run --scope -p CPUQuota=200% llama-server -t 4",
    "srun -c 2 llama-server -t 4",
]


@pytest.mark.parametrize("command", LIMITERS)
def test_a_command_that_brings_limits_of_its_own_is_not_judged_by_those_of_the_suite(
    suite, tmp_path, command
):
    root = plain_box(8).write(tmp_path / "tree")
    profile = serve("chat", "this", command) + serve("plain", "this", "llama-server -t 4")
    run = suite.run(tmp_path, root=root, profile=profile)
    found = run.finding(CHECK, "chat")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable"), found["says"]
    assert "where" in found["remedy"]
    assert run.finding(CHECK, "plain")["verdict"] == "pass"


def test_long_texts_and_headers_hide_no_number_behind_them(suite, tmp_path):
    box = docker_box("200000 100000")
    lines = {
        "long": f"llama-server --grammar {'x' * 5_000} -t 64",
        "header": "llama-server -t 1 --header Cookie:a=b -tb 64",
        "authorization": "llama-server --api-header Authorization:abc -t 64",
    }
    profile = "".join(serve(name, "this", line) for name, line in lines.items())
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    for name in lines:
        assert run.finding(CHECK, name)["cause"] == "more-threads-than-cpus", name
    assert "Cookie:a=b" not in run.out


@pytest.mark.parametrize(("words", "verdict"), [(("-t", "3"), "fail"), (("-t", "2"), "pass")])
def test_of_all_that_runs_in_a_container_the_engine_counts(suite, tmp_path, words, verdict):
    path = f"/system.slice/docker-{ID}.scope"
    box = plain_box(8).group(f"{CGROUP}{path}", cpu_max="200000 100000")
    box.process(900, "/bin/bash", "/entry.sh", cgroup=f"0::{path}\n")
    box.process(901, "/usr/bin/tail", "-f", "log", cgroup=f"0::{path}\n", parent=900)
    box.process(902, "/opt/llama-server", *words, cgroup=f"0::{path}\n", parent=900)
    profile = serve("chat", f"container:{ID[:12]}", "llama-server -t 1")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "chat")["verdict"] == verdict


def test_a_pass_below_cgroups_that_cannot_be_seen_is_unconfirmed(suite, tmp_path):
    root = docker_box().write(tmp_path / "tree")
    run = suite.run(tmp_path, root=root, profile=serve("chat", "this", "llama-server -t 4"))
    found = run.finding(CHECK, "chat")
    assert (found["verdict"], found["confirmed"], found["basis"]) == ("pass", False, "assumed")


def test_a_place_that_is_stopped_often_though_its_threads_fit_says_what_to_do(suite, tmp_path):
    box = plain_box(8)
    stat = "usage_usec 9\nnr_periods 100\nnr_throttled 68"
    box.group(f"{CGROUP}/a", cpu_max="400000 100000", cpu_stat=stat)
    box.process(900, "/opt/llama-server", "-t", "4", cgroup="0::/a\n")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=serve("chat", "pid:900"))
    found = run.finding(CHECK, "chat")
    assert found["verdict"] == "pass"
    assert any("although its threads fit" in note for note in found["notes"])


def entrypoint(*server: str, cgroup: str = "", allowed: str = "0-15") -> Box:
    """A container of 2 CPUs: a shell that leads, a helper, and a server that both may hide."""
    path = f"/system.slice/docker-{ID}.scope"
    box = plain_box(16).group(f"{CGROUP}{path}", cpu_max="200000 100000").group(f"{CGROUP}/b")
    more = {"cgroup": f"0::{path}\n", "allowed": "0-15"}
    box.process(900, "/bin/bash", "/entry.sh", environ={"LLAMA_ARG_THREADS": "1"}, **more)
    box.process(901, "/bin/sleep", "5", parent=900, **more)
    more = {"cgroup": cgroup or f"0::{path}\n", "allowed": allowed}
    return box.process(902, *server, parent=900, **more)


@pytest.mark.parametrize("where", [f"container:{ID[:12]}", "pid:900"])
@pytest.mark.parametrize("program", ["/opt/server.py", "/opt/llama-server"])
def test_the_server_behind_an_entrypoint_counts(suite, tmp_path, where, program):
    for threads, verdict in (("3", "fail"), ("2", "pass")):
        folder = tmp_path / threads
        root = entrypoint(program, "-t", threads).write(folder / "tree")
        run = suite.run(folder, root=root, profile=serve("chat", where, "llama-server -t 1"))
        found = run.finding(CHECK, "chat")
        assert (found["verdict"], found["confirmed"]) == (verdict, verdict == "pass"), found["says"]
        assert f"{threads} threads (-t {threads})" in found["says"]
        assert f"902 {program.rpartition('/')[2]}" in found["evidence"][1]


@pytest.mark.parametrize(
    "changes", [{"cgroup": "0::/b\n"}, {"allowed": "0-1"}], ids=["cgroup", "affinity"]
)
def test_a_server_under_limits_of_its_own_is_not_judged_by_its_entrypoints(
    suite, tmp_path, changes
):
    root = entrypoint("/opt/llama-server", "-t", "2", **changes).write(tmp_path / "tree")
    run = suite.run(tmp_path, root=root, profile=serve("chat", "pid:900", "llama-server -t 2"))
    found = run.finding(CHECK, "chat")
    assert found["verdict"] == "unknown", found["says"]
    assert "pid:902" in found["remedy"]


@pytest.mark.parametrize(
    "words",
    [["x"] * 600, ["x" * 40_000], ["x" * 1_100_000]],
    ids=["many words", "many bytes", "more than is read"],
)
def test_a_command_line_that_is_too_long_to_be_kept_never_passes(suite, tmp_path, words):
    box = plain_box(8).group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.process(900, "/opt/llama-server", "-t", "2", *words, "-tb", "64", cgroup="0::/a\n")
    profile = serve("chat", "pid:900", "llama-server -t 1")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK, "chat")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable"), found["says"]
    assert "start it anew" in found["remedy"]


def test_more_processes_than_are_kept_are_counted(suite, tmp_path):
    box = plain_box(8).group(f"{CGROUP}/a", cpu_max="200000 100000")
    box.process(900, "/bin/server", "-t", "2", cgroup="0::/a\n")
    box.process(1000, "/bin/x", "y" * 30_000, parent=900, cgroup="0::/a\n")
    box.process(1001, "/bin/x", "y" * 30_000, parent=900, cgroup="0::/a\n")
    for pid in range(1002, 1070):
        box.process(pid, "/bin/x", parent=900, cgroup="0::/a\n")
    profile = serve("chat", "pid:900") + serve("known", "pid:900", "server -t 2")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "chat")["verdict"] == "unknown"
    known = run.finding(CHECK, "known")
    assert known["verdict"] == "pass", known["says"]
    # 70 less the 8 that are named: 64 are kept, and 6 were too many
    assert known["evidence"][1].endswith(", 62 more")


def test_less_than_one_cpu_is_too_little_for_one_thread(suite, tmp_path):
    box = docker_box("50000 100000")
    profile = serve("chat", "this", "llama-server -t 1")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK, "chat")
    assert found["verdict"] == "fail"
    assert "widen to one CPU or more" in found["remedy"]


def test_a_pass_under_cgroups_that_cannot_be_seen_says_so(suite, tmp_path):
    inside = suite.run(
        tmp_path / "a",
        root=docker_box().write(tmp_path / "a" / "tree"),
        profile=serve("chat", "this", "llama-server -t 4"),
    )
    assert any("cannot be seen" in note for note in inside.finding(CHECK, "chat")["notes"])
    host = plain_box(8).group(f"{CGROUP}/a", cpu_max="400000 100000")
    outside = suite.run(
        tmp_path / "b",
        root=engine(host, "0::/a\n").write(tmp_path / "b" / "tree"),
        profile=serve("chat", f"pid:{ENGINE}", "engine -t 4"),
    )
    assert not any("cannot be seen" in note for note in outside.finding(CHECK, "chat")["notes"])


# Places that cannot be looked at: unknown, with something to do, and never a pass


def blind_boxes() -> dict[str, tuple[Box, str]]:
    box = plain_box(8).group(f"{CGROUP}/a", cpu_max="400000 100000")
    engine(box, "0::/a\n")
    two = plain_box(8).process(900, "/opt/llama-server").process(901, "/opt/llama-server")
    proxied = plain_box(8).listen(8000, 77)
    proxied.process(700, "/usr/bin/docker-proxy", "-host-port", "8000", sockets=(77,))
    elsewhere = plain_box(8).listen(8000, 77)
    twice = plain_box(8)
    for pid, owner in ((900, "user@1000.service"), (901, "user@1001.service")):
        path = f"/user.slice/{owner}/app.slice/llama.service"
        twice.group(f"{CGROUP}{path}").process(pid, "/opt/llama-server", cgroup=f"0::{path}\n")
    outside = docker_box().process(900, "/opt/llama-server", cgroup="0::/../other\n")
    ended = plain_box(8).process(900, "llama-server", state="Z (zombie)")
    unmounted = engine(plain_box(8).drop(CGROUP).mounts(""), "0::/a\n")
    one_hierarchy = v1().mounts("")
    engine(one_hierarchy, lines_1("/a", "/"))
    return {
        "pid that is gone": (box, "pid:999"),
        "port that nobody listens on": (box, "port:8000"),
        "process that does not run": (box, "process:vllm"),
        "unit that is not there": (box, "unit:llama.service"),
        "container that is gone": (box, f"container:{ID[:12]}"),
        "two processes of one name": (two, "process:llama-server"),
        "port of a forwarder": (proxied, "port:8000"),
        "port of another namespace": (elsewhere, "port:8000"),
        "unit of two users": (twice, "unit:llama"),
        "cgroup outside of the namespace": (outside, "pid:900"),
        "process that has ended": (ended, "pid:900"),
        "process by name that has ended": (ended, "process:llama-server"),
        "version 2 that is not mounted": (unmounted, f"pid:{ENGINE}"),
        "version 1 that is not mounted": (one_hierarchy, f"pid:{ENGINE}"),
        "cgroup whose folder is gone": (engine(plain_box(8), "0::/gone\n"), f"pid:{ENGINE}"),
    }


@pytest.mark.parametrize("case", blind_boxes())
def test_a_place_that_cannot_be_looked_at_is_unknown_with_a_remedy(suite, tmp_path, case):
    box, where = blind_boxes()[case]
    profile = serve("chat", where, "run-engine -t 1")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    found = run.finding(CHECK, "chat")
    assert (found["verdict"], found["reason"]) == ("unknown", "not-observable"), found["says"]
    assert found["remedy"], found["says"]
    assert run.code == 10
    assert "UNKNOWN" in run.out


def test_a_process_whose_environment_is_hidden_is_unknown_only_where_that_matters(suite, tmp_path):
    # a directory in the file's place is the one thing that root cannot read either
    box = plain_box(8).group(f"{CGROUP}/a", cpu_max="400000 100000")
    box.process(900, "/opt/llama-server", "-m", "x", cgroup="0::/a\n")
    box.process(901, "/opt/llama-server", "-t", "4", cgroup="0::/a\n")
    for pid in (900, 901):
        box.drop(f"/proc/{pid}/environ").put(f"/proc/{pid}/environ/x", "")
    profile = serve("silent", "pid:900", "llama-server -t 4") + serve("told", "pid:901")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    assert run.finding(CHECK, "silent")["verdict"] == "unknown"
    assert run.finding(CHECK, "told")["verdict"] == "pass"


# Every way to name one and the same process


def test_the_same_process_by_number_port_name_unit_and_container(suite, tmp_path):
    path = f"/system.slice/llama.service/docker-{ID}.scope"
    box = plain_box(8).group(f"{CGROUP}{path}", cpu_max="200000 100000")
    box.listen(8000, 70).listen(8001, 71, table="tcp6")
    box.process(PID - 1, "/bin/sh", cgroup="0::/\n", sockets=(69,))
    box.process(900, "/opt/llama-server", "-t", "3", cgroup=f"0::{path}\n", sockets=(70, 71))
    box.process(901, "/opt/llama-server", "-t", "3", parent=900, cgroup=f"0::{path}\n")
    ways = {
        "number": "pid:900",
        "port": "port:8000",
        "port-6": "port:8001",
        "name": "process:llama-server",
        "unit": "unit:llama",
        "container": f"container:{ID[:20]}",
    }
    profile = "".join(serve(name, where) for name, where in ways.items())
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=profile)
    for name in ways:
        found = run.finding(CHECK, name)
        assert found["cause"] == "more-threads-than-cpus", (name, found["says"])
        assert found["evidence"][0].startswith("looked at process 900 llama-server"), name
