"""Fails when a test was skipped for a reason that nobody agreed to.

    python .ci/skips.py [--unprivileged] REPORT

REPORT is what pytest --junitxml wrote. A skipped test proves nothing, so each one is printed, and
its reason has to begin with one of the words below.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from xml.etree import ElementTree

AGREED = ("gpu:", "opt-in:")
"""No such hardware here; or a test that somebody has to ask for."""

AGREED_UNPRIVILEGED = (*AGREED, "needs root:")
"""The same tests run as root in the same build."""


def skips(report: Path) -> tuple[int, list[tuple[str, str]]]:
    """Return how many tests the report holds, and name and reason of each that did not run."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own file
    found = []
    for case in cases:
        skipped = case.find("skipped")
        # An expected failure did run; strict mode fails it as soon as it passes.
        if skipped is None or skipped.get("type") == "pytest.xfail":
            continue
        reason = skipped.get("message", "")
        if reason == "collection skipped":  # a whole file; the reason is in the text
            reason = (skipped.text or "").rpartition("Skipped: ")[2].strip("')\" \n")
        found.append((f"{case.get('classname')}::{case.get('name')}", reason))
    return len(cases), found


def main() -> int:
    """Print the skips; return 1 if one of them was not agreed to, or if nothing ran at all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--unprivileged", action="store_true", help="allow `needs root:` as well")
    parser.add_argument("report", type=Path)
    asked = parser.parse_args()
    agreed = AGREED_UNPRIVILEGED if asked.unprivileged else AGREED

    total, found = skips(asked.report)
    refused = [reason for _, reason in found if not reason.startswith(agreed)]
    for name, reason in found:
        mark = "skip" if reason.startswith(agreed) else "SKIP NOT AGREED TO"
        print(f"{mark}: {name}: {reason or 'no reason given'}")
    if total == len(found):
        print(f"{asked.report.name}: no test ran")
        return 1
    if refused:
        words = ", ".join(f"`{word}`" for word in agreed)
        print(f"a reason for a skip has to begin with one of {words}: {len(refused)} do not")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
