"""Whether what is installed in a Python environment fits together."""

from __future__ import annotations

from collections.abc import Iterator

from checks.core.codec import Json
from checks.core.expectation import Basis, Case, Expected, NotDeclared, Wanted
from checks.core.facts import BOX, Unseen
from checks.core.finding import Judgement, fail, not_seen, ok
from checks.core.registry import check
from checks.machine.facts import (
    PythonEnvironment,
)


def _environments(expected: Expected) -> Iterator[Case[None]]:
    for index, entry in enumerate(expected.profile.python):
        source = f"{expected.profile_file}: python[{index}]"
        wanted = Wanted(value=None, basis=Basis.DECLARED, source=source)
        yield Case(subject=entry.name, wanted=wanted)
    if not expected.profile.python:
        yield Case(subject=BOX, wanted=NotDeclared(fact="not declared: no [[python]]"))


@check(
    "machine.python.dependencies",
    sees=PythonEnvironment,
    cases=_environments,
    causes={
        "interpreter-missing": "there is no file at the path of the interpreter that the profile names",
        "interpreter-broken": "the interpreter does not start",
        "broken-requirements": "a package that is installed requires another that is not, or is in "
        "a version that it does not work with",
    },
)
def requirements_met(seen: PythonEnvironment, wanted: None) -> Judgement:  # noqa: ARG001 - as any judge
    """What is installed in a Python environment fits together.

    Looks at what `pip check` says in the interpreter that the profile's [[python]] names, without
    the suite's own settings of Python and pip; where it has no pip, at `uv pip check`. Fails where
    the interpreter is not there or does not start, and where a requirement is not met.
    What to do: install what is missing into that environment, or make it anew from its lock file;
    `PATH -m pip check` shows that it worked; rerun.
    """
    observed: dict[str, Json] = {"start": seen.start}
    expected: dict[str, Json] = {"start": "ok"}
    if seen.start == "missing":
        return fail(
            "interpreter-missing",
            f"there is no file {seen.path}",
            remedy="make the environment anew (a virtual one breaks with the Python that it was made "
            "of), or correct the path in the profile: it names the interpreter, not the folder; "
            "rerun",
            observed=observed,
            expected=expected,
        )
    if seen.start != "ok":
        return fail(
            "interpreter-broken",
            f"{seen.path} does not start: {seen.start}",
            remedy=f"start it by hand (`{seen.path} -c 'import sys'`), make the environment anew, and "
            "rerun",
            observed=observed,
            expected=expected,
        )
    complaints = seen.complaints
    if isinstance(complaints, Unseen):
        return not_seen(
            "whether its packages fit together was",
            complaints,
            remedy=f"`{seen.path} -m pip check` by hand; where it has no pip, put uv on PATH, or "
            f"`{seen.path} -m ensurepip`; rerun",
            observed=observed,
        )
    count = len(complaints) + seen.complaints_left_out_count
    observed["unmet_count"] = count
    expected["unmet_count"] = 0
    if complaints:
        more = f" (and {count - 1} more)" if count > 1 else ""
        return fail(
            "broken-requirements",
            f"{complaints[0]}{more}",
            remedy="install what is missing or does not fit, or make the environment anew from its "
            f"lock file; `{seen.path} -m pip check` says nothing more; rerun",
            observed=observed,
            expected=expected,
            notes=seen.warnings,
            evidence=complaints,
        )
    return ok(
        f"{seen.checker} finds nothing broken",
        observed=observed,
        expected=expected,
        notes=seen.warnings,
    )
