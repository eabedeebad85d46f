"""The run, as pytest goes through it. Loaded only in a pytest run of this suite."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, NoReturn

import pytest

from checks.core.errors import LedgerError, PreflightError, StoreError, UsageError
from checks.core.finding import Finding
from checks.core.load import LOCAL_HOST, known_hosts
from checks.core.paths import expected_folders
from checks.core.redact import ENVIRONMENT_SECRETS, redact_text
from checks.core.signals import ENDING
from checks.core.verdict import LOOKS, Verdict
from checks.ledger.document import Ledger
from checks.report.terminal import Style, render
from checks.report.text import visible, wants_ascii
from checks.session import Options, Session, open_session
from preflight.output import Output, whisper
from preflight.plugin import QUIET

EXIT_USAGE = int(pytest.ExitCode.USAGE_ERROR)
PYTEST_OWN = range(2, 7)
"""pytest's own exit codes, which come before ours."""
INCOMPLETE = 10
FINDING: pytest.StashKey[Finding] = pytest.StashKey()
_DESELECTED = "deselected on the command line"
_NOT_NAMED = "not selected on the command line"


def usage(error: Exception) -> str:
    """Make the one text that an expected error is shown as."""
    return visible(redact_text(f"preflight: {error}", ENVIRONMENT_SECRETS))


def open_suite(
    config: pytest.Config, host: str | None, replay: str | None, *, no_workers: bool
) -> Suite:
    """Load what the options ask for.

    Raises:
        pytest.UsageError: every mistake of the command line, a profile or a ledger, as one text.

    """
    try:
        return Suite(config, _open(config, host, replay), no_workers=no_workers)
    except PreflightError as error:
        raise pytest.UsageError(usage(error)) from None
    except OSError as error:
        raise pytest.UsageError(f"preflight: {error.filename}: {error.strerror}") from None


def _open(config: pytest.Config, host: str | None, replay: str | None) -> Session:
    expected = tuple(config.getoption("--expected"))
    if not host and not replay:
        known = ", ".join([LOCAL_HOST, *known_hosts(expected_folders(expected))])
        raise UsageError(f"say which box this is: --host NAME. Known: {known}")
    return open_session(
        Options(
            host=host or "",
            ledger_dir=config.getoption("--ledger-dir"),
            expected=expected,
            replay=replay,
            only=config.getoption("--only"),
            quick=config.getoption("--quick"),
            allow_busy=config.getoption("--allow-busy"),
            controls=not config.getoption("--no-controls"),
            baseline=config.getoption("--baseline"),
            label=config.getoption("--label"),
            ticket=config.getoption("--ticket"),
            root=config.getoption("--root"),
        )
    )


class Interrupted(KeyboardInterrupt):
    """A signal ends the run. Under this name pytest says so without naming a line of ours."""


class FindingFailed(Exception):  # noqa: N818 - its text is the finding; users never see its name
    """A finding that is not a pass, as pytest's failure."""


def _no_bangs(write_sep: Callable[..., None]) -> Callable[..., None]:
    """Leave out the lines with which pytest says that it has stopped; the report has said so."""

    def write(sep: str, *words: object, **look: object) -> None:
        if sep != "!":
            write_sep(sep, *words, **look)

    return write


class Suite:
    """The run, as pytest goes through it."""

    def __init__(self, config: pytest.Config, session: Session, *, no_workers: bool) -> None:
        """Keep what the hooks need."""
        self.no_workers = no_workers
        self.config = config
        self.session = session
        self.selected: list[pytest.Item] = []
        self.deselected: list[pytest.Item] = []
        self.started = 0
        self.stray_failures = 0
        self.interrupted_by = ""
        self.failure = ""
        self.handlers: dict[int, Any] = {}
        self.output: Output | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Say what was switched off: with -q, pytest shows no header of its own."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        writer = self.config.get_terminal_writer()
        self.output = Output(writer._file)  # noqa: SLF001 - no public way
        writer._file = self.output  # noqa: SLF001 - no public way
        # the report says what ended the run; pytest would add the names of our classes below it
        reporter._report_keyboardinterrupt = self._say_early_end  # noqa: SLF001 - no public way
        if self.no_workers:
            line = "preflight: -n is switched off: probes contend, and one run is one ledger"
            reporter.write_line(line)

    def _say_early_end(self) -> None:
        if self.session.ledger is None and not self.failure:
            self.say("interrupted before anything was looked at; no ledger was written")

    # collection: one test a subject

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of each subject that the profile names."""
        marker = metafunc.definition.get_closest_marker("check")
        if marker is None or "judged" not in metafunc.fixturenames:
            return
        name = marker.args[0] if marker.args else ""
        check = self.session.registry.checks.get(name)
        if check is None:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: there is no check {name!r}")
        cases = [(name, subject) for subject in self.session.cases(check)]
        metafunc.parametrize("judged", cases, ids=[case[1] for case in cases], indirect=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what the options leave out, and what the replayed run left out."""
        outside = [
            item
            for item in items
            if (key := key_of(item))
            and (
                key in self.session.left_out
                or key in self.session.newer
                or self.session.outside(key[0])
            )
        ]
        if outside:
            items[:] = [item for item in items if item not in outside]
            self.config.hook.pytest_deselected(items=outside)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what was deselected."""
        self.deselected += items

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember what was selected."""
        self.selected = list(session.items)

    # the run

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Begin the run before the first test; from its end on, nothing may stop the ledger."""
        if session.config.option.collectonly or session.testsfailed:
            return (yield)
        self._catch_signals()
        try:
            self._begin()
            try:
                return (yield)
            finally:
                self._look()  # here, where a signal still ends it
        except Interrupted:
            # A signal may arrive where Python keeps no line number, and pytest shows no such frame.
            raise Interrupted(self.interrupted_by) from None
        finally:
            for number in self.handlers:
                signal.signal(number, signal.SIG_IGN)

    def _begin(self) -> None:
        """Begin the journal, and say of every planned check that is not selected why."""
        try:
            chosen = {key_of(item) for item in self.selected}
            left_out = {key: self._why(key) for key in self.session.planned() if key not in chosen}
            picked = any(why in (_DESELECTED, _NOT_NAMED) for why in left_out.values())
            self.session.begin(self.say, selection=picked)
            for key, why in left_out.items():
                self.session.not_run(*key, why)
        except PreflightError as error:
            self.session.abandon()
            raise pytest.UsageError(usage(error)) from None
        self.config.hook.pytest_preflight_begun(session=self.session)

    def _look(self) -> None:
        """See the components that no selected check asked for."""
        if self.interrupted_by or self.failure:
            return
        try:
            self.session.look()
        except StoreError as error:
            self._no_room(error)

    def _no_room(self, error: StoreError) -> NoReturn:
        self.failure = usage(error)  # shown in full at the end, and once
        pytest.exit("the journal cannot be written", returncode=EXIT_USAGE)

    def _why(self, key: tuple[str, str]) -> str:
        if key in self.session.left_out:
            return self.session.left_out[key]
        outside = self.session.outside(key[0])
        if outside:
            return outside
        return _DESELECTED if key in {key_of(item) for item in self.deselected} else _NOT_NAMED

    def _catch_signals(self) -> None:
        """Let SIGTERM (Slurm, Kubernetes, systemd) end the run as Ctrl-C does: with a ledger."""
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: whoever started us wants it so
            self.handlers[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.interrupted_by:
            return  # the first one is being obeyed
        self.interrupted_by = signal.Signals(number).name
        raise Interrupted(self.interrupted_by)

    def judge(self, check: str, subject: str) -> Finding:
        """Find out about one subject, tell whoever listens, and give the worst that was found."""
        try:
            found = self.session.judge(check, subject)
        except StoreError as error:
            self._no_room(error)
        for finding in found:
            self.config.hook.pytest_preflight_finding(finding=finding)
        return max(found, key=lambda finding: LOOKS[finding.verdict].severity)

    def judge_of(self, item: pytest.Item) -> Callable[[], Finding]:
        """Give the function that judges the subject of a test.

        It returns on a pass; otherwise it skips or fails the test with the finding.
        """
        key = key_of(item)
        assert key is not None  # noqa: S101 - pytest_generate_tests has made the test

        def judge() -> Finding:
            __tracebackhide__ = True
            finding = self.judge(*key)
            item.stash[FINDING] = finding
            outcome = LOOKS[finding.verdict].pytest
            if outcome == "skipped":
                pytest.skip(finding.says)
            if outcome == "failed":
                raise FindingFailed(_text(finding))
            return finding

        return judge

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show a finding as itself: no traceback, no source line of ours."""
        said = call.excinfo.value if call.excinfo is not None else None
        if isinstance(said, FindingFailed):
            item.repr_failure = lambda *_, **__: str(said)  # type: ignore[method-assign]
        report = yield
        if isinstance(said, FindingFailed):
            report.longrepr = str(said)
        elif report.failed and key_of(item):
            shown = call.excinfo.exconly() if call.excinfo else "no reason given"
            report.longrepr = redact_text(f"not judged: {shown}", ENVIRONMENT_SECRETS)
        finding = item.stash.get(FINDING, None)
        if finding is not None and report.when == "call":
            # of the item: JUnit takes them from the report of its teardown
            item.user_properties += [
                ("check", finding.check),
                ("subject", finding.subject),
                ("verdict", finding.verdict.value),
                ("observed", dict(finding.observed)),
                ("expected", dict(finding.expected)),
            ]
            report.user_properties = list(item.user_properties)
            report.preflight_verdict = finding.verdict.value  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures that are no findings: they must not be lost in our exit code."""
        verdict = getattr(report, "preflight_verdict", None)
        if report.failed and verdict is None:
            self.stray_failures += 1

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Give each verdict its word and letter; without -v, the progress line says it all."""
        name = getattr(report, "preflight_verdict", None)
        if name is None:
            return None
        look = LOOKS[Verdict(name)]
        if self._live():
            return look.label.lower(), "", ""
        word = (look.label.upper(), {look.colour: True})
        return look.label.lower(), look.sigil, word

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Show the check in hand, on a terminal."""
        if not self._live():
            return
        self.started += 1
        key = next((key_of(item) for item in self.selected if item.nodeid == nodeid), None)
        name = f"{key[0]} [{key[1]}]" if key else nodeid
        width = self.config.get_terminal_writer().fullwidth
        text = f"[{self.started}/{len(self.selected)}] {name}"[: width - 1]
        whisper(f"\r\x1b[K{text}")

    def _live(self) -> bool:
        return (
            sys.stderr.isatty()
            and self.config.get_verbosity() <= QUIET
            and os.environ.get("TERM") != "dumb"
        )

    def say(self, text: str) -> None:
        """Say something while the run goes on."""
        whisper(f"preflight: {text}\n")

    # the end

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember what stopped the run."""
        if not self.failure:
            self.interrupted_by = self.interrupted_by or str(excinfo.value) or "SIGINT"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the ledger and set the exit code."""
        if self._live():
            whisper("\r\x1b[K")
        if self.session.journal is None:
            return
        if self.failure:
            self.session.abandon()
            return

        stopped = self.interrupted_by
        if not stopped and int(exitstatus) == int(pytest.ExitCode.INTERNAL_ERROR):
            stopped = "an internal error"
        try:
            if not stopped and (session.shouldfail or session.shouldstop):
                keys = [key for item in self.selected if (key := key_of(item))]
                self.session.unfound(keys, str(session.shouldfail or session.shouldstop))
            own = int(exitstatus) if int(exitstatus) in PYTEST_OWN else 0
            self.session.finish(stopped, pytest_code=own)
        except PreflightError as error:
            self.failure = usage(error)
            self.session.abandon()
            session.exitstatus = EXIT_USAGE
            return
        session.exitstatus = self._exit_code()

    def _exit_code(self) -> int:
        assert self.session.ledger is not None  # noqa: S101 - just written
        own: int = self.session.ledger["run"]["exit_code"]
        if self.stray_failures and own == 0:
            return INCOMPLETE  # something of the suite broke: nobody looked at that
        return own

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401
        """Print the report."""
        if self.failure:
            terminalreporter.write_line(self.failure, red=True)
            return
        if self.session.ledger is None:
            return

        writer = self.config.get_terminal_writer()
        encoding = getattr(writer._file, "encoding", None)  # noqa: SLF001 - no public way
        style = Style(
            width=writer.fullwidth,
            colour=writer.hasmarkup,
            unicode=not wants_ascii(os.environ, encoding),
        )
        ledger = Ledger(file=str(self.session.path), sha256="", row=self.session.ledger)
        try:
            text = render(
                ledger, style, path=str(self.session.path), compared=self.session.compared()
            )
        except LedgerError as error:
            text = usage(error)
        terminalreporter.ensure_newline()
        terminalreporter.write(text)
        terminalreporter.write_sep = _no_bangs(terminalreporter.write_sep)

    def pytest_unconfigure(self) -> None:
        """Let nobody's closed pipe change the exit code, and give signals back."""
        if self.output is not None:
            self.output.flush()
            if self.output.error is not None:
                capture = self.config.pluginmanager.getplugin("capturemanager")
                if capture is not None:
                    capture.stop_global_capturing()  # gives standard output back
                self.output.give_up()
                if not isinstance(self.output.error, BrokenPipeError):
                    self.say(f"the report could not be written ({self.output.error.strerror})")
        for number, handler in self.handlers.items():
            signal.signal(number, handler)


def key_of(item: pytest.Item) -> tuple[str, str] | None:
    """Find the check and subject that a test speaks for."""
    spec = getattr(item, "callspec", None)
    value = spec.params.get("judged") if spec is not None else None
    return value if isinstance(value, tuple) else None


def _text(finding: Finding) -> str:
    lines = [f"{LOOKS[finding.verdict].label} {finding.name}: {finding.says}"]
    if finding.cause_text:
        lines.append(f"cause: {finding.cause_text}")
    if finding.remedy:
        lines.append(f"do: {finding.remedy}")
    return visible("\n".join(lines))
