"""Recorded trees to spoil: everything there is to probe on them, and everything judged, in one process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from checks.core.codec import encode
from checks.core.expectation import Expected
from checks.core.facts import Observation
from checks.core.profile import Hardware, Paths, Profile, Python, Serve
from checks.core.registry import Probe, load_areas
from checks.core.runner import Key, Runner, receive
from checks.core.world import World
from checks.machine.probe.clock import history_facts
from tests.support.boxes import NVIDIA_VERSION, Box, add_gpu, arm_board, plain_box
from tests.support.layouts import CGROUP, V1_CPU, V1_CPUSET, V1_NAMED, lines_1

REGISTRY = load_areas()
SLOW_S = 4.0
"""A probe has five seconds; one that needs as long for one file is broken."""


class Recording(World):
    """A world that remembers what was asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: set[str] = set()

    def path(self, path: str) -> Path:
        self.asked.add(path)
        return super().path(path)


PROFILE = Profile(
    schema=1,
    hardware=Hardware(
        architecture="x86_64",
        product_name="PowerEdge XE9680",
        virtualization="none",
        container="none",
        memory_total_bytes=512 * 2**30,
        memory_available_min_bytes=2**30,
        cpu_model="Intel(R) Xeon(R) Platinum 8480+",
        cpus=8,
        cpu_features=("avx512f", "amx_tile"),
        cpu_governor="powersave",
        numa_nodes=1,
        gpus=1,
        mps=False,
        kernel_parameters=("iommu=pt",),
        kernel_modules=("ib_core", "fuse"),
    ),
    python=(Python(name="venv", path="/srv/venv/bin/python"),),
    paths=Paths(model_cache="/srv/hub"),
    serve=(
        Serve(name="port", command="run -t 4", where="port:8000", model="a/b", model_bytes=10),
        Serve(name="pid", command="run -t 4", where="pid:900"),
        Serve(name="name", command="run -t 4", where="process:llama-server"),
        Serve(name="unit", command="run -t 4", where="unit:llama.service"),
    ),
)


class Nowhere:
    def opened(self, *_: object, **__: object) -> None: ...

    seen = controlled = found = opened


def look(world: World) -> dict[str, str]:
    """Probe everything in this process, so that an exception is one, and judge it."""
    observations: dict[Key, Observation] = {}
    for probe in REGISTRY.probes.values():
        observations |= observe(world, probe)
    return judge(world, observations)


def observe(world: World, probe: Probe) -> dict[Key, Observation]:
    """Look with one probe at all its subjects."""
    observations: dict[Key, Observation] = {}
    for subject, target in probe.targets(PROFILE).items():
        if probe.read is None:
            seen = history_facts(
                ledger="", newest_s=0.0, boot_id="", boot_offset_s=0.0, world=world
            )
        else:
            started_s = time.monotonic()
            seen = probe.read(world, target)
            assert time.monotonic() - started_s < SLOW_S, (probe.name, subject)
        seen = receive(probe.sees, encode(seen))
        one = Observation(probe=probe.name, subject=subject, seen=seen, elapsed_s=0.0)
        observations[probe.name, subject] = one
    return observations


def judge(
    world: World, observations: dict[Key, Observation], probes: Iterable[str] = ()
) -> dict[str, str]:
    """Judge what was seen; no judge may end with an exception.

    Args:
        world: the tree.
        observations: all of them.
        probes: judge only what these have seen; without: everything.

    """
    looked = {REGISTRY.probes[name].sees for name in probes}
    runner = Runner(
        registry=REGISTRY,
        expected=Expected(profile=PROFILE, profile_file="planted.toml"),
        recorder=Nowhere(),
        world=world,
        with_controls=False,
        recorded=observations,
        recorded_end="complete",
    )
    runner.look_at_components()
    verdicts = {}
    for check in REGISTRY.checks.values():
        if looked and looked.isdisjoint(check.sees):
            continue
        for case in runner.cases(check):
            for found in runner.judge_all(check.name, case.subject):
                assert found.reason is None or found.reason.value != "lost", found.says
                verdicts[f"{check.name}[{found.subject}]"] = found.verdict.value
    encode(runner.fingerprint())
    return verdicts


def version_2_box() -> Box:
    path = "/system.slice/llama.service"
    box = plain_box().listen(8000, 70).put("/proc/driver/nvidia/version", NVIDIA_VERSION)
    add_gpu(box, "0000:18:00.0", vendor="0x10de", device="0x2330", model="H100", uuid="GPU-1")
    box.group(f"{CGROUP}/system.slice", cpu_max="max 100000", effective="0-7")
    box.group(f"{CGROUP}{path}", cpu_max="400000 100000", cpu_stat="nr_periods 4\nnr_throttled 1")
    box.group(f"{CGROUP}{path}", pids="4096", pids_used="40")
    box.put(f"{CGROUP}/memory.max", f"{2**39}\n").put(f"{CGROUP}/memory.current", "5\n")
    box.put(f"{CGROUP}/memory.stat", "inactive_file 0\n")
    box.put("/sys/devices/system/memory/block_size_bytes", "8000000000\n")
    box.put("/sys/devices/system/memory/memory0/state", "online\n")
    box.put("/sys/firmware/dmi/entries/17-0/raw", b"\x11\x28" + b"\1" * 38 + b"SERIAL\0\0")
    box.put("/srv/hub/models--a--b/blobs/x", "12345678901")
    return box.process(900, "/opt/llama-server", cgroup=f"0::{path}\n", sockets=(70,))


def version_1_box() -> Box:
    path = "/system.slice/llama.service"
    box = plain_box().drop(CGROUP).mounts(V1_CPU + V1_CPUSET + V1_NAMED).listen(8000, 70)
    box.process(4242, "pytest", cgroup=lines_1("/", "/"))
    memory = f"{CGROUP}/memory"
    box.put(f"{memory}/memory.limit_in_bytes", f"{2**39}\n").put(f"{memory}/release_agent", "\n")
    box.put(f"{memory}/memory.usage_in_bytes", "5\n").put(f"{memory}/memory.stat", "cache 0\n")
    box.group_1(f"{CGROUP}/cpu,cpuacct").group(f"{CGROUP}/cpuset", cpuset="0-7", effective_1="0-7")
    box.group_1(f"{CGROUP}/cpu,cpuacct/system.slice")
    box.group_1(f"{CGROUP}/cpu,cpuacct{path}", 400_000)
    box.group(f"{CGROUP}/cpuset{path}", cpuset="0-7", effective_1="0-7")
    box.process(900, "/opt/llama-server", cgroup=lines_1(path, path), sockets=(70,))
    return box.put("/srv/hub/models--a--b/blobs/x", "12345678901")


BOXES = {"version 2": version_2_box, "version 1": version_1_box, "Arm": arm_board}
