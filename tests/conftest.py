"""What holds for every test."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell script starts what it puts into the background with SIGINT ignored, children inherit that,
# and then no test of Ctrl-C would mean anything.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may write, unlike tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="preflight-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)  # a test may have taken the right to write away
    shutil.rmtree(folder)
