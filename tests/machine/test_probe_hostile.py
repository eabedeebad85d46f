"""Trees that no kernel would show: never a traceback, never a hang, never a pass on what was not read.

The files are not listed by hand: a first look at a healthy box tells which ones the probes read.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from checks.core.facts import Observation
from checks.core.runner import Key
from checks.core.world import World
from tests.support.boxes import CPUS, NODES, plain_box
from tests.support.layouts import CGROUP
from tests.support.trees import BOXES, PROFILE, REGISTRY, Recording, judge, look, observe

# What may not pass where a file makes no sense. `cpu` stands for every place of the profile.

THREADS = tuple(f"machine.cpu.threads[{serve.name}]" for serve in PROFILE.serve)
PIDS = tuple(f"machine.limits.pids[{serve.name}]" for serve in PROFILE.serve)
QUOTA_1 = f"{CGROUP}/cpu,cpuacct/system.slice/llama.service"
MUST_NOT_PASS: dict[str, tuple[str, ...]] = {
    "/proc/meminfo": tuple(
        f"machine.memory.{name}[box]" for name in ("total", "available", "swap")
    ),
    "/proc/900/status": THREADS,
    "/proc/900/cgroup": THREADS + PIDS,
    "/proc/4242/mountinfo": (
        *THREADS,
        *(f"machine.disk.filesystem[{name}]" for name in ("model-cache", "tmp", "ledgers")),
    ),
    "/proc/cmdline": ("machine.kernel.parameters[box]",),
    "/lib/modules/6.8.0-31-generic/modules.builtin": ("machine.kernel.modules[box]",),
    "/sys/class/rtc/rtc0/since_epoch": ("machine.clock.rtc[box]",),
    "/dev/kmsg": ("machine.log.kernel[box]",),
    f"{CGROUP}/system.slice/llama.service/cpu.max": THREADS,
    f"{CGROUP}/system.slice/cpu.max": THREADS,
    f"{CGROUP}/system.slice/llama.service/pids.max": PIDS,
    f"{CGROUP}/system.slice/llama.service/pids.current": PIDS,
    f"{QUOTA_1}/cpu.cfs_quota_us": THREADS,
    f"{QUOTA_1}/cpu.cfs_period_us": THREADS,
    f"{CGROUP}/memory/memory.limit_in_bytes": ("machine.memory.available[box]",),
    f"{CGROUP}/memory/memory.usage_in_bytes": ("machine.memory.available[box]",),
    f"{CGROUP}/memory.max": ("machine.memory.available[box]",),
    f"{CGROUP}/memory.current": ("machine.memory.available[box]",),
    "/sys/class/dmi/id/product_name": ("machine.identity.product[box]",),
    "/proc/net/tcp": THREADS[:1],
    "/proc/cpuinfo": ("machine.cpu.instructions[box]", "machine.cpu.model[box]"),
    f"{CPUS}/cpu5/cpufreq/scaling_governor": ("machine.cpu.governor[box]",),
    f"{CPUS}/cpu5/cpufreq/scaling_driver": ("machine.cpu.governor[box]",),
    f"{CPUS}/cpu5/thermal_throttle/core_throttle_count": ("machine.cpu.throttling[box]",),
    f"{NODES}/node0/meminfo": ("machine.numa.nodes[box]",),
}

SAME_AS_ANOTHER = re.compile(rf"^{CPUS}/cpu[1-467]/")
"""What holds of the files of one CPU in the middle holds of the others."""

ALLOWED = {("a negative number", f"{QUOTA_1}/cpu.cfs_quota_us")}
"""-1 is how version 1 says that there is no quota."""

GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "one NUL": b"\0",
    "every byte": bytes(range(256)) * 4,
    "text": b"this is not the file you are looking for\n",
    "a long number": b"9" * 5_000 + b"\n",
    "a negative number": b"-1\n",
    "not a number": b"nan inf -inf 1e309\n",
    "other digits": "٣٣٣ ٤٤٤\n".encode(),
    "many lines": b":::\n" * 20_000,
    "lone surrogates": b"\xed\xa0\x80\xed\xb0\x80\n",
    "escape sequences": b"\x1b[2J\x1b]0;owned\x07\n",
    "huge": b"0123456789 abcdefghijklmnopqrstuvw: -\n" * 270_000,
}
SHAPES = ("FIFO", "folder", "loop", "gone", "hidden")


@dataclass
class Tree:
    root: Path
    baseline: dict[str, str]
    seen: dict[Key, Observation]
    readers: dict[str, set[str]]
    """Path = the probes that ask for it. No other one can see what is done to it."""

    @property
    def asked(self) -> list[str]:
        return sorted(self.readers)

    def look(self, path: str) -> dict[str, str]:
        """Look again with what reads the path, and judge it."""
        world, readers = World(self.root), self.readers[path]
        seen = dict(self.seen)
        for name in readers:
            seen |= observe(world, REGISTRY.probes[name])
        return self.baseline | judge(world, seen, readers)

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/")


@pytest.fixture(scope="module", params=BOXES)
def tree(request) -> Iterator[Tree]:
    folder = Path(tempfile.mkdtemp(prefix="preflight-hostile-"))
    folder.chmod(0o755)
    root = BOXES[request.param]().write(folder)
    seen: dict[Key, Observation] = {}
    readers: dict[str, set[str]] = {}
    for probe in REGISTRY.probes.values():
        world = Recording(root)
        seen |= observe(world, probe)
        for path in world.asked:
            if (root / path.lstrip("/")).exists():
                readers.setdefault(path, set()).add(probe.name)
    yield Tree(root, judge(World(root), seen), seen, readers)
    shutil.rmtree(folder)


@contextlib.contextmanager
def replaced(place: Path, shape: str) -> Iterator[None]:
    """Put something else in the place of a file or folder for a while."""
    kept = place.with_name(place.name + ".kept-by-the-test")
    place.rename(kept)
    try:
        if shape == "FIFO":
            os.mkfifo(place)
        elif shape == "folder":
            place.mkdir()
            (place / "x").write_text("x")
        elif shape == "loop":
            place.symlink_to(place.name)
        elif shape == "hidden":
            place.mkdir() if kept.is_dir() else place.write_bytes(kept.read_bytes())
            place.chmod(0o000)
        elif shape != "gone":
            place.write_bytes(GARBAGE[shape])
        yield
    finally:
        if place.is_dir() and not place.is_symlink():
            place.chmod(0o755)
            shutil.rmtree(place)
        elif place.is_symlink() or place.exists():
            place.unlink()
        kept.rename(place)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything, so what is hidden has to be looked at as another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_healthy_trees_pass_what_is_watched_below(tree):
    if tree.place("/proc/900").exists():
        for path in {*MUST_NOT_PASS} & {*tree.asked}:
            assert {tree.baseline[name] for name in MUST_NOT_PASS[path]} == {"pass"}
    assert len(tree.asked) > 30


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*GARBAGE, *SHAPES])
def test_no_file_of_any_shape_breaks_a_probe_or_passes_unread(tree, shape):
    for path in tree.asked:
        place = tree.place(path)
        if place in (tree.root, tree.root / "proc") or SAME_AS_ANOTHER.search(path):
            continue
        with replaced(place, shape):
            if shape == "hidden":
                with unprivileged():
                    verdicts = tree.look(path)
            else:
                verdicts = tree.look(path)
        if shape == "gone" or (shape, path) in ALLOWED:
            continue  # what a missing file means is tested where it is read
        for name in MUST_NOT_PASS.get(path, ()):
            assert verdicts[name] != "pass", (path, name)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_text_in_any_file_ends_in_an_exception(tree, data):
    path = data.draw(st.sampled_from([p for p in tree.asked if tree.place(p).is_file()]))
    place = tree.place(path)
    good = place.read_bytes()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    piece = data.draw(
        st.one_of(
            st.binary(max_size=40),
            st.text("0123456789-,:./ \n\tmaxE+", max_size=40).map(str.encode),
            st.sampled_from([b"max", b"-1", b"0", b"18446744073709551615", b"\0", b"0-65535"]),
        )
    )
    place.write_bytes(good[:start] + piece + good[end:])
    try:
        verdicts = tree.look(path)
    finally:
        place.write_bytes(good)
    assert {name.partition("[")[0] for name in verdicts} == set(REGISTRY.checks)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        "{" * 3_000,
        '{"environ": []}',
        '{"environ": {"HOME": 3}}',
        '{"uname": "x"}',
        '{"statvfs": {"/": [1]}}',
        '{"now_s": 1e999, "boot_s": -1, "pid": "x"}',
        '{"pid": 1e300}',
        '{"pid": -1, "now_s": 1, "boot_s": 1, "adjtimex_status": "on"}',
        '{"modified_s": {"/var/lib/dpkg/status": "yesterday"}, "ledger_folder": 7}',
        '{"now_s": ' + "9" * 400 + "}",
        '{"uname": {"machine": "x\\u0000y", "node": "\\ud800"}}',
    ],
)
def test_what_stands_in_recorded_json_is_an_error_in_one_line_or_is_looked_at(tmp_path, text):
    from checks.core.errors import ProfileError

    root = plain_box().write(tmp_path)
    (root / "recorded.json").write_text(text)
    world = None
    with contextlib.suppress(ProfileError):
        world = World(root)
    if world is None:
        with pytest.raises(ProfileError, match=r"recorded\.json"):
            World(root)
        return
    verdicts = look(world)
    assert "machine.clock.past[box]" in verdicts
    if '"now_s"' not in text or "1e999" in text:
        assert verdicts["machine.clock.past[box]"] == "unknown"


def test_a_file_that_is_longer_than_the_limit_is_read_to_the_limit(tmp_path):
    from checks.core.world import LARGEST_READ_BYTES

    box = plain_box().put("/etc/os-release", b"x" * (LARGEST_READ_BYTES * 3))
    text = World(box.write(tmp_path)).read("/etc/os-release")
    assert isinstance(text, str)
    assert LARGEST_READ_BYTES <= len(text) < LARGEST_READ_BYTES + 70_000
