"""A host with eight cards, whose clock stands where the test puts it."""

import time

import pytest

from tests.support.gates import Gated, template


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Give one ledger, of which all others are copies."""
    return template(tmp_path_factory.mktemp("gate"))


@pytest.fixture
def host(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Gated(tmp_path, made, capsys)
    monkeypatch.undo()
    time.tzset()
