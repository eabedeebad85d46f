"""`preflight accept`: what it writes, what it refuses, and what it leaves as it was."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import checks.verbs.accept
from checks.cli import main
from checks.core import paths
from checks.core.errors import UsageError
from checks.core.load import load_host
from checks.core.redact import HIDDEN
from checks.ledger.canonical import ledger_digest, pretty
from tests.support.boxes import another_user, h100_box, plain_box
from tests.support.runs import HERE, clean_environment, ledger_here, main_as, write_profile

TOTAL, CONTAINER = "machine.memory.total", "machine.identity.container"
GIB = 2**30
ASSUMED = f"""
[hardware]
architecture = "x86_64"
product_name = "PowerEdge XE9680"
memory_total_bytes = {512 * GIB}
assumed = ["memory_total_bytes", "product_name"]
"""


class Bench:
    """A folder with a profile, runs on recorded trees or this machine, and the verb."""

    def __init__(self, folder: Path, capsys) -> None:
        self.folder = folder
        self.capsys = capsys
        self.expected = folder / "e"
        write_profile(self.expected, "box", ASSUMED)

    def ledger(self, host="box", box=None, **options):
        """Make a ledger of a run on a recorded tree, which says that it is one."""
        tree = self.folder / f"tree-{len(list(self.folder.iterdir()))}"
        root = str((box or h100_box()).write(tree))
        expected = (str(self.expected),)
        return self.read(
            ledger_here(self.folder / "l", host, expected=expected, root=root, **options)
        )

    def read(self, ledger):
        return Path(ledger.file)

    def live(self, host="box", **options):
        """Make a ledger of this machine."""
        expected = (str(self.expected),)
        return self.read(ledger_here(self.folder / "l", host, expected=expected, **options))

    def accept(self, ledger, *words):
        return self.run("accept", "--expected", self.expected, ledger, *words)

    def run(self, *words):
        words = [*map(str, words), "--ledger-dir", str(self.folder / "l")]
        code = main(words)
        said = self.capsys.readouterr()
        self.said = said.out + said.err
        return code

    @property
    def file(self):
        return self.expected / "rehearsed" / "box.toml"

    def numbers(self, *, rehearsal=True):
        loaded = load_host("box", [self.expected], rehearsal=rehearsal)
        return {entry.check: entry for entry in loaded.expected.numbers}


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return Bench(tmp_path, capsys)


def altered(path, **changes):
    """Write a copy of a ledger with changes and a digest that fits, and give its path."""
    row = json.loads(path.read_bytes())
    for key, value in changes.items():
        first, _, rest = key.partition("__")
        (row[first] if rest else row).update({rest or first: value})
    row["digest"] = ledger_digest(row)
    copy = path.with_name(f"altered-{path.name}")
    copy.write_bytes(pretty(row))
    return copy


# what it writes


def test_what_passed_unconfirmed_is_confirmed_by_the_next_run_after_it_was_accepted(bench):
    ledger = bench.ledger(ticket="INFRA-7", label="first-day")
    assert bench.accept(ledger, "--reason", "handed over") == 0
    assert f"wrote {bench.file}: {len(bench.numbers())} new, 0 changed" in bench.said
    assert {TOTAL, CONTAINER} < set(bench.numbers())
    assert "next: preflight run --host box" in bench.said
    total = bench.numbers()[TOTAL]
    row = json.loads(ledger.read_bytes())
    assert total.value == 527_935_488 * 1024
    assert total.source == row["digest"]
    assert total.measured_at == row["run"]["started_utc"][:10]
    assert (total.runs, total.label, total.ticket) == (1, "first-day", "INFRA-7")
    assert total.reason == "handed over"
    assert total.accepted_by
    assert total.accepted_at
    findings = json.loads(bench.ledger().read_bytes())["findings"]
    now = {one["check"]: (one["basis"], one["confirmed"]) for one in findings}
    assert now[TOTAL] == now[CONTAINER] == ("measured", True)
    assert json.loads(bench.ledger().read_bytes())["counts"]["unconfirmed"] == 0


def test_only_what_is_named_is_accepted_and_of_it_the_named_subject(bench):
    ledger = bench.ledger()
    assert bench.accept(ledger, TOTAL, "--ticket", "INFRA-9") == 0
    assert [*bench.numbers()] == [TOTAL]
    assert bench.numbers()[TOTAL].ticket == "INFRA-9"
    assert bench.accept(ledger, CONTAINER, "--subject", "nothing") == 1
    assert f"{CONTAINER} [nothing]: the ledger has nothing of it" in bench.said
    assert bench.accept(ledger, CONTAINER, "--subject", "box") == 0


def test_what_there_was_stays_byte_for_byte(bench):
    ledger = bench.ledger()
    bench.accept(ledger, TOTAL)
    before = b"# mine\n" + bench.file.read_bytes() + b"# the end"
    bench.file.write_bytes(before)
    bench.file.chmod(0o640)
    assert bench.accept(ledger, CONTAINER) == 0
    assert bench.file.read_bytes().startswith(before)
    assert bench.file.stat().st_mode & 0o777 == 0o640


def test_behind_a_link_the_file_that_it_leads_to_is_written(bench):
    ledger = bench.ledger()
    bench.accept(ledger, TOTAL)
    real = bench.folder / "real.toml"
    bench.file.rename(real)
    bench.file.symlink_to(real)
    assert bench.accept(ledger, CONTAINER) == 0
    assert bench.file.is_symlink()
    assert CONTAINER in real.read_text("utf-8")


def test_a_second_time_there_is_nothing_new_and_that_is_no_error(bench):
    ledger = bench.ledger()
    bench.accept(ledger)
    before = bench.file.read_bytes()
    assert bench.accept(ledger) == 0
    assert "nothing new to accept" in bench.said
    assert bench.accept(bench.ledger(), TOTAL) == 0
    assert f"already accepted: {TOTAL} [box]" in bench.said
    assert bench.file.read_bytes() == before


def test_a_dry_run_shows_all_and_writes_nothing_not_even_a_folder(bench):
    assert bench.accept(bench.ledger(), "--dry-run") == 0
    assert f"{TOTAL} [box]" in bench.said
    assert "503.5 GiB" in bench.said
    assert f"nothing written (--dry-run); it would be {bench.file}" in bench.said
    assert not bench.file.parent.exists()


def test_a_secret_in_the_reason_is_not_kept(bench):
    secret = "hf_plantedplantedplantedplanted0123"
    assert bench.accept(bench.ledger(), TOTAL, "--reason", f"token {secret}\x1b") == 0
    assert bench.numbers()[TOTAL].reason == f"token {HIDDEN}\\x1b"
    assert secret not in bench.said


# swaps


def another_board():
    box = h100_box()
    return box.put("/sys/class/dmi/id/product_name", "ProLiant DL380\n")


def test_a_swapped_part_asks_for_its_own_value_and_the_old_part_brings_its_own_back(bench):
    product = "machine.identity.product"

    def finding(path):
        rows = json.loads(path.read_bytes())["findings"]
        return next(one for one in rows if one["check"] == product)

    bench.accept(bench.ledger(), product)
    swapped = bench.ledger(box=another_board())
    assert finding(swapped)["reason"] == "premise-changed"
    assert bench.accept(swapped, product) == 0
    loaded = load_host("box", [bench.expected], rehearsal=True)
    assert [entry.value for entry in loaded.expected.numbers] == [
        "PowerEdge XE9680",
        "ProLiant DL380",
    ]
    for box, name in ((another_board(), "ProLiant DL380"), (h100_box(), "PowerEdge XE9680")):
        found = finding(bench.ledger(box=box))
        assert (found["verdict"], found["confirmed"]) == ("pass", True)
        assert found["observed"]["name"] == name


def more_memory(kib):
    box = h100_box()
    return box.put("/proc/meminfo", f"MemTotal: {kib:10} kB\nMemAvailable:   300000000 kB\n")


def test_another_value_for_the_same_parts_wants_a_word_and_then_takes_its_place(bench):
    other = bench.ledger(box=more_memory(526_000_000))  # before there was a value to compare with
    bench.accept(bench.ledger(), TOTAL)
    before = bench.file.read_bytes()
    assert bench.accept(other) == 1
    assert f"{TOTAL} [box]: 540605939712 By → 538624000000 By" in bench.said
    assert "say --change as well" in bench.said
    assert bench.file.read_bytes() == before
    assert bench.accept(other, "--change", "--dry-run") == 0
    assert bench.accept(other, TOTAL, "--change") == 0
    assert "0 new, 1 changed" in bench.said
    assert bench.numbers()[TOTAL].value == 538_624_000_000


# several runs


def test_several_runs_must_agree_and_their_number_is_kept(bench):
    runs = [bench.ledger(box=more_memory(kib)) for kib in (527_000_000, 526_000_000, 528_000_000)]
    far = bench.ledger(box=more_memory(536_000_000))
    also = [word for run in runs[1:] for word in ("--also", run)]
    assert bench.accept(runs[0], TOTAL, *also) == 0
    total = bench.numbers()[TOTAL]
    assert (total.value, total.runs) == (527_000_000 * 1024, 3)
    for run in runs:
        assert json.loads(run.read_bytes())["digest"] in total.source
    bench.file.unlink()
    assert bench.accept(runs[1], TOTAL, "--also", far) == 1
    assert "do not agree within the tolerance" in bench.said
    assert not bench.file.exists()


def test_one_run_twice_and_runs_of_two_boxes_agree_on_nothing(bench):
    ledger = bench.ledger()
    assert bench.accept(ledger, "--also", ledger) == 1
    assert "given twice" in bench.said
    write_profile(bench.expected, "other", "")
    assert bench.accept(ledger, "--also", bench.ledger("other")) == 1
    assert "its host is other, that of the first box" in bench.said
    assert bench.accept(ledger, "--also", bench.live()) == 1
    assert "its kind is run, that of the first rehearsal" in bench.said


# refusals


def test_without_names_what_cannot_be_accepted_is_listed_and_the_rest_accepted(bench):
    assert bench.accept(bench.ledger(box=more_memory(400_000_000))) == 0
    assert f"not accepted: {TOTAL} [box]: failed: 381.5 GiB of memory" in bench.said
    assert TOTAL not in bench.numbers()
    assert CONTAINER in bench.numbers()


def test_with_names_it_is_all_or_nothing(bench):
    ledger = bench.ledger(box=more_memory(400_000_000))
    for name, why in (
        (TOTAL, "failed: 381.5 GiB"),
        ("machine.identity.architecture", "declared in the profile"),
        ("machine.disk.free", "takes no measured value"),
    ):
        assert bench.accept(ledger, CONTAINER, name) == 1
        assert f"not accepted: {name} [box]: {why}" in bench.said
        assert "nothing was accepted" in bench.said
        assert not bench.file.exists()


def test_what_nobody_could_see_is_no_answer(bench):
    box = h100_box().drop("/proc/meminfo")
    assert bench.accept(bench.ledger(box=box), TOTAL) == 10
    assert "unknown: not-observable" in bench.said


def test_a_check_that_does_not_exist_is_a_slip(bench):
    assert bench.accept("box", "machine.memory.totl") == 2
    assert "did you mean machine.memory.total" in bench.said


def test_a_ledger_whose_content_does_not_fit_its_digest_is_refused(bench):
    path = bench.ledger()
    path.write_bytes(path.read_bytes().replace(b"540605939712", b"540605939713"))
    assert bench.accept(path) == 1
    assert "the content is not the one that this digest was made of" in bench.said
    assert not bench.file.exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"run__end": "interrupted", "run__interrupted_by": "SIGINT"}, "interrupted (SIGINT)"),
        ({"run__controls": False}, "--no-controls"),
        ({"anonymous_of": f"sha256:{'0' * 64}"}, "anonymous copy"),
        ({"run__kind": "replay", "replay_of": f"sha256:{'0' * 64}"}, "a replay"),
    ],
)
def test_a_ledger_that_proves_nothing_is_refused_whole(bench, changes, says):
    assert bench.accept(altered(bench.ledger(), **changes)) == 1
    assert says in bench.said
    assert not bench.file.exists()


def test_the_host_local_is_every_box_and_has_no_values_unless_a_host_is_named(bench):
    ledger = bench.ledger("local")
    assert bench.accept(ledger) == 1
    assert "`preflight adopt NAME`, and say --host NAME" in bench.said
    assert bench.accept(ledger, "--host", "nobody") == 2
    assert "there is no profile for the host 'nobody'" in bench.said
    assert bench.accept(ledger, "--host", "box") == 0
    assert TOTAL in bench.numbers()


def test_a_file_with_mistakes_gives_the_errors_of_its_reader_and_stays(bench):
    bench.file.parent.mkdir()
    bench.file.write_text("schema = 1\nexpectatoin = 1\n", "utf-8")
    assert bench.accept(bench.ledger(host="local"), "--host", "box") == 2
    assert f"{bench.file}:2: expectatoin: unknown key; did you mean `expectation`?" in bench.said
    assert bench.file.read_text("utf-8") == "schema = 1\nexpectatoin = 1\n"


def test_a_folder_that_is_not_there_is_not_made(bench):
    ledger = bench.ledger()
    assert bench.run("accept", ledger, "--expected", bench.folder / "typo") == 2
    assert "there is no such folder of expectations" in bench.said
    assert not (bench.folder / "typo").exists()


# rehearsals are no runs


def test_what_is_accepted_from_a_rehearsal_counts_in_no_run_on_a_machine(bench):
    """A value of a recorded tree must not make a machine green."""
    write_profile(bench.expected, "box", "")
    assert bench.accept(bench.ledger()) == 0
    assert "next: preflight run --host box" in bench.said
    assert bench.said.rstrip().endswith("--root DIR")
    row = json.loads(bench.live().read_bytes())
    assert row["expectations"] == []
    assert "measured" not in {one["basis"] for one in row["findings"]}
    rehearsed = json.loads(bench.ledger().read_bytes())
    assert "measured" in {one["basis"] for one in rehearsed["findings"]}


def test_what_was_measured_on_a_machine_counts_in_rehearsals_until_one_says_otherwise(bench):
    write_profile(bench.expected, "box", "")
    assert bench.accept(bench.live(), CONTAINER) == 0
    assert not bench.file.exists()
    here = bench.numbers(rehearsal=False)[CONTAINER].value
    assert bench.numbers(rehearsal=True)[CONTAINER].value == here


# the file


def test_two_at_once_lose_nothing(bench):
    ledger = bench.ledger()
    names = (TOTAL, CONTAINER, "machine.identity.product", "machine.identity.virtualization")
    words = ("accept", ledger)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "checks.cli", *(*words, name, "--expected", bench.expected)],
            cwd=HERE,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [one.wait(timeout=60) for one in started] == [0, 0, 0, 0]
    assert set(bench.numbers()) == set(names)


def test_who_comes_second_waits_and_sees_what_the_first_has_written(bench, monkeypatch):
    ledger = bench.ledger()
    write = checks.verbs.accept.write
    inside, go_on = threading.Event(), threading.Event()

    def slow(*words):
        inside.set()
        assert go_on.wait(30)
        write(*words)

    monkeypatch.setattr(checks.verbs.accept, "write", slow)
    first = threading.Thread(
        target=main, args=(["accept", str(ledger), TOTAL, "--expected", str(bench.expected)],)
    )
    first.start()
    assert inside.wait(30)
    monkeypatch.setattr(checks.verbs.accept, "write", write)
    second = threading.Thread(
        target=main, args=(["accept", str(ledger), CONTAINER, "--expected", str(bench.expected)],)
    )
    second.start()
    time.sleep(0.3)
    assert second.is_alive()
    go_on.set()
    first.join(30)
    second.join(30)
    assert set(bench.numbers()) == {TOTAL, CONTAINER}


def test_what_somebody_writes_meanwhile_by_hand_is_not_lost(bench, monkeypatch):
    ledger = bench.ledger()
    bench.accept(ledger, TOTAL)
    amended = checks.verbs.accept.amended

    def meanwhile(*words, **more):
        bench.file.write_bytes(bench.file.read_bytes() + b"# by hand\n")
        return amended(*words, **more)

    monkeypatch.setattr(checks.verbs.accept, "amended", meanwhile)
    assert bench.accept(ledger, CONTAINER) == 1
    assert "somebody has changed it meanwhile; try again" in bench.said
    assert bench.file.read_bytes().endswith(b"# by hand\n")
    assert [*bench.numbers()] == [TOTAL]


@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_be_read_back_is_taken_back(bench, monkeypatch, there):
    ledger = bench.ledger()
    if there:
        bench.accept(ledger, TOTAL)
    before = bench.file.read_bytes() if there else None
    amended = checks.verbs.accept.amended

    def broken(*words, **more):
        return amended(*words, **more) + b"nonsense = 1\n"

    monkeypatch.setattr(checks.verbs.accept, "amended", broken)
    assert bench.accept(ledger, CONTAINER) == 2
    assert "nonsense: unknown key" in bench.said
    assert "nothing was accepted; the file is as it was" in bench.said
    assert (bench.file.read_bytes() if there else None) == before
    assert bench.file.exists() is there


def test_a_folder_that_may_not_be_written_is_one_clear_text(open_path):
    expected = write_profile(open_path / "e", "box", ASSUMED)
    root = str(plain_box().write(open_path / "tree"))
    ledger = ledger_here(open_path / "l", "box", expected=(str(expected),), root=root)
    rehearsed = expected / "rehearsed"
    for is_there in (False, True):
        if is_there:
            rehearsed.mkdir()
            rehearsed.chmod(0o555)
        expected.chmod(0o555)
        code, said = main_as(
            another_user(), open_path, "accept", ledger.file, "--expected", expected
        )
        expected.chmod(0o755)
        assert code == 2
        line = said.splitlines()[-1]
        assert line.startswith(f"preflight: {expected}/rehearsed")
        assert "cannot be written (Permission denied)" in line
        assert "--expected DIR" in line


def test_nothing_is_written_into_an_installed_package(tmp_path, monkeypatch, capsys):
    data = tmp_path / "preflight" / "_data" / "expected"
    data.mkdir(parents=True)
    monkeypatch.setattr(paths, "HERE", tmp_path)
    monkeypatch.delenv("PREFLIGHT_EXPECTED", raising=False)
    for given in ([], [str(data)]):
        with pytest.raises(UsageError, match="name a folder of your own"):
            paths.own_folder(given)
    assert paths.own_folder(["mine"]) == Path("mine")
    monkeypatch.setenv("PREFLIGHT_EXPECTED", str(tmp_path / "own"))
    assert paths.own_folder() == tmp_path / "own"
