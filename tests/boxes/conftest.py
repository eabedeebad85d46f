from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boxes import Suite


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    """One process that forks for each run."""
    server = Suite()
    yield server
    server.close()


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may write, unlike tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="preflight-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)
