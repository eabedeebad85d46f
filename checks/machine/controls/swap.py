"""As much swap as is allowed, and a little more."""

from __future__ import annotations

from checks.core.registry import control
from checks.machine.facts import Swap


def _swap(total: int, used: int = 0) -> Swap:
    return Swap(
        total_bytes=total,
        free_bytes=total - used,
        memory_total_bytes=1_000,
        devices=(),
        zswap=False,
    )


for _total, _most, _cause in (
    (0, None, ""),
    (0, 0, ""),
    (1, None, ""),
    (1, 0, "more-swap-than-declared"),
    (500, 500, ""),
    (501, 500, "more-swap-than-declared"),
):
    control("machine.memory.swap", _swap(_total), _most, fails=_cause, passes=not _cause)
control("machine.memory.swap", _swap(900, used=900), passes=True)
