"""Numbers for people: bytes in IEC units, spans of time in two units."""

from __future__ import annotations

_STEP = 1_024
_IEC = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def bytes_text(count: float) -> str:
    """Show bytes in IEC units: 25253380096 is `23.5 GiB`."""
    if abs(count) < _STEP:
        return f"{count:.0f} B"
    value = float(count)
    for unit in _IEC:
        value /= _STEP
        if abs(value) < _STEP - 0.05 or unit == _IEC[-1]:
            break
    return f"{value:.1f} {unit}"


def span_text(seconds: float) -> str:
    """Show a span of time: 19888000 s is `230 d 4 h`."""
    rest = abs(round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
