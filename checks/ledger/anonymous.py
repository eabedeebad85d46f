"""A copy of a ledger that can be shown to strangers: no host, address, serial or user in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from checks.core.codec import MARK, Json
from checks.core.facts import BOX, Blind
from checks.core.load import LOCAL_HOST
from checks.core.place import THIS
from checks.core.verdict import Reason
from checks.ledger.canonical import ledger_digest
from checks.ledger.document import OTHER_BASELINE, OTHER_REPLAYED, Ledger, Row

HIDDEN = "[anonymous]"

_PERSONAL = {
    "accepted_by",
    "description",
    "file",
    "label",
    "mounted_from",
    "resolv_conf",
    "resolver",
    "ticket",
}
"""Keys whose text goes whole."""
_IDENTIFYING = re.compile(r"(?:.*_)?(?:address|serials?|uuid|host_name|machine_id|boot_id)")
"""Keys whose text goes whole, and wherever else a part of it stands."""
_IDENTITY = "identity"
"""Key of a table of which the same is true, whatever its fields are called."""
_PLACE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""An address on the PCI bus: a place that every box of this make has."""
_UNREAD = "unread"
"""Key that a part of the fingerprint has beside it."""
_OURS = {
    "area",
    "basis",
    "blind",
    "effect",
    "excused",
    "cause",
    "check",
    "counts",
    "digest",
    "end",
    "id",
    "probe",
    "replay_of",
    "schema",
    "scope",
    "sha256",
    "type",
    "unseen",
    "verdict",
    "versions",
}
"""Keys whose content is made of our own words and digests, and of nothing of the box; in what a
probe saw, or a person wrote, they may be called so and hold anything."""
_REASONS = {reason.value for reason in (*Reason, *Blind)}
_VOCABULARY = re.compile(r"[a-z_]+(\[.*\])?|[A-Z_]+", re.DOTALL)
"""Keys that we, the kernel or an engine have named: fields, slots, environment variables."""
SHORTEST_NAME = 3
"""A host that is called `a1` would take half of the words with it."""

_PATTERNS = (
    # names of ledgers hold host, label and ticket
    (re.compile(r"\b(\d{8}T\d{6}Z)-[^\s/]*\.json\b"), rf"\1-{HIDDEN}.json"),
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{1,30}://)[^\s\"'<>]+"), rf"\1{HIDDEN}"),
    # a name with dots and a port is a host
    (re.compile(r"(?<![\w.-])(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(:\d{2,5})\b"), rf"{HIDDEN}\1"),
    # user folders: the name goes, the rest tells what was looked at
    (re.compile(r"(/(?:home|Users|users|nethome|u)/)[^/\s:\"'()\[\],;]+"), rf"\1{HIDDEN}"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), HIDDEN),
    # hardware addresses have 6 pairs, of InfiniBand 8 or 20
    (re.compile(r"\b(?:[0-9a-fA-F]{2}[:-]){5,19}[0-9a-fA-F]{2}\b"), HIDDEN),
    # IPv6, whole or shortened; not `0::/user.slice`, a cgroup
    (
        re.compile(
            r"(?<![\w:.])(?!0::/(?!\d))(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
            r"|(?:[0-9A-Fa-f]{1,4}:){6}(?:\d{1,3}\.){3}\d{1,3}"
            r"|(?:[0-9A-Fa-f]{1,4}:){0,6}(?:[0-9A-Fa-f]{1,4})?::[0-9A-Fa-f:.]{0,40})(?!\w)"
        ),
        HIDDEN,
    ),
    (re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"), HIDDEN),
    (re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b"), HIDDEN),
)

_HUB_CACHE = "/.cache/huggingface/hub"
"""Where the model cache lies in a home folder, if nothing says otherwise."""
_NOBODYS = {"", "/", "/root", "/tmp", "/nonexistent"}  # noqa: S108 - named, not written to
"""Home folders that tell nothing of anybody."""
_OWN_LEVELS = 3
"""From so many levels on, a folder is somebody's own, and not the likes of /var/lib."""

_Rules = tuple[tuple[re.Pattern[str], str], ...]


def anonymous(
    ledger: Ledger,
    names: Iterable[str] = (),
    *,
    homes: Iterable[str] = (),
    folders: Iterable[str] = (),
) -> Row:
    """Make the copy; it carries the digest of the original and one of its own.

    Args:
        ledger: the original.
        names: further words that must go, such as the login name.
        homes: home folders, which become `~`; that of the run itself is known by its model cache.
        folders: further folders whose paths must go; that of the ledgers is known.

    """
    words = {str(ledger.row["host"]), *names, *_names_of(ledger.row)}
    words |= {str(ledger.run[key]) for key in ("label", "ticket")}
    words |= _others_named(ledger.row)
    words -= {LOCAL_HOST, BOX, THIS}
    known = sorted((word for word in words if len(word) >= SHORTEST_NAME), key=len, reverse=True)
    rules = (*_paths(ledger.row, homes, folders), *_PATTERNS)
    if known:
        body = "|".join(re.escape(word) for word in known)
        pattern = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])")
        rules = (*rules, (pattern, HIDDEN))
    row = _clean(ledger.row, rules, "")
    assert isinstance(row, dict)  # noqa: S101 - an object stays an object
    copy: Row = dict(row)
    copy["schema"] = ledger.row["schema"]
    copy["host"] = HIDDEN
    copy["run"]["label"] = copy["run"]["ticket"] = ""
    copy["previous"] = None
    copy["run"]["kind"] = ledger.run["kind"]
    copy["time"]["boot_id"] = None
    copy["anonymous_of"] = ledger.row["digest"]
    copy["digest"] = ledger_digest(copy)
    return copy


def _others_named(row: Row) -> set[str]:
    """Find the tickets of waivers and of accepted values, and other boxes that this run was compared with."""
    files = [row["profile"]["file"], *(each["file"] for each in row["expectations"])]
    boxes = {PurePosixPath(file).stem for file in files}
    boxes |= {
        notice.removeprefix(known)
        for notice in row["notices"]
        for known in (OTHER_BASELINE, OTHER_REPLAYED)
        if notice.startswith(known)
    }
    # the schema leaves open what a profile holds, so a ticket is looked for wherever one may stand
    compared = [row["profile"]["content"], *(each["content"] for each in row["expectations"])]
    tickets = {text for key, text in _texts(compared) if key == "ticket"}
    return (tickets | boxes) - {""}


def _texts(value: Json, key: str = "") -> Iterator[tuple[str, str]]:
    """Give every text at any depth, with the key that it stands under; of what was seen, no errors."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, dict) and MARK not in value:
        for inner, item in value.items():
            yield from _texts(item, f"{_IDENTITY}_serial" if key == _IDENTITY else inner)


def _paths(row: Row, homes: Iterable[str], folders: Iterable[str]) -> _Rules:
    """Give the rules for whole paths, longest first: a folder may lie in a home."""
    seen = {
        str(observation.get("subject")): dict(observation.get("data", {}))
        for observation in row["observations"]
        if observation.get("type") == "machine.Folder"
    }
    shown = dict.fromkeys({*homes, *_home_of(seen)} - _NOBODYS, "~")
    shown |= dict.fromkeys(set(folders) - _NOBODYS, HIDDEN)
    ledgers = str(seen.get("ledgers", {}).get("path", ""))
    if ledgers.startswith("/"):
        shown[ledgers] = HIDDEN
        # it ends in the host's name; above it lies the folder of all hosts, or the likes of /var/lib
        above = ledgers.rpartition("/")[0]
        if above.count("/") >= _OWN_LEVELS and not any(
            data.get("path") == above for data in seen.values()
        ):
            shown[above] = HIDDEN
    # what stands in front of a path ends a word, or is a short option that it is written to
    return tuple(
        (
            re.compile(
                r"(?:(?<![\w.~-])|(?<=\s-[A-Za-z]))" + re.escape(path) + r"(?![\w-]|\.\w)",
            ),
            shown[path],
        )
        for path in sorted(shown, key=len, reverse=True)
    )


def _home_of(folders: dict[str, Row]) -> set[str]:
    """Find the home folder of whoever ran it; one of a single level may be a disk as well."""
    cache = str(folders.get("model-cache", {}).get("path", ""))
    home = cache.removesuffix(_HUB_CACHE)
    return {home} if home != cache and home.count("/") > 1 else set()


def _names_of(value: Json) -> set[str]:
    """Find what identifies the box, wherever a ledger says it; a host also without its domain."""
    names: set[str] = set()
    for key, text in _texts(value):
        if identifies(key):
            names.add(text)
            names |= {text.partition(".")[0]} if key == "host_name" else set(text.split())
    names = {name for name in names if not _PLACE.fullmatch(name)}
    return names - {"", "localhost", "none"}


def identifies(key: str) -> bool:
    """Whether what stands under a key tells one box, or one part, from all others."""
    return _IDENTIFYING.fullmatch(key) is not None


def _clean(value: Json, rules: _Rules, key: str, *, seen: bool = False) -> Json:
    """Clean a value at any depth; `seen` where it is of what a probe saw or a person wrote."""
    if key == "env" and isinstance(value, dict):
        # numbers are what a run is judged by; of the rest nobody knows what it says
        return {name: text if _is_number(text) else HIDDEN for name, text in value.items()}
    if (
        key == MARK or (not seen and key in _OURS) or (key == "reason" and str(value) in _REASONS)
    ):  # a waiver's is free text
        return value
    if isinstance(value, str):
        if _PLACE.fullmatch(value):
            return value
        if key in _PERSONAL or identifies(key):
            return HIDDEN if value else value
        return _covered(value, rules)
    if isinstance(value, list):
        return [_clean(item, rules, key, seen=seen) for item in value]
    if isinstance(value, dict):
        clean = {
            _clean_key(name, rules): _clean(
                item, rules, name, seen=seen or name in ("data", "content")
            )
            for name, item in value.items()
        }
        identity = value.get(_IDENTITY)
        if _UNREAD in value and isinstance(identity, dict):
            # of a part: nothing, and not one text that would seem the same of all
            clean[_IDENTITY] = dict.fromkeys(identity)
        return clean
    return value


def _is_number(value: Json) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit()


def _clean_key(name: str, rules: _Rules) -> str:
    if name in _OURS or _VOCABULARY.fullmatch(name):
        return name
    return _covered(name, rules)


def _covered(text: str, rules: _Rules) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
