"""Real cgroups for tests, of whichever version this machine has. Wants root."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

PERIOD_US = 100_000


@dataclass
class Hierarchy:
    """Where cgroups with a CPU quota and a set of CPUs can be made."""

    version: int
    cpu: Path
    cpuset: Path
    made: list[Path] = field(default_factory=list)

    def make(self, name: str, *, quota_cpus: float | None = None, cpus: str = "") -> list[Path]:
        """Make a cgroup; gives the folders into whose cgroup.procs a process has to go."""
        folders = [self.cpu / name] if self.version == 2 else [self.cpu / name, self.cpuset / name]
        for folder in folders:
            folder.mkdir()
            self.made.append(folder)
        if self.version == 2:
            self._enable(folders[0])
            if quota_cpus:
                text = f"{round(quota_cpus * PERIOD_US)} {PERIOD_US}"
                (folders[0] / "cpu.max").write_text(text)
            if cpus:
                (folders[0] / "cpuset.cpus").write_text(cpus)
            return folders
        if quota_cpus:
            (folders[0] / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
            (folders[0] / "cpu.cfs_quota_us").write_text(f"{round(quota_cpus * PERIOD_US)}")
        # a set without CPUs and memory nodes takes no process
        parent = folders[1].parent
        (folders[1] / "cpuset.mems").write_text((parent / "cpuset.mems").read_text())
        (folders[1] / "cpuset.cpus").write_text(cpus or (parent / "cpuset.cpus").read_text())
        return folders

    def _enable(self, folder: Path) -> None:
        """Let a cgroup of version 2 have the files of both controllers."""
        (folder.parent / "cgroup.subtree_control").write_text("+cpu +cpuset")

    def remove(self) -> None:
        """End what still runs in them, and remove them, innermost first."""
        for folder in reversed(self.made):
            for _ in range(200):
                pids = (folder / "cgroup.procs").read_text().split()
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), 9)
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)
        self.made.clear()

    def remount(self) -> str:
        """Give the shell line that mounts the cgroups as a container's runtime does."""
        mounts = {self.cpu: "cgroup2"} if self.version == 2 else {}
        if self.version == 1:
            mounts = {self.cpu: "cgroup -o cpu", self.cpuset: "cgroup -o cpuset"}
        return " && ".join(
            f"umount -l {point} && mount -t {kind} none {point}" for point, kind in mounts.items()
        )


def writable_hierarchy() -> Hierarchy | None:
    """Find a hierarchy with the CPU controllers in which this user may make cgroups."""
    if os.geteuid() != 0:
        return None
    for found in (
        Hierarchy(2, Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup")),
        Hierarchy(1, Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpuset")),
    ):
        try:
            if found.version == 2:
                names = (found.cpu / "cgroup.controllers").read_text().split()
                if not {"cpu", "cpuset"} <= set(names):
                    continue
            found.make(f"preflight-try-{os.getpid()}")
        except OSError:
            continue
        else:
            return found
        finally:
            with contextlib.suppress(OSError):
                found.remove()
    return None
