"""Ends this process by SIGKILL just before its n-th change of the disk.

What stands between two changes cannot be told apart afterwards, so these points are all there are.
The calls are wrapped, not replaced: what is written is written by the code under test.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def arm(point: int) -> None:
    """Let `point` changes through and die before the next; a write dies half-way through."""
    left = [point]
    own = os.getpid()
    write, fsync = os.write, os.fsync
    replace, unlink = Path.replace, Path.unlink

    def due() -> bool:
        if os.getpid() != own:  # a probe's child
            return False
        left[0] -= 1
        return left[0] < 0

    def die() -> None:
        os.kill(own, signal.SIGKILL)

    def dying_write(descriptor, data):
        if descriptor > 2 and due():
            write(descriptor, bytes(data)[: len(data) // 2])
            die()
        return write(descriptor, data)

    def dying_fsync(descriptor):
        if due():
            die()
        return fsync(descriptor)

    def dying_replace(self, target):
        if due():
            die()
        return replace(self, target)

    def dying_unlink(self, missing_ok=False):  # noqa: FBT002 - the signature is pathlib's
        if due():
            die()
        return unlink(self, missing_ok=missing_ok)

    os.write, os.fsync = dying_write, dying_fsync
    Path.replace, Path.unlink = dying_replace, dying_unlink
