"""What every check must bring along, and what its code may touch: rules of the design, as tests."""

import ast
import re
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from checks.core.coverage import NOT_COVERED
from checks.core.facts import Facts, Unseen
from checks.core.registry import Registry, load_areas
from checks.core.runner import run_controls
from checks.core.scope import AREAS
from checks.core.verdict import LOOKS, Verdict

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = load_areas()
CHECKS = list(REGISTRY.checks.values())
each_check = pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])

UNITS = ("bytes", "s", "h", "ratio", "count", "cpus", "cores")
"""Last words of the names of numbers (rule 9)."""

COMPONENTS = {
    "adapter",
    "board",
    "cache",
    "container",
    "cpu",
    "disk",
    "driver",
    "engine",
    "gpu",
    "kernel",
    "memory",
    "model",
    "nic",
    "resolver",
    "settings",
}
"""Components of the fingerprint that the design names."""


# Controls


def worst(check, control):
    """Give what a judge says of a control; of several subjects that it finds, the worst."""
    said = check.judge(*control.seen, control.wanted)
    if not check.finds:
        return said
    return max(said.values(), key=lambda one: LOOKS[one.verdict].severity)


def test_each_control_comes_out_as_it_says():
    for check in CHECKS:
        outcome = run_controls(check)
        assert outcome.good, f"{check.name}: {outcome.detail}"


@each_check
def test_each_must_fail_control_fails_with_the_cause_that_it_names(check):
    for number, control in enumerate(check.controls, 1):
        said = worst(check, control)
        if control.fails:
            assert (said.verdict, said.cause) == (Verdict.FAIL, control.fails), number
        else:
            assert (said.verdict, said.cause) == (Verdict.PASS, ""), number


@each_check
def test_each_check_has_a_pair_of_controls_and_a_must_fail_one_for_each_cause(check):
    assert any(not control.fails for control in check.controls)
    assert {control.fails for control in check.controls} - {""} == set(check.causes)


@each_check
def test_controls_hand_over_the_facts_that_the_check_sees(check):
    for control in check.controls:
        assert tuple(type(seen) for seen in control.seen) == check.sees


# Texts


@each_check
def test_each_explanation_says_what_is_looked_at_what_fails_and_what_to_do(check):
    text = check.explanation
    assert re.search(r"\b(Looks at|Compares) ", text)
    assert re.search(r"\bFails\s+where\s", text)
    assert re.search(r"\bWhat to do: \S", text)
    looks, fails, do = (
        re.search(words, text).start()
        for words in (r"\b(Looks at|Compares) ", r"\bFails\s+where\s", r"\bWhat to do: ")
    )
    assert looks < fails < do
    assert check.title.endswith(".")
    assert len(check.title) <= 90


@each_check
def test_each_cause_has_a_slug_and_a_text(check):
    for slug, text in check.causes.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", slug)
        assert len(text) > 20


@each_check
def test_each_fail_tells_what_to_do_and_how_to_see_that_it_worked(check):
    for control in check.controls:
        said = worst(check, control)
        if control.fails:
            assert len(said.remedy) > 30
            assert "rerun" in said.remedy
            assert said.says
            assert said.observed


# Quantities


@each_check
def test_each_number_of_a_judgement_has_its_unit_in_its_name(check):
    for control in check.controls:
        said = worst(check, control)
        for side in (said.observed, said.expected):
            for name, value in side.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    assert name.rpartition("_")[2] in UNITS, f"{name} = {value}"


def test_each_number_of_a_fact_has_its_unit_in_its_name():
    without = {"inodes", "inodes_free"}  # counts of themselves, named as df -i does
    for kind in _facts_classes():
        for field in fields(kind):
            if re.search(r"\b(int|float)\b", str(field.type)) and field.name not in without:
                assert field.name.rpartition("_")[2] in {*UNITS, "cpus"}, f"{kind}.{field.name}"


def _facts_classes():
    found = list(Facts.__subclasses__())
    assert len(found) >= len(REGISTRY.probes)
    return [kind for kind in found if kind.__module__.startswith("checks.")]


# Premises, probes and coverage


@each_check
def test_each_premise_is_a_component_of_the_fingerprint(check):
    assert set(check.premise) <= COMPONENTS
    assert len(set(check.premise)) == len(check.premise)


def test_each_premise_is_described_by_facts_of_some_probe():
    described = set()
    for probe in REGISTRY.probes.values():
        source = ast.parse((ROOT / f"{probe.sees.__module__.replace('.', '/')}.py").read_text())
        for node in ast.walk(source):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                described.add(node.value)
    for check in CHECKS:
        assert set(check.premise) <= described, check.name


@each_check
def test_what_may_be_accepted_is_observed_by_some_control(check):
    """Else `accept` would find nothing to take, or take what has no unit."""
    if check.measures is not None:
        said = [worst(check, control) for control in check.controls]
        assert any(check.measures.quantity in one.observed for one in said)
        open_ = check.measures.lower_ratio is None and check.measures.upper_ratio is None
        assert open_ == (check.measures.unit == "")


@each_check
def test_what_each_check_sees_comes_from_one_probe(check):
    for kind in check.sees:
        assert REGISTRY.probe_of(kind).sees is kind
        assert is_dataclass(kind)
        assert issubclass(kind, Facts)


@each_check
def test_a_check_is_explained_only_by_checks_that_exist_and_by_none_in_a_circle(check):
    seen, waiting = set(), list(check.blocked_by)
    while waiting:
        name = waiting.pop()
        assert name in REGISTRY.checks
        assert name != check.name
        if name not in seen:
            seen.add(name)
            waiting += REGISTRY.checks[name].blocked_by


@each_check
def test_each_check_belongs_to_an_area_and_to_the_package_of_that_name(check):
    assert check.area in AREAS
    assert f"{check.judge.__module__}.".startswith(f"checks.{check.area}.judge.")


def test_an_area_with_checks_is_no_longer_listed_as_not_covered():
    assert not {area for area, _ in NOT_COVERED} & {check.area for check in CHECKS}


def test_a_reason_for_not_seeing_is_never_taken_for_a_value():
    for kind in _facts_classes():
        assert not issubclass(kind, Unseen)
        for field in fields(kind):
            assert field.default is field.default_factory, f"{kind}.{field.name} has a default"


# The suite


def suite_tests() -> list[tuple[str, str]]:
    """Give file and check of each marker in the suite."""
    found = []
    for path in sorted((ROOT / "preflight").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = [
                    decorator.args[0].value
                    for decorator in node.decorator_list
                    if isinstance(decorator, ast.Call)
                    and ast.unparse(decorator.func) == "pytest.mark.check"
                ]
                assert len(names) == 1, f"{path.name}: {node.name} speaks for {names}"
                assert len(node.body) == 1, f"{path.name}: {node.name} does more than ask"
                found.append((path.name, names[0]))
    return found


def test_each_check_has_exactly_one_test_in_the_suite_and_no_test_is_without_a_check():
    assert Counter(name for _, name in suite_tests()) == Counter(list(REGISTRY.checks))


def test_each_test_of_the_suite_stands_in_the_file_of_its_area():
    for file, name in suite_tests():
        assert file == f"test_{REGISTRY.checks[name].area}.py"


# What code may import

PURE = {
    "__future__",
    "collections",
    "collections.abc",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "itertools",
    "math",
    "re",
    "statistics",
    "string",
    "typing",
}
"""Of the standard library, what touches nothing outside. (datetime has a clock: see below.)"""

CLOCKS = {"now", "today", "utcnow"}
BUILT_IN_DOORS = {"open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint"}

PURE_ROOMS = [
    path.relative_to(ROOT)
    for room in ("*facts", "judge", "controls")
    for pattern in (f"*/{room}.py", f"*/{room}/*.py")
    for path in sorted((ROOT / "checks").glob(pattern))
]


def imports(path: Path) -> set[str]:
    """Name every module that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", PURE_ROOMS, ids=str)
def test_facts_judges_and_controls_touch_nothing_outside(path):
    foreign = {name for name in imports(path) if not name.startswith("checks.")}
    assert foreign <= PURE
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in CLOCKS, f"{path}:{node.lineno}: reads a clock"
        if isinstance(node, ast.Name):
            assert node.id not in BUILT_IN_DOORS, f"{path}:{node.lineno}: {node.id}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "checks/report").glob("*.py")), ids=lambda path: path.name
)
def test_reports_touch_nothing_outside(path):
    foreign = {name for name in imports(path) if not name.startswith(("checks.", "rich"))}
    assert foreign <= {*PURE, "io", "unicodedata", "json", "html"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Name):
            assert node.id not in BUILT_IN_DOORS, f"{path}:{node.lineno}: {node.id}"


def test_there_are_rooms_to_look_into():
    areas = {path.parts[1] for path in PURE_ROOMS}
    assert areas >= set(AREAS)
    assert len(PURE_ROOMS) >= 3 * len(AREAS)


LAYERS = (
    ("checks.core",),
    ("checks.engines",),
    tuple(f"checks.{area}" for area in AREAS),
    ("checks.ledger",),
    ("checks.report",),
    ("checks.session",),
    ("checks.verbs", "preflight"),
    ("checks.cli",),
)
"""Arrows point upwards in this list, never down."""


def layer(module: str) -> int:
    """Find the layer of a module; -1 for what is above all of them in the package itself."""
    for number, names in enumerate(LAYERS):
        if any(module == name or module.startswith(f"{name}.") for name in names):
            return number
    return -1


def module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)


OWN = sorted(
    path.relative_to(ROOT)
    for folder in ("checks", "preflight")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("path", OWN, ids=str)
def test_arrows_between_packages_point_one_way(path):
    here = module_of(path)
    assert layer(here) >= 0, f"{here} belongs to no layer: add it to LAYERS"
    for name in imports(path):
        if name.startswith(("checks.", "preflight")) and layer(name) >= 0:
            assert layer(name) <= layer(here), f"{here} imports {name}"


@pytest.mark.parametrize("path", OWN, ids=str)
def test_of_another_area_only_the_facts_are_imported(path):
    here = module_of(path)
    areas = {f"checks.{area}" for area in AREAS}
    own = next((area for area in areas if here.startswith(f"{area}.")), "")
    if not own:
        return
    for name in imports(path):
        other = next((area for area in areas if name.startswith(f"{area}.")), own)
        assert other == own or name == f"{other}.facts", f"{here} imports {name}"


@pytest.mark.parametrize("area", AREAS)
def test_facts_import_core_alone_and_judges_no_probe(area):
    rooms = ROOT.glob(f"checks/{area}/*facts.py")
    for path in rooms:
        for name in imports(path.relative_to(ROOT)):
            own = re.fullmatch(rf"checks\.{area}\.\w*facts", name)
            assert name in PURE or name.startswith("checks.core.") or own, name
    for path in PURE_ROOMS:
        if path.parts[1] == area:
            for name in imports(path):
                impure = re.search(r"\.(probe|world|child)(\.|$)", name)
                assert not impure, f"{path} imports {name}"


def test_heavy_packages_are_imported_nowhere():
    for path in OWN:
        tops = {name.partition(".")[0] for name in imports(path)}
        assert not tops & {"torch", "vllm", "transformers", "numpy", "tensorflow", "jax"}, path


# The registry refuses what is half


def test_a_second_check_of_the_same_name_is_refused():
    registry = Registry()
    registry.add_check(CHECKS[0])
    with pytest.raises(ValueError, match="dotted id of its own"):
        registry.add_check(CHECKS[0])


def test_a_second_probe_for_the_same_facts_is_refused():
    registry = Registry()
    probe = next(iter(REGISTRY.probes.values()))
    registry.add_probe(probe)
    with pytest.raises(ValueError, match="wants a dotted name of its own"):
        registry.add_probe(probe)
