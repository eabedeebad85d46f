"""Whether there is no more swap than there should be."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.expectation import Case, Expected
from checks.core.facts import Unseen
from checks.core.finding import Judgement, fail, ok
from checks.core.judging import declared_or_always
from checks.core.registry import check
from checks.core.units import bytes_text
from checks.machine.facts import Swap

SWAPPED_RATIO = 0.1
"""Share of the memory's size that may be swapped out without a note (assumed)."""
MOST_NAMED = 8
_RULE = "without swap, or with one that nothing lies in, a box is well"


def _swap(expected: Expected) -> Iterator[Case[int | None]]:
    yield from declared_or_always(expected, "swap_max_bytes", _RULE)


@check(
    "machine.memory.swap",
    sees=Swap,
    cases=_swap,
    causes={"more-swap-than-declared": "more swap is configured than the profile allows"},
)
def swap_as_declared(seen: Swap, wanted: int | None) -> Judgement:
    """No more swap is configured than the profile allows.

    Looks at SwapTotal and SwapFree of /proc/meminfo, at /proc/swaps, and at whether zswap is on.
    zram is swap too, but compressed memory and no disk: it counts, and is told apart. Fails where
    there is more than the profile's hardware.swap_max_bytes. Where that is not declared, any swap
    passes; if more than a tenth of the memory's size lies in it, a note says so: weights that were
    swapped out answer slowly.
    What to do: `swapoff -a` as root, and take the swap out of /etc/fstab and of systemd's units
    (`systemctl list-units --type swap`); rerun.
    """
    used = seen.total_bytes - seen.free_bytes
    observed = {"swap_total_bytes": seen.total_bytes, "swap_used_bytes": used}
    expected = {} if wanted is None else {"swap_max_bytes": wanted}
    made_of, evidence = _made_of(seen)
    says = f"{bytes_text(seen.total_bytes)} of swap{made_of}" if seen.total_bytes else "no swap"
    if wanted is not None:
        says += f", at most {bytes_text(wanted)} wanted"
    if wanted is not None and not seen.total_bytes <= wanted:
        return fail(
            "more-swap-than-declared",
            says,
            remedy="take it away (`swapoff -a` as root; for good, out of /etc/fstab and of "
            "`systemctl list-units --type swap`; zram: `systemctl mask` what makes it, such as "
            "systemd-zram-setup@zram0 or zramswap), or correct hardware.swap_max_bytes; rerun",
            observed=observed,
            expected=expected,
            evidence=evidence,
        )
    notes: tuple[str, ...] = ()
    if used > seen.memory_total_bytes * SWAPPED_RATIO:
        where = (
            ", some of it perhaps kept compressed in memory (zswap)" if seen.zswap is True else ""
        )
        note = f"{bytes_text(used)} are swapped out{where}: weights among them answer slowly; find "
        note += (
            "what needs so much memory (`ps aux --sort -rss | head`), stop it, start the engine "
        )
        notes = (note + "anew, and rerun",)
    return ok(says, observed=observed, expected=expected, notes=notes, evidence=evidence)


def _made_of(seen: Swap) -> tuple[str, tuple[str, ...]]:
    """Say in short, and line by line, what the swap is made of."""
    if isinstance(seen.devices, Unseen):
        return "", (f"what it is made of was not seen: {seen.devices}",)
    compressed = sum(one.size_bytes for one in seen.devices if one.kind == "zram")
    short = f", {bytes_text(compressed)} of it in compressed memory (zram)" if compressed else ""
    lines = [
        f"{one.name}: {one.kind}, {bytes_text(one.size_bytes)}, {bytes_text(one.used_bytes)} used"
        for one in seen.devices[:MOST_NAMED]
    ]
    if isinstance(seen.zswap, Unseen):
        lines.append(f"whether zswap is on was not seen: {seen.zswap}")
    elif seen.zswap:
        lines.append("zswap is on: pages on their way to swap are first kept compressed in memory")
    return short, tuple(lines)
