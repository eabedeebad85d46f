"""Reads lists of GPUs as CUDA, HIP and ROCr do: nothing behind the first bad entry is visible. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from checks.core.facts import Field, Unseen

_HIDES_ALL = ("", "nodevfiles", "none", "void")
"""What people and schedulers write to hide every GPU: no number, so nothing is visible."""
_LARGEST_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Among:
    """The GPUs that a list chooses from, and whose rules it follows."""

    most: int | None
    """How many there are to name by number; None where that is not known."""
    uuids: tuple[Field, ...] | Unseen
    cuda: bool
    """Whether a number may be followed by anything, and a repeated one hides all, as under CUDA."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a list of GPUs leaves visible."""

    indices: tuple[int, ...] = ()
    """Of those that it names by number."""
    others: tuple[str, ...] = ()
    """Those that it names by UUID, or by a number of which nobody knows whether it is there."""
    wrong: str = ""
    """The first entry that names no GPU, and why."""
    notes: tuple[str, ...] = ()
    ended: bool = False
    """Whether nothing of what follows counts."""

    @property
    def count(self) -> int:
        """How many are visible."""
        return len(self.indices) + len(self.others)


def read_list(value: str, among: Among) -> Shown:
    """Read the value of a variable that chooses GPUs."""
    shown = Shown()
    entries = value.split(",")
    for position, entry in enumerate(entries):
        shown = _entry(entry, shown, among, first=position == 0)
        if shown.ended:
            rest = ",".join(entries[position + 1 :])
            if rest.strip(", ") and not shown.wrong:
                note = f"nothing behind {entry.strip()!r} is visible: {rest}"
                shown = replace(shown, notes=(*shown.notes, note))
            break
    return shown


def _entry(entry: str, shown: Shown, among: Among, *, first: bool) -> Shown:
    text = entry.strip()
    if text in shown.others:
        return _again(text, shown, among)
    if text.startswith("MIG-"):
        note = f"{text} is a part of a GPU (MIG), and whether it is there was not looked at"
        return replace(shown, others=(*shown.others, text), notes=(*shown.notes, note))
    if text.startswith("GPU-"):
        return _uuid(text, shown, among)
    digits = re.match(r"[0-9]+", text)
    if digits:
        return _number(entry, digits[0], shown, among)
    if not text or text.startswith("-") or (first and text.lower() in _HIDES_ALL):
        return replace(shown, ended=True)
    return _wrong(shown, f"{text!r}, which is neither a number nor a UUID")


def _wrong(shown: Shown, what: str) -> Shown:
    return replace(shown, wrong=what, ended=True)


def _again(what: str, shown: Shown, among: Among) -> Shown:
    # as PyTorch's torch/cuda/__init__.py retells it of CUDA; ROCr and HIP count it once
    return _wrong(shown, f"{what} twice, which hides all of them") if among.cuda else shown


def _uuid(text: str, shown: Shown, among: Among) -> Shown:
    """A UUID may be shortened to what no other begins with."""
    known = () if isinstance(among.uuids, Unseen) else among.uuids
    texts = [uuid for uuid in known if not isinstance(uuid, Unseen)]
    fits = sum(uuid.lower().startswith(text.lower()) for uuid in texts)
    if fits > 1:
        return _wrong(shown, f"{text}, which fits {fits} GPUs")
    if not fits and not isinstance(among.uuids, Unseen) and len(texts) == len(known):
        return _wrong(shown, f"{text}, which is no GPU here")
    notes = shown.notes
    if not fits:
        notes += (f"whether {text} is here cannot be told: not every UUID could be read",)
    return replace(shown, others=(*shown.others, text), notes=notes)


def _number(entry: str, digits: str, shown: Shown, among: Among) -> Shown:
    if not among.cuda and entry != digits:
        note = f"HIP takes bare numbers alone: nothing from {entry!r} on is visible"
        return replace(shown, notes=(*shown.notes, note), ended=True)
    if among.most is None:
        return replace(shown, others=(*shown.others, digits))
    too_long = len(digits) > _LARGEST_DIGITS
    index = among.most if too_long else int(digits)
    if index >= among.most:
        last = among.most - 1
        return _wrong(shown, f"{digits[:20]}, and the last number here is {last}")
    if index in shown.indices:
        return _again(str(index), shown, among)
    return replace(shown, indices=(*shown.indices, index))
