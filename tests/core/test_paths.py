"""Where things are read and written."""

from pathlib import Path

import pytest

from checks.core.paths import expected_folders, ledger_folder, user_path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PREFLIGHT_LEDGERS", "PREFLIGHT_EXPECTED", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_tilde_that_the_shell_left_is_the_home_folder(home, monkeypatch):
    """Bash expands `--ledger-dir ~/x` and leaves `--ledger-dir=~/x` as it is."""
    assert user_path("~/x") == home / "x"
    assert ledger_folder("~/x") == home / "x"
    assert expected_folders(["~/e"])[0] == home / "e"
    monkeypatch.setenv("PREFLIGHT_LEDGERS", "~/l")
    monkeypatch.setenv("PREFLIGHT_EXPECTED", "~/f")
    assert ledger_folder() == home / "l"
    assert expected_folders()[0] == home / "f"


@pytest.mark.parametrize("text", ["a/~/b", "./~", "~nobody-is-called-so/x", "x~"])
def test_any_other_tilde_is_part_of_a_name(home, text):
    assert user_path(text) == Path(text)
