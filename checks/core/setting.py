"""Declares one key of what a person writes as TOML; `checks.core.reader` reads what is declared.

Apart from the reader, because a probe needs facts, facts the classes of what is expected of them,
and `preflight gate` reads the box with probes and no TOML: loading the reader would take as long as
all else that it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field as dataclass_field
from typing import Any

NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}"
"""Names become pytest ids, and `-k` takes only these characters."""


def setting(
    doc: str,
    *,
    default: object = MISSING,
    default_factory: Callable[[], object] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    pattern: str = "",
    form: str = "",
    check: Callable[[Any], str] | None = None,
    choices: tuple[object, ...] = (),
    unique: str = "",
) -> Any:  # noqa: ANN401 - like dataclasses.field
    """Declare one key: its meaning, its default and its bounds.

    Args:
        doc: what it means, with its unit.
        default: value if the key is left out; without one the key is required.
        default_factory: the same for values that cannot be shared.
        minimum: smallest allowed number.
        maximum: largest allowed number.
        pattern: regular expression that the whole text must match.
        form: the same in words, for errors.
        check: says what is wanted instead of a value of the right type; empty if it is good.
        choices: the only values allowed.
        unique: for a list of tables, the key whose values must differ.

    """
    metadata = {
        "doc": doc,
        "minimum": minimum,
        "maximum": maximum,
        "pattern": pattern,
        "form": form,
        "check": check,
        "choices": choices,
        "unique": unique,
    }
    if default_factory is not None:
        return dataclass_field(default_factory=default_factory, metadata=metadata)
    if default is MISSING:
        return dataclass_field(metadata=metadata)
    return dataclass_field(default=default, metadata=metadata)
