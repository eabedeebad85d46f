"""Notes in a wheel, and in a source archive, which commit it was built from."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOTE = "preflight/_data/commit.txt"


def commit_of(root: Path) -> str | None:
    """Return the commit that is checked out at root.

    None where root is not the top of a git checkout, has no commit yet, or git is not there.
    Files may differ from the commit; a ledger holds the digest of the sources beside it.
    """

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        # A source archive that is unpacked inside some other checkout is not of that checkout.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None
        return git("rev-parse", "--verify", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # the parameter is hatchling's own
    """Adds preflight/_data/commit.txt to what is built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the note outside the tree and name it as one more file of the archive."""
        if version == "editable":
            return  # runs from the checkout, whose commit goes on changing
        commit = commit_of(Path(self.root))
        if commit is None:
            # Either a source archive, which carries the note already, or nothing is known.
            note = Path(self.root, NOTE)
            if note.is_file():
                build_data["force_include"][str(note)] = NOTE
            return
        self.folder = Path(tempfile.mkdtemp(prefix="preflight-build-"))
        note = self.folder / "commit.txt"
        note.write_text(f"{commit}\n", encoding="ascii")
        build_data["force_include"][str(note)] = NOTE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take the note away again."""
        del version, build_data, artifact_path
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)
