"""One finished ledger for all tests of this folder: a recorded box with eight GPUs, and a profile."""

import copy

import pytest

from tests.support.boxes import h100_box
from tests.support.runs import ledger_here, write_profile

PROFILE = """
description = "eight cards"
[hardware]
architecture = "x86_64"
product_name = "PowerEdge XE9680"
memory_total_bytes = 999_000_000_000
assumed = ["product_name"]
[[serve]]
name = "chat"
engine = "llama.cpp"
command = "llama-server -t 64"
[[serve]]
name = "gone"
where = "process:not-there"
command = "vllm serve x"
[checks.optional]
"machine.memory.available" = "not watched here"
[[waiver]]
check = "machine.memory.total"
reason = "a module is on order"
ticket = "T-1"
until = 2099-01-01
"""


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Give a ledger as it lies on disk, with fails, unknowns, passes and a waiver in it."""
    folder = tmp_path_factory.mktemp("made")
    write_profile(folder / "expected", "h100-1", PROFILE)
    tree = h100_box().write(folder / "box")
    return ledger_here(
        folder / "ledgers",
        "h100-1",
        expected=(str(folder / "expected"),),
        root=str(tree),
        label="first",
        ticket="INFRA-1",
    )


@pytest.fixture
def row(made):
    """Give a copy of its content that a test may change."""
    return copy.deepcopy(made.row)
