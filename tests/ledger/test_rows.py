"""A host's row of ledgers: heads, names, what verify sees, and what prune leaves behind."""

import errno
import fcntl
import json
import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from checks.cli import main
from checks.core.errors import PreflightError, StoreError
from checks.core.registry import load_areas
from checks.ledger.canonical import ledger_digest, pretty
from checks.ledger.files import write_whole
from checks.ledger.head import HEAD
from checks.ledger.lock import LOCK
from checks.ledger.prune import prune
from checks.ledger.schema import read_ledger
from checks.ledger.store import HostFolder, ledger_name, scope_entry
from checks.ledger.verify import CANNOT_SEE, PRUNED, verify_file, verify_row
from tests.support.runs import begin_here, ledger_here, run_here

HELD = f"{LOCK}-held"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Make a row of five ledgers, once."""
    folder = tmp_path_factory.mktemp("row")
    for number in range(5):
        run_here(folder, label=f"n{number}")
    return folder / "local"


@pytest.fixture
def row(original, tmp_path):
    """Give a copy of the row that may be damaged: its folder, and its files, oldest first."""
    copy = tmp_path / "local"
    shutil.copytree(original, copy, copy_function=shutil.copy2)
    folder = HostFolder(tmp_path, "local")
    files = sorted(folder.ledgers(), key=lambda path: read_ledger(path).run["label"])
    return folder, files


def wrong(folder, **more):
    return verify_row(folder, **more).wrong


def turned_away(tmp_path):
    """Ask for a folder that is held: what the error says, and what was told while it waited."""
    told = []
    with pytest.raises(StoreError, match="another run of local is still under way") as caught:
        HostFolder(tmp_path, "local").lock(wait_s=0.25, waiting=told.append)
    return str(caught.value), told[0]


def altered(path, **changes):
    """Change a ledger and make its own digest fit."""
    content = json.loads(path.read_text("utf-8"))
    content["run"].update(changes)
    content["digest"] = ledger_digest(content)
    path.write_bytes(pretty(content))


def test_a_row_of_one_ledger_is_said_to_be_that(tmp_path):
    session = run_here(tmp_path)
    report = verify_row(session.folder)
    assert report.good == [f"1 ledger in a row, newest {session.path.name}"]


def test_a_whole_row_verifies_and_says_what_cannot_be_seen(row):
    folder, files = row
    report = verify_row(folder)
    assert report.wrong == []
    assert f"5 ledgers in a row, newest {files[-1].name}" in report.good
    assert CANNOT_SEE in report.notes


@pytest.mark.parametrize("number", range(5))
def test_the_file_that_was_altered_is_named_and_no_other(row, number):
    folder, files = row
    text = files[number].read_text("utf-8")
    files[number].write_text(text.replace('"interrupted_by": ""', '"interrupted_by": "x"'))
    found = wrong(folder)
    assert f"{files[number]}: altered" in found[0]
    others = [path for path in files if path != files[number]]
    assert not [line for line in found for path in others if line.startswith(f"{path}:")], found
    assert len(found) <= 2, found


@pytest.mark.parametrize("number", range(5))
def test_a_file_that_was_altered_with_its_digest_made_to_fit_is_found(row, number):
    folder, files = row
    altered(files[number], interrupted_by="x")
    found = wrong(folder)
    assert found
    assert files[number].name in "\n".join(found)


@pytest.mark.parametrize("number", range(5))
def test_the_file_that_is_missing_is_named(row, number):
    folder, files = row
    files[number].unlink()
    found = wrong(folder)
    assert found[0].startswith(f"{files[number]}: missing")
    assert len(found) == 1, found


@pytest.mark.parametrize("number", range(5))
def test_the_file_that_is_torn_is_named(row, number):
    folder, files = row
    files[number].write_bytes(files[number].read_bytes()[:-100])
    assert wrong(folder)[0].startswith(f"{files[number]}: is not JSON")


@pytest.mark.parametrize("number", range(5))
def test_a_file_that_was_renamed_is_named(row, number):
    folder, files = row
    new = files[number].with_name(files[number].name.replace("-pass", "-fine"))
    files[number].rename(new)
    (found,) = wrong(folder)
    assert found.startswith(f"{new}: renamed: ")
    assert files[number].name in found


def test_a_file_of_another_host_is_named(row, made):
    folder, _files = row
    foreign = folder.path / "20200101T000000Z-h100-1-0gpu-cpu-pass.json"
    content = {**made.row, "run": {**made.row["run"], "kind": "run"}}
    content["digest"] = ledger_digest(content)
    foreign.write_bytes(pretty(content))
    found = wrong(folder)
    assert f"{foreign}: is a ledger of 'h100-1'" in found


def test_a_file_that_stands_outside_of_the_row_is_named(row, tmp_path):
    folder, _files = row
    other = ledger_here(tmp_path / "other")
    planted = folder.path / Path(other.file).name.replace("-local", "-local-planted")
    shutil.copy(other.file, planted)
    (found,) = wrong(folder)
    assert found.startswith(f"{planted}: out of order")


def test_the_same_ledger_twice_is_named(row):
    folder, files = row
    twin = files[2].with_name(files[2].name.replace(".json", "-copy.json"))
    shutil.copy(files[2], twin)
    assert any("the same ledger as" in line for line in wrong(folder))


def test_an_older_head_put_back_leaves_the_newer_ledger_out_of_the_row(row, original, tmp_path):
    folder, _files = row
    later = ledger_here(tmp_path)
    shutil.copy(original / HEAD, folder.path / HEAD)
    (found,) = wrong(folder)
    assert found.startswith(f"{later.file}: out of order")


@pytest.mark.parametrize("damage", ["missing", "torn", "foreign"])
def test_a_head_that_is_not_whole_is_named(row, damage):
    folder, _ = row
    head = folder.path / HEAD
    if damage == "missing":
        head.unlink()
    else:
        head.write_text("{" if damage == "torn" else '{"schema": "preflight-head/1"}')
    assert str(head) in wrong(folder)[0]


def test_the_bytes_of_the_newest_ledger_are_those_that_the_head_names(row):
    folder, files = row
    files[-1].write_bytes(files[-1].read_bytes() + b"\n")
    (found,) = wrong(folder)
    assert "its bytes are not those that head.json names" in found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verdict", "fail"),
        ("exit_code", 1),
        ("scope", "machine"),
        ("fingerprint", {}),
        ("boot_offset_s", 1.0),
        ("newest_s", 0.0),
    ],
)
def test_a_head_that_does_not_say_what_its_ledger_says_is_named(row, key, value):
    folder, _ = row
    path = folder.path / HEAD
    content = json.loads(path.read_text("utf-8"))
    assert content[key] != value
    path.write_bytes(pretty({**content, key: value}))
    (said,) = wrong(folder)
    assert said.startswith(f"{path}: {key} is ")


def test_what_a_head_says_of_a_scope_is_compared_too(row):
    folder, _ = row
    path = folder.path / HEAD
    content = json.loads(path.read_text("utf-8"))
    content["scopes"]["all"]["verdict"] = "fail"
    path.write_bytes(pretty(content))
    (said,) = wrong(folder)
    assert said.startswith(f"{path}: what it says of the scope all ")


def test_a_head_that_names_an_older_ledger_of_a_scope_is_named(row):
    folder, files = row
    path = folder.path / HEAD
    content = json.loads(path.read_text("utf-8"))
    older = read_ledger(files[1])
    content["scopes"]["all"] = scope_entry(older.row, files[1].name, older.sha256)
    path.write_bytes(pretty(content))
    (said,) = wrong(folder)
    assert said == f"{path}: {files[-1].name} is newer than what it says of the scope all"


@pytest.mark.parametrize(("key", "value"), [("host", "other"), ("newest_s", 9e9)])
def test_a_head_that_says_what_no_ledger_says_is_named(row, key, value):
    folder, _ = row
    path = folder.path / HEAD
    content = json.loads(path.read_text("utf-8"))
    path.write_bytes(pretty({**content, key: value}))
    (said,) = wrong(folder)
    assert said.startswith(f"{path}: ")


@pytest.mark.parametrize("head", [None, b"{"])
def test_without_a_head_the_file_that_is_missing_is_named_all_the_same(row, head):
    folder, files = row
    files[2].unlink()
    (folder.path / HEAD).unlink()
    if head is not None:
        (folder.path / HEAD).write_bytes(head)
    said = wrong(folder)
    assert f"{files[2]}: missing: {files[3].name} follows it" in said
    assert len(said) == 2
    assert said[0].startswith(str(folder.path / HEAD))


def test_a_folder_that_may_not_be_listed_is_not_called_empty(row, monkeypatch):
    folder, _ = row

    def refuse(_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PreflightError, match=r"cannot be read \(Permission denied\)"):
        verify_row(folder)


def test_a_ledger_that_may_not_be_read_is_not_called_altered(row, monkeypatch):
    folder, files = row
    true_access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != files[2] and true_access(path, mode)
    )
    with pytest.raises(PreflightError, match="may not be read") as caught:
        verify_row(folder)
    assert str(files[2]) in str(caught.value)


def test_a_replay_among_the_ledgers_of_runs_is_named(row):
    folder, files = row
    content = json.loads(files[-1].read_text("utf-8"))
    content["run"]["kind"] = "replay"
    content["digest"] = ledger_digest(content)
    stray = files[-1].with_name(files[-1].name.replace("n4", "n5"))
    stray.write_bytes(pretty(content))
    (said,) = wrong(folder)
    assert said == f"{stray}: of a replay, which belongs into replays/ and not here"


def test_a_ledger_behind_a_link_is_named(row, tmp_path):
    folder, files = row
    files[2].rename(tmp_path / "elsewhere.json")
    files[2].symlink_to(tmp_path / "elsewhere.json")
    (said,) = wrong(folder)
    assert said == f"{files[2]}: a link; a ledger is a file of its own"


def test_a_journal_that_is_put_back_does_not_make_its_ledger_the_newest_again(tmp_path):
    """A folder that is restored from a copy, or a removal that a power cut undid."""
    session = begin_here(tmp_path)
    raw = session.journal.path.read_bytes()
    session.finish("")
    for label in ("second", "third"):
        run_here(tmp_path, label=label)
    folder = HostFolder(tmp_path, "local")
    before = (folder.path / HEAD).read_bytes()
    session.journal.path.write_bytes(raw)
    folder.lock()
    ((path, what),) = folder.recover(load_areas())
    folder.unlock()
    assert path.name == Path(session.path).name
    assert what == "its ledger was whole already"
    assert (folder.path / HEAD).read_bytes() == before
    assert folder.journals() == []
    assert wrong(folder) == []
    run_here(tmp_path, label="fourth")
    assert wrong(folder) == []


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_second_run_waits_and_then_says_who_holds_it(tmp_path):
    session = begin_here(tmp_path)
    said, told = turned_away(tmp_path)
    assert f"pid {os.getpid()} on {platform.node()}" in said
    assert f"if that run is gone, remove {tmp_path / 'local' / HELD}" in said
    assert "waiting for it" in told
    session.finish("")
    assert not (tmp_path / "local" / HELD).exists()
    run_here(tmp_path)
    assert wrong(HostFolder(tmp_path, "local")) == []
    assert not (tmp_path / "local" / HELD).exists()


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("box", ["this", "another"])
def test_without_locks_a_dead_run_of_this_box_holds_nothing(tmp_path, box):
    run_here(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    name = platform.node() if box == "this" else "another-box"
    held = tmp_path / "local" / HELD
    held.write_text(f"pid {gone.pid} on {name}, since 2026-12-02T00:00:00.000Z")
    folder = HostFolder(tmp_path, "local")
    if box == "this":
        folder.lock()
        folder.unlock()
        assert not held.exists()
    else:
        with pytest.raises(StoreError, match="on another-box"):
            folder.lock()
        assert held.exists()


@pytest.mark.parametrize("made", [False, True])
def test_where_there_is_no_ledger_yet_there_is_nothing_to_verify(tmp_path, capsys, made):
    if made:
        (tmp_path / "local").mkdir()
    folder = HostFolder(tmp_path, "local")
    report = verify_row(folder)
    assert (report.wrong, report.good) == ([], [])
    assert main(["verify", "local", "--ledger-dir", str(tmp_path)]) == 10
    out = capsys.readouterr().out
    assert f"nothing to verify: there is no ledger yet in {folder.path}" in out
    assert ("hosts there: none" in out) is not made


def test_where_a_ledger_is_expected_an_empty_folder_is_wrong(tmp_path):
    (tmp_path / "local").mkdir()
    assert wrong(HostFolder(tmp_path, "local"), expect="sha256:" + "0" * 64)


@pytest.mark.parametrize("left", [HEAD, PRUNED])
def test_a_row_of_which_only_a_trace_is_left_is_wrong(row, left):
    folder, _files = row
    prune(folder, 1)
    for path in folder.path.iterdir():
        if path.name != left:
            path.unlink()
    assert wrong(folder)


def test_a_consistently_rewritten_row_is_only_seen_with_a_digest_kept_elsewhere(row):
    folder, files = row
    kept = read_ledger(files[-1]).row["digest"]
    # the whole end of the row, head included, is made anew
    altered(files[-1], interrupted_by="rewritten")
    content = json.loads(files[-1].read_text("utf-8"))
    HostFolder(folder.path.parent, "local").set_head(content, files[-1].name, pretty(content))
    assert wrong(folder) == [], "nothing in the folder can show it, and the notes say so"
    (found,) = wrong(folder, expect=kept)
    assert kept in found
    assert wrong(folder, expect=content["digest"]) == []
    assert wrong(folder, expect=content["digest"].removeprefix("sha256:")) == []


def test_expect_works_on_one_file_too(row):
    _, files = row
    digest = read_ledger(files[0]).row["digest"]
    assert verify_file(files[0], digest).wrong == []
    assert verify_file(files[0], "sha256:" + "0" * 64).wrong
    assert CANNOT_SEE not in verify_file(files[0], digest).notes


def test_the_exit_code_of_verify_is_the_answer(row, capsys):
    folder, files = row
    ledgers = str(folder.path.parent)
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 0
    assert main(["verify", str(files[1])]) == 0
    files[1].unlink()
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 1
    assert f"WRONG  {files[1]}: missing" in capsys.readouterr().out
    assert main(["verify", str(files[1])]) == 2
    assert main(["verify", "no-such-host", "--ledger-dir", ledgers]) == 10


# mending


def test_a_damaged_row_is_told_how_to_begin_anew_and_doing_that_mends_it(row, tmp_path, capsys):
    folder, files = row
    files[2].unlink()
    ledgers = str(tmp_path)
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "to begin a new row: " in last
    words = shlex.split(last.partition("to begin a new row: ")[2].partition(";")[0])
    assert words[:2] == ["mv", str(folder.path)]
    subprocess.run(words, check=True)
    later = run_here(tmp_path)
    assert later.ledger["notices"] == []
    assert main(["verify", "local", "--ledger-dir", ledgers]) == 0
    for path in files[:2] + files[3:]:
        assert (
            main(["show", str(Path(words[2]) / path.name)])
            == read_ledger(Path(words[2]) / path.name).run["exit_code"]
        )


def test_a_second_damaged_row_of_a_day_is_not_moved_into_the_first(row, tmp_path):
    folder, files = row
    files[2].unlink()
    (note,) = [text for text in verify_row(folder).notes if " mv " in text]
    (aside,) = [word for word in note.split() if ".damaged-" in word and word.endswith(";")]
    Path(aside.rstrip(";")).mkdir()
    (note,) = [text for text in verify_row(folder).notes if " mv " in text]
    assert f"{aside.rstrip(';')}-2;" in note.split()


@pytest.mark.parametrize("content", [None, "{", '{"schema": "preflight-head/1"}'])
def test_a_head_alone_is_mended_by_the_next_run_and_verify_says_so(row, tmp_path, content):
    folder, files = row
    if content is None:
        (folder.path / HEAD).unlink()
    else:
        (folder.path / HEAD).write_text(content)
    report = verify_row(folder)
    assert report.wrong
    assert report.notes[-1] == (
        f"to mend it, run preflight: a run writes head.json anew and follows {files[-1].name}"
    )
    run_here(tmp_path)
    assert wrong(folder) == []


def test_a_digest_that_is_not_in_the_row_is_no_damage_to_mend(row):
    folder, _files = row
    report = verify_row(folder, "sha256:" + "0" * 64)
    assert report.wrong
    assert not any("mend" in text for text in report.notes)


# prune


def test_prune_keeps_the_newest_and_leaves_a_trace_that_verify_accepts(row):
    folder, files = row
    assert prune(folder, 2) == [path.name for path in files[:3]]
    assert folder.ledgers() == sorted(files[3:])
    report = verify_row(folder)
    assert report.wrong == []
    assert any("pruned" in note and files[2].name in note for note in report.notes)
    trace = [json.loads(line) for line in (folder.path / PRUNED).read_text().splitlines()]
    assert [line["file"] for line in trace] == [path.name for path in files[:3]]


def test_the_same_deletion_without_the_trace_is_not_accepted(row):
    folder, files = row
    prune(folder, 2)
    (folder.path / PRUNED).unlink()
    assert wrong(folder)[0].startswith(f"{files[2]}: missing")


def test_a_row_may_be_pruned_again_and_go_on(row, tmp_path):
    folder, _files = row
    prune(folder, 3)
    later = ledger_here(tmp_path)
    prune(folder, 1)
    assert folder.ledgers() == [Path(later.file)]
    assert wrong(folder) == []
    assert prune(folder, 1) == []


def test_a_damaged_row_is_not_pruned(row):
    folder, files = row
    files[1].unlink()
    with pytest.raises(PreflightError, match="mend that before pruning") as caught:
        prune(folder, 1)
    lines = str(caught.value).splitlines()
    assert lines[1:] == [*wrong(folder), verify_row(folder).notes[-1]]
    assert all(line.count(str(files[1])) <= 1 for line in lines)
    assert len(folder.ledgers()) == 4
    assert not (folder.path / PRUNED).exists()


def test_after_pruning_a_run_is_compared_with_no_ledger_that_is_gone(row, tmp_path):
    folder, _files = row
    area = ledger_here(tmp_path, only="machine")
    whole = ledger_here(tmp_path)
    prune(folder, 1)
    assert not Path(area.file).exists()
    assert wrong(folder) == []
    assert set(folder.head().scopes) == {"all"}
    later = run_here(tmp_path, only="machine")
    assert later.ledger["notices"] == []
    assert later.earlier.file == whole.file


def test_a_prune_that_removes_nothing_lets_the_head_be(row):
    folder, files = row
    before = (folder.path / HEAD).read_bytes()
    assert prune(folder, len(files)) == []
    assert (folder.path / HEAD).read_bytes() == before
    assert not (folder.path / PRUNED).exists()


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("earlier", [False, True])
def test_on_a_full_disk_prune_says_that_it_needs_a_little_room_itself(
    row, capsys, monkeypatch, earlier
):
    folder, files = row
    if earlier:
        prune(folder, 4)
    before = {
        path.name: path.read_bytes() for path in folder.path.iterdir() if path.name != ".lock"
    }
    for name in ("write", "pwrite"):
        monkeypatch.setattr(os, name, no_room)
    assert main(["prune", "local", "--keep", "1", "--ledger-dir", str(folder.path.parent)]) == 2
    error = capsys.readouterr().err
    assert f"preflight: {folder.path}: cannot be pruned (No space left on device)" in error
    assert "remove something else on this file system" in error
    monkeypatch.undo()
    after = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.name != ".lock"}
    assert after == before
    assert wrong(folder) == []
    assert prune(folder, 1) == [path.name for path in files[1 if earlier else 0 : 4]]


def test_a_prune_that_was_cut_off_after_its_trace_goes_on(row, monkeypatch):
    folder, files = row
    unlink = Path.unlink
    with monkeypatch.context() as patched:
        patched.setattr(
            Path,
            "unlink",
            lambda path, **how: no_room() if path.suffix == ".json" else unlink(path, **how),
        )
        with pytest.raises(StoreError):
            prune(folder, 2)
    assert wrong(folder) == []
    assert len(folder.ledgers()) == 5
    prune(folder, 2)
    assert wrong(folder) == []
    assert len((folder.path / PRUNED).read_text().splitlines()) == 3
    assert folder.ledgers() == sorted(files[3:])


def test_a_trace_that_was_damaged_is_named(row):
    folder, _ = row
    prune(folder, 2)
    with (folder.path / PRUNED).open("a") as file:
        file.write("{torn\n")
    assert any(f"{folder.path / PRUNED}:4" in line for line in wrong(folder))


def test_where_there_is_no_ledger_yet_there_is_nothing_to_prune(tmp_path, capsys):
    (tmp_path / "local").mkdir()
    assert main(["prune", "local", "--keep", "1", "--ledger-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing to prune: there is no ledger yet\n"


def test_prune_on_the_command_line(row, capsys):
    folder, files = row
    ledgers = str(folder.path.parent)
    assert main(["prune", "local", "--keep", "4", "--ledger-dir", ledgers]) == 0
    assert f"removed {files[0].name}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["prune", "local", "--keep", "0", "--ledger-dir", ledgers])
    assert caught.value.code == 2
    assert main(["prune", "nobody", "--keep", "1", "--ledger-dir", ledgers]) == 2


# the head


def test_the_head_names_the_newest_ledger_and_what_a_hurried_reader_needs(row):
    folder, files = row
    head = folder.head()
    newest = folder.newest()
    assert head.file == files[-1].name
    assert newest.sha256 == head.sha256
    assert head.verdict == newest.run["verdict"]
    assert head.exit_code == newest.run["exit_code"]
    assert head.previous == newest.row["previous"]
    assert set(head.fingerprint) == set(newest.row["fingerprint"])


def test_each_ledger_follows_the_one_before(row):
    _, files = row
    rows = [read_ledger(path).row for path in files]
    assert rows[0]["previous"] is None
    for before, after, path in zip(rows, rows[1:], files, strict=False):
        assert after["previous"] == {"file": path.name, "digest": before["digest"]}


def test_the_high_water_mark_never_goes_back_with_the_clock(row):
    folder, files = row
    mark = folder.head().newest_s
    content = json.loads(files[-1].read_text("utf-8"))
    content["time"]["started_s"] = 1_000_000.0
    folder.set_head(content, files[-1].name, pretty(content))
    assert folder.head().newest_s == mark
    content["time"]["started_s"] = mark + 1_000
    folder.set_head(content, files[-1].name, pretty(content))
    assert folder.head().newest_s >= mark + 1_000


def test_a_replay_or_a_rehearsal_never_becomes_head(row, tmp_path):
    folder, files = row
    before = (folder.path / HEAD).read_bytes()
    session = run_here(tmp_path, replay=str(files[0]))
    assert session.path.parent == folder.path / "replays"
    assert session.ledger["previous"] is None
    assert (folder.path / HEAD).read_bytes() == before
    assert wrong(folder) == []


def test_a_run_after_a_damaged_head_says_so_and_goes_on(row, tmp_path):
    folder, _files = row
    (folder.path / HEAD).write_text("{")
    session = run_here(tmp_path)
    first, second = session.ledger["notices"]
    assert "the head was damaged" in first
    assert second == f"this run follows {_files[-1].name}", "it was not missing"
    assert folder.head().file == session.path.name


def test_a_head_from_the_future_is_what_the_clock_is_held_against(row, tmp_path):
    folder, files = row
    content = json.loads(files[-1].read_text("utf-8"))
    content["time"]["started_s"] += 1_000_000
    folder.set_head(content, files[-1].name, files[-1].read_bytes())
    session = run_here(tmp_path)
    found = {row["check"]: row for row in session.ledger["findings"]}
    assert found["machine.clock.past"]["verdict"] == "fail"


# names

BASE = {
    "host": "h100-1",
    "run": {
        "started_utc": "2026-12-02T06:45:00.123Z",
        "label": "",
        "ticket": "",
        "verdict": "pass",
    },
    "fingerprint": {},
}


def name(kinds=(), **run):
    names = ("vendor", "device", "model")
    parts = {
        f"gpu[{n}]": {"kind": dict(zip(names, kind, strict=True))} for n, kind in enumerate(kinds)
    }
    return ledger_name({**BASE, "fingerprint": parts, "run": {**BASE["run"], **run}})


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (name(), "20261202T064500Z-h100-1-0gpu-cpu-pass.json"),
        (name(label="after swap"), "20261202T064500Z-h100-1-after-swap-0gpu-cpu-pass.json"),
        (
            name(label="l", ticket="INFRA/12 #3", verdict="fail"),
            "20261202T064500Z-h100-1-l-INFRA-12-3-0gpu-cpu-fail.json",
        ),
        (name(ticket="../../etc/passwd"), "20261202T064500Z-h100-1-etc-passwd-0gpu-cpu-pass.json"),
        (name(ticket="…é✓"), "20261202T064500Z-h100-1-x-0gpu-cpu-pass.json"),
        (
            name([("0x10de", "0x2330", "NVIDIA H100 80GB HBM3")] * 8),
            "20261202T064500Z-h100-1-8gpu-h100-80gb-hbm3-pass.json",
        ),
        (
            name([("0x1002", "0x74a1", None)] * 4),
            "20261202T064500Z-h100-1-4gpu-1002-74a1-pass.json",
        ),
        (name([(None, None, None)]), "20261202T064500Z-h100-1-1gpu-gpu-pass.json"),
        (
            name([("0x10de", None, "NVIDIA RTX 6000 Ada Generation / Max-Q")]),
            "20261202T064500Z-h100-1-1gpu-rtx-6000-ada-generation-max-q-pass.json",
        ),
    ],
)
def test_the_name_of_a_ledger_tells_when_where_what_and_how_it_ended(made, wanted):
    assert made == wanted


def test_a_name_fits_on_every_file_system():
    long = name([("0x10de", None, "x" * 300)], label="l" * 300, ticket="t\0\n" * 300)
    assert len(long) <= 255
    assert all(letter.isalnum() or letter in "-._" for letter in long)


def test_two_ledgers_of_one_second_do_not_overwrite_each_other(tmp_path, monkeypatch):
    import checks.session

    monkeypatch.setattr(checks.session.time, "time", lambda: 1_900_000_000.25)
    sessions = [run_here(tmp_path) for _ in range(3)]
    names = {session.path.name for session in sessions}
    assert len(names) == 3
    assert all(name.startswith("20300317T174640Z-local-") for name in names)
    assert wrong(HostFolder(tmp_path, "local")) == []


# writing


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_whole(path, b"first")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["x.json"]  # noqa: PTH208


def test_a_holder_that_has_not_written_its_name_yet_leaves_no_empty_parenthesis(tmp_path):
    session = begin_here(tmp_path)
    (tmp_path / "local" / LOCK).write_bytes(b"")
    said, told = turned_away(tmp_path)
    assert "is under way; waiting for it" in told
    assert "()" not in said
    session.abandon()


def test_a_second_run_of_one_host_waits_and_then_says_who_holds_it(tmp_path):
    session = begin_here(tmp_path)
    said, told = turned_away(tmp_path)
    assert f"pid {os.getpid()}" in said
    assert "waiting for it" in told
    session.abandon()
    folder = HostFolder(tmp_path, "local")
    folder.lock()
    ((path, what),) = folder.recover(load_areas())
    folder.unlock()
    assert "interrupted" in path.name
    assert "probes that were open: none" in what


# what the head says of areas, and what only a whole run settles


@pytest.fixture
def settled(tmp_path):
    """Give a host with a whole run, one that was interrupted, and one of an area."""
    run_here(tmp_path)
    begin_here(tmp_path).finish("SIGTERM")
    run_here(tmp_path, only="machine")
    return HostFolder(tmp_path, "local")


def changed_head(folder, change):
    head = json.loads((folder.path / HEAD).read_bytes())
    change(head)
    (folder.path / HEAD).write_bytes(pretty(head))


def test_a_run_that_was_interrupted_is_unsettled_until_everything_has_run(settled):
    head = settled.head()
    assert head.verdict != "interrupted"
    assert set(head.unsettled) == {"interrupted"}
    assert "interrupted" in head.unsettled["interrupted"]["file"]
    assert wrong(settled) == []
    run_here(settled.path.parent)
    assert settled.head().unsettled == {}
    assert wrong(settled) == []


def test_a_head_from_before_stays_as_it_is_until_everything_has_run(settled):
    changed_head(settled, lambda head: head.pop("unsettled"))
    assert settled.head().unsettled is None
    assert wrong(settled) == []
    begin_here(settled.path.parent).finish("SIGTERM")
    assert settled.head().unsettled is None
    assert wrong(settled) == []
    run_here(settled.path.parent)
    assert settled.head().unsettled == {}


def test_verify_sees_that_an_unsettled_run_was_taken_out_of_the_head(settled):
    changed_head(settled, lambda head: head["unsettled"].clear())
    (said,) = wrong(settled)
    assert said.startswith(f"{settled.path / HEAD}: does not say that ")
    assert said.endswith("interrupted.json is unsettled")


def test_verify_sees_that_an_unsettled_run_is_not_what_the_head_says(settled):
    changed_head(settled, lambda head: head["unsettled"]["interrupted"].update(exit_code=0))
    assert any("what it says is unsettled is not that of" in line for line in wrong(settled))

    def passes_for_one(head):
        head["unsettled"] = {"fail": head["scopes"]["all"]}

    changed_head(settled, passes_for_one)
    assert any("what it says is unsettled is not that of" in line for line in wrong(settled))


def test_verify_takes_an_entry_without_areas_and_none_with_others(settled):
    def older(head):
        del head["scopes"]["all"]["areas"], head["scopes"]["all"]["unconfirmed_required"]

    def other(head):
        head["scopes"]["machine"]["areas"]["machine"]["unconfirmed"] += 1

    changed_head(settled, older)
    assert wrong(settled) == []
    changed_head(settled, other)
    (said,) = wrong(settled)
    assert "what it says of the scope machine is not that of" in said


def test_pruning_takes_unsettled_runs_out_of_the_head_with_their_files(settled):
    prune(settled, 2)
    assert set(settled.head().unsettled) == {"interrupted"}
    assert wrong(settled) == []
    prune(settled, 1)
    assert settled.head().unsettled == {}
    assert wrong(settled) == []


def findings(*rows):
    """Give a ledger of these findings: check, subject, verdict, effect, excused, confirmed."""
    names = ("check", "subject", "verdict", "effect", "excused", "confirmed")
    return {
        "digest": "sha256:x",
        "run": {"verdict": "pass", "exit_code": 0, "ended_utc": "x"},
        "counts": {"unconfirmed": 9},
        "profile": {"content": {"checks": {"optional": {"gpu.extra": "not here"}}}},
        "findings": [dict(zip(names, row, strict=True)) for row in rows],
    }


def areas(*rows):
    entry = scope_entry(findings(*rows), "file", "sha256")
    return entry["areas"], entry["unconfirmed_required"]


GOOD = ("pass", "none", None, True)
LOOSE = ("pass", "none", None, False)


def test_each_area_came_out_as_its_findings_did():
    assert areas(
        ("machine.a", "box", *GOOD),
        ("machine.b", "box", "fail", "none", "waiver", False),
        ("gpu.a", "0", *GOOD),
        ("gpu.b", "0", "fail", "fails", None, False),
        ("gpu.c", "0", "unknown", "incomplete", None, False),
        ("network.a", "x", *GOOD),
        ("network.b", "x", "not-run", "incomplete", None, False),
    ) == (
        {
            "machine": {"verdict": "pass", "unconfirmed": 0},
            "gpu": {"verdict": "fail", "unconfirmed": 0},
            "network": {"verdict": "incomplete", "unconfirmed": 0},
        },
        0,
    )


def test_an_area_in_which_nothing_was_confirmed_is_incomplete_as_a_run_would_be():
    assert areas(("gpu.a", "0", *LOOSE))[0] == {"gpu": {"verdict": "incomplete", "unconfirmed": 1}}


def test_an_unconfirmed_pass_of_an_optional_check_does_not_count():
    made, required = areas(
        ("gpu.a", "0", *GOOD), ("gpu.b", "0", *LOOSE), ("gpu.extra", "0", *LOOSE)
    )
    assert made == {"gpu": {"verdict": "pass", "unconfirmed": 1}}
    assert required == 1


def test_an_area_that_the_run_did_not_speak_of_or_that_does_not_apply_is_not_named():
    assert areas(
        ("machine.a", "box", *GOOD),
        ("gpu.a", "0", "not-run", "none", "scope", False),
        ("network.a", "x", "not-applicable", "none", None, False),
    )[0] == {"machine": {"verdict": "pass", "unconfirmed": 0}}


def test_a_waiver_that_fails_does_so_in_the_area_that_it_covers():
    assert areas(
        ("machine.a", "box", *GOOD),
        ("gpu.a", "0", *GOOD),
        ("profile.waiver", "gpu.a/0", "fail", "fails", None, False),
        ("profile.waiver", "machine.a", "not-applicable", "none", None, False),
    )[0] == {
        "machine": {"verdict": "pass", "unconfirmed": 0},
        "gpu": {"verdict": "fail", "unconfirmed": 0},
    }
