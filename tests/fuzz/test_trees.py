"""Garbage in the files of /proc, /sys and /etc of all kinds of box: never a traceback, never a hang.

Only the probes that read a spoilt file look again, so that tens of thousands of trees take minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.core.facts import Observation
from checks.core.runner import Key
from checks.core.world import World
from tests.support.boxes import amd_box, cloud_vm, docker_box, h100_box, pod_box, wsl_box
from tests.support.fuzz import change_bytes, watchdog
from tests.support.soak import times
from tests.support.trees import BOXES, REGISTRY, Recording, judge, observe

KINDS = {
    **BOXES,
    "H100": h100_box,
    "VM": cloud_vm,
    "Docker": docker_box,
    "pod": pod_box,
    "WSL": wsl_box,
    "MI300X": amd_box,
}
ROUNDS = [pytest.param(40, id="sample")] + [
    pytest.param(250, id=f"round-{number}", marks=pytest.mark.slow) for number in range(times(9, 3))
]
"""For the nine kinds of box 20,610 trees together, and a share of 7,110."""
NUMBERS = (b"max", b"-1", b"0", b"18446744073709551615", b"0-65535", b"\xd9\xa3", b"1e9", b" \n")


class Tree:
    """A box that is spoilt again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.readers: dict[str, set[str]] = {}
        """Which probes read a file."""
        self.seen: dict[Key, Observation] = {}
        for probe in REGISTRY.probes.values():
            world = Recording(root)
            self.seen |= observe(world, probe)
            for path in world.asked:
                if self.place(path).is_file():
                    self.readers.setdefault(path, set()).add(probe.name)
        self.verdicts = judge(World(root), self.seen)

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @contextmanager
    def spoilt(self, random_: random.Random) -> Iterator[set[str]]:
        """Change one to three files for a while; gives the probes that read them."""
        files = sorted(self.readers)
        chosen = random_.sample(files, random_.choice((1, 1, 1, 2, 3)))
        good = {path: self.place(path).read_bytes() for path in chosen}
        try:
            for path, raw in good.items():
                if random_.random() < 0.3:
                    cut = random_.randrange(len(raw) + 1)
                    new = raw[:cut] + random_.choice(NUMBERS) + raw[cut + 1 :]
                else:
                    others = tuple(self.place(other).read_bytes() for other in chosen)
                    new = change_bytes(random_, raw, others)
                self.place(path).write_bytes(new)
            yield set().union(*(self.readers[path] for path in chosen))
        finally:
            for path, raw in good.items():
                self.place(path).write_bytes(raw)


@pytest.fixture(scope="module", params=KINDS)
def tree(request, tmp_path_factory) -> Tree:
    return Tree(KINDS[request.param]().write(tmp_path_factory.mktemp("spoilt")))


@pytest.mark.parametrize("count", ROUNDS)
def test_garbage_in_the_files_of_a_box_ends_in_verdicts(tree, count, request):
    random_ = random.Random(request.node.callspec.id)
    changed = 0
    for _ in range(count):
        with tree.spoilt(random_) as readers, watchdog():
            world = World(tree.root)
            seen = dict(tree.seen)
            for name in readers:
                seen |= observe(world, REGISTRY.probes[name])
            verdicts = judge(world, seen, readers)
        changed += not verdicts.items() <= tree.verdicts.items()
    assert set(REGISTRY.checks) == {name.partition("[")[0] for name in tree.verdicts}
    assert changed, "no garbage was noticed at all: nothing was looked at"
