"""Changes the judges, one small change at a time, and sees whether the tests notice.

    make mutate                                       every judge, and what weighs and reads for them (TESTS)
    make mutate ARGS='checks/machine/judge/cpu.py'        these files alone

The changes ("mutants") are cosmic-ray's. Its own runner starts a new Python for each, which takes
seconds; here each runs in a fork of one process that has everything imported but the changed
module, and the changed source is compiled from memory: no file of the checkout is ever touched.

Ends with 1 where a judge module scores below 90 %, where a judge has no mutant in its body, where
the tests are red without any change, where a planted fault is not noticed, and where an entry of
equivalent.toml fits nothing any more.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import fnmatch
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
LOWEST_SCORE = 0.9
DEADLINE_S = 20
"""A mutant that runs longer than this hangs, and a hang is noticed."""
CONTROLS = "tests/test_registry.py::test_each_control_comes_out_as_it_says"
TESTS: dict[str, tuple[str, ...]] = {
    "checks/core/outcome.py": (
        "tests/core/test_outcome_edges.py",
        "tests/core/test_outcome.py",
    ),
    "checks/engines/threads.py": ("tests/engines/test_threads.py",),
    "checks/ledger/swap.py": ("tests/ledger/test_swap.py",),
}
"""What is mutated besides the judges, and the tests that must notice."""

UNNEEDED = (
    "cacheprovider",
    "logging",
    "unraisableexception",
    "threadexception",
)
"""Plugins of pytest that cost time and notice nothing here."""

SURVIVED, NOTICED, NOT_LOADED, RED_HARNESS = 0, 1, 2, 3
"""Exit codes of the child that runs one mutant."""


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    """Path of the file, from the top of the checkout."""
    operator: str
    judge: str
    """Function that is changed; empty at the top of the module."""
    line: int
    text: str
    """The line as it stood, stripped."""
    source: str
    """The whole module, changed."""
    inert: bool
    """Changes only annotations, which are never run (`from __future__ import annotations`)."""


@dataclass
class Score:
    """How the mutants of one function, or of a module, came out."""

    made: int = 0
    killed: int = 0
    equivalent: int = 0

    @property
    def strict(self) -> float:
        """With the equivalent ones counted as survivors."""
        return self.killed / self.made if self.made else 1.0

    @property
    def fair(self) -> float:
        """Without the equivalent ones."""
        real = self.made - self.equivalent
        return self.killed / real if real else 1.0


# Making mutants


def functions(source: str) -> dict[str, tuple[int, int]]:
    """Give the first and last line of each top-level function and class, decorators included."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = (first, node.end_lineno or node.lineno)
    return found


def judges(source: str) -> dict[str, tuple[int, int]]:
    """Give the lines of the body of each function that `@check` registers."""
    return {
        node.name: (node.body[0].lineno, node.end_lineno or node.lineno)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(d).startswith("check(") for d in node.decorator_list)
    }


class _Bare(ast.NodeTransformer):
    """Takes away what a module with postponed annotations never runs."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(value=None)
        return self.generic_visit(node)


def running(source: str) -> str:
    """Give what a module does, without its annotations and its layout."""
    return ast.dump(_Bare().visit(ast.parse(source)))


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Make every mutant that cosmic-ray knows of a module."""
    # Here, for the tests of this file: cosmic-ray takes a second to load.
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    lines = source.splitlines()
    spans = functions(source)
    unchanged = running(source)
    tree = get_ast(source)
    for name in operator_names():
        kind = get_operator(name)
        if kind.arguments() or name.endswith("/NoOp"):
            continue
        operator = kind()
        places = [
            start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)
        ]
        for occurrence, (line, _) in enumerate(places):
            changed = mutate_code(source, operator, occurrence)
            if changed is None:
                raise RuntimeError(f"{path}:{line}: cosmic-ray did not apply {name}")
            owner = next((n for n, (a, b) in spans.items() if a <= line <= b), "")
            yield Mutant(
                module=path,
                operator=name.partition("/")[2],
                judge=owner,
                line=line,
                text=lines[line - 1].strip(),
                source=changed,
                inert=_parses(changed) and running(changed) == unchanged,
            )


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def planted(path: str, source: str) -> Iterator[Mutant]:
    """Make one gross fault of each judge: it always passes. Elsewhere: it gives nothing."""
    own = judges(source)
    for name in own or functions(source):
        tree = ast.parse(source)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                node.body = ast.parse("return ok('planted')" if own else "return None").body
                yield Mutant(
                    module=path,
                    operator="planted",
                    judge=name,
                    line=node.lineno,
                    text="",
                    source=ast.unparse(ast.fix_missing_locations(tree)),
                    inert=False,
                )


# Running one


class _Loader(importlib.abc.Loader):
    """Runs a module from the source in hand."""

    def __init__(self, source: str, path: Path) -> None:
        self.source = source
        self.path = path
        self.ran = False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.ran = True
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for one module only."""

    def __init__(self, name: str, loader: _Loader) -> None:
        self.name = name
        self.loader = loader

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_loader(name, self.loader, origin=str(self.loader.path))


def module_name(path: str) -> str:
    """Give the name that a file is imported by."""
    return path.removesuffix(".py").replace("/", ".")


def run_child(mutant: Mutant, tests: Sequence[str]) -> int:
    """Run the tests with the mutant in place of its module. For a forked child; gives its exit."""
    signal.alarm(DEADLINE_S)
    gc.disable()
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    name = module_name(mutant.module)
    if name in sys.modules:
        return RED_HARNESS  # the fork holds the true module already: nothing would be shown
    loader = _Loader(mutant.source, ROOT / mutant.module)
    sys.meta_path.insert(0, _Finder(name, loader))
    import pytest

    code = pytest.main(
        [
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"),
            *("-x", "-q", "--tb=no", "--no-header", "--assert=plain"),
            *(word for name in UNNEEDED for word in ("-p", f"no:{name}")),
            *tests,
        ]
    )
    if not loader.ran:
        return RED_HARNESS
    if name in sys.modules and sys.modules[name].__loader__ is not loader:
        return RED_HARNESS
    if code == pytest.ExitCode.OK:
        return SURVIVED
    return NOTICED if code == pytest.ExitCode.TESTS_FAILED else NOT_LOADED


def run_all(work: Sequence[Mutant], tests: Sequence[str], at_once: int) -> list[str]:
    """Run mutants side by side; give how each came out, in order."""
    words = {
        SURVIVED: "survived",
        NOTICED: "killed",
        NOT_LOADED: "killed: it does not load",
        RED_HARNESS: "not run",
    }
    results = [""] * len(work)
    running_now: dict[int, int] = {}
    waiting = list(reversed(range(len(work))))
    while waiting or running_now:
        while waiting and len(running_now) < at_once:
            number = waiting.pop()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                code = NOT_LOADED
                try:
                    code = run_child(work[number], tests)
                finally:
                    os._exit(code)
            running_now[child] = number
        child, status = os.wait()
        number = running_now.pop(child)
        if os.WIFSIGNALED(status):
            results[number] = "killed: it hangs or crashes"
        else:
            results[number] = words[os.WEXITSTATUS(status)]
    return results


# Judging the outcome


@dataclass
class Excuse:
    """An entry of equivalent.toml."""

    judge: str
    operator: str
    line: str
    reason: str
    used: int = 0

    def fits(self, mutant: Mutant) -> bool:
        """Whether it speaks of this mutant."""
        return (
            self.judge == mutant.judge
            and self.line == mutant.text
            and fnmatch.fnmatchcase(mutant.operator, self.operator)
        )


def excuses(path: Path) -> dict[str, list[Excuse]]:
    """Read equivalent.toml: module = entries."""
    import tomli

    rows = tomli.loads(path.read_text("utf-8")).get("equivalent", [])
    found: dict[str, list[Excuse]] = {}
    for row in rows:
        module = row.pop("module")
        found.setdefault(module, []).append(Excuse(**row))
    return found


def difference(mutant: Mutant, source: str) -> str:
    """Show a mutant as the lines that it changes."""
    rows = difflib.unified_diff(
        source.splitlines(), mutant.source.splitlines(), n=0, lineterm="", fromfile="", tofile=""
    )
    return "\n".join(f"      {row}" for row in list(rows)[3:])


def tests_of(path: str) -> tuple[str, ...]:
    """Name the tests that must notice a change of a module."""
    if path in TESTS:
        return TESTS[path]
    room = Path(path).parent
    if room.name == "judge":  # a file a topic, and so are its tests
        own = [ROOT / "tests" / room.parent.name / f"test_judge_{Path(path).stem}.py"]
    else:
        own = sorted((ROOT / "tests" / room.name).glob("test_judge*.py"))
    return (CONTROLS, *(str(file.relative_to(ROOT)) for file in own))


def judge_modules(root: Path) -> list[str]:
    """List the files that hold judges: `judge.py` of an area, or the topics in its `judge/`."""
    found = [*root.glob("checks/*/judge.py"), *root.glob("checks/*/judge/*.py")]
    return sorted(str(path.relative_to(root)) for path in found if path.name != "__init__.py")


def report(path: str, at_once: int, known: list[Excuse]) -> list[str]:
    """Mutate one module, print how it came out, and give what is wrong."""
    source = (ROOT / path).read_text("utf-8")
    tests = tests_of(path)
    started_s = time.monotonic()
    same = Mutant(path, "none", "", 1, "", source, inert=True)
    faults = list(planted(path, source))
    first = run_all([same, *faults], tests, at_once)
    if first[0] != "survived":
        return [f"{path}: its tests do not pass without any change ({first[0]})"]
    wrong = [
        f"{path}: {fault.judge}: a body of one line was not noticed ({result})"
        for fault, result in zip(faults, first[1:], strict=True)
        if not result.startswith("killed")
    ]
    made = list(mutants(path, source))
    work = [mutant for mutant in made if not mutant.inert]
    results = run_all(work, tests, at_once)
    scores: dict[str, Score] = {}
    bodies = dict.fromkeys(judges(source), 0)
    ways: Counter[str] = Counter(results)
    survivors = []
    for mutant, result in zip(work, results, strict=True):
        score = scores.setdefault(mutant.judge, Score())
        score.made += 1
        if result == "not run":
            wrong.append(f"{path}:{mutant.line}: {mutant.operator}: the mutant was not loaded")
        elif result == "survived":
            excuse = next((entry for entry in known if entry.fits(mutant)), None)
            if excuse is None:
                survivors.append(mutant)
            else:
                excuse.used += 1
                score.equivalent += 1
        else:
            score.killed += 1
        span = judges(source).get(mutant.judge)
        if span and span[0] <= mutant.line <= span[1]:
            bodies[mutant.judge] += 1
    total = Score(
        made=sum(score.made for score in scores.values()),
        killed=sum(score.killed for score in scores.values()),
        equivalent=sum(score.equivalent for score in scores.values()),
    )
    print(f"\n{path}: {len(faults)} planted faults noticed, {len(made)} mutants, of which "
          f"{len(made) - len(work)} change only annotations and were not run")  # fmt: skip
    print(
        f"  {'function':<32}{'made':>6}{'killed':>8}{'survived':>10}{'equivalent':>12}{'score':>8}"
    )
    for name in [*functions(source), ""]:
        if name in scores:
            _row(name or "(module)", scores[name], "judge" if name in bodies else "")
    _row("all", total, "")
    print(f"  with the equivalent ones counted as survivors: {total.strict:.1%}")
    print("  " + ", ".join(f"{count} {way}" for way, count in sorted(ways.items())))
    for mutant in survivors:
        print(f"  SURVIVED {path}:{mutant.line} in {mutant.judge or '(module)'}: {mutant.operator}")
        print(difference(mutant, source))
    print(f"  took {time.monotonic() - started_s:.0f} s; tests: {' '.join(tests)}")
    wrong += [
        f"{path}: {name}: no mutant in its body" for name, count in bodies.items() if not count
    ]
    wrong += [
        f"{path}: {name}: scores {scores[name].fair:.1%}, wanted are {LOWEST_SCORE:.0%}"
        for name in bodies
        if name in scores and scores[name].fair < LOWEST_SCORE
    ]
    if total.fair < LOWEST_SCORE:
        wrong.append(f"{path}: scores {total.fair:.1%}, wanted are {LOWEST_SCORE:.0%}")
    wrong += [
        f"{EQUIVALENT.name}: {entry.judge}: {entry.operator}: `{entry.line}` fits no survivor"
        for entry in known
        if not entry.used
    ]
    return wrong


def _row(name: str, score: Score, kind: str) -> None:
    left = score.made - score.killed - score.equivalent
    print(
        f"  {name:<32}{score.made:>6}{score.killed:>8}{left:>10}{score.equivalent:>12}"
        f"{score.fair:>8.1%}  {kind}".rstrip()
    )


def main() -> int:
    """Mutate what the command line names, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module", nargs="*", help="files to mutate; all if none is named")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    found = judge_modules(ROOT)
    known = excuses(EQUIVALENT)
    wrong = []
    at_once = len(os.sched_getaffinity(0))
    for path in given.module or [*found, *(path for path in TESTS if Path(path).exists())]:
        # One fork a module, so that what it needs imported is not what the next one changes.
        sys.stdout.flush()
        wrong += _apart(path, at_once, known.pop(path, []))
    if not given.module:
        wrong += [f"{EQUIVALENT.name}: there is no module {path}" for path in known]
    for line in wrong:
        print(f"WRONG  {line}")
    print("mutation: " + ("not good enough" if wrong else "good"))
    return 1 if wrong else 0


def _apart(path: str, at_once: int, known: list[Excuse]) -> list[str]:
    pipe, end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(pipe)
            _warm(path)
            os.write(end, "\n".join(report(path, at_once, known)).encode())
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(end)
    with os.fdopen(pipe, "rb") as answer:
        wrong = answer.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    return [*wrong, f"{path}: could not be mutated"] if status else wrong


def _warm(path: str) -> None:
    """Import what every mutant needs, and nothing that imports the module itself."""
    import pytest  # noqa: F401 - so that no child has to

    changed = module_name(path)
    area = changed.rpartition(".")[0]
    for name in ("checks.core.runner", "checks.core.outcome", f"{area}.facts", f"{area}.probe"):
        if (ROOT / f"{name.replace('.', '/')}.py").exists() and not _imports(name, changed):
            importlib.import_module(name)


def _imports(name: str, wanted: str) -> bool:
    """Whether importing a module imports another one; asked of a fork, which forgets it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            importlib.import_module(name)
            status = int(wanted in sys.modules)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


if __name__ == "__main__":
    sys.exit(main())
