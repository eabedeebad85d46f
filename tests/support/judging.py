"""What the tests of every judge share: an expectation, a reason, and numbers that are none."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from checks.core.expectation import Expectation, Expected
from checks.core.facts import Blind, Unseen
from checks.core.profile import LOCAL, Profile
from checks.core.registry import REGISTRY
from checks.core.verdict import Verdict

MIB = 1_048_576
GIB = 1_073_741_824
UNSEEN = Unseen(Blind.PERMISSION, "planted", "run as root to see it")
NOT_ASKED = Unseen(Blind.NOT_ASKED, "planted")


def expected(profile: Profile = LOCAL, *numbers: Expectation) -> Expected:
    return Expected(profile=profile, profile_file="h100-1.toml", numbers=numbers)


def same_text(text: str) -> str:
    """Make an equal text that is another object: `is` must not do for `==`."""
    return "".join(list(text))


def with_nan(value: object) -> Iterator[tuple[str, object]]:
    """Give copies of a value, each with one of its numbers replaced by NaN, and its name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield "", math.nan
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for name, copy in with_nan(item):
                yield name, (*value[:index], copy, *value[index + 1 :])
    elif isinstance(value, dict):
        for key, item in value.items():
            for name, copy in with_nan(item):
                yield name, value | {key: copy}
    elif is_dataclass(value):
        for field in fields(value):
            for name, copy in with_nan(getattr(value, field.name)):
                yield name or field.name, replace(value, **{field.name: copy})


def stopped_without(
    check: str, seen: tuple[object, ...], wanted: object, compared: set[str]
) -> set[str]:
    """Put NaN for each number in turn; give those of `compared` without which nothing ever passes."""
    judged = REGISTRY.checks[check].judge
    assert judged(*seen, wanted).verdict is Verdict.PASS
    tried, passed = set(), set()
    for field, copy in with_nan((*seen, wanted)):
        name = field or "wanted"
        if name in compared:
            tried.add(name)
            with contextlib.suppress(ValueError):  # such a number may have no text
                if judged(*copy).verdict is Verdict.PASS:
                    passed.add(name)
    return tried - passed
