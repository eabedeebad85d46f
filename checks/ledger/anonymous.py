"""A copy of a ledger that can be shown to strangers: no host, address, serial or user in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.core.codec import Json
from checks.ledger.canonical import ledger_digest
from checks.ledger.document import Ledger, Row

HIDDEN = "[anonymous]"

_KEYS = {
    "board_serial",
    "boot_id",
    "description",
    "dimm_serials",
    "file",
    "host_name",
    "identity_text",
    "label",
    "machine_id",
    "product_uuid",
    "resolver",
    "serial",
    "serials",
    "ticket",
    "uuid",
    "address",
}
"""Keys whose text goes whole."""

_PATTERNS = (
    # user folders: the name goes, the rest tells what was looked at
    (re.compile(r"(/(?:home|Users|users|nethome|export/home|u)/)[^/\s:\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), HIDDEN),
    (re.compile(r"\b(?:[0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}\b"), HIDDEN),
    (re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"), HIDDEN),
    (
        re.compile(
            r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
            r"|(?:[0-9A-Fa-f]{1,4}:){0,6}(?:[0-9A-Fa-f]{1,4})?::[0-9A-Fa-f:.]{0,40})(?![\w:])"
        ),
        HIDDEN,
    ),
    (re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b"), HIDDEN),
)


def anonymous(ledger: Ledger, names: Iterable[str] = ()) -> Row:
    """Make the copy; it carries the digest of the original and one of its own.

    Args:
        ledger: the original.
        names: further words that must go, such as the login name.

    """
    words = {ledger.row["host"], *names, *_host_names(ledger)}
    known = sorted((word for word in words if len(word) > 1), key=len, reverse=True)
    pattern = None
    if known:
        body = "|".join(re.escape(word) for word in known)
        pattern = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])")
    row = _clean(ledger.row, pattern, "")
    assert isinstance(row, dict)  # noqa: S101 - an object stays an object
    copy: Row = dict(row)
    copy["schema"] = ledger.row["schema"]
    copy["host"] = HIDDEN
    copy["run"]["label"] = copy["run"]["ticket"] = ""
    copy["previous"] = None
    for slot, part in copy["fingerprint"].items():
        # the digest of a serial number can be searched for; slots with an address in them stay
        copy["fingerprint"][slot] = {**part, "identity": None, "identity_text": ""}
    copy["time"]["boot_id"] = None
    copy["anonymous_of"] = ledger.row["digest"]
    copy["digest"] = ledger_digest(copy)
    return copy


def _host_names(ledger: Ledger) -> set[str]:
    """Find what the box calls itself, with and without its domain."""
    names = set()
    for row in ledger.row["observations"]:
        name = row.get("data", {}).get("host_name")
        if isinstance(name, str):
            names |= {name, name.partition(".")[0]}
    return names - {"", "localhost"}


def _clean(value: Json, names: re.Pattern[str] | None, key: str) -> Json:
    if isinstance(value, str):
        if key in _KEYS:
            return HIDDEN if value else value
        if key in ("digest", "sha256", "source_sha256", "kind", "started_utc", "ended_utc"):
            return value
        for pattern, replacement in _PATTERNS:
            value = pattern.sub(replacement, value)
        return names.sub(HIDDEN, value) if names else value
    if isinstance(value, list):
        return [_clean(item, names, key) for item in value]
    if isinstance(value, dict):
        return {
            (names.sub(HIDDEN, name) if names else name): _clean(item, names, name)
            for name, item in value.items()
        }
    return value
