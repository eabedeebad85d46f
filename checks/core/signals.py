"""The signals that end a run, and how to hold them back for a moment."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; Slurm, Kubernetes and systemd; a lost terminal."""


@contextmanager
def held() -> Iterator[None]:
    """Hold the ending signals back: they arrive when the block is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
