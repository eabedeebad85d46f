"""A Python environment that fits together, and ones that do not."""

from __future__ import annotations

from dataclasses import replace

from checks.core.registry import control
from checks.machine.facts import (
    PythonEnvironment,
)

_WHOLE = PythonEnvironment(
    path="/srv/venv/bin/python",
    start="ok",
    version="Python 3.12.3",
    checker="pip check",
    complaints=(),
    complaints_left_out_count=0,
    warnings=(),
)
_CHECK = "machine.python.dependencies"
_UNMET = ("planted 1.0 requires other, which is not installed.",)
control(_CHECK, _WHOLE, passes=True)
control(_CHECK, replace(_WHOLE, complaints=_UNMET), fails="broken-requirements")
control(_CHECK, replace(_WHOLE, start="missing"), fails="interpreter-missing")
control(_CHECK, replace(_WHOLE, start="planted"), fails="interpreter-broken")
