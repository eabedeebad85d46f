from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.boxes import Suite


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    """One process that forks for each run."""
    server = Suite()
    yield server
    server.close()
