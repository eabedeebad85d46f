"""Fixtures of the crash tests."""

from __future__ import annotations

import pytest

from tests.support.crash_host import Host, serving


@pytest.fixture(scope="module")
def server():
    yield from serving()


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)
