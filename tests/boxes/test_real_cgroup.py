"""A server that really runs in a real cgroup with fewer CPUs than threads, looked at from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.boxes import HERE, Run, another_user
from tests.support.cgroup import Hierarchy, writable_hierarchy

CHECK = "machine.cpu.threads"
ID = f"{os.getpid():012x}" + "ab" * 26
"""A container's id; tests of other processes use theirs at the same time."""
FOUND = writable_hierarchy()
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(FOUND is None, reason="needs root: cgroups that this user may make"),
]

CPUS = len(os.sched_getaffinity(0))
THREADS = 4 if CPUS >= 4 else 2
LIMIT = THREADS // 2
"""The story is 4 threads in 2 CPUs; a machine of 2 CPUs tells it with 2 in 1."""

SERVER = f"""#!{sys.executable}
# listens, and keeps `-t` threads busy for a moment, each in a process because of Python's lock
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
threads = int(sys.argv[sys.argv.index("-t") + 1])
children = []
for _ in range(threads):
    pid = os.fork()
    if pid == 0:
        listener.close()
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            pass
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print(listener.getsockname()[1], os.getpid(), flush=True)
time.sleep(120)
"""


@dataclass
class Server:
    port: int
    pid: int
    name: str
    process: subprocess.Popen[str]


@pytest.fixture
def hierarchy() -> Iterator[Hierarchy]:
    assert FOUND is not None
    yield FOUND
    FOUND.remove()


@pytest.fixture
def started(tmp_path) -> Iterator[list[Server]]:
    servers: list[Server] = []
    yield servers
    for server in servers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, 9)
        server.process.kill()
        server.process.wait(timeout=10)
        assert server.process.stdout
        server.process.stdout.close()


def start(
    tmp_path: Path, servers: list[Server], folders: list[Path], threads: int, *prefix: str
) -> Server:
    """Start a server named like one of its kind, inside of the cgroups."""
    name = f"llama-{os.getpid() % 100_000}-{len(servers)}"
    script = tmp_path / name
    script.write_text(SERVER)
    script.chmod(0o755)
    enter = "".join(f"echo $$ > '{folder}/cgroup.procs' && " for folder in folders)
    process = subprocess.Popen(
        ["sh", "-c", f'{enter}exec "$@"', "sh", *prefix, str(script), "-t", str(threads)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    port, pid = process.stdout.readline().split()
    server = Server(int(port), int(pid), name, process)
    servers.append(server)
    return server


def profile(server: Server) -> str:
    ways = {
        "port": f"port:{server.port}",
        "pid": f"pid:{server.pid}",
        "name": f"process:{server.name}",
    }
    return "".join(
        f'[[serve]]\nname = "{name}"\nengine = "llama.cpp"\nwhere = "{where}"\n'
        for name, where in ways.items()
    )


def judged_the_same(run: Run, verdict: str) -> dict[str, object]:
    found = [run.finding(CHECK, name) for name in ("port", "pid", "name")]
    assert [row["verdict"] for row in found] == [verdict] * 3, [row["says"] for row in found]
    return found[0]


@pytest.mark.parametrize("limited_by", ["quota", "quota of the parent", "cpuset"])
def test_more_threads_than_cpus_are_seen_from_outside_and_fewer_pass(
    suite, tmp_path, hierarchy, started, limited_by
):
    name = f"preflight-{os.getpid()}"
    if limited_by == "quota":
        folders = hierarchy.make(name, quota_cpus=LIMIT)
    elif limited_by == "quota of the parent":
        hierarchy.make(name, quota_cpus=LIMIT)
        folders = hierarchy.make(f"{name}/inner")
    else:
        cpus = sorted(os.sched_getaffinity(0))[:LIMIT]
        folders = hierarchy.make(name, cpus=",".join(map(str, cpus)))

    over = start(tmp_path, started, folders, THREADS)
    found = judged_the_same(suite.run(tmp_path, profile=profile(over), host="over"), "fail")
    assert found["cause"] == "more-threads-than-cpus"
    assert found["observed"]["effective_cpus"] == LIMIT
    assert f"{THREADS} threads (-t {THREADS}) on {LIMIT:.2f} CPUs" in found["says"]
    assert f"start it with {LIMIT} thread" in found["remedy"]
    assert f"-t {LIMIT};" in found["remedy"]
    assert found["evidence"][0].startswith(f"looked at process {over.pid} {over.name}")
    if limited_by != "cpuset":
        assert name in found["says"]
        # on a machine that is busy with other things the quota may never have been reached
        stopped = "nr_throttled 0\n" not in (hierarchy.cpu / name / "cpu.stat").read_text()
        assert any("the quota stopped it" in note for note in found["notes"]) is stopped

    fits = start(tmp_path, started, folders, LIMIT)
    judged_the_same(suite.run(tmp_path, profile=profile(fits), host="fits"), "pass")


def test_without_a_limit_the_same_server_passes(suite, tmp_path, hierarchy, started):
    folders = hierarchy.make(f"preflight-{os.getpid()}")
    free = start(tmp_path, started, folders, CPUS)
    found = judged_the_same(suite.run(tmp_path, profile=profile(free)), "pass")
    assert found["expected"] == {"threads_count": CPUS}
    assert found["observed"]["effective_cpus"] == CPUS


@pytest.mark.parametrize(("threads", "verdict"), [(THREADS, "fail"), (LIMIT, "pass")])
def test_a_server_behind_an_entry_script_is_seen(
    suite, tmp_path, hierarchy, started, threads, verdict
):
    """As images have it: a script leads, and the server is its child with a number of its own."""
    folders = hierarchy.make(f"docker-{ID}.scope", quota_cpus=LIMIT)
    entry = tmp_path / "entry.sh"
    entry.write_text('"$@" & wait\n')
    server = start(tmp_path, started, folders, threads, "sh", str(entry))
    try:
        text = (
            f'[[serve]]\nname = "chat"\nengine = "llama.cpp"\nwhere = "container:{ID[:12]}"\n'
            'command = "llama-server -t 1"\n'
        )
        found = suite.run(tmp_path, profile=text).finding(CHECK, "chat")
    finally:
        os.kill(server.pid, 9)
    assert found["verdict"] == verdict, found["says"]
    assert found["expected"] == {"threads_count": threads}
    assert server.name in " ".join(found["evidence"])


@pytest.mark.parametrize("threads", [THREADS, LIMIT])
def test_a_container_is_seen_from_outside_by_its_id(suite, tmp_path, hierarchy, started, threads):
    """Namespaces of its own for processes, mounts and cgroups, in a cgroup named as Docker's are."""
    folders = hierarchy.make(f"docker-{ID}.scope", quota_cpus=LIMIT)
    contain = ("unshare", "--pid", "--mount", "--cgroup", "--fork", "--mount-proc")
    server = start(tmp_path, started, folders, threads, *contain)
    assert server.pid == 1  # as its own namespace counts
    text = (
        f'[[serve]]\nname = "chat"\nwhere = "container:{ID[:12]}"\n'
        f'[[serve]]\nname = "port"\nwhere = "port:{server.port}"\n'
    )
    run = suite.run(tmp_path, profile=text)
    for name in ("chat", "port"):
        found = run.finding(CHECK, name)
        if threads > LIMIT:
            assert found["cause"] == "more-threads-than-cpus", found["says"]
            assert f"start it with {LIMIT} thread" in found["remedy"]
        else:
            assert found["verdict"] == "pass", found["says"]


def inside(tmp_path: Path, hierarchy: Hierarchy, folders: list[Path], *, remount: bool) -> Path:
    """Run the suite in a cgroup namespace of its own below the limited cgroup; give its ledgers."""
    hosts = tmp_path / "expected" / "hosts"
    hosts.mkdir(parents=True)
    text = "".join(
        f'[[serve]]\nname = "{name}"\ncommand = "llama-server -t {threads}"\n'
        for name, threads in (("over", THREADS), ("fits", LIMIT))
    )
    (hosts / "inside.toml").write_text(f"schema = 1\n{text}")
    enter = "".join(f"echo $$ > '{folder}/cgroup.procs' && " for folder in folders)
    mount = f"mount --make-rprivate / && {hierarchy.remount()} && " if remount else ""
    command = [
        *(sys.executable, "-m", "pytest", "preflight/", "--host", "inside"),
        *("--expected", str(tmp_path / "expected"), "--ledger-dir", str(tmp_path / "ledgers")),
    ]
    done = subprocess.run(
        [
            *(
                "sh",
                "-c",
                f'{enter}exec unshare --cgroup --mount sh -c \'{mount}exec "$@"\' sh "$@"',
            ),
            *("sh", *command),
        ],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    ledgers = list((tmp_path / "ledgers" / "inside").glob("*Z-*.json"))
    assert len(ledgers) == 1, done.stdout + done.stderr
    return ledgers[0]


def findings(path: Path) -> dict[str, dict[str, object]]:
    import json

    rows = json.loads(path.read_text())["findings"]
    return {row["subject"]: row for row in rows if row["check"] == CHECK}


@pytest.mark.slow
def test_the_suite_inside_of_a_container_sees_its_own_quota(tmp_path, hierarchy):
    folders = hierarchy.make(f"docker-{ID}.scope", quota_cpus=LIMIT)
    found = findings(inside(tmp_path, hierarchy, folders, remount=True))
    assert found["over"]["cause"] == "more-threads-than-cpus", found["over"]["says"]
    assert found["fits"]["verdict"] == "pass", found["fits"]["says"]
    assert any("cannot be seen here" in note for note in found["fits"]["notes"])


@pytest.mark.slow
def test_a_cgroup_namespace_that_hides_the_own_limit_is_unknown_and_not_unlimited(
    tmp_path, hierarchy
):
    """Where nobody mounted the cgroups anew, the path is `/` and the mount still shows the host's."""
    folders = hierarchy.make(f"docker-{ID}.scope", quota_cpus=LIMIT)
    found = findings(inside(tmp_path, hierarchy, folders, remount=False))
    for name in ("over", "fits"):
        assert found[name]["verdict"] == "unknown", found[name]["says"]
        assert found[name]["remedy"]


def test_a_process_of_another_user_is_not_taken_for_seen(
    suite, tmp_path, open_path, hierarchy, started
):
    """A user without root sees the command line of root's server, not its port nor environment."""
    folders = hierarchy.make(f"preflight-{os.getpid()}", quota_cpus=LIMIT)
    server = start(tmp_path, started, folders, THREADS)
    silent = subprocess.Popen(["sleep", "120"])
    try:
        text = profile(server) + f'[[serve]]\nname = "silent"\nwhere = "pid:{silent.pid}"\n'
        run = suite.run(open_path, profile=text, uid=another_user())
    finally:
        silent.kill()
        silent.wait(timeout=10)
    # its command line says how many threads, and its cgroup how many CPUs
    assert run.finding(CHECK, "pid")["cause"] == "more-threads-than-cpus"
    assert run.finding(CHECK, "name")["cause"] == "more-threads-than-cpus"
    for name in ("port", "silent"):
        found = run.finding(CHECK, name)
        assert (found["verdict"], found["reason"]) == ("unknown", "not-observable"), found["says"]
        assert "root" in found["remedy"]


def test_a_server_that_has_ended_and_was_not_reaped_is_not_taken_for_running(
    suite, tmp_path, started
):
    server = start(tmp_path, started, [], LIMIT)
    os.kill(server.pid, 9)
    state = Path(f"/proc/{server.pid}/status")
    while "Z (zombie)" not in state.read_text():
        time.sleep(0.01)
    text = "".join(
        f'[[serve]]\nname = "{name}"\nwhere = "{where}"\ncommand = "llama-server -t 1"\n'
        for name, where in (("pid", f"pid:{server.pid}"), ("name", f"process:{server.name}"))
    )
    run = suite.run(tmp_path, profile=text)
    for name in ("pid", "name"):
        assert run.finding(CHECK, name)["reason"] == "not-observable", name
