"""The copy for strangers: nothing in it tells which box it was, and it is still a ledger."""

import copy
import dataclasses
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from checks.cli import main
from checks.ledger.anonymous import HIDDEN, anonymous
from checks.ledger.canonical import ledger_digest, pretty
from checks.ledger.document import Ledger
from checks.ledger.schema import parse_ledger, problems, read_ledger
from checks.ledger.verify import verify_file
from tests.support.runs import ledger_here, run_here, write_profile

HEX = "0123456789abcdef"
HOSTS = st.from_regex(r"[a-z]{2,5}[0-9]{2,4}(-[a-z]{2,6}[0-9]{1,2})?", fullmatch=True)
IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6).flatmap(
    lambda address: st.sampled_from(
        [str(address), address.exploded, str(address).upper(), f"{address}/64", f"{address}%eth0"]
    )
)
SHORT_V6 = st.sampled_from(
    ["fe80::1", "2001:db8::", "2001:db8::ff00:42:8329", "::ffff:10.1.2.3", "fd00::", "fe80::/64"]
)
MACS = st.tuples(
    st.lists(st.text(HEX, min_size=2, max_size=2), min_size=6, max_size=6), st.sampled_from(":-")
)
MACS = MACS.map(lambda pair: pair[1].join(pair[0]))
GUIDS = st.lists(st.text(HEX, min_size=2, max_size=2), min_size=20, max_size=20).map(":".join)
UUIDS = st.uuids().flatmap(lambda u: st.sampled_from([str(u), str(u).upper(), f"GPU-{u}"]))
USERS = st.from_regex(r"[a-z]{3,8}\.?[a-z]{3,8}", fullmatch=True)
SERIALS = st.from_regex(r"[A-Z]{2}[0-9]{6,10}", fullmatch=True)
JOINTS = st.sampled_from([" ", ", ", "=", "(", "[", "'", '"', "\n", " at ", "http://", "@", "; "])
ENDS = st.sampled_from(["", " ", ",", ")", "]", "'", '"', "\n", ":8000", "/x", ";", "."])


def planted(made, texts, serial="SN12345678"):
    """Plant texts wherever a ledger holds words of the box or of its people."""
    row = copy.deepcopy(made.row)
    for number, text in enumerate(texts):
        finding = row["findings"][number % len(row["findings"])]
        finding["says"] += f" {text}"
        finding["evidence"].append(text)
        finding["observed"][f"x{number}"] = text
        row["notices"].append(text)
        row["profile"]["content"]["serve"].append(
            {**row["profile"]["content"]["serve"][0], "command": f"server --host {text}"}
        )
    for observation in row["observations"]:
        data = observation.get("data", {})
        if observation.get("type") == "machine.Identity":
            data["board_serial"] = serial
            data["evidence"] = [*data["evidence"], *texts, f"serial {serial}"]
        if observation.get("type") == "machine.Folder":
            data["path"] = f"/mnt/{texts[0]}" if texts else data["path"]
    row["digest"] = ledger_digest(row)
    return dataclasses.replace(made, row=row)


def text_of(made):
    return json.dumps(anonymous(made), ensure_ascii=False)


@pytest.mark.slow
@given(
    kind=st.sampled_from([IPV4, IPV6, SHORT_V6, MACS, GUIDS, UUIDS]),
    data=st.data(),
    joint=JOINTS,
    end=ENDS,
)
@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_address_or_uuid_survives(made, kind, data, joint, end):
    secret = data.draw(kind)
    core = secret.removeprefix("GPU-").partition("/")[0].partition("%")[0]
    assert core not in text_of(planted(made, [f"seen{joint}{secret}{end}"]))


@given(
    user=USERS, root=st.sampled_from(["/home/", "/Users/", "/export/home/", "/nethome/"]), end=ENDS
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_user_in_a_path_survives_and_the_rest_of_the_path_does(made, user, root, end):
    text = text_of(planted(made, [f"in {root}{user}/models/chat{end}"]))
    assert user not in text
    assert "/models/chat" in text


@given(
    host=HOSTS,
    domain=st.sampled_from(["", ".corp.example", ".local"]),
    end=ENDS,
    upper=st.booleans(),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_name_of_the_box_survives(made, host, domain, end, upper):
    ledger = planted(made, [f"on {host.upper() if upper else host}{domain}{end}"])
    for observation in ledger.row["observations"]:
        if observation.get("type") == "machine.Identity":
            observation["data"]["host_name"] = host + domain
    text = text_of(ledger)
    words = re.sub(r"[0-9a-f]{16,}", "", text.lower())  # a digest may hold any short name
    assert host not in words
    assert "h100-1" not in text, "the name on the command line goes too"


@given(serial=SERIALS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_serial_number_survives_even_where_it_is_quoted(made, serial):
    assert serial not in text_of(planted(made, [f"board {serial}"], serial=serial))


def test_what_a_ledger_of_a_box_holds_of_it_is_gone(made):
    text = text_of(made)
    original = json.dumps(made.row)
    for secret in (
        "h100-1",
        ".CN70163.",
        "4c4c4544-0036-5a10-8036-b4c04f4a4e33",
        "0123456789abcdef0123456789abcdef",
        "6c4f7c0e-0f8b-4b0e-a34b-2f9f6f0f5f55",
        "02:00:00:00:00:01",
        "eui.36344630",
        "192.0.2.53",
        "00000000-0000-4000-8000-000000000003",
        "/home/user",
        "INFRA-1",
        made.row["profile"]["file"],
    ):
        assert secret in original, secret
        assert secret not in text, secret


def test_what_a_reader_needs_stays(made):
    pci = "0000:3b:00.0 at 12:34:56, driver 570.133.20, 2026-01-31T12:00:00Z, 10.5 GiB, 0::/user.slice"
    row = anonymous(planted(made, [pci]))
    text = json.dumps(row)
    assert pci in text
    for stays in (
        "NVIDIA H100 80GB HBM3",
        "PowerEdge XE9680",
        "6.8.0-31-generic",
        made.run["started_utc"],
        made.row["versions"]["packages"]["rich"],
    ):
        assert stays in text, stays
    assert row["versions"] == made.row["versions"]
    assert row["counts"] == made.row["counts"]
    assert [(f["check"], f["subject"], f["verdict"]) for f in row["findings"]] == [
        (f["check"], f["subject"], f["verdict"]) for f in made.row["findings"]
    ]
    for slot, part in made.row["fingerprint"].items():
        assert slot == "resolver" or row["fingerprint"][slot]["kind"] == part["kind"]
        assert set(row["fingerprint"][slot]["identity"].values()) <= {None}


def test_the_copy_carries_the_digest_of_the_original_and_one_of_its_own(made):
    row = anonymous(made)
    assert row["anonymous_of"] == made.row["digest"]
    assert row["digest"] == ledger_digest(row) != made.row["digest"]
    assert row["previous"] is None
    assert made.row["host"] == "h100-1", "the original stays as it was"


def test_the_copy_is_a_ledger_by_the_schema(made):
    assert problems(anonymous(made), "copy") == []
    parse_ledger(pretty(anonymous(made)), "copy")


@pytest.mark.parametrize(
    "content",
    [
        0.5,
        None,
        "a text",
        [],
        {"waiver": 3},
        {"waiver": [None, 7]},
        {"waiver": [{}]},
        {"waiver": {"ticket": "INFRA-77"}},
        {"waiver": [{"ticket": ["INFRA-77"]}]},
        {"serve": {"ticket": {"ticket": "INFRA-77"}}},
    ],
    ids=json.dumps,
)
def test_a_profile_of_any_shape_is_copied_without_its_tickets(made, content):
    """The schema leaves it open, since a later version's profile holds what this one cannot know."""
    row = copy.deepcopy(made.row)
    row["profile"]["content"] = content
    row["notices"].append("as INFRA-77 says")
    copied = anonymous(dataclasses.replace(made, row=row))
    assert problems(copied, "copy") == []
    hidden = "INFRA-77" in json.dumps(content)
    assert ("INFRA-77" in json.dumps(copied)) is not hidden


@pytest.mark.parametrize(
    "name",
    [
        "pass",
        "fail",
        "box",
        "vm",
        "run",
        "gpu",
        "machine",
        "clock",
        "cpu",
        "this",
        "x",
        "data",
        "lost",
        "absent",
        "sha256",
    ],
)
def test_a_box_that_is_named_like_one_of_our_own_words_breaks_nothing(made, name):
    row = copy.deepcopy(made.row)
    row["host"] = name
    row["replay_of"] = row["digest"]
    for observation in row["observations"]:
        if observation.get("type") == "machine.Identity":
            observation["data"]["host_name"] = name
    copied = anonymous(dataclasses.replace(made, row=row))
    assert problems(copied, "copy") == []
    assert copied["host"] == "[anonymous]"
    assert [f["check"] for f in copied["findings"]] == [f["check"] for f in made.row["findings"]]
    assert set(copied["fingerprint"]) == set(made.row["fingerprint"])
    (identity,) = [o["data"] for o in copied["observations"] if o.get("type") == "machine.Identity"]
    assert identity["host_name"] == "[anonymous]"


def test_show_verify_diff_and_replay_work_on_the_copy(made, tmp_path, capsys):
    path = tmp_path / "copy.json"
    source = tmp_path / "original.json"
    source.write_bytes(pretty(made.row))
    assert main(["export", str(source), "--anonymous", "--output", str(path)]) == 0
    assert read_ledger(path).row["anonymous_of"] == made.row["digest"]
    assert main(["show", str(path)]) == main(["show", str(source)]) == 1
    assert verify_file(path).wrong == []
    assert main(["diff", str(path), str(path)]) == 0
    out = capsys.readouterr().out
    assert "[anonymous]" in out
    session = run_here(tmp_path / "ledgers", "h100-1", replay=str(path))
    again = {(f["check"], f["subject"]): f["verdict"] for f in session.ledger["findings"]}
    assert again == {(f["check"], f["subject"]): f["verdict"] for f in made.row["findings"]}


def test_the_copy_of_a_run_of_this_machine_names_neither_it_nor_its_user(tmp_path, capsysbinary):
    import getpass
    import socket

    ledger = ledger_here(tmp_path)
    assert main(["export", ledger.file, "--anonymous"]) == 0
    raw = capsysbinary.readouterr().out
    copied = parse_ledger(raw, "copy")
    (identity,) = [
        o["data"] for o in copied.row["observations"] if o.get("type") == "machine.Identity"
    ]
    assert identity["host_name"] == "[anonymous]"
    user = getpass.getuser()
    for word in {socket.gethostname(), *({user} - {"root"})}:
        if len(word) > 3:
            assert word.encode() not in raw


def folders_in(made, **paths):
    """Give the ledger with other folders in it, told of wherever a run tells of them."""
    row = copy.deepcopy(made.row)
    for observation in row["observations"]:
        if observation.get("type") == "machine.Folder" and observation["subject"] in paths:
            path = paths[observation["subject"]]
            observation["data"].update(path=path, looked_at=path)
            row["notices"].append(f"room in {path}, less than in {path}/x.")
    return dataclasses.replace(made, row=row)


HOMES = ["/tmp/xyz-home", "/data/people/x.yz", "/mnt/hm/xyz"]


@pytest.mark.parametrize("home", HOMES)
def test_the_home_of_whoever_exports_becomes_a_tilde(made, home):
    texts = [
        f"in {home}",
        f"in {home}/models/chat.",
        f"PATH={home}/bin:/usr/bin",
        f"server -m{home}/m.gguf '{home}'",
    ]
    row = anonymous(planted(made, texts), homes=[home])
    text = json.dumps(row)
    assert home not in text
    for shown in ("in ~", "in ~/models/chat.", "PATH=~/bin:/usr/bin", "server -m~/m.gguf '~'"):
        assert shown in row["notices"]
    other = [f"in {home}2/x", f"in {home}.bak", f"in /disk{home}"]
    assert row != anonymous(made)
    assert set(other) <= set(anonymous(planted(made, other), homes=[home])["notices"])


@pytest.mark.parametrize("home", HOMES)
def test_the_home_of_whoever_ran_it_is_known_by_its_model_cache(made, home):
    row = anonymous(folders_in(made, **{"model-cache": f"{home}/.cache/huggingface/hub"}))
    assert home not in json.dumps(row)
    assert "room in ~/.cache/huggingface/hub, less than" in " ".join(row["notices"])


@pytest.mark.parametrize("home", ["", "/", "/root", "/tmp"])
def test_a_home_that_is_nobodys_stays(made, home):
    text = "in /root/x, /tmp and /usr"
    assert text in anonymous(planted(made, [text]), homes=[home])["notices"]


@pytest.mark.parametrize(
    ("ledgers", "gone"),
    [
        ("/work/acme/secret/ledgers/h100-1", ["/work/acme/secret/ledgers"]),
        ("/work/acme/h100-1", ["/work/acme/h100-1"]),
        ("/h100-1", ["h100-1"]),
    ],
)
def test_the_folder_of_the_ledgers_goes_and_what_lies_elsewhere_stays(made, ledgers, gone):
    ledger = folders_in(made, ledgers=ledgers)
    stays = "in /work/acme2, /tmp and /work/other"
    ledger.row["notices"] += [stays, f"{ledgers.rpartition('/')[0]}/elsewhere"]
    row = anonymous(ledger)
    text = json.dumps(row)
    for path in gone:
        assert path not in text
    assert stays in row["notices"]
    assert problems(row, "copy") == []
    again = anonymous(dataclasses.replace(made, row=row))
    assert again["observations"] == row["observations"]


def test_a_folder_that_is_named_goes(made):
    text = text_of(planted(made, ["in /opt/acme/checkout/checks and /opt/acme/checkouts"]))
    assert "/opt/acme/checkout/checks" in text
    row = anonymous(
        planted(made, ["in /opt/acme/checkout/checks and /opt/acme/checkouts"]),
        folders=["/opt/acme/checkout"],
    )
    assert "in [anonymous]/checks and /opt/acme/checkouts" in row["notices"]


def test_an_export_of_a_run_in_an_unusual_home_shows_neither_it_nor_the_folders_of_ours(
    tmp_path, monkeypatch, capsysbinary
):
    home = tmp_path / "xyz-home"
    home.mkdir()
    monkeypatch.setenv("HOME", f"{home}/")
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    ledger = ledger_here(tmp_path / "acme" / "ledgers")
    assert str(home).encode() in pretty(ledger.row)
    assert main(["export", ledger.file, "--anonymous"]) == 0
    raw = capsysbinary.readouterr().out
    assert b"xyz-home" not in raw
    assert b"acme" not in raw
    assert b'"~/' in raw


def test_an_export_by_a_user_without_a_name_works(made, tmp_path, monkeypatch, capsysbinary):
    source = tmp_path / "original.json"
    source.write_bytes(pretty(made.row))

    def nobody(*_):
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert main(["export", str(source), "--anonymous"]) == 0


def test_an_export_that_is_not_anonymous_is_not_offered(capsys):
    with pytest.raises(SystemExit):
        main(["export", "x.json"])
    assert "--anonymous" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("rpc gpu5.corp.example:50052 answers", "corp.example"),
        ("see https://jira.corp.example/ALICE-1", "corp.example"),
        ("ledger 20261202T162712Z-h100-1-alice-swap-CORP-77-0gpu-cpu-fail.json is", "alice"),
    ],
    ids=["host and port", "address of a page", "name of a ledger"],
)
def test_what_points_at_the_owner_goes(text, secret, made):
    shown = text_of(planted(made, [text]))
    assert secret not in shown
    assert text.partition(" ")[0] in shown


def test_label_and_ticket_go_wherever_they_stand(made):
    row = copy.deepcopy(made.row)
    row["run"] |= {"label": "alices-box", "ticket": "CORP-77"}
    row["notices"].append("earlier: alices-box, CORP-77")
    shown = text_of(dataclasses.replace(made, row=row))
    assert "alices-box" not in shown
    assert "CORP-77" not in shown


def test_of_an_environment_numbers_stay_and_words_go(made):
    row = copy.deepcopy(made.row)
    row["profile"]["content"]["serve"][0]["env"] = {"OMP_NUM_THREADS": "4", "WHO": "alice"}
    env = anonymous(dataclasses.replace(made, row=row))["profile"]["content"]["serve"][0]["env"]
    assert env == {"OMP_NUM_THREADS": "4", "WHO": "[anonymous]"}


def test_who_accepted_a_value_and_on_which_ticket_is_hidden(tmp_path):
    expected = write_profile(tmp_path / "e", "box", "")
    (expected / "measured").mkdir()
    (expected / "measured" / "box.toml").write_text(
        'schema = 1\n[[expectation]]\ncheck = "machine.identity.container"\nvalue = "none"\n'
        'basis = "measured"\nsource = "me"\naccepted_by = "planted-user"\n'
        'ticket = "PLANTED-9"\nreason = "as PLANTED-9 says"\n'
    )
    copied = anonymous(ledger_here(tmp_path / "l", "box", expected=(str(expected),)))
    text = pretty(copied).decode()
    assert "PLANTED-9" not in text
    assert "planted-user" not in text
    assert "as [anonymous] says" in text


def test_other_boxes_and_the_tickets_of_waivers_are_hidden_in_what_is_said_too(tmp_path):
    text = (
        '[hardware]\narchitecture = "none-such"\n[[waiver]]\ncheck = "machine.identity.architecture"\n'
        'reason = "known"\nticket = "INFRA-4711"\nuntil = 2099-01-01\n'
    )
    expected = str(write_profile(tmp_path / "e", "secretbox", text))
    other = run_here(tmp_path / "l", "secretbox", expected=(expected,))
    mine = ledger_here(tmp_path / "l", baseline=str(other.path))
    assert "secretbox" in json.dumps(mine.row["notices"])
    assert "secretbox" not in json.dumps(anonymous(mine))
    waived = anonymous(read_ledger(other.path))
    assert "INFRA-4711" not in json.dumps(waived)
    assert "secretbox" not in json.dumps(waived)


def test_a_replay_says_whose_ledger_it_judges_and_its_copy_does_not(tmp_path):
    original = run_here(tmp_path / "l", "local")
    moved = ledger_here(tmp_path / "l", "otherbox", replay=str(original.path))
    (notice,) = moved.row["notices"]
    assert notice.endswith("it is of another host: local")
    assert "otherbox" not in json.dumps(anonymous(moved))


def test_the_serials_of_parts_that_have_left_go_too(made):
    """They stand in no fingerprint any more: only in what was struck out, and in what it says."""
    row = json.loads(json.dumps(made.row))
    part = {"kind": {"model": "M"}, "identity": {"eui": "eui.3634463000000001"}, "unread": []}
    struck = {
        "check": "machine.disk.free",
        "subject": "tmp",
        "verdict": "fail",
        "says": "no room on eui.3634463000000001",
        "cause": "no-room",
        "cause_text": "",
        "load": "",
        "file": "x.json",
        "digest": row["digest"],
        "ended_utc": row["run"]["ended_utc"],
        "parts": {"disk[nvme0n1]": part},
        "left": ["disk[nvme0n1]"],
        "struck_utc": row["run"]["started_utc"],
    }
    change = {"slot": "disk[nvme0n1]", "kind": "same", "identity": "changed", "moved_to": ""}
    row["since"] = {
        "file": "x.json",
        "digest": row["digest"],
        "ended_utc": row["run"]["ended_utc"],
        "parts": [{**change, "before": part, "after": {**part, "identity": {"eui": "eui.9999"}}}],
        "struck_out": [struck],
        "returned": [],
    }
    made_copy = anonymous(Ledger(file="x", sha256="", row=row))
    text = json.dumps(made_copy)
    assert "3634463" not in text
    assert "eui.9999" not in text
    assert made_copy["since"]["parts"][0]["identity"] == "changed"
    assert made_copy["since"]["struck_out"][0]["says"] == f"no room on {HIDDEN}"
    assert problems(made_copy, "copy") == []


@pytest.mark.parametrize("key", ["gpu_serial", "nic_address", "board_uuid", "serials"])
def test_a_field_of_new_facts_is_hidden_by_the_last_word_of_its_name(made, key):
    row = json.loads(json.dumps(made.row))
    row["observations"][0]["data"] = {key: "QX-4711", "other_name": "the card QX-4711 is hot"}
    text = json.dumps(anonymous(Ledger(file="x", sha256="", row=row)))
    assert "QX-4711" not in text
    assert "is hot" in text


@pytest.mark.parametrize("key", ["id", "type", "check", "area"])
def test_what_a_probe_saw_is_not_spared_for_the_name_of_its_field(made, key):
    row = json.loads(json.dumps(made.row))
    row["observations"][0]["data"] = {key: "192.0.2.7"}
    assert "192.0.2.7" not in json.dumps(anonymous(Ledger(file="x", sha256="", row=row)))
