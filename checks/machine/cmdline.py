"""The kernel's command line.

Format: Documentation/admin-guide/kernel-parameters.rst of the kernel; next_arg of lib/cmdline.c.
"""

from __future__ import annotations

import re

from checks.core.facts import Unseen
from checks.core.world import World

_LIMITING = re.compile(
    r"(mem|memmap|crashkernel|maxcpus|nr_cpus|possible_cpus|isolcpus|nosmp|nosmt)(=|$)"
)


def parameters(world: World) -> tuple[str, ...] | Unseen:
    """List the parameters of the kernel; what stands behind ` -- ` is for the first process."""
    text = world.read("/proc/cmdline")
    if isinstance(text, Unseen):
        return text
    words: list[str] = re.findall(r'(?:[^\s"]|"[^"]*"?)+', text.replace("\x00", ""))
    return tuple(words[: words.index("--")] if "--" in words else words)


def limiting_parameters(world: World) -> tuple[str, ...] | Unseen:
    """List those that take memory or CPUs away."""
    words = parameters(world)
    return words if isinstance(words, Unseen) else tuple(filter(_LIMITING.match, words))
