"""Which process a place means. How its limits are judged is in tests/boxes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.place import PlaceError, parse_place
from checks.core.world import World
from checks.machine.places import companions, find_process
from tests.support.boxes import ID, PID, plain_box


def find(tmp_path, box, where):
    return find_process(World(box.write(tmp_path / "tree")), parse_place(where))


@pytest.mark.parametrize(
    ("where", "pid"),
    [
        ("this", str(PID)),
        ("pid:900", "900"),
        ("process:llama-server", "900"),
        ("process:text-generation-launcher", "950"),  # comm holds 15 characters
        ("unit:llama", "900"),
        ("unit:llama.service", "900"),
        ("unit:app@1.service", "950"),
        (f"container:{ID[:12]}", "900"),
        (f"container:{ID}", "900"),
    ],
)
def test_a_place_is_one_process(tmp_path, where, pid):
    box = plain_box()
    path = f"/system.slice/llama.service/docker-{ID}.scope"
    box.process(900, "/opt/llama-server", cgroup=f"0::{path}\n")
    box.process(901, "/opt/llama-server", parent=900, cgroup=f"0::{path}\n")
    box.process(950, "/opt/text-generation-launcher", cgroup="0::/app.slice/app@1.service\n")
    assert find(tmp_path, box, where).pid == pid


@pytest.mark.parametrize(
    "name",
    [
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/kubepods/besteffort/pod1/{ID}",
        f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
        f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope/container",
        f"/machine.slice/libpod-{ID}.scope/container",
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
    ],
)
def test_every_runtime_names_its_containers_so(tmp_path, name):
    box = plain_box().process(900, "/opt/llama-server", cgroup=f"0::{name}\n")
    assert find(tmp_path, box, f"container:{ID[:12]}").pid == "900"


@pytest.mark.parametrize(
    "name",
    [
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/machine.slice/crio-conmon-{ID}.scope",
        f"/docker/{ID[::-1]}",
        f"/docker/x{ID}",
    ],
)
def test_a_monitor_or_another_container_is_not_it(tmp_path, name):
    box = plain_box().process(900, "/usr/bin/conmon", cgroup=f"0::{name}\n")
    seen = find(tmp_path, box, f"container:{ID[:12]}")
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.ABSENT


@pytest.mark.parametrize("table", ["tcp", "tcp6"])
def test_a_port_is_whoever_listens_on_it_and_not_who_is_connected(tmp_path, table):
    box = plain_box().listen(8000, 70, table=table)
    row = "   1: 0100007F:1F40 0100007F:9999 01 0:0 00:0 0 0 0 71 1 0\n"
    box.put(f"/proc/net/{table}", str(box.files[f"/proc/net/{table}"]) + row)
    box.process(800, "client", sockets=(71,)).process(900, "server", sockets=(5, 70))
    assert find(tmp_path, box, "port:8000").pid == "900"
    assert isinstance(find(tmp_path / "b", box, "port:9999"), Unseen)


def test_a_port_that_a_family_shares_is_its_head(tmp_path):
    box = plain_box().listen(8000, 70)
    box.process(900, "gunicorn", sockets=(70,))
    for pid in (901, 902):
        box.process(pid, "gunicorn", parent=900, sockets=(70,))
    assert find(tmp_path, box, "port:8000").pid == "900"


@pytest.mark.parametrize("name", ["docker-proxy", "rootlessport", "slirp4netns", "pasta"])
def test_a_forwarders_limits_are_not_those_of_the_server_behind(tmp_path, name):
    box = plain_box().listen(8000, 70).process(700, f"/usr/bin/{name}", sockets=(70,))
    seen = find(tmp_path, box, "port:8000")
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.AMBIGUOUS
    assert "container:" in seen.remedy


def test_of_several_families_in_one_container_the_oldest_leads(tmp_path):
    box = plain_box()
    for pid in (900, 901, 902):
        box.process(pid, f"/opt/server-{pid}", parent=7, cgroup=f"0::/docker/{ID}\n")
    assert find(tmp_path, box, f"container:{ID[:12]}").pid == "900"


def beside(tmp_path, box, where):
    world, place = World(box.write(tmp_path / "tree")), parse_place(where)
    return companions(world, place, find_process(world, place))


def test_all_of_a_container_or_unit_are_beside_the_one_that_leads(tmp_path):
    box = plain_box()
    path = f"0::/system.slice/llama.service/docker-{ID}.scope"
    box.process(900, "bash", cgroup=f"{path}\n").process(905, "x", parent=7, cgroup=f"{path}\n")
    box.process(901, "server", parent=900, cgroup=f"{path}/inner\n")
    box.process(902, "gone", parent=900, cgroup=f"{path}\n", state="Z (zombie)")
    box.process(903, "elsewhere", parent=900, cgroup="0::/\n")
    for number, where in enumerate((f"container:{ID[:12]}", "unit:llama")):
        assert beside(tmp_path / str(number), box, where) == ["901", "905"]


def test_of_another_place_what_descends_is_beside_it(tmp_path):
    box = plain_box().process(900, "bash").process(901, "sh", parent=900)
    box.process(902, "server", parent=901).process(903, "other").process(899, "x", parent=902)
    assert beside(tmp_path / "a", box, "pid:900") == ["899", "901", "902"]
    assert beside(tmp_path / "b", box, "pid:902") == ["899"]
    assert beside(tmp_path / "c", box, "this") == []


def test_numbers_that_are_given_anew_while_they_are_read_do_not_lead_in_circles(tmp_path):
    box = plain_box().process(900, "a", parent=901).process(901, "b", parent=900)
    assert beside(tmp_path, box, "pid:900") == ["901"]


@pytest.mark.parametrize("state", ["Z (zombie)", "X (dead)"])
def test_a_process_that_has_ended_is_gone(tmp_path, state):
    box = plain_box().process(900, "llama-server", state=state)
    for where in ("pid:900", "process:llama-server"):
        seen = find(tmp_path / where, box, where)
        assert isinstance(seen, Unseen)
        assert seen.reason is Blind.ABSENT


def test_several_that_fit_are_named(tmp_path):
    box = plain_box().process(900, "llama-server").process(901, "llama-server")
    seen = find(tmp_path, box, "process:llama-server")
    assert isinstance(seen, Unseen)
    assert seen.reason is Blind.AMBIGUOUS
    assert "900 llama-server" in seen.detail
    assert "901 llama-server" in seen.detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "that",
        "pid",
        "pid:",
        "pid:0",
        "pid:-1",
        "pid:x",
        "pid:\u0663",
        "pid:99999999999",
        "port:0",
        "port:65536",
        "port:80 ",
        "container:abc",
        "container:" + "g" * 12,
        "container:" + "a" * 65,
        "unit:a/b",
        "process:a b",
        "pod:x",
    ],
)
def test_a_place_that_is_written_wrongly_is_refused(text):
    with pytest.raises(PlaceError):
        parse_place(text)


def test_the_live_processes_of_this_machine():
    world = World()
    assert find_process(world, parse_place("this")).pid == "self"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = find_process(world, parse_place(f"port:{port}"))
        assert found.pid == str(os.getpid())
    gone = find_process(world, parse_place(f"port:{port}"))
    assert isinstance(gone, Unseen)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert find_process(world, parse_place(f"pid:{child.pid}")).pid == str(child.pid)
    finally:
        child.kill()
        child.wait(timeout=10)
    assert isinstance(find_process(world, parse_place(f"pid:{child.pid}")), Unseen)
