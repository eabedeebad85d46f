"""`preflight gate`: may this box be trusted with work now? One line and an exit code.

For schedulers, cron, prologs and deploy scripts, which ask often: it reads the head and the bytes of
the ledger that it relies on, looks at the parts of the box that cost next to nothing to read, and
loads neither the suite nor a library. What it relies on, and what later runs say against that, is
in `checks.ledger.reliance`; which parts it compares, and which change harmlessly, in
`checks.machine.swaps`.

Where several things hold, a fault comes before what nobody can tell, and that before a window that
is closed: a known fault is never hidden by the age of a ledger.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO, TypeVar

from checks.core.codec import Json
from checks.core.errors import BusyError, LedgerError, PreflightError, StoreError, UsageError
from checks.core.facts import Unseen
from checks.core.fingerprint import Fields, Part
from checks.core.moment import utc_s
from checks.core.paths import HOST_NAME, ledger_folder, user_path
from checks.core.scope import ALL, AREAS, QUICK
from checks.core.units import span_text
from checks.core.window import (
    SPAN_FORM,
    WINDOW_FORM,
    FormError,
    Span,
    Window,
    parse_span,
    parse_window,
)
from checks.core.world import World
from checks.ledger.canonical import LARGEST_FILE_BYTES, parse
from checks.ledger.files import journals, read_plain
from checks.ledger.head import HEAD, Head, as_fingerprint, parse_head
from checks.ledger.opening import STATE, last_opening_s, record_opening
from checks.ledger.reliance import Base, Later, reliance
from checks.machine.probe.clock import kernel_built
from checks.machine.probe.parts import read_parts, usb_controllers
from checks.machine.swaps import pci_address, swaps
from checks.report.text import ascii_only, visible
from checks.verbs.codes import COULD_NOT_TELL, NO, USAGE, YES

NOT_NOW = 11
"""All is well, but it is outside the window, or too soon after the last opening."""
LONGEST_LINE_BYTES = 80
SLACK_S = 60.0
"""By less than this, whatever disciplines a clock may set it."""
OWN_LOCK = ".gate.lock"
WAIT_S = 10.0
"""For another gate, which holds the lock while it writes a hundred bytes to the disk."""
_SHORTEST_NAME = 8
_WORDS = {YES: "open", NO: "closed", COULD_NOT_TELL: "closed", NOT_NOW: "dry-run"}
_PRECEDENCE = (NO, COULD_NOT_TELL, NOT_NOW)
BOOT_ID = "/proc/sys/kernel/random/boot_id"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked."""

    host: str
    max_age: Span
    scope: str
    min_interval: Span | None
    window: Window | None
    commit: bool
    same_boot: bool
    allow_unconfirmed: bool
    ledger_dir: str | None
    root: str | None


def start(words: Sequence[str]) -> int:
    """Answer on standard output; a question that is none gets its line on standard error."""
    try:
        options = Options(**vars(_parser().parse_args(words)))
        root = Path("/") if options.root is None else user_path(options.root)
        answer = Gate(options, World(root)).answer()
    except (PreflightError, OSError) as error:
        from checks.core.redact import ENVIRONMENT_SECRETS, redact_text

        text = redact_text(str(error), ENVIRONMENT_SECRETS)
        _tell(sys.stderr, fitted("preflight gate: {}", text))
        return USAGE
    _tell(sys.stdout, answer.line)
    return answer.code


def _tell(stream: TextIO | None, line: str) -> None:
    """Write the line; whether anybody reads it does not change the answer."""
    if stream is not None:  # as it is where a shell has closed it
        with suppress(OSError):
            stream.write(f"{line}\n")
            stream.flush()


def fitted(form: str, *names: str) -> str:
    """Fill names into a form, in ASCII; where the line is too long, the longest lose their middle."""
    shown = [ascii_only(visible(" ".join(name.split()))) for name in names]
    while True:
        line = form.format(*shown)
        excess = len(line) - LONGEST_LINE_BYTES
        longest = max(range(len(shown)), key=lambda number: len(shown[number]), default=-1)
        if excess <= 0 or longest < 0 or len(shown[longest]) <= _SHORTEST_NAME:
            return line[:LONGEST_LINE_BYTES]
        name = shown[longest]
        left = max(len(name) - excess, _SHORTEST_NAME) - len("..")
        shown[longest] = f"{name[: left - left // 2]}..{name[len(name) - left // 2 :]}"


# the question


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and which form is wanted."""

    def error(self, message: str) -> NoReturn:
        for option, form in _FORMS.items():
            if message.startswith(f"argument {option}:"):
                raise UsageError(f"{option}: wanted: {form}")
        raise UsageError(message)


_FORMS = {
    "--max-age": SPAN_FORM,
    "--min-interval": SPAN_FORM,
    "--window": WINDOW_FORM,
    "--host": "letters, digits, dot, _ and -, at most 63",
    "--scope": ", ".join((ALL, QUICK, *AREAS)),
}


def _parser() -> _Parser:
    parser = _Parser(
        prog="preflight gate",
        description="May this box be trusted with work now? Prints one line of at most "
        f"{LONGEST_LINE_BYTES} bytes.",
        epilog="Exit codes: 0 open; 1 failed, altered, or a part was swapped; 10 could not tell: no "
        "ledger, stale, incomplete, unconfirmed, a clock that is not trusted; 11 dry-run: all is "
        "well, but it is outside the window or too soon; 2 usage.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--host", metavar="H", required=True, type=_host, help="the host that is asked about"
    )
    parser.add_argument(
        "--max-age",
        metavar="SPAN",
        required=True,
        type=_as(parse_span),
        help=f"how old a ledger may be: {SPAN_FORM}",
    )
    parser.add_argument(
        "--scope",
        metavar="S",
        choices=(ALL, QUICK, *AREAS),
        default=ALL,
        help=f"what must have passed: {_FORMS['--scope']}; without: {ALL}",
    )
    parser.add_argument(
        "--min-interval",
        metavar="SPAN",
        type=_as(parse_span),
        help="how long after the last opening with --commit it stays closed",
    )
    parser.add_argument(
        "--window",
        metavar="HOURS",
        type=_as(parse_window),
        help=f"when it may open, in the box's local time: {WINDOW_FORM}",
    )
    parser.add_argument(
        "--commit", action="store_true", help="record that it opened; without, nothing is written"
    )
    parser.add_argument(
        "--same-boot", action="store_true", help="close where the box has booted since"
    )
    parser.add_argument(
        "--allow-unconfirmed",
        action="store_true",
        help="open although required passes rest on assumptions or a data sheet",
    )
    parser.add_argument("--ledger-dir", metavar="DIR", help="folder of all hosts' ledgers")
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="compare with a recorded tree, its clocks too, instead of this box: for rehearsals",
    )
    return parser


def _as(read: Callable[[str], T]) -> Callable[[str], T]:
    def type_(text: str) -> T:
        try:
            return read(text)
        except FormError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return type_


def _host(text: str) -> str:
    if not HOST_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(_FORMS["--host"])
    return text


# the answer


@dataclass(frozen=True)
class Answer:
    """An exit code, and its line."""

    code: int
    line: str


def _answer(code: int, form: str, *names: str) -> Answer:
    return Answer(code, fitted(f"{_WORDS[code]}: {form}", *names))


def _unknown(form: str, *names: str) -> Answer:
    return _answer(COULD_NOT_TELL, form, *names)


def _first(answers: Sequence[Answer]) -> Answer:
    """Give the one that comes before all others: a fault, then what nobody can tell."""
    return min(answers, key=lambda answer: _PRECEDENCE.index(answer.code))


class _NoHeadError(Exception):
    """Without a head nothing can be told; carries the answer."""

    def __init__(self, form: str, *names: str) -> None:
        self.answer = _unknown(form, *names)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the ledger that is relied on says of the box."""

    fingerprint: Mapping[str, Mapping[str, Fields]]
    boot_id: str | None


class Gate:
    """One question about one box."""

    def __init__(self, options: Options, world: World) -> None:
        """Read the clocks, once."""
        self.options = options
        self.world = world
        self.host = options.host
        self.folder = ledger_folder(options.ledger_dir) / options.host
        self.at_s = _seen(world.now_s())
        self.up_s = _seen(world.boot_s())
        self.boot_id = _seen(world.line(BOOT_ID))

    def answer(self) -> Answer:
        """Say whether the gate is open; with --commit, record that it was opened."""
        try:
            head = self._head()
        except _NoHeadError as error:
            return error.answer
        rests = reliance(head, self.options.scope)
        closed = [self._against(later) for later in rests.later]
        if rests.base is None:
            only_quick = self.options.scope == ALL and QUICK in head.scopes
            lacks = (
                "only quick runs (--scope quick)" if only_quick else f"no complete {self._scope}run"
            )
            closed.append(_unknown(f"{{}} has {lacks}", self.host))
            return _first(closed)
        base = rests.base
        recorded, wrong = self._recorded(head, base)
        closed += wrong
        if recorded is not None:
            closed += self._swaps(recorded, base)
        booted = recorded is None or self._booted_since(recorded, base)
        closed += self._verdict(base)
        closed += self._clock(head, base)
        closed += self._time(base, booted=booted)
        closed += self._crash()
        closed += self._state()
        if closed:
            return _first(closed)
        note = ", booted since" if booted else ""
        opened = _answer(YES, f"{{}} {self._said(base)}{note}", self.host)
        return self._commit(opened) if self.options.commit else opened

    def _head(self) -> Head:
        look = "preflight verify {} tells more"
        try:
            head = parse_head(read_plain(self.folder / HEAD, LARGEST_FILE_BYTES), HEAD)
        except FileNotFoundError:
            if any(self.folder.glob("*.json")):
                raise _NoHeadError(f"no head.json; {look}", self.host) from None
            run = "{} has no ledger; preflight run --host {} makes one"
            raise _NoHeadError(run, self.host, self.host) from None
        except OSError as error:
            raise _NoHeadError("head.json: {}", _why(error)) from error
        except LedgerError as error:
            if error.problems[0].key == "schema":
                raise _NoHeadError("head.json is of another version of preflight") from error
            raise _NoHeadError(f"head.json is damaged; {look}", self.host) from error
        if head.host != self.host:
            raise _NoHeadError("head.json is of the host {}, not of {}", head.host, self.host)
        return head

    # the ledger, and the box

    def _against(self, later: Later) -> Answer:
        ago = self._ago(later.ended_utc)
        if later.verdict == "fail":
            return _answer(NO, f"{{}} {{}} failed {ago}", self.host, later.what)
        return _unknown(f"{{}} {{}} {later.verdict} {ago}", self.host, later.what)

    def _recorded(self, head: Head, base: Base) -> tuple[Recorded | None, list[Answer]]:
        """Compare the bytes of the ledger with the head; give what it recorded of the box."""
        of_head = Recorded(fingerprint=head.fingerprint, boot_id=head.boot_id)
        known = of_head if base.file == head.file else None
        try:
            raw = read_plain(self.folder / base.file, LARGEST_FILE_BYTES)
        except FileNotFoundError:
            return known, [_unknown("{} is missing", base.file)]
        except OSError as error:
            return known, [_unknown("{} {}", base.file, _why(error))]
        if hashlib.sha256(raw).hexdigest() != base.sha256:
            text = "{} was altered: not the bytes of head.json"
            return known, [_answer(NO, text, base.file)]
        known = known or _recorded_in(raw)
        return known, [] if known else [_unknown("{} is no ledger", base.file)]

    def _swaps(self, recorded: Recorded, base: Base) -> Iterator[Answer]:
        before = {
            slot: Part(kind=part["kind"], identity=part["identity"], unread=())
            for slot, part in recorded.fingerprint.items()
        }
        now = read_parts(self.world)
        addresses = {address for slot in (*before, *now) if (address := pci_address(slot))}
        found = swaps(before, now, usb_controllers(self.world, addresses))
        if found:
            more = f" and {len(found) - 1} more" if found[1:] else ""
            text = f"{{}}{more} {found[0].change.value} since {base.ended_utc[:10]}"
            yield _answer(NO, text, found[0].slot)

    def _booted_since(self, recorded: Recorded, base: Base) -> bool:
        """Whether the box has booted since; where nobody can tell, it has."""
        if recorded.boot_id is not None and self.boot_id is not None:
            return recorded.boot_id != self.boot_id
        age_s = self._age_s(base.ended_utc)
        return age_s is None or self.up_s is None or age_s > self.up_s

    def _verdict(self, base: Base) -> Iterator[Answer]:
        ago = self._ago(base.ended_utc)
        if base.verdict == "fail":
            yield _answer(NO, f"{{}} {self._scope}failed {ago}", self.host)
        elif base.verdict != "pass":
            yield _unknown(f"{{}} {self._scope}{base.verdict} {ago}", self.host)
        if base.unconfirmed and not self.options.allow_unconfirmed:
            yield _unknown(f"{{}} {self._said(base)}", self.host)

    # time

    def _clock(self, head: Head, base: Base) -> Iterator[Answer]:
        """See that nothing is decided in the past, nor on a ledger of the future."""
        age_s, built = self._age_s(base.ended_utc), kernel_built(self.world)
        why = ""
        if self.at_s is None or age_s is None:
            why = "it cannot be read"
        elif self.at_s < head.newest_s - SLACK_S or age_s < -SLACK_S:
            why = "the newest ledger is of the future"
        elif not isinstance(built, Unseen) and self.at_s < built.at_s:
            why = "it is behind the build of the kernel"
        elif self._was_set_back(head):
            why = "it was set back since the newest ledger"
        if why:
            yield _unknown(f"clock not trusted: {why}")

    def _was_set_back(self, head: Head) -> bool:
        """Whether the clock was set back since the newest ledger, which is of the same boot."""
        if head.boot_id is None or head.boot_id != self.boot_id or head.boot_offset_s is None:
            return False
        if self.at_s is None or self.up_s is None:
            return False
        return self.at_s - self.up_s < head.boot_offset_s - SLACK_S

    def _time(self, base: Base, *, booted: bool) -> Iterator[Answer]:
        age_s, window = self._age_s(base.ended_utc), self.options.window
        if age_s is not None and age_s > self.options.max_age.seconds:
            yield self._unsure(base, f"over --max-age {self.options.max_age.text}")
        if booted and self.options.same_boot:
            yield self._unsure(base, "booted since")
        if window is not None and self.at_s is not None:
            here = time.localtime(self.at_s)
            if not window.holds(here.tm_wday, here.tm_hour * 60 + here.tm_min):
                text = f"{{}} {self._said(base)}, outside {{}}"
                yield _answer(NOT_NOW, text, self.host, window.text)

    def _age_s(self, utc: str) -> float | None:
        moment_s = utc_s(utc)
        return None if self.at_s is None or moment_s is None else self.at_s - moment_s

    # what lies beside the head

    def _crash(self) -> Iterator[Answer]:
        """See whether a run has died: its journal is left, and the head does not know of it yet."""
        if not journals(self.folder):
            return
        from checks.ledger.lock import LOCK, Lock

        runs = Lock(self.folder, LOCK, who="run", host=self.host)
        with suppress(OSError):
            if runs.is_taken():
                return  # it is under way
        yield _unknown("a run has crashed; preflight show {} recovers it", self.host)

    def _state(self) -> Iterator[Answer]:
        interval = self.options.min_interval
        if interval is None and not self.options.commit:
            return
        if self.options.commit and not os.access(self.folder, os.W_OK | os.X_OK):
            yield self._not_writable()
        try:
            opened_s = last_opening_s(self.folder)
        except LedgerError:
            yield _unknown("gate.json is damaged; remove {}", str(self.folder / STATE))
            return
        if opened_s is None or interval is None or self.at_s is None:
            return
        since_s = self.at_s - opened_s
        if since_s < -SLACK_S:
            yield _unknown("clock not trusted: the last opening is of the future")
        elif since_s < interval.seconds:
            ago = _span(max(since_s, 0.0))
            text = f"{{}} opened {ago} ago, --min-interval {interval.text}"
            yield _answer(NOT_NOW, text, self.host)

    def _commit(self, opened: Answer) -> Answer:
        """Record the opening, unless another gate has opened meanwhile."""
        from checks.ledger.lock import Lock

        assert self.at_s is not None  # noqa: S101 - a clock that cannot be read has closed it
        lock = Lock(self.folder, OWN_LOCK, who="gate", host=self.host)
        try:
            lock.take(wait_s=WAIT_S)
            closed = list(self._state())
            if closed:
                return _first(closed)
            record_opening(self.folder, self.at_s)
        except BusyError:
            return _unknown("another gate does not let go of {}", str(lock.file))
        except (StoreError, OSError):
            return self._not_writable()
        finally:
            lock.give_back()
        return opened

    # words

    @property
    def _scope(self) -> str:
        return "" if self.options.scope == ALL else f"{self.options.scope} "

    def _said(self, base: Base) -> str:
        """Say that it passed, and when; the host stands in front."""
        age_s = self._age_s(base.ended_utc)
        old = f"of {base.ended_utc[:10]}" if age_s is None else f"{_span(max(age_s, 0.0))} old"
        loose = f", {base.unconfirmed} unconfirmed" if base.unconfirmed else ""
        return f"{self._scope}{base.verdict}{loose}, {old}"

    def _unsure(self, base: Base, why: str) -> Answer:
        return _unknown(f"{{}} {self._said(base)}, {why}", self.host)

    def _not_writable(self) -> Answer:
        return _unknown("{} cannot be written", str(self.folder))

    def _ago(self, utc: str) -> str:
        age_s = self._age_s(utc)
        return f"on {utc[:10]}" if age_s is None or age_s < 0 else f"{_span(age_s)} ago"


def _seen(value: T | Unseen) -> T | None:
    return None if isinstance(value, Unseen) else value


def _span(seconds: float) -> str:
    """Show a span in its largest unit, cut off."""
    return " ".join(span_text(int(seconds)).split()[:2])


def _why(error: OSError) -> str:
    return "is a link" if error.errno == errno.ELOOP else error.strerror or str(error)


def _recorded_in(raw: bytes) -> Recorded | None:
    """Read what a ledger recorded of the box; its bytes are known to be those that were written."""
    try:
        row = parse(raw, "")
    except LedgerError:
        return None
    slots = row.get("fingerprint") if isinstance(row, dict) else None
    clock = row.get("time") if isinstance(row, dict) else None
    if not isinstance(slots, dict) or not isinstance(clock, dict):
        return None
    boot_id = clock.get("boot_id")
    sides: dict[str, Json] = {
        slot: {side: part.get(side) for side in ("kind", "identity")}
        for slot, part in slots.items()
        if isinstance(part, dict)
    }
    fingerprint = as_fingerprint(sides)
    if fingerprint is None or len(sides) < len(slots):
        return None
    return Recorded(fingerprint=fingerprint, boot_id=boot_id if isinstance(boot_id, str) else None)
