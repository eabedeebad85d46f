"""Profiles and expectations that nobody meant: located errors, all at once, and never a crash."""

import datetime
import json
import random

import pytest
import tomli
from hypothesis import HealthCheck, given, settings, strategies as st

from checks.core.codec import encode
from checks.core.errors import PreflightError, ProfileError
from checks.core.load import load_host
from checks.core.profile import Profile
from checks.core.reader import read_document
from checks.core.registry import load_areas
from checks.core.runner import Runner
from checks.core.toml import parse_toml
from checks.core.world import World
from checks.ledger.schema import parse_ledger
from checks.report.text import visible
from tests.fuzz.conftest import EXPECTATIONS, HOST, PROFILE
from tests.support.fuzz import ESCAPES, change_bytes, watchdog
from tests.support.soak import times

REGISTRY = load_areas()
ROUNDS = [pytest.param(40, id="sample")] + [
    pytest.param(1_000, id=f"round-{number}", marks=pytest.mark.slow)
    for number in range(times(4, 2))
]


# Any bytes


def located(error: PreflightError, *names: str) -> None:
    """See that an error names the file, a line or a key, and what is wanted."""
    assert isinstance(error, ProfileError)
    assert error.problems
    for problem in error.problems:
        assert any(problem.file.endswith(name) for name in names)
        whole_file = " bytes long" in problem.found or "cannot be read" in problem.found
        assert problem.line or problem.key or whole_file, problem
        assert problem.found
        assert problem.wanted
    assert "\x1b" not in visible(str(error))


class Nowhere:
    """A recorder that keeps nothing."""

    def opened(self, *_: object, **__: object) -> None: ...

    seen = controlled = found = opened


def use(loaded, material) -> None:
    """Do with expectations what a run does: plan, and judge what a ledger recorded."""
    encode(loaded.profile)
    encode(loaded.numbers)
    ledger = parse_ledger(material.ledger, "ledger")
    runner = Runner(
        registry=REGISTRY,
        expected=loaded.expected,
        recorder=Nowhere(),
        world=World(),
        recorded=ledger.observations(REGISTRY),
        recorded_end="complete",
    )
    for check in REGISTRY.checks.values():
        for case in runner.cases(check):
            finding = runner.judge(check.name, case.subject)
            assert "the judge ended with" not in finding.says, finding.says
            encode(finding)


def write(folder, profile: bytes, numbers: bytes) -> None:
    for room, raw in (("hosts", profile), ("measured", numbers)):
        (folder / room).mkdir(exist_ok=True)
        (folder / room / f"{HOST}.toml").write_bytes(raw)


def goods(material, which: str) -> dict[str, bytes]:
    """Give the files that stay as they are; a measured number counts where nothing is declared."""
    profile = material.profile if which == "profile" else b"schema = 1\n"
    return {"profile": profile, "expectations": material.expectations}


@pytest.mark.parametrize("count", ROUNDS)
@pytest.mark.parametrize("which", ["profile", "expectations"])
def test_bytes_of_a_file_may_be_anything(material, tmp_path, request, which, count):
    random_ = random.Random(request.node.callspec.id)
    good = goods(material, which)
    refused = 0
    for _ in range(count):
        changed = {**good, which: change_bytes(random_, good[which], tuple(good.values()))}
        write(tmp_path, changed["profile"], changed["expectations"])
        with watchdog():
            try:
                loaded = load_host(HOST, [tmp_path], REGISTRY.units())
            except PreflightError as error:
                located(error, f"/{HOST}.toml")
                refused += 1
            else:
                use(loaded, material)
    assert refused > 0, "no change that was made is one that must be refused"


# Any value under any key


def toml(value: object) -> str:
    """Write a value on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return (
            json.dumps(value, ensure_ascii=True)
            .replace("\\ud800", "\\ufffd")
            .replace("\x7f", "\\u007f")
        )
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    return repr(value)


TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", " ", "this", "pid:1", "port:99999", ESCAPES, "\x00", "'", "a'b", "-", "/"]
    ),
).map(lambda text: text.encode("utf-8", "replace").decode())
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**53, 10**300, 10**4_000, 1.0, 1e308, -1e308]),
    st.floats(),
    TEXTS,
    st.dates(),
    st.datetimes(),
    st.times(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
PROFILE_KEYS = {
    "": ["schema", "description", "hardware", "paths", "serve", "checks", "waiver"],
    "hardware": list(tomli.loads(PROFILE)["hardware"]),
    "paths": list(tomli.loads(PROFILE)["paths"]),
    "serve": ["name", "engine", "command", "env", "where", "model", "model_bytes"],
    "checks": ["optional"],
    "waiver": ["check", "subject", "reason", "ticket", "until"],
}
NUMBER_KEYS = {
    "": ["schema", "expectation"],
    "expectation": [
        *tomli.loads(EXPECTATIONS)["expectation"][0],
    ],
}


@st.composite
def documents(draw, text: str, keys: dict[str, list[str]]):
    """Take a good document and put anything anywhere."""
    data = tomli.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        section = draw(st.sampled_from(list(keys)))
        key = draw(st.one_of(st.sampled_from(keys[section]), TEXTS))
        target = data if not section else data.get(section)
        if isinstance(target, list) and target:
            target = draw(st.sampled_from(target))
        if isinstance(target, dict):
            if draw(st.integers(0, 5)) == 0:
                target.pop(key, None)
            else:
                target[key] = draw(VALUES)
    lines = "\n".join(f"{toml(key)} = {toml(value)}" for key, value in data.items())
    return lines.encode("utf-8", "replace")


def fuzzing(count: int):
    """Settings: the same inputs in every run, and no time limit but the watchdog's."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


STATE = {}


@pytest.fixture(autouse=True, scope="module")
def _state(material, tmp_path_factory):
    # not arguments of the tests: hypothesis would print them whole
    STATE["material"] = material
    STATE["folder"] = tmp_path_factory.mktemp("any-value")


def check_value(which: str, raw: bytes) -> None:
    material, folder = STATE["material"], STATE["folder"]
    changed = {**goods(material, which), which: raw}
    write(folder, changed["profile"], changed["expectations"])
    with watchdog():
        try:
            loaded = load_host(HOST, [folder], REGISTRY.units())
        except PreflightError as error:
            located(error, f"/{HOST}.toml")
        else:
            use(loaded, material)


@given(raw=documents(PROFILE, PROFILE_KEYS))
@fuzzing(60)
def test_any_value_under_any_key_of_a_profile_sample(raw):
    check_value("profile", raw)


@pytest.mark.slow
@given(raw=documents(PROFILE, PROFILE_KEYS))
@fuzzing(1_500)
def test_any_value_under_any_key_of_a_profile(raw):
    check_value("profile", raw)


@given(raw=documents(EXPECTATIONS, NUMBER_KEYS))
@fuzzing(60)
def test_any_value_under_any_key_of_expectations_sample(raw):
    check_value("expectations", raw)


@pytest.mark.slow
@given(raw=documents(EXPECTATIONS, NUMBER_KEYS))
@fuzzing(1_500)
def test_any_value_under_any_key_of_expectations(raw):
    check_value("expectations", raw)


# Planted faults, in every layout that TOML knows


class Writer:
    """Writes TOML in a layout that is drawn, and notes the line of each key and element."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.text = ""
        self.lines: dict[str, int] = {}

    def put(self, text: str) -> None:
        self.text += text

    def note(self, path: str) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def key(self, name: str) -> str:
        plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
        forms = [json.dumps(name), f"'{name}'"]
        if plain:
            forms += [name] * 3
            forms.append('"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"')
        return self.random.choice(forms)

    def gap(self) -> str:
        return self.random.choice(("", " ", "\t", "  "))

    def comment(self) -> str:
        return self.random.choice(
            ("", "", "", " # a [b] = {c} \"d'", "  # [[serve]]", "\t# '''", ' # """ x = 1')
        )

    def between(self) -> None:
        """Write what may stand between statements."""
        for _ in range(self.random.randrange(3)):
            self.put(
                self.random.choice(("\n", "  \n", "# x = 1\n", "# [t]\n", "\t# '''\n", "\r\n"))
            )

    def value(self, value: object, path: str, *, multi: bool) -> None:
        """Write a value; `multi`: lists and strings may go over several lines."""
        if isinstance(value, dict):
            self.put("{" + self.gap())
            for number, (name, item) in enumerate(value.items()):
                self.put(", " if number else "")
                self.note(f"{path}.{name}")
                self.put(f"{self.key(name)}{self.gap()}={self.gap()}")
                self.value(item, f"{path}.{name}", multi=multi)
            self.put(self.gap() + "}")
        elif isinstance(value, list):
            broken = multi and self.random.random() < 0.6
            self.put("[")
            for number, item in enumerate(value):
                self.put("," if number else "")
                self.put(self.comment() + "\n  " if broken else self.gap())
                self.note(f"{path}[{number}]")
                self.value(item, f"{path}[{number}]", multi=multi)
            if broken:
                self.put(self.random.choice(("", ",")) if value else "")
                self.put(self.comment() + "\n")
            self.put("]")
        elif isinstance(value, str) and multi and self.random.random() < 0.3:
            # the first newline behind the quotes is not part of the text
            if "'" not in value and self.random.random() < 0.5:
                self.put(f"'''\n{value}'''")
            else:
                folded = value.replace("\\", "\\\\").replace('"', '\\"')
                self.put(f'"""\n\\\n   {folded}"""' if value[:1] != " " else f'"""\n{folded}"""')
        elif isinstance(value, str) and "'" not in value and self.random.random() < 0.3:
            self.put(f"'{value}'")
        else:
            self.put(toml(value))

    def statement(self, name: str, value: object, path: str) -> None:
        self.between()
        self.put(self.random.choice(("", "", "  ")))
        full = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and self.random.random() < 0.4:
            for inner, item in value.items():  # dotted keys
                self.note(full)
                self.note(f"{full}.{inner}")
                dot = f"{self.gap()}.{self.gap()}"
                self.put(f"{self.key(name)}{dot}{self.key(inner)}{self.gap()}={self.gap()}")
                self.value(item, f"{full}.{inner}", multi=True)
                self.put(self.comment() + "\n")
            return
        self.note(full)
        self.put(f"{self.key(name)}{self.gap()}={self.gap()}")
        self.value(value, full, multi=True)
        self.put(self.comment() + "\n")

    def header(self, name: str, brackets: str, path: str) -> None:
        self.between()
        self.note(path.partition("[")[0])
        self.lines[path] = self.text.count("\n") + 1
        dots = f"{self.gap()}.{self.gap()}".join(self.key(part) for part in name.split("."))
        self.put(f"{brackets}{self.gap()}{dots}{self.gap()}{brackets.replace('[', ']')}")
        self.put(self.comment() + "\n")

    def document(self, data: dict) -> None:
        """Write scalars first, then tables in any order."""
        tables = []
        for name, value in data.items():
            tabular = isinstance(value, dict) or (
                isinstance(value, list) and value and isinstance(value[0], dict)
            )
            if tabular and self.random.random() < 0.75:
                tables.append((name, value))
            else:
                self.statement(name, value, "")
        self.random.shuffle(tables)
        for name, value in tables:
            if isinstance(value, dict):
                self.header(name, "[", name)
                self.table(value, name, name)
            else:
                for index, item in enumerate(value):
                    self.header(name, "[[", f"{name}[{index}]")
                    self.table(item, f"{name}[{index}]", name)

    def table(self, data: dict, path: str, name: str) -> None:
        later = []
        for key, value in data.items():
            if isinstance(value, dict) and self.random.random() < 0.5:
                later.append((key, value))
            else:
                self.statement(key, value, path)
        for key, value in later:
            self.header(f"{name}.{key}", "[", f"{path}.{key}")
            self.table(value, f"{path}.{key}", f"{name}.{key}")


GOOD = {
    "schema": 1,
    "description": "a box",
    "hardware": {"architecture": "x86_64", "memory_total_bytes": 5, "assumed": ["architecture"]},
    "paths": {"tmp": "/tmp", "model_cache": "/srv"},
    "serve": [
        {
            "name": "chat",
            "command": ["serve", "-t", "4"],
            "env": {"A": "b", "C D": "e"},
            "model": "org/chat",
        },
        {"name": "embed", "command": "serve -t 4", "where": "this", "model_bytes": 7},
        {"name": "third", "engine": "vllm"},
    ],
    "checks": {"optional": {"machine.identity.product": "none", "machine.memory.total": "none"}},
    "waiver": [
        {
            "check": "machine.disk.free",
            "reason": "r",
            "ticket": "t",
            "until": datetime.date(2099, 1, 1),
        }
    ],
}

FAULTS = {
    "schema": 2,
    "description": 5,
    "hardware.architecture": [1],
    "hardware.memory_total_bytes": "much",
    "hardware.assumed[0]": 7,
    "paths.tmp": "relative",
    "paths.model_cache": False,
    "serve[0].name": "a name",
    "serve[0].command[1]": 4,
    "serve[0].command[2]": 4,
    "serve[0].env.A": 1,
    "serve[0].env.C D": 1.5,
    "serve[0].model": 1,
    "serve[1].command": 'an "open quotation',
    "serve[1].where": "nowhere",
    "serve[1].model_bytes": 0,
    "serve[2].engine": True,
    "checks.optional.machine.identity.product": " ",
    "checks.optional.machine.memory.total": 1,
    "waiver[0].check": "no check",
    "waiver[0].reason": 1,
    "waiver[0].ticket": " ",
    "waiver[0].until": "2099-01-01",
    "serve[2].modle": "unknown key",
    "hardwear": "unknown key",
    "serve[0].env2": {"unknown": "key"},
}
"""Key path = the wrong value to put there; each is one problem by itself."""


def planted(paths: list[str]) -> dict:
    """Give the good document with faults in it."""
    data = json.loads(json.dumps({**GOOD, "waiver": []}))
    data["waiver"] = [dict(GOOD["waiver"][0])]
    for path in paths:
        target = data
        steps = steps_of(path)
        for step in steps[:-1]:
            target = target[step]
        target[steps[-1]] = FAULTS[path]
    return data


def steps_of(path: str) -> list:
    if path.startswith("checks.optional."):
        return ["checks", "optional", path.removeprefix("checks.optional.")]
    steps: list = []
    for part in path.split("."):
        name, *indexes = part.replace("]", "").split("[")
        steps += [name, *map(int, indexes)]
    return steps


def check_planted(paths: list[str], seed: int) -> None:
    writer = Writer(random.Random(seed))
    data = planted(paths)
    writer.document(data)
    raw = writer.text.encode()
    assert tomli.loads(writer.text) == data, writer.text
    with watchdog():
        document = parse_toml(raw, "host.toml")
        problems = ()
        try:
            read_document(Profile, document)
        except ProfileError as error:
            problems = error.problems
    found = {problem.key.replace('"', ""): problem.line for problem in problems}
    assert len(found) == len(problems)
    assert found == {path: writer.lines[path] for path in paths}, writer.text


PLANTED = st.lists(st.sampled_from(sorted(FAULTS)), unique=True, max_size=12)
SEEDS = st.integers(0, 2**32)


@given(paths=PLANTED, seed=SEEDS)
@fuzzing(100)
def test_k_planted_faults_are_k_problems_each_with_its_line_sample(paths, seed):
    check_planted(paths, seed)


@pytest.mark.slow
@given(paths=PLANTED, seed=SEEDS)
@fuzzing(1_500)
def test_k_planted_faults_are_k_problems_each_with_its_line(paths, seed):
    check_planted(paths, seed)


def test_all_faults_at_once_are_all_told():
    for seed in range(5):
        check_planted(sorted(FAULTS), seed)
