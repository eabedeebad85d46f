"""Python environments of planted boxes, and a real one in a real run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.boxes import plain_box

CHECK = "machine.python.dependencies"


def profile(path: object) -> str:
    return f'[[python]]\nname = "vllm"\npath = "{path}"\n'


@pytest.mark.parametrize(
    ("row", "verdict", "cause"),
    [
        ({"code": 0, "output": "No broken requirements found."}, "pass", ""),
        (
            {"code": 1, "output": "a 1.0 has requirement b<2, but you have b 2.1."},
            "fail",
            "broken-requirements",
        ),
        ({"code": 127, "output": ""}, "fail", "interpreter-missing"),
        ({"code": 126, "output": "Exec format error"}, "fail", "interpreter-broken"),
        ({"code": 1, "output": "/srv/v/bin/python: No module named pip"}, "unknown", ""),
        ({"code": 1, "output": "Traceback (most recent)\nSystemError: x"}, "unknown", ""),
        (None, "unknown", ""),
    ],
)
def test_what_was_recorded_of_an_environment_is_judged(suite, tmp_path, row, verdict, cause):
    box = plain_box()
    if row:
        box.recorded["pip_check"] = {"/srv/v/bin/python": row}
    text = profile("/srv/v/bin/python")
    run = suite.run(tmp_path, root=box.write(tmp_path / "tree"), profile=text)
    found = run.finding(CHECK, "vllm")
    assert (found["verdict"], found["cause"]) == (verdict, cause)
    if verdict == "unknown":
        assert found["reason"] == "not-observable"
    if verdict == "pass":
        assert found["confirmed"]


@pytest.mark.slow
def test_a_real_environment_passes_until_a_requirement_is_not_met(suite, tmp_path):
    folder = tmp_path / "v"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    text = profile(folder / "bin" / "python")
    run = suite.run(tmp_path, "-k", "python", profile=text)
    assert run.finding(CHECK, "vllm")["verdict"] == "pass"
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "planted-1.0.dist-info").mkdir()
    (site / "planted-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\nRequires-Dist: missing-thing\n"
    )
    run = suite.run(tmp_path, "-k", "python", profile=text)
    found = run.finding(CHECK, "vllm")
    assert found["cause"] == "broken-requirements"
    assert found["says"] == "planted 1.0 requires missing-thing, which is not installed."
    assert run.code == 1


@pytest.mark.parametrize("path", ["venv/bin/python", "~/venv/bin/python", ""])
def test_the_path_of_an_interpreter_is_absolute(suite, tmp_path, path):
    run = suite.run(tmp_path, profile=profile(path))
    assert run.code == 4
    assert "wanted: an absolute path" in " ".join(run.out.split())
