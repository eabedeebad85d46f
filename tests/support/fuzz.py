"""What the fuzzing tests share: a watchdog, nasty values, and changes of bytes and of JSON."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DEADLINE_S = 5.0
"""For one input. Most take milliseconds; a busy machine may stop us for seconds."""


class HangError(BaseException):
    """An input took too long. Not an Exception, so that nothing on the way swallows it."""


@contextmanager
def watchdog(seconds: float = DEADLINE_S) -> Iterator[None]:
    """End what takes longer than it may."""

    def ring(*_: object) -> None:
        raise HangError(f"no end within {seconds} s")

    earlier = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


ESCAPES = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\x7f\b\r"
"""What would colour, rename, clear or overwrite a terminal."""

BYTES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\r",
    b"\x1b[2J",
    b"\xc3\x28",
    b"[" * 3_000,
    b"{" * 3_000,
    b"9" * 5_000,
    b"-1",
    b"1e999",
    b"nan",
    b"inf",
    b"-Infinity",
    b"NaN",
    b"true",
    b"null",
    b'"',
    b"'''",
    b'"""',
    b"\\",
    b"\\ud800",
    b"#",
    b"=",
    b"[[",
    b"]]",
    b".",
    b",",
    b"\n",
    b"9999-99-99",
    b"0000-00-00",
    b"1979-05-27T07:32:00Z",
    b"25:61:61",
    b"0x",
    b"1_000",
    b"schema = 1\n",
    b'{"a":1,"a":2}',
    b"a.b.c.d = 1\n",
)
"""What is put into files."""


def change_bytes(random_: random.Random, raw: bytes, others: tuple[bytes, ...] = ()) -> bytes:
    """Change bytes of a file in one to four places."""
    data = bytearray(raw)
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(data) + 1)
        end = min(len(data), at + random_.choice((1, 1, 2, 5, 40, 400)))
        match random_.randrange(9):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = random_.choice(BYTES)
            case 2:
                data[at:end] = random_.choice(BYTES)
            case 3:
                data[at:at] = data[at:end]
            case 4:
                if at < len(data):
                    data[at] ^= 1 << random_.randrange(8)
            case 5:
                del data[at:]
            case 6:
                lines = bytes(data).split(b"\n")
                one, two = random_.randrange(len(lines)), random_.randrange(len(lines))
                lines[one], lines[two] = lines[two], lines[one]
                data[:] = b"\n".join(lines)
            case 7:
                lines = bytes(data).split(b"\n")
                one = random_.randrange(len(lines))
                lines[one:one] = [random_.choice(lines)] * random_.choice((1, 1, 300))
                data[:] = b"\n".join(lines)
            case 8:
                other = random_.choice(others) if others else raw
                cut = random_.randrange(len(other) + 1)
                data[at:] = other[cut:]
    return bytes(data)


def deep(levels: int, kind: str = "list") -> Any:
    """Nest a value."""
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


def nasty(random_: random.Random) -> Any:
    """Give a value that a reader may not have thought of."""
    return random_.choice(
        (
            None,
            True,
            False,
            0,
            -1,
            1,
            0.0,
            -0.0,
            1.0,
            0.1,
            1e308,
            -1e308,
            5e-324,
            2**53 - 1,
            2**53,
            -(2**53),
            2**64,
            10**400,
            float("nan"),
            float("inf"),
            float("-inf"),
            "",
            " ",
            "0",
            "true",
            "none",
            ESCAPES,
            "a\nb\tc",
            "\x00",
            "\ud800",
            "\u202e\u2066x",
            "x" * 5_000,
            "word " * 2_000,
            "-" * 3_000,
            "../../../etc/passwd",
            "/dev/zero",
            "~",
            "*",
            "%s{0}{a}$(x)`x`",
            "[red]bold[/red]",
            "9999-99-99T99:99:99.999Z",
            "0000-00-00T00:00:00.000Z",
            "sha256:" + "0" * 64,
            "machine.memory.total",
            "fail",
            "pass",
            [],
            [[]],
            {},
            {"": ""},
            {"unseen": "absent"},
            {"unseen": None, "detail": 1},
            {"unseen": "lost", "detail": "x", "remedy": "y"},
            ["a", "b"],
            [1, "a", None],
            deep(30),
            deep(30, "dict"),
            deep(400),
            deep(400, "dict"),
            {ESCAPES: ESCAPES},
            {"\ud800": 1},
        )
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the path of every value inside a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """Give the value at a path."""
    for step in path:
        value = value[step]
    return value


def change_json(random_: random.Random, value: Any, times: int = 0) -> Any:
    """Change a JSON value in one to three places; gives a copy."""
    value = json.loads(json.dumps(value))
    for _ in range(times or random_.choice((1, 1, 1, 2, 3))):
        paths = list(places(value))
        # half of the time near the top, where the shape is decided
        near = [path for path in paths if len(path) <= 3]
        path = random_.choice(near if random_.random() < 0.5 else paths)
        if not path:
            continue
        parent, last = at(value, path[:-1]), path[-1]
        match random_.randrange(8):
            case 0 | 1 | 2 | 3:
                parent[last] = nasty(random_)
            case 4:
                del parent[last]
            case 5:
                parent[last] = at(value, random_.choice(paths))
            case 6:
                if isinstance(parent, dict):
                    parent[str(nasty(random_))[:100]] = parent.pop(last)
                else:
                    parent.append(parent[last])
            case 7:
                item = parent[last]
                if isinstance(item, str):
                    parent[last] = item + random_.choice((ESCAPES, "\n", "\x00", "x", " "))
                elif isinstance(item, int | float):
                    # an integer may have thousands of digits, too many for a float
                    large = item * 1e300 if abs(item) < 1e300 else item * 10**300
                    parent[last] = random_.choice((-item, item + 1, large, f"{item!r:.400}"))
                else:
                    parent[last] = [item]
        value = json.loads(_text(value))  # no two places share one object, however it was made
    return value


def _text(value: Any) -> str:
    try:
        return json.dumps(value)
    except ValueError:  # an integer of thousands of digits
        return json.dumps(None)


def json_bytes(value: Any) -> bytes:
    """Write JSON as anybody might: NaN and lone surrogates are not refused here."""
    return json.dumps(value, indent=1, sort_keys=True).encode()
