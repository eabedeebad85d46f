"""An error names the place, and is a line whatever stands at that place."""

import pytest

from checks.core.errors import LedgerError, Problem


@pytest.mark.parametrize("break_", ["\n", "\t", "\r", "\x1b", "\x85", "\u2028"])
@pytest.mark.parametrize("part", ["file", "key", "found", "wanted"])
def test_a_problem_is_one_line_and_sends_nothing_to_a_terminal(part, break_):
    said = {"file": "a.json", "key": "k", "found": "f", "wanted": "w"}
    said[part] += f"{break_}b.json: all is well"
    error = LedgerError(Problem(**said), Problem(**said))
    assert len(str(error).splitlines()) == 2
    assert break_.encode("unicode_escape").decode() in str(error)
    assert getattr(error.problems[0], part) == said[part], "the value itself is kept"


def test_the_names_of_files_and_keys_are_shown_as_they_are():
    problem = Problem(file="é/h.toml", line=3, key="serve[1].модель", found="“x”", wanted="a word")
    assert str(problem) == "é/h.toml:3: serve[1].модель: “x”; a word"
