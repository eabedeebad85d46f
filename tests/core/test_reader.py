"""Profiles and expectation files: every problem, each with file, line and key."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
import tomli

from checks.core.errors import ProfileError
from checks.core.expectation import ExpectationFile
from checks.core.profile import ENGINES, Hardware, Profile, Waiver
from checks.core.reader import json_schema, read_document
from checks.core.toml import LARGEST_FILE_BYTES, load_toml, parse_toml
from checks.engines.threads import is_engine

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "expected" / "schema" / "profile-1.json"


def read(text, kind=Profile):
    raw = text if isinstance(text, bytes) else text.encode()
    return read_document(kind, parse_toml(raw, "box.toml"))


def problems(text, kind=Profile):
    with pytest.raises(ProfileError) as caught:
        read(text, kind)
    return caught.value.problems


ONE = [
    # what is wrong, file, line, key, found, wanted
    ("missing key", "", None, "schema", "missing", "wanted: a line schema = 1"),
    ("wrong version", "schema = 2", 1, "schema", "found 2", "wanted: 1"),
    ("true is no number", "schema = true", 1, "schema", "found True", "wanted: 1"),
    ("1.0 is no whole number", "schema = 1.0", 1, "schema", "found 1.0", "wanted: 1"),
    ("unknown key", "schema = 1\nhardwear = 1", 2, "hardwear", "unknown key", "`hardware`"),
    ("unknown table", "schema = 1\n\n[gpu]\nx = 1", 3, "gpu", "unknown key", "known keys are"),
    (
        "unknown key in a list",
        'schema = 1\n[[serve]]\nname = "a"\n[[serve]]\nname = "b"\nmodle = "x"',
        6,
        "serve[1].modle",
        "unknown key",
        "`model`",
    ),
    (
        "wrong type in a list",
        'schema = 1\n[[serve]]\nname = "a"\n[[serve]]\nname = "b"\nmodel = 5',
        6,
        "serve[1].model",
        "found 5",
        "a text",
    ),
    ("a table is wanted", "schema = 1\nhardware = 3", 2, "hardware", "found 3", "a table"),
    ("a list is wanted", 'schema = 1\nserve = "x"', 2, "serve", "found 'x'", "[[serve]]"),
    (
        "a table in the list",
        "schema = 1\nserve = [1]",
        2,
        "serve[0]",
        "found 1",
        "a table",
    ),
    (
        "too small",
        "schema = 1\n[hardware]\nmemory_total_bytes = 0",
        3,
        "hardware.memory_total_bytes",
        "found 0",
        "at least 1",
    ),
    (
        "GiB instead of bytes, which every box would have",
        "schema = 1\n[hardware]\nmemory_available_min_bytes = 64",
        3,
        "hardware.memory_available_min_bytes",
        "found 64",
        "a whole number, at least 1_048_576",
    ),
    (
        "too large",
        "schema = 1\nhardware.memory_tolerance_ratio = 0.51",
        2,
        "hardware.memory_tolerance_ratio",
        "found 0.51",
        "at most 0.5",
    ),
    (
        "NaN",
        "schema = 1\n[hardware]\nmemory_tolerance_ratio = nan",
        3,
        "hardware.memory_tolerance_ratio",
        "found nan",
        "a number",
    ),
    (
        "infinity",
        "schema = 1\n[hardware]\nmemory_tolerance_ratio = -inf",
        3,
        "hardware.memory_tolerance_ratio",
        "found -inf",
        "a number",
    ),
    (
        "beyond 2^53",
        "schema = 1\n[hardware]\nmemory_total_bytes = 9007199254740992",
        3,
        "hardware.memory_total_bytes",
        "found 9007199254740992",
        "a whole number",
    ),
    (
        "a number as text",
        'schema = 1\n[hardware]\nmemory_total_bytes = "64 GiB"',
        3,
        "hardware.memory_total_bytes",
        "found '64 GiB'",
        "a whole number, at least 1; write 68_719_476_736",
    ),
    (
        "another name of an architecture",
        'schema = 1\n[hardware]\narchitecture = "amd64"',
        3,
        "hardware.architecture",
        "found 'amd64'",
        "wanted: what uname -m prints: x86_64",
    ),
    (
        "a slip in an engine's name",
        'schema = 1\n[[serve]]\nname = "a"\nengine = "llamacpp"',
        4,
        "serve[0].engine",
        "found 'llamacpp'",
        "did you mean `llama.cpp`?",
    ),
    (
        "no such key is assumed",
        'schema = 1\n[hardware]\nassumed = ["memory"]',
        3,
        "hardware.assumed",
        "found 'memory'",
        "this table holds",
    ),
    ("a relative path", 'schema = 1\n[paths]\ntmp = "tmp"', 3, "paths.tmp", "'tmp'", "absolute"),
    (
        "a name with a space",
        'schema = 1\n[[serve]]\nname = "a b"',
        3,
        "serve[0].name",
        "found 'a b'",
        "letters, digits",
    ),
    (
        "the same name twice",
        'schema = 1\n[[serve]]\nname = "a"\n[[serve]]\nname = "a"',
        5,
        "serve[1].name",
        "'a' again",
        "serve[0] has it already",
    ),
    (
        "an open quotation",
        'schema = 1\n[[serve]]\nname = "a"\ncommand = "x \'y"',
        4,
        "serve[0].command",
        "found",
        "quotation is closed",
    ),
    (
        "an empty command",
        'schema = 1\n[[serve]]\nname = "a"\ncommand = []',
        4,
        "serve[0].command",
        "found []",
        "leave the key out",
    ),
    (
        "a place of no kind",
        'schema = 1\n[[serve]]\nname = "a"\nwhere = "pod:x"',
        4,
        "serve[0].where",
        "found 'pod:x'",
        "`container:ID` (12 to 64 hexadecimal digits",
    ),
    (
        "a number in the environment",
        'schema = 1\n[[serve]]\nname = "a"\n[serve.env]\nOMP_NUM_THREADS = 4',
        5,
        "serve[0].env.OMP_NUM_THREADS",
        "found 4",
        "a text",
    ),
    (
        "NUL",
        'schema = 1\ndescription = "a\\u0000b"',
        2,
        "description",
        "NUL",
        "without it",
    ),
    (
        "a reason of spaces",
        'schema = 1\n[checks.optional]\n"machine.clock.past" = "  "',
        3,
        "checks.optional.machine.clock.past",
        "found '  '",
        "a text that says it",
    ),
    (
        "a time instead of a day",
        (
            'schema = 1\n[[waiver]]\ncheck = "a.b"\nreason = "r"\nticket = "t"\n'
            "until = 2026-01-31T00:00:00"
        ),
        6,
        "waiver[0].until",
        "found 2026-01-31T00:00:00",
        "2026-01-31",
    ),
    (
        "a day as text",
        'schema = 1\n[[waiver]]\ncheck = "a.b"\nreason = "r"\nticket = "t"\nuntil = "2026-01-31"',
        6,
        "waiver[0].until",
        "found '2026-01-31'",
        "a date",
    ),
]


@pytest.mark.parametrize(
    ("text", "line", "key", "found", "wanted"),
    [row[1:] for row in ONE],
    ids=[row[0] for row in ONE],
)
def test_each_problem_is_told_with_its_place(text, line, key, found, wanted):
    (problem,) = problems(text)
    assert (problem.file, problem.line) == ("box.toml", line)
    assert problem.key.startswith(key)
    assert found in problem.found
    assert wanted in problem.wanted
    place = "box.toml" if line is None else f"box.toml:{line}"
    assert str(problem).startswith(f"{place}: {problem.key}: ")


def test_all_problems_are_told_at_once():
    text = """\
schema = 3
nonsense = 1
[hardware]
memory_total_bytes = -5
[[serve]]
engine = 7
[[waiver]]
check = "machine.memory.total"
"""
    keys = [problem.key for problem in problems(text)]
    assert sorted(keys) == sorted(
        [
            "schema",
            "nonsense",
            "hardware.memory_total_bytes",
            "serve[0].name",
            "serve[0].engine",
            "waiver[0].reason",
            "waiver[0].ticket",
            "waiver[0].until",
        ]
    )


def test_many_problems_are_counted_and_not_all_printed():
    text = "schema = 1\n" + "".join(f"x{n} = 1\n" for n in range(50))
    with pytest.raises(ProfileError, match="and 30 more problems") as caught:
        read(text)
    assert len(caught.value.problems) == 50


@pytest.mark.parametrize(
    ("raw", "line", "found"),
    [
        (b"schema = 1\nname = \xff\n", 2, "byte 0xff is not UTF-8"),
        (b"schema = 1\nx = [1,\n", 3, ""),
        (b"schema = 1\nschema = 2\n", 2, "overwrite"),
        (b"a = " + b"[" * 10_000, 1, "nested too deeply"),
        (b"a = " + b"1" * 5_000, 1, ""),
        (b"#" * (LARGEST_FILE_BYTES + 1), None, "bytes long"),
    ],
    ids=["not UTF-8", "open list", "key twice", "deep", "long number", "large"],
)
def test_a_file_that_is_no_toml_says_where(raw, line, found):
    with pytest.raises(ProfileError) as caught:
        parse_toml(raw, "box.toml")
    (problem,) = caught.value.problems
    assert problem.line == line
    assert found in problem.found


@pytest.mark.parametrize(
    ("text", "line", "where"),
    [
        ('schema = 1\na = "x\nb = 1\n', 2, "on this line has"),
        ('schema = 1\na = "x', 2, "on this line or above it has"),
        ("schema = 1\na = 'x\nb = 1\n", 4, "on this line or above it has"),
        ('schema = 1\na = """x\n', 3, "on this line or above it has"),
        ("schema = 1\na = '''x\n", 3, "on this line or above it has"),
    ],
)
def test_a_text_without_its_end_is_called_that(text, line, where):
    (problem,) = problems(text)
    assert problem.line == line
    assert f"a text that begins {where} no closing quote" in problem.wanted


def test_a_file_that_is_not_there_or_is_a_folder_says_so(tmp_path):
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(ProfileError, match="cannot be read"):
            load_toml(path)


def test_the_value_of_a_secret_is_not_shown_in_an_error():
    text = 'schema = 1\n[[serve]]\nname = "a"\n[serve.env]\nHF_TOKEN = ["hf_planted"]'
    (problem,) = problems(text)
    assert "hf_planted" not in str(problem)
    assert problem.key == "serve[0].env.HF_TOKEN"


def test_lines_are_found_through_comments_strings_and_nested_lists():
    text = '''# schema = 9
schema = 1
description = """
[hardware]
memory_total_bytes = "not here"
"""   # "quoted
[[serve]]   # first
name = "a#b]"
command = [
  "x", # ] "
  "y",
]
env = { A = "1", B = "2" }
"where" = 'pod:[[x]]'
'''
    found = {problem.key: problem.line for problem in problems(text)}
    assert found == {"serve[0].name": 8, "serve[0].where": 14}


def test_what_is_left_out_has_its_default_and_is_not_judged():
    profile = read("schema = 1")
    assert profile == Profile(schema=1)
    assert profile.hardware == Hardware()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("256 GiB", "274_877_906_944"),
        ("256gib", "274_877_906_944"),
        ("1.5TB", "1_500_000_000_000"),
        ("500 MB", "500_000_000"),
        ("64 KiB", "65_536"),
        ("7 B", "7"),
    ],
)
def test_a_size_in_words_is_answered_with_the_number_to_write(text, count):
    (problem,) = problems(f'schema = 1\n[paths]\ntmp_free_min_bytes = "{text}"')
    assert problem.wanted.endswith(f"; write {count}")


@pytest.mark.parametrize("text", ["lots", "256", "256 G", "-1 GiB", "1e3 GiB", "٣ GiB", ""])
def test_what_is_no_size_gets_no_number(text):
    (problem,) = problems(f'schema = 1\n[paths]\ntmp_free_min_bytes = "{text}"')
    assert "write" not in problem.wanted
    assert "a whole number" in problem.wanted


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("amd64", "x86_64"),
        ("x86-64", "x86_64"),
        ("X86_64", "x86_64"),
        ("x64", "x86_64"),
        ("arm64", "aarch64"),
        ("AArch64", "aarch64"),
    ],
)
def test_an_architecture_has_the_name_that_linux_gives_it(name, meant):
    (problem,) = problems(f'schema = 1\n[hardware]\narchitecture = "{name}"')
    assert problem.wanted == f"wanted: what uname -m prints: {meant}"


@pytest.mark.parametrize("name", ["x86_64", "aarch64", "ppc64le", "riscv64", "i686"])
def test_what_uname_prints_is_an_architecture(name):
    assert read(f'schema = 1\n[hardware]\narchitecture = "{name}"').hardware.architecture == name


@pytest.mark.parametrize(
    ("name", "meant"),
    [("llama_cpp", "llama.cpp"), ("Llama CPP", "llama.cpp"), ("llamaserver", "llama-server")],
)
def test_a_known_engine_in_another_spelling_is_a_slip(name, meant):
    (problem,) = problems(f'schema = 1\n[[serve]]\nname = "a"\nengine = "{name}"')
    assert f"did you mean `{meant}`?" in problem.wanted


@pytest.mark.parametrize("name", [*ENGINES, "vLLM", "llama", "tgi", "vllm-omni", "mine", ""])
def test_any_other_engine_may_be_named(name):
    assert read(f'schema = 1\n[[serve]]\nname = "a"\nengine = "{name}"').serve[0].engine == name


def test_every_engine_that_is_guessed_is_one_that_checks_know():
    assert [name for name in ENGINES if not is_engine(name)] == []


def test_a_whole_profile_is_read():
    text = """\
schema = 1
[hardware]
memory_tolerance_ratio = 0
[[serve]]
name = "a"
command = "env X=1 server -t 4"
[[waiver]]
check = "a.b"
reason = "r"
ticket = "t"
until = 2026-01-31
"""
    profile = read(text)
    assert profile.hardware.memory_tolerance_ratio == 0.0
    assert isinstance(profile.hardware.memory_tolerance_ratio, float)
    assert profile.serve[0].argv == ("env", "X=1", "server", "-t", "4")
    assert isinstance(profile.waiver[0], Waiver)


def test_a_command_that_was_cut_inside_a_quotation_is_still_split():
    profile = read('schema = 1\n[[serve]]\nname = "a"\ncommand = "x"')
    object.__setattr__(profile.serve[0], "command", "server -t 4 'cut off")
    assert profile.serve[0].argv == ("server", "-t", "4", "'cut", "off")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("basis = 'guessed'", "expectation[0].basis"),
        ("lower_ratio = 0.1", "expectation[0].lower_ratio"),
        ("upper_ratio = -0.1", "expectation[0].upper_ratio"),
        ("unit = 'a b'", "expectation[0].unit"),
        ("runs = 0", "expectation[0].runs"),
        ("measured_at = 'yesterday'", "expectation[0].measured_at"),
        ("value = nan", "expectation[0].value"),
    ],
)
def test_an_expectation_with_a_slip_is_refused(line, key):
    good = {
        "check": "'machine.memory.total'",
        "value": "5",
        "unit": "'By'",
        "basis": "'measured'",
        "source": "'here'",
    }
    name, _, value = line.partition(" = ")
    rows = {**good, name: value}
    text = "schema = 1\n[[expectation]]\n" + "\n".join(f"{k} = {v}" for k, v in rows.items())
    (problem,) = problems(text, ExpectationFile)
    assert problem.key == key
    assert problem.line


# the JSON Schema


def load_tool():
    path = ROOT / "tools" / "profile_schema.py"
    spec = importlib.util.spec_from_file_location("profile_schema", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_schema_is_the_one_that_the_classes_make(tmp_path, monkeypatch, capsys):
    tool = load_tool()
    assert SCHEMA.read_text("utf-8") == tool.schema_text()
    assert tool.main(["--check"]) == 0
    stale = tmp_path / "profile-1.json"
    stale.write_text("{}")
    monkeypatch.setattr(tool, "SCHEMA", stale)
    assert tool.main(["--check"]) == 1
    assert "tools/profile_schema.py" in capsys.readouterr().out
    assert tool.main([]) == 0
    assert stale.read_text("utf-8") == SCHEMA.read_text("utf-8")


def test_the_schema_is_one_and_takes_what_the_reader_takes():
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted((ROOT / "expected" / "hosts").glob("example-*.toml")):
        read_document(Profile, load_toml(path))
        plain = json.loads(json.dumps(tomli.loads(path.read_text("utf-8")), default=str))
        assert not list(validator.iter_errors(plain)), path
    assert list(validator.iter_errors({"schema": 1, "hardwear": {}}))
    assert list(validator.iter_errors({"schema": 1, "hardware": {"memory_total_bytes": 0}}))


def test_every_key_of_the_schema_says_what_it_means():
    schema = json_schema(Profile, identifier="x", title="t")
    tables = [schema, *schema["$defs"].values()]
    rows = [(name, row) for table in tables for name, row in table["properties"].items()]
    assert len(rows) > 20
    for name, row in rows:
        assert row["description"].endswith((".", "…")), name
