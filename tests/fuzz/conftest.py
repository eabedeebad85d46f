"""One real run, whose files are what the fuzzing tests change."""

import datetime
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.core.registry import load_areas
from checks.ledger.schema import parse_ledger
from tests.support.runs import begin_here, run_here

HOST = "fuzz-1"

PROFILE = """\
# every section and key of a profile
schema = 1
description = "a box to change"

[hardware]
architecture = "x86_64"
virtualization = "none"
container = 'any'
product_name = "PowerEdge XE9680"
memory_total_bytes = 274_877_906_944  # 256 GiB
memory_tolerance_ratio = 0.05
memory_available_min_bytes = 1_073_741_824
assumed = ["virtualization", "container"]

[paths]
model_cache = "/srv/models/hub"
tmp = "/tmp"
tmp_free_min_bytes = 10_737_418_240

[[serve]]
name = "chat"
engine = "llama.cpp"
command = "llama-server -m /srv/models/chat.gguf -t 8"
where = "this"
model = "example-org/chat-8b"
model_bytes = 16_060_522_496
env = { OMP_NUM_THREADS = "4", "LLAMA ARG" = "x" }

[[serve]]
name = "embed"
command = [
    "serve",  # a comment in a list
    "--threads", "2",
]
[serve.env]
A = '''
a text
of lines'''

[checks.optional]
"machine.identity.product" = "no DMI names"

[[waiver]]
check = "machine.memory.total"
reason = "one module is on order"
ticket = "INFRA-1234"
until = 2099-12-31

[[waiver]]
check = "machine.disk.free"
subject = "tmp"
reason = "being cleared"
ticket = "INFRA-1235"
until = 2001-01-01
"""

EXPECTATIONS = """\
schema = 1

[[expectation]]
check = "machine.memory.total"
subject = "box"
value = 270_582_939_648
unit = "By"
lower_ratio = -0.03
upper_ratio = 0.03
basis = "measured"
source = "sha256:0123"
measured_at = "2026-01-31"
runs = 3
premise = { memory = { size = "252 GiB" } }

[[expectation]]
check = "machine.memory.total"
subject = "other"
value = 1.5e9
unit = "By"
upper_ratio = 0.1
basis = "specification"
source = "data sheet"
"""


@dataclass(frozen=True, repr=False)
class Material:
    """Files of one host, as runs wrote them."""

    registry: object
    profile: bytes
    expectations: bytes
    ledger: bytes
    older: bytes
    head: bytes
    journal: bytes
    replay: bytes
    """Of another kind: with a waiver, an unknown and an interrupted end."""

    def __repr__(self) -> str:
        return "material"


@pytest.fixture(scope="session")
def material(tmp_path_factory) -> Material:
    top = tmp_path_factory.mktemp("fuzz-material")
    expected = top / "expected"
    (expected / "hosts").mkdir(parents=True)
    (expected / "measured").mkdir()
    (expected / "hosts" / f"{HOST}.toml").write_text(PROFILE)
    (expected / "measured" / f"{HOST}.toml").write_text(EXPECTATIONS)
    ledgers = top / "ledgers"
    first = run_here(ledgers, HOST, expected=(str(expected),), label="first", ticket="T-1")
    older = first.path.read_bytes()
    second = begin_here(ledgers, HOST, expected=(str(expected),))
    for number, key in enumerate(second.planned()):
        if number == 3:
            second.not_run(*key, "deselected on the command line")
        else:
            second.judge(*key)
    journal = second.journal.path.read_bytes()
    second.finish()
    third = begin_here(ledgers, HOST, expected=(str(expected),))
    third.judge(*third.planned()[0])
    third.finish("SIGTERM")
    made = Material(
        registry=load_areas(),
        profile=PROFILE.encode(),
        expectations=EXPECTATIONS.encode(),
        ledger=second.path.read_bytes(),
        older=older,
        head=(ledgers / HOST / "head.json").read_bytes(),
        journal=journal,
        replay=third.path.read_bytes(),
    )
    parse_ledger(made.ledger, "the ledger to change")
    return made


def seal(body: bytes) -> bytes:
    """Give a line of a journal the checksum that fits."""
    return b"%08x %s\n" % (zlib.crc32(body), body)


TODAY = datetime.date(2026, 6, 15)
OUTSIDE = Path("/")
