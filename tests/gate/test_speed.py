"""How long an answer takes, against what Python itself takes to start on the same machine."""

import statistics
import subprocess
import sys
import time

import pytest

from checks.cli import main
from tests.support.runs import HERE, clean_environment

MOST_STARTS = 20
"""An answer takes 10 times as long as `python -c pass`; with jsonschema and the report it would be 25."""


@pytest.mark.slow
def test_an_answer_about_a_megabyte_takes_few_starts_of_python(host):
    host.made["notices"] = ["x" * 1_000 for _ in range(950)]
    host.ran("pass")
    host.made["notices"] = []
    assert host.newest().stat().st_size > 950_000
    words = host.words("--commit", "--min-interval", "1s")
    assert main(words) == 0
    env = clean_environment()
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    commands = {"gate": ["-m", "checks.cli", *words], "pass": ["-c", "pass"]}
    took_s = {name: [] for name in commands}
    for _ in range(21):
        for name, rest in commands.items():
            began_s = time.perf_counter()
            subprocess.run(
                [sys.executable, *rest], cwd=HERE, env=env, capture_output=True, check=False
            )
            took_s[name].append(time.perf_counter() - began_s)
    median_s = {name: statistics.median(seconds[1:]) for name, seconds in took_s.items()}
    assert median_s["gate"] < MOST_STARTS * median_s["pass"], median_s
