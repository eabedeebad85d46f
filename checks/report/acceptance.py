"""What is about to be accepted, as a table in 80 columns. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from checks.core.expectation import Expectation
from checks.core.units import bytes_text
from checks.ledger.acceptance import Row
from checks.report.terminal import Style, console_of
from checks.report.text import ascii_only, visible

_COLUMNS = (("unit", 5), ("was", 16), ("becomes", 16), ("specification", 16), ("rests on", 0))
"""Of the line below each check, with their widths; the last takes what is left."""


def table(rows: Iterable[Row], style: Style) -> str:
    """Show each value: what it was, what it becomes, and what it rests on."""
    out = io.StringIO()
    console = console_of(out, style, least_width=76)
    console.print(Text("check [subject]", style="bold"))
    console.print(_line([title for title, _ in _COLUMNS]))
    for row in rows:
        new = row.new
        console.print(Text(visible(f"{new.check} [{new.subject}]"), style="bold"))
        cells = (new.unit or "text", _beside(row.old), _value(new), _beside(row.specification))
        console.print(_line([*cells, _rests_on(row)]))
    lines = [line.rstrip() for line in out.getvalue().split("\n")]
    return "\n".join(lines if style.unicode else map(ascii_only, lines))


def _line(cells: Iterable[str]) -> Table:
    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    shown.add_column(width=0)  # sets it off the name above
    for _, width in _COLUMNS:
        shown.add_column(width=width or None, ratio=None if width else 1, overflow="fold")
    shown.add_row("", *(visible(cell) for cell in cells))
    return shown


def _beside(entry: Expectation | None) -> str:
    return "-" if entry is None else f"{_value(entry)} ({entry.basis})"


def _value(entry: Expectation) -> str:
    if isinstance(entry.value, str):
        return entry.value
    number = bytes_text(entry.value) if entry.unit == "By" else f"{entry.value:g}"
    return f"{number}{_tolerance(entry)}"


def _tolerance(entry: Expectation) -> str:
    """Show how far off it may be: ` -1.5/+1.5 %`; a side that is open has no number."""
    if entry.lower_ratio == entry.upper_ratio == 0.0:
        return ""  # a count is met exactly
    sides = [
        f"{ratio * 100:+g}" for ratio in (entry.lower_ratio, entry.upper_ratio) if ratio is not None
    ]
    return f" {'/'.join(sides)} %"


def _rests_on(row: Row) -> str:
    parts = [f"{slot}: {' '.join(kind.values())}" for slot, kind in row.new.premise.items()]
    parts += [f"{slot}: not readable, so any" for slot in row.unread]
    return "; ".join(parts) or "nothing"
