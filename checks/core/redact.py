"""Redaction and capping: the one door that everything from outside passes.

Called when a probe returns, when a profile is kept in a ledger, and for words of the command
line. Nothing behind this door ever holds a token.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping

from checks.core.codec import Json

HIDDEN = "[redacted]"
LARGEST_TEXT_BYTES = 4_096
"""Raw evidence longer than this keeps its beginning and the digest of the whole."""
SHORTEST_SECRET = 8
"""Shorter values of secret variables (`1`, `true`) would blank out ordinary words."""

_NAME = r"(?:[A-Za-z0-9_.-]*(?:token|secret|passwd|password|passphrase|credential|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|encryption[_-]?key|[_-]key|auth|authorization|cookie)[A-Za-z0-9_]*)"
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.-])(?:token|secret|passwd|password|passphrase|credentials?|apikey|key|auth|authorization|cookie|pat)s?$"
    r"|(?i:api_?key|access_?key|private_?key|secret|token$|passw)"
)
_NOT_SECRET = re.compile(r"(?i)^(?:max_|num_|n_|min_)|tokens?_(?:per|count|limit|max)|tokenizer")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)"
        ),
        HIDDEN,
    ),
    # user:password@ in URLs, also without a password
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/@\"'<>]*@"), rf"\1{HIDDEN}@"),
    (
        re.compile(
            r"(?i)\b((?:proxy-)?authorization\b[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic|digest|token|negotiate)\s+)?[^\s\"',;]+"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b((?:set-)?cookie\s*:\s*)[^\r\n]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    # signed URLs and query secrets
    (
        re.compile(
            r"(?i)([?&](?:x-amz-(?:signature|security-token|credential)|x-goog-(?:signature|credential)|sig|signature|token|access_token|key|api_key|apikey|secret|password|policy|key-pair-id)=)[^\s&#\"'<>]+"
        ),
        rf"\1{HIDDEN}",
    ),
    # NAME_TOKEN=value, "api_key": "value", --api-key value
    (
        re.compile(
            rf"(?i)(?<![A-Za-z0-9])((?:--?)?{_NAME}[\"']?\s*(?:=|:(?!//))\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)"
        ),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"(?i)(?<!\S)(--?[a-z0-9-]*(?:token|secret|password|passwd|api-?key|access-?key|[a-z]-key)\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)"
        ),
        rf"\1{HIDDEN}",
    ),
    # shapes of well-known tokens
    (re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"), HIDDEN),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"), HIDDEN),
    (re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"), HIDDEN),
    (re.compile(r"\b(?:sk|rk|pk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"\bnvapi-[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), HIDDEN),
    (re.compile(r"\bya29\.[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"\b(?:dckr_pat|pypi|npm|wandb)[-_][A-Za-z0-9_-]{20,}"), HIDDEN),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), HIDDEN),
)


def names_secret(name: str) -> bool:
    """Whether a variable, key or option of this name holds a secret, as *_TOKEN, *_KEY, *_SECRET."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Collect the values that must not appear anywhere, longest first."""
    found = {
        value
        for name, value in environ.items()
        if names_secret(name) and len(value) >= SHORTEST_SECRET and "/" not in value[:1]
    }
    return tuple(sorted(found, key=len, reverse=True))


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Blank out everything that looks like, or is known to be, a secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def cap(text: str, limit: int = LARGEST_TEXT_BYTES) -> str:
    """Shorten a text to `limit` bytes of UTF-8 and append the digest of the whole."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    note = f" […{len(raw)} bytes, sha256:{hashlib.sha256(raw).hexdigest()}]"
    return raw[: limit - len(note.encode())].decode("utf-8", "ignore") + note


def redact(value: Json, secrets: Iterable[str] = (), name: str = "") -> Json:
    """Redact and cap every text of a JSON value; texts under a secret's name go whole."""
    if isinstance(value, str):
        if name and value and names_secret(name):
            return HIDDEN
        return cap(redact_text(value, secrets))
    if isinstance(value, list):
        return _redact_list(value, secrets, name)
    if isinstance(value, dict):
        return {
            redact_text(key, secrets): redact(item, secrets, key) for key, item in value.items()
        }
    return value


def _redact_list(value: list[Json], secrets: Iterable[str], name: str) -> list[Json]:
    """Redact a list; in a command line, the word behind `--api-key` is a secret."""
    result: list[Json] = []
    hide_next = False
    for item in value:
        if hide_next and isinstance(item, str) and not item.startswith("-"):
            result.append(HIDDEN)
        else:
            result.append(redact(item, secrets, name))
        is_option = isinstance(item, str) and item.startswith("-") and "=" not in item
        hide_next = is_option and names_secret(str(item).lstrip("-").replace("-", "_"))
    return result


ENVIRONMENT_SECRETS = secrets_of(os.environ)
"""Secrets of this process's own environment, taken once."""
