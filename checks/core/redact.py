"""Redaction and capping: the one door that everything from outside passes.

Called when a probe returns, when a profile is kept in a ledger, for words of the command line and
for error messages. Nothing behind this door ever holds a token. Four things tell a secret:

1. it is a value of this process's own environment whose variable is named as a secret;
2. the name in front of it: `HF_TOKEN=…`, `"api_key": "…"`, `--api-key …`, `Authorization: …`, `?sig=…`;
3. its place: `user:password@` in a URL, the word behind `Bearer`;
4. its shape: private keys, JSON Web Tokens, and the prefixes that token issuers use.

Where in doubt it hides too much. Every pattern is linear in the length of the text: a process of
the box chooses what stands in its command line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from functools import lru_cache

from checks.core.codec import Json

HIDDEN = "[redacted]"
LARGEST_TEXT_BYTES = 4_096
"""Raw evidence longer than this keeps its beginning and the digest of the whole."""
SHORTEST_SECRET = 8
"""Shorter values of secret variables (`1`, `true`) would blank out ordinary words."""

LONGEST_NAME = 200
"""A longer run of letters in front of `=` is no name; what stands behind it is hidden unseen."""

# 2. the name in front

_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|credential|authorization|cookie|sshpass"
    r"|(?:api|access|account|private|signing|encryption)_?keys?$"
    r"|(?:api|access|auth|hub|hf)_?tokens$"
    r"|(?:token|key|secret)_(?:\d+|prod|dev|test|staging|live|old|new|backup)$"
    r"|token$"
    r"|bearer$"
    r"|^hft$"  # llama.cpp's short form of --hf-token
    r"|(?:^|_)(?:key|auth|jwt|pwd|sig|signature)$"
    r"|_(?:pass|pat)$"
)
_HARMLESS_NAME = re.compile(r"(?:^|_)(?:max|min|num|n|eos|bos|pad|unk|public)_?(?:token|key)$")
"""Numbers and marks of a tokenizer, and what is public by its name."""

_NAMED = re.compile(
    r"""(?<![A-Za-z0-9_.-])
    (?: (?P<name>[A-Za-z0-9_.-]+) (?:\\?["'])? [ \t]*[=:][ \t]*   # NAME=  "name": "  Name: value
      | --?(?P<option>[A-Za-z][A-Za-z0-9_.-]*) [ \t]+ )""",
    re.VERBOSE,
)
_VALUE = re.compile(
    r"""(?!(?:true|false|null|none)(?:[\s"',;&)}\]]|$))   # a switch
    (?!found\ |missing;|unknown\ key;)     # our own errors
    (?![{\[]+(?:[\s"'\\]|$))              # a structure; its own names tell
    (?: \[redacted\]
      | \\"[^"\\\n]*(?:\\?")?           # \"value\" of JSON within JSON
      | (?: \$?"(?:[^"\\\n]|\\.)*"? | \$?'[^'\n]*'? )   # and what a shell puts on to it
        (?: "(?:[^"\\\n]|\\.)*"? | '[^'\n]*'? | \\[^\n"] | [^\s"'\\,;:&)}\]] )*
      | (?: \\[^\n"] | [^\s"'\\,;&]
          | [,;&](?![\s"',;&)}\]]|$|[\w.-]{1,200}=[^=\s]) )+ )""",  # not the next NAME=
    re.VERBOSE | re.IGNORECASE,
)
_OPTION_AGAIN = re.compile(r"--?[a-z][a-z0-9-]*(?=[\s=]|$)")
"""What may follow an option that takes no value."""
_HEADER = re.compile(r"authorization|cookie|^x-")
_HEADER_WORD = re.compile(r"(?i)[a-z0-9_.-]*(?:authorization|cookie)[a-z0-9_.-]*\s*[=:]")
_HEADER_VALUE = re.compile(r"""\\?["']?[^"'\n\\]+""")
"""The value of a header has several words: `Basic …`, `a=…; b=…`."""

# 3. and 4. place and shape

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:(?!-----END).)*(?:-----END[A-Z0-9 ]{0,60}-----)?",
            re.DOTALL,
        ),
        HIDDEN,
    ),
    # up to the last @ in front of the path; a second way for a password with a slash in it
    (re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^\s/\"'<>]*@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(://)[^\s/@:\"'<>]{1,200}:(?!\d{1,5}/)[^\s@\"'<>]{1,200}@"), rf"\1{HIDDEN}@"),
    # a chat's hook: who knows the address may write
    (
        re.compile(
            r"(?i)(https?://(?:hooks\.slack\.com/(?:services|workflows)|[a-z.]{0,40}discord(?:app)?\.com/api/webhooks)/)"
            r"[^\s\"'<>]+"
        ),
        rf"\1{HIDDEN}",
    ),
    # curl -u name:password; not docker -u 1000:1000
    (
        re.compile(
            r"(?<![^\s\"'])(-u|--user|--proxy-user|-U)([ =][\"']?)(?!\d+:\d+\b)([^\s:\"']{1,200}):[^\s\"']+"
        ),
        rf"\1\2\3:{HIDDEN}",
    ),
    (
        re.compile(r"(?<![^\s\"'])(-[uU])(?!\d+:\d+\b)([^\s:=\"']{1,200}):(?!//)[^\s\"']+"),
        rf"\1\2:{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer)\s+[a-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\b([Bb]asic)\s+(?=[a-z]{0,60}[A-Z0-9=])[A-Za-z0-9+/=]{8,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}[A-Za-z0-9._-]*"),
        HIDDEN,
    ),
    (
        # Hugging Face, GitHub, GitLab, Slack, OpenAI and those who copied it, NVIDIA, Google, Docker,
        # package indexes, Groq, Replicate; a digit among the first letters tells a token from a word
        re.compile(
            r"(?<![A-Za-z0-9])(?:hf_|api_org_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|[srp]k[-_]"
            r"|nvapi-|AIza|ya29\.|dckr_pat_|pypi-|npm_|gsk_|r8_)"
            r"(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}"
        ),
        HIDDEN,
    ),
    (re.compile(r"(?<![A-Za-z0-9])(?:hf_[A-Za-z]{30,}|A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12,})"), HIDDEN),
)


@lru_cache(maxsize=4_096)
def names_secret(name: str) -> bool:
    """Whether a variable, key or option of this name is that of a secret, such as *_TOKEN, *_KEY, *_SECRET."""
    if len(name) > LONGEST_NAME:
        return True
    words = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name))
    plain = words.strip("_").lower()
    return bool(_SECRET_NAME.search(plain)) and not _HARMLESS_NAME.search(plain)


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Collect the texts that must not appear anywhere, longest first, in each usual spelling."""
    plain = set()
    for name, value in environ.items():
        # the path of a key file is no secret
        if names_secret(name) and not (value.startswith("/") and os.path.lexists(value)):
            plain.add(value)
        plain.update(_passwords(value))
    found = set()
    for value in plain:
        if len(value) >= SHORTEST_SECRET:
            inner = json.dumps(value)[1:-1]
            found |= {value, inner, json.dumps(value, ensure_ascii=False)[1:-1]}
            found |= {urllib.parse.quote(value, safe=""), repr(value)[1:-1]}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _passwords(value: str) -> Iterable[str]:
    """Find the password of a URL, as HTTPS_PROXY and DATABASE_URL hold it."""
    if "://" not in value or "@" not in value:
        return
    login, at, _ = value.partition("://")[2].rpartition("@")
    password = login.partition(":")[2]
    if at and password:
        yield password
        yield urllib.parse.unquote(password)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Blank out everything that looks like, or is known to be, a secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _hide_named(text)


def _hide_named(text: str) -> str:
    """Blank out the values that stand behind the name of a secret."""
    parts: list[str] = []
    done = 0
    for found in _NAMED.finditer(text):
        name = found["name"] or found["option"]
        if found.start() < done or not names_secret(name):
            continue
        start = found.end()
        if found["option"] and _OPTION_AGAIN.match(text, start):
            continue
        header = found["name"] and _HEADER.search(name.lower())
        value = (_HEADER_VALUE if header else _VALUE).match(text, start)
        if value is not None:
            parts += [text[done:start], HIDDEN]
            done = value.end()
            more = _MORE_WORDS.match(text, done)
            if more is not None and _MANY.fullmatch(f"--{name}"):
                done = more.end()
    return "".join(parts) + text[done:] if parts else text


def cap(text: str, limit: int = LARGEST_TEXT_BYTES) -> str:
    """Shorten a text to `limit` bytes of UTF-8 and append the digest of the whole."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    note = f" […{len(raw)} bytes, sha256:{hashlib.sha256(raw).hexdigest()}]"
    return raw[: limit - len(note.encode())].decode("utf-8", "ignore") + note


def redact(value: Json, secrets: Iterable[str] = (), name: str = "") -> Json:
    """Redact and cap every text of a JSON value; texts under a secret's name go whole."""
    known = tuple(secrets)
    hidden = bool(name) and names_secret(name)
    if isinstance(value, str):
        return HIDDEN if hidden and value else cap(redact_text(value, known))
    if isinstance(value, list):
        return _redact_list(value, known, name)
    if isinstance(value, dict):
        # {"name": "HF_TOKEN", "value": "…"}, as containers list their environment
        named = value.get("name")
        about = named if isinstance(named, str) and set(value) <= {"name", "value"} else ""
        return {
            redact_text(key, known): redact(
                item, known, name if hidden else about if key == "value" and about else key
            )
            for key, item in value.items()
        }
    return value


def _redact_list(value: list[Json], secrets: tuple[str, ...], name: str) -> list[Json]:
    """Redact a list; in a command line, the word behind `--api-key` is a secret.

    Behind `Authorization:` as a word of its own, all words up to the next option are.
    """
    result: list[Json] = []
    awaited = in_header = many = False
    before: Json = None
    for item in value:
        if awaited and isinstance(item, str) and not _OPTION_AGAIN.match(item):
            result.append(HIDDEN if item else item)
        else:
            in_header = many = False
            result.append(_redact_word(item, secrets, name))
            if before in _LOGIN_OPTIONS and isinstance(item, str) and not _USER_IDS.fullmatch(item):
                user, colon, password = item.partition(":")
                if colon and password:
                    result[-1] = f"{redact_text(user, secrets)}:{HIDDEN}"
        before = item
        if isinstance(item, str):
            in_header = in_header or bool(_HEADER_WORD.fullmatch(item))
            many = many or bool(_MANY.fullmatch(item))
        awaited = in_header or many or (isinstance(item, str) and _awaits_secret(item))
    return result


def _redact_word(item: Json, secrets: tuple[str, ...], name: str) -> Json:
    """Redact one word of a list; all that stands behind `HF_TOKEN=` is one value there."""
    if isinstance(item, str):
        key, equals, value = item.partition("=")
        if equals and value and _KEY.fullmatch(key) and names_secret(key.lstrip("-")):
            return f"{key}={HIDDEN}"
    return redact(item, secrets, name)


_MORE_WORDS = re.compile(
    r"""(?: [ \t]+ (?! [-;&|<>(){}\[\]`#] )
        (?: \\"[^"\n]*" | "[^"\n]*" | '[^'\n]*' | [^\s;&|<>(){}"'`]+ ) )+""",
    re.VERBOSE,
)
"""What may be further secrets behind the first; up to the next option or the end of the command."""
_KEY = re.compile(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]{0,200}")
_MANY = re.compile(r"(?i)--api[-_]keys?")
"""Options that take several secrets, one a word (vLLM)."""
_LOGIN_OPTIONS = ("-u", "-U", "--user", "--proxy-user")
_USER_IDS = re.compile(r"\d+:\d+")
"""docker -u 1000:1000"""
_AWAITING = re.compile(
    r"(?i)--?(?P<option>[a-z][a-z0-9_.-]*)|(?P<name>[a-z0-9_.-]+)\s*[=:]|bearer|basic"
)


def _awaits_secret(word: str) -> bool:
    """Whether the next word of a command line is a secret: `--api-key`, `Authorization:`, `Bearer`."""
    found = _AWAITING.fullmatch(word)
    if found is None:
        return False
    name = found["option"] or found["name"]
    return names_secret(name) if name else True


ENVIRONMENT_SECRETS = secrets_of(os.environ)
"""Secrets of this process's own environment, taken once."""
