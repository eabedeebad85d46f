"""The pytest plugin: options, one test a subject, and the run around them. The rest is `checks`.

It is loaded by `preflight/conftest.py` where nothing is installed, and by an entry point of the
same name where preflight is. In a pytest run that is not of this suite it does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from checks.core.finding import Finding
    from checks.session import Session

SUITE = Path(__file__).resolve().parent
CONFIG = SUITE / "pytest.toml"
PLUGIN = "preflight-run"
QUIET = -2
"""Verbosity of `-qq` in pytest.toml: the report is all that is printed."""
XDIST_OFF = pytest.StashKey[bool]()
"""Set where `-n` was given and does not count."""

_NOT_OWN = (
    "these tests need the suite's own pytest settings. Run:\n"
    "  preflight run --host NAME\n"
    f"or:  pytest -c {CONFIG} --pyargs preflight --host NAME"
)
_MARKER = "check(id): the check that this test speaks for"

_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--host",
        {
            "metavar": "NAME",
            "help": "label and profile (expected/hosts/NAME.toml) of the box that the suite runs "
            "on; it connects nowhere. `local` needs no profile. Example: --host h100-1",
        },
    ),
    (
        "--ledger-dir",
        {
            "metavar": "DIR",
            "help": "write ledgers to DIR/<host>/ instead of the checkout's or the user's own "
            "folder. Example: --ledger-dir /var/lib/preflight",
        },
    ),
    (
        "--expected",
        {
            "metavar": "DIR",
            "action": "append",
            "default": [],
            "help": "look for profiles and numbers in DIR first; may be given several times. "
            "Example: --expected /etc/preflight",
        },
    ),
    (
        "--replay",
        {
            "metavar": "LEDGER",
            "help": "judge what LEDGER recorded, without touching this machine. "
            "Example: --replay ledgers/h100-1/20260131T120000Z-h100-1-8gpu-h100-pass.json",
        },
    ),
    (
        "--only",
        {
            "metavar": "AREA",
            "help": "run the checks of one area; the verdict and the exit code then speak of it "
            "alone. Example: --only machine",
        },
    ),
    (
        "--quick",
        {
            "action": "store_true",
            "help": "leave out the checks that load the box while they look; the verdict and the exit "
            "code then speak of the others alone. Example: --quick",
        },
    ),
    (
        "--allow-busy",
        {
            "action": "store_true",
            "help": "let checks that load the box run beside what it is busy with; the ledger says "
            "so. Example: --allow-busy",
        },
    ),
    (
        "--no-controls",
        {
            "action": "store_true",
            "help": "do not judge the planted observations that show that each check can fail; "
            "the ledger says so. Example: --no-controls",
        },
    ),
    (
        "--baseline",
        {
            "metavar": "LEDGER",
            "help": "compare with LEDGER (the one on the ticket) instead of this host's newest. "
            "Example: --baseline before-swap.json",
        },
    ),
    (
        "--label",
        {
            "metavar": "TEXT",
            "default": "",
            "help": "goes into the ledger and its file name. Example: --label after-swap",
        },
    ),
    (
        "--ticket",
        {
            "metavar": "TEXT",
            "default": "",
            "help": "goes into the ledger and its file name. Example: --ticket INFRA-1234",
        },
    ),
    (
        "--root",
        {
            "metavar": "DIR",
            "help": "look at a recorded tree of another box (proc/, sys/, etc/ and recorded.json) "
            "instead of this one; a rehearsal, never the newest ledger. Example: --root box17/",
        },
    ),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options, in a group of their own."""
    group = parser.getgroup("preflight", "preflight: is this box fit for work?")
    for name, settings in _OPTIONS:
        group.addoption(name, **settings)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that others may listen to."""
    pluginmanager.add_hookspecs(Hooks)


class Hooks:
    """Hooks of this suite."""

    @pytest.hookspec
    def pytest_preflight_begun(self, session: Session) -> None:
        """Tell that the journal's first line is on disk."""

    @pytest.hookspec
    def pytest_preflight_finding(self, finding: Finding) -> None:
        """Tell of a finding, once it is on disk."""


def is_own(config: pytest.Config) -> bool:
    """Whether this pytest run has the suite's own configuration."""
    return config.inipath is not None and config.inipath.resolve() == CONFIG


def _asked_for(config: pytest.Config) -> bool:
    return config.getoption("--host") is not None or config.getoption("--replay") is not None


def _start_again(config: pytest.Config) -> None:
    """Start pytest anew with the suite's own settings, where the suite is named by its path.

    pytest looks for its settings above everything on the command line that is a path, so a
    `--ledger-dir ledgers` in the checkout makes it find the developers' settings.
    """
    words = list(config.invocation_params.args)
    begin = sys.orig_argv[: -len(words)]
    paths = [Path(str(word).partition("::")[0]) for word in config.args]
    ours = all(path == SUITE or SUITE in path.parents for path in map(Path.resolve, paths))
    again = str(CONFIG) in map(str, words)  # somebody's own -c comes later and wins
    if config.option.pyargs or not ours or again or [*begin, *map(str, words)] != sys.orig_argv:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # give standard output and error back
    sys.stdout.flush()
    sys.stderr.flush()
    settings = ["-c", str(CONFIG), f"--rootdir={SUITE}"]
    os.execv(sys.executable, [sys.executable, *begin[1:], *settings, *map(str, words)])  # noqa: S606


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Switch xdist off before it starts workers: probes contend, and one run is one ledger."""
    if not is_own(config) and _asked_for(config):
        _start_again(config)
    if is_own(config) and getattr(config.option, "numprocesses", None):
        config.option.numprocesses = None
        config.option.dist = "no"
        config.option.tx = []
        config.stash[XDIST_OFF] = True


def pytest_configure(config: pytest.Config) -> None:
    """Load what is expected; every mistake of the command line or a profile ends here."""
    host, replay = config.getoption("--host"), config.getoption("--replay")
    if not is_own(config):
        if _asked_for(config):
            raise pytest.UsageError(_NOT_OWN)
        config.addinivalue_line("markers", _MARKER)
        return
    if sys.flags.optimize > 1:
        raise pytest.UsageError(
            "preflight: python -OO (PYTHONOPTIMIZE=2) takes away the texts of the checks; "
            "run without it"
        )
    verbose = config.getoption("verbose", QUIET)  # not known with -p no:terminal
    if verbose > QUIET:  # -v starts from the quiet of the suite's own settings
        config.option.verbose = verbose - QUIET - 1
    elif config.option.collectonly:
        config.option.verbose = QUIET + 1  # the ids, not their number
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestConfigWarning")
    if config.option.help or config.option.markers:
        return
    # Imported here: in a pytest run that is not ours the entry point must cost nothing.
    try:
        from preflight.suite import open_suite
    except ModuleNotFoundError as error:
        raise pytest.UsageError(
            f"preflight: {sys.executable} has no module {error.name}.\n"
            "make preflight HOST=local sets up an environment that has all of them; "
            "in your own: pip install --require-hashes -r requirements.lock"
        ) from None

    no_workers = config.stash.get(XDIST_OFF, False)

    config.pluginmanager.register(open_suite(config, host, replay, no_workers=no_workers), PLUGIN)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse the suite's tests where the suite's settings are not in force."""
    if not is_own(config) and any(SUITE in item.path.parents for item in items):
        raise pytest.UsageError(_NOT_OWN)


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Give the function that judges the subject of this test."""
    suite = request.config.pluginmanager.get_plugin(PLUGIN)
    if suite is None:
        pytest.fail("this test belongs to the suite: run it with --host NAME", pytrace=False)
    judge: Callable[[], object] = suite.judge_of(request.node)
    return judge
