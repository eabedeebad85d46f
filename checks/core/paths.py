"""Where things are read and written, first found first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from checks.core.errors import UsageError

HERE = Path(__file__).resolve().parents[2]
"""The checkout, or the folder that the packages are installed in."""


def user_path(text: str) -> Path:
    """Take a path as a person gives it: a shell leaves the `~` of `--option=~/folder` as it is."""
    # Path takes `./~`, the way to name a file so, for the home folder, and raises without such a user
    return Path(os.path.expanduser(text))  # noqa: PTH111


def is_checkout() -> bool:
    """Whether the code runs from a checkout, and not from an installed package."""
    return (HERE / "expected").is_dir() and (HERE / "pyproject.toml").is_file()


def suite() -> Path:
    """Folder of the suite itself."""
    return HERE / "preflight"


def suite_config() -> Path:
    """The suite's own pytest configuration."""
    return suite() / "pytest.toml"


def _shipped() -> Path:
    return HERE if is_checkout() else suite() / "_data"


def expected_folders(given: Iterable[str] = ()) -> list[Path]:
    """Folders of expectations: those given, $PREFLIGHT_EXPECTED, the checkout's or installed ones."""
    folders = [user_path(folder) for folder in given]
    if os.environ.get("PREFLIGHT_EXPECTED"):
        folders.append(user_path(os.environ["PREFLIGHT_EXPECTED"]))
    return [*folders, _shipped() / "expected"]


def own_folder(given: Iterable[str] = ()) -> Path:
    """Folder that a user's own expectations are written to: the first, and never the installed one.

    Raises:
        UsageError: it is the installed one.

    """
    first = expected_folders(given)[0]
    if not is_checkout() and first.resolve() == (_shipped() / "expected").resolve():
        raise UsageError(
            f"{first}: belongs to the installed package, and nothing is written there; "
            "name a folder of your own with --expected DIR or $PREFLIGHT_EXPECTED"
        )
    return first


def ledger_folder(given: str | None = None) -> Path:
    """Folder of all ledgers: given, $PREFLIGHT_LEDGERS, the checkout's, or the user's state."""
    if given:
        return user_path(given)
    if os.environ.get("PREFLIGHT_LEDGERS"):
        return user_path(os.environ["PREFLIGHT_LEDGERS"])
    if is_checkout():
        return HERE / "ledgers"
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return user_path(state) / "preflight"


def schema_file(name: str) -> Path:
    """A published schema, such as `ledger-1.json`."""
    return _shipped() / "ledgers" / "schema" / name


def commit_file() -> Path:
    """The note that an installed package keeps about its commit."""
    return suite() / "_data" / "commit.txt"
