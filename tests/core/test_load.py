"""What is expected of a host: found, read, and refused with all its problems."""

import pytest

from checks.core.codec import decode
from checks.core.errors import ProfileError, UsageError
from checks.core.load import known_hosts, load_host
from checks.core.paths import expected_folders, ledger_folder
from checks.core.profile import Profile
from checks.core.redact import HIDDEN
from checks.core.registry import load_areas
from tests.support.runs import HERE, write_profile

CHECKS = load_areas().units()
SHIPPED = HERE / "expected"

NUMBER = """
[[expectation]]
check = "{check}"
value = 5
unit = "By"
lower_ratio = 0.0
basis = "measured"
source = "ledger"
"""
TOTAL = NUMBER.format(check="machine.memory.total")


def write_numbers(folder, text, room="measured"):
    path = folder / room / "box.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"schema = 1\n{text}", "utf-8")
    return path


def test_local_needs_no_profile_and_expects_nothing(tmp_path):
    loaded = load_host("local", [tmp_path], CHECKS)
    assert loaded.expected.profile.serve == ()
    assert loaded.profile.file == ""


def test_local_may_have_one_all_the_same(tmp_path):
    write_profile(tmp_path, "local", 'description = "mine"')
    loaded = load_host("local", [tmp_path], CHECKS)
    assert loaded.expected.profile.description == "mine"
    assert len(loaded.profile.sha256) == 64


def test_an_unknown_host_lists_the_known_ones_and_says_how_to_make_one(tmp_path):
    write_profile(tmp_path, "h100-1", "")
    with pytest.raises(UsageError) as caught:
        load_host("h100-l", [tmp_path, SHIPPED], CHECKS)
    text = str(caught.value)
    assert "known hosts: local, example-h100, h100-1" in text
    assert "Did you mean h100-1?" in text
    example = SHIPPED / "hosts" / "example-h100.toml"
    assert f"copy {example} to {tmp_path / 'hosts' / 'h100-l.toml'}" in text
    assert example.is_file()
    assert "--host local" in text


@pytest.mark.parametrize("host", ["", "..", "a/b", "../local", "-x", ".x", "a b", "x" * 64, "é"])
def test_what_cannot_be_a_hosts_name_is_refused(host, tmp_path):
    with pytest.raises(UsageError, match="is not a host's name"):
        load_host(host, [tmp_path], CHECKS)


def test_the_first_folder_wins_for_the_profile_and_for_each_number(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    write_profile(first, "box", 'description = "first"')
    write_profile(second, "box", 'description = "second"')
    premise = "premise = { memory = { size = '8 GiB' } }\n"
    files = [
        str(write_numbers(first, TOTAL)),
        str(write_numbers(second, f"{TOTAL.replace('5', '6')}{TOTAL}{premise}")),
    ]
    loaded = load_host("box", [first, second], CHECKS)
    assert loaded.expected.profile.description == "first"
    assert [source.file for source in loaded.numbers] == files
    # the second's number of the same thing does not count; that of another kind does
    values = [(number.value, bool(number.premise)) for number in loaded.expected.numbers]
    assert values == [(5, False), (5, True)]
    assert [len(source.content) for source in loaded.numbers] == [1, 1]


def test_a_specification_may_stand_beside_what_was_measured_of_the_same_parts(tmp_path):
    write_profile(tmp_path, "box", "")
    path = write_numbers(tmp_path, TOTAL + TOTAL.replace('"measured"', '"specification"'))
    assert len(load_host("box", [tmp_path], CHECKS).expected.numbers) == 2
    path.write_text(f"schema = 1\n{TOTAL}{TOTAL}")
    with pytest.raises(ProfileError, match="a second value for machine"):
        load_host("box", [tmp_path], CHECKS)


def test_what_was_accepted_from_a_rehearsal_counts_in_rehearsals_alone_and_first(tmp_path):
    write_profile(tmp_path, "box", "")
    write_numbers(tmp_path, TOTAL.replace("5", "7"), "rehearsed")
    assert load_host("box", [tmp_path], CHECKS).expected.numbers == ()
    write_numbers(tmp_path, TOTAL)
    (number,) = load_host("box", [tmp_path], CHECKS).expected.numbers
    assert number.value == 5
    (number,) = load_host("box", [tmp_path], CHECKS, rehearsal=True).expected.numbers
    assert number.value == 7


def test_problems_of_all_files_are_told_at_once(tmp_path):
    write_profile(
        tmp_path,
        "box",
        'nonsense = 1\n[checks.optional]\n"machine.memory.totl" = "r"\n'
        '[[waiver]]\ncheck = "machine.disk.fre"\nreason = "r"\nticket = "t"\nuntil = 2026-01-31\n',
    )
    path = tmp_path / "measured" / "box.toml"
    path.parent.mkdir()
    path.write_text("schema = 1\n" + NUMBER.format(check="machine.cpu.thread"))
    with pytest.raises(ProfileError) as caught:
        load_host("box", [tmp_path], CHECKS)
    lines = str(caught.value).splitlines()
    profile = tmp_path / "hosts" / "box.toml"
    assert lines[0].startswith(f"{profile}:2: nonsense: unknown key;")
    assert lines[1].startswith(f"{profile}:4: checks.optional.")
    assert "did you mean `machine.memory.total`?" in lines[1]
    assert lines[2].startswith(f"{profile}:6: waiver[0].check: ")
    assert lines[3].startswith(f"{path}:4: expectation[0].check: ")
    assert len(lines) == 4


def test_a_far_fetched_guess_at_a_check_is_not_made(tmp_path):
    write_profile(tmp_path, "box", '[checks.optional]\n"machine.nope" = "r"\n')
    with pytest.raises(ProfileError, match="`preflight explain` lists them all") as caught:
        load_host("box", [tmp_path], CHECKS)
    assert "did you mean" not in str(caught.value)


def test_a_profile_whose_name_no_host_can_have_is_not_offered(tmp_path):
    write_profile(tmp_path, "büro", "")
    write_profile(tmp_path, "zeta", "")
    assert known_hosts([tmp_path]) == ["zeta"]


def test_judges_see_the_profile_as_the_ledger_keeps_it(tmp_path):
    write_profile(
        tmp_path,
        "box",
        '[[serve]]\nname = "chat"\ncommand = "server --api-key plantedsecret -t 4"\n'
        'env = { HF_TOKEN = "plantedtoken", OMP_NUM_THREADS = "4" }\n',
    )
    loaded = load_host("box", [tmp_path], CHECKS)
    serve = loaded.expected.profile.serve[0]
    assert serve.command == ("server", "--api-key", HIDDEN, "-t", "4")
    assert serve.env == {"HF_TOKEN": HIDDEN, "OMP_NUM_THREADS": "4"}
    assert "planted" not in repr(loaded)


def test_a_secret_or_a_long_text_in_a_command_hides_its_own_word_and_no_other(tmp_path):
    long = "x" * 5_000
    command = f"server -t 1 --header 'Cookie:a=b; c=d' --grammar {long} -H Authorization:abc -tb 64"
    write_profile(tmp_path, "box", f'[[serve]]\nname = "chat"\ncommand = "{command}"\n')
    loaded = load_host("box", [tmp_path], CHECKS)
    words = loaded.expected.profile.serve[0].argv
    assert words[:5] == ("server", "-t", "1", "--header", f"Cookie:{HIDDEN}")
    assert words[6].startswith("xxx")
    assert len(words[6]) <= 4_096
    assert words[7:] == ("-H", f"Authorization:{HIDDEN}", "-tb", "64")
    assert decode(Profile, loaded.profile.content).serve[0].argv == words


def test_hosts_of_all_folders_are_known(tmp_path):
    write_profile(tmp_path, "zeta", "")
    assert known_hosts([tmp_path, SHIPPED, tmp_path / "absent"]) == ["example-h100", "zeta"]


def test_where_things_are_read_and_written(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFLIGHT_EXPECTED", raising=False)
    monkeypatch.delenv("PREFLIGHT_LEDGERS", raising=False)
    assert expected_folders() == [SHIPPED]
    assert ledger_folder() == HERE / "ledgers"
    monkeypatch.setenv("PREFLIGHT_EXPECTED", "/etc/preflight")
    monkeypatch.setenv("PREFLIGHT_LEDGERS", str(tmp_path))
    assert [str(path) for path in expected_folders(["x"])] == ["x", "/etc/preflight", str(SHIPPED)]
    assert ledger_folder() == tmp_path
    assert str(ledger_folder("given")) == "given"
