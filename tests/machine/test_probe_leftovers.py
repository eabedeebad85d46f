"""What is read of environments and of MPS: of recorded trees, and of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from checks.core.codec import encode
from checks.core.facts import BOX, Blind, Unseen
from checks.core.profile import Profile, Serve
from checks.core.registry import load_areas
from checks.core.world import World
from checks.machine.probe.leftovers import read_leftovers, read_mps
from tests.support.boxes import ENGINE, Box, h100_box, plain_box

TARGETS = load_areas().probes["machine.leftovers"].targets


def left(world: World, *serves: Serve):
    profile = Profile(schema=1, serve=serves)
    seen = read_leftovers(world, TARGETS(profile)[BOX])
    return {place.place: place for place in seen.places}


def planted(tmp_path, box: Box, *serves: Serve):
    return left(World(box.write(tmp_path / "tree")), *serves)


def test_the_suites_own_environment_is_read_and_nothing_else_of_it_is_kept(tmp_path):
    box = plain_box()
    box.recorded["environ"] |= {
        "CUDA_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION_1": "10.3.0",
        "SECRET": "x",
        "CUDA_VISIBLE_DEVICES_OLD": "1",
    }
    this = planted(tmp_path, box)["this"]
    assert this.environment == {"CUDA_VISIBLE_DEVICES": "", "HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}
    assert this.source == "the suite's own environment"


def test_what_the_suite_would_start_gets_the_profiles_environment_on_top(tmp_path):
    box = plain_box()
    box.recorded["environ"] |= {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"}
    places = planted(tmp_path, box, Serve(name="chat", env={"CUDA_VISIBLE_DEVICES": "1"}))
    assert places["chat"].environment == {
        "CUDA_VISIBLE_DEVICES": "1",
        "ROCR_VISIBLE_DEVICES": "1",
    }
    assert places["this"].environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert "env of the profile" in places["chat"].source


def test_a_running_process_counts_more_than_the_profile(tmp_path):
    box = plain_box().process(ENGINE, "vllm", environ={"CUDA_VISIBLE_DEVICES": "3"})
    serve = Serve(name="chat", where=f"pid:{ENGINE}", env={"CUDA_VISIBLE_DEVICES": "1"})
    chat = planted(tmp_path, box, serve)["chat"]
    assert chat.environment == {"CUDA_VISIBLE_DEVICES": "3"}
    assert chat.source == f"the environment of process {ENGINE} vllm"


def test_a_process_that_does_not_run_leaves_the_profile_or_nothing(tmp_path):
    serve = Serve(name="chat", where="port:8000", env={"CUDA_VISIBLE_DEVICES": "1"})
    bare = Serve(name="bare", where="port:8001", env={"HF_HOME": "/x"})
    places = planted(tmp_path, plain_box(), serve, bare)
    assert places["chat"].environment == {"CUDA_VISIBLE_DEVICES": "1"}
    assert "its process was not read" in places["chat"].source
    assert places["bare"].environment.reason is Blind.ABSENT


@pytest.mark.parametrize(
    ("raw", "whole"),
    [
        (b"", True),
        (b"HOME=/root\0CUDA_VISIBLE_DEVICES=1\0", True),
        (b"vllm: worker 0\0\0\0\0", False),
        (b"\0\0\0\0", False),
        (b"er 0\0CUDA_VISIBLE_DEVICES=1\0", False),
        (b"CUDA_VISIBLE_DEVICES=" + b"0," * 1_001 + b"\0", False),
    ],
)
def test_an_environment_that_was_written_over_is_a_reason(tmp_path, raw, whole):
    box = plain_box().process(ENGINE, "vllm").put(f"/proc/{ENGINE}/environ", raw)
    chat = planted(tmp_path, box, Serve(name="chat", where=f"pid:{ENGINE}"))["chat"]
    assert isinstance(chat.environment, dict) is whole


def test_of_proxies_only_the_host_is_kept(tmp_path):
    box = plain_box()
    box.recorded["environ"] |= {
        "http_proxy": "http://user:hunter2hunter2@proxy.example.org:3128/x?y=z",
        "HTTPS_PROXY": "proxy.example.org",
        "all_proxy": "socks5h://u@10.0.0.1:1080",
        "no_proxy": "internal.example.org,10.0.0.0/8",
        "https_proxy": "",
        "ftp_proxy": "x",
    }
    this = planted(tmp_path, box)["this"]
    assert this.proxies == {
        "http_proxy": "http://proxy.example.org:3128",
        "HTTPS_PROXY": "http://proxy.example.org",
        "all_proxy": "socks5h://10.0.0.1:1080",
        "no_proxy": "set",
    }
    assert "hunter2" not in str(encode(this))


def test_folders_of_stubs_and_compat_libraries_are_kept_and_no_others(tmp_path):
    box = plain_box()
    box.recorded["environ"] |= {
        "LD_LIBRARY_PATH": "/opt/x:/usr/local/cuda-12.4/lib64/stubs/:/usr/local/cuda/compat:/stubs",
        "LD_PRELOAD": "/usr/local/cuda/compat/libcuda.so.1 /usr/lib/libjemalloc.so",
    }
    assert planted(tmp_path, box)["this"].libraries == (
        "LD_LIBRARY_PATH: /usr/local/cuda-12.4/lib64/stubs/",
        "LD_LIBRARY_PATH: /usr/local/cuda/compat",
        "LD_PRELOAD: /usr/local/cuda/compat/libcuda.so.1",
    )


def test_the_driver_lists_for_a_container_what_it_was_given(tmp_path):
    box = h100_box().process(ENGINE, "vllm")
    path = f"/proc/{ENGINE}/root/proc/driver/nvidia/gpus/0000:29:00.0/information"
    box.put(path, "Model: \t\t H100\nGPU UUID: \t GPU-of-its-own\n")
    places = planted(tmp_path, box, Serve(name="chat", where=f"pid:{ENGINE}"))
    assert places["chat"].nvidia_uuids == ("GPU-of-its-own",)
    assert len(places["this"].nvidia_uuids) == 8
    host = h100_box().process(ENGINE, "vllm")
    places = planted(tmp_path / "b", host, Serve(name="chat", where=f"pid:{ENGINE}"))
    assert places["chat"].nvidia_uuids == places["this"].nvidia_uuids
    assert planted(tmp_path / "c", plain_box())["this"].nvidia_uuids.reason is Blind.ABSENT


@contextmanager
def running(*words: str, **environ: str) -> Iterator[int]:
    """Run a process until the end of the block; give its number."""
    process = subprocess.Popen(
        words, env={"PATH": os.environ["PATH"], **environ}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
    finally:
        process.communicate()


WAITS = "print(flush=True); input()"


def test_the_environment_of_a_real_process_is_read(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with running(sys.executable, "-c", WAITS, CUDA_VISIBLE_DEVICES="7,8") as pid:
        places = left(World(), Serve(name="chat", where=f"pid:{pid}"))
    assert places["chat"].environment == {"CUDA_VISIBLE_DEVICES": "7,8"}
    assert places["this"].environment["CUDA_VISIBLE_DEVICES"] == "5"


# MPS


def test_a_real_process_of_that_name_is_found(tmp_path):
    program = tmp_path / "nvidia-cuda-mps-control"
    program.symlink_to("/bin/sh")
    with running(str(program), "-c", "echo; read x") as pid:
        seen = read_mps(World())
    assert [text.split() for text in seen.processes] == [[str(pid), "nvidia-cuda-mps"]]
    assert not seen.others_hidden
    assert read_mps(World()).processes == ()


def test_a_box_that_shows_only_ones_own_processes_says_so(tmp_path):
    """As /proc mounted with hidepid=2 does: not even the first process is there."""
    world = World(plain_box().write(tmp_path / "tree"))
    assert read_mps(world).others_hidden
    box = plain_box().process(1, "/sbin/init", parent=0)
    assert not read_mps(World(box.write(tmp_path / "other"))).others_hidden


def test_without_any_list_of_processes_there_is_a_reason(tmp_path):
    world = World(plain_box().drop("/proc").write(tmp_path / "tree"))
    assert isinstance(read_mps(world), Unseen)
